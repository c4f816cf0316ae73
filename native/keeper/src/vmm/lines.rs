//! Reads and writes lines of a VMM's control socket.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

/// The limit of a line; events and answers of a VMM have some hundred bytes.
pub const MAX_LINE_BYTES: usize = 64 << 10;

/// A line is longer than any line of a real VMM. The VMM is hostile or broken.
#[derive(Debug, thiserror::Error)]
#[error("a line has more than {MAX_LINE_BYTES} bytes")]
pub struct LongLine;

/// Lines of at most [`MAX_LINE_BYTES`]. Cancelling a read loses no bytes.
pub struct Lines<S = UnixStream> {
    socket: S,
    buffer: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Lines<S> {
    pub fn new(socket: S) -> Self {
        Self {
            socket,
            buffer: Vec::new(),
        }
    }

    /// Returns the next line, `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, LongLine> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                return Ok(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(LongLine);
            }
            match self.socket.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(_) => {}
            }
        }
    }
}

impl Lines {
    pub async fn send(&mut self, line: &str) -> io::Result<()> {
        self.socket.write_all(format!("{line}\n").as_bytes()).await
    }

    /// Sends a line of less than a page with a copy of the descriptor.
    pub async fn send_with_fd(&mut self, line: &str, fd: BorrowedFd<'_>) -> io::Result<()> {
        send_with_fds(&self.socket, &format!("{line}\n"), &[fd]).await
    }
}

/// The limit of descriptors of one line.
const MAX_FDS: usize = 2;

/// Sends a text of less than a page with copies of the descriptors.
pub async fn send_with_fds(
    socket: &UnixStream,
    text: &str,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    loop {
        socket.writable().await?;
        let sent = socket.try_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !control.push(SendAncillaryMessage::ScmRights(fds)) {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            }
            let parts = [IoSlice::new(text.as_bytes())];
            Ok(sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL)?)
        });
        match sent {
            Ok(count) if count == text.len() => return Ok(()),
            Ok(_) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
