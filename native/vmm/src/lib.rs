//! The native VMM: one process for one VM on KVM. It opens no path and makes no socket; every file is a descriptor that
//! it inherited. docs/reference/vmm.md describes the machine, its devices and its limits.

pub mod arch;
mod bus;
pub mod config;
mod console;
pub mod control;
mod device_thread;
pub mod devices;
pub mod ended;
pub mod filters;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod generation;
pub mod guest_memory;
mod machine;
mod mailbox;
mod mapped_file;
mod mapping;
pub mod memory;
mod merging;
mod page_file;
mod poll;
mod ports;
mod run;
mod snapshot;
pub mod state;
mod statistics;
mod unused;
mod vcpu;
pub mod virtio;

use std::ffi::OsString;
use std::os::fd::RawFd;

pub use ended::BAD_CONFIGURATION;
pub use merging::run_merge;
pub use run::{run, run_with};

const USAGE: &str = "usage: voidbox-vmm --control FD
       voidbox-vmm --merge FD
FD is an inherited socket, over which the configuration of one VM comes, or that of a merge of saved states.";

/// The work of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Runs a VM.
    Run,
    /// Makes a chain of saved states a base.
    Merge,
}

/// Returns the work and the descriptor of the control, or how the program is called.
pub fn read_arguments(arguments: impl Iterator<Item = OsString>) -> Result<(Work, RawFd), String> {
    let arguments: Vec<String> = arguments
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let [name, fd] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let fd = fd.parse::<RawFd>().ok().filter(|fd| *fd > 2);
    let work = match name.as_str() {
        "--control" => Some(Work::Run),
        "--merge" => Some(Work::Merge),
        _ => None,
    };
    let Some((work, fd)) = work.zip(fd) else {
        return Err(USAGE.into());
    };
    // SAFETY: reads the flags of a number, which need not be a descriptor.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(format!("the descriptor {fd} is not open\n{USAGE}"));
    }
    Ok((work, fd))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    fn read(arguments: &[&str]) -> Result<(Work, RawFd), String> {
        read_arguments(arguments.iter().map(OsString::from))
    }

    #[test]
    fn the_control_is_an_open_descriptor() {
        let file = File::open("/dev/null").unwrap();
        let fd = file.as_raw_fd();
        for (name, work) in [("--control", Work::Run), ("--merge", Work::Merge)] {
            assert_eq!(read(&[name, &fd.to_string()]), Ok((work, fd)));
        }
        for wrong in [
            &[][..],
            &["--control"],
            &["--control", "x"],
            &["--control", "2"],
            &["--control", "-1"],
            &["--control", "1000000"],
            &["--console", "9"],
            &["--control", "9", "9"],
        ] {
            assert!(read(wrong).unwrap_err().contains("usage"), "{wrong:?}");
        }
    }
}
