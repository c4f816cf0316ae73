//! Which room of the keeper may use which: only those that come before it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// From what knows nothing of the others to what knows all of them.
const ROOMS: &[&str] = &[
    "error", "run_dir", "host", "egress", "config", "lease", "disk", "guest", "notices", "door",
    "client", "transfer", "exec", "vmm", "keeper", "api", "commands",
];

/// The rooms that a piece of source names, as `crate::room` or in a list after `crate::`.
fn used(source: &str) -> BTreeSet<&str> {
    source
        .split("crate::")
        .skip(1)
        .map(|rest| {
            rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .next()
                .unwrap_or_default()
        })
        .collect()
}

fn check(room: &str, path: &Path, broken: &mut Vec<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            check(room, &entry.unwrap().path(), broken);
        }
        return;
    }
    let rank = |room: &str| ROOMS.iter().position(|known| *known == room);
    let source = fs::read_to_string(path).unwrap();
    for other in used(&source) {
        match rank(other) {
            Some(other_rank) if Some(other_rank) <= rank(room) => {}
            _ => broken.push(format!("{} uses crate::{other}", path.display())),
        }
    }
}

#[test]
fn a_room_uses_only_those_before_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut broken = Vec::new();
    for room in ROOMS {
        let (file, folder) = (src.join(format!("{room}.rs")), src.join(room));
        let path = if file.exists() { file } else { folder };
        check(room, &path, &mut broken);
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_room_has_its_place() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rooms: BTreeSet<String> = fs::read_dir(src)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|room| room != "lib" && room != "main")
        .collect();
    let known: BTreeSet<String> = ROOMS.iter().map(|room| (*room).to_owned()).collect();
    assert_eq!(rooms, known);
}
