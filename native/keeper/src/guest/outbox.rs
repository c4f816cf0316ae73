//! Queues frames for the guest: control frames precede data frames, and both queues have a limit.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Notify;

/// The limit of queued data frames; at the limit, a sender waits.
const DATA_FRAMES: usize = 8;
/// The limit of queued control bytes. Only a guest that causes answers and never reads them reaches it.
const CONTROL_BYTES: usize = 8 << 20;

#[derive(Debug, Default)]
pub struct Outbox {
    control: RefCell<VecDeque<Vec<u8>>>,
    control_bytes: Cell<usize>,
    data: RefCell<VecDeque<Vec<u8>>>,
    filled: Notify,
    room: Notify,
    closed: Cell<bool>,
}

/// The guest has stopped reading, but still causes answers of the keeper.
#[derive(Debug, thiserror::Error)]
#[error("the guest reads none of {CONTROL_BYTES} bytes of control frames")]
pub struct ControlFull;

impl Outbox {
    pub fn push_control(&self, frame: Vec<u8>) -> Result<(), ControlFull> {
        if self.closed.get() {
            return Ok(());
        }
        let waiting = self.control_bytes.get() + frame.len();
        if waiting > CONTROL_BYTES {
            return Err(ControlFull);
        }
        self.control_bytes.set(waiting);
        self.control.borrow_mut().push_back(frame);
        self.filled.notify_one();
        Ok(())
    }

    /// Queues a data frame once there is room; a closed outbox drops it.
    pub async fn push_data(&self, frame: Vec<u8>) {
        while !self.closed.get() {
            let room = self.room.notified();
            if self.data.borrow().len() < DATA_FRAMES {
                self.data.borrow_mut().push_back(frame);
                self.filled.notify_one();
                return;
            }
            room.await;
        }
    }

    /// Returns true if no frame waits to be written.
    pub fn is_empty(&self) -> bool {
        self.control.borrow().is_empty() && self.data.borrow().is_empty()
    }

    /// Releases all senders that wait for room; later frames are dropped.
    pub fn close(&self) {
        self.closed.set(true);
        self.control.borrow_mut().clear();
        self.data.borrow_mut().clear();
        self.room.notify_waiters();
        self.filled.notify_one();
    }

    fn pop(&self) -> Option<Vec<u8>> {
        if let Some(frame) = self.control.borrow_mut().pop_front() {
            self.control_bytes
                .set(self.control_bytes.get() - frame.len());
            return Some(frame);
        }
        let frame = self.data.borrow_mut().pop_front()?;
        self.room.notify_waiters();
        Some(frame)
    }

    /// Writes queued frames until the outbox is closed or the port fails.
    pub async fn drain_into(&self, port: &mut OwnedWriteHalf) -> std::io::Result<()> {
        while !self.closed.get() {
            let filled = self.filled.notified();
            match self.pop() {
                Some(frame) => port.write_all(&frame).await?,
                None => filled.await,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_goes_ahead_of_data_and_is_bounded() {
        let outbox = Outbox::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(outbox.push_data(vec![1]));
        outbox.push_control(vec![2]).unwrap();
        assert_eq!(outbox.pop(), Some(vec![2]));
        assert_eq!(outbox.pop(), Some(vec![1]));
        outbox.push_control(vec![0; CONTROL_BYTES]).unwrap();
        assert!(outbox.push_control(vec![0]).is_err());
    }
}
