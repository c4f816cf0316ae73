//! The only code that waits for children: leaders of execs and, as PID 1, every orphan.
//!
//! A zombie is inspected before it is reaped, under the lock that is held while a child is started. So a child that
//! ends before it is registered waits, a child whose start failed is left to `Command`, and a pid is never signalled
//! after it was reaped.

use std::collections::HashMap;
use std::io;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};

use crate::lock::lock;

/// How a leader ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

/// The record in which the reaper stores the end of one leader.
pub struct Leader {
    pub pid: Pid,
    exit: OnceLock<Exit>,
    on_exit: Box<dyn Fn() + Send + Sync>,
}

impl Leader {
    pub fn exit(&self) -> Option<Exit> {
        self.exit.get().copied()
    }
}

type Leaders = HashMap<i32, Arc<Leader>>;

/// Starts children and reaps them.
#[derive(Clone, Default)]
pub struct Reaper {
    leaders: Arc<Mutex<Leaders>>,
}

impl Reaper {
    /// Starts the reaping thread. SIGCHLD must be blocked in every thread of the process.
    pub fn start() -> io::Result<Self> {
        let reaper = Self::default();
        let leaders = reaper.leaders.clone();
        thread::Builder::new()
            .name("reaper".into())
            .stack_size(256 << 10)
            .spawn(move || {
                loop {
                    reap_all(&leaders);
                    wait_for_sigchld();
                }
            })?;
        Ok(reaper)
    }

    /// Starts `command` as the leader of its own process group. The reaper calls `on_exit` when it has ended; `on_exit`
    /// must not block.
    pub fn spawn(
        &self,
        command: &mut Command,
        on_exit: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<(Child, Arc<Leader>)> {
        let mut leaders = lock(&self.leaders);
        let child = command.spawn()?;
        let leader = Arc::new(Leader {
            pid: Pid::from_child(&child),
            exit: OnceLock::new(),
            on_exit: Box::new(on_exit),
        });
        leaders.insert(leader.pid.as_raw_nonzero().get(), leader.clone());
        Ok((child, leader))
    }

    /// Signals the leader's process group, unless the leader was reaped: then its pid may belong to another process.
    pub fn signal_group(&self, leader: &Leader, signal: Signal) {
        let leaders = lock(&self.leaders);
        if leaders.contains_key(&leader.pid.as_raw_nonzero().get()) {
            let _ = kill_process_group(leader.pid, signal);
        }
    }
}

fn reap_all(leaders: &Mutex<Leaders>) {
    loop {
        let Some(pid) = peek_zombie() else {
            return;
        };
        let mut leaders = lock(leaders);
        let leader = leaders.remove(&pid.as_raw_nonzero().get());
        if leader.is_some() {
            // The zombie still holds the pid, so the group cannot belong to another process.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let reap = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(pid), reap);
        drop(leaders);
        if let (Some(leader), Ok(Some(status))) = (leader, status) {
            let _ = leader.exit.set(exit_of(&status));
            (leader.on_exit)();
        }
    }
}

/// Returns the pid of a child that has ended and was not reaped yet.
fn peek_zombie() -> Option<Pid> {
    // SAFETY: siginfo_t is plain data for which all-zero is a value; waitid fills it, and leaves it zero if no child
    // has ended, for which si_pid is defined to be 0.
    let pid = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(libc::P_ALL, 0, &raw mut info, flags) != 0 {
            return None;
        }
        info.si_pid()
    };
    Pid::from_raw(pid)
}

fn exit_of(status: &WaitIdStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(255),
    }
}

fn sigchld() -> libc::sigset_t {
    // SAFETY: an all-zero sigset_t is valid memory for sigemptyset, which makes it a value.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        set
    }
}

/// Blocks SIGCHLD for this thread and the threads that it starts, because the reaper waits for this signal.
pub fn block_sigchld() {
    let set = sigchld();
    // SAFETY: `set` is an initialized signal set that outlives the call.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Waits for a SIGCHLD, at most a second, so that a lost wake-up only delays an end.
fn wait_for_sigchld() {
    let set = sigchld();
    let second = libc::timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    // SAFETY: `set` and `second` are initialized and outlive the call, which gets no siginfo.
    unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const second) };
}
