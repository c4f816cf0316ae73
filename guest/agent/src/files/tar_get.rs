//! TarGet: sends a folder or one file as a tar stream.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat, readlinkat, statat};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};
use voidbox_protocol::body::{ErrorCode, TarGetResponse};
use voidbox_protocol::mailbox::SLOT_BYTES;
use voidbox_protocol::message::Message;

use super::access;
use super::read::send_end;
use super::reader::Reader;
use crate::failure::Failure;
use crate::mailbox::Block;
use crate::request::Request;

/// The limit of names that wait to be sent, over all open folders.
const MAX_WAITING_NAMES: usize = 200_000;

/// Collects output of the tar builder, and sends it in whole blocks.
struct Outgoing<'a> {
    request: &'a Request,
    block: Block,
    filled: usize,
    failure: Option<Failure>,
}

impl Outgoing<'_> {
    fn send(&mut self) -> io::Result<()> {
        let count = std::mem::take(&mut self.filled);
        if count == 0 {
            return Ok(());
        }
        let sent = self.request.send_block(&self.block, count);
        sent.map_err(|failure| {
            let error = io::Error::other(failure.to_string());
            self.failure = Some(failure);
            error
        })
    }
}

impl Write for Outgoing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = &mut self.block.bytes_mut()[self.filled..];
        let count = bytes.len().min(room.len());
        room[..count].copy_from_slice(&bytes[..count]);
        let is_full = count == room.len();
        self.filled += count;
        if is_full {
            self.send()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

type Tar<'a> = Builder<Outgoing<'a>>;

/// Sends the head, the tar with its end marker, and the stream's end. Links are sent as links, wherever they lead; a
/// device, FIFO or socket ends the stream with an error.
pub fn tar_get(request: &Request, path: &str, reader: Reader) -> Result<(), Failure> {
    let path = access::checked_path(path)?;
    let (fd, is_folder) = match open_source(path, reader)? {
        Some(source) => source,
        None => return request.send_last(&Message::TarGetResponse(TarGetResponse::Absent)),
    };
    let head = match is_folder {
        true => TarGetResponse::Dir,
        false => TarGetResponse::File,
    };
    request.send_last(&Message::TarGetResponse(head))?;
    let mut tar = Builder::new(Outgoing {
        request,
        block: Block::new(SLOT_BYTES),
        filled: 0,
        failure: None,
    });
    let sent = match is_folder {
        true => add_tree(&mut tar, fd.as_fd(), reader),
        false => add_file(
            &mut tar,
            path.file_name().unwrap_or_default().as_ref(),
            fd.into(),
        ),
    }
    .and_then(|()| {
        tar.finish()
            .and_then(|()| tar.get_mut().flush())
            .map_err(|error| Failure::io("ending the tar", error))
    });
    let failure = tar.get_mut().failure.take();
    send_end(request, failure.map_or(sent, Err))
}

/// Opens the folder or regular file at a path, and follows links; `None` if the path does not exist.
fn open_source(path: &Path, reader: Reader) -> Result<Option<(OwnedFd, bool)>, Failure> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = match reader.open(path, flags) {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(Failure::output(path.display(), error)),
    };
    let stat = rustix::fs::fstat(&fd).map_err(|error| Failure::io(path.display(), error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(Some((fd, true))),
        FileType::RegularFile => Ok(Some((fd, false))),
        _ => Err(Failure::new(
            ErrorCode::BadOutput,
            format!("{}: neither a folder nor a regular file", path.display()),
        )),
    }
}

/// Returns true for errors of an entry that was removed, or replaced by another kind, while its folder was read.
fn has_changed(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

/// A folder that is being sent: its path in the tar, and its remaining names in reverse order.
struct Level {
    path: PathBuf,
    names: Vec<CString>,
}

fn add_tree(tar: &mut Tar<'_>, top: BorrowedFd<'_>, reader: Reader) -> Result<(), Failure> {
    let mut waiting = 0;
    let mut levels = vec![list(top, PathBuf::new(), &mut waiting, reader)?];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.names.pop() else {
            levels.pop();
            continue;
        };
        waiting -= 1;
        let path = level.path.join(OsStr::from_bytes(name.as_bytes()));
        if let Some(inner) = add_entry(tar, top, path, &mut waiting, reader)? {
            levels.push(inner);
        }
    }
    Ok(())
}

/// Lists the names of a folder in reverse order, so that a tar of the same contents has the same bytes.
fn list(
    top: BorrowedFd<'_>,
    path: PathBuf,
    waiting: &mut usize,
    reader: Reader,
) -> Result<Level, Failure> {
    let failed = |error: Errno| Failure::output(path.display(), error);
    let relative = match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path.as_path(),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut names = Vec::new();
    let fd = match reader.open_beneath(top, relative, flags) {
        // The folder disappeared after its entry was sent.
        Err(error) if !path.as_os_str().is_empty() && has_changed(error) => {
            return Ok(Level { path, names });
        }
        other => other.map_err(failed)?,
    };
    for entry in Dir::new(fd).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
            *waiting += 1;
        }
        if *waiting > MAX_WAITING_NAMES {
            return Err(Failure::new(
                voidbox_protocol::body::ErrorCode::Limit,
                format!(
                    "{}: more than {MAX_WAITING_NAMES} names in one folder",
                    path.display()
                ),
            ));
        }
    }
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(Level { path, names })
}

/// Adds one entry, and returns it if it is a folder whose entries follow.
fn add_entry(
    tar: &mut Tar<'_>,
    top: BorrowedFd<'_>,
    path: PathBuf,
    waiting: &mut usize,
    reader: Reader,
) -> Result<Option<Level>, Failure> {
    let failed = |error: io::Error| Failure::output(path.display(), error);
    // The parent is opened without following links, so only the name in it must be checked.
    let found = parent_in(top, &path, reader).and_then(|(parent, name)| {
        let look = || statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = reader.within(parent.as_fd(), look)?;
        Ok((parent, name, stat))
    });
    let (parent, name, stat) = match found {
        // Another command of the VM removed the entry after its folder was read.
        Err(error) if has_changed(error) => return Ok(None),
        other => other.map_err(|error| failed(error.into()))?,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let mut header = header_of(&stat, EntryType::Directory, 0);
            let named = path.join("");
            tar.append_data(&mut header, &named, io::empty())
                .map_err(failed)?;
            return list(top, path, waiting, reader).map(Some);
        }
        FileType::Symlink => {
            let read = || readlinkat(&parent, name, Vec::new());
            let target = match reader.within(parent.as_fd(), read) {
                Err(error) if has_changed(error) || error == Errno::INVAL => return Ok(None),
                other => other.map_err(|error| failed(error.into()))?,
            };
            let mut header = header_of(&stat, EntryType::Symlink, 0);
            tar.append_link(&mut header, &path, OsStr::from_bytes(target.as_bytes()))
                .map_err(failed)?;
        }
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
            let fd = match reader.open_beneath(parent.as_fd(), Path::new(name), flags) {
                Err(error) if has_changed(error) => return Ok(None),
                other => other.map_err(|error| failed(error.into()))?,
            };
            add_file(tar, &path, fd.into())?;
        }
        other => {
            return Err(Failure::new(
                ErrorCode::BadOutput,
                format!("{}: a {other:?} cannot leave the guest", path.display()),
            ));
        }
    }
    Ok(None)
}

fn parent_in<'n>(
    top: BorrowedFd<'_>,
    path: &'n Path,
    reader: Reader,
) -> Result<(OwnedFd, &'n OsStr), Errno> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let folder = reader.open_beneath(top, parent, flags)?;
    Ok((folder, path.file_name().ok_or(Errno::INVAL)?))
}

fn add_file(tar: &mut Tar<'_>, name: &Path, file: File) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::io(name.display(), error);
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(Failure::bad_request(format!(
            "{}: is no longer a file",
            name.display()
        )));
    }
    let size = metadata.len();
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(size);
    header.set_mode(metadata.mode() & 0o777);
    header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or(0));
    // A file that grows is sent with its earlier length, and a file that shrinks breaks the stream: the builder writes
    // what it reads, and the next header must not be inside a file.
    let mut exact = file.take(size);
    tar.append_data(&mut header, name, &mut exact)
        .map_err(failed)?;
    match exact.limit() {
        0 => Ok(()),
        left => Err(Failure::bad_request(format!(
            "{}: was cut {left} bytes short while it was read",
            name.display()
        ))),
    }
}

fn header_of(stat: &Stat, entry_type: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(entry_type);
    header.set_size(size);
    header.set_mode(stat.st_mode & 0o777);
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header
}
