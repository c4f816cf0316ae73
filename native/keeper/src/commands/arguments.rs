//! Parses the arguments of a command.

use std::ffi::OsString;

use super::command_error::CommandError;

/// Returns the values of `names` (each `--name VALUE`, at most once), in their order.
pub fn options(args: &[OsString], names: &[&str]) -> Result<Vec<Option<OsString>>, CommandError> {
    let mut values = vec![None; names.len()];
    let mut rest = args.iter();
    while let Some(name) = rest.next() {
        let Some(index) = names.iter().position(|known| name == known) else {
            return Err(CommandError::Usage(format!("unknown option {name:?}")));
        };
        let value = rest
            .next()
            .ok_or_else(|| CommandError::Usage(format!("{name:?} needs a value")))?;
        if values[index].replace(value.clone()).is_some() {
            return Err(CommandError::Usage(format!("{name:?} is given twice")));
        }
    }
    Ok(values)
}

/// Returns the value of a required option.
pub fn required(value: Option<OsString>, name: &str) -> Result<OsString, CommandError> {
    value.ok_or_else(|| CommandError::Usage(format!("{name} is missing")))
}

/// Splits the words of this program from the command after `--`.
pub fn split(args: &[OsString]) -> Result<(&[OsString], &[OsString]), CommandError> {
    let at = args.iter().position(|arg| arg == "--");
    match at.map(|at| (&args[..at], &args[at + 1..])) {
        Some((own, command)) if !command.is_empty() => Ok((own, command)),
        _ => Err(CommandError::Usage(
            "write the command to run after --".into(),
        )),
    }
}
