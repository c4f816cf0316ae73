//! The turn of a launch among those of its host: only one at a time counts VMs, takes one of the pool, or writes an intent.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use super::command_error::CommandError;
use crate::error::{Code, Failure};
use crate::run_dir::try_lock_file;

/// The lock that a launch holds while it counts and writes its intent; the file is next to the run directories.
const ADMISSION: &str = ".admission";
const POLL: Duration = Duration::from_millis(5);

/// Waits for the turn of this launch, which ends when the returned file is dropped.
pub(super) fn wait_for_turn(vms: &Path, deadline: Instant) -> Result<File, CommandError> {
    let file = vms.join(ADMISSION);
    loop {
        let turn = try_lock_file(&file).map_err(CommandError::io("taking the admission lock"))?;
        if let Some(turn) = turn {
            return Ok(turn);
        }
        if Instant::now() > deadline {
            let message = format!("another launch holds {} and does not end", file.display());
            return Err(Failure::new(Code::HostIo, message).into());
        }
        std::thread::sleep(POLL);
    }
}
