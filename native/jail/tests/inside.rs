//! The jail as its confined process finds it. Each test is a process of its own with one thread, which enters a jail and
//! tries what it must not be able to do, as root and as an ordinary user.

mod probes;
mod rows;

use std::process::ExitCode;

/// For all tests; they take a second on an idle machine.
const LIMIT_S: u32 = 120;

fn main() -> ExitCode {
    // A jail that does not end is a failure too.
    // SAFETY: a plain call.
    unsafe { libc::alarm(LIMIT_S) };
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, name, rest @ ..] = &args[..]
        && word == probes::WORD
    {
        return probes::run(name, rest);
    }
    rows::run(&args)
}
