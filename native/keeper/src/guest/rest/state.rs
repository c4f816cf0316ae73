//! The part of a link that a rest changes.

use std::cell::{Cell, RefCell};

use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

use crate::error::{Code, Failure};

/// The state of a link whose guest is asked to rest.
#[derive(Default)]
pub struct Rest {
    pub(super) is_asked: Cell<bool>,
    pub(super) id: Cell<Option<u32>>,
    answer: RefCell<Option<Result<(), Failure>>>,
    reader: RefCell<Option<OwnedReadHalf>>,
    writer: RefCell<Option<OwnedWriteHalf>>,
    changed: Notify,
}

impl Rest {
    /// Fails while the guest is asked to rest: it reads its next bytes as the beginning of a session.
    pub(in crate::guest) fn check_open(&self) -> Result<(), Failure> {
        match self.is_asked.get() {
            true => Err(Failure::new(Code::VmBusy, "the VM is being saved")),
            false => Ok(()),
        }
    }

    /// Returns true for a frame that may cross the request to rest. Every answer to one would reach the guest too late.
    pub(in crate::guest) fn ignores(&self, id: u32) -> bool {
        self.id.get().is_some_and(|own| own != id)
    }

    /// Returns true once the guest rests.
    pub(in crate::guest) fn has_come(&self) -> bool {
        matches!(*self.answer.borrow(), Some(Ok(())))
    }

    pub(in crate::guest) fn give_reader(&self, half: OwnedReadHalf) {
        self.reader.replace(Some(half));
        self.changed.notify_one();
    }

    pub(in crate::guest) fn give_writer(&self, half: OwnedWriteHalf) {
        self.writer.replace(Some(half));
        self.changed.notify_one();
    }

    pub(super) fn answer(&self, answer: Result<(), Failure>) {
        self.answer.replace(Some(answer));
        self.changed.notify_one();
    }

    /// Forgets a request that the guest has refused.
    pub(super) fn forget(&self) {
        self.id.set(None);
        self.answer.replace(None);
        self.is_asked.set(false);
    }

    /// Returns once the guest has answered and, if it rests, both tasks have given their half of the port back.
    pub(super) async fn ended(&self) -> Result<UnixStream, Failure> {
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
