//! The guest's side of tunnels: streams that it opens and the keeper joins to a connection of the host.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::event::{EventfdFlags, eventfd};
use voidbox_protocol::body::{Connect, Empty, ErrorBody, StreamEnd};
use voidbox_protocol::credit::{CreditError, ReceiveWindow, SendWindow, TUNNEL_WINDOW_BYTES};
use voidbox_protocol::message::{Message, MessageError, Stream, encode_data};
use voidbox_protocol::{FIRST_TUNNEL_ID, MAX_OPEN_TUNNELS};

use crate::lock::lock;
use crate::outbox::Outbox;

struct State {
    answer: Option<Result<(), ErrorBody>>,
    chunks: VecDeque<Vec<u8>>,
    receive: ReceiveWindow,
    send: SendWindow,
    /// The keeper has sent all of its data.
    ended: bool,
    /// The keeper has given the tunnel up.
    cancelled: bool,
    /// This side has sent its last frame, and so has the keeper.
    said_last: bool,
    heard_last: bool,
}

/// What the keeper's side has now.
pub enum Inbound {
    Chunk(Vec<u8>),
    End,
    /// The keeper gave the tunnel up; what was on its way is lost.
    Cancelled,
    Nothing,
}

/// One tunnel. The connection's reader calls the `on_` functions, which never block; the tunnel's
/// thread calls the others. Each change writes to an eventfd, for the thread that polls.
pub struct Tunnel {
    pub id: u32,
    state: Mutex<State>,
    wake: OwnedFd,
    outbox: Arc<Outbox>,
}

/// The connection to the keeper is over.
pub struct Gone;

impl Tunnel {
    fn new(id: u32, outbox: Arc<Outbox>) -> io::Result<Self> {
        Ok(Self {
            id,
            state: Mutex::new(State {
                answer: None,
                chunks: VecDeque::new(),
                receive: ReceiveWindow::of(TUNNEL_WINDOW_BYTES),
                send: SendWindow::of(TUNNEL_WINDOW_BYTES),
                ended: false,
                cancelled: false,
                said_last: false,
                heard_last: false,
            }),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            outbox,
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut lock(&self.state));
        // Fails only when the counter is full, and then the poller is awake anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        result
    }

    /// Readable after any change; [`Tunnel::clear_wake`] makes it quiet again.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    pub fn clear_wake(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }

    /// Takes a frame of the keeper; false when the tunnel does not expect one of this kind.
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
                        state.chunks.push_back(bytes);
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

    /// The keeper's answer to the request for a connection.
    pub fn answer(&self) -> Option<Result<(), ErrorBody>> {
        let state = lock(&self.state);
        match (&state.answer, state.cancelled) {
            (None, true) => Some(Err(ErrorBody {
                code: voidbox_protocol::body::ErrorCode::Cancelled,
                message: "the host gave the connection up".into(),
            })),
            (answer, _) => answer.clone(),
        }
    }

    pub fn next_inbound(&self) -> Inbound {
        let mut state = lock(&self.state);
        if state.cancelled {
            state.chunks.clear();
            return Inbound::Cancelled;
        }
        match state.chunks.pop_front() {
            Some(bytes) => Inbound::Chunk(bytes),
            None if state.ended => Inbound::End,
            None => Inbound::Nothing,
        }
    }

    /// Says that bytes of the keeper have left this process's memory.
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

    /// Asks for the connection. It goes behind the last words of tunnels that ended before, so that
    /// the keeper never counts more of them than this side.
    pub fn connect(&self, wanted: Connect) -> Result<(), Gone> {
        self.send_behind(Message::Connect(wanted).encode(self.id))
    }

    /// Sends bytes that [`Tunnel::send_room`] had room for.
    pub fn send(&self, bytes: &[u8]) -> Result<(), Gone> {
        let taken = lock(&self.state).send.take(bytes.len());
        debug_assert_eq!(taken, bytes.len(), "more than there was room for");
        self.send_behind(encode_data(self.id, bytes))
    }

    /// This side has no more bytes.
    pub fn end(&self) -> Result<(), Gone> {
        if self.is_cancelled() {
            return self.cancel();
        }
        self.change(|state| state.said_last = true);
        self.send_behind(Message::StreamEnd(StreamEnd::default()).encode(self.id))
    }

    /// This side sends and takes nothing more.
    pub fn cancel(&self) -> Result<(), Gone> {
        let is_over = self.change(|state| {
            state.chunks.clear();
            let is_over = state.said_last && state.heard_last;
            state.cancelled = true;
            state.said_last = true;
            is_over
        });
        match is_over {
            true => Ok(()),
            false => self.send_behind(Message::Cancel(Empty {}).encode(self.id)),
        }
    }

    fn is_cancelled(&self) -> bool {
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
    /// Bytes that still come are nobody's.
    fn said_last_for_good(&self) -> bool {
        self.cancelled
    }
}

/// The tunnels of one session.
pub struct Tunnels {
    open: Mutex<HashMap<u32, Arc<Tunnel>>>,
    next_id: Mutex<u32>,
    outbox: Arc<Outbox>,
}

impl Tunnels {
    pub fn new(outbox: Arc<Outbox>) -> Self {
        Self {
            open: Mutex::default(),
            next_id: Mutex::new(FIRST_TUNNEL_ID),
            outbox,
        }
    }

    /// A tunnel under an id of its own; `None` when as many are open as there may be.
    pub fn open(&self) -> io::Result<Option<Arc<Tunnel>>> {
        let mut open = lock(&self.open);
        if open.len() >= MAX_OPEN_TUNNELS {
            return Ok(None);
        }
        let mut next_id = lock(&self.next_id);
        while open.contains_key(&next_id) {
            *next_id = after(*next_id);
        }
        let tunnel = Arc::new(Tunnel::new(*next_id, self.outbox.clone())?);
        open.insert(tunnel.id, tunnel.clone());
        *next_id = after(*next_id);
        Ok(Some(tunnel))
    }

    /// Routes a frame of the keeper; frames of a tunnel that is over were on their way when it ended.
    pub fn on_message(&self, id: u32, message: Message) -> Result<bool, CreditError> {
        let tunnel = lock(&self.open).get(&id).cloned();
        let Some(tunnel) = tunnel else {
            return Ok(true);
        };
        let expected = tunnel.on_message(message)?;
        self.settle(&tunnel);
        Ok(expected)
    }

    /// Forgets a tunnel of which both sides have said the last word.
    pub fn settle(&self, tunnel: &Tunnel) {
        if tunnel.is_over() {
            lock(&self.open).remove(&tunnel.id);
        }
    }
}

/// The next id of the guest's range.
fn after(id: u32) -> u32 {
    id.wrapping_add(1).max(FIRST_TUNNEL_ID)
}
