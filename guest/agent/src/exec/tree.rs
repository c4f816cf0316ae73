//! The processes of one exec: a process group, and in a guest a cgroup that they cannot leave.

use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};

use crate::cgroup::ExecCgroup;
use crate::reaper::{Exit, Leader, Reaper};

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

    /// Returns how the leader ended, once it has.
    pub fn exit(&self) -> Option<Exit> {
        self.leader.exit()
    }

    pub fn signal(&self, reaper: &Reaper, signal: Signal) {
        match &self.cgroup {
            // Pids of a cgroup are used right after they are read. A pid that is reused in between belongs, in the
            // worst case, to another process of the same user.
            Some(cgroup) => {
                for pid in cgroup.pids() {
                    let _ = kill_process(pid, signal);
                }
            }
            None => reaper.signal_group(&self.leader, signal),
        }
    }

    /// Sends SIGKILL to all processes. With a cgroup, this includes processes that are being forked.
    pub fn kill(&self, reaper: &Reaper) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        reaper.signal_group(&self.leader, Signal::KILL);
    }

    /// The number of processes of this exec that were killed to free memory.
    pub fn oom_kills(&self) -> u64 {
        self.cgroup.as_ref().map_or(0, ExecCgroup::oom_kills)
    }
}
