//! The host's resources that a VM uses, as measured by the host: the guest cannot influence the figures.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

/// The limit of a VMM's processes that are read; a jail has three.
const MAX_PROCESSES: usize = 256;
/// The block size in which every file system reports a file's usage, whatever its own blocks are.
const ACCOUNT_BLOCK_BYTES: u64 = 512;

/// Figures of the VM's whole life; `None` if the host does not report one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The VMM's time on the host's CPUs: the guest's code, and the work of emulating it.
    pub cpu_ms: Option<u64>,
    /// The peak of the VMM's memory, the guest's included.
    pub memory_peak_mib: Option<u64>,
    /// The bytes that the scratch disk uses on the host's disk.
    pub disk_bytes: Option<u64>,
}

impl Usage {
    /// Returns the usage of both together, for processes with the same disk.
    pub fn with(self, other: Self) -> Self {
        let sum = |one: Option<u64>, two: Option<u64>| Some(one?.saturating_add(two.unwrap_or(0)));
        Self {
            cpu_ms: sum(self.cpu_ms, other.cpu_ms),
            memory_peak_mib: sum(self.memory_peak_mib, other.memory_peak_mib),
            ..self
        }
    }
}

/// Returns the usage of the VMM `pid` and all its descendants. It includes the start of an emulator and the jail.
pub fn read(pid: u32, scratch: &Path) -> Usage {
    let processes = process_tree(pid);
    let ticks = rustix::param::clock_ticks_per_second();
    Usage {
        cpu_ms: processes
            .iter()
            .filter_map(|pid| cpu_ticks(&proc_file(*pid, "stat")))
            .reduce(u64::saturating_add)
            .map(|spent| spent.saturating_mul(1000) / ticks),
        // Only one of these processes is large, and their peaks may be at different times, so the largest peak counts.
        memory_peak_mib: processes
            .iter()
            .filter_map(|pid| peak_kib(&proc_file(*pid, "status")))
            .max()
            .map(|kib| kib.div_ceil(1024)),
        disk_bytes: fs::metadata(scratch)
            .ok()
            .map(|file| file.blocks() * ACCOUNT_BLOCK_BYTES),
    }
}

/// Returns the resident memory of a process and all its descendants.
pub fn resident_bytes(pid: u32) -> u64 {
    let pages: u64 = process_tree(pid)
        .into_iter()
        .filter_map(|pid| {
            proc_file(pid, "statm")
                .split(' ')
                .nth(1)?
                .parse::<u64>()
                .ok()
        })
        .sum();
    pages * rustix::param::page_size() as u64
}

/// Returns a process and its descendants, the process itself first.
pub fn process_tree(pid: u32) -> Vec<u32> {
    let mut pids = vec![pid];
    let mut looked_at = 0;
    while looked_at < pids.len() && pids.len() < MAX_PROCESSES {
        let parent = pids[looked_at];
        let children = proc_file(parent, &format!("task/{parent}/children"));
        let children = children
            .split_whitespace()
            .filter_map(|pid| pid.parse::<u32>().ok());
        pids.extend(children.take(MAX_PROCESSES - pids.len()));
        looked_at += 1;
    }
    pids
}

/// Reads a file of a process; returns an empty text if the process has ended.
fn proc_file(pid: u32, name: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default()
}

/// Parses `stat` for ticks in user and kernel mode, of a process and of its children that have ended. The name, which
/// precedes them, may contain any characters.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: Vec<u64> = fields
        .split(' ')
        .skip(11)
        .take(4)
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    (ticks.len() == 4).then(|| ticks.into_iter().fold(0, u64::saturating_add))
}

fn peak_kib(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_a_name_that_looks_like_fields() {
        let stat = "7 (a) R 1 2 3) S 1 7 7 0 -1 4194560 9 8 7 6 150 25 4 1 20 0 1 0";
        assert_eq!(cpu_ticks(stat), Some(180));
        assert_eq!(cpu_ticks("7 (a) S 1 7 7 0 -1 4194560 9 8 7 6 150"), None);
        assert_eq!(cpu_ticks(""), None);
    }

    #[test]
    fn a_peak_is_in_kib() {
        assert_eq!(
            peak_kib("Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t  4100 kB\n"),
            Some(4100)
        );
        assert_eq!(peak_kib("Name:\tx\n"), None);
    }

    #[test]
    fn what_is_gone_is_not_told() {
        assert_eq!(read(u32::MAX, Path::new("/none")), Usage::default());
    }

    #[test]
    fn a_sparse_disk_takes_the_room_of_what_was_written() {
        let folder = crate::run_dir::tests::TempDir::new("usage");
        let path = folder.0.join("disk");
        let disk = fs::File::create(&path).unwrap();
        disk.set_len(64 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&disk, &[7; 256 << 10], 32 << 20).unwrap();
        disk.sync_all().unwrap();
        let usage = read(std::process::id(), &path);
        let disk_bytes = usage.disk_bytes.unwrap();
        assert!((256 << 10..1 << 20).contains(&disk_bytes), "{disk_bytes}");
        assert!(usage.memory_peak_mib.unwrap() > 0);
    }
}
