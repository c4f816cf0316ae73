//! Moves bytes between a program's connection and its tunnel, within the tunnel's credit.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use voidbox_protocol::frame::MAX_CHUNK_BYTES;

use super::rest::Rest;
use super::socket::reset;
use crate::chunk::Chunk;
use crate::tunnel::{Gone, Inbound, Tunnel};

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Both sides have ended their bytes.
    Clean,
    /// Some bytes were lost.
    Reset,
}

/// Waits until `fd` is readable, or the tunnel has changed; returns true for the former.
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

/// A program's connection. Its calls never block, whatever flags another process sets on the shared socket.
pub struct Pump<'a> {
    tunnel: &'a Tunnel,
    socket: OwnedFd,
    rest: Rest<'a>,
    /// The keeper's bytes on their way into the socket.
    chunk: Chunk,
    written: usize,
    /// All bytes of the keeper are in the socket, and its end was passed on.
    in_done: bool,
    /// The keeper has all bytes of the program.
    out_done: bool,
    /// The program has closed its end, so that further bytes have no reader.
    peer_gone: bool,
    buffer: Vec<u8>,
}

/// The descriptors that are readable.
struct Ready {
    socket: bool,
    line: bool,
}

impl<'a> Pump<'a> {
    pub fn new(tunnel: &'a Tunnel, socket: OwnedFd, line: &'a UnixStream) -> Self {
        Self {
            tunnel,
            rest: Rest::of(&socket, line),
            socket,
            chunk: Chunk::default(),
            written: 0,
            in_done: false,
            out_done: false,
            peer_gone: false,
            buffer: vec![0; MAX_CHUNK_BYTES],
        }
    }

    /// Runs until the connection is over. The tunnel has then sent its last message.
    pub fn run(mut self) -> End {
        match self.run_to_end() {
            Ok(End::Clean) => End::Clean,
            Ok(End::Reset) | Err(Gone) => {
                let _ = self.tunnel.cancel();
                // A part of a broken connection's bytes must not look whole.
                reset(&self.socket);
                self.rest.reset();
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
            let Ok(ready) = self.wait() else {
                return Ok(End::Reset);
            };
            self.tunnel.clear_wake();
            if ready.line {
                let taken = self.rest.take();
                // If a rest ends before its length, the answer is too short.
                let is_short = self.in_done && self.rest.program().is_some();
                if taken.is_err() || is_short {
                    return Ok(End::Reset);
                }
            }
            if ready.socket && self.pull()? == Some(End::Reset) {
                return Ok(End::Reset);
            }
        }
    }

    fn has_bytes(&self) -> bool {
        self.written < self.chunk.bytes().len()
    }

    /// Writes the keeper's bytes, up to the number that the socket accepts.
    fn push(&mut self) -> Result<Option<End>, Gone> {
        // This is also checked while the program does not read, which it may never do.
        if self.tunnel.is_cancelled() && !(self.in_done && self.out_done) {
            return Ok(Some(End::Reset));
        }
        while !self.in_done && !self.rest.is_awaited() {
            if !self.has_bytes() {
                match self.tunnel.next_inbound(&mut self.chunk)? {
                    Inbound::Chunk => self.written = 0,
                    // The answer is shorter than its announced length.
                    Inbound::End if self.rest.program().is_some() => return Ok(Some(End::Reset)),
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
            match self.send_chunk() {
                Ok(count) => {
                    self.written += count;
                    self.rest.moved(count);
                    self.tunnel.consumed(count)?;
                }
                Err(Errno::AGAIN) => {
                    self.tunnel.empty_slots()?;
                    break;
                }
                Err(Errno::INTR) => {}
                Err(Errno::PIPE) if self.rest.await_it() => self.tunnel.empty_slots()?,
                Err(_) => return Ok(Some(End::Reset)),
            }
        }
        Ok(None)
    }

    /// Writes some of the chunk to its destination.
    fn send_chunk(&self) -> Result<usize, Errno> {
        let bytes = &self.chunk.bytes()[self.written..];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match self.rest.program() {
            Some((program, left)) => {
                let some = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                send(program, &bytes[..some], flags)
            }
            None => send(&self.socket, bytes, flags),
        }
    }

    /// Sends the bytes of one read from the program.
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

    /// Waits until an operation is possible.
    fn wait(&mut self) -> Result<Ready, Errno> {
        let mut wanted = PollFlags::empty();
        if !self.out_done && self.tunnel.send_room() > 0 {
            wanted |= PollFlags::IN;
        }
        let to_write = match self.has_bytes() && !self.rest.is_awaited() {
            true => PollFlags::OUT,
            false => PollFlags::empty(),
        };
        let program = self.rest.program().map(|(program, _)| program.as_fd());
        let wake = self.tunnel.wake_fd();
        let mut fds = vec![PollFd::from_borrowed_fd(wake, PollFlags::IN)];
        // A closed connection that is not readable must not be polled, because its hang-up would make the loop spin.
        let (socket, to) = match program {
            None if wanted.is_empty() && self.peer_gone => (None, None),
            None => {
                let socket = add(&mut fds, self.socket.as_fd(), wanted | to_write);
                (Some(socket), Some(socket))
            }
            Some(program) => {
                let socket =
                    (!wanted.is_empty()).then(|| add(&mut fds, self.socket.as_fd(), wanted));
                (
                    socket,
                    (!self.peer_gone).then(|| add(&mut fds, program, to_write)),
                )
            }
        };
        let line = self
            .rest
            .line()
            .map(|line| add(&mut fds, line, PollFlags::IN));
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let revents = |at: Option<usize>| at.map_or(PollFlags::empty(), |at| fds[at].revents());
        let gone = PollFlags::HUP | PollFlags::ERR;
        self.peer_gone |= revents(to).intersects(gone);
        Ok(Ready {
            socket: revents(socket).intersects(PollFlags::IN | gone),
            line: !revents(line).is_empty(),
        })
    }
}

/// Adds a descriptor to the poll, and returns its index.
fn add<'a>(fds: &mut Vec<PollFd<'a>>, fd: BorrowedFd<'a>, flags: PollFlags) -> usize {
    fds.push(PollFd::from_borrowed_fd(fd, flags));
    fds.len() - 1
}

fn shutdown(socket: &OwnedFd, how: Shutdown) -> Result<(), Errno> {
    let how = match how {
        Shutdown::Read => rustix::net::Shutdown::Read,
        Shutdown::Write => rustix::net::Shutdown::Write,
        Shutdown::Both => rustix::net::Shutdown::Both,
    };
    rustix::net::shutdown(socket, how)
}
