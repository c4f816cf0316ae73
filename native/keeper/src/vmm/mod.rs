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

pub use end::{EndKind, VmmEnd};
pub use interface::{Beginning, NewVm, Publishing, RunningVm, Started, Vmm};
pub use usage::Usage;
pub use vm::Vm;

/// Returns the VMM that a launch configuration chooses.
pub fn of(config: &LaunchConfig) -> &dyn Vmm {
    match &config.vmm {
        VmmSettings::Qemu(settings) => settings,
        VmmSettings::Vmm(settings) => settings,
        #[cfg(feature = "test-vmm")]
        VmmSettings::Test(settings) => settings,
    }
}
