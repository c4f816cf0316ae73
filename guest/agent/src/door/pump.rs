//! Moves bytes between a connection of a program and its tunnel, within the tunnel's credit.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use voidbox_protocol::frame::MAX_CHUNK_BYTES;

use super::tunnel::{Gone, Inbound, Tunnel};
use crate::request::Chunk;

/// How a connection came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Both sides ended their bytes.
    Clean,
    /// Something was lost on the way.
    Reset,
}

/// Waits until `fd` can be read, or the tunnel has changed; true for the first.
pub fn wait_readable(tunnel: &Tunnel, fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [
        PollFd::from_borrowed_fd(tunnel.wake_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(fd, PollFlags::IN),
    ];
    match poll(&mut fds, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    tunnel.clear_wake();
    Ok(!fds[1].revents().is_empty())
}

/// A connection of a program. Its calls do not wait, whatever a process that shares it sets.
pub struct Pump<'a> {
    tunnel: &'a Tunnel,
    socket: OwnedFd,
    /// Of the keeper, on their way into the socket.
    chunk: Chunk,
    written: usize,
    /// The keeper's bytes are all in the socket, and it was told so.
    in_done: bool,
    /// The program's bytes are all with the keeper.
    out_done: bool,
    /// The program has closed its end, so that nobody reads what still comes.
    peer_gone: bool,
    buffer: Vec<u8>,
}

impl<'a> Pump<'a> {
    pub fn new(tunnel: &'a Tunnel, socket: OwnedFd) -> Self {
        Self {
            tunnel,
            socket,
            chunk: Chunk::default(),
            written: 0,
            in_done: false,
            out_done: false,
            peer_gone: false,
            buffer: vec![0; MAX_CHUNK_BYTES],
        }
    }

    /// Runs until the connection is over. The tunnel has said its last word then.
    pub fn run(mut self) -> End {
        match self.run_to_end() {
            Ok(End::Clean) => End::Clean,
            Ok(End::Reset) | Err(Gone) => {
                let _ = self.tunnel.cancel();
                // What a program has of a connection that broke must not look whole.
                let _ = rustix::net::sockopt::set_socket_linger(
                    &self.socket,
                    Some(std::time::Duration::ZERO),
                );
                End::Reset
            }
        }
    }

    fn run_to_end(&mut self) -> Result<End, Gone> {
        loop {
            if self.push()? == Some(End::Reset) {
                return Ok(End::Reset);
            }
            if self.in_done && self.out_done {
                return Ok(End::Clean);
            }
            let readable = match self.wait() {
                Ok(readable) => readable,
                Err(_) => return Ok(End::Reset),
            };
            self.tunnel.clear_wake();
            if readable && self.pull()? == Some(End::Reset) {
                return Ok(End::Reset);
            }
        }
    }

    fn has_bytes(&self) -> bool {
        self.written < self.chunk.bytes().len()
    }

    /// Writes what the keeper has sent, as far as the socket takes it.
    fn push(&mut self) -> Result<Option<End>, Gone> {
        // Seen here also while the program does not read, which it may never do.
        if self.tunnel.is_cancelled() && !(self.in_done && self.out_done) {
            return Ok(Some(End::Reset));
        }
        while !self.in_done {
            if !self.has_bytes() {
                match self.tunnel.next_inbound(&mut self.chunk)? {
                    Inbound::Chunk => self.written = 0,
                    Inbound::End => {
                        let _ = shutdown(&self.socket, Shutdown::Write);
                        self.in_done = true;
                        break;
                    }
                    Inbound::Cancelled => return Ok(Some(End::Reset)),
                    Inbound::Nothing => break,
                }
            }
            if self.peer_gone {
                return Ok(Some(End::Reset));
            }
            let rest = &self.chunk.bytes()[self.written..];
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(&self.socket, rest, flags) {
                Ok(count) => {
                    self.written += count;
                    self.tunnel.consumed(count)?;
                }
                Err(Errno::AGAIN) => {
                    self.tunnel.empty_slots()?;
                    break;
                }
                Err(Errno::INTR) => {}
                Err(_) => return Ok(Some(End::Reset)),
            }
        }
        Ok(None)
    }

    /// Sends what one read of the program's bytes gives.
    fn pull(&mut self) -> Result<Option<End>, Gone> {
        let room = self.tunnel.send_room().min(self.buffer.len());
        if self.out_done || room == 0 {
            return Ok(None);
        }
        let received = recv(&self.socket, &mut self.buffer[..room], RecvFlags::DONTWAIT);
        match received.map(|(count, _)| count) {
            Ok(0) => {
                self.out_done = true;
                self.tunnel.end()?;
            }
            Ok(count) => self.tunnel.send(&self.buffer[..count])?,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return Ok(Some(End::Reset)),
        }
        Ok(None)
    }

    /// Waits for what can be done next; true when the socket can be read.
    fn wait(&mut self) -> Result<bool, Errno> {
        let mut wanted = PollFlags::empty();
        if !self.out_done && self.tunnel.send_room() > 0 {
            wanted |= PollFlags::IN;
        }
        if self.has_bytes() {
            wanted |= PollFlags::OUT;
        }
        let mut fds = vec![PollFd::from_borrowed_fd(
            self.tunnel.wake_fd(),
            PollFlags::IN,
        )];
        // One that is gone and cannot be read is not polled: its hang-up would spin.
        if !wanted.is_empty() || !self.peer_gone {
            fds.push(PollFd::from_borrowed_fd(self.socket.as_fd(), wanted));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let revents = fds.get(1).map_or(PollFlags::empty(), PollFd::revents);
        self.peer_gone |= revents.intersects(PollFlags::HUP | PollFlags::ERR);
        Ok(revents.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR))
    }
}

fn shutdown(socket: &OwnedFd, how: Shutdown) -> Result<(), Errno> {
    let how = match how {
        Shutdown::Read => rustix::net::Shutdown::Read,
        Shutdown::Write => rustix::net::Shutdown::Write,
        Shutdown::Both => rustix::net::Shutdown::Both,
    };
    rustix::net::shutdown(socket, how)
}
