//! The run directory of one VM: its files, its lock, and the VM's state that they show.

mod report;

pub use report::{Report, SealError};

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub const INTENT: &str = "intent.json";
pub const LOCK: &str = "lock";
pub const STARTED: &str = "started";
pub const FENCE: &str = "fence";
pub const KEEPER: &str = "keeper.json";
pub const SOCKET: &str = "k.sock";
pub const CONSOLE: &str = "console.log";
pub const SCRATCH: &str = "scratch.img";
pub const EXECS: &str = "exec";
pub const EXIT: &str = "exit.json";
/// The time until which the VM is retained, and the note of its client; absent if it is not retained.
pub const RETAINED: &str = "retained.json";
/// The notices of the door, one line of JSON each.
pub const NOTICES: &str = "notices";
/// The control groups of the VM, which a sweep removes if the keeper could not.
pub const CGROUPS: &str = "cgroups.json";
pub const LOG: &str = "keeper.log";

/// The state of a run directory: `Running` if its lock is held, otherwise the state in its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VmState {
    /// No VM was ever started in this directory.
    New,
    /// A keeper holds the lock.
    Running,
    /// A VM was started, and its keeper ended without writing a reason.
    Lost,
    /// A keeper wrote why its VM ended.
    Stopped,
}

/// The content of `keeper.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeeperFile {
    pub pid: u32,
    pub version: String,
    pub started_at_ms: u64,
}

#[derive(Debug, Clone)]
pub struct RunDir {
    path: PathBuf,
}

/// A file that allows users' commands to enter the VM. Its worker writes it.
pub const ENTRY: &str = "entry.json";

/// The files that [`RunDir::write_durable`] replaces.
const DURABLE: [&str; 6] = [EXIT, FENCE, INTENT, KEEPER, RETAINED, STARTED];

/// Returns the name of a file until it is complete.
fn temporary_of(name: &str) -> String {
    format!("{name}.new")
}

/// Returns true for names of files that only a killed keeper or worker leaves.
fn is_leftover(name: &str) -> bool {
    let Some(whole) = name.strip_suffix(".new") else {
        return name == SOCKET || name == SCRATCH;
    };
    DURABLE.contains(&whole) || is_entry_of_process(whole)
}

/// A worker puts its process id into the name of a partial file, because two workers may write at once.
fn is_entry_of_process(name: &str) -> bool {
    name.strip_prefix(ENTRY)
        .and_then(|rest| rest.strip_prefix('.'))
        .is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
}

impl RunDir {
    /// Refers to the directory at `path`, which need not exist yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes the directory and its parents, with mode 0700.
    pub fn create(&self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
    }

    /// Replaces a file: a reader sees the old or the new contents, also after a power failure.
    pub fn write_durable(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(DURABLE.contains(&name), "{name} would be left behind");
        let temporary = self.file(&temporary_of(name));
        let mut file = private_file(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, self.file(name))?;
        File::open(&self.path)?.sync_all()
    }

    /// Takes the lock that a keeper holds for its life; `None` if another process holds it.
    ///
    /// It is an open-file-description lock: a child that inherits the descriptor also holds it, and a process can test
    /// it without taking it.
    pub fn try_lock(&self) -> io::Result<Option<File>> {
        loop {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .mode(0o600)
                .open(self.file(LOCK))?;
            if !ofd_lock(&file, libc::F_OFD_SETLK)? {
                return Ok(None);
            }
            // A sweep may have removed the directory between the two calls above.
            let here = fs::metadata(self.file(LOCK)).map(|found| (found.dev(), found.ino()));
            let mine = file.metadata()?;
            match here {
                Ok(found) if found == (mine.dev(), mine.ino()) => return Ok(Some(file)),
                _ => self.create()?,
            }
        }
    }

    /// Returns true while a keeper or a launch holds the lock. Changes nothing.
    pub fn is_locked(&self) -> io::Result<bool> {
        match OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.file(LOCK))
        {
            Ok(file) => Ok(!ofd_lock(&file, libc::F_OFD_GETLK)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn state(&self) -> io::Result<VmState> {
        if self.is_locked()? {
            return Ok(VmState::Running);
        }
        Ok(self.state_unlocked())
    }

    /// Returns the state in the files, which is valid if no other process holds the lock.
    pub fn state_unlocked(&self) -> VmState {
        if self.file(EXIT).exists() {
            VmState::Stopped
        } else if self.file(STARTED).exists() {
            VmState::Lost
        } else {
            VmState::New
        }
    }

    /// Returns true if [`RunDir::remove_leftovers`] would remove anything. Changes nothing.
    pub fn has_leftovers(&self) -> io::Result<bool> {
        Ok(!self.leftovers()?.is_empty())
    }

    /// Removes files that a killed keeper could not remove, and that are useless without it: its socket, its VM's disk,
    /// by far the largest file, and files that it or its worker was about to rename. The caller must hold the lock.
    pub fn remove_leftovers(&self) -> io::Result<()> {
        for path in self.leftovers()? {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn leftovers(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.path) {
            // Another sweep has removed the directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(is_leftover) {
                found.push(entry.path());
            }
        }
        Ok(found)
    }

    /// Returns the last granted fence; 0 if none was granted.
    pub fn read_fence(&self) -> io::Result<u64> {
        match fs::read_to_string(self.file(FENCE)) {
            Ok(text) => text.trim().parse().map_err(|_| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("the fence file has {text:?}"),
                )
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    pub fn write_fence(&self, fence: u64) -> io::Result<()> {
        self.write_durable(FENCE, format!("{fence}\n").as_bytes())
    }

    pub fn keeper(&self) -> Option<KeeperFile> {
        serde_json::from_slice(&fs::read(self.file(KEEPER)).ok()?).ok()
    }
}

/// Takes an exclusive lock on a file next to run directories, and makes the file if absent; `None` if another process
/// holds the lock.
pub fn try_lock_file(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    Ok(ofd_lock(&file, libc::F_OFD_SETLK)?.then_some(file))
}

/// Creates or empties a file that only its owner can read. A link at its path is an error.
pub fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

/// Replaces a file that only its owner can read: a reader sees the old or the new contents. After a power failure it may
/// see neither. A failure leaves no `temporary`, which would use space on a disk that was too full for it.
pub fn replace_private(path: &Path, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    let replaced = private_file(temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(temporary, path));
    if replaced.is_err() {
        let _ = fs::remove_file(temporary);
    }
    replaced
}

/// Converts a constant of `struct flock`, whose fields are shorter than the constants.
fn small(constant: libc::c_int) -> libc::c_short {
    libc::c_short::try_from(constant).expect("lock constants are below 10")
}

/// With `F_OFD_SETLK` takes the lock, with `F_OFD_GETLK` tests it; returns true if no other process holds it.
fn ofd_lock(file: &File, command: libc::c_int) -> io::Result<bool> {
    let mut lock = whole_file(libc::F_WRLCK);
    // SAFETY: the descriptor is open and `lock` lives across the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } == -1 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(false),
            _ => Err(error),
        };
    }
    Ok(command == libc::F_OFD_SETLK || lock.l_type == small(libc::F_UNLCK))
}

/// Gives a lock back, also if a child that another thread has just forked still has the descriptor.
fn unlock(file: File) -> io::Result<()> {
    let lock = whole_file(libc::F_UNLCK);
    // SAFETY: the descriptor is open and `lock` lives across the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn whole_file(kind: libc::c_int) -> libc::flock {
    // SAFETY: `flock` is plain data for which all zeroes are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = small(kind);
    lock.l_whence = small(libc::SEEK_SET);
    lock
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_file_is_replaced_whole_or_not_at_all() {
        let temp = tempfile::tempdir().unwrap();
        let [path, temporary] = ["record", "record.new"].map(|name| temp.path().join(name));
        replace_private(&path, &temporary, b"first").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);

        let other = temp.path().join("other");
        fs::write(&other, "of another").unwrap();
        std::os::unix::fs::symlink(&other, &temporary).unwrap();
        replace_private(&path, &temporary, b"through a link").unwrap_err();
        assert_eq!(fs::read(&other).unwrap(), b"of another");
        assert_eq!(fs::read(&path).unwrap(), b"first");

        fs::create_dir(temp.path().join("folder")).unwrap();
        replace_private(&temp.path().join("folder"), &temporary, b"second").unwrap_err();
        assert!(!temporary.exists());
    }

    #[test]
    fn the_lock_has_one_holder_and_can_be_asked_for() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::at(temp.path());
        assert!(!dir.is_locked().unwrap());
        let held = dir.try_lock().unwrap().expect("free");
        assert!(dir.is_locked().unwrap());
        assert!(dir.try_lock().unwrap().is_none());
        assert_eq!(dir.state().unwrap(), VmState::Running);
        drop(held);
        assert!(!dir.is_locked().unwrap());
        assert_eq!(dir.state().unwrap(), VmState::New);
    }

    #[test]
    fn markers_tell_lost_from_stopped() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::at(temp.path());
        fs::write(dir.file(STARTED), "").unwrap();
        assert_eq!(dir.state().unwrap(), VmState::Lost);
        fs::write(dir.file(EXIT), "{}").unwrap();
        assert_eq!(dir.state().unwrap(), VmState::Stopped);
    }

    #[test]
    fn a_fence_survives_and_a_torn_one_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::at(temp.path());
        assert_eq!(dir.read_fence().unwrap(), 0);
        dir.write_fence(41).unwrap();
        dir.write_fence(42).unwrap();
        assert_eq!(dir.read_fence().unwrap(), 42);
        fs::write(dir.file(FENCE), "4x").unwrap();
        assert!(dir.read_fence().is_err());
    }

    #[test]
    fn a_lock_is_given_back_though_a_child_has_its_descriptor() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::at(temp.path());
        let held = dir.try_lock().unwrap().expect("free");
        let of_child = held.try_clone().unwrap();
        unlock(held).unwrap();
        assert!(!dir.is_locked().unwrap());
        drop(of_child);
    }
}
