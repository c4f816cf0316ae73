//! The answers of `voidbox-vm status` and `voidbox-vm seal`, which the binding of Node gives too.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::Serialize;

use crate::{EXIT, RunDir, SOCKET, VmState, unlock};

/// The state of a run directory, as `voidbox-vm status` prints it.
#[derive(Debug, Serialize)]
pub struct Report {
    pub state: VmState,
    pub socket: PathBuf,
    pub pid: Option<u32>,
    pub fence: u64,
    /// The contents of `exit.json`.
    pub exit: Option<serde_json::Value>,
}

/// The step of [`RunDir::seal`] that failed.
#[derive(Debug)]
pub struct SealError {
    pub what: String,
    pub source: io::Error,
}

impl RunDir {
    /// Reads the directory without changing it.
    pub fn report(&self) -> io::Result<Report> {
        let state = self.state()?;
        let exit = fs::read(self.file(EXIT)).ok();
        Ok(Report {
            state,
            socket: self.file(SOCKET),
            pid: self.keeper().map(|keeper| keeper.pid),
            fence: self.read_fence().unwrap_or(0),
            exit: exit.and_then(|bytes| serde_json::from_slice(&bytes).ok()),
        })
    }

    /// Writes the end of a VM that never began, and returns the state of the directory. A launch that is in progress
    /// holds the lock, and a later one reads the end. So a launch and a seal can never miss each other.
    pub fn seal(&self, key: &str, at_ms: u64) -> Result<VmState, SealError> {
        self.create()
            .map_err(failed(format!("making {}", self.path().display())))?;
        let locked = self
            .try_lock()
            .map_err(failed("taking the run directory's lock"))?;
        let Some(lock) = locked else {
            return Ok(VmState::Running);
        };
        let state = self.state_unlocked();
        if state == VmState::New {
            let exit = serde_json::json!({
                "v": 1,
                "vmKey": key,
                "reason": "stopped",
                "code": "vm/lost",
                "message": "the VM was stopped before it was started",
                "vmmExit": null,
                "boots": 0,
                "startedAtMs": at_ms,
                "endedAtMs": at_ms,
                "consoleTail": "",
            });
            self.write_durable(EXIT, exit.to_string().as_bytes())
                .map_err(failed("writing exit.json"))?;
        }
        self.remove_leftovers()
            .map_err(failed("removing the files of a killed keeper"))?;
        unlock(lock).map_err(failed("giving the run directory's lock back"))?;
        Ok(match state {
            VmState::New => VmState::Stopped,
            other => other,
        })
    }
}

fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> SealError {
    let what = what.into();
    move |source| SealError { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_ends_a_vm_that_never_began_and_leaves_a_running_one() {
        let temp = tempfile::tempdir().unwrap();
        let held = RunDir::at(temp.path().join("held"));
        held.create().unwrap();
        let lock = held.try_lock().unwrap().expect("free");
        assert_eq!(held.seal("key", 7).unwrap(), VmState::Running);
        assert!(held.report().unwrap().exit.is_none());
        drop(lock);
        assert_eq!(held.seal("key", 7).unwrap(), VmState::Stopped);
        let report = held.report().unwrap();
        assert_eq!(report.state, VmState::Stopped);
        assert_eq!(report.exit.unwrap()["vmKey"], "key");
    }

    #[test]
    fn a_report_changes_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let report = RunDir::at(temp.path()).report().unwrap();
        assert_eq!(report.state, VmState::New);
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }
}
