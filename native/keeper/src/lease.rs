//! The lease: a VM whose lease expires is an orphan. A retained VM has a fixed end instead, which no renewal moves.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The longest time for which a VM is retained.
pub const LONGEST_RETENTION: Duration = Duration::from_secs(60 * 60);

#[derive(Debug)]
pub struct Lease {
    length: Duration,
    ends: Cell<Instant>,
    retained: Cell<bool>,
    moved: Notify,
}

impl Lease {
    pub fn new(length: Duration) -> Self {
        Self {
            length,
            ends: Cell::new(Instant::now() + length),
            retained: Cell::new(false),
            moved: Notify::new(),
        }
    }

    /// Renews the lease; does nothing for a retained VM.
    pub fn renew(&self) {
        if !self.retained.get() {
            self.ends.set(Instant::now() + self.length);
        }
    }

    /// Sets the rest of the VM's life to `length`, which no renewal changes. Only the first call counts.
    pub fn retain(&self, length: Duration) {
        if self.retained.replace(true) {
            return;
        }
        self.ends
            .set(Instant::now() + length.min(LONGEST_RETENTION));
        // The new end may be earlier than the one for which `expired` sleeps.
        self.moved.notify_one();
    }

    pub fn is_retained(&self) -> bool {
        self.retained.get()
    }

    /// Renews the lease while this future is polled; never returns.
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

    /// Returns once the lease has expired. It sleeps until the end and then checks again, so that a renewal costs
    /// nothing.
    pub async fn expired(&self) {
        while Instant::now() < self.ends.get() {
            tokio::select! {
                () = tokio::time::sleep_until(self.ends.get()) => {}
                () = self.moved.notified() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep, timeout};

    use super::{LONGEST_RETENTION, Lease};

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn renewals_do_not_extend_a_retained_vm() {
        let lease = Lease::new(15 * MINUTE);
        let began = Instant::now();
        let renewed = async {
            sleep(MINUTE).await;
            lease.retain(2 * MINUTE);
            assert!(lease.is_retained());
            loop {
                sleep(Duration::from_secs(10)).await;
                lease.renew();
                // Only the first call counts.
                lease.retain(30 * MINUTE);
            }
        };
        tokio::select! {
            () = lease.expired() => {}
            () = renewed => {}
        }
        assert_eq!(began.elapsed().as_secs(), 180);
    }

    #[tokio::test(start_paused = true)]
    async fn a_vm_is_retained_for_an_hour_at_most() {
        let lease = Lease::new(MINUTE);
        lease.retain(u32::MAX * MINUTE);
        assert_eq!(u128::from(lease.left_ms()), LONGEST_RETENTION.as_millis());
        let almost = LONGEST_RETENTION - Duration::from_secs(1);
        assert!(timeout(almost, lease.expired()).await.is_err());
        let rest = Duration::from_secs(2);
        assert!(timeout(rest, lease.expired()).await.is_ok());
    }
}
