//! Cgroups: one for all user processes, and below it one for each exec.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::lock::lock;
use crate::log;
use crate::procfs;

/// How often removal of a killed cgroup is tried before its folder stays.
const REMOVE_TRIES: u32 = 200;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);

/// The cgroup of an exec, for `ExecFreeze`.
pub struct Child {
    pub path: PathBuf,
    pub is_frozen: bool,
    /// The number of its processes that the agent killed to free memory.
    killed_for_memory: Arc<AtomicU64>,
}

/// The contents of a full memory, and counters of page reads.
pub struct MemoryStat {
    /// All memory of users.
    pub limit_bytes: u64,
    /// File pages that were read again after the kernel had dropped them, since the boot.
    pub refaults: u64,
    /// The number of times that a program waited for one of its own pages, such as code, to be read from a disk, since
    /// the boot.
    pub major_faults: u64,
    /// Pages of files on disks, which the kernel can drop.
    pub file_bytes: u64,
}

/// The cgroups of running execs, by request id.
pub type Children = Arc<Mutex<HashMap<u32, Child>>>;

/// The cgroup of all user processes, under which each exec has its own.
pub struct CgroupParent {
    path: PathBuf,
    next: AtomicU64,
    children: Children,
    /// Like [`Child::killed_for_memory`], but for all execs since the boot.
    killed_for_memory: AtomicU64,
}

impl CgroupParent {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            next: AtomicU64::new(0),
            children: Children::default(),
            killed_for_memory: AtomicU64::new(0),
        }
    }

    /// The number of users' processes and threads.
    pub fn processes(&self) -> u64 {
        read(&self.path, "pids.current").trim().parse().unwrap_or(0)
    }

    /// The number of users' processes that were killed to free memory.
    pub fn oom_kills(&self) -> u64 {
        oom_kills(&self.path) + self.killed_for_memory.load(Ordering::Relaxed)
    }

    /// Returns `None` unless users have all of their memory, except one percent.
    pub fn full_memory(&self) -> Option<MemoryStat> {
        let number = |name| read(&self.path, name).trim().parse::<u64>().ok();
        let limit_bytes = number("memory.max")?;
        if number("memory.current")? < limit_bytes - limit_bytes / 100 {
            return None;
        }
        let text = read(&self.path, "memory.stat");
        let value = |name| field(&text, name).unwrap_or(0);
        Some(MemoryStat {
            limit_bytes,
            refaults: value("workingset_refault_file"),
            major_faults: value("pgmajfault"),
            // `file` also counts `/dev/shm`, which the kernel cannot drop.
            file_bytes: value("file").saturating_sub(value("shmem")),
        })
    }

    /// Sends SIGKILL to the user process that the kernel would kill first, and counts it as killed to free memory.
    pub fn kill_largest(&self) -> Option<Pid> {
        let children = lock(&self.children);
        let (_, pid, child) = children
            .values()
            .filter(|child| !child.is_frozen)
            .flat_map(|child| pids(&child.path).into_iter().map(move |pid| (pid, child)))
            .filter_map(|(pid, child)| Some((procfs::oom_score(pid)?, pid, child)))
            .max_by_key(|(score, ..)| *score)?;
        kill_process(pid, Signal::KILL).ok()?;
        child.killed_for_memory.fetch_add(1, Ordering::Relaxed);
        self.killed_for_memory.fetch_add(1, Ordering::Relaxed);
        Some(pid)
    }

    /// Sends SIGKILL to every user process.
    pub fn kill_all(&self) {
        kill(&self.path);
    }

    /// Sends SIGKILL to every user process, and waits until all have ended, so that no open file is left.
    pub fn end_all(&self) -> io::Result<()> {
        self.kill_all();
        for _ in 0..REMOVE_TRIES {
            if !is_populated(&self.path) {
                return Ok(());
            }
            thread::sleep(REMOVE_PAUSE);
        }
        Err(io::Error::other("killed processes of users do not end"))
    }

    /// Returns true while a command of a user runs.
    pub fn has_execs(&self) -> bool {
        !lock(&self.children).is_empty()
    }

    pub fn children(&self) -> &Children {
        &self.children
    }

    /// Makes the cgroup of one exec.
    pub fn make_child(&self, exec: u32) -> io::Result<ExecCgroup> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("exec-{number}"));
        fs::create_dir(&path)?;
        let killed_for_memory = Arc::new(AtomicU64::new(0));
        let child = Child {
            path: path.clone(),
            is_frozen: false,
            killed_for_memory: killed_for_memory.clone(),
        };
        lock(&self.children).insert(exec, child);
        Ok(ExecCgroup {
            exec,
            path,
            children: self.children.clone(),
            killed_for_memory,
        })
    }
}

/// The cgroup of one exec; dropping this removes it with all its processes.
pub struct ExecCgroup {
    exec: u32,
    path: PathBuf,
    children: Children,
    killed_for_memory: Arc<AtomicU64>,
}

impl ExecCgroup {
    /// Opens the file to which a process writes `0` to join.
    pub fn open_procs(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .open(self.path.join("cgroup.procs"))
    }

    pub fn kill(&self) {
        kill(&self.path);
    }

    pub fn pids(&self) -> Vec<Pid> {
        pids(&self.path)
    }

    /// The number of its processes that were killed to free memory.
    pub fn oom_kills(&self) -> u64 {
        oom_kills(&self.path) + self.killed_for_memory.load(Ordering::Relaxed)
    }
}

impl Drop for ExecCgroup {
    fn drop(&mut self) {
        lock(&self.children).remove(&self.exec);
        self.kill();
        for _ in 0..REMOVE_TRIES {
            match fs::remove_dir(&self.path) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    thread::sleep(REMOVE_PAUSE);
                }
                Ok(()) => return,
                Err(error) => return log::line(&format!("{}: {error}", self.path.display())),
            }
        }
        log::line(&format!(
            "{}: not empty after its kill",
            self.path.display()
        ));
    }
}

fn read(cgroup: &Path, name: &str) -> String {
    fs::read_to_string(cgroup.join(name)).unwrap_or_default()
}

fn pids(cgroup: &Path) -> Vec<Pid> {
    read(cgroup, "cgroup.procs")
        .lines()
        .filter_map(|line| Pid::from_raw(line.parse().ok()?))
        .collect()
}

fn kill(cgroup: &Path) {
    if let Err(error) = fs::write(cgroup.join("cgroup.kill"), "1") {
        log::line(&format!("{}: cgroup.kill: {error}", cgroup.display()));
    }
}

/// Returns true if all processes of the cgroup are frozen.
pub fn is_frozen(cgroup: &Path) -> bool {
    field(&read(cgroup, "cgroup.events"), "frozen") == Some(1)
}

/// Returns true if a process of the cgroup, or of one below it, has not ended.
fn is_populated(cgroup: &Path) -> bool {
    field(&read(cgroup, "cgroup.events"), "populated") != Some(0)
}

fn oom_kills(cgroup: &Path) -> u64 {
    field(&read(cgroup, "memory.events"), "oom_kill").unwrap_or(0)
}

/// Reads a value from lines of the form `name value`.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "oom 3\noom_kill 2\noom_group_kill 0\n";
        assert_eq!(field(text, "oom_kill"), Some(2));
        assert_eq!(field(text, "kill"), None);
    }
}
