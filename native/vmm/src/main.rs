//! `voidbox-vmm --control FD`: runs one VM whose configuration comes over the inherited socket FD.

use std::process::ExitCode;

fn main() -> ExitCode {
    match voidbox_vmm::read_arguments(std::env::args_os().skip(1)) {
        Ok(control) => ExitCode::from(voidbox_vmm::run(control)),
        Err(usage) => {
            eprintln!("{usage}");
            ExitCode::from(voidbox_vmm::BAD_CONFIGURATION)
        }
    }
}
