//! The full saves that clients ask for. The task of the VM makes them: a client that leaves in the midst of one cannot
//! leave a guest that rests.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::disk_copy::Way;
use crate::error::{Code, Failure};
use crate::vmm::FullSave;

/// A full save that a client asks for.
pub struct SaveInFull {
    pub files: FullSave,
    /// Gets the copy of the disk; it is empty.
    pub disk: Arc<File>,
    /// The state to which a diff will refer; `None` for a base.
    pub parent: Option<Tip>,
    /// Gets the result. Without a receiver, the save is given up as soon as possible.
    pub done: oneshot::Sender<Result<Saved, Failure>>,
}

/// A save whose files are written, but not synced.
#[derive(Debug)]
pub struct Saved {
    /// The id of the state.
    pub id: String,
    pub paused: Duration,
    pub way: Way,
}

/// The newest state of a VM whose files are in their place. The next diff refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tip {
    pub id: String,
    /// The number of links of its chain.
    pub links: usize,
}

/// The full saves of a VM: a queue of requests. A keeper allows one checkpoint at a time, so it has one place.
#[derive(Default)]
pub struct FullSaves {
    next: Cell<Option<SaveInFull>>,
    asked: Notify,
    tip: RefCell<Option<Tip>>,
}

impl FullSaves {
    /// Returns the state to which a diff would refer now.
    pub fn tip(&self) -> Option<Tip> {
        self.tip.borrow().clone()
    }

    /// Forgets the state: the VMM has made a later one, whose files are not in their place.
    pub(super) fn forget(&self) {
        self.tip.replace(None);
    }

    /// Records a state whose files are in their place.
    pub fn keep(&self, tip: Tip) {
        self.tip.replace(Some(tip));
    }

    pub fn ask(&self, order: SaveInFull) {
        self.next.set(Some(order));
        self.asked.notify_one();
    }

    pub(super) async fn next(&self) -> SaveInFull {
        loop {
            if let Some(order) = self.next.take() {
                return order;
            }
            self.asked.notified().await;
        }
    }
}

pub fn no_parent() -> Failure {
    failed("there is no full save to which a diff could refer: save all pages")
}

pub fn failed(message: impl Into<String>) -> Failure {
    Failure::new(Code::CheckpointFailed, message)
}
