//! The notices of a VM's door: lines of JSON on disk, which clients read from an offset.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::run_dir::{NOTICES, RunDir, private_file};

/// The limit of bytes for a VM's notices of one kind. A last notice then reports that there are more.
const MAX_BYTES: u64 = 512 << 10;

/// The kind of a notice. Each kind has its own limit, so that a flood of refusals hides no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Refused,
    Closed,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Refused => "refused",
            Kind::Closed => "closed",
        }
    }
}

#[derive(Default)]
struct Room {
    used_bytes: Cell<u64>,
    is_full: Cell<bool>,
}

pub struct Notices {
    file: RefCell<Option<File>>,
    /// The number of bytes that can be read.
    len: watch::Sender<u64>,
    refused: Room,
    closed: Room,
    /// The number of notices that the disk had no room for, until one is written again.
    unwritten: Cell<u64>,
    max_bytes: u64,
}

impl Notices {
    /// Creates the empty notices of a new VM.
    pub fn create(dir: &RunDir) -> io::Result<Rc<Self>> {
        private_file(&dir.file(NOTICES))?;
        let file = File::options()
            .read(true)
            .write(true)
            .open(dir.file(NOTICES))?;
        Ok(Rc::new(Self::of(Some(file), MAX_BYTES)))
    }

    fn of(file: Option<File>, max_bytes: u64) -> Self {
        Self {
            file: RefCell::new(file),
            len: watch::Sender::new(0),
            refused: Room::default(),
            closed: Room::default(),
            unwritten: Cell::new(0),
            max_bytes,
        }
    }

    /// Adds a notice. If its kind has no room left, this notice and all later ones of the kind are dropped.
    pub fn add(&self, kind: Kind, notice: &Value) {
        let room = match kind {
            Kind::Refused => &self.refused,
            Kind::Closed => &self.closed,
        };
        if room.is_full.get() {
            return;
        }
        let line = format!("{notice}\n");
        let used_bytes = room.used_bytes.get() + line.len() as u64;
        if used_bytes > self.max_bytes {
            room.is_full.set(true);
            self.write(&format!(
                "{}\n",
                json!({ "kind": "dropped", "of": kind.as_str() })
            ));
        } else if self.write(&line) {
            room.used_bytes.set(used_bytes);
        }
    }

    /// Returns true if the line was written. A notice about earlier unwritten notices precedes it.
    fn write(&self, line: &str) -> bool {
        let unwritten = self.unwritten.get();
        let word = match unwritten {
            0 => String::new(),
            _ => format!("{}\n", json!({ "kind": "unwritten", "count": unwritten })),
        };
        let text = word + line;
        let len = *self.len.borrow();
        let mut file = self.file.borrow_mut();
        let Some(open) = file.as_mut() else {
            return false;
        };
        // A partial notice from a full disk has no line end, and the next one overwrites it.
        match open.write_all_at(text.as_bytes(), len) {
            Ok(()) => {
                self.unwritten.set(0);
                self.len.send_replace(len + text.len() as u64);
                true
            }
            Err(error) => {
                eprintln!("writing a notice: {error}");
                self.unwritten.set(unwritten + 1);
                false
            }
        }
    }

    pub fn size_bytes(&self) -> u64 {
        *self.len.borrow()
    }

    /// Reads from `offset` once bytes follow it.
    pub async fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut len = self.len.subscribe();
        // The sender lives as long as `self`.
        let there = len
            .wait_for(|len| *len > offset)
            .await
            .map_or(0, |len| *len);
        let file = self.file.borrow();
        let Some(file) = file.as_ref() else {
            return Ok(0);
        };
        let left = usize::try_from(there - offset).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        file.read_at(&mut buffer[..count], offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_dir::tests::TempDir;

    fn notices(temp: &TempDir, max_bytes: u64) -> (Notices, std::path::PathBuf) {
        let path = temp.0.join("notices");
        private_file(&path).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        (Notices::of(Some(file), max_bytes), path)
    }

    #[tokio::test]
    async fn notices_are_read_from_an_offset_and_end_with_the_last_that_fits() {
        let temp = TempDir::new("notices");
        let (notices, path) = notices(&temp, 40);
        for number in 0..9 {
            notices.add(Kind::Refused, &json!({ "kind": "refused", "n": number }));
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let expected =
            "{\"kind\":\"refused\",\"n\":0}\n{\"kind\":\"dropped\",\"of\":\"refused\"}\n";
        assert_eq!(text, expected);
        assert_eq!(notices.size_bytes(), expected.len() as u64);
        let mut buffer = [0u8; 100];
        let count = notices.read(25, &mut buffer).await.unwrap();
        assert_eq!(&buffer[..count], &expected.as_bytes()[25..]);
    }

    #[test]
    fn a_flood_of_refusals_leaves_room_for_the_ends_of_connections() {
        let temp = TempDir::new("notices-flood");
        let (notices, path) = notices(&temp, MAX_BYTES);
        for number in 0..50_000 {
            notices.add(Kind::Refused, &json!({ "kind": "refused", "n": number }));
        }
        notices.add(Kind::Closed, &json!({ "kind": "closed", "n": 1 }));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() as u64 <= MAX_BYTES + 100, "{}", text.len());
        let last: Vec<&str> = text.lines().rev().take(2).collect();
        assert_eq!(
            last,
            [
                "{\"kind\":\"closed\",\"n\":1}",
                "{\"kind\":\"dropped\",\"of\":\"refused\"}"
            ]
        );
    }

    #[test]
    fn what_found_no_room_on_the_disk_is_counted_in_front_of_the_next() {
        let temp = TempDir::new("notices-disk");
        let (notices, path) = notices(&temp, MAX_BYTES);
        // Every write fails with ENOSPC.
        let full = File::options().write(true).open("/dev/full").unwrap();
        let room = notices.file.borrow_mut().replace(full);
        for _ in 0..2 {
            notices.add(Kind::Closed, &json!({ "kind": "closed" }));
        }
        assert_eq!(notices.size_bytes(), 0);
        *notices.file.borrow_mut() = room;
        notices.add(Kind::Closed, &json!({ "kind": "closed", "n": 3 }));
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "{\"count\":2,\"kind\":\"unwritten\"}\n{\"kind\":\"closed\",\"n\":3}\n"
        );
    }
}
