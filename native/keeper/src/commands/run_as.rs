//! `lock` and `tie`: replace this process by another command, with a lock held or with its life tied to the parent's.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use super::arguments;
use super::command_error::CommandError;

/// `EX_TEMPFAIL`: another process holds the lock.
const HELD: u8 = 75;

pub fn lock(args: &[OsString]) -> Result<ExitCode, CommandError> {
    let (own, command) = arguments::split(args)?;
    let tied = own.iter().any(|arg| arg == "--tie");
    let rest: Vec<OsString> = own.iter().filter(|arg| *arg != "--tie").cloned().collect();
    let file = arguments::options(&rest, &["--file"])?.remove(0);
    let path = arguments::required(file, "--file")?;
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(CommandError::io(format!("opening {path:?}")))?;
    // The command keeps the descriptor, and so the lock, until its last copy is closed.
    // SAFETY: plain calls on an open descriptor.
    let taken = unsafe {
        libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0);
        libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB)
    };
    if taken == -1 {
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::WouldBlock {
            return Ok(ExitCode::from(HELD));
        }
        return Err(CommandError::io(format!("locking {path:?}"))(error));
    }
    if tied {
        tie_to_parent()?;
    }
    become_command(command)
}

pub fn tie(args: &[OsString]) -> Result<ExitCode, CommandError> {
    let (own, command) = arguments::split(args)?;
    arguments::options(own, &[])?;
    tie_to_parent()?;
    become_command(command)
}

/// Requests SIGKILL at the parent's death, and ends immediately if the parent has died already.
fn tie_to_parent() -> Result<(), CommandError> {
    // SAFETY: plain calls without pointers.
    let (before, asked, after) = unsafe {
        let before = libc::getppid();
        let asked = libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        (before, asked, libc::getppid())
    };
    if asked == -1 {
        return Err(CommandError::io("tying to the parent")(
            io::Error::last_os_error(),
        ));
    }
    if before != after {
        return Err(CommandError::Usage("the parent has already ended".into()));
    }
    Ok(())
}

fn become_command(command: &[OsString]) -> Result<ExitCode, CommandError> {
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    Err(CommandError::io(format!("starting {:?}", command[0]))(
        error,
    ))
}
