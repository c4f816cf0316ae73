//! `jail`: runs a static program in a jail of its own, killed when standard input ends.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::path::Path;
use std::process::ExitCode;

use voidbox_jail::{Jail, Place, Program};

use super::arguments;
use super::command_error::CommandError;
use crate::error::{Code, Failure};

pub fn run(args: &[OsString]) -> Result<ExitCode, CommandError> {
    let (own, words) = arguments::split(args)?;
    let values = arguments::options(own, &["--program", "--uid", "--keep"])?;
    let [program, uid, kept] = values.try_into().expect("there is one value for each name");
    let path = arguments::required(program, "--program")?;
    let jail = Jail {
        uid: uid.as_deref().map(parse_uid).transpose()?,
        kept: kept.as_deref().map_or(Ok(Vec::new()), parse_descriptors)?,
        ..Jail::default()
    };
    let program = Program::open(Path::new(&path), words.to_vec())
        .map_err(CommandError::io(format!("opening {path:?}")))?;
    // SAFETY: no command that precedes this one has started a thread.
    let place = unsafe { jail.enter(Some(&program)) };
    match place.map_err(|error| Failure::new(Code::HostNotReady, error.to_string()))? {
        Place::Ended(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))),
        Place::Inside => {
            let Err(error) = program.exec();
            Err(CommandError::io(format!("starting {path:?} in the jail"))(
                error,
            ))
        }
    }
}

fn parse_uid(text: &OsStr) -> Result<u32, CommandError> {
    let uid = text.to_str().and_then(|text| text.parse().ok());
    // Both ids are users of the namespace already.
    uid.filter(|uid| *uid > 0 && *uid < u32::MAX)
        .ok_or_else(|| {
            CommandError::Usage(format!(
                "--uid {text:?} is not the id of a user, and root cannot be one"
            ))
        })
}

/// Parses numbers with commas between them.
fn parse_descriptors(text: &OsStr) -> Result<Vec<RawFd>, CommandError> {
    let refuse = || {
        CommandError::Usage(format!(
            "--keep {text:?} is not a list of descriptors above 2, such as 3,5"
        ))
    };
    let numbers = text.to_str().ok_or_else(refuse)?.split(',');
    numbers
        .map(|number| number.parse().ok().filter(|fd| *fd > 2).ok_or_else(refuse))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_numbers_above_those_of_standard_files() {
        assert_eq!(parse_descriptors("7,3".as_ref()).unwrap(), [7, 3]);
        for wrong in ["", "3,", "2", "-1", "a", "3 4", "99999999999"] {
            let error = parse_descriptors(wrong.as_ref()).unwrap_err().to_string();
            assert!(error.contains(&format!("{wrong:?}")), "{error}");
        }
    }

    #[test]
    fn root_is_no_user_of_a_confined_program() {
        assert_eq!(parse_uid("1900000001".as_ref()).unwrap(), 1_900_000_001);
        for wrong in ["0", "-1", "4294967295", "root"] {
            assert!(parse_uid(wrong.as_ref()).is_err(), "{wrong}");
        }
    }
}
