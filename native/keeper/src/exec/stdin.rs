//! An exec's standard input: one client at a time feeds it, and every byte is counted.

use voidbox_protocol::frame::MAX_CHUNK_BYTES;
use voidbox_protocol::message::{Message, encode_data};

use super::Exec;
use crate::error::Failure;
use crate::guest::link::Link;

impl Exec {
    /// Makes the caller the one that feeds standard input: its token, and where to go on from.
    pub fn own_stdin(&self) -> (u64, u64) {
        self.cut_stdin();
        (self.stdin_owner.get(), self.stdin_taken.get())
    }

    /// Ends whoever feeds standard input.
    pub fn cut_stdin(&self) {
        self.stdin_owner.set(self.stdin_owner.get() + 1);
        self.changed.notify_waiters();
    }

    /// Returns when `owner` may not feed standard input any more.
    pub async fn stdin_cut(&self, owner: u64) {
        loop {
            let changed = self.changed.notified();
            if self.stdin_owner.get() != owner || !self.is_running() {
                return;
            }
            changed.await;
        }
    }

    /// Bytes of standard input that are still to come.
    pub fn stdin_left(&self) -> u64 {
        let total = self.stdin_total.get();
        total.saturating_sub(self.stdin_taken.get())
    }

    /// Says how long standard input is, for a client that did not know it at the start. The same
    /// length said again changes nothing.
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

    /// Hands standard input to the guest as fast as its window lets; false when `owner` was cut.
    /// What was not handed over is not counted, so the next one sends it again.
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
            // Counted first: from here on the frame goes out, whatever becomes of the client.
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
