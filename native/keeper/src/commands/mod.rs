//! The commands of `voidbox-vm`.

use std::ffi::OsString;
use std::process::ExitCode;

mod admission;
mod descriptors;
mod keep;
mod launch;
mod lifeline;
mod run_as;
mod seal;
mod status;
mod sweep;

/// Exit code of wrong usage.
const USAGE: u8 = 2;
/// Exit code of a host that lacks something.
const ENVIRONMENT: u8 = 3;

const HELP: &str = "voidbox-vm: the keeper of one VM (docs/keeper.md)

  launch --dir DIR [--config FILE]     find or create the VM of a run directory
  status --dir DIR                     what a run directory says, touching nothing
  seal --dir DIR --key KEY             a run directory without a VM never gets one
  sweep --vms DIR [--max-bytes N]      list run directories, remove acknowledged dead ones
  lock --file F [--tie] -- CMD...      become CMD with a lock held on F (exit 75: it is held)
  tie -- CMD...                        become CMD, killed when this process's parent dies
  lifeline -- CMD...                   run CMD, killed when standard input ends
  host                                 TSC, KVM and memory of this host
  --version
";

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Failure(#[from] crate::error::Failure),
    #[error("{what}: {source}")]
    Io {
        what: String,
        source: std::io::Error,
    },
}

impl CommandError {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// Runs the command of an argument list without the program's name.
pub fn run(args: Vec<OsString>) -> ExitCode {
    let Some((command, rest)) = args.split_first() else {
        eprint!("{HELP}");
        return ExitCode::from(USAGE);
    };
    let result = match command.to_str() {
        Some("launch") => launch::run(rest),
        Some("keep") => keep::run(rest),
        Some("status") => status::run(rest),
        Some("seal") => seal::run(rest),
        Some("sweep") => sweep::run(rest),
        Some("lock") => run_as::lock(rest),
        Some("tie") => run_as::tie(rest),
        Some("lifeline") => lifeline::run(rest),
        Some("host") => host(rest),
        Some("--version" | "version") => {
            println!("voidbox-vm {} {}", env!("CARGO_PKG_VERSION"), build());
            Ok(ExitCode::SUCCESS)
        }
        Some("--help" | "help" | "-h") => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(CommandError::Usage(format!(
            "unknown command {command:?}; voidbox-vm --help lists them"
        ))),
    };
    result.unwrap_or_else(|error| report(&error))
}

/// What this binary was built as.
pub fn build() -> String {
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    format!("protocol-{} {profile}", voidbox_protocol::PROTOCOL_VERSION)
}

fn report(error: &CommandError) -> ExitCode {
    eprintln!("voidbox-vm: {error}");
    match error {
        CommandError::Usage(_) => ExitCode::from(USAGE),
        CommandError::Failure(failure) => {
            let body = serde_json::json!({
                "state": "error",
                "error": { "code": failure.code.as_str(), "message": failure.message },
            });
            println!("{body}");
            match failure.code {
                crate::error::Code::HostNotReady => ExitCode::from(ENVIRONMENT),
                crate::error::Code::BadRequest | crate::error::Code::ApiVersion => {
                    ExitCode::from(USAGE)
                }
                _ => ExitCode::FAILURE,
            }
        }
        CommandError::Io { .. } => ExitCode::FAILURE,
    }
}

fn host(rest: &[OsString]) -> Result<ExitCode, CommandError> {
    options(rest, &[])?;
    let report =
        crate::host::HostReport::read().map_err(CommandError::io("looking at the host"))?;
    print_json(&report);
    Ok(ExitCode::SUCCESS)
}

fn print_json(value: &impl serde::Serialize) {
    println!(
        "{}",
        serde_json::to_string(value).expect("plain data serialises")
    );
}

/// The values of `names` (each `--name VALUE`, at most once), in their order.
fn options(args: &[OsString], names: &[&str]) -> Result<Vec<Option<OsString>>, CommandError> {
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

/// The value of an option that must be there.
fn required(value: Option<OsString>, name: &str) -> Result<OsString, CommandError> {
    value.ok_or_else(|| CommandError::Usage(format!("{name} is missing")))
}
