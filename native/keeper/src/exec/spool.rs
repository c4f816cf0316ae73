//! One output stream of an exec on disk. It only grows, so an offset stays valid. Bytes for which the disk has no room
//! wait in memory, and the guest gets no credit for them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use voidbox_protocol::credit::ReceiveWindow;

use crate::disk::is_full;

/// The number of bytes that are kept from the end of the output after the limit.
const TAIL_BYTES: usize = 1 << 20;

/// The disk space that all spools of a VM may use.
#[derive(Debug)]
pub struct SpoolBudget {
    left: Cell<u64>,
}

impl SpoolBudget {
    pub fn new(max_bytes: u64) -> Self {
        Self {
            left: Cell::new(max_bytes),
        }
    }

    fn take(&self, bytes: u64) -> u64 {
        let taken = bytes.min(self.left.get());
        self.left.set(self.left.get() - taken);
        taken
    }

    fn give_back(&self, bytes: u64) {
        self.left.set(self.left.get() + bytes);
    }
}

/// The file of a spool. Most commands write to one of their outputs at most, so it is made for the first byte.
#[derive(Debug)]
enum SpoolFile {
    Unmade,
    Open(File),
    Deleted,
}

/// The first bytes up to the limit, then the last MiB of the bytes after it.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    file: SpoolFile,
    /// The length of the file.
    len: u64,
    /// Bytes of the VM's budget. The tail after a limit is written at the end, and uses no budget.
    budgeted: u64,
    received: u64,
    /// Bytes without room on disk: at most the guest's window, and at the end also the tail.
    waiting: Vec<u8>,
    tail: VecDeque<u8>,
    pub window: ReceiveWindow,
}

impl Spool {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: SpoolFile::Unmade,
            len: 0,
            budgeted: 0,
            received: 0,
            waiting: Vec::new(),
            tail: VecDeque::new(),
            window: ReceiveWindow::default(),
        }
    }

    /// Returns the file; `None` once it is deleted.
    fn file(&mut self) -> io::Result<Option<&File>> {
        if let SpoolFile::Unmade = self.file {
            let file = OpenOptions::new()
                .create(true)
                .truncate(true)
                .read(true)
                .write(true)
                .mode(0o600)
                .open(&self.path)?;
            self.file = SpoolFile::Open(file);
        }
        Ok(match &self.file {
            SpoolFile::Open(file) => Some(file),
            _ => None,
        })
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of bytes that the guest has sent.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The number of bytes that count against the exec's limit.
    pub fn taken(&self) -> u64 {
        self.len + self.waiting.len() as u64
    }

    /// The number of bytes that wait for room.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn dropped(&self) -> u64 {
        self.received - self.len
    }

    /// Writes bytes that fit into `room` and the VM's budget, and keeps the end of the rest. Returns true if all of
    /// them fitted.
    pub fn append(&mut self, bytes: &[u8], room: u64, budget: &SpoolBudget) -> io::Result<bool> {
        self.received += bytes.len() as u64;
        let fits = if self.tail.is_empty() {
            usize::try_from(budget.take(room.min(bytes.len() as u64))).unwrap_or(usize::MAX)
        } else {
            0
        };
        self.budgeted += fits as u64;
        let (kept, rest) = bytes.split_at(fits);
        let written = match self.waiting.is_empty() {
            true => self.write(kept)?,
            false => 0,
        };
        self.waiting.extend_from_slice(&kept[written..]);
        if rest.is_empty() {
            return Ok(true);
        }
        self.tail
            .extend(&rest[rest.len().saturating_sub(TAIL_BYTES)..]);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
        Ok(false)
    }

    /// Writes as many of `bytes` as fit on the disk, and returns their number.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let start = self.len;
        let file = match self.file() {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(bytes.len()),
            Err(error) if is_full(&error) => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut written = 0;
        while written < bytes.len() {
            match file.write_at(&bytes[written..], start + written as u64) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_full(&error) => break,
                Err(error) => return Err(error),
            }
        }
        self.len += written as u64;
        Ok(written)
    }

    /// Writes waiting bytes that fit on the disk, and returns their number.
    pub fn flush(&mut self) -> io::Result<usize> {
        let waiting = std::mem::take(&mut self.waiting);
        let written = self.write(&waiting)?;
        self.waiting = waiting;
        self.waiting.drain(..written);
        Ok(written)
    }

    /// Ends the stream. After this, only the tail after the limit still has to be flushed.
    pub fn close(&mut self) {
        self.waiting.extend(std::mem::take(&mut self.tail));
    }

    /// Reads the available bytes at `offset`.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = left.min(buffer.len());
        match &self.file {
            SpoolFile::Open(file) if count > 0 => file.read_at(&mut buffer[..count], offset),
            _ => Ok(0),
        }
    }

    /// Deletes the file, and returns its space to the VM's budget.
    pub fn discard(&mut self, budget: &SpoolBudget) {
        if let SpoolFile::Open(_) = std::mem::replace(&mut self.file, SpoolFile::Deleted) {
            // A file that stays is deleted with the VM.
            let _ = fs::remove_file(&self.path);
        }
        budget.give_back(std::mem::take(&mut self.budgeted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_dir::tests::TempDir;

    fn contents(spool: &Spool) -> Vec<u8> {
        let mut buffer = vec![0; 8 << 20];
        let count = spool.read_at(0, &mut buffer).unwrap();
        buffer.truncate(count);
        buffer
    }

    #[test]
    fn the_start_and_the_last_mebibyte_are_kept() {
        let temp = TempDir::new("spool-limit");
        let mut spool = Spool::new(temp.0.join("s"));
        let budget = SpoolBudget::new(1 << 30);
        assert!(spool.append(b"head", 6, &budget).unwrap());
        assert!(!spool.append(b"ABxxxx", 2, &budget).unwrap());
        for index in 0u8..40 {
            assert!(!spool.append(&vec![index; 64 << 10], 0, &budget).unwrap());
        }
        spool.close();
        assert_eq!(spool.flush().unwrap(), TAIL_BYTES);
        let kept = contents(&spool);
        assert_eq!(&kept[..6], b"headAB");
        assert_eq!(kept.len(), 6 + TAIL_BYTES);
        assert_eq!((kept[6], *kept.last().unwrap()), (24, 39));
        assert_eq!(spool.dropped(), spool.received() - kept.len() as u64);
    }

    #[test]
    fn what_is_given_back_is_what_was_taken() {
        let temp = TempDir::new("spool-given-back");
        let budget = SpoolBudget::new(5);
        let mut one = Spool::new(temp.0.join("1"));
        assert!(!one.append(b"12345and a tail", 100, &budget).unwrap());
        one.close();
        assert_eq!(one.flush().unwrap(), b"and a tail".len());
        one.discard(&budget);
        one.discard(&budget);
        assert_eq!(budget.left.get(), 5);
    }

    #[test]
    fn the_budget_of_the_vm_is_shared_and_given_back() {
        let temp = TempDir::new("spool-budget");
        let budget = SpoolBudget::new(5);
        let mut one = Spool::new(temp.0.join("1"));
        let mut two = Spool::new(temp.0.join("2"));
        assert!(one.append(b"1234", 100, &budget).unwrap());
        assert!(!two.append(b"1234", 100, &budget).unwrap());
        one.discard(&budget);
        let mut three = Spool::new(temp.0.join("3"));
        assert!(three.append(b"1234", 100, &budget).unwrap());
    }

    #[test]
    fn an_output_without_bytes_has_no_file() {
        let temp = TempDir::new("spool-silent");
        let budget = SpoolBudget::new(100);
        let path = temp.0.join("s");
        let mut spool = Spool::new(path.clone());
        assert!(spool.append(b"", 100, &budget).unwrap());
        spool.close();
        assert_eq!(spool.flush().unwrap(), 0);
        assert_eq!(spool.read_at(0, &mut [0; 8]).unwrap(), 0);
        assert!(!path.exists());
        assert!(spool.append(b"a", 100, &budget).unwrap());
        assert!(path.exists());
        spool.discard(&budget);
        assert!(!path.exists());
        assert!(spool.append(b"late", 100, &budget).unwrap());
        assert!(!path.exists());
    }

    /// A spool on a device that is always full, and on a file once there is room.
    #[test]
    fn what_there_is_no_room_for_waits_in_order() {
        let temp = TempDir::new("spool-full");
        let budget = SpoolBudget::new(1 << 30);
        let mut spool = Spool::new(temp.0.join("s"));
        assert!(spool.append(b"one", 100, &budget).unwrap());
        let full = OpenOptions::new().read(true).write(true).open("/dev/full");
        let file = std::mem::replace(&mut spool.file, SpoolFile::Open(full.unwrap()));
        assert!(spool.append(b"two", 97, &budget).unwrap());
        assert_eq!(spool.flush().unwrap(), 0);
        assert_eq!((spool.len(), spool.waiting(), spool.taken()), (3, 3, 6));
        spool.file = file;
        assert!(
            spool.append(b"three", 94, &budget).unwrap(),
            "it goes behind what waits"
        );
        assert_eq!(spool.len(), 3);
        assert_eq!(spool.flush().unwrap(), 8);
        assert_eq!(contents(&spool), b"onetwothree");
        assert_eq!((spool.waiting(), spool.dropped()), (0, 0));
    }
}
