//! Receives the helper's requests, and moves the bytes of each connection on a thread.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use voidbox_protocol::body::{Connect, ErrorBody, ErrorCode};

use super::handoff::{
    Refusal, receive_connection, receive_early, receive_wanted, send_answer, send_end,
};
use super::pump::{End, Pump, wait_readable};
use super::socket::{check_connection, reset};
use crate::log;
use crate::tunnel::{Gone, Tunnel, Tunnels};

/// The stack size of a connection's thread; its buffer is on the heap.
pub const STACK_BYTES: usize = 128 << 10;
/// The size of a piece of the bytes that the helper has already read.
const EARLY_PIECE_BYTES: usize = 16 << 10;
/// The time within which a connection must arrive after the keeper has given it up.
const LATE_CONNECTION: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Receives requests until the helper ends or sends a malformed one. Connections that it has handed over stay open.
pub fn serve_helper(tunnels: &Arc<Tunnels>, control: &OwnedFd) {
    while let Some((wanted, line)) = receive_wanted(control.as_fd()) {
        let line = UnixStream::from(line);
        // A thread is started only for an existing tunnel, so the limit of tunnels also limits threads.
        let tunnel = match tunnels.open() {
            Ok(Some(tunnel)) => tunnel,
            Ok(None) => {
                let reason = "the guest has reached its limit of connections";
                let _ = send_answer(&line, Err((Refusal::Limit, reason)));
                continue;
            }
            Err(error) => {
                let _ = send_answer(&line, Err((Refusal::Failed, &error.to_string())));
                continue;
            }
        };
        // The thread owns the line; if it fails to start, the line closes and the helper sees this.
        let (all, its) = (tunnels.clone(), tunnel.clone());
        let started = thread::Builder::new()
            .name("tunnel".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                if carry(&its, wanted, &line).is_err() {
                    let _ = its.cancel();
                }
                all.settle(&its);
            });
        if let Err(error) = started {
            tunnels.forget(&tunnel);
            log::line(&format!("no thread for a connection: {error}"));
        }
    }
}

/// Carries one connection from its request to its end. On an error, the caller must still cancel the tunnel.
fn carry(tunnel: &Tunnel, wanted: Connect, line: &UnixStream) -> Result<(), Gone> {
    tunnel.connect(wanted)?;
    let answer = wait_answer(tunnel, line).ok_or(Gone)?;
    if let Err(ErrorBody { code, message }) = answer {
        let refusal = match code {
            ErrorCode::Cancelled => Refusal::Failed,
            code => Refusal::of(code),
        };
        let _ = send_answer(line, Err((refusal, &message)));
        return tunnel.cancel();
    }
    send_answer(line, Ok(())).map_err(|_| Gone)?;
    wait_connection(tunnel, line)?;
    let (socket, early_bytes) = receive_connection(line).map_err(|_| Gone)?;
    check_connection(&socket).map_err(|_| Gone)?;
    if let Err(gone) = send_early(tunnel, line, early_bytes) {
        reset(&socket);
        return Err(gone);
    }
    let end = Pump::new(tunnel, socket, line).run();
    let _ = send_end(line, end == End::Clean);
    Ok(())
}

/// Waits for the keeper's answer; `None` if the helper ends before.
fn wait_answer(tunnel: &Tunnel, line: &UnixStream) -> Option<Result<(), ErrorBody>> {
    loop {
        if let Some(answer) = tunnel.answer() {
            return Some(answer);
        }
        // The helper sends nothing before the answer, so a readable line means its end.
        if wait_readable(tunnel, line.as_fd()).ok()? {
            return None;
        }
    }
}

/// Waits for the connection as long as the keeper does.
fn wait_connection(tunnel: &Tunnel, line: &UnixStream) -> Result<(), Gone> {
    while !tunnel.is_cancelled() {
        if wait_readable(tunnel, line.as_fd()).map_err(|_| Gone)? {
            return Ok(());
        }
    }
    // The connection may be on its way, and its program must see that it broke.
    let mut fds = [PollFd::new(line, PollFlags::IN)];
    match poll(&mut fds, Some(&LATE_CONNECTION)) {
        Ok(1..) => Ok(()),
        _ => Err(Gone),
    }
}

/// Sends the bytes that the helper has already read from the connection.
fn send_early(tunnel: &Tunnel, line: &UnixStream, bytes: usize) -> Result<(), Gone> {
    let mut piece = vec![0; EARLY_PIECE_BYTES.min(bytes)];
    let mut left = bytes;
    while left > 0 {
        if tunnel.is_cancelled() {
            return Err(Gone);
        }
        if !wait_readable(tunnel, line.as_fd()).map_err(|_| Gone)? {
            continue;
        }
        let room = left.min(piece.len());
        let count = receive_early(line, &mut piece[..room]).map_err(|_| Gone)?;
        // The window of a new tunnel has room for them.
        tunnel.send(&piece[..count])?;
        left -= count;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
