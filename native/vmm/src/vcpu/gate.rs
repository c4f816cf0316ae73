//! Whether virtual CPUs may run.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The order to all virtual CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Wanted {
    Run = 0,
    Pause = 1,
    Stop = 2,
}

/// The answer of the gate to a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// It may run.
    Open,
    /// It may run, after a wait.
    Waited,
    /// It must end.
    Closed,
}

/// The place at which virtual CPUs wait.
pub struct Gate {
    wanted: AtomicU8,
    /// The number of CPUs that run.
    running: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    /// Makes a gate for `count` CPUs. They wait until it opens.
    pub fn new(count: usize) -> Self {
        Self {
            wanted: AtomicU8::new(Wanted::Pause as u8),
            running: Mutex::new(count),
            changed: Condvar::new(),
        }
    }

    fn running(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wanted(&self) -> Wanted {
        match self.wanted.load(Ordering::SeqCst) {
            0 => Wanted::Run,
            1 => Wanted::Pause,
            _ => Wanted::Stop,
        }
    }

    /// Says what the CPUs are to do. Nothing follows a stop.
    pub fn want(&self, wanted: Wanted) {
        let _running = self.running();
        if self.wanted() != Wanted::Stop {
            self.wanted.store(wanted as u8, Ordering::SeqCst);
        }
        self.changed.notify_all();
    }

    /// For a CPU: waits until it may run.
    pub fn pass(&self) -> Passage {
        if self.wanted() == Wanted::Run {
            return Passage::Open;
        }
        let mut running = self.running();
        *running -= 1;
        self.changed.notify_all();
        while self.wanted() == Wanted::Pause {
            running = self
                .changed
                .wait(running)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if self.wanted() == Wanted::Stop {
            return Passage::Closed;
        }
        *running += 1;
        Passage::Waited
    }

    /// For a CPU: says that its guest has ended.
    pub fn leave(&self) {
        *self.running() -= 1;
        self.changed.notify_all();
    }

    /// Waits until no CPU runs.
    pub fn wait_until_none_runs(&self) {
        let mut running = self.running();
        while *running > 0 {
            running = self
                .changed
                .wait(running)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn cpus_run_only_while_the_gate_is_open() {
        let gate = Arc::new(Gate::new(2));
        let work = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (gate, work) = (gate.clone(), work.clone());
                std::thread::spawn(move || {
                    while gate.pass() != Passage::Closed {
                        work.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                    }
                })
            })
            .collect();
        gate.wait_until_none_runs();
        assert_eq!(work.load(Ordering::SeqCst), 0);
        for _ in 0..3 {
            let before = work.load(Ordering::SeqCst);
            gate.want(Wanted::Run);
            let limit = Instant::now() + Duration::from_secs(10);
            while work.load(Ordering::SeqCst) == before {
                assert!(Instant::now() < limit);
                std::thread::yield_now();
            }
            gate.want(Wanted::Pause);
            gate.wait_until_none_runs();
            let paused = work.load(Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(5));
            assert_eq!(work.load(Ordering::SeqCst), paused);
        }
        gate.want(Wanted::Stop);
        gate.want(Wanted::Run);
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
