//! The folder of snapshots: one folder for each key, complete or absent.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::holders;
#[cfg(test)]
use super::key::example_parts;
use super::key::{Key, KeyParts};
use crate::config::SnapshotSettings;
use crate::run_dir::try_lock_file;

const STATE: &str = "state";
const MEMORY: &str = "memory";
const RECORD: &str = "snapshot.json";
/// Its modification time is the time of the last use.
const USED: &str = "used";
/// Present after a start from the snapshot that failed.
const FAILED: &str = "failed";
/// The limit of `snapshot.json`.
const MAX_RECORD_BYTES: u64 = 64 << 10;
/// The room that stays free for others beside a new snapshot.
const SPARE_BYTES: u64 = 1 << 30;

/// The content of `snapshot.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    pub key: String,
    pub parts: KeyParts,
    /// Documents the speed of the TSC that the guest was told. Each launch measures it, and a copy does not need it.
    pub tsc_khz: u64,
    pub memory_mib: u32,
    pub state_bytes: u64,
    pub state_mtime_ns: i64,
    pub sha256: String,
    /// The pages that are not zero. The file is as large as the guest's memory, with holes.
    pub memory_bytes: u64,
    pub memory_mtime_ns: i64,
    /// The hash of these pages, each behind its offset.
    pub memory_sha256: String,
    pub created_at_ms: u64,
}

impl Record {
    pub fn guest_bytes(&self) -> u64 {
        u64::from(self.memory_mib) << 20
    }

    /// The room on the disk.
    fn disk_bytes(&self) -> u64 {
        self.state_bytes.saturating_add(self.memory_bytes)
    }
}

pub struct Store {
    dir: PathBuf,
    max_bytes: u64,
}

/// A snapshot from which a VM can start.
#[derive(Debug)]
pub struct Found {
    pub state: File,
    pub record: Record,
    memory: File,
    folder: PathBuf,
}

impl Found {
    /// Returns the sealed memory, which all VMs of the snapshot share. Blocks while the file is read.
    pub fn hold_memory(&self) -> io::Result<File> {
        holders::hold(&self.folder, &self.memory, self.record.guest_bytes())
    }
}

#[derive(Debug)]
pub enum Lookup {
    Found(Box<Found>),
    Absent,
    /// The snapshot was damaged, and is deleted; the text names the damage.
    Damaged(String),
}

impl Store {
    /// Opens the folder, and makes it if it does not exist.
    /// Fails if another user could change it.
    pub fn open(settings: &SnapshotSettings) -> io::Result<Self> {
        let dir = &settings.dir;
        match DirBuilder::new().recursive(true).mode(0o700).create(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let found = fs::symlink_metadata(dir)?;
        if !found.is_dir() || !is_private(&found) {
            return Err(io::Error::other(format!(
                "{} is not a folder that only its user can read: chmod 700 {0}, or delete it",
                dir.display()
            )));
        }
        Ok(Self {
            dir: dir.clone(),
            max_bytes: u64::from(settings.max_mib) << 20,
        })
    }

    fn folder(&self, key: &str) -> PathBuf {
        self.dir.join(key)
    }

    /// Opens the snapshot of a key, and compares everything that its record contains.
    pub fn find(&self, key: &Key) -> Lookup {
        let folder = self.folder(&key.hex);
        if fs::symlink_metadata(&folder).is_err() {
            return Lookup::Absent;
        }
        match open_checked(&folder, key) {
            Ok(found) => {
                let _ = touch(&folder.join(USED));
                Lookup::Found(Box::new(found))
            }
            Err(damage) => {
                self.remove(&key.hex);
                Lookup::Damaged(damage.to_string())
            }
        }
    }

    /// Records that a VM did not start from the snapshot. The second failure in a row deletes the snapshot.
    pub fn record_failure(&self, key: &str) {
        let marker = self.folder(key).join(FAILED);
        let is_first = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&marker)
            .is_ok();
        if !is_first {
            self.remove(key);
        }
    }

    /// Records that a VM started from the snapshot.
    pub fn record_start(&self, key: &str) {
        let _ = fs::remove_file(self.folder(key).join(FAILED));
    }

    /// Returns the right to make the snapshot of a key; `None` if another keeper makes it, or the disk is almost full.
    pub fn begin(&self, key: &Key, expected_bytes: u64) -> io::Result<Option<Making>> {
        // They may take the room that is missing.
        self.remove_leftovers()?;
        if free_bytes(&self.dir)? < expected_bytes + SPARE_BYTES {
            return Ok(None);
        }
        let Some(lock) = self.try_lock(&key.hex)? else {
            return Ok(None);
        };
        if fs::symlink_metadata(self.folder(&key.hex)).is_ok() {
            return Ok(None);
        }
        let partial = self.dir.join(format!(".new-{}", key.hex));
        // A keeper that died left it.
        let _ = fs::remove_dir_all(&partial);
        DirBuilder::new().mode(0o700).create(&partial)?;
        Ok(Some(Making {
            folder: self.folder(&key.hex),
            opened: File::open(&partial)?,
            partial,
            store: Self {
                dir: self.dir.clone(),
                max_bytes: self.max_bytes,
            },
            _lock: lock,
        }))
    }

    /// The lock's file stays: two keepers could lock two files of one name. So there are few of them, and keys share them.
    fn try_lock(&self, key: &str) -> io::Result<Option<File>> {
        let prefix = key.get(..2).unwrap_or("other");
        try_lock_file(&self.dir.join(format!(".lock-{prefix}")))
    }

    /// Removes what keepers left that died while they made or deleted a snapshot.
    fn remove_leftovers(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.starts_with(".gone-") {
                remove_whole(&entry.path());
            }
            if let Some(key) = name.strip_prefix(".new-") {
                self.remove_abandoned(key, &entry.path());
            }
        }
        Ok(())
    }

    /// Removes a partial snapshot whose keeper died. A keeper that lives holds the lock.
    fn remove_abandoned(&self, key: &str, partial: &Path) {
        if let Ok(Some(_lock)) = self.try_lock(key) {
            let _ = fs::remove_dir_all(partial);
        }
    }

    /// Removes a snapshot. A VM that starts from it has opened its file already.
    fn remove(&self, key: &str) {
        let gone = self.dir.join(format!(".gone-{key}-{}", std::process::id()));
        if fs::rename(self.folder(key), &gone).is_ok() {
            remove_whole(&gone);
        }
    }

    /// Removes snapshots of earlier boots of the host, remains of keepers that died, and beyond the limit the snapshots
    /// that were not used for the longest time, but never `kept`.
    fn evict(&self, kept: &Record) -> io::Result<()> {
        self.remove_leftovers()?;
        let mut whole: Vec<(SystemTime, u64, String)> = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.starts_with('.') || name == kept.key {
                continue;
            }
            let record = read_record(&entry.path());
            let is_current = record
                .as_ref()
                .is_ok_and(|record| record.parts.host_boot == kept.parts.host_boot);
            match (is_current, record) {
                (true, Ok(record)) => {
                    let used =
                        fs::metadata(entry.path().join(USED)).and_then(|file| file.modified());
                    whole.push((
                        used.unwrap_or(SystemTime::UNIX_EPOCH),
                        record.disk_bytes(),
                        name,
                    ));
                }
                _ => self.remove(&name),
            }
        }
        whole.sort();
        let mut total: u64 =
            kept.disk_bytes() + whole.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
        for (_, bytes, name) in whole {
            if total <= self.max_bytes {
                break;
            }
            self.remove(&name);
            total -= bytes;
        }
        Ok(())
    }
}

/// A snapshot that is being made. Dropping this leaves nothing that counts.
pub struct Making {
    store: Store,
    folder: PathBuf,
    partial: PathBuf,
    /// If the folder of snapshots was deleted, another maker may have a folder of the same name. While this one is
    /// open, no other has its inode.
    opened: File,
    _lock: File,
}

impl Making {
    pub fn create_state(&self) -> io::Result<File> {
        self.create(STATE)
    }

    pub fn create_memory(&self) -> io::Result<File> {
        self.create(MEMORY)
    }

    fn create(&self, name: &str) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.partial.join(name))
    }

    /// Syncs a file whose size is known, and returns the time of its last change.
    fn finish(&self, name: &str, bytes: u64) -> io::Result<i64> {
        let file = File::open(self.partial.join(name))?;
        file.sync_all()?;
        let written = file.metadata()?;
        if written.len() != bytes || bytes == 0 {
            return Err(io::Error::other(format!("its {name} is incomplete")));
        }
        Ok(mtime_ns(&written))
    }

    fn has_partial(&self) -> bool {
        let (Ok(ours), Ok(found)) = (self.opened.metadata(), fs::symlink_metadata(&self.partial))
        else {
            return false;
        };
        (ours.dev(), ours.ino()) == (found.dev(), found.ino())
    }

    /// Puts the complete snapshot into its place, and makes room.
    pub fn publish(self, mut record: Record) -> io::Result<()> {
        if !self.has_partial() {
            return Err(io::Error::other("its folder was deleted"));
        }
        record.state_mtime_ns = self.finish(STATE, record.state_bytes)?;
        record.memory_mtime_ns = self.finish(MEMORY, record.guest_bytes())?;
        let text = serde_json::to_vec(&record).map_err(io::Error::other)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.partial.join(RECORD))?;
        io::Write::write_all(&mut file, &text)?;
        file.sync_all()?;
        touch(&self.partial.join(USED))?;
        fs::rename(&self.partial, &self.folder)?;
        File::open(&self.store.dir)?.sync_all()?;
        self.store.evict(&record)
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        // After `publish` it does not exist.
        if self.has_partial() {
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

fn open_checked(folder: &Path, key: &Key) -> io::Result<Found> {
    if !is_private(&fs::symlink_metadata(folder)?) {
        return Err(io::Error::other("another user can change its folder"));
    }
    let record = read_record(folder)?;
    if record.key != key.hex {
        return Err(io::Error::other(format!(
            "its key is {:?}, expected {:?}",
            record.key, key.hex
        )));
    }
    if let Some(difference) = key.parts.difference(&record.parts) {
        return Err(io::Error::other(format!("its {difference}")));
    }
    let state = open_unchanged(folder, STATE, record.state_bytes, record.state_mtime_ns)?;
    let memory = open_unchanged(folder, MEMORY, record.guest_bytes(), record.memory_mtime_ns)?;
    Ok(Found {
        state,
        record,
        memory,
        folder: folder.to_owned(),
    })
}

fn open_unchanged(folder: &Path, name: &str, bytes: u64, changed_ns: i64) -> io::Result<File> {
    let file = open_own(&folder.join(name))?;
    let found = file.metadata()?;
    if found.len() != bytes {
        return Err(io::Error::other(format!(
            "its {name} has {} bytes, expected {bytes}",
            found.len()
        )));
    }
    if mtime_ns(&found) != changed_ns {
        return Err(io::Error::other(format!(
            "its {name} was changed after it was made"
        )));
    }
    Ok(file)
}

fn read_record(folder: &Path) -> io::Result<Record> {
    let file = open_own(&folder.join(RECORD))?;
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, MAX_RECORD_BYTES), &mut text)?;
    serde_json::from_slice(&text)
        .map_err(|error| io::Error::other(format!("its {RECORD} does not parse: {error}")))
}

/// Opens a regular file of this user that no other user can change.
fn open_own(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || !is_private(&found) {
        let name = path.file_name().unwrap_or_default();
        let name = Path::new(name).display();
        return Err(io::Error::other(format!(
            "its {name} is not a file that only its user can change"
        )));
    }
    Ok(file)
}

/// Removes a folder, or what is in the place of one.
fn remove_whole(path: &Path) {
    if fs::remove_dir_all(path).is_err() {
        let _ = fs::remove_file(path);
    }
}

fn is_private(found: &fs::Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0
}

fn mtime_ns(found: &fs::Metadata) -> i64 {
    found.mtime() * 1_000_000_000 + found.mtime_nsec()
}

fn touch(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    file.set_modified(SystemTime::now())
}

fn free_bytes(dir: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(dir)?;
    Ok(found.f_bavail * found.f_frsize)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, PermissionsExt};
    use std::time::Duration;

    use super::*;

    struct Rig {
        _folder: tempfile::TempDir,
        store: Store,
    }

    fn rig(max_mib: u32) -> Rig {
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

    fn key(memory: &str) -> Key {
        let mut parts = example_parts();
        parts.arguments[1] = memory.into();
        Key::new(parts)
    }

    fn record(key: &Key, state_bytes: u64) -> Record {
        Record {
            key: key.hex.clone(),
            parts: key.parts.clone(),
            tsc_khz: 1,
            memory_mib: 1,
            state_bytes,
            state_mtime_ns: 0,
            sha256: String::new(),
            memory_bytes: 0,
            memory_mtime_ns: 0,
            memory_sha256: String::new(),
            created_at_ms: 1,
        }
    }

    fn make(store: &Store, key: &Key, bytes: u64) {
        let making = store.begin(key, 0).unwrap().expect("nobody else makes it");
        let file = making.create_state().unwrap();
        file.set_len(bytes).unwrap();
        making.create_memory().unwrap().set_len(1 << 20).unwrap();
        making.publish(record(key, bytes)).unwrap();
    }

    fn names(store: &Store) -> Vec<String> {
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

    fn create_private(path: &Path) -> File {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .unwrap()
    }

    /// Random numbers that each run of a test repeats (xorshift).
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % limit as u64).unwrap()
        }

        fn byte(&mut self) -> u8 {
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
    fn meaning(record: &Record) -> (&str, &KeyParts, [u64; 2], [i64; 2]) {
        (
            &record.key,
            &record.parts,
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
            sha256: "0123456789abcdef".repeat(4),
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
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
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
                        "{round}: {text}"
                    );
                }
                Lookup::Damaged(_) => damaged_count += 1,
                Lookup::Absent => panic!("round {round}: the snapshot was there"),
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
        let Lookup::Found(mut found) = store.find(&key) else {
            panic!("it was just made");
        };
        fs::remove_dir_all(&store.dir).unwrap();
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut found.state, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 10]);
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
}
