//! The guest's end.

use std::fs;
use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};
use rustix::system::{RebootCommand, reboot};

use super::Storage;
use crate::log;

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
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?))
        })
        .collect();
    let Some((device, _)) = mounts
        .iter()
        .find(|(_, target)| Path::new(target) == scratch)
    else {
        return Vec::new();
    };
    mounts
        .iter()
        .rev()
        .filter(|(source, _)| source == device)
        .map(|(_, target)| (*target).to_owned())
        .collect()
}
