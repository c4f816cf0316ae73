//! One open request: what the keeper has sent for it, and what may still be sent back.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use voidbox_protocol::body::StreamEnd;
use voidbox_protocol::credit::{CreditError, ReceiveWindow, SendWindow};
use voidbox_protocol::frame::MAX_CHUNK_BYTES;
use voidbox_protocol::message::{Message, MessageError, Stream, encode_data};

use crate::failure::Failure;
use crate::lock::lock;
use crate::outbox::{Closed, Outbox};

/// Signals that wait for an exec's process to exist, at most.
const MAX_PENDING_SIGNALS: usize = 64;

#[derive(Default)]
struct State {
    chunks: VecDeque<Vec<u8>>,
    inbound: ReceiveWindow,
    end: Option<StreamEnd>,
    cancelled: bool,
    signals: VecDeque<i32>,
    data: SendWindow,
    stdout: SendWindow,
    stderr: SendWindow,
}

impl State {
    fn window(&mut self, stream: Stream) -> Option<&mut SendWindow> {
        match stream {
            Stream::Data => Some(&mut self.data),
            Stream::Stdout => Some(&mut self.stdout),
            Stream::Stderr => Some(&mut self.stderr),
            Stream::Stdin => None,
        }
    }
}

/// What an inbound stream has for its reader now.
#[derive(Debug, PartialEq, Eq)]
pub enum Inbound {
    Chunk(Vec<u8>),
    End(StreamEnd),
    Nothing,
}

/// A request between its first frame and its last one.
///
/// The connection's reader calls the `on_` functions, which never block; the request's own thread
/// calls the others. Each change also writes to an eventfd, for a thread that polls.
pub struct Request {
    pub id: u32,
    /// The stream that credit for inbound data is granted on.
    inbound_stream: Stream,
    state: Mutex<State>,
    changed: Condvar,
    wake: OwnedFd,
    outbox: Arc<Outbox>,
}

impl Request {
    pub fn new(id: u32, inbound_stream: Stream, outbox: Arc<Outbox>) -> io::Result<Self> {
        Ok(Self {
            id,
            inbound_stream,
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            outbox,
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.state);
        let result = change(&mut state);
        self.changed.notify_all();
        drop(state);
        self.wake();
        result
    }

    /// Wakes a thread that polls [`Request::wake_fd`].
    pub fn wake(&self) {
        // Fails only when the counter is full, and then the poller is awake anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Readable after any change; [`Request::clear_wake`] makes it quiet again.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    pub fn clear_wake(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }

    /// Takes bytes of the keeper; more than the window has is a broken peer.
    pub fn on_data(&self, bytes: Vec<u8>) -> Result<(), CreditError> {
        self.change(|state| {
            state.inbound.received(bytes.len())?;
            match state.chunks.back_mut() {
                // Small chunks are joined, so that the window bounds the memory of a stream.
                Some(last) if last.len() + bytes.len() <= MAX_CHUNK_BYTES => {
                    last.extend_from_slice(&bytes);
                }
                _ if bytes.is_empty() => {}
                _ => state.chunks.push_back(bytes),
            }
            Ok(())
        })
    }

    pub fn on_credit(&self, stream: Stream, bytes: u32) -> Result<(), CreditError> {
        self.change(|state| match state.window(stream) {
            Some(window) => window.grant(bytes),
            None => Ok(()),
        })
    }

    pub fn on_end(&self, end: StreamEnd) {
        self.change(|state| {
            state.end.get_or_insert(end);
        });
    }

    pub fn on_cancel(&self) {
        self.change(|state| state.cancelled = true);
    }

    pub fn on_signal(&self, signal: i32) {
        self.change(|state| {
            if state.signals.len() < MAX_PENDING_SIGNALS {
                state.signals.push_back(signal);
            }
        });
    }

    pub fn is_cancelled(&self) -> bool {
        lock(&self.state).cancelled
    }

    pub fn next_signal(&self) -> Option<i32> {
        lock(&self.state).signals.pop_front()
    }

    /// The next inbound chunk or the stream's end, without waiting.
    pub fn poll_inbound(&self) -> Inbound {
        take_inbound(&mut lock(&self.state))
    }

    /// The next inbound chunk; `None` at the end of a complete stream. Waits for it.
    pub fn next_chunk(&self) -> Result<Option<Vec<u8>>, Failure> {
        let mut state = lock(&self.state);
        loop {
            if state.cancelled {
                return Err(Failure::cancelled());
            }
            match take_inbound(&mut state) {
                Inbound::Chunk(bytes) => return Ok(Some(bytes)),
                Inbound::End(StreamEnd { error: None }) => return Ok(None),
                Inbound::End(StreamEnd { error: Some(error) }) => {
                    return Err(Failure::new(error.code, error.message));
                }
                Inbound::Nothing => {
                    state = self
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Says that inbound bytes have left this process's memory, which grants new credit.
    pub fn consumed(&self, bytes: usize) -> Result<(), Failure> {
        let due = lock(&self.state).inbound.consumed(bytes);
        match due {
            Some(due) => self.send_ahead(&Message::Credit(self.inbound_stream, due)),
            None => Ok(()),
        }
    }

    /// Bytes that may be sent now on a stream.
    pub fn send_room(&self, stream: Stream) -> usize {
        lock(&self.state)
            .window(stream)
            .map_or(0, |window| window.left())
    }

    /// Takes bytes out of a stream's window; never more than [`Request::send_room`] said.
    pub fn take_room(&self, stream: Stream, bytes: usize) -> usize {
        lock(&self.state)
            .window(stream)
            .map_or(0, |window| window.take(bytes))
    }

    /// Sends all of `bytes` as `Data`, in pieces, as the window lets them. Waits for credit.
    pub fn send_data(&self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let count = self.wait_room(bytes.len().min(MAX_CHUNK_BYTES))?;
            let (piece, rest) = bytes.split_at(count);
            self.send_behind(encode_data(self.id, piece).map_err(encoding)?)?;
            bytes = rest;
        }
        Ok(())
    }

    fn wait_room(&self, want: usize) -> Result<usize, Failure> {
        let mut state = lock(&self.state);
        loop {
            if state.cancelled {
                return Err(Failure::cancelled());
            }
            let count = state.data.take(want);
            if count > 0 {
                return Ok(count);
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sends a message ahead of all data.
    pub fn send_ahead(&self, message: &Message) -> Result<(), Failure> {
        let frame = message.encode(self.id).map_err(encoding)?;
        self.outbox.send_ahead(frame).map_err(closed)
    }

    /// Sends a message behind the data of this request.
    pub fn send_last(&self, message: &Message) -> Result<(), Failure> {
        self.send_behind(message.encode(self.id).map_err(encoding)?)
    }

    /// Sends an encoded frame behind what was sent before.
    pub fn send_behind(&self, frame: Vec<u8>) -> Result<(), Failure> {
        self.outbox.send_behind(frame).map_err(closed)
    }
}

fn take_inbound(state: &mut State) -> Inbound {
    match state.chunks.pop_front() {
        Some(bytes) => Inbound::Chunk(bytes),
        None => match &state.end {
            Some(end) => Inbound::End(end.clone()),
            None => Inbound::Nothing,
        },
    }
}

fn closed(_: Closed) -> Failure {
    Failure::cancelled()
}

fn encoding(error: MessageError) -> Failure {
    Failure::new(
        voidbox_protocol::body::ErrorCode::Internal,
        error.to_string(),
    )
}
