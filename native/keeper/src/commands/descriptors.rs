//! Closes descriptors that a process inherited from its parent.

use std::io;
use std::os::fd::RawFd;

/// Closes everything above standard error except `kept`. A VMM inherits the open files of the processes above it, but
/// must get only the files of the host that the keeper passes to it.
pub fn close_inherited(kept: Option<RawFd>) -> io::Result<()> {
    const FIRST: RawFd = libc::STDERR_FILENO + 1;
    match kept {
        Some(kept) => {
            if kept > FIRST {
                close_range(FIRST, kept - 1)?;
            }
            close_range(kept + 1, RawFd::MAX)
        }
        None => close_range(FIRST, RawFd::MAX),
    }
}

fn close_range(first: RawFd, last: RawFd) -> io::Result<()> {
    // SAFETY: it takes no pointers. Callers own no descriptor in the range.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
