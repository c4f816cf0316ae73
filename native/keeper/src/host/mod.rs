//! Facts of the host: the speed of its TSC, its CPU, the kind of its KVM, its memory, its networks.

use std::io;
use std::time::{Duration, Instant};

use serde::Serialize;

mod cpu;
mod kvm_probe;
pub mod routes;

pub use cpu::HostCpu;
pub use kvm_probe::{KvmKind, probe_kvm};

/// The answer of `voidbox-vm host`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostReport {
    /// Present if it was asked for: measuring it takes 50 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tsc_khz: Option<u64>,
    pub kvm: KvmKind,
    pub memory_total_bytes: u64,
    pub memory_available_bytes: u64,
}

impl HostReport {
    pub fn read(with_tsc: bool) -> io::Result<Self> {
        let (memory_total_bytes, memory_available_bytes) = memory()?;
        Ok(Self {
            tsc_khz: with_tsc.then(measure_tsc_khz),
            kvm: probe_kvm()?,
            memory_total_bytes,
            memory_available_bytes,
        })
    }
}

/// The number of readings of a moment; the best one is used.
const READINGS: usize = 16;

/// Measures ticks of the TSC per millisecond, counted over 50 ms. With a wrong figure, a guest's time would run fast or
/// slow.
pub fn measure_tsc_khz() -> u64 {
    let (start, first) = read_both();
    std::thread::sleep(Duration::from_millis(50));
    let (end, last) = read_both();
    let ticks = u128::from(last.wrapping_sub(first));
    u64::try_from(ticks * 1_000_000 / (end - start).as_nanos().max(1)).unwrap_or(0)
}

/// Reads one moment from the clock and from the TSC.
fn read_both() -> (Instant, u64) {
    let readings = std::iter::repeat_with(|| (read_tsc(), Instant::now(), read_tsc()));
    closest(readings.take(READINGS)).expect("there are readings")
}

/// Chooses the shortest of the readings: the clock between two reads of the TSC. On a busy machine, another process may
/// interrupt a reading for as long as the measurement lasts.
fn closest(readings: impl Iterator<Item = (u64, Instant, u64)>) -> Option<(Instant, u64)> {
    let (before, at, after) =
        readings.min_by_key(|(before, _, after)| after.wrapping_sub(*before))?;
    let middle = before.wrapping_add(after.wrapping_sub(before) / 2);
    Some((at, middle))
}

/// Facts about the host's TSC, for guests that use it.
#[derive(Debug, Clone, Copy)]
pub struct HostTsc {
    pub khz: u64,
    /// Whether the host's own clock uses the TSC: its kernel found it steady, and equal on all CPUs.
    pub trusted: bool,
}

impl HostTsc {
    /// Measures for 50 ms on another thread.
    pub async fn measure() -> Self {
        let measured = tokio::task::spawn_blocking(measure_tsc_khz).await;
        Self {
            khz: measured.unwrap_or(0),
            trusted: Self::is_trusted(),
        }
    }

    pub fn is_trusted() -> bool {
        let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        std::fs::read_to_string(clock).is_ok_and(|name| name.trim() == "tsc")
    }
}

fn read_tsc() -> u64 {
    // SAFETY: rdtsc has no preconditions; user space may execute it on Linux.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Returns total and available bytes of memory: the machine's, limited by this process's cgroup.
fn memory() -> io::Result<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let field = |name: &str| {
        text.lines()
            .find_map(|line| {
                line.strip_prefix(name)?
                    .trim()
                    .strip_suffix("kB")?
                    .trim()
                    .parse::<u64>()
                    .ok()
            })
            .map(|kib| kib * 1024)
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("/proc/meminfo has no {name}"),
                )
            })
    };
    Ok((field("MemTotal:")?, field("MemAvailable:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tsc_is_measured_alike_twice() {
        let (one, two) = (measure_tsc_khz(), measure_tsc_khz());
        assert!(one > 100_000, "{one} kHz");
        assert!(one.abs_diff(two) < one / 50, "{one} and {two} kHz");
    }

    #[test]
    fn a_reading_in_which_the_machine_did_something_else_counts_for_nothing() {
        let now = Instant::now();
        let late = now + Duration::from_millis(50);
        let readings = [
            (1_000, now, 900_000_000),
            (2_000, late, 2_010),
            (3_000, now, 3_900),
        ];
        assert_eq!(closest(readings.into_iter()), Some((late, 2_005)));
    }

    #[test]
    fn memory_is_read() {
        let (total, available) = memory().unwrap();
        assert!(available > 0 && available <= total);
    }
}
