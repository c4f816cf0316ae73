//! Each room of the keeper may use only rooms that come before it.

#[path = "../../../guest/agent/tests/modules/mod.rs"]
mod modules;

use std::collections::BTreeSet;
use std::path::Path;

use modules::Modules;

/// From the room that uses no other to the room that uses all of them.
const ROOMS: &[&str] = &[
    "error",
    "run_dir",
    "host",
    "cgroups",
    "disk_copy",
    "egress",
    "config",
    "snapshots",
    "lease",
    "disk",
    "guest",
    "notices",
    "door",
    "client",
    "transfer",
    "exec",
    "vmm",
    "keeper",
    "api",
    "commands",
];

fn read_keeper() -> Modules {
    Modules::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "lib.rs")
}

#[test]
fn a_room_uses_only_those_before_it() {
    assert_eq!(
        read_keeper().describe_broken_order(ROOMS),
        Vec::<String>::new()
    );
}

#[test]
fn every_room_has_its_place() {
    assert_eq!(
        read_keeper().rooms(),
        ROOMS.iter().copied().collect::<BTreeSet<_>>()
    );
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    assert_eq!(read_keeper().find_circles(), Vec::<Vec<&str>>::new());
}
