//! What the keeper asks of a VMM, whichever it is.

use std::fs::File;
use std::io;
use std::pin::Pin;
use std::process::ExitStatus;
use std::rc::Rc;

use tokio::net::UnixStream;

use super::usage::Usage;
use crate::config::LaunchConfig;
use crate::disk::Disk;
use crate::error::Failure;
use crate::host::HostTsc;
use crate::run_dir::RunDir;

/// A future of an interface: the keeper has one thread.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A VMM with its settings of one launch.
pub trait Vmm {
    /// As in the launch configuration, in `status` and in events of runs.
    fn name(&self) -> &'static str;

    /// How the code of the guest runs. An emulation is never called hardware.
    fn accelerator(&self) -> &'static str;

    /// What confines the VMM of the VM in `dir` on the host; `none` without a jail.
    fn describe_jail(&self, dir: &RunDir) -> String;

    /// Fails closed when a piece that this VM needs is missing, with the line that brings it.
    fn check_host(&self, config: &LaunchConfig) -> Result<(), Failure>;

    /// Starts a VM with a fresh scratch disk, which its guest has as `/dev/vda`.
    fn start<'a>(&'a self, vm: NewVm<'a>) -> Work<'a, Result<Started, Failure>>;
}

/// The parts of a VM that do not depend on its VMM.
#[derive(Clone, Copy)]
pub struct NewVm<'a> {
    pub config: &'a LaunchConfig,
    pub dir: &'a RunDir,
    /// Without room on it, the start waits.
    pub disk: &'a Rc<Disk>,
    pub tsc: HostTsc,
}

/// A VM that runs, and the two ways to its guest.
pub struct Started {
    pub vm: Rc<dyn RunningVm>,
    /// The keeper's end of the guest port.
    pub port: UnixStream,
    /// The memory of the mailbox.
    pub mailbox: File,
}

/// A VM that was started. It ends with its keeper at the latest.
pub trait RunningVm {
    /// Process id of what the keeper started; the VMM is this process or below it.
    fn pid(&self) -> u32;

    /// Opens the control, once, and returns as soon as the VMM takes commands. Never returns for a VMM that ends
    /// before.
    fn control(&self) -> Work<'_, Result<Box<dyn Control>, Violation>>;

    /// What the VM takes of its host.
    fn usage(&self) -> Usage;

    /// Memory of the VMM that is resident now.
    fn resident_bytes(&self) -> u64;

    /// Returns when the VMM has ended, whatever ended it.
    fn exited(&self) -> Work<'_, io::Result<ExitStatus>>;

    /// Kills the VMM. Returns when it is gone with everything below it and its last words are in the console file.
    fn kill(&self) -> Work<'_, io::Result<ExitStatus>>;
}

/// The control of a VM that runs. The keeper pauses and resumes the VM while the host's disk is full.
pub trait Control {
    /// Returns what the VMM says next. Giving up on it loses nothing.
    fn said(&mut self) -> Work<'_, Result<Said, Violation>>;

    /// Asks the VMM to pause the VM. A VMM that cannot is about to end.
    fn pause(&mut self) -> Work<'_, ()>;

    /// Asks the VMM to resume the VM; it says [`Said::Resumed`] or [`Said::Refused`].
    fn resume(&mut self) -> Work<'_, ()>;
}

/// What a VMM says over its control.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// The VM is paused: a write of its disk found no room on the host. Its guest saw nothing of it.
    NoRoom,
    /// The VM runs.
    Resumed,
    /// It does not do what it was asked.
    Refused(String),
    /// The VMM has ended.
    Ended,
}

/// What a VMM said that is not the protocol of its control. It is hostile then, or broken: its guest may have taken
/// it over.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);
