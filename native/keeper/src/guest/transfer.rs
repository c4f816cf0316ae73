//! One request that transfers a file or a tar, or only asks: its answer and its two data streams.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use tokio::sync::Notify;
use voidbox_protocol::body::{Empty, ErrorBody, ErrorCode, StreamEnd};
use voidbox_protocol::credit::{ReceiveWindow, SendWindow};
use voidbox_protocol::frame::MAX_CHUNK_BYTES;
use voidbox_protocol::mailbox::SLOT_BYTES;
use voidbox_protocol::message::{Message, Stream, encode_data};

use super::link::{After, Inbound, Link, Violation};
use super::mailbox::Slot;
use crate::error::{Code, Failure};

/// The message that ends a request of this kind on the guest's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// Its response.
    WithResponse,
    /// The end of the guest's data, or a response `absent`.
    WithData,
}

struct State {
    ends: Ends,
    response: Option<Message>,
    /// Bytes of the guest that have not been read yet; never more than the window.
    incoming: Vec<u8>,
    receive: ReceiveWindow,
    send: SendWindow,
    finished: bool,
    failure: Option<Failure>,
    /// The client has disconnected; later data is discarded.
    abandoned: bool,
}

struct Inner {
    state: RefCell<State>,
    changed: Notify,
}

/// An open request. If it is dropped before its end, it is cancelled.
pub struct Transfer {
    link: Rc<Link>,
    id: u32,
    inner: Rc<Inner>,
    /// The text that names the request in messages.
    what: String,
}

fn describe(message: &Message) -> String {
    match message {
        Message::ReadFile(request) => format!("reading {}", request.path),
        Message::WriteFile(request) => format!("writing {}", request.path),
        Message::TarGet(request) => format!("reading the folder {}", request.path),
        Message::TarPut(request) => format!("writing the folder {}", request.path),
        other => format!("{:?}", other.frame_type()),
    }
}

fn guest_failure(error: &ErrorBody) -> Failure {
    if error.code == ErrorCode::BadOutput {
        return Failure::new(Code::BadOutput, error.message.clone());
    }
    if error.code == ErrorCode::NoSpace {
        return Failure::new(Code::GuestDiskFull, error.message.clone());
    }
    let code = serde_json::to_value(error.code).ok();
    let code = code
        .as_ref()
        .and_then(|code| code.as_str())
        .unwrap_or("internal");
    Failure::new(Code::GuestError, format!("{code}: {}", error.message))
}

/// Returns true for the guest's answer to `Cancel`.
fn is_cancelled(failure: &Failure) -> bool {
    failure.code == Code::GuestError && failure.message.starts_with("cancelled:")
}

impl Transfer {
    pub fn open(link: &Rc<Link>, message: &Message) -> Result<Self, Failure> {
        let ends = match message {
            Message::ReadFile(_)
            | Message::TarGet(_)
            | Message::ExecFreeze(_)
            | Message::DiskFreeze(_) => Ends::WithData,
            _ => Ends::WithResponse,
        };
        let inner = Rc::new(Inner {
            state: RefCell::new(State {
                ends,
                response: None,
                incoming: Vec::new(),
                receive: ReceiveWindow::default(),
                send: SendWindow::default(),
                finished: false,
                failure: None,
                abandoned: false,
            }),
            changed: Notify::new(),
        });
        let id = link.open(message, inner.clone())?;
        Ok(Self {
            link: link.clone(),
            id,
            inner,
            what: describe(message),
        })
    }

    /// Waits for `owed`, or for the end of the VM. A guest that makes no progress for too long loses its VM, because it
    /// would block its stage for ever.
    async fn progress<T>(&self, owed: impl Future<Output = T>) -> Result<T, Failure> {
        let patience = &self.link.patience;
        if let Some(done) = patience.wait(owed).await {
            return Ok(done);
        }
        let failure = Failure::new(
            Code::VmProtocol,
            format!(
                "the guest went silent: no progress of {} within {} ms",
                self.what,
                patience.limit().as_millis()
            ),
        );
        self.link.end(failure.clone());
        Err(failure)
    }

    /// Waits for the guest's response, which it owes now.
    pub async fn response(&self) -> Result<Message, Failure> {
        self.answer(true).await
    }

    /// Waits for the guest's response while the guest may still wait for data of the client.
    pub async fn early_response(&self) -> Result<Message, Failure> {
        self.answer(false).await
    }

    async fn answer(&self, is_due: bool) -> Result<Message, Failure> {
        loop {
            let changed = self.inner.changed.notified();
            {
                let mut state = self.inner.state.borrow_mut();
                // The guest's first message counts, however late the keeper reads it.
                if let Some(response) = state.response.take() {
                    return Ok(response);
                }
                if let Some(failure) = &state.failure {
                    return Err(failure.clone());
                }
            }
            if is_due {
                self.progress(changed).await?;
            } else {
                changed.await;
            }
        }
    }

    /// Moves bytes of the guest into `buffer`, replacing its contents; it is empty at the end. The guest may send more
    /// only after [`Transfer::consumed`].
    pub async fn receive(&self, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        buffer.clear();
        loop {
            let changed = self.inner.changed.notified();
            {
                let mut state = self.inner.state.borrow_mut();
                if !state.incoming.is_empty() {
                    std::mem::swap(&mut state.incoming, buffer);
                    return Ok(());
                }
                if let Some(failure) = &state.failure {
                    return Err(failure.clone());
                }
                if state.finished {
                    return Ok(());
                }
            }
            self.progress(changed).await?;
        }
    }

    /// Returns once the guest ends a request that should last until it is cancelled; returns the reason.
    pub async fn let_go(&self) -> Failure {
        loop {
            let changed = self.inner.changed.notified();
            {
                let state = self.inner.state.borrow();
                if let Some(failure) = &state.failure {
                    return failure.clone();
                }
                if state.finished {
                    return Failure::new(
                        Code::GuestError,
                        "the guest ended a request that it must hold open",
                    );
                }
            }
            changed.await;
        }
    }

    /// Cancels a request that lasts until then, and waits for the guest's last word. Returns the reason if the guest
    /// ended the request before.
    pub async fn cancel(&self) -> Result<(), Failure> {
        self.link.send(self.id, &Message::Cancel(Empty {}));
        let failure = self.progress(self.let_go()).await?;
        match is_cancelled(&failure) {
            true => Ok(()),
            false => Err(failure),
        }
    }

    /// Reports that received bytes have left the keeper's memory.
    pub fn consumed(&self, bytes: usize) {
        let due = {
            let mut state = self.inner.state.borrow_mut();
            if state.finished {
                None
            } else {
                state.receive.consumed(bytes)
            }
        };
        if let Some(due) = due {
            self.link.credit(self.id, Stream::Data, due);
        }
    }

    /// Sends bytes of the request's data as fast as the guest's window allows: through the mailbox if it has room,
    /// otherwise as frames.
    pub async fn send(&self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min(SLOT_BYTES));
            self.take_window(piece.len()).await?;
            match self.link.take_slot(piece.len()) {
                Some(slot) => self.send_mail(slot, piece).await?,
                None => self.send_frames(piece).await?,
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Takes `count` bytes, at most a slot's worth, out of the guest's window once it has room for them.
    async fn take_window(&self, count: usize) -> Result<(), Failure> {
        loop {
            let changed = self.inner.changed.notified();
            {
                let mut state = self.inner.state.borrow_mut();
                if let Some(failure) = &state.failure {
                    return Err(failure.clone());
                }
                if state.finished {
                    return Err(Failure::new(
                        Code::GuestError,
                        "the guest answered before it had all the data",
                    ));
                }
                if state.send.left() >= count {
                    state.send.take(count);
                    return Ok(());
                }
            }
            self.progress(changed).await?;
        }
    }

    async fn send_mail(&self, slot: Slot, bytes: &[u8]) -> Result<(), Failure> {
        let mail = slot
            .write(bytes)
            .map_err(|error| Failure::io("writing the mailbox", &error))?;
        let frame = Message::Mail(mail)
            .encode(self.id)
            .map_err(|error| Failure::bad_request(error.to_string()))?;
        self.progress(self.link.send_data(frame)).await?;
        slot.sent();
        Ok(())
    }

    async fn send_frames(&self, bytes: &[u8]) -> Result<(), Failure> {
        for chunk in bytes.chunks(MAX_CHUNK_BYTES) {
            let frame = encode_data(self.id, chunk)
                .map_err(|error| Failure::bad_request(error.to_string()))?;
            self.progress(self.link.send_data(frame)).await?;
        }
        Ok(())
    }

    /// Ends the request's data. The end uses the data's queue, so it arrives after all data.
    pub async fn send_end(&self) -> Result<(), Failure> {
        let end = Message::StreamEnd(StreamEnd::default()).encode(self.id);
        let frame = end.map_err(|error| Failure::bad_request(error.to_string()))?;
        self.progress(self.link.send_data(frame)).await?;
        Ok(())
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let mut state = self.inner.state.borrow_mut();
        if state.finished || state.failure.is_some() {
            return;
        }
        state.abandoned = true;
        state.incoming = Vec::new();
        drop(state);
        self.link.send(self.id, &Message::Cancel(Empty {}));
    }
}

impl Inner {
    /// Handles a message of an abandoned request.
    fn on_abandoned(state: &mut State, message: &Message) -> Result<After, Violation> {
        if let Message::Data(bytes) = message {
            // The keeper grants no more credit, so only bytes that are in flight may arrive.
            state.receive.received(bytes.len())?;
        }
        let absent = state.ends == Ends::WithResponse || is_absent(message);
        let over = match message {
            Message::Error(_) | Message::StreamEnd(_) => true,
            Message::Data(_) | Message::Credit(..) => false,
            _ => absent,
        };
        state.finished = over;
        Ok(if over { After::Finished } else { After::GoesOn })
    }
}

fn is_absent(message: &Message) -> bool {
    use voidbox_protocol::body::{ReadFileResponse, TarGetResponse};
    matches!(
        message,
        Message::ReadFileResponse(ReadFileResponse::Absent)
            | Message::TarGetResponse(TarGetResponse::Absent)
    )
}

impl Inbound for Inner {
    fn on_message(&self, link: &Link, id: u32, message: Message) -> Result<After, Violation> {
        let mut state = self.state.borrow_mut();
        if state.abandoned {
            return Self::on_abandoned(&mut state, &message);
        }
        let unexpected = Violation::Unexpected {
            id,
            got: message.frame_type(),
        };
        match message {
            Message::Credit(Stream::Data, bytes) => state.send.grant(bytes)?,
            Message::Data(bytes) if state.ends == Ends::WithData => {
                state.receive.received(bytes.len())?;
                match state.incoming.is_empty() {
                    true => link.keep(std::mem::replace(&mut state.incoming, bytes)),
                    false => {
                        state.incoming.extend_from_slice(&bytes);
                        link.keep(bytes);
                    }
                }
            }
            Message::StreamEnd(end) if state.ends == Ends::WithData => {
                state.finished = true;
                state.failure = end.error.as_ref().map(guest_failure);
            }
            Message::Error(error) => {
                state.finished = true;
                state.failure = Some(guest_failure(&error));
            }
            Message::WriteFileResponse(_)
            | Message::MkdirPResponse(_)
            | Message::ReadFileResponse(_)
            | Message::FileStatResponse(_)
            | Message::TarPutResponse(_)
            | Message::TarGetResponse(_)
            | Message::StatsResponse(_)
            | Message::ClockResponse(_)
            | Message::ExecFrozen(_)
            | Message::DiskFrozen(_)
                if state.response.is_none() =>
            {
                state.finished = state.ends == Ends::WithResponse || is_absent(&message);
                state.response = Some(message);
            }
            _ => return Err(unexpected),
        }
        let after = if state.finished {
            After::Finished
        } else {
            After::GoesOn
        };
        drop(state);
        self.changed.notify_waiters();
        Ok(after)
    }

    fn on_lost(&self, failure: &Failure) {
        let mut state = self.state.borrow_mut();
        state.failure.get_or_insert_with(|| failure.clone());
        drop(state);
        self.changed.notify_waiters();
    }
}
