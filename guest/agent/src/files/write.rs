//! WriteFile and MkdirP.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, fchmod, renameat, unlinkat};
use voidbox_protocol::body::WriteFile;

use super::access;
use super::bulk_writer::BulkWriter;
use crate::chunk::Chunk;
use crate::failure::Failure;
use crate::request::Request;

/// Makes a folder and its parents.
pub fn mkdir_p(path: &str) -> Result<(), Failure> {
    access::open_or_make_folder(access::checked_path(path)?).map(drop)
}

/// Receives a file's bytes, and puts the file in place in one step; makes its parents. It replaces an existing file or
/// link.
pub fn write_file(request: &Request, target: &WriteFile) -> Result<(), Failure> {
    let path = access::checked_path(&target.path)?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Failure::bad_request("/ is not the path of a file"));
    };
    if target.mode > 0o777 {
        return Err(Failure::bad_request(format!(
            "{}: mode {:o} has more than permission bits",
            target.path, target.mode
        )));
    }
    let folder = access::open_or_make_folder(parent)?;
    let temporary = format!(".voidbox-{}.part", request.id);
    let written = receive(request, folder.as_fd(), &temporary, target).and_then(|()| {
        renameat(&folder, temporary.as_str(), &folder, name)
            .map_err(|error| Failure::io(path.display(), error))
    });
    if written.is_err() {
        let _ = unlinkat(&folder, temporary.as_str(), AtFlags::empty());
    }
    written
}

fn receive(
    request: &Request,
    folder: BorrowedFd<'_>,
    temporary: &str,
    target: &WriteFile,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::io(&target.path, error);
    let _ = unlinkat(folder, temporary, AtFlags::empty());
    let file: File = access::open_beneath(
        folder,
        Path::new(temporary),
        OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
        Mode::from_raw_mode(0o600),
    )
    .map_err(|error| failed(error.into()))?
    .into();
    let mut writer = BulkWriter::new(file, target.size_bytes);
    let mut received = 0u64;
    let mut chunk = Chunk::default();
    while request.next_chunk(&mut chunk)? {
        let bytes = chunk.bytes();
        received += bytes.len() as u64;
        if received > target.size_bytes {
            break;
        }
        writer.write(bytes).map_err(failed)?;
        request.consumed(bytes.len())?;
    }
    if received != target.size_bytes {
        return Err(Failure::bad_request(format!(
            "{}: received {received} bytes, expected {}",
            target.path, target.size_bytes
        )));
    }
    fchmod(writer.file(), Mode::from_raw_mode(target.mode)).map_err(|error| failed(error.into()))
}
