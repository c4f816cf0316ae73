//! A file in the guest's addresses, as persistent memory that the guest can only read.

use crate::virtio::{Device, Failure, Progress, Rings};

const ID: u32 = 27;
const QUEUE_SIZE: u16 = 64;
/// `VIRTIO_PMEM_REQ_TYPE_FLUSH`, the only request.
const FLUSH: [u8; 4] = [0; 4];
const DONE: i32 = 0;
const FAILED: i32 = -1;

/// The device. KVM maps the file to the guest, so it only tells the place.
pub struct Pmem {
    config: [u8; 16],
}

impl Pmem {
    pub fn new(address: u64, size: u64) -> Self {
        let mut config = [0; 16];
        config[..8].copy_from_slice(&address.to_le_bytes());
        config[8..].copy_from_slice(&size.to_le_bytes());
        Self { config }
    }
}

impl Device for Pmem {
    fn name(&self) -> &str {
        "pmem"
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
        &self.config
    }

    fn keeps_config(&self) -> bool {
        true
    }

    fn reset(&mut self) {}

    fn process(&mut self, queue: usize, rings: &mut Rings<'_>) -> Result<Progress, Failure> {
        let memory = rings.memory;
        for _ in 0..rings.turn(queue) {
            let Some(chain) = rings.next(queue)? else {
                return Ok(Progress::Idle);
            };
            let mut kind = [0xff; 4];
            if !chain.readable(memory).read(0, &mut kind) {
                return Err(Failure::new("a request without its kind"));
            }
            // The guest cannot write the file, so there is nothing to flush.
            let answer = if kind == FLUSH { DONE } else { FAILED };
            if !chain.writable(memory).write(0, &answer.to_le_bytes()) {
                return Err(Failure::new("a request without room for its answer"));
            }
            rings.complete(queue, 4)?;
        }
        Ok(Progress::More)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtio::driver::Driver;
    use crate::virtio::registers;

    fn start() -> Driver {
        Driver::start(Box::new(Pmem::new(0x1_0800_0000, 4 << 20)))
    }

    #[test]
    fn a_guest_learns_the_place_of_the_file() {
        let mut driver = start();
        let mut words = [0; 4];
        for (at, word) in (0..).zip(&mut words) {
            let mut bytes = [0; 4];
            driver
                .transport
                .read(registers::CONFIG + at * 4, &mut bytes);
            *word = u32::from_le_bytes(bytes);
        }
        assert_eq!(words, [0x0800_0000, 1, 4 << 20, 0]);
    }

    #[test]
    fn a_flush_succeeds_and_another_request_fails() {
        let mut driver = start();
        for (kind, answer) in [(0u32, 0i32), (1, -1), (u32::MAX, -1)] {
            let answered = driver.request(0, &[&kind.to_le_bytes()], 4);
            assert_eq!(
                (answered.written, answered.bytes),
                (4, answer.to_le_bytes().to_vec())
            );
        }
        assert!(!driver.needs_reset());
    }

    #[test]
    fn a_request_without_its_parts_fails_the_device_until_a_reset() {
        for (output, input) in [(&[0; 3][..], &[4][..]), (&[0; 4], &[3]), (&[0; 4], &[])] {
            let mut driver = start();
            driver.offer(0, &[output], input);
            driver.kick(0);
            assert!(driver.needs_reset());
            driver.restart();
            assert_eq!(driver.request(0, &[&[0; 4]], 4).bytes, [0; 4]);
        }
    }
}
