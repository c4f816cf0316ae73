//! The lease: a VM whose lease nobody renews is an orphan.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub struct Lease {
    length: Duration,
    ends: Cell<Instant>,
}

impl Lease {
    pub fn new(length: Duration) -> Self {
        Self {
            length,
            ends: Cell::new(Instant::now() + length),
        }
    }

    pub fn renew(&self) {
        self.ends.set(Instant::now() + self.length);
    }

    /// Renews for as long as this is waited for; never returns.
    pub async fn hold(&self) {
        loop {
            self.renew();
            tokio::time::sleep(self.length / 3).await;
        }
    }

    pub fn left_ms(&self) -> u64 {
        let left = self.ends.get().saturating_duration_since(Instant::now());
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns when the lease has run out. Sleeps to its end and looks again, so that a renewal
    /// costs nothing.
    pub async fn expired(&self) {
        while Instant::now() < self.ends.get() {
            tokio::time::sleep_until(self.ends.get()).await;
        }
    }
}
