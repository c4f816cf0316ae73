//! The VMM's process: started with its three sockets and a lifeline, gone when the lifeline is.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::process::{ExitStatus, Stdio};
use std::rc::Rc;
use std::time::Duration;

use rustix::net::sockopt;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::config::LaunchConfig;
use crate::disk::Disk;
use crate::error::Failure;
use crate::guest::clock::GuestClock;
use crate::guest::mailbox;
use crate::host::HostTsc;
use crate::run_dir::{CONSOLE, RunDir, SCRATCH};
use crate::vmm::command::Descriptors;
use crate::vmm::console::{self, Ring};
use crate::vmm::jail;
use crate::vmm::qmp;
use crate::vmm::scratch;

const SOCKET_BUFFER_BYTES: usize = 1 << 20;
/// How long a VMM may take to go with its lifeline before its process is killed.
const END_LIMIT: Duration = Duration::from_secs(5);
/// How long its last words may take to come to the console file.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A running VMM. Dropped, it ends.
#[derive(Debug)]
pub struct Vmm {
    child: Child,
    /// The VMM lives for as long as this is open. No other process has it: whatever becomes of the
    /// keeper, and whenever, the VMM's side reads the end.
    lifeline: OwnedFd,
    console: tokio::task::JoinHandle<()>,
    control: tokio::task::JoinHandle<()>,
    /// What the VMM said over its control that is not QMP.
    broken: watch::Receiver<Option<String>>,
}

impl Vmm {
    /// Makes a fresh scratch disk and starts the VMM; the stream is the guest port, the file the
    /// mailbox's memory.
    pub async fn start(
        config: &LaunchConfig,
        dir: &RunDir,
        disk: &Rc<Disk>,
        clock: &Rc<GuestClock>,
        tsc: HostTsc,
    ) -> Result<(Self, UnixStream, File), Failure> {
        let uid = jail::vmm_uid(dir);
        if let (true, Some(mke2fs)) = (config.is_jailed(), config.mke2fs_path()) {
            scratch::make(&mke2fs, &dir.file(SCRATCH), config.disk_mib, uid, disk).await?;
        }
        let io_failure = |error: io::Error| Failure::io("starting the VMM", &error);
        let (port, guest_port) = socket_pair().map_err(io_failure)?;
        let (console, guest_console) = socket_pair().map_err(io_failure)?;
        let (control, vmm_control) = socket_pair().map_err(io_failure)?;
        let mailbox = mailbox::memory().map_err(io_failure)?;
        let fds = Descriptors {
            mailbox: mailbox.as_raw_fd(),
            port: guest_port.as_raw_fd(),
            console: guest_console.as_raw_fd(),
            control: vmm_control.as_raw_fd(),
        };
        let keeper = std::env::current_exe().map_err(io_failure)?;
        let words = match config.is_jailed() {
            true => jail::command(config, dir, &keeper, uid, fds, tsc)?,
            false => test_command(config, &keeper, fds),
        };
        let said = guest_console.try_clone().map_err(io_failure)?;
        let ring = Ring::open(dir.file(CONSOLE), config.console_max_bytes).map_err(io_failure)?;
        let (held, lifeline) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| io_failure(error.into()))?;
        let child = spawn(&words, fds, held, said).map_err(io_failure)?;
        drop((guest_port, guest_console, vmm_control));
        let console = UnixStream::from_std(console).map_err(io_failure)?;
        let console = tokio::task::spawn_local(console::drain(console, ring));
        let port = UnixStream::from_std(port).map_err(io_failure)?;
        let control = UnixStream::from_std(control).map_err(io_failure)?;
        let (said_wrong, broken) = watch::channel(None);
        let watched = qmp::watch(control, disk.clone(), clock.clone());
        let control = tokio::task::spawn_local(async move {
            said_wrong.send_replace(Some(watched.await.to_string()));
        });
        let vmm = Self {
            child,
            lifeline,
            console,
            control,
            broken,
        };
        Ok((vmm, port, mailbox))
    }

    /// Process id of what the keeper started; QEMU is below it.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Returns why the VMM cannot be trusted with its control any more; never for one that can.
    pub fn broken_control(&self) -> impl Future<Output = String> + use<> {
        let mut broken = self.broken.clone();
        async move {
            match broken.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(why)) => why.clone(),
                _ => std::future::pending().await,
            }
        }
    }

    pub async fn exited(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Kills the VMM and returns when it and everything in its pid namespace are gone and its last
    /// words are in the console file.
    pub async fn kill(self) -> io::Result<ExitStatus> {
        let Self {
            mut child,
            lifeline,
            mut console,
            control,
            ..
        } = self;
        // It counts the VM as one that waits for room, for as long as it lives.
        control.abort();
        drop(lifeline);
        let status = match timeout(END_LIMIT, child.wait()).await {
            Ok(status) => status,
            Err(_) => child.kill().await.and(child.wait().await),
        };
        let _ = timeout(LAST_WORDS, &mut console).await;
        console.abort();
        status
    }
}

#[cfg(feature = "test-vmm")]
fn test_command(
    config: &LaunchConfig,
    keeper: &std::path::Path,
    fds: Descriptors,
) -> Vec<std::ffi::OsString> {
    let args = config
        .test_vmm_args
        .iter()
        .map(|arg| arg.replace("{fd}", &fds.port.to_string()))
        .map(|arg| arg.replace("{control}", &fds.control.to_string()))
        .map(|arg| arg.replace("{mailbox}", &fds.mailbox.to_string()).into());
    [keeper.into(), "lifeline".into(), "--".into()]
        .into_iter()
        .chain([config.qemu.clone().into()])
        .chain(args)
        .collect()
}

#[cfg(not(feature = "test-vmm"))]
fn test_command(_: &LaunchConfig, _: &std::path::Path, _: Descriptors) -> Vec<std::ffi::OsString> {
    unreachable!("every accelerator of this build is jailed")
}

/// Two connected sockets: ours does not block, and neither is inherited unless it is asked for.
fn socket_pair() -> io::Result<(StdStream, StdStream)> {
    let (ours, theirs) = StdStream::pair()?;
    for socket in [&ours, &theirs] {
        // The kernel caps what it gives; less is slower, not wrong.
        let _ = sockopt::set_socket_send_buffer_size(socket, SOCKET_BUFFER_BYTES);
    }
    ours.set_nonblocking(true)?;
    Ok((ours, theirs))
}

/// Starts the command with the lifeline as its standard input.
fn spawn(
    words: &[std::ffi::OsString],
    fds: Descriptors,
    lifeline: OwnedFd,
    output: StdStream,
) -> io::Result<Child> {
    let output = OwnedFd::from(output);
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env_clear()
        .stdin(Stdio::from(lifeline))
        .stdout(output.try_clone()?)
        .stderr(output);
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if libc::fcntl(fds.port, libc::F_SETFD, 0) == -1
                || libc::fcntl(fds.console, libc::F_SETFD, 0) == -1
                || libc::fcntl(fds.mailbox, libc::F_SETFD, 0) == -1
                || libc::fcntl(fds.control, libc::F_SETFD, 0) == -1
            {
                return Err(io::Error::last_os_error());
            }
            // Folders that bwrap makes in the jail are for a QEMU of another user.
            libc::umask(0o022);
            Ok(())
        });
    }
    command.spawn()
}
