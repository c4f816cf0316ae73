//! The VMM of one VM: the interface that each VMM implements, and the list of VMMs.

pub mod console;
mod end;
mod full_disk;
mod interface;
mod jail;
mod lines;
mod native;
mod plan;
mod process;
mod qemu;
mod scratch;
#[cfg(feature = "test-vmm")]
mod test_vmm;
mod usage;
mod vm;

use crate::config::{LaunchConfig, VmmSettings};

/// The serial number by which the guest finds its root disk.
pub const ROOT_SERIAL: &str = "voidbox-root";
/// The device of a root disk that is memory of the guest. No other disk is.
const ROOT_MEMORY: &str = "/dev/pmem0";
/// The serial number by which the guest finds its mailbox.
pub const MAILBOX_SERIAL: &str = "voidbox-mailbox";

pub use end::{EndKind, VmmEnd};
pub use interface::{
    Beginning, Disks, FullSave, NewVm, Publishing, RunningVm, SavedPages, Started, Vmm,
};
pub use usage::{Usage, process_tree};
pub use vm::Vm;

/// Returns the name by which the guest finds its root disk, if it has one.
pub fn root_name(config: &LaunchConfig) -> Option<&'static str> {
    config.root_disk.as_ref()?;
    match &config.vmm {
        VmmSettings::Vmm(settings) if settings.pmem => Some(ROOT_MEMORY),
        _ => Some(ROOT_SERIAL),
    }
}

/// Returns the VMM that a launch configuration chooses.
pub fn of(config: &LaunchConfig) -> &dyn Vmm {
    match &config.vmm {
        VmmSettings::Qemu(settings) => settings,
        VmmSettings::Vmm(settings) => settings,
        #[cfg(feature = "test-vmm")]
        VmmSettings::Test(settings) => settings,
    }
}
