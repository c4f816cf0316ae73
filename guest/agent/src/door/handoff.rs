//! The messages between the helper and PID 1.
//!
//! For each connection, the helper sends one [`Wanted`] over the control socket, with one end of a socket pair, the
//! connection's line. PID 1 writes its answer into the line. If PID 1 agrees, the helper sends the descriptor whose
//! bytes PID 1 moves, and the bytes that it has already read from it. At the end of the connection, PID 1 writes its
//! outcome into the line.
//!
//! For an answer of known length, the helper may send the program's connection and the number of remaining bytes on the
//! same line. PID 1 then moves these bytes, and writes the outcome into the line.
//!
//! The helper is not trusted. PID 1 never blocks in a call for it, and does not rely on a flag of the descriptor, which
//! the helper shares. Instead it polls, and calls with `DONTWAIT`. A line belongs to one tunnel and accepts one
//! connection. So no message names a tunnel, and no tunnel can be handed over twice.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType, recv, recvmsg, send, sendmsg,
    sockopt,
};
use voidbox_protocol::body::{Connect, ErrorCode};

/// The limit of a name in bytes.
const MAX_NAME_BYTES: usize = 255;
/// The limit of bytes that a helper may read from a connection before it hands the connection over.
pub const MAX_EARLY_BYTES: usize = 64 << 10;
/// The limit in bytes of a message with the reason for a refusal.
const MAX_REASON_BYTES: usize = 1024;

const TO_HOST: u8 = 0;
const TO_SERVICE: u8 = 1;

/// The reason for a refusal, in the kinds that the helper distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// The policy refuses it, or the request is malformed.
    NotAllowed = 1,
    /// Too many connections at once, or since the start.
    Limit = 2,
    /// The other end failed.
    Failed = 3,
}

impl Refusal {
    pub fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::NotAllowed | ErrorCode::BadRequest => Refusal::NotAllowed,
            ErrorCode::Limit => Refusal::Limit,
            _ => Refusal::Failed,
        }
    }
}

/// Requests a connection, and sends one end of its line.
pub fn send_wanted(
    control: BorrowedFd<'_>,
    wanted: &Connect,
    line: BorrowedFd<'_>,
) -> io::Result<()> {
    let (kind, port, name) = match wanted {
        Connect::Host { host, port } => (TO_HOST, *port, host),
        Connect::Service { name } => (TO_SERVICE, 0, name),
    };
    let mut message = vec![kind];
    message.extend_from_slice(&port.to_le_bytes());
    message.extend_from_slice(name.as_bytes());
    send_with(control, &message, line)
}

/// Receives the helper's next request; `None` if the helper has ended or sends a malformed message.
pub fn receive_wanted(control: BorrowedFd<'_>) -> Option<(Connect, OwnedFd)> {
    let mut buffer = [0u8; 3 + MAX_NAME_BYTES + 1];
    let (count, line) = receive_with(control, &mut buffer, RecvFlags::empty()).ok()?;
    let [kind, low, high, name @ ..] = &buffer[..count] else {
        return None;
    };
    let is_name = name.len() <= MAX_NAME_BYTES && name.iter().all(u8::is_ascii_graphic);
    let name = String::from_utf8(name.to_vec()).ok().filter(|_| is_name)?;
    let wanted = match *kind {
        TO_HOST => Connect::Host {
            host: name,
            port: u16::from_le_bytes([*low, *high]),
        },
        TO_SERVICE => Connect::Service { name },
        _ => return None,
    };
    Some((wanted, line.filter(is_line)?))
}

fn is_line(line: &OwnedFd) -> bool {
    sockopt::socket_domain(line) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(line) == Ok(SocketType::STREAM)
}

/// Sends PID 1's answer.
pub fn send_answer(line: &UnixStream, answer: Result<(), (Refusal, &str)>) -> io::Result<()> {
    let (code, reason) = match answer {
        Ok(()) => (0, ""),
        Err((refusal, reason)) => (refusal as u8, reason),
    };
    let reason = &reason.as_bytes()[..reason.len().min(MAX_REASON_BYTES)];
    let length = u16::try_from(reason.len()).unwrap_or(0);
    let mut message = vec![code];
    message.extend_from_slice(&length.to_le_bytes());
    message.extend_from_slice(reason);
    send_now(line, &message)
}

/// Receives the answer on the helper's side.
pub fn receive_answer(line: &mut UnixStream) -> io::Result<Result<(), (Refusal, String)>> {
    let mut head = [0u8; 3];
    line.read_exact(&mut head)?;
    let mut reason = vec![0; usize::from(u16::from_le_bytes([head[1], head[2]]))];
    line.read_exact(&mut reason)?;
    let refusal = match head[0] {
        0 => return Ok(Ok(())),
        1 => Refusal::NotAllowed,
        2 => Refusal::Limit,
        _ => Refusal::Failed,
    };
    Ok(Err((
        refusal,
        String::from_utf8_lossy(&reason).into_owned(),
    )))
}

/// Hands a connection over, with the bytes that were read from it.
pub fn send_connection(
    line: &mut UnixStream,
    connection: BorrowedFd<'_>,
    early: &[u8],
) -> io::Result<()> {
    let length = u32::try_from(early.len()).map_err(|_| invalid())?;
    send_with(line.as_fd(), &length.to_le_bytes(), connection)?;
    line.write_all(early)
}

/// Receives a connection from the helper, and the number of early bytes that follow it. Call this when the line is
/// readable.
pub fn receive_connection(line: &UnixStream) -> io::Result<(OwnedFd, usize)> {
    let mut length = [0u8; 4];
    let (count, connection) = receive_with(line.as_fd(), &mut length, RecvFlags::DONTWAIT)?;
    let connection = connection
        .filter(|_| count == length.len())
        .ok_or_else(invalid)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_EARLY_BYTES {
        return Err(invalid());
    }
    Ok((connection, length))
}

/// Receives some of the early bytes that follow a connection. Call this when the line is readable.
pub fn receive_early(line: &UnixStream, into: &mut [u8]) -> io::Result<usize> {
    match recv(line, into, RecvFlags::DONTWAIT)? {
        (0, _) => Err(io::ErrorKind::UnexpectedEof.into()),
        (count, _) => Ok(count),
    }
}

/// Sends the program's connection, and the number of remaining bytes that PID 1 moves into it.
pub fn send_rest(line: &UnixStream, program: BorrowedFd<'_>, left: u64) -> io::Result<()> {
    send_with(line.as_fd(), &left.to_le_bytes(), program)
}

/// Receives a program's connection and the number of bytes for it; `None` at the end of the line. Call this when the
/// line is readable.
pub fn receive_rest(line: &UnixStream) -> io::Result<Option<(OwnedFd, u64)>> {
    let mut left = [0u8; 8];
    let (count, program) = receive_with(line.as_fd(), &mut left, RecvFlags::DONTWAIT)?;
    match (count, program) {
        (0, None) => Ok(None),
        (8, Some(program)) => Ok(Some((program, u64::from_le_bytes(left)))),
        _ => Err(invalid()),
    }
}

/// Sends the outcome of a connection.
pub fn send_end(line: &UnixStream, is_clean: bool) -> io::Result<()> {
    send_now(line, &[u8::from(is_clean)])
}

/// Returns true if a connection ended without loss.
pub fn receive_end(line: &mut UnixStream) -> bool {
    let mut end = [0u8];
    line.read_exact(&mut end).is_ok() && end[0] == 1
}

fn invalid() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidData)
}

fn send_with(socket: BorrowedFd<'_>, bytes: &[u8], fd: BorrowedFd<'_>) -> io::Result<()> {
    let fds = [fd];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(invalid());
    }
    let sent = sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    if sent != bytes.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(())
}

/// Sends all bytes or fails. A line has room for every message of the protocol.
fn send_now(line: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    let sent = send(line, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    if sent != bytes.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(())
}

/// Receives a message with its descriptor. If several descriptors arrive, closes them and returns `None`.
fn receive_with(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(usize, Option<OwnedFd>)> {
    // The buffer has room for one extra descriptor, so that extra ones are detected.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let into = &mut [IoSliceMut::new(buffer)];
        match recvmsg(
            socket,
            into,
            &mut ancillary,
            flags | RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut fds: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            fds.extend(more);
        }
    }
    let is_one = fds.len() == 1 && !received.flags.contains(ReturnFlags::CTRUNC);
    Ok((received.bytes, fds.pop().filter(|_| is_one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    #[test]
    fn a_request_comes_over_with_its_line() {
        let (theirs, mine) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let (mut line, end) = pair();
        let wanted = Connect::Host {
            host: "a.example".into(),
            port: 443,
        };
        send_wanted(theirs.as_fd(), &wanted, end.as_fd()).unwrap();
        drop(end);
        let (got, end) = receive_wanted(mine.as_fd()).unwrap();
        assert_eq!(got, wanted);
        let end = UnixStream::from(end);
        send_answer(&end, Err((Refusal::NotAllowed, "no"))).unwrap();
        assert_eq!(
            receive_answer(&mut line).unwrap(),
            Err((Refusal::NotAllowed, "no".into()))
        );
        for wrong in [
            Connect::Service {
                name: "with space".into(),
            },
            Connect::Service {
                name: "x".repeat(256),
            },
        ] {
            send_wanted(theirs.as_fd(), &wrong, line.as_fd()).unwrap();
            assert!(receive_wanted(mine.as_fd()).is_none(), "{wrong:?}");
        }
        drop(theirs);
        assert!(receive_wanted(mine.as_fd()).is_none());
    }

    #[test]
    fn a_connection_comes_over_with_what_was_read_of_it() {
        let (mut theirs, mine) = pair();
        let (socket, mut other) = pair();
        send_connection(&mut theirs, socket.as_fd(), b"early").unwrap();
        let (got, length) = receive_connection(&mine).unwrap();
        let mut early = vec![0; length];
        assert_eq!(receive_early(&mine, &mut early).unwrap(), 5);
        assert_eq!(early, b"early");
        UnixStream::from(got).write_all(b"x").unwrap();
        let mut byte = [0];
        other.read_exact(&mut byte).unwrap();
        send_end(&mine, true).unwrap();
        assert!(receive_end(&mut theirs));
        drop(mine);
        assert!(!receive_end(&mut theirs));
    }
}
