//! Waiting for descriptors.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// The descriptors to wait for, kept between waits.
#[derive(Default)]
pub struct Poll {
    entries: Vec<libc::pollfd>,
}

impl Poll {
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Adds a descriptor. Returns its place for [`Self::events`].
    pub fn add(&mut self, fd: RawFd, events: i16) -> usize {
        self.entries.push(libc::pollfd {
            fd,
            events,
            revents: 0,
        });
        self.entries.len() - 1
    }

    /// Waits until a descriptor is ready, at most for `limit`.
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let limit_ms = limit.map_or(-1, |limit| {
            // A wait that is shorter than a millisecond must not be none.
            let ms = limit.as_micros().div_ceil(1000);
            libc::c_int::try_from(ms).unwrap_or(libc::c_int::MAX)
        });
        let count = libc::nfds_t::try_from(self.entries.len()).map_err(io::Error::other)?;
        // SAFETY: the pointer and the number belong to the entries.
        let ready = unsafe { libc::poll(self.entries.as_mut_ptr(), count, limit_ms) };
        if ready >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::Interrupted {
            self.entries.iter_mut().for_each(|entry| entry.revents = 0);
            return Ok(());
        }
        Err(error)
    }

    /// Returns the events of the descriptor at a place.
    pub fn events(&self, place: usize) -> i16 {
        self.entries[place].revents
    }
}
