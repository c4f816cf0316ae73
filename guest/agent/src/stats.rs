//! Stats: the guest's figures.

use voidbox_protocol::body::StatsResponse;

use crate::cgroup::CgroupParent;
use crate::guest::Guest;
use crate::procfs::Meminfo;

/// Reads the figures; a figure that the guest cannot read is 0.
pub fn stats(guest: &Guest) -> StatsResponse {
    let meminfo = Meminfo::read();
    let cgroup = guest.cgroup.as_ref();
    let disk = guest.disk();
    StatsResponse {
        memory_total_bytes: meminfo.bytes("MemTotal"),
        memory_available_bytes: meminfo.bytes("MemAvailable"),
        disk_free_bytes: rustix::fs::statvfs(disk).map_or(0, |stat| stat.f_bavail * stat.f_frsize),
        processes: cgroup.map_or(0, CgroupParent::processes),
        oom_kills: cgroup.map_or(0, CgroupParent::oom_kills),
    }
}
