//! States with random changes. The file keeps the time that the record has, and its size if the change allows it.

use std::os::unix::fs::FileExt;

use super::tests::{Dice, create_private, key, record, rig};
use super::*;

const SEED: u64 = 0x9E37_79B9_7F4A_7C15;
/// As large as the state of a VM with QEMU.
const STATE_BYTES: usize = 237_000;
const ROUNDS: usize = 400;

fn random_bytes(dice: &mut Dice, count: usize) -> Vec<u8> {
    (0..count).map(|_| dice.byte()).collect()
}

/// Makes a snapshot with this state, and returns its record. Later rounds restore the files themselves: `publish` would
/// wait for the disk each time.
fn make_of_state(store: &Store, key: &Key, state: &[u8]) -> Vec<u8> {
    let making = store.begin(key, 0).unwrap().unwrap();
    let file = making.create_state().unwrap();
    file.write_all_at(state, 0).unwrap();
    making.create_memory().unwrap().set_len(1 << 20).unwrap();
    let made = Record {
        sha256: hex(&Sha256::digest(state)),
        ..record(key, state.len() as u64)
    };
    making.publish(made).unwrap();
    fs::read(store.folder(&key.hex).join(RECORD)).unwrap()
}

/// Puts the snapshot back into its place, with the times of its record.
fn restore(folder: &Path, text: &[u8], memory_changed_at: SystemTime) {
    DirBuilder::new().mode(0o700).create(folder).unwrap();
    create_private(&folder.join(STATE));
    let memory = create_private(&folder.join(MEMORY));
    memory.set_len(1 << 20).unwrap();
    memory.set_modified(memory_changed_at).unwrap();
    let mut record = create_private(&folder.join(RECORD));
    io::Write::write_all(&mut record, text).unwrap();
}

/// Returns what the change is called. `other` is the state of another VM.
fn change(state: &mut Vec<u8>, other: &[u8], dice: &mut Dice) -> &'static str {
    let at = dice.below(state.len());
    let length = 1 + dice.below(4_096).min(state.len() - at - 1);
    match dice.below(7) {
        0 => {
            state[at] ^= 1 << dice.below(8);
            "a flipped bit"
        }
        1 => {
            for _ in 0..=dice.below(64) {
                let at = dice.below(state.len());
                state[at] = dice.byte();
            }
            "changed bytes"
        }
        2 => {
            state[at..at + length].fill(0);
            "a lost block"
        }
        3 => {
            state[..length].copy_from_slice(&other[..length]);
            "the header of another state"
        }
        4 => {
            state.copy_from_slice(other);
            "another state"
        }
        5 => {
            state.truncate(at);
            "a cut state"
        }
        _ => {
            let more = random_bytes(dice, length);
            state.splice(at..at, more);
            "a longer state"
        }
    }
}

#[test]
fn a_state_with_random_changes_is_refused_by_name_and_an_equal_one_is_used_whole() {
    let mut dice = Dice(SEED);
    let [state, other] = [(), ()].map(|()| random_bytes(&mut dice, STATE_BYTES));
    let rig = rig(16);
    let key = key("256M");
    let folder = rig.store.folder(&key.hex);
    let path = folder.join(STATE);
    let text = make_of_state(&rig.store, &key, &state);
    let [state_changed_at, memory_changed_at] =
        [STATE, MEMORY].map(|name| fs::metadata(folder.join(name)).unwrap().modified().unwrap());
    let mut equal_count = 0;
    for round in 0..ROUNDS {
        if !folder.exists() {
            restore(&folder, &text, memory_changed_at);
        }
        let mut changed = state.clone();
        let name = match round % 10 {
            0 => "no change",
            _ => change(&mut changed, &other, &mut dice),
        };
        fs::write(&path, &changed).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(state_changed_at).unwrap();
        let place = format!("seed {SEED:#x}, round {round}, {name}");
        match rig.store.find(&key) {
            Lookup::Found(found) => {
                equal_count += 1;
                assert!(found.state == state, "{place}: a changed state is used");
            }
            Lookup::Damaged(text) => {
                assert_ne!(changed, state, "{place}: {text}");
                assert!(text.starts_with("its state has "), "{place}: {text}");
                assert!(!path.exists(), "{place}: it is not deleted");
            }
            Lookup::Absent => panic!("{place}: the snapshot was there"),
        }
    }
    assert!(equal_count >= ROUNDS / 10, "{equal_count}");
}

#[test]
fn a_state_of_the_largest_size_is_used_and_one_byte_more_is_not_published() {
    let rig = rig(64);
    let key = key("256M");
    for (bytes, is_allowed) in [(MAX_STATE_BYTES, true), (MAX_STATE_BYTES + 1, false)] {
        rig.store.remove(&key.hex);
        let making = rig.store.begin(&key, 0).unwrap().unwrap();
        making.create_state().unwrap().set_len(bytes).unwrap();
        making.create_memory().unwrap().set_len(1 << 20).unwrap();
        let published = making.publish(record(&key, bytes));
        assert_eq!(published.is_ok(), is_allowed, "{published:?}");
        let found = rig.store.find(&key);
        assert_eq!(
            matches!(found, Lookup::Found(_)),
            is_allowed,
            "{bytes} bytes"
        );
        if let Err(error) = published {
            let named = format!("its state has {bytes} bytes; at most {MAX_STATE_BYTES}");
            assert!(error.to_string().contains(&named), "{error}");
        }
    }
}
