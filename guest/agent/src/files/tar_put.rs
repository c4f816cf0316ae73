//! TarPut: unpacks a tar stream into a folder.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, fchmod, futimens, statat, symlinkat,
    unlinkat, utimensat,
};
use rustix::io::Errno;
use tar::{Archive, Entry, EntryType};
use voidbox_protocol::body::TarPutResponse;

use super::access;
use crate::chunk::Chunk;
use crate::failure::Failure;
use crate::request::Request;

/// The limit of entries of one tar.
const MAX_ENTRIES: u64 = 1_000_000;
/// The limit of folders whose modes are set at the end: folders that their owner may not write.
const MAX_LATE_MODES: usize = 100_000;

/// The request's inbound data as a reader. It keeps its failure, because a tar reader hides it.
struct Incoming<'a> {
    request: &'a Request,
    chunk: Chunk,
    taken: usize,
    failure: Option<Failure>,
}

impl Read for Incoming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.chunk.bytes().len() {
            match self.request.next_chunk(&mut self.chunk) {
                Ok(true) => self.taken = 0,
                Ok(false) => return Ok(0),
                Err(failure) => {
                    let error = io::Error::other(failure.to_string());
                    self.failure = Some(failure);
                    return Err(error);
                }
            }
        }
        let rest = &self.chunk.bytes()[self.taken..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        self.request
            .consumed(count)
            .map_err(|failure| io::Error::other(failure.to_string()))?;
        Ok(count)
    }
}

/// Unpacks regular files, folders and links that stay inside. Any other entry ends the request; the entries before it
/// stay. An entry that replaces a file or a link removes it first.
pub fn tar_put(request: &Request, path: &str) -> Result<TarPutResponse, Failure> {
    let top = access::open_or_make_folder(access::checked_path(path)?)?;
    let mut archive = Archive::new(Incoming {
        request,
        chunk: Chunk::default(),
        taken: 0,
        failure: None,
    });
    let unpacked = unpack(&mut archive, top.as_fd());
    let mut incoming = archive.into_inner();
    if let Some(failure) = incoming.failure.take() {
        return Err(failure);
    }
    let response = unpacked?;
    // Bytes after the tar's end marker are padding, but the response must follow the stream's end.
    io::copy(&mut incoming, &mut io::sink()).map_err(|error| {
        incoming
            .failure
            .take()
            .unwrap_or_else(|| Failure::io("reading a tar", error))
    })?;
    Ok(response)
}

fn unpack(
    archive: &mut Archive<Incoming<'_>>,
    top: BorrowedFd<'_>,
) -> Result<TarPutResponse, Failure> {
    let broken = |error: io::Error| Failure::bad_request(format!("the tar is broken: {error}"));
    let mut done = TarPutResponse {
        entries: 0,
        bytes: 0,
    };
    let mut late_modes: Vec<(PathBuf, u32)> = Vec::new();
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        done.entries += 1;
        if done.entries > MAX_ENTRIES {
            return Err(Failure::bad_request(format!(
                "the tar has more than {MAX_ENTRIES} entries"
            )));
        }
        let name = inner_path(&entry.path().map_err(broken)?)?;
        let mode = entry.header().mode().map_err(broken)? & 0o777;
        match entry.header().entry_type() {
            EntryType::Directory => {
                if let Some(mode) = put_folder(top, &name, mode)? {
                    late_modes.push((name, mode));
                }
            }
            EntryType::Regular | EntryType::Continuous => {
                done.bytes += put_file(top, &name, mode, &mut entry)?;
            }
            EntryType::Symlink => put_link(top, &name, &entry)?,
            EntryType::XGlobalHeader => {}
            other => {
                return Err(Failure::bad_request(format!(
                    "{}: entries of type {other:?} are not accepted",
                    name.display()
                )));
            }
        }
        if late_modes.len() > MAX_LATE_MODES {
            return Err(Failure::bad_request(
                "too many read-only folders in the tar",
            ));
        }
    }
    // Inner folders follow their parents, so the list is processed in reverse order.
    for (name, mode) in late_modes.into_iter().rev() {
        let folder = open_folder(top, &name).map_err(|error| failed(&name, error))?;
        fchmod(&folder, Mode::from_raw_mode(mode)).map_err(|error| failed(&name, error))?;
    }
    Ok(done)
}

fn failed(name: &Path, error: impl Into<io::Error>) -> Failure {
    Failure::io(name.display(), error)
}

/// Returns the path of an entry without `.`; rejects `..` and absolute paths.
fn inner_path(path: &Path) -> Result<PathBuf, Failure> {
    let mut inner = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => inner.push(name),
            Component::CurDir => {}
            _ => {
                return Err(Failure::bad_request(format!(
                    "{}: leads out of the folder",
                    path.display()
                )));
            }
        }
    }
    Ok(inner)
}

/// Opens the folder of an entry, makes missing folders, and returns the entry's own name.
fn parent_of<'n>(
    top: BorrowedFd<'_>,
    name: &'n Path,
) -> Result<(OwnedFd, &'n std::ffi::OsStr), Failure> {
    let (Some(parent), Some(last)) = (name.parent(), name.file_name()) else {
        return Err(Failure::bad_request(
            "an entry other than a folder has no name",
        ));
    };
    let folder = access::open_or_make_beneath(top, parent).map_err(|error| failed(name, error))?;
    Ok((folder, last))
}

fn open_folder(top: BorrowedFd<'_>, name: &Path) -> Result<OwnedFd, Errno> {
    let name = match name.as_os_str().is_empty() {
        true => Path::new("."),
        false => name,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    access::open_beneath(top, name, flags, Mode::empty())
}

/// Makes a folder. Returns `Some(mode)` if the mode must wait until the folder is filled.
fn put_folder(top: BorrowedFd<'_>, name: &Path, mode: u32) -> Result<Option<u32>, Failure> {
    if name.as_os_str().is_empty() {
        // The top keeps the mode of the folder that was made for it.
        return Ok(None);
    }
    let (parent, last) = parent_of(top, name)?;
    if let Ok(stat) = statat(&parent, last, AtFlags::SYMLINK_NOFOLLOW)
        && FileType::from_raw_mode(stat.st_mode) != FileType::Directory
    {
        unlinkat(&parent, last, AtFlags::empty()).map_err(|error| failed(name, error))?;
    }
    access::open_or_make_beneath(parent.as_fd(), Path::new(last))
        .map_err(|error| failed(name, error))?;
    if mode & 0o700 != 0o700 {
        return Ok(Some(mode));
    }
    let folder = open_folder(top, name).map_err(|error| failed(name, error))?;
    fchmod(&folder, Mode::from_raw_mode(mode)).map_err(|error| failed(name, error))?;
    Ok(None)
}

fn remove_old(parent: &OwnedFd, last: &std::ffi::OsStr, name: &Path) -> Result<(), Failure> {
    match unlinkat(parent, last, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(failed(name, error)),
    }
}

fn put_file(
    top: BorrowedFd<'_>,
    name: &Path,
    mode: u32,
    entry: &mut Entry<'_, Incoming<'_>>,
) -> Result<u64, Failure> {
    let (parent, last) = parent_of(top, name)?;
    remove_old(&parent, last, name)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let mut file: File = access::open_beneath(
        parent.as_fd(),
        Path::new(last),
        flags,
        Mode::from_raw_mode(0o600),
    )
    .map_err(|error| failed(name, error))?
    .into();
    let bytes = io::copy(entry, &mut file).map_err(|error| failed(name, error))?;
    if bytes != entry.size() {
        return Err(Failure::bad_request(format!(
            "{}: the tar ends inside it",
            name.display()
        )));
    }
    fchmod(&file, Mode::from_raw_mode(mode)).map_err(|error| failed(name, error))?;
    futimens(&file, &times_of(entry)).map_err(|error| failed(name, error))?;
    Ok(bytes)
}

fn times_of(entry: &Entry<'_, Incoming<'_>>) -> Timestamps {
    let seconds = entry.header().mtime().unwrap_or(0);
    let at = Timespec {
        tv_sec: i64::try_from(seconds).unwrap_or(0),
        tv_nsec: 0,
    };
    Timestamps {
        last_access: at,
        last_modification: at,
    }
}

fn put_link(
    top: BorrowedFd<'_>,
    name: &Path,
    entry: &Entry<'_, Incoming<'_>>,
) -> Result<(), Failure> {
    let target = entry
        .link_name()
        .map_err(|error| failed(name, error))?
        .ok_or_else(|| Failure::bad_request(format!("{}: a link to nothing", name.display())))?;
    if !stays_inside(name, &target) {
        return Err(Failure::bad_request(format!(
            "{}: a link that leads out of the folder, to {}",
            name.display(),
            target.display()
        )));
    }
    let (parent, last) = parent_of(top, name)?;
    remove_old(&parent, last, name)?;
    symlinkat(target.as_os_str(), &parent, last).map_err(|error| failed(name, error))?;
    utimensat(&parent, last, &times_of(entry), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|error| failed(name, error))
}

/// Returns true if a relative link, resolved from its folder, never climbs above the top.
fn stays_inside(link: &Path, target: &Path) -> bool {
    let mut depth = link.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return false,
            },
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    !target.as_os_str().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_judged_from_where_they_lie() {
        let cases = [
            ("a", "b", true),
            ("a/b", "../c", true),
            ("a/b", "../../c", false),
            ("a", "..", false),
            ("a/b/c", "../../../x", false),
            ("a", "x/../y", true),
            ("a", "x/../../y", false),
            ("a", "/etc/passwd", false),
            ("a", "", false),
        ];
        for (link, target, inside) in cases {
            let got = stays_inside(Path::new(link), Path::new(target));
            assert_eq!(got, inside, "{link} -> {target}");
        }
    }

    #[test]
    fn entry_paths_are_relative_and_without_parents() {
        assert_eq!(inner_path(Path::new("./a/./b")).unwrap(), Path::new("a/b"));
        assert!(inner_path(Path::new("../a")).is_err());
        assert!(inner_path(Path::new("a/../b")).is_err());
        assert!(inner_path(Path::new("/a")).is_err());
    }
}
