//! Closes each descriptor that the confined process must not have.

use std::io;
use std::os::fd::RawFd;

/// Closes all descriptors except standard input, output, error and `kept`.
pub fn close_except(kept: &[RawFd]) -> io::Result<()> {
    for (first, last) in gaps(kept) {
        // SAFETY: the call takes no pointers, and nothing uses the closed descriptors afterwards.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Closes these descriptors, which have no other owner.
pub fn close(given_up: &[RawFd]) {
    for fd in given_up {
        // SAFETY: the call takes no pointers.
        unsafe { libc::close(*fd) };
    }
}

/// Clears the flag by which `kept` would close at the start of another program.
pub fn inherit(kept: &[RawFd]) -> io::Result<()> {
    for fd in kept {
        // SAFETY: the call takes no pointers.
        if unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Returns the ranges between the kept descriptors, from the first one after standard error.
fn gaps(kept: &[RawFd]) -> Vec<(RawFd, RawFd)> {
    let mut kept: Vec<RawFd> = kept
        .iter()
        .copied()
        .filter(|fd| *fd > libc::STDERR_FILENO)
        .collect();
    kept.sort_unstable();
    let mut gaps = Vec::new();
    let mut next = libc::STDERR_FILENO + 1;
    for fd in kept {
        if fd > next {
            gaps.push((next, fd - 1));
        }
        next = fd + 1;
    }
    gaps.push((next, RawFd::MAX));
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_descriptors_between_the_kept_ones_are_closed() {
        assert_eq!(gaps(&[]), [(3, RawFd::MAX)]);
        assert_eq!(gaps(&[7, 0, 4, 5, 4]), [(3, 3), (6, 6), (8, RawFd::MAX)]);
        assert_eq!(gaps(&[3]), [(4, RawFd::MAX)]);
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_an_error() {
        assert_eq!(
            inherit(&[999_999]).unwrap_err().raw_os_error(),
            Some(libc::EBADF)
        );
    }
}
