//! FileStat.

use std::path::Path;

use rustix::fs::{AtFlags, FileType, OFlags, fstat, statat};
use rustix::io::Errno;
use voidbox_protocol::body::{FileKind, FileStatResponse};

use super::access;
use crate::failure::Failure;

/// Returns the kind of a path after following links. A link without a target is a link.
pub fn file_stat(path: &str) -> Result<FileStatResponse, Failure> {
    let path = access::checked_path(path)?;
    let stat = match access::open(path, OFlags::PATH) {
        Ok(fd) => fstat(&fd),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
            statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        }
        Err(error) => Err(error),
    };
    match stat {
        Ok(stat) => Ok(FileStatResponse {
            exists: true,
            kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
            size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
        }),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(FileStatResponse {
            exists: false,
            kind: FileKind::Absent,
            size_bytes: 0,
        }),
        Err(error) => Err(failed(path, error)),
    }
}

fn failed(path: &Path, error: Errno) -> Failure {
    Failure::io(path.display(), error)
}

fn kind_of(file_type: FileType) -> FileKind {
    match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Dir,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}
