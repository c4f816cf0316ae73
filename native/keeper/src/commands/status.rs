//! `status`: prints the state of a run directory without changing it.

use std::ffi::OsString;
use std::process::ExitCode;

use super::command_error::CommandError;
use super::{answer, arguments};
use crate::run_dir::{EXIT, RunDir, SOCKET};

pub fn run(args: &[OsString]) -> Result<ExitCode, CommandError> {
    let dir = arguments::options(args, &["--dir"])?.remove(0);
    let dir = RunDir::at(arguments::required(dir, "--dir")?);
    let state = dir
        .state()
        .map_err(CommandError::io("reading the run directory"))?;
    let keeper = dir.keeper();
    let exit: Option<serde_json::Value> = std::fs::read(dir.file(EXIT))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    answer::print_json(&serde_json::json!({
        "state": state,
        "socket": dir.file(SOCKET),
        "pid": keeper.as_ref().map(|keeper| keeper.pid),
        "fence": dir.read_fence().unwrap_or(0),
        "exit": exit,
    }));
    Ok(ExitCode::SUCCESS)
}
