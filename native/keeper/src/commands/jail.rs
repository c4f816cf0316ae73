//! `jail`: runs a static program in a jail of its own, killed when standard input ends.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::path::Path;
use std::process::ExitCode;

use voidbox_jail::{Jail, Limits, Place, Program};

use super::arguments;
use super::command_error::CommandError;
use crate::error::{Code, Failure};

pub fn run(args: &[OsString]) -> Result<ExitCode, CommandError> {
    let (own, words) = arguments::split(args)?;
    let names = [
        "--program",
        "--uid",
        "--keep",
        "--show",
        "--proc",
        "--open-files",
    ];
    let values = arguments::options(own, &names)?;
    let [program, uid, kept, shown, proc, open_files] =
        values.try_into().expect("there is one value for each name");
    let path = arguments::required(program, "--program")?;
    let descriptors = |name, list: Option<OsString>| {
        list.map_or(Ok(Vec::new()), |list| parse_descriptors(name, &list))
    };
    let default = Limits::default();
    let jail = Jail {
        uid: uid.as_deref().map(parse_uid).transpose()?,
        kept: descriptors("--keep", kept)?,
        shown: descriptors("--show", shown)?,
        processes: proc.as_deref().is_some_and(|whose| whose == "own"),
        limits: Limits {
            open_files: open_files.map_or(Ok(default.open_files), |count| parse_count(&count))?,
            ..default
        },
    };
    if proc.is_some() && !jail.processes {
        return Err(CommandError::Usage("--proc has one value: own".into()));
    }
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

fn parse_count(text: &OsStr) -> Result<u64, CommandError> {
    let count = text.to_str().and_then(|text| text.parse().ok());
    count.filter(|count| *count > 2).ok_or_else(|| {
        CommandError::Usage(format!("--open-files {text:?} is not a number above 2"))
    })
}

/// Parses numbers with commas between them.
fn parse_descriptors(name: &str, text: &OsStr) -> Result<Vec<RawFd>, CommandError> {
    let refuse = || {
        CommandError::Usage(format!(
            "{name} {text:?} is not a list of descriptors above 2, such as 3,5"
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
        assert_eq!(parse_descriptors("--keep", "7,3".as_ref()).unwrap(), [7, 3]);
        for wrong in ["", "3,", "2", "-1", "a", "3 4", "99999999999"] {
            let error = parse_descriptors("--show", wrong.as_ref())
                .unwrap_err()
                .to_string();
            assert!(error.contains(&format!("--show {wrong:?}")), "{error}");
        }
    }

    #[test]
    fn a_limit_of_descriptors_leaves_room_for_the_standard_files() {
        assert_eq!(parse_count("16384".as_ref()).unwrap(), 16_384);
        for wrong in ["", "2", "-1", "many"] {
            let error = parse_count(wrong.as_ref()).unwrap_err().to_string();
            assert!(
                error.contains(&format!("--open-files {wrong:?}")),
                "{error}"
            );
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
