//! Writes a new file of a known size; a large one bypasses the page cache.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{OFlags, fcntl_setfl};

use crate::mailbox::PAGE_BYTES;

/// Files of this size and more bypass the page cache. The cache would copy them once more, page by page, and displace
/// pages that a small guest needs more. The first reader loads them from the disk at a lower cost.
const LARGE_BYTES: u64 = 1 << 20;

/// Writes a file from its start to its end.
pub struct BulkWriter {
    file: File,
    written: u64,
    /// False for small files, and for a file system without direct writes.
    may_be_direct: bool,
    is_direct: bool,
}

impl BulkWriter {
    /// Creates a writer for a new file that was opened without status flags.
    pub fn new(file: File, size_bytes: u64) -> Self {
        Self {
            file,
            written: 0,
            may_be_direct: size_bytes >= LARGE_BYTES,
            is_direct: false,
        }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes the next bytes; whole pages, in memory and in the file, bypass the page cache.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let is_paged = bytes.as_ptr().addr() % PAGE_BYTES == 0
            && bytes.len() % PAGE_BYTES == 0
            && self.written % PAGE_BYTES as u64 == 0;
        self.choose(is_paged)?;
        let mut result = self.file.write_all_at(bytes, self.written);
        if self.is_direct
            && let Err(error) = &result
            && error.raw_os_error() == Some(libc::EINVAL)
        {
            self.may_be_direct = false;
            self.choose(false)?;
            result = self.file.write_all_at(bytes, self.written);
        }
        result?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn choose(&mut self, is_paged: bool) -> io::Result<()> {
        let direct = is_paged && self.may_be_direct;
        if direct == self.is_direct {
            return Ok(());
        }
        let flags = match direct {
            true => OFlags::DIRECT,
            false => OFlags::empty(),
        };
        match fcntl_setfl(&self.file, flags) {
            Ok(()) => self.is_direct = direct,
            // A file system without direct writes returns its error here.
            Err(_) if direct => self.may_be_direct = false,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Block;

    /// Writes 256 KiB, 5 bytes, and 256 KiB again as a file of an announced size.
    fn write(size_bytes: u64) -> (BulkWriter, [bool; 3]) {
        let mut block = Block::new(256 << 10);
        block.bytes_mut().fill(7);
        let mut writer = BulkWriter::new(tempfile::tempfile().unwrap(), size_bytes);
        let was_direct = [block.bytes(), b"hello", block.bytes()].map(|bytes| {
            writer.write(bytes).unwrap();
            writer.is_direct
        });
        (writer, was_direct)
    }

    #[test]
    fn pieces_of_any_shape_are_one_file() {
        for size_bytes in [LARGE_BYTES - 1, LARGE_BYTES] {
            let (writer, was_direct) = write(size_bytes);
            // The file system decides whether the first piece is direct; the others never are.
            assert_eq!(was_direct[1..], [false, false]);
            let mut bytes = vec![0; (512 << 10) + 5];
            writer.file().read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(writer.file().metadata().unwrap().len(), bytes.len() as u64);
            let expected = [&[7; 256 << 10][..], b"hello", &[7; 256 << 10]].concat();
            assert!(bytes == expected);
        }
    }

    #[test]
    fn small_files_stay_in_the_page_cache() {
        assert_eq!(write(LARGE_BYTES - 1).1, [false; 3]);
    }
}
