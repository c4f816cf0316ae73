//! Ends the guest.

use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};
use rustix::system::{RebootCommand, reboot};

use crate::disks::Storage;
use crate::log;
use crate::procfs;

/// Syncs all files and resets the machine, which ends the VMM: unlike a power-off, a reset needs neither ACPI nor a
/// device. All user processes must be dead.
pub fn restart(storage: Option<&Storage>) -> ! {
    rustix::fs::sync();
    if let Some(storage) = storage {
        let flags = UnmountFlags::DETACH;
        for target in mounted_under(&storage.scratch) {
            let _ = unmount(Path::new(&target), flags);
        }
        rustix::fs::sync();
    }
    log::line("restart");
    let _ = reboot(RebootCommand::Restart);
    // This is reached only if the kernel refuses; PID 1 must not return.
    loop {
        std::thread::park();
    }
}

/// Returns mount points of the file system that is mounted at `scratch`, the last one first.
fn mounted_under(scratch: &Path) -> Vec<String> {
    let mounts = procfs::mounts();
    let Some(scratch) = mounts
        .iter()
        .find(|mount| Path::new(&mount.target) == scratch)
    else {
        return Vec::new();
    };
    mounts
        .iter()
        .rev()
        .filter(|mount| mount.source == scratch.source)
        .map(|mount| mount.target.clone())
        .collect()
}
