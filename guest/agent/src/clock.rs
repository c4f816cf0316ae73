//! Clock: the guest's time of day. Only the keeper can move it, because only PID 1 has opened its port.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use voidbox_protocol::body::{Clock, ClockResponse};

use crate::boot::set_clock;
use crate::failure::Failure;
use crate::guest::{Guest, Role};

/// The beginning of the year 2000. A host with an earlier time has not set its clock yet.
const EARLIEST_UNIX_MS: u64 = 946_684_800_000;
/// The beginning of the year 2200, some years before the kernel's own limit.
const LATEST_UNIX_MS: u64 = 7_258_118_400_000;

/// The total by which a process under test would have moved the clock. It must not change the machine's clock.
static PRETENDED_MS: AtomicI64 = AtomicI64::new(0);

/// Moves the clock on request, and returns its new time.
pub fn clock(guest: &Guest, wanted: Clock) -> Result<ClockResponse, Failure> {
    let unix_ms = match wanted.step_ms {
        Some(step_ms) => step(guest, step_ms)?,
        None => now_ms(),
    };
    Ok(ClockResponse { unix_ms })
}

fn step(guest: &Guest, step_ms: i64) -> Result<u64, Failure> {
    let unix_ms = stepped(now_ms(), step_ms)?;
    match guest.role {
        Role::Init(_) => {
            set_clock(unix_ms).map_err(|error| Failure::io("setting the clock", error))?;
        }
        Role::Process => {
            PRETENDED_MS.fetch_add(step_ms, Ordering::Relaxed);
        }
    }
    Ok(unix_ms)
}

fn now_ms() -> u64 {
    // A time before 1970 counts as 1970; both are equally wrong.
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
    now_ms.saturating_add_signed(PRETENDED_MS.load(Ordering::Relaxed))
}

fn stepped(unix_ms: u64, step_ms: i64) -> Result<u64, Failure> {
    unix_ms
        .checked_add_signed(step_ms)
        .filter(|target| (EARLIEST_UNIX_MS..LATEST_UNIX_MS).contains(target))
        .ok_or_else(|| {
            Failure::bad_request(format!(
                "the clock is at {unix_ms} ms; a move by {step_ms} ms ends outside the years 2000 to 2200"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    #[test]
    fn it_moves_both_ways_within_its_years() {
        assert_eq!(stepped(NOW, 4_000).unwrap(), NOW + 4_000);
        assert_eq!(stepped(NOW, -4_000).unwrap(), NOW - 4_000);
        assert_eq!(
            stepped(0, i64::try_from(NOW).unwrap()).unwrap(),
            NOW,
            "a guest whose host had no time at the boot"
        );
        assert!(stepped(EARLIEST_UNIX_MS, 0).is_ok());
        for (from, by) in [
            (EARLIEST_UNIX_MS, -1),
            (LATEST_UNIX_MS - 1, 1),
            (NOW, i64::MAX),
            (NOW, i64::MIN),
            (u64::MAX, 1),
        ] {
            let refused = stepped(from, by).unwrap_err();
            assert!(refused.message.contains("2200"), "{refused}");
        }
    }
}
