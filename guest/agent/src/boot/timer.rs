//! Whether time passes for those who sleep.
//!
//! Linux measures the CPU's timer against its TSC for 100 ms, once. On an emulated CPU that stops
//! for as long at the wrong moment the figure is nonsense, and the kernel then does without a timer.
//! Nothing of a boot sleeps, so the boot ends; then the first thread that waits for time waits for ever.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::boot_error::BootError;

const NAP: Duration = Duration::from_millis(1);
/// How long it may take, of the time in which this CPU runs.
const LIMIT: Duration = Duration::from_secs(3);
/// More than this between two looks is a CPU that stood still, not a nap that lasts.
const STEP: Duration = Duration::from_millis(10);
const STACK_BYTES: usize = 64 << 10;

/// Fails in a guest whose sleeping threads do not wake up; its keeper boots another.
pub fn check() -> Result<(), BootError> {
    let ends = ends_within(LIMIT, || thread::sleep(NAP))
        .map_err(|error| BootError::at("trying the timer", error))?;
    match ends {
        true => Ok(()),
        false => Err(BootError::at(
            "sleeping for a millisecond",
            io::Error::from(io::ErrorKind::TimedOut),
        )),
    }
}

/// False when `nap` takes longer. Looks without sleeping.
fn ends_within(limit: Duration, nap: impl FnOnce() + Send + 'static) -> io::Result<bool> {
    let napper = thread::Builder::new()
        .name("timer".into())
        .stack_size(STACK_BYTES)
        .spawn(nap)?;
    let mut left = limit;
    let mut last = Instant::now();
    while !napper.is_finished() {
        if left.is_zero() {
            return Ok(false);
        }
        thread::yield_now();
        let now = Instant::now();
        left = left.saturating_sub((now - last).min(STEP));
        last = now;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nap_that_ends_is_told_from_one_that_does_not() {
        assert!(ends_within(Duration::from_secs(20), || thread::sleep(NAP)).unwrap());
        let never = || loop {
            thread::park();
        };
        assert!(!ends_within(Duration::from_millis(50), never).unwrap());
    }
}
