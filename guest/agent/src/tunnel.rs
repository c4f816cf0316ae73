//! The guest's side of tunnels: streams that it opens, and that the keeper connects to a connection of the host.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::event::{EventfdFlags, eventfd};
use voidbox_protocol::body::{Connect, Empty, ErrorBody, StreamEnd};
use voidbox_protocol::credit::{CreditError, ReceiveWindow, SendWindow, tunnel_window};
use voidbox_protocol::mailbox::{Mail, MailError};
use voidbox_protocol::message::{Message, MessageError, Stream, encode_data};
use voidbox_protocol::{FIRST_TUNNEL_ID, MAX_OPEN_TUNNELS};

use crate::chunk::Chunk;
use crate::lock::lock;
use crate::mailbox::{Block, Mailbox};
use crate::outbox::Outbox;

struct State {
    answer: Option<Result<(), ErrorBody>>,
    chunks: VecDeque<Waiting>,
    receive: ReceiveWindow,
    send: SendWindow,
    /// The keeper has sent all of its data.
    ended: bool,
    /// The keeper has given the tunnel up.
    cancelled: bool,
    /// Both this side and the keeper have sent their last frame.
    said_last: bool,
    heard_last: bool,
}

/// Bytes of the keeper that wait to be read.
enum Waiting {
    Frame(Vec<u8>),
    Mail(Mail),
    /// Mail that was read from its slot: the block, and the number of its bytes.
    Block(Block, usize),
}

/// The state of the keeper's side for its reader.
pub enum Inbound {
    /// The bytes are in the reader's [`Chunk`].
    Chunk,
    End,
    /// The keeper gave the tunnel up; bytes in flight are lost.
    Cancelled,
    Nothing,
}

/// One tunnel. The connection's reader calls the `on_` functions, which never block; the tunnel's thread calls the
/// others. Each change writes to an eventfd, for the thread that polls.
pub struct Tunnel {
    pub id: u32,
    state: Mutex<State>,
    wake: OwnedFd,
    outbox: Arc<Outbox>,
    mailbox: Option<Arc<Mailbox>>,
}

/// The connection to the keeper is over.
pub struct Gone;

impl Tunnel {
    fn new(id: u32, outbox: Arc<Outbox>, mailbox: Option<Arc<Mailbox>>) -> io::Result<Self> {
        let window = tunnel_window(mailbox.is_some());
        Ok(Self {
            id,
            state: Mutex::new(State {
                answer: None,
                chunks: VecDeque::new(),
                receive: ReceiveWindow::of_tunnel(mailbox.is_some()),
                send: SendWindow::of(window),
                ended: false,
                cancelled: false,
                said_last: false,
                heard_last: false,
            }),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            outbox,
            mailbox,
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut lock(&self.state));
        // It fails only if the counter is full, and then the poller is awake anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        result
    }

    /// Readable after any change, until [`Tunnel::clear_wake`] is called.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    pub fn clear_wake(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }

    /// Accepts a frame of the keeper; returns false if the tunnel expects no frame of this kind.
    pub fn on_message(&self, message: Message) -> Result<bool, CreditError> {
        self.change(|state| {
            match message {
                Message::Connected(_) => {
                    state.answer.get_or_insert(Ok(()));
                }
                Message::Error(error) => {
                    state.answer.get_or_insert(Err(error));
                    state.cancelled = true;
                    state.heard_last = true;
                }
                Message::Data(bytes) => {
                    state.receive.received(bytes.len())?;
                    if !bytes.is_empty() && !state.said_last_for_good() {
                        state.chunks.push_back(Waiting::Frame(bytes));
                    }
                }
                Message::Credit(Stream::Data, bytes) => state.send.grant(bytes)?,
                Message::StreamEnd(_) => {
                    state.ended = true;
                    state.heard_last = true;
                }
                Message::Cancel(_) => {
                    state.cancelled = true;
                    state.heard_last = true;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })
    }

    /// Accepts a reference to bytes of the keeper, which stay in their slot until they are read.
    fn on_mail(&self, mail: Mail) -> Result<(), CreditError> {
        let is_nobodys = self.change(|state| {
            state.receive.received(mail.size())?;
            let is_nobodys = state.said_last_for_good();
            if !is_nobodys {
                state.chunks.push_back(Waiting::Mail(mail));
            }
            Ok(is_nobodys)
        })?;
        if is_nobodys {
            self.give_back([Waiting::Mail(mail)]);
        }
        Ok(())
    }

    /// Gives slots without a reader back to the keeper.
    fn give_back(&self, waiting: impl IntoIterator<Item = Waiting>) {
        for each in waiting {
            if let Waiting::Mail(mail) = each {
                // It fails only if the connection has failed, and then the keeper is gone.
                let _ = self.send_ahead(&Message::MailTaken(mail.slot()));
            }
        }
    }

    /// Returns the keeper's answer to the request for a connection.
    pub fn answer(&self) -> Option<Result<(), ErrorBody>> {
        let state = lock(&self.state);
        match (&state.answer, state.cancelled) {
            (None, true) => Some(Err(ErrorBody {
                code: voidbox_protocol::body::ErrorCode::Cancelled,
                message: "the host ended the connection".into(),
            })),
            (answer, _) => answer.clone(),
        }
    }

    pub fn next_inbound(&self, chunk: &mut Chunk) -> Result<Inbound, Gone> {
        let waiting = {
            let mut state = lock(&self.state);
            if state.cancelled {
                let unread = std::mem::take(&mut state.chunks);
                drop(state);
                self.give_back(unread);
                return Ok(Inbound::Cancelled);
            }
            match state.chunks.pop_front() {
                Some(waiting) => waiting,
                None if state.ended => return Ok(Inbound::End),
                None => return Ok(Inbound::Nothing),
            }
        };
        match waiting {
            Waiting::Frame(bytes) => chunk.put_frame(bytes),
            Waiting::Block(block, bytes) => {
                let used = chunk.put_block(block, bytes);
                if let (Some(used), Some(mailbox)) = (used, &self.mailbox) {
                    mailbox.give_block(used);
                }
            }
            Waiting::Mail(mail) => {
                let mailbox = self.mailbox.as_ref().ok_or(Gone)?;
                let read = chunk.put_mail(mailbox, mail);
                self.send_ahead(&Message::MailTaken(mail.slot()))?;
                read.map_err(|_| Gone)?;
            }
        }
        Ok(Inbound::Chunk)
    }

    /// Reads waiting mail out of its slots for a slow reader, because other streams need the slots.
    pub fn empty_slots(&self) -> Result<(), Gone> {
        let Some(mailbox) = &self.mailbox else {
            return Ok(());
        };
        loop {
            let next = {
                let state = lock(&self.state);
                let mut places = state.chunks.iter().enumerate();
                places.find_map(|(place, waiting)| match waiting {
                    Waiting::Mail(mail) => Some((place, *mail)),
                    Waiting::Frame(_) | Waiting::Block(..) => None,
                })
            };
            let Some((place, mail)) = next else {
                return Ok(());
            };
            let mut block = mailbox.take_block(mail.size());
            let read = mailbox.read(mail, &mut block);
            // Only the tunnel's own thread, which is this one, removes chunks.
            if let Some(waiting) = lock(&self.state).chunks.get_mut(place) {
                *waiting = Waiting::Block(block, mail.size());
            }
            self.send_ahead(&Message::MailTaken(mail.slot()))?;
            read.map_err(|_| Gone)?;
        }
    }

    /// Reports that bytes of the keeper have left this process's memory.
    pub fn consumed(&self, bytes: usize) -> Result<(), Gone> {
        let due = lock(&self.state).receive.consumed(bytes);
        match due {
            Some(due) => self.send_ahead(&Message::Credit(Stream::Data, due)),
            None => Ok(()),
        }
    }

    pub fn send_room(&self) -> usize {
        lock(&self.state).send.left()
    }

    /// Requests the connection. The request is queued after the last messages of earlier tunnels, so that the keeper
    /// never counts more tunnels than this side.
    pub fn connect(&self, wanted: Connect) -> Result<(), Gone> {
        self.send_behind(Message::Connect(wanted).encode(self.id))
    }

    /// Sends bytes for which [`Tunnel::send_room`] had room.
    pub fn send(&self, bytes: &[u8]) -> Result<(), Gone> {
        let taken = lock(&self.state).send.take(bytes.len());
        debug_assert_eq!(
            taken,
            bytes.len(),
            "more bytes than the window has room for"
        );
        self.send_behind(encode_data(self.id, bytes))
    }

    /// Ends this side's bytes.
    pub fn end(&self) -> Result<(), Gone> {
        if self.is_cancelled() {
            return self.cancel();
        }
        self.change(|state| state.said_last = true);
        self.send_behind(Message::StreamEnd(StreamEnd::default()).encode(self.id))
    }

    /// Gives the tunnel up: this side sends and accepts nothing more.
    pub fn cancel(&self) -> Result<(), Gone> {
        let (is_over, unread) = self.change(|state| {
            let unread = std::mem::take(&mut state.chunks);
            let is_over = state.said_last && state.heard_last;
            state.cancelled = true;
            state.said_last = true;
            (is_over, unread)
        });
        self.give_back(unread);
        match is_over {
            true => Ok(()),
            false => self.send_behind(Message::Cancel(Empty {}).encode(self.id)),
        }
    }

    /// Returns true if either side has given the tunnel up.
    pub fn is_cancelled(&self) -> bool {
        lock(&self.state).cancelled
    }

    fn is_over(&self) -> bool {
        let state = lock(&self.state);
        state.said_last && state.heard_last
    }

    fn send_ahead(&self, message: &Message) -> Result<(), Gone> {
        let frame = message.encode(self.id).map_err(|_| Gone)?;
        self.outbox.send_ahead(frame).map_err(|_| Gone)
    }

    fn send_behind(&self, frame: Result<Vec<u8>, MessageError>) -> Result<(), Gone> {
        self.outbox
            .send_behind(frame.map_err(|_| Gone)?)
            .map_err(|_| Gone)
    }
}

impl State {
    /// Returns true if further bytes have no reader.
    fn said_last_for_good(&self) -> bool {
        self.cancelled
    }
}

/// The tunnels of one session.
pub struct Tunnels {
    open: Mutex<HashMap<u32, Arc<Tunnel>>>,
    next_id: Mutex<u32>,
    outbox: Arc<Outbox>,
    mailbox: Option<Arc<Mailbox>>,
}

impl Tunnels {
    pub fn new(outbox: Arc<Outbox>, mailbox: Option<Arc<Mailbox>>) -> Self {
        Self {
            open: Mutex::default(),
            next_id: Mutex::new(FIRST_TUNNEL_ID),
            outbox,
            mailbox,
        }
    }

    /// Opens a tunnel under a new id; `None` at the limit of open tunnels.
    pub fn open(&self) -> io::Result<Option<Arc<Tunnel>>> {
        let mut open = lock(&self.open);
        if open.len() >= MAX_OPEN_TUNNELS {
            return Ok(None);
        }
        let mut next_id = lock(&self.next_id);
        while open.contains_key(&next_id) {
            *next_id = after(*next_id);
        }
        let tunnel = Arc::new(Tunnel::new(
            *next_id,
            self.outbox.clone(),
            self.mailbox.clone(),
        )?);
        open.insert(tunnel.id, tunnel.clone());
        *next_id = after(*next_id);
        Ok(Some(tunnel))
    }

    /// Routes a frame of the keeper. Frames of a tunnel that is over were in flight at its end.
    pub fn on_message(&self, id: u32, message: Message) -> Result<bool, CreditError> {
        let tunnel = lock(&self.open).get(&id).cloned();
        let Some(tunnel) = tunnel else {
            return Ok(true);
        };
        let expected = tunnel.on_message(message)?;
        self.settle(&tunnel);
        Ok(expected)
    }

    /// Like [`Tunnels::on_message`], for bytes in the mailbox.
    pub fn on_mail(&self, id: u32, mail: Mail) -> Result<(), MailError> {
        if self.mailbox.is_none() {
            return Err(MailError::NoMailbox);
        }
        let tunnel = lock(&self.open).get(&id).cloned();
        match tunnel {
            Some(tunnel) => tunnel.on_mail(mail)?,
            None => {
                // Queueing fails only if the writer has failed, and then reading ends too.
                if let Ok(taken) = Message::MailTaken(mail.slot()).encode(id) {
                    let _ = self.outbox.send_ahead(taken);
                }
            }
        }
        Ok(())
    }

    /// Removes a tunnel that the keeper does not know about.
    pub fn forget(&self, tunnel: &Tunnel) {
        lock(&self.open).remove(&tunnel.id);
    }

    /// Removes a tunnel for which both sides have sent their last message.
    pub fn settle(&self, tunnel: &Tunnel) {
        if tunnel.is_over() {
            lock(&self.open).remove(&tunnel.id);
        }
    }
}

/// Returns the next id of the guest's range.
fn after(id: u32) -> u32 {
    id.wrapping_add(1).max(FIRST_TUNNEL_ID)
}
