//! Requests connections from PID 1, and hands connections of programs over to it.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicUsize;

use voidbox_protocol::body::Connect;

use crate::door::handoff::{Refusal, receive_answer, receive_end, send_connection, send_wanted};
use crate::door::socket::reset;

/// Sends requests over the control socket, and counts open connections.
pub struct Asker {
    pub control: OwnedFd,
    pub open: AtomicUsize,
}

impl Asker {
    /// Returns the line of a connection that PID 1 has opened, or the reason for its refusal.
    pub fn ask(&self, wanted: &Connect) -> Result<UnixStream, (Refusal, String)> {
        let failed = |error: io::Error| (Refusal::Failed, error.to_string());
        let (mut line, end) = UnixStream::pair().map_err(failed)?;
        send_wanted(self.control.as_fd(), wanted, end.as_fd()).map_err(failed)?;
        drop(end);
        receive_answer(&mut line).map_err(failed)??;
        Ok(line)
    }
}

/// Hands a program's connection to PID 1, which moves its bytes from here on; returns at its end.
pub fn hand_over(mut line: UnixStream, client: TcpStream, early: &[u8]) -> io::Result<()> {
    if let Err(error) = send_connection(&mut line, client.as_fd(), early) {
        reset(&client);
        return Err(error);
    }
    drop(client);
    receive_end(&mut line);
    Ok(())
}
