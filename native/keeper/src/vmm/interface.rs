//! The interface of a VMM for the keeper.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitStatus;
use std::rc::Rc;

use tokio::net::UnixStream;

use super::end::VmmEnd;
use super::usage::Usage;
use crate::config::LaunchConfig;
use crate::disk::Disk;
use crate::error::Failure;
use crate::run_dir::RunDir;
use crate::snapshots::Touched;

/// A future of an interface; it is not `Send`, because the keeper has one thread.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A VMM with its settings of one launch.
pub trait Vmm {
    /// The name in the launch configuration, in `status` and in events of runs.
    fn name(&self) -> &'static str;

    /// How the guest's code runs. An emulation must never be reported as hardware.
    fn accelerator(&self) -> &'static str;

    /// Describes the host's jail around the VMM of the VM in `dir`; `none` without a jail.
    fn describe_jail(&self, dir: &RunDir) -> String;

    /// Fails if a piece that this VM needs is missing; the error names the command that provides it.
    fn check_host(&self, config: &LaunchConfig) -> Result<(), Failure>;

    /// Returns the key of the snapshot from which a VM of this configuration would begin now; `None` for a VMM whose VMs
    /// cannot wait.
    fn snapshot_key(&self, _: &LaunchConfig) -> Option<String> {
        None
    }

    /// Starts a VM with a new scratch disk, which its guest sees as `/dev/vda`.
    fn start<'a>(&'a self, vm: NewVm<'a>) -> Work<'a, Result<Started, Failure>>;
}

/// The parts of a VM that do not depend on its VMM.
#[derive(Clone, Copy)]
pub struct NewVm<'a> {
    pub config: &'a LaunchConfig,
    pub dir: &'a RunDir,
    /// The start waits while this disk is full.
    pub disk: &'a Rc<Disk>,
    /// False after a snapshot has failed in this launch: the VM boots.
    pub with_snapshots: bool,
}

/// The disks of a copy. They may have changed while the VM waited.
#[derive(Debug, Clone)]
pub struct Disks {
    pub scratch: PathBuf,
    pub scratch_bytes: u64,
}

/// How a VM begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// Its kernel boots, and its agent sends `Hello`.
    Boot,
    /// Its kernel boots, and its agent sends `Waiting`; the VM can then be saved with [`RunningVm::save`].
    BootToSave,
    /// It continues as a copy whose agent has sent `Waiting` already, once [`RunningVm::restored`] returns.
    Snapshot,
}

/// A running VM, and the two connections to its guest.
pub struct Started {
    pub vm: Rc<dyn RunningVm>,
    /// The keeper's end of the guest port.
    pub port: UnixStream,
    /// The memory of the mailbox; `None` if the guest has no such disk.
    pub mailbox: Option<File>,
    pub beginning: Beginning,
    /// The reason why a snapshot is not used or not made.
    pub note: Option<String>,
}

/// A VM that was started. It ends with its keeper at the latest.
pub trait RunningVm {
    /// The id of the process that the keeper started; the VMM is this process or a descendant.
    fn pid(&self) -> u32;

    /// Opens the control, once, and returns as soon as the VMM accepts commands. Never returns if the VMM ends before.
    fn control(&self) -> Work<'_, Result<Box<dyn Control>, Violation>>;

    /// Saves a VM whose guest waits for `Start`, for [`Beginning::BootToSave`]. The VM runs when this returns. The error
    /// is the reason why there is no snapshot; the VM itself is not affected.
    fn save(&self) -> Work<'_, Result<Publishing, String>> {
        Box::pin(async { Err("this VMM has no snapshots".into()) })
    }

    /// Gives up the snapshot of a VM whose guest does not wait, so that another VM may make it.
    fn abandon_save(&self) {}

    /// Returns once a VM that began as [`Beginning::Snapshot`] has its state, and is paused. Then the VM can wait.
    fn paused(&self) -> Work<'_, Result<(), String>> {
        Box::pin(async { Err("VMs of this VMM cannot wait".into()) })
    }

    /// Returns once a VM that began as [`Beginning::Snapshot`] runs and has its own disks.
    fn restored<'a>(&'a self, _: &'a Disks) -> Work<'a, Result<(), String>> {
        Box::pin(async { Err("this VMM has no snapshots".into()) })
    }

    /// Returns the key of the snapshot from which the VM began.
    fn snapshot_key(&self) -> Option<&str> {
        None
    }

    /// Returns the pages that a copy has used so far, if the keepers of later copies do not know them yet.
    fn touched(&self) -> Option<Touched> {
        None
    }

    /// Returns the resources of the host that the VM uses.
    fn usage(&self) -> Usage;

    /// Returns the VMM's resident memory.
    fn resident_bytes(&self) -> u64;

    /// Returns the reason of the VMM's end, if the VMM itself has given one. It is complete once [`RunningVm::exited`]
    /// or [`RunningVm::kill`] has returned.
    fn end(&self) -> Option<VmmEnd> {
        None
    }

    /// Returns once the VMM has ended, for whatever reason.
    fn exited(&self) -> Work<'_, io::Result<ExitStatus>>;

    /// Kills the VMM. Returns once it and its descendants have ended, and its last output is in the console file.
    fn kill(&self) -> Work<'_, io::Result<ExitStatus>>;
}

/// The thread that puts a snapshot into its place.
pub type Publishing = std::thread::JoinHandle<io::Result<()>>;

/// The control of a running VM. The keeper pauses and resumes the VM while the host's disk is full.
pub trait Control {
    /// Returns the VMM's next message. Cancelling this call loses no message.
    fn said(&mut self) -> Work<'_, Result<Said, Violation>>;

    /// Requests a pause of the VM. A VMM that cannot do so is about to end.
    fn pause(&mut self) -> Work<'_, ()>;

    /// Requests that the VMM resumes the VM; it answers [`Said::Resumed`] or [`Said::Refused`].
    fn resume(&mut self) -> Work<'_, ()>;

    /// Pauses the VM and saves it with its memory. It stays paused, whatever the result is. Returns the id of its state;
    /// the error is the reason why there is no save.
    fn save_full<'a>(&'a mut self, _save: &'a FullSave) -> Work<'a, Result<String, String>> {
        Box::pin(async { Err("this VMM has no full snapshots".into()) })
    }
}

/// The files of a full save, which the VMM writes.
#[derive(Debug)]
pub struct FullSave {
    pub state: File,
    pub memory: File,
    pub pages: SavedPages,
}

/// The pages of a full save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavedPages {
    /// All that are not zero.
    All,
    /// Those that have changed since the VM's last full save.
    Changed,
}

/// A message of a VMM over its control.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// The VM is paused: a write of its disk found no room on the host. Its guest did not notice this.
    NoRoom,
    /// The VM runs.
    Resumed,
    /// The VMM refuses a request.
    Refused(String),
    /// The VMM has ended.
    Ended,
}

/// A message of a VMM that violates the protocol of its control. Such a VMM is hostile or broken: its guest may have
/// taken it over.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);
