//! A keeper is killed at any moment while it makes and evicts snapshots.

use std::env;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::tests::{Dice, key, make, names};
use super::*;

/// The folder of the process that is killed. In the test's own process it is not set.
const FOLDER: &str = "VOIDBOX_TEST_KILLED_STORE";
const NAME: &str = "snapshots::store::killed::a_keeper_that_is_killed_while_it_makes_and_evicts_leaves_only_whole_snapshots";
/// Two such snapshots are within 1 MiB.
const STATE_BYTES: u64 = 400 << 10;
const BEGIN_LIMIT: Duration = Duration::from_secs(30);

fn open(dir: &Path) -> Store {
    let settings = SnapshotSettings {
        dir: dir.to_owned(),
        max_mib: 1,
    };
    Store::open(&settings).unwrap()
}

/// Makes snapshots until it is killed. Each evicts another one.
fn make_forever(store: &Store) -> ! {
    for count in 0_u64.. {
        let memory = format!("{} of {}", count, std::process::id());
        make(store, &key(&memory), STATE_BYTES);
    }
    unreachable!("the process is killed")
}

fn whole_names(store: &Store) -> Vec<String> {
    let mut names = names(store);
    names.retain(|name| !name.starts_with('.'));
    names
}

#[test]
fn a_keeper_that_is_killed_while_it_makes_and_evicts_leaves_only_whole_snapshots() {
    if let Some(dir) = env::var_os(FOLDER) {
        make_forever(&open(Path::new(&dir)));
    }
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("snapshots");
    let store = open(&dir);
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for round in 0..10 {
        let before = whole_names(&store);
        let mut keeper = Command::new(env::current_exe().unwrap())
            .args(["--exact", NAME])
            .env(FOLDER, &dir)
            .spawn()
            .unwrap();
        let since = Instant::now();
        while whole_names(&store) == before && since.elapsed() < BEGIN_LIMIT {
            sleep(Duration::from_millis(1));
        }
        let has_begun = whole_names(&store) != before;
        sleep(Duration::from_micros(dice.below(20_000) as u64));
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        assert!(has_begun, "{round}: it makes no snapshots");
        for name in whole_names(&store) {
            let parts = read_record(&dir.join(&name)).unwrap().parts;
            let found = store.find(&Key::new(parts));
            assert!(matches!(found, Lookup::Found(_)), "{round}: {found:?}");
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
