//! The cgroup of all user processes, so that they can fill only their share of the guest.

use std::fs;
use std::path::Path;

use rustix::mount::{MountFlags, mount};

use super::boot_error::BootError;
use crate::cgroup::CgroupParent;
use crate::procfs::{self, Meminfo};

const ROOT: &str = "/sys/fs/cgroup";
/// The least memory that user processes never get: the kernel's and the agent's own.
const RESERVE_MIN_BYTES: u64 = 24 << 20;
/// The memory that stays available when users have used all of theirs.
const HEADROOM_BYTES: u64 = 12 << 20;
/// The limit of users' processes and threads, whatever the memory.
const MAX_PIDS: u64 = 4096;

/// Mounts cgroup v2 and makes the users' cgroup with its limits.
pub fn set_up() -> Result<CgroupParent, BootError> {
    let root = Path::new(ROOT);
    let user = root.join("user");
    let flags = MountFlags::NOSUID
        .union(MountFlags::NODEV)
        .union(MountFlags::NOEXEC);
    mount("cgroup2", root, "cgroup2", flags, c"")
        .map_err(|error| BootError::at("mounting cgroup v2", error))?;
    write(&root.join("cgroup.subtree_control"), "+memory +pids")?;
    fs::create_dir(&user).map_err(|error| BootError::at("making the users' cgroup", error))?;
    write(&user.join("cgroup.subtree_control"), "+memory +pids")?;
    let meminfo = Meminfo::read();
    let memory_bytes = user_memory_bytes(meminfo.bytes("MemTotal"), meminfo.bytes("MemAvailable"));
    write(&user.join("memory.max"), &memory_bytes.to_string())?;
    let pids = user_pids(procfs::threads_max().unwrap_or(MAX_PIDS));
    write(&user.join("pids.max"), &pids.to_string())?;
    Ok(CgroupParent::new(user))
}

fn write(path: &Path, value: &str) -> Result<(), BootError> {
    fs::write(path, value)
        .map_err(|error| BootError::at(format!("writing {value:?} to {}", path.display()), error))
}

/// Returns the guest's memory less a tenth, or less 24 MiB if that is more. It is at most the available memory less the
/// headroom, so that users reach their limit before the whole guest runs out.
fn user_memory_bytes(total_bytes: u64, available_bytes: u64) -> u64 {
    let share = total_bytes.saturating_sub(RESERVE_MIN_BYTES.max(total_bytes / 10));
    share.min(available_bytes.saturating_sub(HEADROOM_BYTES))
}

/// Returns half of the threads that the kernel allows.
fn user_pids(threads_max: u64) -> u64 {
    (threads_max / 2).clamp(16, MAX_PIDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_guest_keeps_24_mib_and_a_large_one_a_tenth() {
        assert_eq!(user_memory_bytes(128 << 20, 128 << 20), 104 << 20);
        assert_eq!(user_memory_bytes(1000 << 20, 990 << 20), 900 << 20);
        assert_eq!(user_memory_bytes(1 << 20, 1 << 20), 0);
    }

    #[test]
    fn users_never_get_what_is_taken_already() {
        assert_eq!(user_memory_bytes(85 << 20, 53 << 20), 41 << 20);
    }

    #[test]
    fn users_get_half_of_the_threads_within_bounds() {
        assert_eq!(user_pids(900), 450);
        assert_eq!(user_pids(1 << 20), MAX_PIDS);
        assert_eq!(user_pids(0), 16);
    }
}
