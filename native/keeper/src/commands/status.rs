//! `status`: prints the state of a run directory without changing it.

use std::ffi::OsString;
use std::process::ExitCode;

use super::command_error::CommandError;
use super::{answer, arguments};
use crate::run_dir::RunDir;

pub fn run(args: &[OsString]) -> Result<ExitCode, CommandError> {
    let dir = arguments::options(args, &["--dir"])?.remove(0);
    let dir = RunDir::at(arguments::required(dir, "--dir")?);
    let report = dir
        .report()
        .map_err(CommandError::io("reading the run directory"))?;
    answer::print_json(&report);
    Ok(ExitCode::SUCCESS)
}
