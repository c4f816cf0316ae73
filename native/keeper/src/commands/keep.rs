//! `keep`: the detached keeper itself. `launch` starts it with the lock held.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::command_error::CommandError;
use super::{arguments, sweep};
use crate::api;
use crate::config::LaunchConfig;
use crate::error::{Code, Failure};
use crate::keeper::{EndReason, Keeper, Wait};
use crate::run_dir::{INTENT, RunDir, SOCKET};

/// The time for which clients may read the rest after the VM's end.
const DRAIN: Duration = Duration::from_secs(10);
/// The time within which a snapshot of this VM must reach the disk after the VM's end.
const LAST_WRITE: Duration = Duration::from_secs(10);

pub fn run(args: &[OsString]) -> Result<ExitCode, CommandError> {
    let mut values = arguments::options(args, &["--dir", "--lock-fd"])?;
    let lock_fd = arguments::required(values.remove(1), "--lock-fd")?;
    let lock_fd: i32 = lock_fd
        .to_str()
        .and_then(|text| text.parse().ok())
        .filter(|fd| *fd > 2)
        .ok_or_else(|| CommandError::Usage("only launch may start keep".into()))?;
    // SAFETY: plain calls; the first of them fails if the descriptor is not open.
    let lock = unsafe {
        if libc::fcntl(lock_fd, libc::F_SETFD, libc::FD_CLOEXEC) == -1 {
            return Err(CommandError::Usage("only launch may start keep".into()));
        }
        libc::prctl(libc::PR_SET_NAME, c"voidbox-vm".as_ptr());
        OwnedFd::from_raw_fd(lock_fd)
    };
    super::descriptors::close_inherited(Some(lock_fd))
        .map_err(CommandError::io("closing inherited descriptors"))?;
    let dir = RunDir::at(PathBuf::from(arguments::required(
        values.remove(0),
        "--dir",
    )?));
    let intent = fs::read(dir.file(INTENT)).map_err(CommandError::io("reading intent.json"))?;
    let config = LaunchConfig::parse(&intent)?;
    std::env::set_current_dir(dir.path())
        .map_err(CommandError::io("entering the run directory"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // 16 lookups of the guest, and 4 of names in `deny`.
        .max_blocking_threads(20)
        .thread_keep_alive(Duration::from_secs(2))
        .build()
        .map_err(CommandError::io("starting the event loop"))?;
    let local = tokio::task::LocalSet::new();
    let left = runtime.block_on(local.run_until(serve(dir, config)))?;
    runtime.shutdown_timeout(Duration::from_millis(200));
    if let Some(dir) = left {
        match sweep::remove_locked(&dir) {
            // A launch has renamed the directory of a VM that waited.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(CommandError::io("removing the run directory"))?,
        }
    }
    drop(lock);
    Ok(ExitCode::SUCCESS)
}

/// Serves one VM until its end. Returns once `exit.json` is written, and clients have had time to read the rest. Returns
/// the run directory if no client needs it any longer.
async fn serve(dir: RunDir, config: LaunchConfig) -> Result<Option<RunDir>, Failure> {
    let writing = |error| Failure::io("writing the run directory", &error);
    let waits = config.waits;
    let keeper = Rc::new(Keeper::new(dir, config).map_err(writing)?);
    // The keeper's working folder is its run directory, so this path is short, however long the folder's path is.
    let listener = UnixListener::bind(SOCKET).map_err(|error| Failure::io(SOCKET, &error))?;
    let listener = Rc::new(listener);
    let server = tokio::task::spawn_local(api::serve(keeper.clone(), listener.clone()));
    if !waits {
        return Ok(live(keeper, server).await);
    }
    match keeper.wait().await {
        Wait::Taken(taken) => {
            // From here on, each new connection belongs to the keeper of the key. No client waits for an answer that it
            // would lose: the launch gets its answer last.
            server.abort();
            let of_key = Rc::new(Keeper::of_taken(*taken).map_err(writing)?);
            let server = tokio::task::spawn_local(api::serve(of_key.clone(), listener));
            keeper.end_wait(Failure::new(Code::VmLost, "a launch has taken the VM"));
            drop(keeper);
            Ok(live(of_key, server).await)
        }
        Wait::Ended(end) => {
            server.abort();
            let _ = fs::remove_file(SOCKET);
            keeper.end_wait(end.failure.clone());
            let _ = timeout(DRAIN, keeper.drained()).await;
            keeper.group.remove();
            eprintln!("{:?}: {}", end.reason, end.failure.message);
            Ok(Some(keeper.dir.clone()))
        }
    }
}

async fn live(keeper: Rc<Keeper>, server: JoinHandle<()>) -> Option<RunDir> {
    let end = keeper.live().await;
    // The keeper accepts no new client, but finishes answers to clients that are connected.
    server.abort();
    let _ = fs::remove_file(SOCKET);
    let _ = timeout(DRAIN, keeper.drained()).await;
    if let Some(publishing) = keeper.publishing.take() {
        let written = tokio::task::spawn_blocking(move || publishing.join());
        match timeout(LAST_WRITE, written).await {
            Ok(Ok(Ok(Ok(())))) => {}
            Ok(Ok(Ok(Err(error)))) => eprintln!("no snapshot was made: {error}"),
            _ => eprintln!("no snapshot was made: it took too long"),
        }
    }
    keeper.group.remove();
    eprintln!("{:?}: {}", end.reason, end.failure.message);
    let is_useless = keeper.config.discard && end.reason == EndReason::Stopped;
    is_useless.then(|| keeper.dir.clone())
}
