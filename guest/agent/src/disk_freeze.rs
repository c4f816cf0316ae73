//! Freezes the file system of the scratch disk while the keeper copies the disk.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use voidbox_protocol::body::{DiskFreeze, Empty, ErrorCode};
use voidbox_protocol::message::Message;

use crate::failure::Failure;
use crate::guest::{Guest, Role};
use crate::log;
use crate::request::Request;

/// The longest freeze: if the keeper is gone, only this limit ends it.
const MOST: Duration = Duration::from_secs(30);

/// `FIFREEZE` and `FITHAW` of `<linux/fs.h>`: `_IOWR('X', 119, int)` and `_IOWR('X', 120, int)`.
const FIFREEZE: u32 = 0xc004_5877;
const FITHAW: u32 = 0xc004_5878;

/// One request freezes at a time: the first to end would thaw the disk during the second.
static IS_FROZEN: AtomicBool = AtomicBool::new(false);

/// A frozen file system; dropping this thaws it.
struct Frozen(File);

impl Frozen {
    fn new(mounted: File) -> Result<Self, Failure> {
        if IS_FROZEN.swap(true, Ordering::AcqRel) {
            return Err(Failure::new(ErrorCode::Limit, "the disk is frozen already"));
        }
        if let Err(error) = control(&mounted, FIFREEZE) {
            IS_FROZEN.store(false, Ordering::Release);
            return Err(Failure::io("freezing the scratch disk", error));
        }
        Ok(Self(mounted))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // The log is the kernel's buffer, so writing to it needs no disk.
        if let Err(error) = control(&self.0, FITHAW) {
            log::line(&format!("thawing the scratch disk: {error}"));
        }
        IS_FROZEN.store(false, Ordering::Release);
    }
}

fn control(mounted: &File, request: u32) -> io::Result<()> {
    // SAFETY: the kernel ignores the argument of both requests.
    match unsafe { libc::ioctl(mounted.as_raw_fd(), request as libc::Ioctl, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Freezes the disk until the request is cancelled. If the limit ends the freeze, the request fails, because the copied
/// blocks may be of different moments.
pub fn freeze(guest: &Guest, request: &Request, wanted: &DiskFreeze) -> Result<(), Failure> {
    let Role::Init(storage) = &guest.role else {
        return Err(Failure::bad_request(
            "this agent has no disk of its own that could be frozen",
        ));
    };
    // A program of a user that writes would wait for the thaw, and its half file would be in the copy.
    if guest.cgroup.as_ref().is_none_or(|users| users.has_execs()) {
        return Err(Failure::bad_request("a command runs"));
    }
    let limit = Duration::from_millis(wanted.limit_ms).min(MOST);
    let mounted = File::open(&storage.scratch)
        .map_err(|error| Failure::io("opening the scratch disk", error))?;
    // Most data is written before the freeze, whose time is limited.
    rustix::fs::syncfs(&mounted).map_err(|error| Failure::io("writing the scratch disk", error))?;
    if request.is_cancelled() {
        return Err(Failure::cancelled());
    }
    let frozen = Frozen::new(mounted)?;
    request.send_ahead(&Message::DiskFrozen(Empty {}))?;
    let past_limit = format!("the disk was frozen for {limit:?} and is writable again");
    request.hold(frozen, limit, past_limit)
}
