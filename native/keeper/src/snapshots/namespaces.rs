//! The namespaces in which a path or a process id has a meaning. Containers of one host share its boot, and may share the
//! folder of snapshots.

use std::fs;
use std::os::unix::fs::MetadataExt;

#[derive(Debug, Clone, Copy)]
pub enum Namespace {
    Mount,
    Pid,
}

/// Identifies the namespace of this process among those of this boot of the host that exist; `None` without `/proc`.
pub fn own_namespace(namespace: Namespace) -> Option<u64> {
    let path = match namespace {
        Namespace::Mount => "/proc/self/ns/mnt",
        Namespace::Pid => "/proc/self/ns/pid",
    };
    fs::metadata(path).map(|found| found.ino()).ok()
}
