//! ReadFile: sends a regular file with the length that it had when it was opened.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use voidbox_protocol::body::{ReadFileResponse, StreamEnd};
use voidbox_protocol::message::Message;

use super::access;
use super::reader::Reader;
use crate::failure::Failure;
use crate::mailbox::Block;
use crate::request::Request;

/// Sends a file: its head, its bytes, its end. The end reports a failure after the head.
pub fn read_file(request: &Request, path: &str, reader: Reader) -> Result<(), Failure> {
    let path = access::checked_path(path)?;
    let Some((mut file, size_bytes, mode)) = open_regular(path, reader)? else {
        return request.send_last(&Message::ReadFileResponse(ReadFileResponse::Absent));
    };
    let head = ReadFileResponse::Present { size_bytes, mode };
    request.send_last(&Message::ReadFileResponse(head))?;
    let sent = send_exactly(request, &mut file, size_bytes, path);
    send_end(request, sent)
}

/// Ends a stream whose head was sent: complete, or with the error that broke it.
pub fn send_end(request: &Request, sent: Result<(), Failure>) -> Result<(), Failure> {
    let error = sent.err().map(Failure::into_body);
    request.send_last(&Message::StreamEnd(StreamEnd { error }))
}

/// Opens a regular file, and returns its size and permission bits; `None` if the path is not a regular file.
fn open_regular(path: &Path, reader: Reader) -> Result<Option<(File, u64, u32)>, Failure> {
    // Without NONBLOCK a FIFO would hold the request until a process writes to it.
    let file: File = match reader.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY) {
        Ok(fd) => fd.into(),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(Failure::output(path.display(), error)),
    };
    let metadata = file
        .metadata()
        .map_err(|error| Failure::io(path.display(), error))?;
    if !metadata.is_file() {
        return Ok(None);
    }
    Ok(Some((file, metadata.len(), metadata.mode() & 0o777)))
}

fn send_exactly(
    request: &Request,
    file: &mut File,
    size_bytes: u64,
    path: &Path,
) -> Result<(), Failure> {
    let mut left = size_bytes;
    let mut block = Block::new(usize::try_from(size_bytes).unwrap_or(usize::MAX));
    while left > 0 {
        let buffer = block.bytes_mut();
        let want = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let count = file
            .read(&mut buffer[..want])
            .map_err(|error| Failure::io(path.display(), error))?;
        if count == 0 {
            return Err(Failure::bad_request(format!(
                "{}: was cut {left} bytes short while it was read",
                path.display()
            )));
        }
        request.send_block(&block, count)?;
        left -= count as u64;
    }
    Ok(())
}
