//! The socket of the control.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::messages::Message;
use super::receive::{MAX_DESCRIPTORS, receive};
use crate::config::LINE_LIMIT_BYTES;

/// The keeper's side of the control, as lines.
pub struct Channel {
    socket: File,
    buffer: Vec<u8>,
    /// Descriptors that came with the bytes since the last request.
    received: Vec<OwnedFd>,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum Input {
    Line(Vec<u8>),
    /// There is no whole line yet.
    Partial,
    /// The keeper's end is closed.
    Closed,
    /// A line beyond the limit. Nothing after it is read.
    TooLong,
}

impl Channel {
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket: socket.into(),
            buffer: Vec::new(),
            received: Vec::new(),
        }
    }

    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Waits for the first line: the configuration.
    pub fn first_line(&mut self) -> io::Result<Input> {
        loop {
            match self.buffered() {
                Input::Partial => {}
                input => return Ok(input),
            }
            if !self.fill()? {
                return Ok(Input::Closed);
            }
        }
    }

    /// Reads once, after the socket became readable. Further lines are [`Self::buffered`].
    pub fn read(&mut self) -> io::Result<Input> {
        if self.fill()? {
            Ok(self.buffered())
        } else {
            Ok(Input::Closed)
        }
    }

    /// Returns false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 4096];
        loop {
            match receive(&self.socket, &mut bytes, &mut self.received) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.received.truncate(MAX_DESCRIPTORS);
                    self.buffer.extend(&bytes[..count]);
                    return Ok(true);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.raw_os_error() == Some(libc::ECONNRESET) => return Ok(false),
                Err(e) => return Err(e),
            }
        }
    }

    /// Takes the descriptors that came with a request, at most [`MAX_DESCRIPTORS`]. The keeper waits for each answer, so
    /// they belong to the request that was read last.
    pub fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.received)
    }

    /// Takes a line that was read already.
    pub fn buffered(&mut self) -> Input {
        match self.buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) if end <= LINE_LIMIT_BYTES => {
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                line.pop();
                Input::Line(line)
            }
            Some(_) => Input::TooLong,
            None if self.buffer.len() > LINE_LIMIT_BYTES => Input::TooLong,
            None => Input::Partial,
        }
    }

    /// Writes a message. A keeper that is gone does not read it.
    pub fn tell(&mut self, message: &Message) {
        let mut line = serde_json::to_vec(message).unwrap_or_default();
        line.push(b'\n');
        let _ = self.socket.write_all(&line);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn channel() -> (Channel, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Channel::new(ours.into()), theirs)
    }

    fn feed(bytes: Vec<u8>, mut keeper: UnixStream) {
        std::thread::spawn(move || keeper.write_all(&bytes));
    }

    #[test]
    fn lines_come_one_by_one_however_they_were_sent() {
        let (mut channel, mut keeper) = channel();
        keeper.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(channel.read().unwrap(), Input::Line(b"one".to_vec()));
        assert_eq!(channel.buffered(), Input::Line(b"two".to_vec()));
        assert_eq!(channel.buffered(), Input::Partial);
        keeper.write_all(b"ee\n").unwrap();
        assert_eq!(channel.read().unwrap(), Input::Line(b"three".to_vec()));
        drop(keeper);
        assert_eq!(channel.read().unwrap(), Input::Closed);
    }

    #[test]
    fn a_line_has_at_most_64_kib() {
        let (mut channel, keeper) = channel();
        let mut longest = vec![b'x'; LINE_LIMIT_BYTES];
        longest.push(b'\n');
        feed(longest, keeper);
        let Input::Line(line) = channel.first_line().unwrap() else {
            panic!("a line")
        };
        assert_eq!(line.len(), LINE_LIMIT_BYTES);
        for end in ["", "\n"] {
            let (mut channel, keeper) = self::channel();
            let mut longer = vec![b'x'; LINE_LIMIT_BYTES + 1];
            longer.extend(end.bytes());
            longer.extend([b'y'; 4096]);
            feed(longer, keeper);
            assert_eq!(channel.first_line().unwrap(), Input::TooLong);
        }
    }

    #[test]
    fn a_keeper_that_is_gone_is_no_error() {
        let (mut channel, keeper) = channel();
        drop(keeper);
        channel.tell(&Message::Started);
        assert_eq!(channel.read().unwrap(), Input::Closed);
    }
}
