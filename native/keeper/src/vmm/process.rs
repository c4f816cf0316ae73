//! The process of a VMM: it starts with its sockets and a lifeline, and ends with the lifeline.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdStream;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::net::sockopt;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::LaunchConfig;
use crate::error::Failure;
use crate::run_dir::{CONSOLE, RunDir};
use crate::vmm::console::{self, Ring};

const SOCKET_BUFFER_BYTES: usize = 1 << 20;
/// The time within which a VMM must end with its lifeline before its process is killed.
const END_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });
/// The time within which its last output must reach the console file.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The sockets that each VMM inherits, by number.
#[derive(Debug, Clone, Copy)]
pub struct Sockets {
    pub port: RawFd,
    pub console: RawFd,
    /// The VMM's end of its control; only the keeper has the other end.
    pub control: RawFd,
}

/// The sockets of a VMM before its start: the keeper's ends and the VMM's.
pub struct Ends {
    port: (StdStream, StdStream),
    console: (StdStream, StdStream),
    control: (StdStream, StdStream),
}

impl Ends {
    pub fn open() -> Result<Self, Failure> {
        Self::try_open().map_err(starting)
    }

    fn try_open() -> io::Result<Self> {
        Ok(Self {
            port: socket_pair()?,
            console: socket_pair()?,
            control: socket_pair()?,
        })
    }

    /// Returns the VMM's ends.
    pub fn sockets(&self) -> Sockets {
        Sockets {
            port: self.port.1.as_raw_fd(),
            console: self.console.1.as_raw_fd(),
            control: self.control.1.as_raw_fd(),
        }
    }
}

/// A VMM's process with the keeper's ends.
pub struct Spawned {
    pub process: VmmProcess,
    pub port: UnixStream,
    pub control: UnixStream,
}

/// A process that lives as long as its lifeline. Dropping this ends the process.
pub struct VmmProcess {
    pid: u32,
    /// The group of the process, until the process was waited for.
    group: Cell<Option<Pid>>,
    child: Mutex<Child>,
    /// The VMM lives as long as this is open. No other process has it, so the VMM's side reads the end whenever the
    /// keeper dies.
    lifeline: RefCell<Option<OwnedFd>>,
    console: RefCell<Option<JoinHandle<()>>>,
    /// Whether all output is in the console file; absent for a process without output.
    is_drained: Option<watch::Receiver<bool>>,
}

impl VmmProcess {
    /// Starts `words` with the VMM's ends and the inherited files; its output goes to the console file.
    pub fn spawn(
        words: &[OsString],
        ends: Ends,
        inherited: &[BorrowedFd<'_>],
        config: &LaunchConfig,
        dir: &RunDir,
    ) -> Result<Spawned, Failure> {
        Self::try_spawn(words, ends, inherited, config, dir).map_err(starting)
    }

    fn try_spawn(
        words: &[OsString],
        ends: Ends,
        inherited: &[BorrowedFd<'_>],
        config: &LaunchConfig,
        dir: &RunDir,
    ) -> io::Result<Spawned> {
        let Sockets {
            port,
            console,
            control,
        } = ends.sockets();
        let files = inherited.iter().map(AsRawFd::as_raw_fd);
        let fds: Vec<RawFd> = [port, console, control].into_iter().chain(files).collect();
        let (port, guest_port) = ends.port;
        let (console, guest_console) = ends.console;
        let (control, vmm_control) = ends.control;
        let said = OwnedFd::from(guest_console.try_clone()?);
        let ring = Ring::open(dir.file(CONSOLE), config.console_max_bytes)?;
        let (held, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        let child = spawn(words, fds, held, [said.try_clone()?.into(), said.into()])?;
        drop((guest_port, guest_console, vmm_control));
        let (has_drained, is_drained) = watch::channel(false);
        let console = UnixStream::from_std(console)?;
        let console = tokio::task::spawn_local(async move {
            console::drain(console, ring).await;
            has_drained.send_replace(true);
        });
        Ok(Spawned {
            process: Self {
                pid: pid_of(&child),
                group: Cell::new(group_of(&child)),
                child: Mutex::new(child),
                lifeline: RefCell::new(Some(lifeline)),
                console: RefCell::new(Some(console)),
                is_drained: Some(is_drained),
            },
            port: UnixStream::from_std(port)?,
            control: UnixStream::from_std(control)?,
        })
    }

    /// Returns the id of the process that the keeper started; a jailed VMM is its descendant.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Starts a process without output that works for a VMM, with the inherited files.
    pub fn spawn_helper(words: &[OsString], inherited: &[BorrowedFd<'_>]) -> Result<Self, Failure> {
        let start = || {
            let (held, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
            let fds = inherited.iter().map(AsRawFd::as_raw_fd).collect();
            let child = spawn(words, fds, held, [Stdio::null(), Stdio::null()])?;
            Ok(Self {
                pid: pid_of(&child),
                group: Cell::new(group_of(&child)),
                child: Mutex::new(child),
                lifeline: RefCell::new(Some(lifeline)),
                console: RefCell::new(None),
                is_drained: None,
            })
        };
        start().map_err(starting)
    }

    /// Returns once the process has ended on its own, and its last output is in the console file.
    pub async fn exited(&self) -> io::Result<ExitStatus> {
        let status = self.child.lock().await.wait().await;
        self.end_group();
        self.drained().await;
        status
    }

    async fn drained(&self) {
        if let Some(is_drained) = &self.is_drained {
            let mut is_drained = is_drained.clone();
            // Another process may hold the other end of the console.
            let _ = timeout(LAST_WORDS, is_drained.wait_for(|is_drained| *is_drained)).await;
        }
    }

    /// Returns once the VMM and every process in its pid namespace have ended, and its last output is in the console
    /// file.
    pub async fn kill(&self) -> io::Result<ExitStatus> {
        drop(self.lifeline.take());
        let mut child = self.child.lock().await;
        let status = match timeout(END_LIMIT, child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                self.kill_group();
                child.wait().await
            }
        };
        self.end_group();
        self.drained().await;
        if let Some(console) = self.console.take() {
            console.abort();
        }
        status
    }

    /// Kills the process group. bubblewrap forks, and the fork waits for its first process without a limit; a fork that
    /// waits has no lifeline yet.
    fn kill_group(&self) {
        if let Some(group) = self.group.get() {
            // An empty group is an error, and means that nothing is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Kills what is left of the group after its first process was waited for. Its id is free as soon as the group is
    /// empty, so no later call may use it.
    fn end_group(&self) {
        self.kill_group();
        self.group.set(None);
    }
}

fn pid_of(child: &Child) -> u32 {
    child
        .id()
        .expect("a child that was not waited for has an id")
}

/// Each child leads a group of its own.
fn group_of(child: &Child) -> Option<Pid> {
    i32::try_from(pid_of(child)).ok().and_then(Pid::from_raw)
}

fn starting(error: io::Error) -> Failure {
    Failure::io("starting the VMM", &error)
}

/// Creates two connected sockets. The keeper's end does not block. A child inherits neither unless its flag is cleared.
fn socket_pair() -> io::Result<(StdStream, StdStream)> {
    let (ours, theirs) = StdStream::pair()?;
    for socket in [&ours, &theirs] {
        // The kernel limits the buffer's size; a smaller one is only slower.
        let _ = sockopt::set_socket_send_buffer_size(socket, SOCKET_BUFFER_BYTES);
    }
    ours.set_nonblocking(true)?;
    Ok((ours, theirs))
}

/// Starts the command with the lifeline as its standard input.
fn spawn(
    words: &[OsString],
    fds: Vec<RawFd>,
    lifeline: OwnedFd,
    [stdout, stderr]: [Stdio; 2],
) -> io::Result<Child> {
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env_clear()
        .process_group(0)
        .stdin(Stdio::from(lifeline))
        .stdout(stdout)
        .stderr(stderr);
    // SAFETY: the closure makes only async-signal-safe calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            for fd in &fds {
                if libc::fcntl(*fd, libc::F_SETFD, 0) == -1 {
                    return Err(io::Error::last_os_error());
                }
            }
            // A VMM of another user must be able to enter folders that bwrap makes in the jail.
            libc::umask(0o022);
            Ok(())
        });
    }
    command.spawn()
}

#[cfg(test)]
mod tests {
    use rustix::process::test_kill_process_group;
    use tokio::task::LocalSet;

    use super::*;

    /// Returns whether the group of a helper that runs the script still has a member after `end`.
    async fn is_left(script: &str, end: impl AsyncFn(&VmmProcess)) -> bool {
        let words = ["/bin/sh", "-c", script].map(OsString::from);
        let (ours, theirs) = socket_pair().unwrap();
        let process =
            VmmProcess::spawn_helper(&words, &[std::os::fd::AsFd::as_fd(&theirs)]).unwrap();
        drop(theirs);
        end(&process).await;
        assert!(
            process.group.get().is_none(),
            "another group may have the id now"
        );
        // The kernel removes a killed process from its group a moment later, when its new parent has waited for it.
        let group = Pid::from_raw(i32::try_from(process.pid()).unwrap()).unwrap();
        let mut tries = 0..500;
        while tries.next().is_some() && test_kill_process_group(group).is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(ours);
        test_kill_process_group(group).is_ok()
    }

    /// A jail's fork that waits for a first process that was killed.
    const FORK: &str = "sleep 1000 </dev/null & ";

    #[tokio::test]
    async fn the_fork_of_a_jail_that_was_killed_from_outside_ends() {
        let exited = async |process: &VmmProcess| {
            process.exited().await.unwrap();
        };
        let script = format!("{FORK} kill -9 $$");
        assert!(!LocalSet::new().run_until(is_left(&script, exited)).await);
    }

    #[tokio::test]
    async fn the_fork_of_a_jail_ends_with_its_lifeline() {
        let kill = async |process: &VmmProcess| {
            process.kill().await.unwrap();
        };
        let script = format!("{FORK} exec cat");
        assert!(!LocalSet::new().run_until(is_left(&script, kill)).await);
    }

    #[tokio::test]
    async fn a_jail_that_ignores_its_lifeline_ends_within_the_limit() {
        let kill = async |process: &VmmProcess| {
            let status = process.kill().await.unwrap();
            assert_eq!(
                std::os::unix::process::ExitStatusExt::signal(&status),
                Some(9)
            );
        };
        let script = format!("{FORK} exec sleep 1000");
        assert!(!LocalSet::new().run_until(is_left(&script, kill)).await);
    }
}
