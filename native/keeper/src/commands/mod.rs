//! The commands of `voidbox-vm`.

use std::ffi::OsString;
use std::process::ExitCode;

mod admission;
mod answer;
mod arguments;
mod command_error;
mod descriptors;
mod jail;
mod keep;
mod launch;
mod lifeline;
mod pool;
mod run_as;
mod seal;
mod socket;
mod status;
mod sweep;
mod turn;

use command_error::CommandError;

use crate::cgroups::Unlimited;

/// The exit code of wrong usage.
const USAGE: u8 = 2;
/// The exit code if the host lacks something.
const ENVIRONMENT: u8 = 3;

const HELP: &str = "voidbox-vm: the keeper of one VM (docs/reference/keeper.md)

  launch --dir DIR [--config FILE]     find or create the VM of a run directory
  status --dir DIR                     print the state of a run directory, and change nothing
  seal --dir DIR --key KEY             stop a run directory without a VM from getting one
  sweep --vms DIR [--max-bytes N]      list run directories, and remove acknowledged dead ones
  lock --file F [--tie] -- CMD...      become CMD, with a lock on F (exit 75: F is already locked)
  tie -- CMD...                        become CMD, killed when this process's parent dies
  lifeline -- CMD...                   run CMD, killed when standard input ends
  jail --program F [--uid N] [--keep 5,7] [--show 8,9] [--proc own] [--open-files N] -- WORDS...
                                       become the static program F in an empty root without rights, killed when
                                       standard input ends
  host [--tsc]                         print KVM and memory of this host; the speed of its TSC takes 50 ms more
  --version
";

/// Runs a command; the list does not contain the program's name.
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
        Some("jail") => jail::run(rest),
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

/// Describes the build of this binary.
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

/// The answer of `host`.
#[derive(serde::Serialize)]
struct Facts {
    #[serde(flatten)]
    report: crate::host::HostReport,
    unlimited: Unlimited,
}

fn host(rest: &[OsString]) -> Result<ExitCode, CommandError> {
    let with_tsc = match rest {
        [] => false,
        [flag] if flag == "--tsc" => true,
        _ => {
            let message = format!("host takes only --tsc, and was given {rest:?}");
            return Err(CommandError::Usage(message));
        }
    };
    let report = crate::host::HostReport::read(with_tsc)
        .map_err(CommandError::io("reading the facts of the host"))?;
    answer::print_json(&Facts {
        report,
        unlimited: Unlimited::read(),
    });
    Ok(ExitCode::SUCCESS)
}
