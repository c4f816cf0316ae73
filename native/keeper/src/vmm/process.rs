//! The process of a VMM: it starts with its sockets and a lifeline, and ends with the lifeline.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdStream;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::net::sockopt;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::LaunchConfig;
use crate::error::Failure;
use crate::run_dir::{CONSOLE, RunDir};
use crate::vmm::console::{self, Ring};

const SOCKET_BUFFER_BYTES: usize = 1 << 20;
/// The time within which a VMM must end with its lifeline before its process is killed.
const END_LIMIT: Duration = Duration::from_secs(5);
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
    child: Mutex<Child>,
    /// The VMM lives as long as this is open. No other process has it, so the VMM's side reads the end whenever the
    /// keeper dies.
    lifeline: RefCell<Option<OwnedFd>>,
    console: RefCell<Option<JoinHandle<()>>>,
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
        let console =
            tokio::task::spawn_local(console::drain(UnixStream::from_std(console)?, ring));
        Ok(Spawned {
            process: Self {
                pid: child
                    .id()
                    .expect("a child that was not waited for has an id"),
                child: Mutex::new(child),
                lifeline: RefCell::new(Some(lifeline)),
                console: RefCell::new(Some(console)),
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
                pid: child
                    .id()
                    .expect("a child that was not waited for has an id"),
                child: Mutex::new(child),
                lifeline: RefCell::new(Some(lifeline)),
                console: RefCell::new(None),
            })
        };
        start().map_err(starting)
    }

    pub async fn exited(&self) -> io::Result<ExitStatus> {
        self.child.lock().await.wait().await
    }

    /// Returns once the VMM and every process in its pid namespace have ended, and its last output is in the console
    /// file.
    pub async fn kill(&self) -> io::Result<ExitStatus> {
        drop(self.lifeline.take());
        let mut child = self.child.lock().await;
        let status = match timeout(END_LIMIT, child.wait()).await {
            Ok(status) => status,
            Err(_) => child.kill().await.and(child.wait().await),
        };
        let console = self.console.take();
        if let Some(mut console) = console {
            let _ = timeout(LAST_WORDS, &mut console).await;
            console.abort();
        }
        status
    }
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
