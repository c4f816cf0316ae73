//! One open request: its data from the keeper, and the data that may still be sent back.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use voidbox_protocol::body::{ErrorCode, StreamEnd};
use voidbox_protocol::credit::{CreditError, ReceiveWindow, SendWindow};
use voidbox_protocol::frame::MAX_CHUNK_BYTES;
use voidbox_protocol::mailbox::{MIN_MAIL_BYTES, Mail, MailError, SLOT_BYTES};
use voidbox_protocol::message::{Message, MessageError, Stream, encode_data};

use crate::chunk::Chunk;
use crate::failure::Failure;
use crate::lock::lock;
use crate::mailbox::{Block, Mailbox};
use crate::outbox::{Closed, Outbox};

/// The limit of signals that wait for an exec's process to exist.
const MAX_PENDING_SIGNALS: usize = 64;

#[derive(Default)]
struct State {
    chunks: VecDeque<Waiting>,
    inbound: ReceiveWindow,
    end: Option<StreamEnd>,
    cancelled: bool,
    /// Inbound data has no reader any longer.
    over: bool,
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

/// Inbound data that waits for its reader.
enum Waiting {
    Frame(Vec<u8>),
    Mail(Mail),
}

/// The next piece of an inbound stream for its reader.
#[derive(Debug, PartialEq, Eq)]
pub enum Inbound {
    Chunk(Vec<u8>),
    End(StreamEnd),
    Nothing,
}

/// A request between its first and its last frame.
///
/// The connection's reader calls the `on_` functions, which never block; the request's own thread calls the others.
/// Each change also writes to an eventfd, for a thread that polls.
pub struct Request {
    pub id: u32,
    /// The stream for which credit for inbound data is granted.
    inbound_stream: Stream,
    state: Mutex<State>,
    changed: Condvar,
    wake: OwnedFd,
    outbox: Arc<Outbox>,
    mailbox: Option<Arc<Mailbox>>,
}

impl Request {
    pub fn new(
        id: u32,
        inbound_stream: Stream,
        outbox: Arc<Outbox>,
        mailbox: Option<Arc<Mailbox>>,
    ) -> io::Result<Self> {
        Ok(Self {
            id,
            inbound_stream,
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            outbox,
            mailbox,
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
        // It fails only if the counter is full, and then the poller is awake anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Readable after any change, until [`Request::clear_wake`] is called.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    pub fn clear_wake(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }

    /// Accepts bytes of the keeper; more than the window allows is an error of the peer.
    pub fn on_data(&self, bytes: Vec<u8>) -> Result<(), CreditError> {
        self.change(|state| {
            state.inbound.received(bytes.len())?;
            match state.chunks.back_mut() {
                // Small chunks are joined, so that the window limits the memory of a stream.
                Some(Waiting::Frame(last)) if last.len() + bytes.len() <= MAX_CHUNK_BYTES => {
                    last.extend_from_slice(&bytes);
                }
                _ if bytes.is_empty() => {}
                _ => state.chunks.push_back(Waiting::Frame(bytes)),
            }
            Ok(())
        })
    }

    /// Accepts a reference to bytes of the keeper. They stay in their slot until they are read.
    pub fn on_mail(&self, mail: Mail) -> Result<(), MailError> {
        if self.mailbox.is_none() {
            return Err(MailError::NoMailbox);
        }
        if self.inbound_stream != Stream::Data {
            return Err(MailError::Stream);
        }
        let is_over = self.change(|state| -> Result<bool, CreditError> {
            state.inbound.received(mail.size())?;
            if !state.over {
                state.chunks.push_back(Waiting::Mail(mail));
            }
            Ok(state.over)
        })?;
        if is_over {
            self.mail_taken(mail.slot());
        }
        Ok(())
    }

    /// Ends the inbound side, and gives unread slots back to the keeper.
    pub fn end_inbound(&self) {
        let waiting = self.change(|state| {
            state.over = true;
            std::mem::take(&mut state.chunks)
        });
        for chunk in waiting {
            if let Waiting::Mail(mail) = chunk {
                self.mail_taken(mail.slot());
            }
        }
    }

    fn mail_taken(&self, slot: u8) {
        // It fails only if the connection has failed, and then the keeper is gone.
        let _ = self.send_ahead(&Message::MailTaken(slot));
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

    /// Holds what is frozen until the keeper cancels the request, and lets go of it before the answer. If the limit ends
    /// this, the request fails with `past_limit`, because the copy may be of different moments.
    pub fn hold<T>(&self, frozen: T, limit: Duration, past_limit: String) -> Result<(), Failure> {
        let waited = self
            .changed
            .wait_timeout_while(lock(&self.state), limit, |state| !state.cancelled);
        let was_cancelled = waited.unwrap_or_else(PoisonError::into_inner).0.cancelled;
        drop(frozen);
        Err(if was_cancelled {
            Failure::cancelled()
        } else {
            Failure::new(ErrorCode::Limit, past_limit)
        })
    }

    pub fn next_signal(&self) -> Option<i32> {
        lock(&self.state).signals.pop_front()
    }

    /// Returns the next inbound chunk or the stream's end without waiting. Use it only for streams without mail.
    pub fn poll_inbound(&self) -> Inbound {
        let mut state = lock(&self.state);
        match state.chunks.pop_front() {
            Some(Waiting::Frame(bytes)) => Inbound::Chunk(bytes),
            Some(Waiting::Mail(_)) => unreachable!("mail is refused for this stream"),
            None => match &state.end {
                Some(end) => Inbound::End(end.clone()),
                None => Inbound::Nothing,
            },
        }
    }

    /// Reads the next inbound bytes into `chunk`, and waits for them; returns false at the end of a complete stream.
    pub fn next_chunk(&self, chunk: &mut Chunk) -> Result<bool, Failure> {
        match self.wait_inbound()? {
            None => return Ok(false),
            Some(Waiting::Frame(bytes)) => {
                chunk.put_frame(bytes);
            }
            Some(Waiting::Mail(mail)) => {
                let read = match &self.mailbox {
                    Some(mailbox) => chunk.put_mail(mailbox, mail),
                    None => unreachable!("mail is refused without a mailbox"),
                };
                self.send_ahead(&Message::MailTaken(mail.slot()))?;
                read.map_err(|error| Failure::io("reading the mailbox", error))?;
            }
        }
        Ok(true)
    }

    fn wait_inbound(&self) -> Result<Option<Waiting>, Failure> {
        let mut state = lock(&self.state);
        loop {
            if state.cancelled {
                return Err(Failure::cancelled());
            }
            if let Some(waiting) = state.chunks.pop_front() {
                return Ok(Some(waiting));
            }
            match &state.end {
                Some(StreamEnd { error: None }) => return Ok(None),
                Some(StreamEnd { error: Some(error) }) => {
                    return Err(Failure::new(error.code, error.message.clone()));
                }
                None => {
                    state = self
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Reports that inbound bytes have left this process's memory, which grants new credit.
    pub fn consumed(&self, bytes: usize) -> Result<(), Failure> {
        let due = lock(&self.state).inbound.consumed(bytes);
        match due {
            Some(due) => self.send_ahead(&Message::Credit(self.inbound_stream, due)),
            None => Ok(()),
        }
    }

    /// Returns the number of bytes that may be sent now on a stream.
    pub fn send_room(&self, stream: Stream) -> usize {
        lock(&self.state)
            .window(stream)
            .map_or(0, |window| window.left())
    }

    /// Takes bytes out of a stream's window, never more than [`Request::send_room`] returned.
    pub fn take_room(&self, stream: Stream, bytes: usize) -> usize {
        lock(&self.state)
            .window(stream)
            .map_or(0, |window| window.take(bytes))
    }

    /// Sends the block's first bytes as the request's data: through the mailbox if it has room, otherwise as `Data`.
    /// Waits for credit; the block can be reused after the call.
    pub fn send_block(&self, block: &Block, count: usize) -> Result<(), Failure> {
        self.wait_room(count)?;
        if let Some(mailbox) = &self.mailbox
            && count >= MIN_MAIL_BYTES
            && let Some(slot) = mailbox.take_slot()
        {
            return self.send_mail(mailbox, slot, block, count);
        }
        for piece in block.bytes()[..count].chunks(MAX_CHUNK_BYTES) {
            self.send_behind(encode_data(self.id, piece).map_err(encoding)?)?;
        }
        Ok(())
    }

    fn send_mail(
        &self,
        mailbox: &Mailbox,
        slot: u8,
        block: &Block,
        count: usize,
    ) -> Result<(), Failure> {
        let mail = u32::try_from(count)
            .map_err(|_| MailError::Length(u32::MAX))
            .and_then(|bytes| Mail::new(slot, bytes));
        let written = mail
            .map_err(|error| encoding(error.into()))
            .and_then(|mail| {
                mailbox
                    .write(mail, block)
                    .map_err(|error| Failure::io("writing the mailbox", error))?;
                Ok(mail)
            });
        let sent = written.and_then(|mail| self.send_last(&Message::Mail(mail)));
        if sent.is_err() {
            // The keeper does not know about the slot.
            let _ = mailbox.give_back(slot);
        }
        sent
    }

    /// Takes `count` bytes, at most a slot's worth, out of the window; waits until it has room for them.
    fn wait_room(&self, count: usize) -> Result<(), Failure> {
        debug_assert!(
            count <= SLOT_BYTES,
            "{count} bytes may never fit the window"
        );
        let mut state = lock(&self.state);
        loop {
            if state.cancelled {
                return Err(Failure::cancelled());
            }
            if state.data.left() >= count {
                state.data.take(count);
                return Ok(());
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

    /// Sends a message after the data of this request.
    pub fn send_last(&self, message: &Message) -> Result<(), Failure> {
        self.send_behind(message.encode(self.id).map_err(encoding)?)
    }

    /// Sends an encoded frame after earlier frames.
    pub fn send_behind(&self, frame: Vec<u8>) -> Result<(), Failure> {
        self.outbox.send_behind(frame).map_err(closed)
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
