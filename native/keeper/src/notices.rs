//! What a VM's door has to say: lines of JSON on disk, which clients read from an offset.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::run_dir::{NOTICES, RunDir, private_file};

/// Bytes of all notices of a VM. Beyond them one last notice says that there are more.
const MAX_BYTES: u64 = 1 << 20;

pub struct Notices {
    file: RefCell<Option<File>>,
    /// Bytes that can be read.
    len: watch::Sender<u64>,
    is_full: Cell<bool>,
    max_bytes: u64,
}

impl Notices {
    /// Those of a new VM.
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
            is_full: Cell::new(false),
            max_bytes,
        }
    }

    /// Adds one. A notice that finds no room is dropped, and so is every later one.
    pub fn add(&self, notice: &Value) {
        if self.is_full.get() {
            return;
        }
        let line = format!("{notice}\n");
        if *self.len.borrow() + line.len() as u64 > self.max_bytes {
            self.is_full.set(true);
            self.write(&format!("{}\n", json!({ "kind": "dropped" })));
        } else {
            self.write(&line);
        }
    }

    fn write(&self, line: &str) {
        let len = *self.len.borrow();
        let mut file = self.file.borrow_mut();
        let Some(open) = file.as_mut() else { return };
        // Half a line that a full disk left is written over by the next one.
        match open
            .write_all_at(line.as_bytes(), len)
            .and_then(|()| open.flush())
        {
            Ok(()) => {
                self.len.send_replace(len + line.len() as u64);
            }
            Err(error) => {
                eprintln!("writing a notice: {error}");
                self.is_full.set(!crate::disk::is_full(&error));
            }
        }
    }

    pub fn size_bytes(&self) -> u64 {
        *self.len.borrow()
    }

    /// Reads from `offset` once there is something behind it.
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

    #[tokio::test]
    async fn notices_are_read_from_an_offset_and_end_with_the_last_that_fits() {
        let temp = TempDir::new("notices");
        let path = temp.0.join("notices");
        private_file(&path).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let notices = Notices::of(Some(file), 40);
        for number in 0..9 {
            notices.add(&json!({ "kind": "refused", "n": number }));
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = "{\"kind\":\"refused\",\"n\":0}\n{\"kind\":\"dropped\"}\n";
        assert_eq!(text, expected);
        assert_eq!(notices.size_bytes(), expected.len() as u64);
        let mut buffer = [0u8; 100];
        let count = notices.read(25, &mut buffer).await.unwrap();
        assert_eq!(&buffer[..count], &expected.as_bytes()[25..]);
    }
}
