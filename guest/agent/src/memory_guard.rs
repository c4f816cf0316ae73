//! Ends a livelock of the users' memory in which the kernel kills no process. Memory is full of pages that cannot be
//! dropped, and programs' last pages are read from the disk again and again. The kernel counts each read as progress,
//! so a command would hang until its deadline.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::cgroup::MemoryStat;
use crate::guest::Guest;
use crate::log;

const INTERVAL: Duration = Duration::from_secs(1);
/// The number of consecutive intervals after which a process is killed.
const LIVELOCK_INTERVALS: u32 = 5;
/// The kernel drops file pages before it kills, so in a livelock, files have less than this part of the memory. A
/// program that reads long files again and again also fills the memory, but files have most of it.
const FILES_PART: u64 = 64;
/// The number of pages that are read again in an interval, for each file page in memory.
const READS_OF_A_PAGE: u64 = 4;
/// If an interval has fewer reads, the command still runs.
const READS_MIN: u64 = 256;
/// If programs wait for their own pages less often in an interval, a program runs and reads files.
const MAJOR_FAULTS_MIN: u64 = 32;
const PAGE_BYTES: u64 = 4096;

/// Watches the users' memory until the guest ends.
pub fn start(guest: &Arc<Guest>) {
    let guest = guest.clone();
    let watch = move || {
        let Some(cgroup) = &guest.cgroup else { return };
        let mut guard = Guard::default();
        loop {
            thread::sleep(INTERVAL);
            if guard.sees_livelock(cgroup.full_memory())
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
    last: Option<MemoryStat>,
    intervals: u32,
}

impl Guard {
    /// Returns true if the livelock has lasted long enough, and then starts to count again. `stat` is present if memory
    /// is full.
    fn sees_livelock(&mut self, stat: Option<MemoryStat>) -> bool {
        let is_stuck = match (&self.last, &stat) {
            (Some(last), Some(stat)) => is_stuck(last, stat),
            _ => false,
        };
        self.last = stat;
        self.intervals = if is_stuck { self.intervals + 1 } else { 0 };
        if self.intervals < LIVELOCK_INTERVALS {
            return false;
        }
        self.intervals = 0;
        true
    }
}

/// Returns true if programs spent an interval mostly on waiting for pages, because memory holds too few.
fn is_stuck(last: &MemoryStat, stat: &MemoryStat) -> bool {
    let held_pages = stat.file_bytes / PAGE_BYTES;
    let reads = stat.refaults.saturating_sub(last.refaults);
    let faults = stat.major_faults.saturating_sub(last.major_faults);
    stat.file_bytes < stat.limit_bytes / FILES_PART
        && reads >= READS_MIN.max(held_pages.saturating_mul(READS_OF_A_PAGE))
        && faults >= MAJOR_FAULTS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_BYTES: u64 = 162_586_624;

    /// Judges samples of a full memory: refaults and major faults since the boot, and bytes of files.
    fn judge(samples: impl IntoIterator<Item = (u64, u64, u64)>) -> Vec<bool> {
        let mut guard = Guard::default();
        samples
            .into_iter()
            .map(|(refaults, major_faults, file_bytes)| {
                guard.sees_livelock(Some(MemoryStat {
                    limit_bytes: LIMIT_BYTES,
                    refaults,
                    major_faults,
                    file_bytes,
                }))
            })
            .collect()
    }

    #[test]
    fn five_intervals_in_which_the_held_pages_are_read_again_are_a_livelock() {
        // Samples of a guest of 256 MiB with `tail /dev/zero`, every two seconds.
        let samples = [
            (3_354, 143, 249_856),
            (13_778, 682, 94_208),
            (20_213, 1_071, 94_208),
            (31_268, 1_741, 94_208),
            (45_970, 2_633, 36_864),
            (58_180, 3_373, 32_768),
        ];
        assert_eq!(judge(samples), [false, false, false, false, false, true]);
    }

    #[test]
    fn the_least_figures_of_a_livelock_count_and_one_less_of_each_does_not() {
        let last_of = |reads: u64, faults: u64, file_bytes: u64| {
            judge((0..6).map(|second| (second * reads, second * faults, file_bytes)))[5]
        };
        let most_bytes = LIMIT_BYTES / FILES_PART - 1;
        let most_reads = most_bytes / PAGE_BYTES * READS_OF_A_PAGE;
        assert!(last_of(READS_MIN, MAJOR_FAULTS_MIN, 94_208));
        assert!(!last_of(READS_MIN - 1, MAJOR_FAULTS_MIN, 94_208));
        assert!(!last_of(READS_MIN, MAJOR_FAULTS_MIN - 1, 94_208));
        assert!(last_of(most_reads, MAJOR_FAULTS_MIN, most_bytes));
        assert!(!last_of(most_reads - 1, MAJOR_FAULTS_MIN, most_bytes));
        assert!(!last_of(u64::MAX >> 8, MAJOR_FAULTS_MIN, most_bytes + 1));
    }

    #[test]
    fn the_count_begins_again_after_a_kill() {
        let verdicts = judge((0..12).map(|second| (second * 5_000, second * 400, 94_208)));
        let kills: Vec<usize> = verdicts
            .iter()
            .enumerate()
            .filter_map(|(at, is_kill)| is_kill.then_some(at))
            .collect();
        assert_eq!(kills, [5, 10]);
    }

    #[test]
    fn a_program_that_reads_a_long_file_again_and_again_is_no_livelock() {
        // A program reads two gigabytes each second, and memory holds 140 MiB of the files.
        let verdicts = judge((0..20).map(|second| (second * 500_000, second * 400, 140 << 20)));
        assert!(!verdicts.contains(&true));
    }

    #[test]
    fn a_program_that_reads_by_calls_beside_a_full_memory_is_no_livelock() {
        let verdicts = judge((0..20).map(|second| (second * 5_000, second, 94_208)));
        assert!(!verdicts.contains(&true));
    }

    #[test]
    fn a_full_memory_in_which_nothing_is_read_is_no_livelock() {
        assert!(!judge([(100_000, 900, 94_208); 20]).contains(&true));
    }

    #[test]
    fn an_interval_with_room_ends_the_count() {
        let mut guard = Guard::default();
        let kills = (0..40)
            .filter(|second| {
                let stat = (second % 5 != 4).then_some(MemoryStat {
                    limit_bytes: LIMIT_BYTES,
                    refaults: second * 5_000,
                    major_faults: second * 400,
                    file_bytes: 94_208,
                });
                guard.sees_livelock(stat)
            })
            .count();
        assert_eq!(kills, 0);
    }
}
