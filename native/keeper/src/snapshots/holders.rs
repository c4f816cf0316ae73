//! The keepers that hold the sealed memory of a snapshot. A later keeper opens the memory of one that lives, so that all
//! their VMs share it. If none lives, it reads the file, and becomes a holder itself.
//!
//! No keeper needs another one: a holder that ends takes nothing with it, because VMMs and keepers have their own
//! descriptors.
//!
//! Keepers of another container may use the same folder. A process id means nothing outside of its pid namespace, so a
//! record names its namespace too.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::memory::{SEALED_NAME, is_sealed, load};
use super::namespaces::{Namespace, own_namespace};
use crate::run_dir::{replace_private, try_lock_file};

const HOLDERS: &str = "holders";
const LOCK: &str = "holders/.lock";
const MAX_RECORD_BYTES: u64 = 4096;
/// The time for which a keeper waits while another one reads the file. After it, the keeper reads the file itself.
const LOCK_LIMIT: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(2);
/// The age at which a record of another pid namespace no longer counts: its keeper cannot be seen from here.
const UNSEEN_LIMIT: Duration = Duration::from_secs(3600);

/// The file of one holder in `holders/`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Holder {
    pid: u32,
    pid_namespace: u64,
    /// The start of the process, in ticks since the boot of the host: a later process may have its id.
    started_ticks: u64,
    fd: i32,
    inode: u64,
}

/// Returns the sealed memory of the snapshot in `folder`, and makes this process a holder of it. The error is one of
/// the snapshot's own file. Blocks while another keeper reads the file.
pub fn hold(folder: &Path, memory: &File, bytes: u64) -> io::Result<File> {
    let _lock = lock(folder);
    let held = match find(folder, bytes) {
        Some(held) => held,
        None => load(memory, bytes)?,
    };
    // Without a record, other VMs do not share the memory of this one.
    if let Err(error) = record(folder, &held) {
        eprintln!("the memory of the snapshot is not shared: {error}");
    }
    Ok(held)
}

fn lock(folder: &Path) -> Option<File> {
    let dir = folder.join(HOLDERS);
    // If it exists already, it is used as it is.
    let _ = DirBuilder::new().mode(0o700).create(dir);
    let since = Instant::now();
    loop {
        match try_lock_file(&folder.join(LOCK)) {
            Ok(Some(lock)) => return Some(lock),
            Ok(None) if since.elapsed() < LOCK_LIMIT => thread::sleep(POLL),
            _ => return None,
        }
    }
}

/// Opens the memory of a holder that lives, and removes the records of those that do not.
fn find(folder: &Path, bytes: u64) -> Option<File> {
    let entries = fs::read_dir(folder.join(HOLDERS)).ok()?;
    for path in records(entries) {
        let holder = read(&path);
        if let Some(held) = holder.as_ref().and_then(|holder| open(holder, bytes)) {
            return Some(held);
        }
        if !holder.is_some_and(|holder| holder.may_be_unseen(&path)) {
            let _ = fs::remove_file(path);
        }
    }
    None
}

/// Whether a keeper that lives holds the memory of the snapshot in `folder`, or a keeper of another pid namespace may
/// hold it. Changes nothing.
pub fn is_held(folder: &Path, bytes: u64) -> bool {
    let Ok(entries) = fs::read_dir(folder.join(HOLDERS)) else {
        return false;
    };
    records(entries).any(|path| {
        read(&path)
            .is_some_and(|holder| holder.may_be_unseen(&path) || open(&holder, bytes).is_some())
    })
}

fn records(entries: fs::ReadDir) -> impl Iterator<Item = PathBuf> {
    entries
        .flatten()
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .map(|entry| entry.path())
}

fn read(path: &Path) -> Option<Holder> {
    let mut text = Vec::new();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    file.take(MAX_RECORD_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

impl Holder {
    /// Whether the process may live in another pid namespace, where this one cannot find it.
    fn may_be_unseen(&self, path: &Path) -> bool {
        let changed = fs::symlink_metadata(path).and_then(|file| file.modified());
        self.is_elsewhere()
            && changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < UNSEEN_LIMIT))
    }

    fn is_elsewhere(&self) -> bool {
        own_namespace(Namespace::Pid) != Some(self.pid_namespace)
    }
}

fn open(holder: &Holder, bytes: u64) -> Option<File> {
    if holder.is_elsewhere() || started_ticks(holder.pid)? != holder.started_ticks {
        return None;
    }
    let path = format!("/proc/{}/fd/{}", holder.pid, holder.fd);
    // Some files block or act when they are opened.
    let target = fs::read_link(&path).ok()?;
    if !target
        .to_str()?
        .starts_with(&format!("/memfd:{SEALED_NAME}"))
    {
        return None;
    }
    // QEMU opens its memory for writing, which the seals make harmless.
    let held = File::options().read(true).write(true).open(path).ok()?;
    let is_same = held.metadata().ok()?.ino() == holder.inode;
    (is_same && is_sealed(&held, bytes)).then_some(held)
}

fn record(folder: &Path, held: &File) -> io::Result<()> {
    let pid = std::process::id();
    let pid_namespace =
        own_namespace(Namespace::Pid).ok_or_else(|| io::Error::other("no /proc"))?;
    let holder = Holder {
        pid,
        pid_namespace,
        started_ticks: started_ticks(pid).ok_or_else(|| io::Error::other("no /proc"))?,
        fd: held.as_raw_fd(),
        inode: held.metadata()?.ino(),
    };
    let text = serde_json::to_vec(&holder).map_err(io::Error::other)?;
    let name = format!("{pid}-{pid_namespace}");
    let [partial, complete] = [".new-", ""].map(|prefix| path_of(folder, prefix, &name));
    replace_private(&complete, &partial, &text)
}

fn path_of(folder: &Path, prefix: &str, name: &str) -> PathBuf {
    folder.join(HOLDERS).join(format!("{prefix}{name}"))
}

/// Returns the time at which a process started. The name, which precedes it, may contain any characters.
fn started_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const BYTES: u64 = 1 << 20;

    fn snapshot() -> (tempfile::TempDir, File) {
        let folder = tempfile::tempdir().unwrap();
        let memory = tempfile::tempfile().unwrap();
        memory.set_len(BYTES).unwrap();
        memory.write_all_at(b"memory", 8192).unwrap();
        (folder, memory)
    }

    fn inode(file: &File) -> u64 {
        file.metadata().unwrap().ino()
    }

    fn own_record(folder: &Path) -> PathBuf {
        let namespace = own_namespace(Namespace::Pid).unwrap();
        path_of(folder, "", &format!("{}-{namespace}", std::process::id()))
    }

    fn change(path: &Path, change: impl FnOnce(&mut Holder)) {
        let mut holder = read(path).unwrap();
        change(&mut holder);
        fs::write(path, serde_json::to_vec(&holder).unwrap()).unwrap();
    }

    #[test]
    fn keepers_share_the_memory_of_a_holder_that_lives_and_read_the_file_without_one() {
        let (folder, memory) = snapshot();
        let first = hold(folder.path(), &memory, BYTES).unwrap();
        let second = hold(folder.path(), &memory, BYTES).unwrap();
        assert_eq!(inode(&first), inode(&second));
        // The record names the descriptor of the second by now.
        drop(first);
        let third = hold(folder.path(), &memory, BYTES).unwrap();
        assert_eq!(inode(&second), inode(&third));
        let before = inode(&third);
        drop((second, third));
        let again = hold(folder.path(), &memory, BYTES).unwrap();
        assert_ne!(inode(&again), before);
        let mut bytes = [0; 6];
        again.read_exact_at(&mut bytes, 8192).unwrap();
        assert_eq!(&bytes, b"memory");
    }

    #[test]
    fn a_record_that_names_other_memory_is_not_used_and_removed() {
        type Change = fn(&mut Holder);
        let changes: [Change; 5] = [
            |holder| holder.started_ticks += 1,
            |holder| holder.fd = 1,
            |holder| holder.inode += 1,
            |holder| holder.pid = u32::MAX,
            |holder| holder.fd = -1,
        ];
        for change in changes {
            let (folder, memory) = snapshot();
            let held = hold(folder.path(), &memory, BYTES).unwrap();
            let path = own_record(folder.path());
            self::change(&path, change);
            let holder = read(&path);
            assert!(!is_held(folder.path(), BYTES), "{holder:?}");
            assert!(find(folder.path(), BYTES).is_none(), "{holder:?}");
            assert!(!path.exists());
            drop(held);
        }
    }

    #[test]
    fn a_record_of_another_pid_namespace_is_never_opened_and_stays_for_an_hour() {
        let (folder, memory) = snapshot();
        let held = hold(folder.path(), &memory, BYTES).unwrap();
        let path = own_record(folder.path());
        change(&path, |holder| holder.pid_namespace += 1);
        assert!(find(folder.path(), BYTES).is_none());
        assert!(path.exists() && is_held(folder.path(), BYTES));
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::now() - UNSEEN_LIMIT)
            .unwrap();
        assert!(!is_held(folder.path(), BYTES));
        assert!(find(folder.path(), BYTES).is_none());
        assert!(!path.exists());
        drop(held);
    }

    #[test]
    fn memory_that_is_not_sealed_or_of_another_size_is_not_used() {
        let (folder, memory) = snapshot();
        let held = hold(folder.path(), &memory, BYTES).unwrap();
        assert!(find(folder.path(), 2 * BYTES).is_none());
        let open = rustix::fs::memfd_create(SEALED_NAME, rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let open = File::from(open);
        open.set_len(BYTES).unwrap();
        record(folder.path(), &open).unwrap();
        assert!(find(folder.path(), BYTES).is_none());
        record(folder.path(), &held).unwrap();
        assert!(find(folder.path(), BYTES).is_some());
    }

    #[test]
    fn a_folder_without_room_for_a_record_costs_only_the_sharing() {
        let (folder, memory) = snapshot();
        fs::write(folder.path().join(HOLDERS), "no folder").unwrap();
        let one = hold(folder.path(), &memory, BYTES).unwrap();
        let two = hold(folder.path(), &memory, BYTES).unwrap();
        assert_ne!(inode(&one), inode(&two));
    }
}
