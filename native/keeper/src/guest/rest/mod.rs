//! The end of a session without the end of its guest: the guest forgets the session, and waits for `Start`.

pub mod state;

use std::fs::File;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::UnixStream;
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
