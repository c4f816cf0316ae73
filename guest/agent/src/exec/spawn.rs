//! Starts a program as an unprivileged user, in its own session and cgroup.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::fs::OFlags;
use voidbox_protocol::body::ExecRequest;

use super::missing;
use super::tree::Tree;
use crate::guest::Guest;
use crate::owner::Owner;
use crate::procfs;
use crate::request::Request;

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Descriptors that a user process may open: soft and hard limit.
const OPEN_FILES: (libc::rlim_t, libc::rlim_t) = (1024, 65_536);

/// The first descriptor that a child does not keep.
pub const CLOSE_ON_EXEC_FROM: u32 = 3;

/// The reason why a program never ran.
pub struct CannotStart {
    /// 127 if the program does not exist, otherwise 126.
    pub exit_code: i32,
    pub message: String,
}

impl CannotStart {
    fn refused(message: String) -> Self {
        Self {
            exit_code: 126,
            message,
        }
    }
}

/// A running program, and the agent's ends of its pipes, which never block.
pub struct Started {
    pub tree: Tree,
    pub stdin: Option<OwnedFd>,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

impl Started {
    pub fn pid(&self) -> u32 {
        self.tree.pid().as_raw_nonzero().get().unsigned_abs()
    }
}

pub fn start(
    guest: &Guest,
    request: &Arc<Request>,
    exec: &ExecRequest,
) -> Result<Started, CannotStart> {
    let user = guest
        .may_run_as(exec.uid, exec.gid)
        .map_err(CannotStart::refused)?;
    if !Path::new(&exec.cwd).is_dir() {
        let message = format!("{}: the working folder does not exist", exec.cwd);
        return Err(CannotStart::refused(message));
    }
    let cgroup = guest
        .cgroup
        .as_ref()
        .map(|parent| parent.make_child(request.id))
        .transpose()
        .map_err(|error| CannotStart::refused(format!("making a cgroup: {error}")))?;
    let procs = cgroup
        .as_ref()
        .map(|cgroup| cgroup.open_procs())
        .transpose()
        .map_err(|error| CannotStart::refused(format!("opening a cgroup: {error}")))?;

    let mut command = command_of(guest, exec, user, procs.as_ref())?;
    let on_exit = {
        let request = request.clone();
        move || request.wake()
    };
    let (mut child, leader) = guest
        .reaper
        .spawn(&mut command, on_exit)
        .map_err(|error| not_started(guest, exec, &error))?;
    let tree = Tree::new(leader, cgroup);
    let pipes = || -> io::Result<_> {
        let missing = || io::Error::other("a pipe is missing");
        Ok((
            child
                .stdin
                .take()
                .map(|pipe| quiet(pipe.into()))
                .transpose()?,
            quiet(child.stdout.take().ok_or_else(missing)?.into())?,
            quiet(child.stderr.take().ok_or_else(missing)?.into())?,
        ))
    };
    match { pipes }() {
        Ok((stdin, stdout, stderr)) => Ok(Started {
            tree,
            stdin,
            stdout,
            stderr,
        }),
        Err(error) => {
            tree.kill(&guest.reaper);
            Err(CannotStart::refused(format!("its pipes: {error}")))
        }
    }
}

fn quiet(pipe: OwnedFd) -> io::Result<OwnedFd> {
    let flags = rustix::fs::fcntl_getfl(&pipe)?;
    rustix::fs::fcntl_setfl(&pipe, flags | OFlags::NONBLOCK)?;
    Ok(pipe)
}

fn not_started(guest: &Guest, exec: &ExecRequest, error: &io::Error) -> CannotStart {
    let name = &exec.program;
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => {
            let lacks = missing::describe(name, &path_of(guest, exec), &exec.cwd);
            CannotStart {
                exit_code: 127,
                message: format!("{name}: {}", lacks.as_deref().unwrap_or("not found")),
            }
        }
        Some(libc::EAGAIN) => {
            CannotStart::refused(format!("{name}: the guest has no room for another process"))
        }
        _ => CannotStart::refused(format!("{name}: {error}")),
    }
}

/// Returns the variable `PATH` of the command.
pub fn path_of(guest: &Guest, exec: &ExecRequest) -> String {
    let known = guest.variables();
    let mut known = known.iter();
    let of_exec = exec.env.get("PATH");
    of_exec
        .or_else(|| known.find_map(|(name, value)| (name == "PATH").then_some(value)))
        .map_or(DEFAULT_PATH, String::as_str)
        .to_owned()
}

fn command_of(
    guest: &Guest,
    exec: &ExecRequest,
    user: Option<Owner>,
    procs: Option<&File>,
) -> Result<Command, CannotStart> {
    let cwd = std::ffi::CString::new(exec.cwd.as_str()).map_err(|_| {
        CannotStart::refused("the path of the working folder contains a NUL".into())
    })?;
    let mut command = Command::new(&exec.program);
    command
        .args(&exec.args)
        .env_clear()
        .env("PATH", DEFAULT_PATH)
        .env("HOME", "/home/sandbox")
        .env("USER", "sandbox")
        .envs(guest.variables().iter().map(|(name, value)| (name, value)))
        .envs(&exec.env)
        .stdin(if exec.stdin {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let procs = procs.map(AsRawFd::as_raw_fd);
    // SAFETY: the closure makes system calls only: no allocation, no lock. `procs` stays open
    // until the caller's `File` is dropped, which is after the child has started.
    unsafe { command.pre_exec(move || become_user(procs, user, &cwd)) };
    Ok(command)
}

/// Runs in the child between fork and exec.
fn become_user(procs: Option<RawFd>, user: Option<Owner>, cwd: &std::ffi::CStr) -> io::Result<()> {
    let cores = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let files = libc::rlimit {
        rlim_cur: OPEN_FILES.0,
        rlim_max: OPEN_FILES.1,
    };
    // SAFETY: each call has valid pointers to data that outlives it, and all of them are async-signal-safe. The ids are
    // set with raw calls, which change only this thread: after a fork, no other thread exists.
    unsafe {
        if let Some(procs) = procs {
            check(libc::write(procs, c"0".as_ptr().cast(), 1) as libc::c_long)?;
        }
        check(libc::setsid().into())?;
        // The agent blocks SIGCHLD for its reaper; a program must start with no blocked signal.
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        check(libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()).into())?;
        // The descriptors are marked, not closed: one of them reports a failing exec.
        let marked = libc::CLOSE_RANGE_CLOEXEC;
        check(libc::syscall(
            libc::SYS_close_range,
            CLOSE_ON_EXEC_FROM,
            u32::MAX,
            marked,
        ))?;
        procfs::allow_oom_kill();
        check(libc::setrlimit(libc::RLIMIT_CORE, &raw const cores).into())?;
        // An agent that is not root may have a lower hard limit; the program then keeps that limit.
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const files);
        if let Some(Owner { uid, gid }) = user {
            let none: *const libc::gid_t = std::ptr::null();
            drop_bounding_set();
            check(libc::syscall(libc::SYS_setgroups, 0usize, none))?;
            check(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
            check(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
        }
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        check(libc::chdir(cwd.as_ptr()).into())
    }
}

/// Drops every capability that a later exec could restore.
///
/// # Safety
/// Call this between fork and exec: it makes only async-signal-safe calls.
pub unsafe fn drop_bounding_set() {
    // SAFETY: each call takes integers; the first capability that the kernel does not know ends it.
    unsafe {
        let mut capability: libc::c_ulong = 0;
        while libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) == 0 {
            capability += 1;
        }
    }
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
