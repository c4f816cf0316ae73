//! PID 1 of the jail: it waits for the confined process, and ends at the end of standard input.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};

use crate::capabilities;
use crate::descriptors;
use crate::error::Error;

/// The exit code that shells use for a process that SIGKILL ended.
const KILLED: i32 = 128 + libc::SIGKILL;

/// Gives up all rights and waits. The result is the exit code of this process: that of the confined process, or 137 after
/// the end of standard input. When this process ends, the kernel ends all processes of the jail.
pub fn watch(confined: libc::pid_t) -> Result<i32, Error> {
    // SAFETY: the call takes no pointers, and its result is a new descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, confined, 0) };
    if fd == -1 {
        return Err(Error::at("watching the process")(io::Error::last_os_error()));
    }
    // SAFETY: the descriptor is new and has no other owner.
    let process = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap_or(-1)) };
    capabilities::drop_all()?;
    descriptors::close_except(&[process.as_raw_fd()]).map_err(Error::at("closing descriptors"))?;
    wait(confined, &process).map_err(Error::at("waiting"))
}

fn wait(confined: libc::pid_t, process: &OwnedFd) -> io::Result<i32> {
    // SAFETY: standard input stays open for as long as this process lives.
    let input = unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) };
    loop {
        let mut fds = [
            PollFd::new(process, PollFlags::IN),
            PollFd::from_borrowed_fd(input, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if !fds[0].revents().is_empty() {
            return exit_code(confined);
        }
        if !fds[1].revents().is_empty() && has_ended(input) {
            return Ok(KILLED);
        }
    }
}

/// Reads what standard input has. An error counts as its end.
fn has_ended(input: BorrowedFd<'_>) -> bool {
    let mut bytes = [0_u8; 64];
    match rustix::io::read(input, &mut bytes) {
        Ok(0) => true,
        Ok(_) | Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => false,
        Err(_) => true,
    }
}

/// Waits for a child, and returns its exit code as shells have it.
pub fn exit_code(child: libc::pid_t) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: the pointer is valid across the call.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(match libc::WIFSIGNALED(status) {
        true => 128 + libc::WTERMSIG(status),
        false => libc::WEXITSTATUS(status),
    })
}
