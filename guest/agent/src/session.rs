//! One connection to the keeper: the handshake, then requests until it ends.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;
use voidbox_protocol::body::{Empty, ErrorCode};
use voidbox_protocol::credit::CreditError;
use voidbox_protocol::decode::{Phase, ReadError, read_frame};
use voidbox_protocol::frame::{Frame, FrameType};
use voidbox_protocol::handshake::{
    FLAG_CLOCK, FLAG_DISK, FLAG_DOOR, FLAG_DOOR_MAIL, FLAG_MAILBOX, FLAG_MULTIPLEX, FLAG_REST,
    HandshakeError, Hello, Ping, Pong, SessionGate,
};
use voidbox_protocol::mailbox::MailError;
use voidbox_protocol::message::{Message, MessageError, Stream};
use voidbox_protocol::{FIRST_TUNNEL_ID, MAX_OPEN_REQUESTS, PROTOCOL_VERSION};

use crate::failure::Failure;
use crate::guest::Guest;
use crate::lock::lock;
use crate::log;
use crate::mailbox::Mailbox;
use crate::outbox::Outbox;
use crate::request::Request;
use crate::rest;
use crate::serve;
use crate::tunnel::Tunnels;

/// The stack size of a request's thread.
const REQUEST_STACK_BYTES: usize = 512 << 10;
/// The size of the read buffer. One read of the port returns at most this much, and a longer payload is read directly
/// into its final memory.
const READ_BYTES: usize = 4 << 10;
/// The time within which cancelled requests must kill their processes.
const CANCEL_WAIT: Duration = Duration::from_secs(3);

/// The error that ended a session.
#[derive(Debug, Error)]
pub enum SessionError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error("request {id}: {source}")]
    Credit { id: u32, source: CreditError },
    #[error("request {id}: {source}")]
    Mail { id: u32, source: MailError },
    #[error("request {0} is already open")]
    DuplicateId(u32),
    #[error("only the guest agent may send a {0:?} frame")]
    WrongDirection(FrameType),
    #[error("stream {0} belongs to a door, and this session has no door")]
    NoDoor(u32),
    #[error("a frame came behind `Rest`")]
    BehindRest,
    #[error("the guest cannot rest: {0}")]
    Rest(io::Error),
    #[error("the connection: {0}")]
    Io(#[from] io::Error),
    #[error("the connection ended before the session was set")]
    NoSession,
}

/// How a session ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The keeper closed the connection.
    Disconnected,
    /// The keeper requested the guest's end.
    Shutdown,
    /// The keeper ended the session, and the guest waits for the `Start` of another one.
    Rest,
}

/// Why frames are no longer read.
enum Last {
    End(End),
    /// The request with this id ends the session.
    Rest(u32),
}

type Open = Mutex<HashMap<u32, Arc<Request>>>;

struct Session {
    guest: Arc<Guest>,
    outbox: Arc<Outbox>,
    open: Arc<Open>,
    mailbox: Option<Arc<Mailbox>>,
    tunnels: Option<Arc<Tunnels>>,
}

/// Serves the keeper until the connection ends. When it returns, every open request was cancelled and has had time to
/// end.
pub fn run(
    guest: &Arc<Guest>,
    reader: impl Read,
    mut writer: impl Write + Send + 'static,
    hello: &Hello,
    mailbox: Option<Mailbox>,
) -> Result<End, SessionError> {
    writer.write_all(&hello.encode()?)?;
    let mut reader = BufReader::with_capacity(READ_BYTES, reader);
    let mut gate = SessionGate::default();
    let first = read_frame(&mut reader, Phase::Handshake)?.ok_or(SessionError::NoSession)?;
    let pong = admit(&mut gate, &first, mailbox.is_some())?;
    writer.write_all(&pong.encode()?)?;

    let mut session = Session {
        guest: guest.clone(),
        outbox: Arc::default(),
        open: Arc::default(),
        mailbox: mailbox
            .filter(|_| pong.flags & FLAG_MAILBOX != 0)
            .map(Arc::new),
        tunnels: None,
    };
    if pong.flags & FLAG_DOOR != 0 {
        let mailbox = session.mailbox.clone();
        session.tunnels = Some(Arc::new(Tunnels::new(
            session.outbox.clone(),
            mailbox.filter(|_| pong.flags & FLAG_DOOR_MAIL != 0),
        )));
    }
    lock(&guest.tunnels).clone_from(&session.tunnels);
    let outbox = session.outbox.clone();
    let writer_guest = guest.clone();
    let writing = thread::Builder::new()
        .name("writer".into())
        .stack_size(REQUEST_STACK_BYTES)
        .spawn(move || {
            let written = writer_guest
                .precedences
                .as_writer(|| outbox.write_to(&mut writer));
            if let Err(error) = written {
                log::line(&format!("writing to the keeper: {error}"));
            }
            writer
        })?;
    let last = session.read_all(&mut reader, &mut gate);
    session.cancel_all();
    match last? {
        Last::End(end) => Ok(end),
        Last::Rest(_) if !reader.buffer().is_empty() => Err(SessionError::BehindRest),
        Last::Rest(id) => {
            rest::prepare(guest).map_err(SessionError::Rest)?;
            let mut writer = writing.join().map_err(|_| SessionError::NoSession)?;
            writer.write_all(&Message::Resting(Empty {}).encode(id)?)?;
            Ok(End::Rest)
        }
    }
}

/// Returns the answer to a `Ping` that is allowed. The mailbox is used only if both sides have it.
fn admit(gate: &mut SessionGate, frame: &Frame, has_mailbox: bool) -> Result<Pong, HandshakeError> {
    let ping = Ping::decode(frame)?;
    gate.admit(&ping, PROTOCOL_VERSION)?;
    let mailbox = match has_mailbox && ping.flags & FLAG_MAILBOX != 0 {
        true => FLAG_MAILBOX | ping.flags & FLAG_DOOR_MAIL,
        false => 0,
    };
    Ok(Pong {
        version: PROTOCOL_VERSION,
        flags: FLAG_MULTIPLEX
            | mailbox
            | ping.flags & (FLAG_DOOR | FLAG_CLOCK | FLAG_DISK | FLAG_REST),
    })
}

impl Session {
    fn read_all(
        &self,
        reader: &mut impl Read,
        gate: &mut SessionGate,
    ) -> Result<Last, SessionError> {
        while let Some(frame) = read_frame(reader, Phase::Session)? {
            if frame.frame_type == FrameType::Ping {
                // Queueing fails only if the writer has failed, and then reading ends too.
                let pong = admit(gate, &frame, self.mailbox.is_some())?;
                let _ = self.outbox.send_ahead(pong.encode()?);
                continue;
            }
            let (id, message) = Message::decode(frame)?;
            match message {
                Message::Shutdown(_) => return Ok(Last::End(End::Shutdown)),
                Message::Rest(_) => match rest::check(&self.guest, !lock(&self.open).is_empty()) {
                    Ok(()) => return Ok(Last::Rest(id)),
                    Err(failure) => self.answer_at_once(id, failure)?,
                },
                other => self.take(id, other)?,
            }
        }
        Ok(Last::End(End::Disconnected))
    }

    /// Dispatches a message. Frames of a request that is over are dropped, because they were in flight at its end.
    fn take(&self, id: u32, message: Message) -> Result<(), SessionError> {
        if id >= FIRST_TUNNEL_ID {
            return self.take_of_tunnel(id, message);
        }
        if serve::is_request(&message) {
            return self.start(id, message);
        }
        // A reader of outputs waits for the locks of its request and of the outbox.
        self.guest.precedences.as_holder(|| self.give(id, message))
    }

    /// Passes the keeper's message to its request.
    fn give(&self, id: u32, message: Message) -> Result<(), SessionError> {
        let request = || lock(&self.open).get(&id).cloned();
        let credit = |source| SessionError::Credit { id, source };
        match message {
            Message::Data(bytes) => {
                if let Some(request) = request() {
                    request.on_data(bytes).map_err(credit)?;
                }
            }
            Message::Mail(mail) => match request() {
                Some(request) => request
                    .on_mail(mail)
                    .map_err(|source| SessionError::Mail { id, source })?,
                None => {
                    let taken = Message::MailTaken(mail.slot()).encode(id)?;
                    // Queueing fails only if the writer has failed, and then reading ends too.
                    let _ = self.outbox.send_ahead(taken);
                }
            },
            Message::MailTaken(slot) => self
                .mailbox
                .as_ref()
                .ok_or(MailError::NoMailbox)
                .and_then(|mailbox| mailbox.give_back(slot))
                .map_err(|source| SessionError::Mail { id, source })?,
            Message::Credit(stream, bytes) => {
                if let Some(request) = request() {
                    request.on_credit(stream, bytes).map_err(credit)?;
                }
            }
            Message::StreamEnd(end) => {
                if let Some(request) = request() {
                    request.on_end(end);
                }
            }
            Message::ExecSignal(body) => {
                if let Some(request) = request() {
                    request.on_signal(body.signal);
                }
            }
            Message::Cancel(_) => {
                if let Some(request) = request() {
                    request.on_cancel();
                }
            }
            other => return Err(SessionError::WrongDirection(other.frame_type())),
        }
        Ok(())
    }

    fn take_of_tunnel(&self, id: u32, message: Message) -> Result<(), SessionError> {
        let wrong = SessionError::WrongDirection(message.frame_type());
        let tunnels = self.tunnels.as_ref().ok_or(SessionError::NoDoor(id))?;
        if let Message::Mail(mail) = message {
            return tunnels
                .on_mail(id, mail)
                .map_err(|source| SessionError::Mail { id, source });
        }
        match tunnels.on_message(id, message) {
            Ok(true) => Ok(()),
            Ok(false) => Err(wrong),
            Err(source) => Err(SessionError::Credit { id, source }),
        }
    }

    /// Starts a thread for a request.
    fn start(&self, id: u32, message: Message) -> Result<(), SessionError> {
        let inbound = match message {
            Message::ExecRequest(_) => Stream::Stdin,
            _ => Stream::Data,
        };
        let request = {
            let mut open = lock(&self.open);
            if open.contains_key(&id) {
                return Err(SessionError::DuplicateId(id));
            }
            if open.len() >= MAX_OPEN_REQUESTS {
                drop(open);
                return self.refuse(id, format!("{MAX_OPEN_REQUESTS} requests are already open"));
            }
            match Request::new(id, inbound, self.outbox.clone(), self.mailbox.clone()) {
                Ok(request) => open.entry(id).or_insert(Arc::new(request)).clone(),
                Err(error) => {
                    drop(open);
                    return self.refuse(id, format!("no room for a request: {error}"));
                }
            }
        };
        let (guest, open) = (self.guest.clone(), self.open.clone());
        let spawned = thread::Builder::new()
            .name(format!("request-{id}"))
            .stack_size(REQUEST_STACK_BYTES)
            .spawn(move || answer(&guest, &request, &message, &open));
        if let Err(error) = spawned {
            lock(&self.open).remove(&id);
            self.refuse(id, format!("no thread for a request: {error}"))?;
        }
        Ok(())
    }

    fn refuse(&self, id: u32, message: String) -> Result<(), SessionError> {
        self.answer_at_once(id, Failure::new(ErrorCode::Limit, message))
    }

    fn answer_at_once(&self, id: u32, failure: Failure) -> Result<(), SessionError> {
        let error = Message::Error(failure.into_body());
        let _ = self.outbox.send_ahead(error.encode(id)?);
        Ok(())
    }

    fn cancel_all(&self) {
        self.outbox.close();
        for request in lock(&self.open).values() {
            request.on_cancel();
        }
        let since = Instant::now();
        while !lock(&self.open).is_empty() && since.elapsed() < CANCEL_WAIT {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Serves a request and sends its last frame. The id is released before that frame is sent, so that the keeper may
/// reuse it when it gets the frame.
fn answer(guest: &Arc<Guest>, request: &Arc<Request>, message: &Message, open: &Open) {
    let served = catch_unwind(AssertUnwindSafe(|| serve::serve(guest, request, message)));
    let outcome = served.unwrap_or_else(|_| {
        Err(Failure::new(
            ErrorCode::Internal,
            "the agent has a bug here; its log has the place",
        ))
    });
    lock(open).remove(&request.id);
    request.end_inbound();
    let sent = match outcome {
        Ok(Some(last)) => request.send_last(&last),
        Ok(None) => Ok(()),
        Err(failure) => request.send_last(&Message::Error(failure.into_body())),
    };
    if let Err(failure) = sent
        && failure.code != ErrorCode::Cancelled
    {
        log::line(&format!("request {}: {failure}", request.id));
    }
}
