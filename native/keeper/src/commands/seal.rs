//! `seal`: ensures that a run directory without a VM never gets one.

use std::ffi::OsString;
use std::process::ExitCode;

use super::command_error::CommandError;
use super::{answer, arguments};
use crate::exec::now_ms;
use crate::run_dir::RunDir;

pub fn run(args: &[OsString]) -> Result<ExitCode, CommandError> {
    let mut values = arguments::options(args, &["--dir", "--key"])?;
    let key = arguments::required(values.remove(1), "--key")?;
    let dir = RunDir::at(arguments::required(values.remove(0), "--dir")?);
    let state = dir
        .seal(&key.to_string_lossy(), now_ms())
        .map_err(|error| CommandError::io(error.what)(error.source))?;
    answer::print_json(&serde_json::json!({ "state": state }));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::keeper::EndReason;

    #[test]
    fn a_sealed_directory_has_the_words_of_a_keepers_end() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::at(temp.path());
        dir.seal("run/scope/1", 7).unwrap();
        let exit = dir.report().unwrap().exit.expect("an end");
        assert_eq!(exit["reason"], serde_json::json!(EndReason::Stopped));
        assert_eq!(exit["code"], Code::VmLost.as_str());
    }
}
