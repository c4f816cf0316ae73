//! The rest of an answer, which bypasses the helper that passed on its beginning.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{AddressFamily, sockopt};

use super::handoff::{receive_rest, send_end};
use super::socket::{check_connection, reset};

/// The destination of the keeper's bytes for a connection.
enum Route {
    /// The connection that was handed over.
    Connection,
    /// None yet: the helper stops receiving, and must send the destination of the rest.
    Awaited,
    /// The connection of a program, for the next `left` bytes.
    Rest { program: OwnedFd, left: u64 },
}

/// Receives the helper's message after a hand-over: at most one, with the destination of the rest.
pub struct Rest<'a> {
    line: &'a UnixStream,
    /// The helper may still send the message.
    is_open: bool,
    route: Route,
}

/// The helper sent a malformed message, or ended before it sent the destination of the rest.
#[derive(Debug)]
pub struct Broken;

impl<'a> Rest<'a> {
    /// Only the helper's own end of a pair has a rest: a program's connection gets all bytes.
    pub fn of(socket: &OwnedFd, line: &'a UnixStream) -> Self {
        Self {
            line,
            is_open: sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX),
            route: Route::Connection,
        }
    }

    /// Returns the line to poll, as long as the helper may send something.
    pub fn line(&self) -> Option<BorrowedFd<'a>> {
        self.is_open.then(|| self.line.as_fd())
    }

    /// Reads the helper's message. Call this when the line is readable.
    pub fn take(&mut self) -> Result<(), Broken> {
        self.is_open = false;
        match receive_rest(self.line) {
            // The helper has ended, which is allowed: the connection that it handed over stays open.
            Ok(None) if !self.is_awaited() => Ok(()),
            Ok(Some((program, left))) if left > 0 && check_connection(&program).is_ok() => {
                self.route = Route::Rest { program, left };
                Ok(())
            }
            _ => Err(Broken),
        }
    }

    /// Records that the connection accepts no more bytes. Returns true if the helper may still send their destination.
    pub fn await_it(&mut self) -> bool {
        if self.is_open {
            self.route = Route::Awaited;
        }
        self.is_open
    }

    pub fn is_awaited(&self) -> bool {
        matches!(self.route, Route::Awaited)
    }

    /// Returns the program's connection, and the number of bytes that it still gets.
    pub fn program(&self) -> Option<(&OwnedFd, u64)> {
        match &self.route {
            Route::Rest { program, left } => Some((program, *left)),
            _ => None,
        }
    }

    /// Counts bytes that were written to the program's connection, and reports the last one to the helper.
    pub fn moved(&mut self, bytes: usize) {
        let Route::Rest { left, .. } = &mut self.route else {
            return;
        };
        *left = left.saturating_sub(bytes as u64);
        if *left == 0 {
            self.route = Route::Connection;
            // If the helper has ended, its program's connection has ended too.
            let _ = send_end(self.line, true);
        }
    }

    /// Resets the program's connection, so that a part of an answer does not look whole.
    pub fn reset(&self) {
        if let Some((program, _)) = self.program() {
            reset(program);
        }
    }
}
