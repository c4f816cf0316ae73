//! The VMM of one VM: its command line, its jail, its process, its console.

mod command;
pub mod console;
mod jail;
mod process;
mod qmp;
mod scratch;

pub use process::Vmm;

use crate::config::LaunchConfig;
use crate::run_dir::RunDir;

/// How a run says what keeps this VM's VMM in.
pub fn jail_description(config: &LaunchConfig, dir: &RunDir) -> String {
    jail::description(config, jail::vmm_uid(dir))
}

/// Resident memory of a process and everything below it.
pub fn resident_bytes(pid: u32) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm"));
    let own = pages
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok())
        .unwrap_or(0);
    let children =
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let below: u64 = children
        .split_whitespace()
        .filter_map(|child| child.parse().ok())
        .map(resident_bytes)
        .sum();
    own * rustix::param::page_size() as u64 + below
}
