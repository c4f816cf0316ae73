//! Each room of the agent may use only rooms that come before it.

mod modules;

use std::collections::BTreeSet;
use std::path::Path;

use modules::Modules;

/// From the room that uses no other to the room that uses all of them.
const ROOMS: &[&str] = &[
    "hex",
    "lock",
    "log",
    "owner",
    "block_cache",
    "disks",
    "links",
    "procfs",
    "failure",
    "mailbox",
    "chunk",
    "outbox",
    "precedence",
    "reaper",
    "cgroup",
    "request",
    "tunnel",
    "guest",
    "memory_guard",
    "boot",
    "exec",
    "door",
    "files",
    "stats",
    "clock",
    "disk_freeze",
    "configure",
    "rest",
    "serve",
    "session",
];

fn read_agent() -> Modules {
    Modules::read(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        "main.rs",
    )
}

#[test]
fn a_room_uses_only_those_before_it() {
    assert_eq!(
        read_agent().describe_broken_order(ROOMS),
        Vec::<String>::new()
    );
}

#[test]
fn every_room_has_its_place() {
    assert_eq!(
        read_agent().rooms(),
        ROOMS.iter().copied().collect::<BTreeSet<_>>()
    );
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    assert_eq!(read_agent().find_circles(), Vec::<Vec<&str>>::new());
}
