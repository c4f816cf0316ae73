//! A source of random numbers: the host's.

use crate::virtio::{Device, Failure, Progress, Rings};

const ID: u32 = 4;
const QUEUE_SIZE: u16 = 64;
/// The limit of bytes for one request; a guest asks again for more.
pub const REQUEST_LIMIT_BYTES: usize = 64 << 10;

/// The device.
pub struct Rng;

impl Device for Rng {
    fn name(&self) -> &str {
        "rng"
    }

    fn id(&self) -> u32 {
        ID
    }

    fn queues(&self) -> &'static [u16] {
        &[QUEUE_SIZE]
    }

    fn features(&self) -> u64 {
        0
    }

    fn config(&self) -> &[u8] {
        &[]
    }

    fn reset(&mut self) {}

    fn process(&mut self, queue: usize, rings: &mut Rings<'_>) -> Result<Progress, Failure> {
        let memory = rings.memory;
        for _ in 0..rings.turn(queue) {
            let Some(chain) = rings.next(queue)? else {
                return Ok(Progress::Idle);
            };
            let buffers = chain.writable(memory);
            if buffers.is_empty() {
                return Err(Failure::new("a request without a buffer to write"));
            }
            let mut written = 0;
            for slice in buffers.slices(0, REQUEST_LIMIT_BYTES) {
                let guard = slice.ptr_guard_mut();
                // SAFETY: the guard points to `slice.len()` bytes of the guest's memory, to which no reference exists.
                let got = unsafe { libc::getrandom(guard.as_ptr().cast(), slice.len(), 0) };
                // A large request may be interrupted; the guest learns how much it got.
                written += u32::try_from(got).unwrap_or(0);
                if usize::try_from(got) != Ok(slice.len()) {
                    break;
                }
            }
            rings.complete(queue, written)?;
        }
        Ok(Progress::More)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtio::driver::Driver;

    #[test]
    fn a_request_is_filled_up_to_the_limit() {
        let mut driver = Driver::start(Box::new(Rng));
        for (length, filled) in [
            (1, 1),
            (4096, 4096),
            (REQUEST_LIMIT_BYTES + 4096, REQUEST_LIMIT_BYTES),
        ] {
            let answer = driver.request(0, &[], length);
            assert_eq!(answer.written as usize, filled);
            if length > 1 {
                let zeros = answer.bytes[..filled].iter().filter(|b| **b == 0).count();
                assert!(zeros < filled / 8, "{zeros} zeros of {filled} bytes");
            }
            assert!(answer.bytes[filled..].iter().all(|byte| *byte == 0));
        }
        assert!(!driver.needs_reset());
    }

    #[test]
    fn a_request_that_it_cannot_fill_fails_the_device_until_a_reset() {
        let mut driver = Driver::start(Box::new(Rng));
        driver.offer(0, &[b"x"], &[]);
        driver.kick(0);
        assert!(driver.needs_reset());
        driver.restart();
        assert_eq!(driver.request(0, &[], 16).written, 16);
    }
}
