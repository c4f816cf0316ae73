//! A host folder as a tar, walked by descriptors: a link is never followed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};

use crate::error::Failure;
use crate::transfer::bridge::PipeWriter;
use crate::transfer::tar_check::{Entry, Kind, TarError, link_stays_inside};
use crate::transfer::tar_stream::append;

/// Folders inside each other; each holds a descriptor while it is read.
const MAX_DEPTH: usize = 128;

/// What went into the tar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadTree {
    pub entries: u64,
    pub bytes: u64,
    /// Links that lead out, sockets, devices.
    pub skipped: u64,
}

pub fn open_root(path: &Path) -> Result<OwnedFd, Failure> {
    rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|error| Failure::io(path.display(), &error.into()))
}

pub fn write_tar(root: OwnedFd, writer: PipeWriter) -> io::Result<ReadTree> {
    let mut walk = Walk {
        builder: tar::Builder::new(writer),
        read: ReadTree::default(),
    };
    walk.folder(root, Path::new(""), 0)?;
    walk.builder.into_inner()?.finish()?;
    Ok(walk.read)
}

struct Walk {
    builder: tar::Builder<PipeWriter>,
    read: ReadTree,
}

impl Walk {
    fn folder(&mut self, folder: OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::Error::other(format!(
                "{path:?} is more than {MAX_DEPTH} folders deep"
            )));
        }
        for name in sorted_names(&folder)? {
            self.entry(&folder, &name, &path.join(&name), depth)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        folder: &OwnedFd,
        name: &OsStr,
        path: &Path,
        depth: usize,
    ) -> io::Result<()> {
        let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mut entry = Entry {
            path: path.to_owned(),
            kind: Kind::Dir,
            mode: found.st_mode & 0o777,
            modified_s: u64::try_from(found.st_mtime).unwrap_or(0),
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                self.append(&entry, &mut io::empty())?;
                let inner = openat(
                    folder,
                    name,
                    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                    Mode::empty(),
                )?;
                self.folder(inner, path, depth + 1)
            }
            FileType::RegularFile => {
                // It may have become something else since it was looked at: never wait for a pipe.
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = openat(folder, name, flags, Mode::empty())?;
                let size = u64::try_from(fstat(&file)?.st_size).unwrap_or(0);
                entry.kind = Kind::File { size };
                self.read.bytes += size;
                self.append(&entry, &mut std::fs::File::from(file))
            }
            FileType::Symlink => {
                let target = readlinkat(folder, name, Vec::new())?;
                let target = PathBuf::from(OsStr::from_bytes(target.as_bytes()));
                if !link_stays_inside(path, &target) {
                    self.read.skipped += 1;
                    return Ok(());
                }
                entry.kind = Kind::Link { target };
                self.append(&entry, &mut io::empty())
            }
            _ => {
                self.read.skipped += 1;
                Ok(())
            }
        }
    }

    fn append(&mut self, entry: &Entry, contents: &mut dyn io::Read) -> io::Result<()> {
        self.read.entries += 1;
        append(&mut self.builder, entry, contents).map_err(|error| match error {
            TarError::Io(error) => {
                io::Error::new(error.kind(), format!("{:?}: {error}", entry.path))
            }
            other => io::Error::other(other),
        })
    }
}

/// The names in a folder, in an order that does not depend on the file system.
fn sorted_names(folder: &impl AsFd) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    names.sort();
    Ok(names)
}
