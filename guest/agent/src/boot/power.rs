//! The guest's end.

use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};
use rustix::system::{RebootCommand, reboot};

use crate::disks::Storage;
use crate::log;
use crate::procfs;

/// Writes everything out and resets the machine, which the VMM takes as its end: unlike a power
/// off, a reset needs neither ACPI nor a device. All user processes are to be dead.
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
    // Reached only when the kernel refuses; PID 1 must not return.
    loop {
        std::thread::park();
    }
}

/// Mount points of the filesystem that is mounted at `scratch`, the last one first.
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
