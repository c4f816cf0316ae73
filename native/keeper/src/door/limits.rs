//! Counts a VM's use of the door, and compares it with its limits.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::time::Instant;

use crate::egress::Limits;

pub struct Usage {
    pub limits: Limits,
    open: Cell<usize>,
    bytes: Cell<u64>,
    /// The number of new connections that may be opened now, and the time of that count.
    tokens: RefCell<(f64, Instant)>,
}

/// A connection's place in the count.
pub struct Held(Rc<Usage>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
    }
}

impl Usage {
    pub fn new(limits: Limits) -> Self {
        let tokens = f64::from(limits.connections_per_second);
        Self {
            limits,
            open: Cell::new(0),
            bytes: Cell::new(0),
            tokens: RefCell::new((tokens, Instant::now())),
        }
    }

    /// Reserves a place for one more connection; the error names the limit that is reached.
    pub fn take(self: &Rc<Self>) -> Result<Held, String> {
        let limits = &self.limits;
        if self.bytes.get() >= limits.total_bytes {
            return Err(format!(
                "all connections of this VM together have used their limit of {} bytes",
                limits.total_bytes
            ));
        }
        if self.open.get() >= limits.connections {
            return Err(format!(
                "{} connections are open, which is the limit",
                limits.connections
            ));
        }
        if !self.take_token() {
            return Err(format!(
                "more than {} new connections in a second",
                limits.connections_per_second
            ));
        }
        self.open.set(self.open.get() + 1);
        Ok(Held(self.clone()))
    }

    fn take_token(&self) -> bool {
        let mut tokens = self.tokens.borrow_mut();
        let rate = f64::from(self.limits.connections_per_second);
        let now = Instant::now();
        let gained = now.duration_since(tokens.1).as_secs_f64() * rate;
        *tokens = ((tokens.0 + gained).min(rate), now);
        if tokens.0 < 1.0 {
            return false;
        }
        tokens.0 -= 1.0;
        true
    }

    /// Counts bytes that passed; returns false once the limit is exceeded.
    pub fn count(&self, bytes: usize) -> bool {
        self.bytes
            .set(self.bytes.get().saturating_add(bytes as u64));
        self.bytes.get() <= self.limits.total_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn usage(change: impl FnOnce(&mut Limits)) -> Rc<Usage> {
        let mut limits = Limits::default();
        change(&mut limits);
        Rc::new(Usage::new(limits))
    }

    #[tokio::test(start_paused = true)]
    async fn at_most_64_at_once_and_50_in_a_second() {
        let usage = usage(|_| ());
        let mut held: Vec<Held> = (0..50).map(|_| usage.take().unwrap()).collect();
        assert!(
            usage
                .take()
                .err()
                .unwrap()
                .contains("50 new connections in a second")
        );
        tokio::time::advance(Duration::from_secs(1)).await;
        held.extend((0..14).map(|_| usage.take().unwrap()));
        assert!(
            usage
                .take()
                .err()
                .unwrap()
                .contains("64 connections are open")
        );
        held.pop();
        assert!(usage.take().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn no_connection_beyond_the_bytes_of_all() {
        let usage = usage(|limits| limits.total_bytes = 10);
        assert!(usage.count(10));
        assert!(usage.take().err().unwrap().contains("10 bytes"));
        assert!(!usage.count(1));
    }
}
