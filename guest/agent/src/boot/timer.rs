//! Checks that sleeping threads wake up.
//!
//! Linux measures the CPU's timer against its TSC once, for 100 ms. If an emulated CPU is paused for as long during the
//! measurement, the result is wrong, and the kernel then uses no timer. The boot still ends, because no step of it
//! sleeps. The first thread that sleeps then waits for ever.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::boot_error::BootError;

const NAP: Duration = Duration::from_millis(1);
/// The limit of the check, in time during which this CPU runs.
const LIMIT: Duration = Duration::from_secs(3);
/// The most time that counts between two checks, because a longer interval means that the CPU was paused.
const STEP: Duration = Duration::from_millis(10);
const STACK_BYTES: usize = 64 << 10;

/// Returns an error in a guest whose sleeping threads do not wake up; its keeper then boots another one.
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

/// Returns false if `nap` takes longer. Checks without sleeping.
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
