//! `voidbox-vmm --control FD`: runs one VM whose configuration comes over the inherited socket FD.
//! `voidbox-vmm --merge FD`: merges saved states.

use std::process::ExitCode;

use voidbox_vmm::Work;

fn main() -> ExitCode {
    match voidbox_vmm::read_arguments(std::env::args_os().skip(1)) {
        Ok((Work::Run, control)) => ExitCode::from(voidbox_vmm::run(control)),
        Ok((Work::Merge, control)) => ExitCode::from(voidbox_vmm::run_merge(control)),
        Err(usage) => {
            eprintln!("{usage}");
            ExitCode::from(voidbox_vmm::BAD_CONFIGURATION)
        }
    }
}
