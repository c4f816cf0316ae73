//! Tests of the folder of snapshots: damage, makers that die, eviction.

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::Duration;

use super::*;
use crate::snapshots::key::file_identity;
use crate::snapshots::namespaces::{Namespace, own_namespace};

pub struct Rig {
    _folder: tempfile::TempDir,
    pub store: Store,
}

pub fn rig(max_mib: u32) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let settings = SnapshotSettings {
        dir: folder.path().join("snapshots"),
        max_mib,
    };
    Rig {
        store: Store::open(&settings).unwrap(),
        _folder: folder,
    }
}

pub fn key(memory: &str) -> Key {
    let mut parts = example_parts();
    parts.arguments[1] = memory.into();
    Key::new(parts)
}

pub fn record(key: &Key, state_bytes: u64) -> Record {
    Record {
        key: key.hex.clone(),
        parts: key.parts.clone(),
        mount_namespace: own_namespace(Namespace::Mount),
        tsc_khz: 1,
        memory_mib: 1,
        state_bytes,
        state_mtime_ns: 0,
        sha256: hash_of_zeros(state_bytes),
        memory_bytes: 0,
        memory_mtime_ns: 0,
        memory_sha256: String::new(),
        created_at_ms: 1,
    }
}

/// The hash of a state that is a hole.
fn hash_of_zeros(bytes: u64) -> String {
    let zeros = vec![0; usize::try_from(bytes.min(MAX_STATE_BYTES)).unwrap()];
    hex(&Sha256::digest(zeros))
}

pub fn make(store: &Store, key: &Key, bytes: u64) {
    let making = store.begin(key, 0).unwrap().expect("nobody else makes it");
    let file = making.create_state().unwrap();
    file.set_len(bytes).unwrap();
    making.create_memory().unwrap().set_len(1 << 20).unwrap();
    making.publish(record(key, bytes)).unwrap();
}

pub fn names(store: &Store) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(&store.dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with(".lock-"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_snapshot_is_complete_or_absent_and_only_one_keeper_makes_it() {
    let Rig { store, _folder } = rig(1);
    let key = key("256M");
    assert!(matches!(store.find(&key), Lookup::Absent));
    let making = store.begin(&key, 0).unwrap().unwrap();
    making.create_state().unwrap().set_len(10).unwrap();
    assert!(store.begin(&key, 0).unwrap().is_none(), "one makes it");
    assert!(matches!(store.find(&key), Lookup::Absent));
    drop(making);
    assert!(
        names(&store).is_empty(),
        "a maker that fails leaves nothing"
    );
    make(&store, &key, 10);
    assert!(matches!(store.find(&key), Lookup::Found(_)));
    assert!(store.begin(&key, 0).unwrap().is_none(), "it exists");
    assert_eq!(names(&store), std::slice::from_ref(&key.hex));
}

#[test]
fn the_remains_of_a_maker_that_died_do_not_count() {
    let Rig { store, _folder } = rig(1);
    let key = key("256M");
    let partial = store.dir.join(format!(".new-{}", key.hex));
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join(STATE), "half").unwrap();
    // No launch has this key again, such as one of an earlier boot of the host.
    fs::create_dir(store.dir.join(".new-0123")).unwrap();
    assert!(matches!(store.find(&key), Lookup::Absent));
    make(&store, &key, 10);
    assert_eq!(names(&store), std::slice::from_ref(&key.hex));
}

#[test]
fn an_incomplete_state_or_memory_is_not_published() {
    let Rig { store, _folder } = rig(1);
    let key = key("256M");
    let making = store.begin(&key, 0).unwrap().unwrap();
    making.create_state().unwrap().set_len(9).unwrap();
    making.create_memory().unwrap().set_len(1 << 20).unwrap();
    assert!(making.publish(record(&key, 10)).is_err());
    let making = store.begin(&key, 0).unwrap().unwrap();
    making.create_state().unwrap().set_len(10).unwrap();
    making.create_memory().unwrap().set_len(1 << 19).unwrap();
    assert!(making.publish(record(&key, 10)).is_err());
    assert!(matches!(store.find(&key), Lookup::Absent));
}

#[test]
fn the_pages_of_a_copy_are_found_with_the_snapshot_and_are_no_damage_if_they_do_not_fit() {
    let Rig { store, _folder } = rig(1);
    let key = key("256M");
    make(&store, &key, 10);
    let touched = || match store.find(&key) {
        Lookup::Found(found) => found.touched,
        other => panic!("{other:?}"),
    };
    assert_eq!(touched(), None);
    store.record_touched(&key.hex, &Touched::default()).unwrap();
    assert_eq!(touched(), Some(Touched::default()));
    let path = store.folder(&key.hex).join(TOUCHED);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(touched(), None, "another user can read it");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "no list").unwrap();
    assert_eq!(touched(), None);
    replace_by_link(&path);
    assert_eq!(touched(), None);
    store.record_touched(&key.hex, &Touched::default()).unwrap();
    assert_eq!(touched(), Some(Touched::default()));
}

fn edit_record(folder: &Path, edit: impl FnOnce(String) -> String) {
    let path = folder.join(RECORD);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, edit(text)).unwrap();
}

fn replace_by_link(path: &Path) {
    let moved = path.with_file_name("moved");
    fs::rename(path, &moved).unwrap();
    std::os::unix::fs::symlink(moved, path).unwrap();
}

#[test]
fn damage_is_named_and_the_snapshot_deleted() {
    type Damage = fn(&Path);
    let cases: [(&str, Damage); 22] = [
        ("its state has 9 bytes, expected 10", |folder| {
            File::options()
                .write(true)
                .open(folder.join(STATE))
                .unwrap()
                .set_len(9)
                .unwrap();
        }),
        ("its state has 11 bytes, expected 10", |folder| {
            fs::write(folder.join(STATE), "01234567890").unwrap();
        }),
        ("its state was changed after it was made", |folder| {
            fs::write(folder.join(STATE), "0123456789").unwrap();
        }),
        ("No such file", |folder| {
            fs::remove_file(folder.join(STATE)).unwrap();
        }),
        ("No such file", |folder| {
            fs::remove_file(folder.join(RECORD)).unwrap();
        }),
        ("its memory has 9 bytes, expected 1048576", |folder| {
            let memory = File::options().write(true).open(folder.join(MEMORY));
            memory.unwrap().set_len(9).unwrap();
        }),
        ("its memory was changed after it was made", |folder| {
            let memory = File::options().write(true).open(folder.join(MEMORY));
            memory.unwrap().write_all_at(b"x", 9).unwrap();
        }),
        ("No such file", |folder| {
            fs::remove_file(folder.join(MEMORY)).unwrap();
        }),
        ("does not parse", |folder| {
            edit_record(folder, |_| "{".into())
        }),
        ("does not parse", |folder| {
            edit_record(folder, |_| String::new())
        }),
        ("unknown field `more`", |folder| {
            edit_record(folder, |text| text.replacen('{', "{\"more\":1,", 1));
        }),
        // A record beyond its limit is not read to its end.
        ("does not parse", |folder| {
            edit_record(folder, |text| {
                let spaces = " ".repeat(usize::try_from(MAX_RECORD_BYTES).unwrap());
                text.replacen('{', &format!("{{{spaces}"), 1)
            });
        }),
        ("its key is \"0\", expected", |folder| {
            edit_record(folder, |text| {
                let key = folder.file_name().unwrap().to_str().unwrap();
                text.replace(key, "0")
            });
        }),
        ("kernel is \"/other\", expected \"/k\"", |folder| {
            edit_record(folder, |text| text.replace("\"/k\"", "\"/other\""));
        }),
        ("its state is not a file that only its user", |folder| {
            fs::set_permissions(folder.join(STATE), fs::Permissions::from_mode(0o640)).unwrap();
        }),
        (
            "its snapshot.json is not a file that only its user",
            |folder| {
                fs::set_permissions(folder.join(RECORD), fs::Permissions::from_mode(0o602))
                    .unwrap();
            },
        ),
        ("another user can change its folder", |folder| {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        }),
        ("symbolic link", |folder| {
            replace_by_link(&folder.join(STATE))
        }),
        ("symbolic link", |folder| {
            replace_by_link(&folder.join(RECORD))
        }),
        ("another user can change its folder", replace_by_link),
        // A pipe would make each start wait for a writer.
        ("its state is not a file that only its user", |folder| {
            fs::remove_file(folder.join(STATE)).unwrap();
            let made = std::process::Command::new("mkfifo")
                .args(["-m", "600"])
                .arg(folder.join(STATE))
                .status();
            assert!(made.unwrap().success());
        }),
        ("its state is not a file that only its user", |folder| {
            fs::remove_file(folder.join(STATE)).unwrap();
            DirBuilder::new()
                .mode(0o700)
                .create(folder.join(STATE))
                .unwrap();
        }),
    ];
    for (named, damage) in cases {
        expect_damage(named, damage);
    }
}

#[test]
fn a_file_in_the_place_of_a_snapshot_is_removed() {
    expect_damage("Not a directory", |folder| {
        fs::remove_dir_all(folder).unwrap();
        fs::write(folder, "").unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o600)).unwrap();
    });
}

#[test]
fn files_of_another_user_are_not_used() {
    if !rustix::process::geteuid().is_root() {
        // Only root can make such files.
        return;
    }
    let give = |path: PathBuf| std::os::unix::fs::chown(path, Some(12_345), None).unwrap();
    expect_damage("its state is not a file that only its user", |folder| {
        give(folder.join(STATE));
    });
    expect_damage(
        "its snapshot.json is not a file that only its user",
        |folder| {
            give(folder.join(RECORD));
        },
    );
    expect_damage("another user can change its folder", |folder| {
        give(folder.to_owned());
    });
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("snapshots");
    DirBuilder::new().mode(0o700).create(&dir).unwrap();
    give(dir.clone());
    let refused = Store::open(&SnapshotSettings { dir, max_mib: 1 }).err();
    assert!(refused.unwrap().to_string().contains("only its user"));
}

fn expect_damage(named: &str, damage: impl FnOnce(&Path)) {
    let Rig { store, _folder } = rig(1);
    let key = key("256M");
    make(&store, &key, 10);
    std::thread::sleep(Duration::from_millis(5));
    damage(&store.folder(&key.hex));
    let Lookup::Damaged(text) = store.find(&key) else {
        panic!("{named} was not noticed");
    };
    assert!(text.contains(named), "{text}, expected {named}");
    let left = names(&store);
    assert!(left.iter().all(|name| name == "moved"), "{named}: {left:?}");
    assert!(matches!(store.find(&key), Lookup::Absent), "{named}");
}

pub fn create_private(path: &Path) -> File {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .unwrap()
}

const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// Random numbers that each run of a test repeats (xorshift).
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    pub fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }
}

/// Changes a text in one to three places.
fn mutate(mut text: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    for _ in 0..=dice.below(3) {
        if text.is_empty() {
            return text;
        }
        let at = dice.below(text.len());
        match dice.below(7) {
            0 => text[at] ^= 1 << dice.below(8),
            1 => text[at] = dice.byte(),
            2 => text.insert(at, dice.byte()),
            3 => drop(text.remove(at)),
            4 => text.truncate(at),
            5 => {
                let end = text.len().min(at + 1 + dice.below(40));
                let piece = text[at..end].to_vec();
                text.splice(at..at, piece);
            }
            _ => {
                let words: [&[u8]; 5] = [b"0", b"-1", b"null", b"1e400", b"[[[["];
                let word = words[dice.below(words.len())];
                text.splice(at..=at, word.iter().copied());
            }
        }
    }
    text
}

/// The fields that decide whether and how a VM starts from a snapshot. The others only describe the snapshot.
fn meaning(record: &Record) -> (&str, &KeyParts, &str, [u64; 2], [i64; 2]) {
    (
        &record.key,
        &record.parts,
        &record.sha256,
        [record.state_bytes, record.guest_bytes()],
        [record.state_mtime_ns, record.memory_mtime_ns],
    )
}

#[test]
fn a_record_with_random_changes_is_refused_or_means_the_same() {
    let Rig { store, _folder } = rig(1);
    let key = key("256M");
    let folder = store.folder(&key.hex);
    let making = store.begin(&key, 0).unwrap().unwrap();
    making.create_state().unwrap().set_len(10).unwrap();
    making.create_memory().unwrap().set_len(1 << 20).unwrap();
    let made = Record {
        memory_sha256: "fedcba9876543210".repeat(4),
        tsc_khz: 2_100_000,
        created_at_ms: 1_800_000_000_000,
        ..record(&key, 10)
    };
    making.publish(made).unwrap();
    let valid = fs::read(folder.join(RECORD)).unwrap();
    let original: Record = serde_json::from_slice(&valid).unwrap();
    let files = [(STATE, 10), (MEMORY, 1 << 20)].map(|(name, bytes)| {
        let made_at = fs::metadata(folder.join(name)).and_then(|file| file.modified());
        (name, bytes, made_at.unwrap())
    });
    let mut dice = Dice(SEED);
    let (mut found_count, mut damaged_count) = (0, 0);
    for round in 0..2_000 {
        if !folder.exists() {
            // `make` would wait for the disk each time.
            DirBuilder::new().mode(0o700).create(&folder).unwrap();
            for (name, bytes, made_at) in files {
                let file = create_private(&folder.join(name));
                file.set_len(bytes).unwrap();
                file.set_modified(made_at).unwrap();
            }
            create_private(&folder.join(RECORD));
        }
        let text = mutate(valid.clone(), &mut dice);
        fs::write(folder.join(RECORD), &text).unwrap();
        match store.find(&key) {
            Lookup::Found(found) => {
                found_count += 1;
                let text = String::from_utf8_lossy(&text);
                assert_eq!(
                    meaning(&found.record),
                    meaning(&original),
                    "seed {SEED:#x}, round {round}: {text}"
                );
            }
            Lookup::Damaged(_) => damaged_count += 1,
            Lookup::Absent => panic!("seed {SEED:#x}, round {round}: the snapshot was there"),
        }
    }
    // Both must occur, or the changes are too harmless or too coarse.
    assert!(
        found_count > 20 && damaged_count > 1_000,
        "{found_count} and {damaged_count}"
    );
    assert_eq!(
        names(&store)
            .iter()
            .filter(|name| name.starts_with('.'))
            .count(),
        0
    );
}

#[test]
fn leftovers_of_dead_keepers_go_before_the_room_on_the_disk_is_checked() {
    let Rig { store, _folder } = rig(1);
    for name in [".new-0123", ".gone-0123-1"] {
        let leftover = store.dir.join(name);
        fs::create_dir(&leftover).unwrap();
        fs::write(leftover.join(STATE), "half").unwrap();
    }
    let too_many = u64::MAX - SPARE_BYTES;
    assert!(store.begin(&key("1M"), too_many).unwrap().is_none());
    assert!(names(&store).is_empty(), "{:?}", names(&store));
}

#[test]
fn a_snapshot_that_is_deleted_after_it_was_found_can_be_read_to_its_end() {
    let Rig { store, _folder } = rig(1);
    let key = key("256M");
    make(&store, &key, 10);
    let Lookup::Found(found) = store.find(&key) else {
        panic!("it was just made");
    };
    fs::remove_dir_all(&store.dir).unwrap();
    assert_eq!(found.state, [0; 10]);
    assert_eq!(
        found.hold_memory().unwrap().metadata().unwrap().len(),
        1 << 20
    );
    // The folder of all snapshots is gone too.
    store.record_start(&key.hex);
    store.record_failure(&key.hex);
    assert!(matches!(store.find(&key), Lookup::Absent));
}

#[test]
fn a_folder_that_is_deleted_while_a_snapshot_is_made_costs_the_snapshot() {
    let Rig { store, _folder } = rig(1);
    let key = key("256M");
    let making = store.begin(&key, 0).unwrap().unwrap();
    making.create_state().unwrap().set_len(10).unwrap();
    fs::remove_dir_all(&store.dir).unwrap();
    // Another maker makes the folder again, and the same snapshot.
    let settings = SnapshotSettings {
        dir: store.dir.clone(),
        max_mib: 1,
    };
    let other = Store::open(&settings).unwrap().begin(&key, 0);
    let other = other.unwrap().unwrap();
    other.create_state().unwrap().set_len(10).unwrap();
    other.create_memory().unwrap().set_len(1 << 20).unwrap();
    let error = making.publish(record(&key, 10)).unwrap_err();
    assert_eq!(error.to_string(), "its folder was deleted");
    assert!(matches!(store.find(&key), Lookup::Absent));
    other.publish(record(&key, 10)).unwrap();
    assert!(matches!(store.find(&key), Lookup::Found(_)));
}

#[test]
fn two_failures_in_a_row_delete_a_snapshot() {
    let Rig { store, _folder } = rig(1);
    let key = key("256M");
    make(&store, &key, 10);
    store.record_failure(&key.hex);
    store.record_start(&key.hex);
    store.record_failure(&key.hex);
    assert!(matches!(store.find(&key), Lookup::Found(_)));
    store.record_failure(&key.hex);
    assert!(matches!(store.find(&key), Lookup::Absent));
}

#[test]
fn the_longest_unused_snapshots_make_room_and_those_of_other_boots() {
    let Rig { store, _folder } = rig(1);
    let (one, two, three) = (key("1M"), key("2M"), key("3M"));
    make(&store, &one, 400 << 10);
    make(&store, &two, 400 << 10);
    std::thread::sleep(Duration::from_millis(5));
    assert!(matches!(store.find(&one), Lookup::Found(_)));
    make(&store, &three, 400 << 10);
    assert!(matches!(store.find(&two), Lookup::Absent));
    assert!(matches!(store.find(&one), Lookup::Found(_)));
    let mut later = example_parts();
    later.host_boot = "later".into();
    make(&store, &Key::new(later.clone()), 10);
    assert_eq!(names(&store), [Key::new(later).hex]);
}

#[test]
fn snapshots_of_a_replaced_vmm_kernel_or_initramfs_are_removed_and_those_of_unchanged_files_stay() {
    type Part = fn(&mut KeyParts) -> &mut String;
    let parts_of: [Part; 3] = [
        |parts| &mut parts.program,
        |parts| &mut parts.kernel,
        |parts| &mut parts.initramfs,
    ];
    let Rig { _folder, store } = rig(1_024);
    let files = _folder.path().join("files");
    fs::create_dir(&files).unwrap();
    let made = |index: usize, name: &str| {
        let path = files.join(format!("{name}-{index}"));
        fs::write(&path, "one").unwrap();
        let mut parts = example_parts();
        *parts_of[index](&mut parts) = file_identity(&path).unwrap();
        let key = Key::new(parts);
        make(&store, &key, 10);
        (path, key.hex)
    };
    let replaced: Vec<_> = (0..3).map(|index| made(index, "replaced")).collect();
    let (_, unchanged): (Vec<_>, Vec<_>) = (0..3).map(|index| made(index, "unchanged")).unzip();
    let (deleted, _) = made(1, "deleted");
    for (path, _) in &replaced {
        fs::write(path, "another").unwrap();
    }
    fs::remove_file(deleted).unwrap();
    assert_eq!(names(&store).len(), 7, "only a new snapshot removes them");

    let newest = key("192M");
    make(&store, &newest, 10);
    let mut expected = unchanged;
    expected.push(newest.hex);
    expected.sort();
    assert_eq!(names(&store), expected);
}

/// Makes a snapshot whose kernel is at `kernel`, by a keeper of another mount namespace if `is_foreign`.
fn make_of_kernel(store: &Store, kernel: &Path, memory: &str, is_foreign: bool) -> String {
    let mut parts = key(memory).parts;
    parts.kernel = file_identity(kernel).unwrap();
    let key = Key::new(parts);
    let making = store.begin(&key, 0).unwrap().unwrap();
    making.create_state().unwrap().set_len(10).unwrap();
    making.create_memory().unwrap().set_len(1 << 20).unwrap();
    let mut record = record(&key, 10);
    if is_foreign {
        record.mount_namespace = record.mount_namespace.map(|own| own + 1);
    }
    making.publish(record).unwrap();
    key.hex
}

#[test]
fn a_keeper_of_another_container_proves_nothing_by_its_paths() {
    let Rig { store, _folder } = rig(1_024);
    let kernel = _folder.path().join("kernel");
    fs::write(&kernel, "one").unwrap();
    let of_container = make_of_kernel(&store, &kernel, "1M", true);
    let mut unknown = record(&key("2M"), 10);
    unknown.mount_namespace = None;
    let own = make_of_kernel(&store, &kernel, "3M", false);
    fs::remove_file(&kernel).unwrap();
    assert!(!record(&key("2M"), 10).is_useless_beside(&unknown));
    let newest = key("192M");
    make(&store, &newest, 10);
    let mut expected = [of_container, newest.hex];
    expected.sort();
    assert_eq!(names(&store), expected, "not {own}");
}

#[test]
fn snapshots_stay_up_to_the_limit_and_one_byte_more_removes_the_longest_unused() {
    for (newest_bytes, stays) in [(1 << 19, true), ((1 << 19) + 1, false)] {
        let Rig { store, _folder } = rig(1);
        let oldest = key("1M");
        make(&store, &oldest, 1 << 19);
        make(&store, &key("2M"), newest_bytes);
        assert_eq!(matches!(store.find(&oldest), Lookup::Found(_)), stays);
    }
}

#[test]
fn a_snapshot_whose_memory_is_held_stays_and_the_next_longest_unused_makes_room() {
    let Rig { store, _folder } = rig(1);
    let (held, unused) = (key("1M"), key("2M"));
    make(&store, &held, 400 << 10);
    let Lookup::Found(found) = store.find(&held) else {
        panic!("it was just made");
    };
    let memory = found.hold_memory().unwrap();
    make(&store, &unused, 400 << 10);
    make(&store, &key("3M"), 400 << 10);
    assert!(matches!(store.find(&unused), Lookup::Absent));
    drop(memory);
    make(&store, &key("4M"), 400 << 10);
    assert!(matches!(store.find(&held), Lookup::Absent));
}

#[test]
fn a_disk_with_little_room_gets_no_snapshot() {
    let Rig { store, _folder } = rig(1);
    assert!(
        store
            .begin(&key("1M"), u64::MAX - SPARE_BYTES)
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_folder_that_others_can_read_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("snapshots");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = Store::open(&SnapshotSettings { dir, max_mib: 1 })
        .err()
        .unwrap();
    assert!(refused.to_string().contains("chmod 700"), "{refused}");
}
