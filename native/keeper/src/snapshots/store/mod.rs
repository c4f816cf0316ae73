//! The folder of snapshots: one folder for each key, complete or absent.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::holders;
#[cfg(test)]
use super::key::example_parts;
use super::key::{Key, KeyParts, hex};
use super::touched::{TOUCHED, Touched};
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
/// The limit of `state`, which a start reads whole. QEMU writes less than 1 MiB for the devices of a VM.
const MAX_STATE_BYTES: u64 = 16 << 20;
/// The room that stays free for others beside a new snapshot.
const SPARE_BYTES: u64 = 1 << 30;

/// The content of `snapshot.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    pub key: String,
    pub parts: KeyParts,
    /// The mount namespace in which the paths of the parts name these files; `None` if it is not known.
    pub mount_namespace: Option<u64>,
    /// Documents the speed of the TSC that the guest was told. Each launch measures it, and a copy does not need it.
    pub tsc_khz: u64,
    pub memory_mib: u32,
    pub state_bytes: u64,
    pub state_mtime_ns: i64,
    /// The hash of the state, which each start compares.
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

    /// Whether no VM has the key of this snapshot again, seen from the keeper that made `own`. In another mount
    /// namespace the paths of this snapshot name other files, so they prove nothing. A container has such a namespace.
    fn is_useless_beside(&self, own: &Self) -> bool {
        let shares_paths =
            own.mount_namespace.is_some() && own.mount_namespace == self.mount_namespace;
        self.parts.host_boot != own.parts.host_boot
            || (shares_paths && self.parts.has_replaced_file())
    }
}

pub struct Store {
    dir: PathBuf,
    max_bytes: u64,
}

/// A snapshot from which a VM can start.
#[derive(Debug)]
pub struct Found {
    /// The state with the hash that the record names. A later change of its file reaches no VM.
    pub state: Vec<u8>,
    pub record: Record,
    /// The pages that an earlier copy used first, if they are known.
    pub touched: Option<Touched>,
    memory: File,
    folder: PathBuf,
}

impl Found {
    /// Returns the file of the memory, open for reading only.
    pub fn memory(&self) -> io::Result<File> {
        self.memory.try_clone()
    }

    /// Returns sealed memory with the content of the file, which all VMs of the snapshot share, for a VMM that opens its
    /// memory for writing. Blocks while the file is read.
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

    /// Records the pages that a copy has used first. Without the record, later copies only start slower.
    pub fn record_touched(&self, key: &str, touched: &Touched) -> io::Result<()> {
        touched.store(&self.folder(key))
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

    /// Removes snapshots from which no VM can start again: those of earlier boots of the host, and those whose VMM,
    /// kernel or initramfs was replaced. Removes remains of keepers that died, and beyond the limit the snapshots that
    /// were not used for the longest time, but never `kept` and none whose memory a keeper holds. A snapshot whose files
    /// exist unchanged stays: another installation may use it.
    fn evict(&self, kept: &Record) -> io::Result<()> {
        self.remove_leftovers()?;
        let mut whole: Vec<(SystemTime, String, Record)> = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.starts_with('.') || name == kept.key {
                continue;
            }
            match read_record(&entry.path()) {
                Ok(record) if !record.is_useless_beside(kept) => {
                    let used =
                        fs::metadata(entry.path().join(USED)).and_then(|file| file.modified());
                    whole.push((used.unwrap_or(SystemTime::UNIX_EPOCH), name, record));
                }
                _ => self.remove(&name),
            }
        }
        whole.sort_by(|(used, name, _), (other_used, other, _)| {
            (used, name).cmp(&(other_used, other))
        });
        let sizes = whole.iter().map(|(_, _, record)| record.disk_bytes());
        let mut total: u64 = kept.disk_bytes() + sizes.sum::<u64>();
        for (_, name, record) in whole {
            if total <= self.max_bytes {
                break;
            }
            if holders::is_held(&self.folder(&name), record.guest_bytes()) {
                continue;
            }
            self.remove(&name);
            total -= record.disk_bytes();
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
        check_state_size(record.state_bytes)?;
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
    let state = read_state(folder, &record)?;
    let memory = open_unchanged(folder, MEMORY, record.guest_bytes(), record.memory_mtime_ns)?;
    Ok(Found {
        state,
        touched: open_own(&folder.join(TOUCHED))
            .ok()
            .and_then(|file| Touched::load(file, record.guest_bytes())),
        record,
        memory,
        folder: folder.to_owned(),
    })
}

/// Reads the state, and compares its hash. A state that only its hash distinguishes from the right one could become a
/// guest that runs and is wrong.
fn read_state(folder: &Path, record: &Record) -> io::Result<Vec<u8>> {
    check_state_size(record.state_bytes)?;
    let file = open_unchanged(folder, STATE, record.state_bytes, record.state_mtime_ns)?;
    let mut state = Vec::new();
    file.take(record.state_bytes).read_to_end(&mut state)?;
    let found = hex(&Sha256::digest(&state));
    if found != record.sha256 {
        return Err(io::Error::other(format!(
            "its {STATE} has the SHA-256 {found}, expected {:?}",
            record.sha256
        )));
    }
    Ok(state)
}

pub(super) fn check_state_size(bytes: u64) -> io::Result<()> {
    if bytes > MAX_STATE_BYTES {
        return Err(io::Error::other(format!(
            "its {STATE} has {bytes} bytes; at most {MAX_STATE_BYTES} are allowed"
        )));
    }
    Ok(())
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
    file.take(MAX_RECORD_BYTES).read_to_end(&mut text)?;
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
mod changed_state;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod tests;
