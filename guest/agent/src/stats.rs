//! Stats: the guest's figures.

use std::fs;
use std::path::Path;

use voidbox_protocol::body::StatsResponse;

use crate::exec::field;
use crate::guest::{Guest, Role};

/// Reads the figures; what the guest can't tell is 0.
pub fn stats(guest: &Guest) -> StatsResponse {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let cgroup_file = |name: &str| {
        guest
            .cgroup
            .as_ref()
            .and_then(|cgroup| fs::read_to_string(cgroup.path().join(name)).ok())
            .unwrap_or_default()
    };
    let disk = match &guest.role {
        Role::Init(storage) => storage.scratch.as_path(),
        Role::Process => Path::new("/tmp"),
    };
    StatsResponse {
        memory_total_bytes: meminfo_bytes(&meminfo, "MemTotal"),
        memory_available_bytes: meminfo_bytes(&meminfo, "MemAvailable"),
        disk_free_bytes: rustix::fs::statvfs(disk).map_or(0, |stat| stat.f_bavail * stat.f_frsize),
        processes: cgroup_file("pids.current").trim().parse().unwrap_or(0),
        oom_kills: field(&cgroup_file("memory.events"), "oom_kill").unwrap_or(0),
    }
}

/// A value of `/proc/meminfo`; 0 when it is not there.
pub fn meminfo_bytes(text: &str, name: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        .map_or(0, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::meminfo_bytes;

    #[test]
    fn meminfo_is_in_kib() {
        let text = "MemTotal:         1024 kB\nMemFree: 1 kB\n";
        assert_eq!(meminfo_bytes(text, "MemTotal"), 1 << 20);
        assert_eq!(meminfo_bytes(text, "MemAvailable"), 0);
    }
}
