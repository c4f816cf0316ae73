//! The balloon, whose size is always zero: the host never asks for memory. The guest reports memory that it does not use,
//! and the host takes that back.

use std::ops::Range;

use crate::virtio::{Device, Failure, Progress, Rings};

const ID: u32 = 5;
/// Pages that the guest gives away, pages that it gets back, and reports. Linux numbers only the queues of the features
/// that it uses, so reports have this place.
const QUEUES: &[u16] = &[QUEUE_SIZE, QUEUE_SIZE, QUEUE_SIZE];
const REPORTS: usize = 2;
/// Linux reports 32 parts at once, and refuses a shorter queue.
const QUEUE_SIZE: u16 = 32;
/// `VIRTIO_BALLOON_F_REPORTING`. Without the feature of poisoned pages, a guest that fills freed pages does not report.
const REPORTING: u64 = 1 << 5;
/// The size that the host wants and the size that the balloon has. Both are zero.
const CONFIG: &[u8] = &[0; 8];
/// The place of the second one, which the guest may write.
const ACTUAL_AT: u64 = 4;

/// Takes back a range of this process's addresses. The guest does not use it, and reads zeros there afterwards.
pub type TakeBack = Box<dyn FnMut(Range<usize>) + Send>;

/// The device.
pub struct Balloon {
    take_back: TakeBack,
}

impl Balloon {
    pub fn new(take_back: TakeBack) -> Self {
        Self { take_back }
    }
}

impl Device for Balloon {
    fn name(&self) -> &str {
        "balloon"
    }

    fn id(&self) -> u32 {
        ID
    }

    fn queues(&self) -> &'static [u16] {
        QUEUES
    }

    fn features(&self) -> u64 {
        REPORTING
    }

    fn config(&self) -> &[u8] {
        CONFIG
    }

    fn write_config(&mut self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        match (offset, data) {
            (ACTUAL_AT, [0, 0, 0, 0]) => Ok(()),
            _ => Err(Failure::new("a balloon that is not empty")),
        }
    }

    fn reset(&mut self) {}

    fn process(&mut self, queue: usize, rings: &mut Rings<'_>) -> Result<Progress, Failure> {
        let memory = rings.memory;
        let Some(chain) = rings.next(queue)? else {
            return Ok(Progress::Idle);
        };
        if queue != REPORTS {
            return Err(Failure::new("pages for a balloon whose size is zero"));
        }
        let parts = chain.writable(memory).left_alone();
        if parts.is_empty() || !chain.readable(memory).is_empty() {
            return Err(Failure::new("a report with other buffers than its parts"));
        }
        for part in parts.slices(0, parts.len() as usize) {
            let address = part.ptr_guard_mut().as_ptr() as usize;
            (self.take_back)(address..address + part.len());
        }
        rings.complete(queue, 0)?;
        // A report may have gigabytes, so other devices have their turn behind each.
        Ok(Progress::More)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use vm_memory::{GuestAddress, GuestMemoryBackend};

    use super::*;
    use crate::virtio::driver::Driver;
    use crate::virtio::registers;

    /// Starts a balloon, and returns the ranges that it takes back, as offsets in the memory.
    fn start() -> (Driver, impl Fn() -> Vec<Range<usize>>) {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let into = taken.clone();
        let take_back = move |range| into.lock().unwrap().push(range);
        let driver = Driver::start(Box::new(Balloon::new(Box::new(take_back))));
        let start = driver.memory.get_host_address(GuestAddress(0)).unwrap() as usize;
        let taken = move || {
            let ranges = std::mem::take(&mut *taken.lock().unwrap());
            let offset = |range: Range<usize>| range.start - start..range.end - start;
            ranges.into_iter().map(offset).collect()
        };
        (driver, taken)
    }

    #[test]
    fn each_part_of_a_report_is_taken_back_and_the_report_returns() {
        let (mut driver, taken) = start();
        let first = usize::try_from(driver.allocate(0)).unwrap();
        let offered = driver.offer(REPORTS, &[], &[4096, 8192]);
        driver.kick(REPORTS);
        assert_eq!(driver.take_used(REPORTS), Some((offered.head, 0)));
        let second = first + 4096;
        assert_eq!(taken(), [first..second, second..second + 8192]);
        assert!(!driver.needs_reset());
    }

    #[test]
    fn one_report_is_handled_in_a_turn() {
        let (mut driver, taken) = start();
        for _ in 0..3 {
            driver.offer(REPORTS, &[], &[4096]);
        }
        for _ in 0..3 {
            assert_eq!(driver.transport.process(REPORTS), Progress::More);
            assert_eq!(taken().len(), 1);
        }
        assert_eq!(driver.transport.process(REPORTS), Progress::Idle);
    }

    #[test]
    fn pages_for_the_balloon_and_reports_of_another_form_fail_it_and_take_nothing() {
        type Offer = fn(&mut Driver) -> usize;
        let cases: [Offer; 4] = [
            |driver| {
                driver.offer(0, &[&[0; 4]], &[]);
                0
            },
            |driver| {
                driver.offer(1, &[&[0; 4]], &[]);
                1
            },
            |driver| {
                driver.offer(REPORTS, &[&[0; 4]], &[]);
                REPORTS
            },
            |driver| {
                driver.offer(REPORTS, &[&[0; 4]], &[4096]);
                REPORTS
            },
        ];
        for offer in cases {
            let (mut driver, taken) = start();
            let queue = offer(&mut driver);
            driver.kick(queue);
            assert!(driver.needs_reset());
            assert_eq!(taken(), []);
            driver.restart();
            driver.offer(REPORTS, &[], &[4096]);
            driver.kick(REPORTS);
            assert_eq!(taken().len(), 1);
        }
    }

    #[test]
    fn a_guest_may_write_only_that_its_balloon_is_empty() {
        let (mut driver, _) = start();
        driver.transport.write(registers::CONFIG + 4, &[0; 4]);
        assert!(!driver.needs_reset());
        for (offset, bytes) in [
            (0, &[0; 4][..]),
            (4, &[1, 0, 0, 0]),
            (4, &[0]),
            (8, &[0; 4]),
        ] {
            driver.transport.write(registers::CONFIG + offset, bytes);
            assert!(driver.needs_reset(), "{offset} {bytes:?}");
            driver.restart();
        }
    }
}
