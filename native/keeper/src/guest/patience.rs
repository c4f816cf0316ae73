//! The time limit for a guest that owes an answer. It applies to every exchange except a command's own output and
//! input; a command has its deadline.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

/// The limit is waited for in this many steps: a keeper that was itself stopped loses only one of them, and a pause is
/// noticed after one.
const STEPS: u32 = 20;

/// The deadlines of all exchanges with one guest.
pub struct Patience {
    limit: Duration,
    pauses: Cell<u32>,
}

/// Deadlines are paused until this is dropped.
pub struct Pause(Rc<Patience>);

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.pauses.set(self.0.pauses.get() - 1);
    }
}

impl Patience {
    pub fn new(limit: Duration) -> Rc<Self> {
        Rc::new(Self {
            limit,
            pauses: Cell::new(0),
        })
    }

    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Pauses deadlines while the guest cannot continue for a reason that it did not cause: the host's disk is full.
    pub fn pause(self: &Rc<Self>) -> Pause {
        self.pauses.set(self.pauses.get() + 1);
        Pause(self.clone())
    }

    /// Returns the outcome of `progress`, or `None` if the guest made no progress within the limit. Pauses do not
    /// count.
    pub async fn wait<T>(&self, progress: impl Future<Output = T>) -> Option<T> {
        let step = (self.limit / STEPS).max(Duration::from_millis(1));
        let mut left = self.limit;
        tokio::pin!(progress);
        loop {
            if let Ok(done) = tokio::time::timeout(step.min(left), &mut progress).await {
                return Some(done);
            }
            if self.pauses.get() > 0 {
                continue;
            }
            left = left.saturating_sub(step);
            if left.is_zero() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_ends_at_the_limit_and_progress_comes_through() {
        let patience = Patience::new(Duration::from_secs(100));
        let begin = tokio::time::Instant::now();
        assert!(patience.wait(pending::<()>()).await.is_none());
        assert_eq!(begin.elapsed().as_secs(), 100);
        let late = tokio::time::sleep(Duration::from_secs(99));
        assert!(patience.wait(late).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_does_not_count() {
        let patience = Patience::new(Duration::from_secs(100));
        let begin = tokio::time::Instant::now();
        let first = patience.pause();
        let second = patience.pause();
        let silent = patience.wait(pending::<()>());
        let resumed = async {
            tokio::time::sleep(Duration::from_secs(500)).await;
            drop(first);
            tokio::time::sleep(Duration::from_secs(500)).await;
            drop(second);
            pending::<()>().await;
        };
        tokio::select! {
            ended = silent => assert!(ended.is_none()),
            () = resumed => unreachable!(),
        }
        assert!(
            (1_090..1_110).contains(&begin.elapsed().as_secs()),
            "{:?}",
            begin.elapsed()
        );
    }
}
