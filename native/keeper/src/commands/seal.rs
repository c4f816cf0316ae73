//! `seal`: ensures that a run directory without a VM never gets one.

use std::ffi::OsString;
use std::process::ExitCode;

use super::command_error::CommandError;
use super::{answer, arguments};
use crate::error::Code;
use crate::exec::now_ms;
use crate::keeper::EndReason;
use crate::run_dir::{EXIT, RunDir, VmState};

/// Writes the end of a VM that never began. A launch that is in progress holds the lock, and a later one reads the end,
/// so a launch and a seal can never miss each other.
pub fn run(args: &[OsString]) -> Result<ExitCode, CommandError> {
    let mut values = arguments::options(args, &["--dir", "--key"])?;
    let key = arguments::required(values.remove(1), "--key")?;
    let dir = RunDir::at(arguments::required(values.remove(0), "--dir")?);
    dir.create()
        .map_err(CommandError::io(format!("making {}", dir.path().display())))?;
    let locked = dir
        .try_lock()
        .map_err(CommandError::io("taking the run directory's lock"))?;
    let state = match &locked {
        None => VmState::Running,
        Some(_) => dir.state_unlocked(),
    };
    if state == VmState::New {
        let at_ms = now_ms();
        let exit = serde_json::json!({
            "v": 1,
            "vmKey": key.to_string_lossy(),
            "reason": EndReason::Stopped,
            "code": Code::VmLost.as_str(),
            "message": "the VM was stopped before it was started",
            "vmmExit": null,
            "boots": 0,
            "startedAtMs": at_ms,
            "endedAtMs": at_ms,
            "consoleTail": "",
        });
        dir.write_durable(EXIT, exit.to_string().as_bytes())
            .map_err(CommandError::io("writing exit.json"))?;
    }
    if locked.is_some() {
        dir.remove_leftovers()
            .map_err(CommandError::io("removing the files of a killed keeper"))?;
    }
    let sealed = match state {
        VmState::New => VmState::Stopped,
        other => other,
    };
    answer::print_json(&serde_json::json!({ "state": sealed }));
    Ok(ExitCode::SUCCESS)
}
