//! Freezes an exec while the keeper copies the files that it works on.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use voidbox_protocol::body::{Empty, ErrorCode, ExecFreeze};
use voidbox_protocol::message::Message;

use crate::cgroup::{Children, is_frozen};
use crate::failure::Failure;
use crate::guest::Guest;
use crate::lock::lock;
use crate::log;
use crate::request::Request;

/// The longest freeze: if the keeper is gone, only this limit ends it.
const MOST: Duration = Duration::from_secs(30);
/// The time that processes get to stop: a process in a system call stops when the call ends.
const SETTLE: Duration = Duration::from_secs(2);
const SETTLE_PAUSE: Duration = Duration::from_millis(2);

/// A frozen exec; dropping this resumes it.
struct Frozen {
    exec: u32,
    path: PathBuf,
    children: Children,
}

impl Frozen {
    fn new(children: &Children, exec: u32) -> Result<Self, Failure> {
        let mut open = lock(children);
        let child = open
            .get_mut(&exec)
            .ok_or_else(|| Failure::new(ErrorCode::NotFound, "the command has ended"))?;
        // If two requests froze it, the first to end would resume it during the second.
        if std::mem::replace(&mut child.is_frozen, true) {
            return Err(Failure::new(
                ErrorCode::Limit,
                "the command is already frozen",
            ));
        }
        let path = child.path.clone();
        drop(open);
        let frozen = Self {
            exec,
            path,
            children: children.clone(),
        };
        write(&frozen.path, "1").map_err(|error| Failure::io("freezing a cgroup", error))?;
        Ok(frozen)
    }

    fn settle(&self) -> Result<(), Failure> {
        let since = Instant::now();
        while !is_frozen(&self.path) {
            if since.elapsed() >= SETTLE {
                return Err(Failure::new(
                    ErrorCode::Limit,
                    format!("the command did not stop within {SETTLE:?}"),
                ));
            }
            thread::sleep(SETTLE_PAUSE);
        }
        Ok(())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let mut open = lock(&self.children);
        let Some(child) = open
            .get_mut(&self.exec)
            .filter(|child| child.path == self.path)
        else {
            return;
        };
        child.is_frozen = false;
        if let Err(error) = write(&self.path, "0") {
            log::line(&format!("{}: thawing: {error}", self.path.display()));
        }
    }
}

fn write(cgroup: &Path, value: &str) -> std::io::Result<()> {
    fs::write(cgroup.join("cgroup.freeze"), value)
}

/// Freezes the exec until the request is cancelled. If the limit ends the freeze, the request fails, because the copied
/// files may be of different moments.
pub fn freeze(guest: &Guest, request: &Request, wanted: &ExecFreeze) -> Result<(), Failure> {
    let Some(cgroup) = &guest.cgroup else {
        return Err(Failure::bad_request(
            "commands of this agent have no cgroup that could be frozen",
        ));
    };
    let limit = Duration::from_millis(wanted.limit_ms).min(MOST);
    let frozen = Frozen::new(cgroup.children(), wanted.exec)?;
    frozen.settle()?;
    request.send_ahead(&Message::ExecFrozen(Empty {}))?;
    let past_limit = format!("the command was frozen for {limit:?} and continues");
    request.hold(frozen, limit, past_limit)
}
