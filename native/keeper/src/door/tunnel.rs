//! The keeper's side of one stream that the guest opened.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::sync::Notify;
use voidbox_protocol::body::{Empty, ErrorBody, StreamEnd};
use voidbox_protocol::credit::{ReceiveWindow, SendWindow, tunnel_window};
use voidbox_protocol::frame::MAX_CHUNK_BYTES;
use voidbox_protocol::mailbox::SLOT_BYTES;
use voidbox_protocol::message::{Message, Stream, encode_data};

use crate::error::Failure;
use crate::guest::link::{After, Inbound, Link, Violation};

/// The tunnel is over: the guest gave it up, or its VM has ended.
#[derive(Debug)]
pub struct GivenUp;

struct State {
    /// Bytes of the guest that have not been read yet; never more than the window.
    incoming: Vec<u8>,
    receive: ReceiveWindow,
    send: SendWindow,
    /// The guest has sent its last byte.
    ended: bool,
    /// The guest, or the end of its VM, has given the tunnel up.
    given_up: bool,
    heard_last: bool,
    said_last: bool,
}

struct Inner {
    state: RefCell<State>,
    changed: Notify,
}

pub struct Tunnel {
    link: Rc<Link>,
    id: u32,
    inner: Rc<Inner>,
}

impl Tunnel {
    pub fn new(link: Rc<Link>, id: u32) -> (Self, Rc<dyn Inbound>) {
        let window = tunnel_window(link.has_door_mail());
        let inner = Rc::new(Inner {
            state: RefCell::new(State {
                incoming: Vec::new(),
                receive: ReceiveWindow::of_tunnel(link.has_door_mail()),
                send: SendWindow::of(window),
                ended: false,
                given_up: false,
                heard_last: false,
                said_last: false,
            }),
            changed: Notify::new(),
        });
        let inbound = inner.clone();
        (Self { link, id, inner }, inbound)
    }

    pub fn connected(&self) {
        self.link.send(self.id, &Message::Connected(Empty {}));
    }

    /// Sends the reason for a refusal as the last message.
    pub fn refuse(&self, why: ErrorBody) {
        if self.say_last() {
            self.link.send(self.id, &Message::Error(why));
        }
    }

    /// Gives the tunnel up; does nothing if both sides have sent their last message.
    pub fn cancel(&self) {
        let is_over = {
            let state = self.inner.state.borrow();
            state.said_last && state.heard_last
        };
        let is_first = self.say_last();
        if is_first || !is_over {
            self.link.send(self.id, &Message::Cancel(Empty {}));
        }
    }

    /// Records that the last message was sent. From here on, bytes of the guest are dropped.
    fn say_last(&self) -> bool {
        let mut state = self.inner.state.borrow_mut();
        let is_first = !state.said_last;
        state.said_last = true;
        state.given_up = true;
        state.incoming = Vec::new();
        let heard_last = state.heard_last;
        drop(state);
        if heard_last {
            self.link.forget_tunnel(self.id);
        }
        is_first
    }

    /// Returns once the other end has given the tunnel up.
    pub async fn given_up(&self) {
        loop {
            let changed = self.inner.changed.notified();
            if self.inner.state.borrow().given_up {
                return;
            }
            changed.await;
        }
    }

    /// Moves bytes of the guest into `buffer`, replacing its contents; it is empty at the end.
    pub async fn receive(&self, buffer: &mut Vec<u8>) -> Result<(), GivenUp> {
        buffer.clear();
        loop {
            let changed = self.inner.changed.notified();
            {
                let mut state = self.inner.state.borrow_mut();
                if state.given_up {
                    return Err(GivenUp);
                }
                if !state.incoming.is_empty() {
                    std::mem::swap(&mut state.incoming, buffer);
                    return Ok(());
                }
                if state.ended {
                    return Ok(());
                }
            }
            changed.await;
        }
    }

    /// Reports that received bytes have left the keeper's memory.
    pub fn consumed(&self, bytes: usize) {
        let due = self.inner.state.borrow_mut().receive.consumed(bytes);
        if let Some(due) = due {
            self.link.credit(self.id, Stream::Data, due);
        }
    }

    /// Waits until the guest accepts at least `least` bytes, and returns how many it accepts.
    pub async fn room(&self, least: usize) -> Result<usize, GivenUp> {
        loop {
            let changed = self.inner.changed.notified();
            {
                let state = self.inner.state.borrow();
                if state.given_up {
                    return Err(GivenUp);
                }
                if state.send.left() >= least {
                    return Ok(state.send.left());
                }
            }
            changed.await;
        }
    }

    /// The largest size that one call of [`Tunnel::send`] sends efficiently.
    pub fn piece_bytes(&self) -> usize {
        match self.link.has_door_mail() {
            true => SLOT_BYTES,
            false => MAX_CHUNK_BYTES,
        }
    }

    /// Returns the window of each direction.
    pub fn window_bytes(&self) -> usize {
        tunnel_window(self.link.has_door_mail()) as usize
    }

    /// Sends bytes for which the window has room: through the mailbox if it has room, otherwise as frames.
    pub async fn send(&self, bytes: &[u8]) -> Result<(), GivenUp> {
        self.inner.state.borrow_mut().send.take(bytes.len());
        let slot = match self.link.has_door_mail() {
            true => self.link.take_slot(bytes.len()),
            false => None,
        };
        if let Some(slot) = slot {
            let mail = slot.write(bytes).map_err(|_| GivenUp)?;
            let frame = Message::Mail(mail).encode(self.id).map_err(|_| GivenUp)?;
            self.link.send_data(frame).await;
            slot.sent();
            return Ok(());
        }
        for piece in bytes.chunks(MAX_CHUNK_BYTES) {
            let frame = encode_data(self.id, piece).map_err(|_| GivenUp)?;
            self.link.send_data(frame).await;
        }
        Ok(())
    }

    /// Ends this side's bytes, after all of them.
    pub async fn end(&self) -> Result<(), GivenUp> {
        let frame = Message::StreamEnd(StreamEnd::default()).encode(self.id);
        self.link.send_data(frame.map_err(|_| GivenUp)?).await;
        let mut state = self.inner.state.borrow_mut();
        state.said_last = true;
        let is_over = state.heard_last;
        drop(state);
        if is_over {
            self.link.forget_tunnel(self.id);
        }
        Ok(())
    }
}

impl Inbound for Inner {
    fn on_message(&self, _link: &Link, id: u32, message: Message) -> Result<After, Violation> {
        let mut state = self.state.borrow_mut();
        match message {
            Message::Data(bytes) if !state.heard_last => {
                state.receive.received(bytes.len())?;
                if !state.given_up {
                    state.incoming.extend_from_slice(&bytes);
                }
            }
            Message::StreamEnd(_) if !state.heard_last => {
                state.ended = true;
                state.heard_last = true;
            }
            Message::Credit(Stream::Data, bytes) => state.send.grant(bytes)?,
            Message::Cancel(_) => {
                state.heard_last = true;
                state.given_up = true;
                state.incoming = Vec::new();
            }
            other => {
                return Err(Violation::Unexpected {
                    id,
                    got: other.frame_type(),
                });
            }
        }
        let is_over = state.heard_last && state.said_last;
        drop(state);
        self.changed.notify_waiters();
        Ok(match is_over {
            true => After::Finished,
            false => After::GoesOn,
        })
    }

    fn on_lost(&self, _failure: &Failure) {
        self.state.borrow_mut().given_up = true;
        self.changed.notify_waiters();
    }
}
