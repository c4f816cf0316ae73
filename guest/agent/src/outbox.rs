//! Queues frames for the connection: control frames precede data frames.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::lock::lock;

/// The limit of queued data bytes; at the limit, senders block.
const DATA_QUEUE_BYTES: usize = 1 << 20;
/// The limit of queued control bytes.
const CONTROL_QUEUE_BYTES: usize = 4 << 20;

/// The connection is over; later frames are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

#[derive(Default)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Queue {
    /// Returns true if the frame keeps the queue within the bound, or if the queue is empty.
    fn fits(&self, length: usize, bound: usize) -> bool {
        self.bytes == 0 || self.bytes + length <= bound
    }

    fn push(&mut self, frame: Vec<u8>) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }
}

#[derive(Default)]
struct State {
    control: Queue,
    data: Queue,
    closed: bool,
}

/// Two queues of encoded frames with one writer.
#[derive(Default)]
pub struct Outbox {
    state: Mutex<State>,
    changed: Condvar,
}

impl Outbox {
    /// Queues a frame ahead of all data. Blocks while the control queue is full.
    pub fn send_ahead(&self, frame: Vec<u8>) -> Result<(), Closed> {
        self.send(frame, |state| &mut state.control, CONTROL_QUEUE_BYTES)
    }

    /// Queues a frame after the data that was sent before it: data frames, and frames that mean "no more data". Blocks
    /// while the data queue is full.
    pub fn send_behind(&self, frame: Vec<u8>) -> Result<(), Closed> {
        self.send(frame, |state| &mut state.data, DATA_QUEUE_BYTES)
    }

    fn send(
        &self,
        frame: Vec<u8>,
        queue: fn(&mut State) -> &mut Queue,
        bound: usize,
    ) -> Result<(), Closed> {
        let mut state = lock(&self.state);
        while !state.closed && !queue(&mut state).fits(frame.len(), bound) {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return Err(Closed);
        }
        queue(&mut state).push(frame);
        self.changed.notify_all();
        Ok(())
    }

    /// Ends the connection for all senders, and drops queued frames.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        self.changed.notify_all();
    }

    /// Writes queued frames until the outbox is closed. A failed write closes it.
    pub fn write_to(&self, writer: &mut impl Write) -> io::Result<()> {
        while let Some(frame) = self.next() {
            if let Err(error) = writer.write_all(&frame) {
                self.close();
                return Err(error);
            }
        }
        Ok(())
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return None;
            }
            let frame = state.control.pop().or_else(|| state.data.pop());
            if let Some(frame) = frame {
                self.changed.notify_all();
                return Some(frame);
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    /// Accepts bytes, and closes the outbox after `left` frames.
    struct Sink(Arc<Outbox>, usize, Vec<u8>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.2.extend_from_slice(bytes);
            self.1 -= 1;
            if self.1 == 0 {
                self.0.close();
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn control_goes_ahead_of_data() {
        let outbox = Arc::new(Outbox::default());
        outbox.send_behind(b"d1".to_vec()).unwrap();
        outbox.send_behind(b"d2".to_vec()).unwrap();
        outbox.send_ahead(b"c1".to_vec()).unwrap();
        let mut sink = Sink(outbox.clone(), 3, Vec::new());
        outbox.write_to(&mut sink).unwrap();
        assert_eq!(sink.2, b"c1d1d2");
    }

    #[test]
    fn a_full_data_queue_blocks_data_alone() {
        let outbox = Arc::new(Outbox::default());
        outbox.send_behind(vec![0; DATA_QUEUE_BYTES]).unwrap();
        let sender = {
            let outbox = outbox.clone();
            thread::spawn(move || outbox.send_behind(b"more".to_vec()))
        };
        thread::sleep(Duration::from_millis(50));
        assert!(!sender.is_finished());
        outbox.send_ahead(b"c".to_vec()).unwrap();
        outbox.close();
        assert_eq!(sender.join().unwrap(), Err(Closed));
    }
}
