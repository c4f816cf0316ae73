//! The end of a session without the end of its guest: the guest forgets the session, and waits for `Start`.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use voidbox_protocol::body::Empty;
use voidbox_protocol::message::Message;

use super::link::{After, Inbound, Link, Violation};
use crate::error::{Code, Failure};

/// The pause between two looks at the queue of frames for the guest.
const LOOK: Duration = Duration::from_millis(2);

/// The connections of a guest that rests. Nothing was sent to it since its answer.
#[derive(Debug)]
pub struct Rested {
    pub port: UnixStream,
    /// The memory of the mailbox of its last session.
    pub mailbox: Option<File>,
}

/// The state of a link whose guest is asked to rest.
#[derive(Default)]
pub struct Rest {
    is_asked: Cell<bool>,
    id: Cell<Option<u32>>,
    answer: RefCell<Option<Result<(), Failure>>>,
    reader: RefCell<Option<OwnedReadHalf>>,
    writer: RefCell<Option<OwnedWriteHalf>>,
    changed: Notify,
}

impl Rest {
    /// Fails while the guest is asked to rest: it reads its next bytes as the beginning of a session.
    pub(super) fn check_open(&self) -> Result<(), Failure> {
        match self.is_asked.get() {
            true => Err(Failure::new(Code::VmBusy, "the VM is being saved")),
            false => Ok(()),
        }
    }

    /// Returns true for a frame that may cross the request to rest. Every answer to one would reach the guest too late.
    pub(super) fn ignores(&self, id: u32) -> bool {
        self.id.get().is_some_and(|own| own != id)
    }

    /// Returns true once the guest rests.
    pub(super) fn has_come(&self) -> bool {
        matches!(*self.answer.borrow(), Some(Ok(())))
    }

    pub(super) fn give_reader(&self, half: OwnedReadHalf) {
        self.reader.replace(Some(half));
        self.changed.notify_one();
    }

    pub(super) fn give_writer(&self, half: OwnedWriteHalf) {
        self.writer.replace(Some(half));
        self.changed.notify_one();
    }

    fn answer(&self, answer: Result<(), Failure>) {
        self.answer.replace(Some(answer));
        self.changed.notify_one();
    }

    /// Forgets a request that the guest has refused.
    fn forget(&self) {
        self.id.set(None);
        self.answer.replace(None);
        self.is_asked.set(false);
    }

    /// Returns once the guest has answered and, if it rests, both tasks have given their half of the port back.
    async fn ended(&self) -> Result<UnixStream, Failure> {
        loop {
            let changed = self.changed.notified();
            if let Some(Err(failure)) = &*self.answer.borrow() {
                return Err(failure.clone());
            }
            let has_both = self.reader.borrow().is_some() && self.writer.borrow().is_some();
            if has_both
                && let (Some(reader), Some(writer)) = (self.reader.take(), self.writer.take())
            {
                return Ok(reader.reunite(writer).expect("both are of the link's port"));
            }
            changed.await;
        }
    }
}

/// Receives the answer to `Rest`.
struct Answer;

impl Inbound for Answer {
    fn on_message(&self, link: &Link, id: u32, message: Message) -> Result<After, Violation> {
        link.rest.answer(match message {
            Message::Resting(_) => Ok(()),
            Message::Error(error) => Err(Failure::new(
                Code::GuestError,
                format!("the guest does not rest: {}", error.message),
            )),
            other => {
                return Err(Violation::Unexpected {
                    id,
                    got: other.frame_type(),
                });
            }
        });
        Ok(After::Finished)
    }

    fn on_lost(&self, _failure: &Failure) {}
}

impl Link {
    /// Ends the session of an idle guest, which then waits for `Start`. No caller may use the link afterwards.
    ///
    /// Fails with `vm/busy` if a request or a tunnel is open, and with `vm/guest` if the guest refuses: the link then
    /// works as before. Every other failure ends the link. If this call is dropped, the guest may rest already, so its
    /// VM must end.
    pub async fn rest(self: &Rc<Self>) -> Result<Rested, Failure> {
        if !self.can_rest {
            let message = "the guest's agent is of an earlier build and cannot rest";
            return Err(Failure::new(Code::CheckpointFailed, message));
        }
        self.rest.check_open()?;
        self.rest.is_asked.set(true);
        let rested = self.patience.wait(async {
            self.ask_for_rest().await?;
            tokio::select! {
                ended = self.rest.ended() => ended,
                failure = self.ended() => Err(failure),
            }
        });
        let port = match rested.await {
            Some(Ok(port)) => port,
            Some(Err(failure)) => {
                self.rest.forget();
                return Err(failure);
            }
            None => {
                let limit = self.patience.limit().as_millis();
                let message = format!("the guest went silent: it does not rest within {limit} ms");
                let failure = Failure::new(Code::VmProtocol, message);
                self.end(failure.clone());
                return Err(failure);
            }
        };
        let memory = self.mailbox.as_ref().map(|mailbox| mailbox.memory());
        let mailbox = memory
            .transpose()
            .map_err(|error| Failure::io("keeping the mailbox", &error));
        self.end(Failure::new(Code::VmBusy, "the guest rests"));
        Ok(Rested {
            port,
            mailbox: mailbox?,
        })
    }

    /// Sends the request as the last frame of the session.
    async fn ask_for_rest(&self) -> Result<(), Failure> {
        while !self.outbox.is_empty() {
            tokio::time::sleep(LOOK).await;
        }
        let (requests, tunnels) = (self.requests.borrow().len(), self.tunnels.borrow().len());
        if requests + tunnels > 0 {
            let message =
                format!("{requests} requests and {tunnels} connections of the VM are open");
            return Err(Failure::new(Code::VmBusy, message));
        }
        let id = self.open_any(&Message::Rest(Empty {}), Rc::new(Answer))?;
        self.rest.id.set(Some(id));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
