//! An exec's standard input: one client at a time sends it, and every byte is counted.

use voidbox_protocol::frame::MAX_CHUNK_BYTES;
use voidbox_protocol::message::{Message, encode_data};

use super::Exec;
use crate::error::Failure;
use crate::guest::link::Link;

impl Exec {
    /// Makes the caller the only sender of standard input; returns its token, and the offset at which it continues.
    pub fn own_stdin(&self) -> (u64, u64) {
        self.cut_stdin();
        (self.stdin_owner.get(), self.stdin_taken.get())
    }

    /// Ends the current sender of standard input.
    pub fn cut_stdin(&self) {
        self.stdin_owner.set(self.stdin_owner.get() + 1);
        self.changed.notify_waiters();
    }

    /// Returns once `owner` may no longer send standard input.
    pub async fn stdin_cut(&self, owner: u64) {
        loop {
            let changed = self.changed.notified();
            if self.stdin_owner.get() != owner || !self.is_running() {
                return;
            }
            changed.await;
        }
    }

    /// The number of bytes of standard input that were not sent to the guest yet.
    pub fn stdin_left(&self) -> u64 {
        let total = self.stdin_total.get();
        total.saturating_sub(self.stdin_taken.get())
    }

    /// Sets the size of standard input, for a client that did not know it at the start. Repeating the same size changes
    /// nothing.
    pub async fn end_stdin(&self, link: &Link, size_bytes: u64) -> Result<(), Failure> {
        let (total, taken) = (self.stdin_total.get(), self.stdin_taken.get());
        if size_bytes < taken || size_bytes > total {
            return Err(Failure::bad_request(format!(
                "standard input of exec {} cannot end at byte {size_bytes}: {taken} were sent, of at most {total}",
                self.start.exec_key
            )));
        }
        let was_open = total > taken;
        self.stdin_total.set(size_bytes);
        let end = Message::StreamEnd(Default::default()).encode(self.id.get());
        if let (true, true, Ok(end)) = (was_open, size_bytes == taken, end)
            && self.is_running()
        {
            link.send_data(end).await;
        }
        Ok(())
    }

    /// Passes standard input to the guest as fast as its window allows; returns false if `owner` was cut. Bytes that
    /// were not passed are not counted, so the next sender sends them again.
    pub async fn feed_stdin(&self, link: &Link, owner: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let changed = self.changed.notified();
            if self.stdin_owner.get() != owner || !self.is_running() {
                return false;
            }
            let count = self
                .state
                .borrow_mut()
                .stdin
                .take(bytes.len().min(MAX_CHUNK_BYTES));
            if count == 0 {
                changed.await;
                continue;
            }
            let (chunk, rest) = bytes.split_at(count);
            let Ok(frame) = encode_data(self.id.get(), chunk) else {
                return false;
            };
            // The bytes are counted first: from here on, the frame is sent, whatever happens to the client.
            self.stdin_taken.set(self.stdin_taken.get() + count as u64);
            link.send_data(frame).await;
            bytes = rest;
            let end = Message::StreamEnd(Default::default()).encode(self.id.get());
            if let (0, Ok(end)) = (self.stdin_left(), end) {
                link.send_data(end).await;
            }
        }
        true
    }
}
