//! Reads requests and writes answers, one after the other.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use p9::{Config, Server};

use crate::admit::{HEADER_BYTES, MESSAGE_BYTES, admit};
use crate::confine::confine;

/// The type of an answer with an error number.
const ERROR: u8 = 7;
const ERROR_BYTES: u32 = 11;

/// Confines the calling thread to reading beneath `root`, and serves until the other side closes the socket. An error concerns the socket, or a message without a valid length,
/// behind which no other message can be found.
pub fn serve(mut socket: UnixStream, root: &Path) -> io::Result<()> {
    let mut server = Server::with_config(Config {
        root: root.into(),
        msize: u32::try_from(MESSAGE_BYTES).unwrap_or(u32::MAX),
        uid_map: BTreeMap::new(),
        gid_map: BTreeMap::new(),
        ascii_casefold: false,
    })?;
    confine(root)?;
    let mut message = Vec::new();
    let mut answer = Vec::new();
    while read_message(&mut socket, &mut message)? {
        answer.clear();
        answer_to(&mut server, &mut message, &mut answer);
        socket.write_all(&answer)?;
    }
    Ok(())
}

/// Returns false at the end of the socket.
fn read_message(socket: &mut impl Read, message: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 4];
    let first = match socket.read(&mut length) {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
        read => read?,
    };
    if first == 0 {
        return Ok(false);
    }
    socket.read_exact(&mut length[first..])?;
    let bytes = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if !(HEADER_BYTES..=MESSAGE_BYTES).contains(&bytes) {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            format!("a message of {bytes} bytes, expected {HEADER_BYTES} to {MESSAGE_BYTES}"),
        ));
    }
    message.resize(bytes, 0);
    message[..4].copy_from_slice(&length);
    socket.read_exact(&mut message[4..])?;
    Ok(true)
}

fn answer_to(server: &mut Server, message: &mut [u8], answer: &mut Vec<u8>) {
    let tag = [message[5], message[6]];
    let refused = match admit(message) {
        Ok(()) => match server.handle_message(&mut &message[..], answer) {
            Ok(()) => return,
            // The library could not read the request.
            Err(_) => libc::EINVAL,
        },
        Err(number) => number,
    };
    answer.clear();
    answer.extend(ERROR_BYTES.to_le_bytes());
    answer.push(ERROR);
    answer.extend(tag);
    answer.extend(refused.unsigned_abs().to_le_bytes());
}

#[cfg(test)]
mod tests;
