//! The order in which the bytes of an exec's two outputs arrived, for readers of both.

use voidbox_protocol::message::Stream;

/// The number of changes between the outputs that the keeper stores. Later bytes keep only the order of their output.
const MAX_RUNS: usize = 128 * 1024;

/// Bytes of one output that arrived before any byte of the other.
#[derive(Debug, Clone, Copy)]
struct Run {
    is_stderr: bool,
    /// The offset after its last byte, in that output.
    end: u64,
}

#[derive(Debug, Default)]
pub struct Order {
    runs: Vec<Run>,
}

/// A reader's position: the next byte of each output.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub stdout: u64,
    pub stderr: u64,
    /// The first run that may have bytes for this reader.
    run: usize,
}

impl Place {
    pub fn new(stdout: u64, stderr: u64) -> Self {
        Self {
            stdout,
            stderr,
            run: 0,
        }
    }

    pub fn at(&self, stream: Stream) -> u64 {
        match stream {
            Stream::Stderr => self.stderr,
            _ => self.stdout,
        }
    }

    pub fn advance(&mut self, stream: Stream, bytes: u64) {
        match stream {
            Stream::Stderr => self.stderr += bytes,
            _ => self.stdout += bytes,
        }
    }
}

impl Order {
    /// Records that the output has bytes up to `end`.
    pub fn push(&mut self, stream: Stream, end: u64) {
        let is_stderr = stream == Stream::Stderr;
        let has_room = self.runs.len() < MAX_RUNS;
        match self.runs.last_mut() {
            Some(last) if last.is_stderr == is_stderr => last.end = end,
            _ if has_room => self.runs.push(Run { is_stderr, end }),
            _ => {}
        }
    }

    /// Returns true if later bytes have no order.
    pub fn is_full(&self) -> bool {
        self.runs.len() == MAX_RUNS
    }

    /// Returns the output with the next byte for a reader, and the number of its bytes before a byte of the other
    /// output. `None` if the reader has all ordered bytes.
    pub fn next(&self, place: &mut Place) -> Option<(Stream, u64)> {
        while let Some(run) = self.runs.get(place.run) {
            let stream = match run.is_stderr {
                true => Stream::Stderr,
                false => Stream::Stdout,
            };
            let at = place.at(stream);
            if at < run.end {
                return Some((stream, run.end - at));
            }
            // The last run may still grow.
            if place.run + 1 == self.runs.len() {
                return None;
            }
            place.run += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(order: &Order, place: &mut Place) -> Vec<(bool, u64)> {
        std::iter::from_fn(|| {
            let (stream, count) = order.next(place)?;
            place.advance(stream, count);
            Some((stream == Stream::Stderr, count))
        })
        .collect()
    }

    #[test]
    fn a_reader_gets_runs_in_their_order_from_any_place() {
        let mut order = Order::default();
        let mut place = Place::new(0, 0);
        for (stream, end) in [
            (Stream::Stdout, 5),
            (Stream::Stderr, 3),
            (Stream::Stdout, 7),
            (Stream::Stdout, 9),
        ] {
            order.push(stream, end);
        }
        assert_eq!(
            read(&order, &mut place),
            [(false, 5), (true, 3), (false, 4)]
        );
        order.push(Stream::Stdout, 10);
        order.push(Stream::Stderr, 4);
        assert_eq!(read(&order, &mut place), [(false, 1), (true, 1)]);
        assert_eq!(read(&order, &mut place), []);
        let mut later = Place::new(6, 1);
        assert_eq!(read(&order, &mut later), [(true, 2), (false, 4), (true, 1)]);
    }

    #[test]
    fn the_order_of_a_flood_of_changes_is_bounded() {
        let mut order = Order::default();
        for end in 1..=MAX_RUNS as u64 {
            order.push(Stream::Stdout, end);
            order.push(Stream::Stderr, end);
        }
        assert_eq!(order.runs.len(), MAX_RUNS);
        let mut place = Place::new(0, 0);
        assert_eq!(read(&order, &mut place).len(), MAX_RUNS);
    }
}
