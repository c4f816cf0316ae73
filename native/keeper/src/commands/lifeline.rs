//! `lifeline`: runs a command that lives no longer than the process at the other end of standard input.
//!
//! It is PID 1 of a VM's jail. A parent-death signal ties a process only after the process has requested it, and
//! bubblewrap forks before it does so. An end of file arrives whenever the keeper dies.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use super::arguments;
use super::command_error::CommandError;

/// The exit code that shells and the jail use for a process that SIGKILL ended.
const KILLED: i32 = 128 + libc::SIGKILL;

pub fn run(args: &[OsString]) -> Result<ExitCode, CommandError> {
    let (own, command) = arguments::split(args)?;
    arguments::options(own, &[])?;
    // SAFETY: a plain call. The VMM may run as the same user, and must not attach to the process that ends it.
    if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) } == -1 {
        return Err(CommandError::io("guarding the lifeline")(
            io::Error::last_os_error(),
        ));
    }
    let starting = CommandError::io(format!("starting {:?}", command[0]));
    let mut child = spawn(command).map_err(starting)?;
    // Only the command may hold the guest port and the console, so that they close when it ends.
    super::descriptors::close_inherited(None)
        .map_err(CommandError::io("closing the command's descriptors"))?;
    std::thread::Builder::new()
        .spawn(end_with_input)
        .map_err(CommandError::io("watching the lifeline"))?;
    let status = child.wait().map_err(CommandError::io("waiting"))?;
    Ok(ExitCode::from(code_of(status)))
}

/// Ends this process, and so the command, at the end of standard input, or if reading it fails.
fn end_with_input() {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    std::process::exit(KILLED);
}

/// Starts the command, which dies with this process: as a member of its pid namespace, or by a signal.
fn spawn(command: &[OsString]) -> io::Result<Child> {
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]).stdin(Stdio::null());
    let own = std::process::id();
    // SAFETY: the closure makes only async-signal-safe calls between fork and exec.
    unsafe {
        child.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == -1 {
                return Err(io::Error::last_os_error());
            }
            if u32::try_from(libc::getppid()) != Ok(own) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
    child.spawn()
}

fn code_of(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(u8::MAX)
}
