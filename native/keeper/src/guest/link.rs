//! Requests over the guest port: their ids, the routing of frames, and the consequences of a broken peer.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::timeout;
use voidbox_protocol::body::Connect;
use voidbox_protocol::credit::CreditError;
use voidbox_protocol::decode::Decoder;
use voidbox_protocol::frame::{Frame, FrameError};
use voidbox_protocol::mailbox::{MIN_MAIL_BYTES, MailError};
use voidbox_protocol::message::{Message, MessageError, Stream};
use voidbox_protocol::{FIRST_TUNNEL_ID, MAX_OPEN_REQUESTS, MAX_OPEN_TUNNELS};

use super::handshake::Session;
use super::mailbox::{Mailbox, Slot};
use super::outbox::{ControlFull, Outbox};
use super::patience::Patience;
use super::rest::state::Rest;
use crate::error::{Code, Failure};

const READ_BYTES: usize = 256 << 10;
/// A closed port says less than the end of its VMM, which the owner of a link learns a moment later.
pub const REASON_LIMIT: Duration = Duration::from_secs(2);

/// The misbehaviour of a guest for which its VM is killed.
#[derive(Debug, thiserror::Error)]
pub enum Violation {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error(transparent)]
    Credit(#[from] CreditError),
    #[error(transparent)]
    Mail(#[from] MailError),
    #[error("reading the mailbox: {0}")]
    MailboxRead(std::io::Error),
    #[error(transparent)]
    Control(#[from] ControlFull),
    #[error("a {got:?} frame for request {id}, which does not expect it")]
    Unexpected {
        id: u32,
        got: voidbox_protocol::frame::FrameType,
    },
    #[error("{0}")]
    Broken(String),
}

/// The state of a request after one of its messages.
#[derive(Debug, PartialEq, Eq)]
pub enum After {
    GoesOn,
    Finished,
}

/// The receiver of one request's frames.
pub trait Inbound {
    fn on_message(&self, link: &Link, id: u32, message: Message) -> Result<After, Violation>;
    /// The VM has ended; no further message arrives.
    fn on_lost(&self, failure: &Failure);
}

/// The receiver of streams that the guest opens.
pub trait Acceptor {
    fn on_connect(
        &self,
        link: &Rc<Link>,
        id: u32,
        wanted: Connect,
    ) -> Result<Rc<dyn Inbound>, Violation>;
}

pub struct Link {
    pub(super) outbox: Outbox,
    pub(super) mailbox: Option<Rc<Mailbox>>,
    has_door_mail: bool,
    /// Whether the guest moves its clock on request.
    pub can_set_clock: bool,
    /// Whether the guest freezes its scratch disk on request.
    pub can_freeze_disk: bool,
    /// Whether the guest ends a session without its own end.
    pub can_rest: bool,
    pub(super) rest: Rest,
    pub(super) requests: RefCell<HashMap<u32, Rc<dyn Inbound>>>,
    next_id: Cell<u32>,
    /// Present if the guest was offered a door and accepted it.
    acceptor: Option<Box<dyn Acceptor>>,
    pub(super) tunnels: RefCell<HashMap<u32, Rc<dyn Inbound>>>,
    pub patience: Rc<Patience>,
    /// The failure of the port, once it is closed. The end of the link follows.
    closed: watch::Sender<Option<Failure>>,
    /// The reason, once the link has ended.
    ended: watch::Sender<Option<Failure>>,
}

impl Link {
    /// Starts the two tasks that read and write the port.
    pub fn start(
        session: Session,
        patience: Rc<Patience>,
        acceptor: Option<Box<dyn Acceptor>>,
    ) -> Rc<Self> {
        let link = Rc::new(Self {
            outbox: Outbox::default(),
            has_door_mail: session.has_door_mail && session.mailbox.is_some(),
            mailbox: session.mailbox.map(Mailbox::new),
            can_set_clock: session.can_set_clock,
            can_freeze_disk: session.can_freeze_disk,
            can_rest: session.can_rest,
            rest: Rest::default(),
            requests: RefCell::default(),
            next_id: Cell::new(1),
            acceptor,
            tunnels: RefCell::default(),
            patience,
            closed: watch::Sender::new(None),
            ended: watch::Sender::new(None),
        });
        let (reader, writer) = session.port.into_split();
        tokio::task::spawn_local(link.clone().write(writer));
        tokio::task::spawn_local(link.clone().read(reader, session.decoder, session.early));
        link
    }

    /// Returns the reason once the link has ended or its port is closed. A caller that knows a better reason for a closed
    /// port ends the link with it, within [`REASON_LIMIT`].
    pub async fn ended(&self) -> Failure {
        let (mut closed, mut ended) = (self.closed.subscribe(), self.ended.subscribe());
        loop {
            for reason in [&mut ended, &mut closed] {
                if let Some(failure) = reason.borrow_and_update().clone() {
                    return failure;
                }
            }
            // The senders live as long as `self`.
            tokio::select! {
                _ = ended.changed() => {}
                _ = closed.changed() => {}
            }
        }
    }

    /// Sends a message that opens a request, and routes its answers to `inbound`.
    pub fn open(&self, message: &Message, inbound: Rc<dyn Inbound>) -> Result<u32, Failure> {
        self.rest.check_open()?;
        self.open_any(message, inbound)
    }

    /// As [`Link::open`], also while the guest is asked to rest.
    pub(super) fn open_any(
        &self,
        message: &Message,
        inbound: Rc<dyn Inbound>,
    ) -> Result<u32, Failure> {
        if let Some(failure) = self.ended.borrow().clone() {
            return Err(failure);
        }
        let mut requests = self.requests.borrow_mut();
        if requests.len() >= MAX_OPEN_REQUESTS {
            return Err(Failure::bad_request(format!(
                "{MAX_OPEN_REQUESTS} guest requests are open, which is the limit"
            )));
        }
        let mut id = self.next_id.get();
        while requests.contains_key(&id) {
            id = next_request_id(id);
        }
        self.next_id.set(next_request_id(id));
        let frame = message
            .encode(id)
            .map_err(|error| Failure::bad_request(error.to_string()))?;
        requests.insert(id, inbound);
        drop(requests);
        self.send_frame(frame);
        Ok(id)
    }

    /// Sends a control message of an open request.
    pub fn send(&self, id: u32, message: &Message) {
        match message.encode(id) {
            Ok(frame) => self.send_frame(frame),
            Err(error) => self.end(Failure::new(Code::VmProtocol, error.to_string())),
        }
    }

    fn send_frame(&self, frame: Vec<u8>) {
        if let Err(error) = self.outbox.push_control(frame) {
            self.end(Failure::new(Code::VmProtocol, error.to_string()));
        }
    }

    /// Grants the guest `bytes` more on a stream.
    pub fn credit(&self, id: u32, stream: Stream, bytes: u32) {
        self.send(id, &Message::Credit(stream, bytes));
    }

    /// Sends a data frame once there is room. The caller has taken the bytes out of the window.
    pub async fn send_data(&self, frame: Vec<u8>) {
        self.outbox.push_data(frame).await;
    }

    /// Reserves a slot for `bytes` of data, if the guest has a mailbox, a slot is free, and the size makes it
    /// worthwhile.
    pub fn take_slot(&self, bytes: usize) -> Option<Slot> {
        let mailbox = self.mailbox.as_ref().filter(|_| bytes >= MIN_MAIL_BYTES)?;
        mailbox.take_slot()
    }

    /// Keeps the memory of a piece of data for the next one.
    pub fn keep(&self, piece: Vec<u8>) {
        if let Some(mailbox) = &self.mailbox {
            mailbox.keep(piece);
        }
    }

    /// Reports whether bytes for the guest's streams may go through the mailbox.
    pub fn has_door_mail(&self) -> bool {
        self.has_door_mail
    }

    /// Ends the link and everything open on it. The first reason is kept.
    pub fn end(&self, failure: Failure) {
        let first = self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert_with(|| failure.clone());
            first
        });
        if !first {
            return;
        }
        self.outbox.close();
        let requests = std::mem::take(&mut *self.requests.borrow_mut());
        let tunnels = std::mem::take(&mut *self.tunnels.borrow_mut());
        for inbound in requests.into_values().chain(tunnels.into_values()) {
            inbound.on_lost(&failure);
        }
    }

    /// Ends the link after its port was closed. Waiting requests get the reason of the owner, if it has one in time.
    async fn close(&self, failure: Failure) {
        self.closed.send_if_modified(|closed| {
            let first = closed.is_none();
            closed.get_or_insert_with(|| failure.clone());
            first
        });
        let mut ended = self.ended.subscribe();
        let _ = timeout(REASON_LIMIT, ended.wait_for(Option::is_some)).await;
        self.end(failure);
    }

    async fn write(self: Rc<Self>, mut port: OwnedWriteHalf) {
        let mut ended = self.ended.subscribe();
        let result = tokio::select! {
            result = self.outbox.drain_into(&mut port) => result,
            _ = ended.wait_for(Option::is_some) => return,
        };
        match result {
            Ok(()) => self.rest.give_writer(port),
            Err(error) => {
                let why = format!("writing to the guest port: {error}");
                self.close(Failure::new(Code::VmLost, why)).await;
            }
        }
    }

    async fn read(self: Rc<Self>, mut port: OwnedReadHalf, decoder: Decoder, early: Vec<Frame>) {
        let mut ended = self.ended.subscribe();
        let failure = tokio::select! {
            failure = self.read_frames(&mut port, decoder, early) => failure,
            _ = ended.wait_for(Option::is_some) => return,
        };
        let Some(failure) = failure else {
            self.outbox.close();
            return self.rest.give_reader(port);
        };
        match failure.code {
            Code::VmLost => self.close(failure).await,
            _ => self.end(failure),
        }
    }

    /// Returns `None` once the guest rests.
    async fn read_frames(
        self: &Rc<Self>,
        port: &mut OwnedReadHalf,
        mut decoder: Decoder,
        early: Vec<Frame>,
    ) -> Option<Failure> {
        let broken = |error: Violation| {
            let message = format!("the guest broke the protocol: {error}");
            Some(Failure::new(Code::VmProtocol, message))
        };
        let lost = |message: String| Some(Failure::new(Code::VmLost, message));
        let mut frames = early;
        let mut buffer = vec![0u8; READ_BYTES];
        loop {
            let mut left = frames.drain(..);
            while let Some(frame) = left.next() {
                if let Err(error) = self.dispatch(frame) {
                    return broken(error);
                }
                if self.rest.has_come() {
                    return match left.next().is_none() && decoder.is_between_frames() {
                        true => None,
                        false => broken(Violation::Broken("it sends more while it rests".into())),
                    };
                }
            }
            drop(left);
            let count = match port.read(&mut buffer).await {
                Ok(0) => return lost("the guest port closed".into()),
                Ok(count) => count,
                Err(error) => return lost(format!("the guest port: {error}")),
            };
            let pushed = decoder.push(&buffer[..count], &mut frames);
            if let Err(error) = pushed {
                return broken(error.into());
            }
        }
    }

    fn mailbox(&self) -> Result<&Rc<Mailbox>, MailError> {
        self.mailbox.as_ref().ok_or(MailError::NoMailbox)
    }

    fn dispatch(self: &Rc<Self>, frame: Frame) -> Result<(), Violation> {
        let decoded = Message::decode(frame)?;
        if self.rest.ignores(decoded.0) {
            return Ok(());
        }
        let (id, message) = match decoded {
            (_, Message::MailTaken(slot)) => return Ok(self.mailbox()?.give_back(slot)?),
            (id, Message::Mail(mail)) => {
                let bytes = self.mailbox()?.read(mail).map_err(Violation::MailboxRead)?;
                self.send(id, &Message::MailTaken(mail.slot()));
                (id, Message::Data(bytes))
            }
            other => other,
        };
        if id >= FIRST_TUNNEL_ID {
            return self.dispatch_tunnel(id, message);
        }
        let inbound = self.requests.borrow().get(&id).cloned();
        let Some(inbound) = inbound else {
            // A signal, a cancel or bytes of the keeper may cross the end of their request.
            return match message {
                Message::Credit(..) | Message::Error(_) => Ok(()),
                other => Err(Violation::Unexpected {
                    id,
                    got: other.frame_type(),
                }),
            };
        };
        if inbound.on_message(self, id, message)? == After::Finished {
            self.requests.borrow_mut().remove(&id);
        }
        Ok(())
    }

    /// Dispatches a frame of a stream that the guest has opened, or opens now.
    fn dispatch_tunnel(self: &Rc<Self>, id: u32, message: Message) -> Result<(), Violation> {
        let inbound = self.tunnels.borrow().get(&id).cloned();
        let unexpected = Violation::Unexpected {
            id,
            got: message.frame_type(),
        };
        match (inbound, message) {
            (Some(inbound), message) => {
                if inbound.on_message(self, id, message)? == After::Finished {
                    self.forget_tunnel(id);
                }
            }
            (None, Message::Connect(wanted)) => {
                let acceptor = self.acceptor.as_ref().ok_or(unexpected)?;
                if self.tunnels.borrow().len() >= MAX_OPEN_TUNNELS {
                    return Err(Violation::Broken(format!(
                        "more than {MAX_OPEN_TUNNELS} streams of the guest are open"
                    )));
                }
                let inbound = acceptor.on_connect(self, id, wanted)?;
                self.tunnels.borrow_mut().insert(id, inbound);
            }
            // Both may cross the last message of this side.
            (None, Message::Credit(..) | Message::Cancel(_)) if self.acceptor.is_some() => {}
            (None, _) => return Err(unexpected),
        }
        Ok(())
    }

    /// Removes a stream that the guest opened, after both sides have sent their last message.
    pub fn forget_tunnel(&self, id: u32) {
        self.tunnels.borrow_mut().remove(&id);
    }
}

/// Returns the next id of the keeper's range; 0 is the id of `Configure`.
fn next_request_id(id: u32) -> u32 {
    match id + 1 {
        FIRST_TUNNEL_ID => 1,
        next => next,
    }
}
