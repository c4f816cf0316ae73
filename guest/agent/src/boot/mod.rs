//! The steps of PID 1 before the first byte of the protocol, in order.

mod boot_error;
mod command_line;
mod devices;
mod limits;
mod made;
mod modules;
mod mounts;
mod port;
mod power;
mod root;
mod scrub;
mod start;
mod timer;

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::cgroup::CgroupParent;
use crate::disks::Storage;
use crate::log;
use crate::mailbox::Mailbox;
use crate::procfs;
use boot_error::BootError;
use command_line::CommandLine;
use start::Disks;

pub use devices::{MAX_ENTROPY_BYTES, credit_entropy, set_clock};
pub use made::bind_scratch_folder;
pub use mounts::{
    CREDENTIALS, USER_FOLDERS, bind_read_only, mount_shared_tree, unmount_shared_tree,
};
pub use port::Transport;
pub use power::restart;
pub use start::read_start;

/// A guest that is ready for its session.
pub struct Booted {
    pub port: File,
    pub transport: Transport,
    pub mailbox: Option<Mailbox>,
    pub storage: Storage,
    /// Folders outside the user's own that the scratch disk has from an earlier VM.
    pub made_folders: Vec<PathBuf>,
    pub cgroup: CgroupParent,
}

/// Mounts, loads, limits and opens; returns once the keeper has connected to the port.
pub fn boot() -> Result<Booted, BootError> {
    mounts::mount_kernel_views()?;
    log::open_kmsg();
    timer::check()?;
    let command_line = CommandLine::read();
    let transport = command_line.transport()?;
    modules::load_all(Path::new("/lib/modules/voidbox.order"));
    protect_agent();
    devices::raise_loopback();
    let cgroup = limits::set_up()?;
    // Until here the guest is the same for all VMs of its size, and has one thread.
    let mut early_port = match command_line.waits() {
        true => {
            if let Err(error) = scrub::zero_freed_memory() {
                log::line(&format!("the snapshot will be larger: {error}"));
            }
            Some(port::open(transport)?)
        }
        false => None,
    };
    let disks = match &mut early_port {
        Some(port) => start::wait_for_start(port, || port::open(transport))?,
        None => Disks {
            scratch: command_line.scratch_device(),
            root: command_line.root_disk().map(str::to_owned),
        },
    };
    let scratch = mounts::mount_scratch(&disks.scratch)?;
    let layer = match &disks.root {
        Some(serial) => Some(root::switch_to(serial, &scratch)?),
        None => None,
    };
    mounts::bind_user_folders(&scratch)?;
    let storage = Storage { scratch, layer };
    let made_folders = made::bind_again(&storage)
        .map_err(|error| BootError::at("binding folders of an earlier VM", error))?;
    let port = match early_port {
        Some(port) => port,
        None => port::open(transport)?,
    };
    // The kernel has found all disks: it finds them with the serial port, and before the vsock device.
    let mailbox =
        Mailbox::find().map_err(|error| BootError::at("opening the mailbox disk", error))?;
    Ok(Booted {
        port,
        transport,
        mailbox,
        storage,
        made_folders,
        cgroup,
    })
}

/// Waits until a guest at rest gets its next session, and returns the connection and mailbox for it.
pub fn wake(mut port: File, transport: Transport) -> Result<(File, Option<Mailbox>), BootError> {
    start::wait_at_rest(&mut port, || port::open(transport))?;
    // The keeper of a copy has another mailbox.
    let mailbox =
        Mailbox::find().map_err(|error| BootError::at("opening the mailbox disk", error))?;
    Ok((port, mailbox))
}

/// Protects the agent from being killed for memory, and from running out of descriptors first.
fn protect_agent() {
    if let Err(error) = procfs::refuse_oom_kill() {
        log::line(&format!("oom_score_adj: {error}"));
    }
    let limit = libc::rlimit {
        rlim_cur: 65_536,
        rlim_max: 65_536,
    };
    // SAFETY: `limit` is a valid value that outlives the call; umask takes only a number.
    unsafe {
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        libc::umask(0o022);
    }
}
