//! The keeper's socket, and the bytes of the guest for which it has no room yet.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::console::set_nonblocking;
use crate::guest_memory::GuestSlice;

/// The room for bytes of the guest that the keeper does not read.
pub const ROOM_BYTES: u32 = 256 << 10;

/// The host's side of the guest port. No call waits.
pub struct Host {
    socket: UnixStream,
    waiting: VecDeque<u8>,
    /// The guest sends no more. The socket is shut down once nothing waits.
    sends_no_more: bool,
    /// The keeper reads no more.
    is_deaf: bool,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    Bytes(usize),
    /// There is nothing now.
    Nothing,
    /// The keeper sends no more.
    End,
}

impl Host {
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        set_nonblocking(&socket)?;
        Ok(Self {
            socket: socket.into(),
            waiting: VecDeque::new(),
            sends_no_more: false,
            is_deaf: false,
        })
    }

    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Returns true if the keeper reads no more.
    pub fn is_deaf(&self) -> bool {
        self.is_deaf
    }

    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes bytes of the guest. Returns how many of all that were ever taken reached the keeper with this call.
    pub fn take<'a>(&mut self, slices: impl Iterator<Item = GuestSlice<'a>>) -> usize {
        let mut sent = self.flush();
        for slice in slices {
            let now = if self.waiting.is_empty() {
                self.send_slice(&slice)
            } else {
                0
            };
            sent += now;
            if now < slice.len() {
                let mut rest = vec![0; slice.len() - now];
                if let Ok(slice) = slice.offset(now) {
                    slice.copy_to(&mut rest);
                }
                self.waiting.extend(rest);
            }
        }
        sent
    }

    fn send_slice(&mut self, slice: &GuestSlice<'_>) -> usize {
        let guard = slice.ptr_guard();
        self.send(guard.as_ptr(), slice.len())
    }

    /// Sends what waits. Returns the number of bytes.
    pub fn flush(&mut self) -> usize {
        let mut sent = 0;
        while !self.waiting.is_empty() {
            let (front, _) = self.waiting.as_slices();
            let (pointer, length) = (front.as_ptr(), front.len());
            let now = self.send(pointer, length);
            if now == 0 {
                break;
            }
            self.waiting.drain(..now);
            sent += now;
        }
        if self.sends_no_more && self.waiting.is_empty() {
            // A socket that is gone needs no notice.
            let _ = self.socket.shutdown(Shutdown::Write);
        }
        sent
    }

    /// Sends bytes; a keeper that is gone takes everything.
    fn send(&mut self, bytes: *const u8, length: usize) -> usize {
        if self.is_deaf {
            return length;
        }
        loop {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: the caller has `length` bytes at the pointer, in memory of the guest or of this process.
            let sent = unsafe { libc::send(self.fd(), bytes.cast(), length, flags) };
            if let Ok(sent) = usize::try_from(sent) {
                return sent;
            }
            match io::Error::last_os_error().kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return 0,
                _ => {
                    self.is_deaf = true;
                    return length;
                }
            }
        }
    }

    /// Reads bytes for the guest.
    pub fn read(&mut self, vectors: &[libc::iovec]) -> Read {
        loop {
            let count = libc::c_int::try_from(vectors.len()).unwrap_or(libc::c_int::MAX);
            // SAFETY: the vectors point into the guest's memory, to which no reference exists. The socket does not wait.
            let read = unsafe { libc::readv(self.fd(), vectors.as_ptr(), count) };
            match usize::try_from(read) {
                Ok(0) => return Read::End,
                Ok(read) => return Read::Bytes(read),
                Err(_) => match io::Error::last_os_error().kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => return Read::Nothing,
                    _ => return Read::End,
                },
            }
        }
    }

    /// Returns true if the keeper's end is closed in both directions.
    pub fn is_gone(&self) -> bool {
        let mut entry = libc::pollfd {
            fd: self.fd(),
            events: 0,
            revents: 0,
        };
        // SAFETY: one entry; the call does not wait.
        let ready = unsafe { libc::poll(&raw mut entry, 1, 0) };
        ready > 0 && entry.revents & (libc::POLLHUP | libc::POLLERR) != 0
    }

    /// Says that the guest sends no more, behind what waits.
    pub fn end_sending(&mut self) {
        self.sends_no_more = true;
        self.flush();
    }

    /// Ends both directions at once, without a write: a CPU's thread calls this too. Bytes that wait are lost.
    pub fn cut(&mut self) {
        self.waiting = VecDeque::new();
        self.sends_no_more = true;
        // A socket that is gone needs no notice.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Says that the guest receives no more.
    pub fn end_receiving(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Read);
    }
}
