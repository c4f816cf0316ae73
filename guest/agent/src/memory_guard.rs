//! Ends a livelock of the users' memory, in which the kernel kills no process: memory is full of what has no other
//! place, and the last pages of programs are read from the disk again and again. Each page that is read counts as
//! progress for the kernel, so a command would stand still until its deadline.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::cgroup::MemoryStat;
use crate::guest::Guest;
use crate::log;

const INTERVAL: Duration = Duration::from_secs(1);
/// Intervals in a row after which a process is killed.
const LIVELOCK_INTERVALS: u32 = 5;
/// Pages that are read again in an interval, for each page of files that memory holds.
const READS_OF_A_PAGE: u64 = 4;
/// Fewer reads in an interval are those of a command that still runs.
const READS_MIN: u64 = 256;
const PAGE_BYTES: u64 = 4096;

/// Watches the users' memory until the guest ends.
pub fn start(guest: &Arc<Guest>) {
    let guest = guest.clone();
    let watch = move || {
        let Some(cgroup) = &guest.cgroup else { return };
        let mut guard = Guard::default();
        loop {
            thread::sleep(INTERVAL);
            // A guest that has room reads one short file in an interval.
            let stat = cgroup.is_full().then(|| cgroup.memory_stat());
            if guard.sees_livelock(stat)
                && let Some(killed) = cgroup.kill_largest()
            {
                log::line(&format!(
                    "process {} was killed: memory was full, and nothing ran",
                    killed.as_raw_nonzero()
                ));
            }
        }
    };
    if let Err(error) = thread::Builder::new().name("memory".into()).spawn(watch) {
        log::line(&format!("the guard of the memory can't start: {error}"));
    }
}

/// Counts the intervals of a livelock.
#[derive(Default)]
struct Guard {
    last_refaults: Option<u64>,
    intervals: u32,
}

impl Guard {
    /// True when the livelock has lasted long enough; the count begins again. `stat` is there if memory is full.
    fn sees_livelock(&mut self, stat: Option<MemoryStat>) -> bool {
        let Some(stat) = stat else {
            *self = Self::default();
            return false;
        };
        let reads = self
            .last_refaults
            .map_or(0, |last| stat.refaults.saturating_sub(last));
        self.last_refaults = Some(stat.refaults);
        let held_pages = stat.file_bytes / PAGE_BYTES;
        if reads < READS_MIN.max(held_pages.saturating_mul(READS_OF_A_PAGE)) {
            self.intervals = 0;
            return false;
        }
        self.intervals += 1;
        if self.intervals < LIVELOCK_INTERVALS {
            return false;
        }
        self.intervals = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdicts on samples of a full memory: refaults since the boot, and bytes of files.
    fn judge(samples: &[(u64, u64)]) -> Vec<bool> {
        let mut guard = Guard::default();
        samples
            .iter()
            .map(|&(refaults, file_bytes)| {
                guard.sees_livelock(Some(MemoryStat {
                    refaults,
                    file_bytes,
                }))
            })
            .collect()
    }

    #[test]
    fn five_intervals_in_which_the_held_pages_are_read_again_are_a_livelock() {
        // What a guest of 256 MiB with `tail /dev/zero` showed.
        let samples = [
            (3_354, 249_856),
            (8_500, 94_208),
            (13_778, 94_208),
            (17_000, 94_208),
            (20_213, 36_864),
            (25_700, 32_768),
        ];
        assert_eq!(judge(&samples), [false, false, false, false, false, true]);
    }

    #[test]
    fn the_count_begins_again_after_a_kill() {
        let samples: Vec<(u64, u64)> = (0..12).map(|second| (second * 5_000, 94_208)).collect();
        let kills: Vec<usize> = judge(&samples)
            .iter()
            .enumerate()
            .filter_map(|(at, is_kill)| is_kill.then_some(at))
            .collect();
        assert_eq!(kills, [5, 10]);
    }

    #[test]
    fn a_full_memory_whose_files_are_read_once_is_no_livelock() {
        // A program that reads a long file again and again, with 40 MiB of it in memory.
        let samples: Vec<(u64, u64)> = (0..20).map(|second| (second * 5_000, 40 << 20)).collect();
        assert!(!judge(&samples).contains(&true));
    }

    #[test]
    fn a_full_memory_in_which_nothing_is_read_is_no_livelock() {
        let samples = [(100_000, 94_208); 20];
        assert!(!judge(&samples).contains(&true));
    }

    #[test]
    fn an_interval_with_room_ends_the_count() {
        let mut guard = Guard::default();
        let mut kills = 0;
        for second in 0..40 {
            let stat = (second % 5 != 4).then_some(MemoryStat {
                refaults: second * 5_000,
                file_bytes: 94_208,
            });
            kills += u32::from(guard.sees_livelock(stat));
        }
        assert_eq!(kills, 0);
    }
}
