//! The kernel's command line of a guest of `voidbox-vmm`.

use crate::config::LaunchConfig;
use crate::vmm::root_name;

/// The port of the host to which the agent connects.
pub const GUEST_PORT: u32 = 1024;

/// Returns the command line of a guest that `waits` to be saved or not. User code of the guest can read it, so no part of it is secret.
pub fn kernel_command_line(config: &LaunchConfig, waits: bool) -> String {
    // Failures of an early boot stay visible on the console. The VMM has the reset of a keyboard controller.
    let mut line = format!(
        "console=ttyS0 loglevel=4 panic=-1 reboot=k voidbox.scratch=/dev/vda voidbox.port=vsock:{GUEST_PORT}"
    );
    if let Some(name) = root_name(config) {
        line.push_str(&format!(" voidbox.root={name}"));
    }
    if waits {
        line.push_str(" voidbox.wait=1");
    }
    line
}
