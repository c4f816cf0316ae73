//! The rest of an answer, which goes to its program past the helper that passed on its beginning.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{AddressFamily, sockopt};

use super::handoff::{receive_rest, send_end};
use super::socket::{check_connection, reset};

/// The place to which the keeper's bytes of a connection go.
enum Route {
    /// Into the connection that was handed over.
    Connection,
    /// Nowhere: the helper takes no more, and is to say where the rest goes.
    Awaited,
    /// So many of them into the connection of a program.
    Rest { program: OwnedFd, left: u64 },
}

/// Follows what the helper says of a connection after it was handed over: once, where the rest goes.
pub struct Rest<'a> {
    line: &'a UnixStream,
    /// The helper may still say it.
    is_open: bool,
    route: Route,
}

/// The helper did not keep to the form, or went before it said where the rest goes.
#[derive(Debug)]
pub struct Broken;

impl<'a> Rest<'a> {
    /// Only the helper's own end of a pair has a rest: a program's connection gets all there is.
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

    /// Takes what the helper says. To be called when the line can be read.
    pub fn take(&mut self) -> Result<(), Broken> {
        self.is_open = false;
        match receive_rest(self.line) {
            // The helper has gone, as it may: the connection that it handed over stays open.
            Ok(None) if !self.is_awaited() => Ok(()),
            Ok(Some((program, left))) if left > 0 && check_connection(&program).is_ok() => {
                self.route = Route::Rest { program, left };
                Ok(())
            }
            _ => Err(Broken),
        }
    }

    /// The connection takes no more bytes. True when the helper may still say where they go.
    pub fn await_it(&mut self) -> bool {
        if self.is_open {
            self.route = Route::Awaited;
        }
        self.is_open
    }

    pub fn is_awaited(&self) -> bool {
        matches!(self.route, Route::Awaited)
    }

    /// The program's connection, and how many bytes still go there.
    pub fn program(&self) -> Option<(&OwnedFd, u64)> {
        match &self.route {
            Route::Rest { program, left } => Some((program, *left)),
            _ => None,
        }
    }

    /// Counts bytes that went into the program's connection, and tells the helper of the last one.
    pub fn moved(&mut self, bytes: usize) {
        let Route::Rest { left, .. } = &mut self.route else {
            return;
        };
        *left = left.saturating_sub(bytes as u64);
        if *left == 0 {
            self.route = Route::Connection;
            // One that has gone has no program either.
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
