//! The processes of one exec: a process group, and in a guest a cgroup that none of them can
//! leave.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::log;
use crate::reaper::{Exit, Leader, Reaper};

/// How long a killed cgroup may take to be empty before its folder is left for later.
const REMOVE_TRIES: u32 = 200;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);

/// The cgroup of all user processes, under which each exec has its own.
pub struct CgroupParent {
    path: PathBuf,
    next: AtomicU64,
}

impl CgroupParent {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            next: AtomicU64::new(0),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the cgroup of one exec.
    pub fn make_child(&self) -> io::Result<ExecCgroup> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("exec-{number}"));
        fs::create_dir(&path)?;
        Ok(ExecCgroup { path })
    }
}

/// The cgroup of one exec; removed, with all that is in it, when it is dropped.
pub struct ExecCgroup {
    path: PathBuf,
}

impl ExecCgroup {
    /// Open for a process that writes `0` to join.
    pub fn open_procs(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .open(self.path.join("cgroup.procs"))
    }

    fn kill(&self) {
        if let Err(error) = fs::write(self.path.join("cgroup.kill"), "1") {
            log::line(&format!("{}: cgroup.kill: {error}", self.path.display()));
        }
    }

    fn pids(&self) -> Vec<Pid> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        text.lines()
            .filter_map(|line| Pid::from_raw(line.parse().ok()?))
            .collect()
    }

    fn oom_kills(&self) -> u64 {
        fs::read_to_string(self.path.join("memory.events"))
            .ok()
            .and_then(|text| field(&text, "oom_kill"))
            .unwrap_or(0)
    }
}

impl Drop for ExecCgroup {
    fn drop(&mut self) {
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

/// A value of a `name value` file of the kernel.
pub fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.trim().parse().ok())
}

/// All processes of one exec.
pub struct Tree {
    leader: Arc<Leader>,
    cgroup: Option<ExecCgroup>,
}

impl Tree {
    pub fn new(leader: Arc<Leader>, cgroup: Option<ExecCgroup>) -> Self {
        Self { leader, cgroup }
    }

    pub fn pid(&self) -> Pid {
        self.leader.pid
    }

    /// How the leader ended, once it has.
    pub fn exit(&self) -> Option<Exit> {
        self.leader.exit()
    }

    pub fn signal(&self, reaper: &Reaper, signal: Signal) {
        match &self.cgroup {
            // Pids of a cgroup are read and used at once; a pid that is reused in between is in
            // the worst case another process of the same user.
            Some(cgroup) => {
                for pid in cgroup.pids() {
                    let _ = kill_process(pid, signal);
                }
            }
            None => reaper.signal_group(&self.leader, signal),
        }
    }

    /// SIGKILL to everything, forks in flight included where there is a cgroup.
    pub fn kill(&self, reaper: &Reaper) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        reaper.signal_group(&self.leader, Signal::KILL);
    }

    /// Processes of this exec that the kernel killed for want of memory.
    pub fn oom_kills(&self) -> u64 {
        self.cgroup.as_ref().map_or(0, ExecCgroup::oom_kills)
    }
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
