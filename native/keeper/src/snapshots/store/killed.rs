//! A keeper is killed at any moment while it makes, checks, reads and evicts snapshots.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::tests::{Dice, key, make, names};
use super::*;
use crate::snapshots::memory;

/// The folder of the process that is killed. In the test's own process it is not set.
const FOLDER: &str = "VOIDBOX_TEST_KILLED_STORE";
/// Set for a process that also starts from snapshots.
const STARTS_TOO: &str = "VOIDBOX_TEST_KILLED_STARTS";
const NAME: &str =
    "snapshots::store::killed::a_keeper_that_is_killed_at_any_moment_leaves_only_whole_snapshots";
/// Two such snapshots are within 1 MiB.
const STATE_BYTES: u64 = 400 << 10;
/// The starts from each snapshot.
const STARTS: u32 = 4;
/// The kills of each kind.
const KILLS: usize = 10;
const BEGIN_LIMIT: Duration = Duration::from_secs(30);

fn open(dir: &Path) -> Store {
    let settings = SnapshotSettings {
        dir: dir.to_owned(),
        max_mib: 1,
    };
    Store::open(&settings).unwrap()
}

/// Makes snapshots until it is killed, each of which evicts another. In every second round it also starts from them:
/// most of that time it checks them and reads their memory.
fn work_forever(store: &Store, starts: bool) -> ! {
    for count in 0_u64.. {
        let key = key(&format!("{} of {}", count, std::process::id()));
        make(store, &key, STATE_BYTES);
        for _ in 0..u32::from(starts) * STARTS {
            hold_found(store, &key, "it was just made");
        }
    }
    unreachable!("the process is killed")
}

/// Does what a start does before its VMM: checks the snapshot, and takes its memory.
fn hold_found(store: &Store, key: &Key, place: &str) {
    match store.find(key) {
        Lookup::Found(found) => {
            let memory = found.hold_memory().unwrap();
            let bytes = found.record.guest_bytes();
            assert!(memory::is_sealed(&memory, bytes), "{place}: its memory");
        }
        other => panic!("{place}: {other:?}"),
    }
}

fn whole_names(store: &Store) -> Vec<String> {
    let mut names = names(store);
    names.retain(|name| !name.starts_with('.'));
    names
}

#[test]
fn a_keeper_that_is_killed_at_any_moment_leaves_only_whole_snapshots() {
    if let Some(dir) = env::var_os(FOLDER) {
        let starts = env::var_os(STARTS_TOO).is_some();
        work_forever(&open(Path::new(&dir)), starts);
    }
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("snapshots");
    let store = open(&dir);
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for round in 0..2 * KILLS {
        let before = whole_names(&store);
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", NAME]).env(FOLDER, &dir);
        if round % 2 == 1 {
            command.env(STARTS_TOO, "1");
        }
        let mut keeper = command.stdout(Stdio::null()).spawn().unwrap();
        let since = Instant::now();
        while whole_names(&store) == before && since.elapsed() < BEGIN_LIMIT {
            sleep(Duration::from_millis(1));
        }
        let has_begun = whole_names(&store) != before;
        sleep(Duration::from_micros(dice.below(20_000) as u64));
        keeper.kill().unwrap();
        let ended = keeper.wait().unwrap();
        assert_eq!(ended.signal(), Some(libc::SIGKILL), "{round}: it failed");
        assert!(has_begun, "{round}: it makes no snapshots");
        for name in whole_names(&store) {
            let parts = read_record(&dir.join(&name)).unwrap().parts;
            hold_found(&store, &Key::new(parts), &format!("{round}, {name}"));
        }
        // The next keeper has the lock of the dead one, and removes what is left of it.
        let next = key(&format!("round {round}"));
        make(&store, &next, STATE_BYTES);
        let left = names(&store);
        assert!(left.contains(&next.hex), "{round}: {left:?}");
        assert_eq!(left, whole_names(&store), "{round}");
        assert!(left.len() <= 2, "{round}: {left:?}");
    }
}
