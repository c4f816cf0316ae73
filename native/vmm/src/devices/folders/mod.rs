//! Shared folders: the guest's requests of 9p, each copied out and sent to the server of the folders over a socket. This
//! process opens no file of a folder, and the server has no memory of the guest.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::console::set_nonblocking;
use crate::virtio::{Device, Failure, Progress, Rings, Source};

const ID: u32 = 9;
const QUEUE_SIZE: u16 = 128;
const QUEUE: usize = 0;
/// `VIRTIO_9P_MOUNT_TAG`: the configuration has the name of the folders.
const MOUNT_TAG: u64 = 1;
/// The length of `size[4] type[1] tag[2]`, with which each message begins.
const HEADER_BYTES: usize = 7;
/// The limit of a message: 256 KiB of data, and the longest header before data.
pub const MESSAGE_BYTES: usize = (256 << 10) + 24;

/// The device. One request is on its way at a time; further ones wait in the queue.
pub struct Folders {
    socket: UnixStream,
    config: Vec<u8>,
    exchange: Option<Exchange>,
    /// The server has broken the protocol, or has ended.
    is_broken: bool,
}

/// A request, and the part of its answer that has arrived.
struct Exchange {
    request: Vec<u8>,
    sent: usize,
    answer: Vec<u8>,
    /// The guest has reset the device, so that no buffer waits for the answer.
    is_forgotten: bool,
}

impl Folders {
    /// Makes the device for the server at the other end of `socket`, a stream. The guest mounts the folders by the name
    /// `tag`.
    pub fn new(socket: OwnedFd, tag: &str) -> io::Result<Self> {
        set_nonblocking(&socket)?;
        let length = u16::try_from(tag.len()).map_err(io::Error::other)?;
        Ok(Self {
            socket: socket.into(),
            config: [&length.to_le_bytes()[..], tag.as_bytes()].concat(),
            exchange: None,
            is_broken: false,
        })
    }

    /// Sends and receives what the socket takes and has. Returns the answer once it is whole.
    fn proceed(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(exchange) = &mut self.exchange else {
            return Ok(None);
        };
        match exchange.proceed(&mut self.socket) {
            Ok(true) => {
                let done = self.exchange.take();
                Ok(done
                    .filter(|done| !done.is_forgotten)
                    .map(|done| done.answer))
            }
            Ok(false) => Ok(None),
            Err(error) => {
                self.is_broken = true;
                self.exchange = None;
                Err(Failure::new(format!("the server of the folders: {error}")))
            }
        }
    }

    /// Gives an answer to the guest, in the buffers of its request.
    fn complete(&mut self, answer: &[u8], rings: &mut Rings<'_>) -> Result<(), Failure> {
        if !rings.current(QUEUE).writable(rings.memory).write(0, answer) {
            return Err(Failure::new(format!(
                "a request without room for its answer of {} bytes",
                answer.len()
            )));
        }
        rings.complete(QUEUE, u32::try_from(answer.len()).unwrap_or(u32::MAX))
    }
}

impl Exchange {
    fn new(request: Vec<u8>) -> Self {
        Self {
            request,
            sent: 0,
            answer: Vec::new(),
            is_forgotten: false,
        }
    }

    /// Returns true once the answer is whole. An error concerns the server.
    fn proceed(&mut self, socket: &mut UnixStream) -> io::Result<bool> {
        while self.sent < self.request.len() {
            match socket.write(&self.request[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) => return wait_or_fail(error),
            }
        }
        loop {
            let wanted = match self.answer.get(..4) {
                Some(length) => message_bytes(length)
                    .ok_or_else(|| io::Error::other("an answer without a valid length"))?,
                None => 4,
            };
            let have = self.answer.len();
            if have == wanted && have >= HEADER_BYTES {
                return Ok(true);
            }
            self.answer.resize(wanted, 0);
            let read = socket.read(&mut self.answer[have..]);
            self.answer
                .truncate(have + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) => return wait_or_fail(error),
            }
        }
    }
}

fn wait_or_fail(error: io::Error) -> io::Result<bool> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(false),
        _ => Err(error),
    }
}

/// Returns the length that a message states, if a message can have it.
fn message_bytes(length: &[u8]) -> Option<usize> {
    let length = <[u8; 4]>::try_from(length).ok()?;
    usize::try_from(u32::from_le_bytes(length))
        .ok()
        .filter(|bytes| (HEADER_BYTES..=MESSAGE_BYTES).contains(bytes))
}

impl Device for Folders {
    fn name(&self) -> &str {
        "folders"
    }

    fn id(&self) -> u32 {
        ID
    }

    fn queues(&self) -> &'static [u16] {
        &[QUEUE_SIZE]
    }

    fn features(&self) -> u64 {
        MOUNT_TAG
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    fn reset(&mut self) {
        if let Some(exchange) = &mut self.exchange {
            exchange.is_forgotten = true;
        }
    }

    fn process(&mut self, queue: usize, rings: &mut Rings<'_>) -> Result<Progress, Failure> {
        for _ in 0..rings.turn(queue) {
            // The next request waits for the answer to this one.
            if self.exchange.is_some() {
                return Ok(Progress::Idle);
            }
            let memory = rings.memory;
            let Some(chain) = rings.next(queue)? else {
                return Ok(Progress::Idle);
            };
            if self.is_broken {
                return Err(Failure::new("the server of the folders has ended"));
            }
            let readable = chain.readable(memory);
            let mut length = [0; 4];
            let bytes = match readable.read(0, &mut length) {
                true => message_bytes(&length),
                false => None,
            };
            let mut request = vec![0; bytes.unwrap_or(0)];
            if bytes.is_none() || !readable.read(0, &mut request) {
                return Err(Failure::new("a request that is no message of 9p"));
            }
            // The guest may have changed the length since it was read.
            request[..4].copy_from_slice(&length);
            self.exchange = Some(Exchange::new(request));
            if let Some(answer) = self.proceed()? {
                self.complete(&answer, rings)?;
            }
        }
        Ok(Progress::More)
    }

    fn check_idle(&self) -> Result<(), Failure> {
        match self.exchange {
            Some(_) => Err(Failure::new("a request is on its way")),
            None => Ok(()),
        }
    }

    fn source(&self) -> Option<Source> {
        let exchange = self.exchange.as_ref()?;
        let is_sent = exchange.sent == exchange.request.len();
        Some(Source {
            fd: self.socket.as_raw_fd(),
            events: if is_sent { libc::POLLIN } else { libc::POLLOUT },
        })
    }

    fn source_ready(&mut self, _events: i16, rings: &mut Rings<'_>) -> Result<Progress, Failure> {
        let was_busy = self.exchange.is_some();
        if let Some(answer) = self.proceed()? {
            self.complete(&answer, rings)?;
        }
        match was_busy && self.exchange.is_none() {
            true => Ok(Progress::More),
            false => Ok(Progress::Idle),
        }
    }
}

#[cfg(test)]
mod tests;
