//! The VMM of one VM: its command line, its jail, its process, its console.

mod command;
pub mod console;
mod jail;
mod process;
mod qmp;
mod scratch;
mod usage;

pub use process::Vmm;
pub use usage::{Usage, resident_bytes};

use crate::config::LaunchConfig;
use crate::run_dir::{RunDir, SCRATCH};

/// How a run says what keeps this VM's VMM in.
pub fn jail_description(config: &LaunchConfig, dir: &RunDir) -> String {
    jail::description(config, jail::vmm_uid(dir))
}

/// What the VM whose VMM runs as `pid` takes of its host.
pub fn usage(pid: u32, dir: &RunDir) -> Usage {
    usage::read(pid, &dir.file(SCRATCH))
}
