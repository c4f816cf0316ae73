//! The attempts of a process inside of a jail. Each probe returns the first thing that it could do or found.

mod filters;
mod host;
mod rights;
mod shown;

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::IntoRawFd;
use std::process::ExitCode;

use voidbox_jail::{Jail, Place, Program};

/// The first argument of a process that runs a probe.
pub const WORD: &str = "probe";

/// The id of the confined process if root asks; no other process of the host has it.
pub const OWN_UID: u32 = 1_900_012_345;

type Probe = fn(&[String]) -> Result<(), String>;

const PROBES: &[(&str, Probe)] = &[
    ("files", host::finds_no_file),
    ("processes", host::finds_no_process),
    ("network", host::reaches_no_network),
    ("names", host::has_own_names),
    ("descriptors", host::has_only_kept_descriptors),
    ("capabilities", rights::has_no_capability),
    ("namespaces", rights::makes_no_namespace),
    ("users", rights::becomes_no_other_user),
    ("limits", rights::raises_no_limit),
    ("filter", filters::try_call),
    ("shown", shown::sees_only_what_is_shown),
    ("sleep", host::sleeps),
    ("exit", |_| std::process::exit(7)),
    ("killed", |_| {
        // SAFETY: a plain call.
        unsafe { libc::raise(libc::SIGKILL) };
        Ok(())
    }),
    ("nested", rights::makes_no_jail),
];

/// Whether the confined process has a user of its own, which only root can give.
pub fn has_own_user() -> bool {
    std::env::var_os("JAIL_OWN_USER").is_some()
}

fn jail() -> Jail {
    Jail {
        uid: has_own_user().then_some(OWN_UID),
        ..Jail::default()
    }
}

/// Enters a jail, and runs the probe there. A program (`exec PATH WORDS`) replaces the process instead.
pub fn run(name: &str, rest: &[String]) -> ExitCode {
    let mut jail = jail();
    // A descriptor that a jail must close, and one that it keeps.
    let open = || File::open("/dev/null").expect("a file opens").into_raw_fd();
    let (_closed, kept) = (open(), open());
    jail.kept = vec![kept];
    if name == "shown" {
        jail.processes = true;
        jail.shown = shown::open(rest);
    }
    let program = (name == "exec").then(|| {
        let words = rest.iter().map(OsString::from).collect();
        Program::open(rest[0].as_ref(), words).expect("the program opens")
    });
    // SAFETY: `main` of this process has started no thread.
    let place = unsafe { jail.enter(program.as_ref()) };
    match place {
        Ok(Place::Ended(code)) => ExitCode::from(u8::try_from(code).expect("a code")),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(3)
        }
        Ok(Place::Inside) => match program {
            Some(program) => {
                let error = program.exec();
                eprintln!("{error:?}");
                ExitCode::from(4)
            }
            None => try_inside(name, rest, kept),
        },
    }
}

fn try_inside(name: &str, rest: &[String], kept: i32) -> ExitCode {
    let probe = PROBES.iter().find(|(known, _)| *known == name);
    let (_, probe) = probe.expect("the probe is known");
    let mut rest = rest.to_vec();
    rest.push(kept.to_string());
    let found = std::panic::catch_unwind(|| probe(&rest));
    match found {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(found)) => {
            let _ = writeln!(std::io::stderr(), "inside: {found}");
            ExitCode::FAILURE
        }
        Err(_) => ExitCode::from(101),
    }
}

/// Returns an error unless the call failed with one of these errors.
pub fn expect_errno(what: &str, result: libc::c_long, errnos: &[i32]) -> Result<(), String> {
    if result != -1 {
        return Err(format!("{what} worked ({result})"));
    }
    let error = std::io::Error::last_os_error();
    match error.raw_os_error() {
        Some(errno) if errnos.contains(&errno) => Ok(()),
        _ => Err(format!("{what}: {error}")),
    }
}
