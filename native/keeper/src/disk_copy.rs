//! Copies the file of a disk: by a reflink if the file system has them, else only its written parts.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{SeekFrom, copy_file_range, fstatvfs, ioctl_ficlone, seek};
use rustix::io::Errno;

/// The bytes of one call. Between calls the copy can be stopped.
const STEP_BYTES: u64 = 16 << 20;
/// The bytes of one read and write, if the kernel cannot copy.
const CHUNK_BYTES: usize = 1 << 20;
/// The block size in which every file system reports a file's usage, whatever its own blocks are.
const ACCOUNT_BLOCK_BYTES: u64 = 512;
/// The free bytes that a copy leaves, so that running VMs do not wait for room.
const SPARE_BYTES: u64 = 64 << 20;

/// How a disk was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The two files share their blocks until one of them is written.
    Reflink,
    Sparse,
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Way::Reflink => "reflink",
            Way::Sparse => "sparse",
        }
    }
}

/// Opens the file of a disk for reading. A link and anything that is not a file is an error.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a file",
        )),
    }
}

/// Returns the bytes that the file uses on its file system.
pub fn used_bytes(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.blocks() * ACCOUNT_BLOCK_BYTES)
}

/// Copies all of `from` to the empty file `to`. Fails with `ErrorKind::Interrupted` soon after `stop` is set.
pub fn copy(from: &File, to: &File, stop: &AtomicBool) -> io::Result<Way> {
    if ioctl_ficlone(to, from).is_ok() {
        return Ok(Way::Reflink);
    }
    copy_sparse(from, to, stop)?;
    Ok(Way::Sparse)
}

fn copy_sparse(from: &File, to: &File, stop: &AtomicBool) -> io::Result<()> {
    require_room(from, to)?;
    let size = from.metadata()?.len();
    to.set_len(size)?;
    let mut at = 0;
    while at < size {
        let data = match seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Only a hole is left.
            Err(Errno::NXIO) => return Ok(()),
            // The file system does not report its holes.
            Err(Errno::INVAL) => at,
            Err(error) => return Err(error.into()),
        };
        let end = match seek(from, SeekFrom::Hole(data)) {
            Ok(end) => end.min(size),
            Err(Errno::INVAL) => size,
            Err(error) => return Err(error.into()),
        };
        copy_range(from, to, data, end, stop)?;
        at = end;
    }
    Ok(())
}

/// Fails before the first write if the written parts do not fit.
fn require_room(from: &File, to: &File) -> io::Result<()> {
    let found = fstatvfs(to)?;
    let available = found.f_bavail.saturating_mul(found.f_frsize);
    match describe_lack(used_bytes(from)?, available) {
        None => Ok(()),
        Some(message) => Err(io::Error::new(io::ErrorKind::StorageFull, message)),
    }
}

/// Returns `None` if a copy of `used` bytes leaves room for running VMs.
fn describe_lack(used: u64, available: u64) -> Option<String> {
    let needed = used.saturating_add(SPARE_BYTES);
    (needed > available).then(|| {
        format!(
            "no space left for a copy of {} MiB: {} MiB are free, and {} MiB stay free for running VMs",
            used >> 20,
            available >> 20,
            SPARE_BYTES >> 20
        )
    })
}

fn copy_range(from: &File, to: &File, begin: u64, end: u64, stop: &AtomicBool) -> io::Result<()> {
    let mut at = begin;
    while at < end {
        if stop.load(Ordering::Acquire) {
            return Err(io::Error::from(io::ErrorKind::Interrupted));
        }
        let step = (end - at).min(STEP_BYTES);
        let (mut read, mut written) = (at, at);
        let count = usize::try_from(step).expect("a step is small");
        let result = copy_file_range(from, Some(&mut read), to, Some(&mut written), count);
        let copied = match result {
            // The file became shorter.
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(copied) => copied as u64,
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                copy_bytes(from, to, at, step)?;
                step
            }
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        start_writing(to, at, copied);
        at += copied;
    }
    Ok(())
}

fn copy_bytes(from: &File, to: &File, begin: u64, count: u64) -> io::Result<()> {
    let mut buffer = vec![0u8; CHUNK_BYTES];
    let mut at = begin;
    while at < begin + count {
        let want =
            usize::try_from(begin + count - at).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        from.read_exact_at(&mut buffer[..want], at)?;
        to.write_all_at(&buffer[..want], at)?;
        at += want as u64;
    }
    Ok(())
}

/// Lets the kernel write the bytes in the background, so that the later fsync takes less time.
fn start_writing(to: &File, at: u64, count: u64) {
    use std::os::fd::AsRawFd;
    let (Ok(at), Ok(count)) = (i64::try_from(at), i64::try_from(count)) else {
        return;
    };
    let fd = to.as_fd().as_raw_fd();
    // SAFETY: the call takes only numbers, and the descriptor is open. A failure changes nothing.
    unsafe { libc::sync_file_range(fd, at, count, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_dir::{private_file, tests::TempDir};
    use std::fs;
    use std::os::unix::fs::symlink;

    fn read(path: &Path) -> Vec<u8> {
        fs::read(path).unwrap()
    }

    #[test]
    fn a_copy_has_the_same_bytes_and_holes() {
        let folder = TempDir::new("disk-copy");
        let (one, two) = (folder.0.join("one"), folder.0.join("two"));
        let source = File::create(&one).unwrap();
        source.set_len((96 << 20) + 12_345).unwrap();
        source.write_all_at(b"at the start", 0).unwrap();
        source
            .write_all_at(&vec![7; (20 << 20) + 3], (32 << 20) + 5)
            .unwrap();
        source.write_all_at(b"at the end", 96 << 20).unwrap();
        source.sync_all().unwrap();
        for copy in [copy, |from: &File, to: &File, stop: &AtomicBool| {
            copy_sparse(from, to, stop).map(|()| Way::Sparse)
        }] {
            let target = private_file(&two).unwrap();
            copy(&open(&one).unwrap(), &target, &AtomicBool::new(false)).unwrap();
            target.sync_all().unwrap();
            assert!(read(&one) == read(&two));
            let used = used_bytes(&target).unwrap();
            assert!(((20 << 20)..(24 << 20)).contains(&used), "{used}");
        }
        let target = private_file(&two).unwrap();
        target.set_len(source.metadata().unwrap().len()).unwrap();
        copy_bytes(&open(&one).unwrap(), &target, 32 << 20, 21 << 20).unwrap();
        assert!(read(&one)[32 << 20..53 << 20] == read(&two)[32 << 20..53 << 20]);
    }

    #[test]
    fn a_copy_leaves_room_for_running_vms() {
        assert_eq!(describe_lack(100 << 20, 164 << 20), None);
        let lack = describe_lack(101 << 20, 164 << 20).unwrap();
        assert!(
            lack.contains("of 101 MiB: 164 MiB are free, and 64 MiB"),
            "{lack}"
        );
    }

    #[test]
    fn a_copy_stops_on_request() {
        let folder = TempDir::new("disk-copy-stop");
        let one = folder.0.join("one");
        fs::write(&one, vec![1; 1 << 20]).unwrap();
        let target = private_file(&folder.0.join("two")).unwrap();
        let error = copy_sparse(&open(&one).unwrap(), &target, &AtomicBool::new(true)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn only_a_file_is_opened_as_a_disk() {
        let folder = TempDir::new("disk-copy-open");
        let link = folder.0.join("link");
        symlink("/etc/passwd", &link).unwrap();
        assert!(open(&link).is_err());
        assert!(open(&folder.0).is_err());
        assert!(open(&folder.0.join("none")).is_err());
    }
}
