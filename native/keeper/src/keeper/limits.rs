//! The limits of a VM on its host, by control groups.

use std::fs;

use crate::cgroups::{Group, Limits, Machine};
use crate::config::LaunchConfig;
use crate::run_dir::{CGROUPS, RunDir};

/// The memory beside the guest's of a VM whose launch does not name it.
const OVERHEAD_MIB: u64 = 384;
/// The most memory of a guest that waits, which the VMM writes into anonymous memory when it makes a snapshot.
const SNAPSHOT_MIB: u64 = 256;

/// Returns the limits: a CPU for the devices beside those of the guest, and twice the memory that the VMM should need.
/// They end a VMM that is out of control, and no VM that works.
fn limits_of(config: &LaunchConfig) -> Limits {
    let budget = config.budget.as_ref();
    let overhead = budget.map_or(OVERHEAD_MIB, |budget| budget.overhead_mib.into());
    let snapshot = config.snapshots.as_ref().map_or(0, |_| SNAPSHOT_MIB);
    Limits {
        cpus: config.vcpus + 1,
        memory_mib: u64::from(config.memory_mib) + 2 * overhead + snapshot,
    }
}

/// Makes the groups of a VM, and writes them into its run directory, so that a sweep can remove them.
pub(super) fn make(dir: &RunDir, config: &LaunchConfig, started_at_ms: u64) -> Group {
    let name = format!("{}-{started_at_ms}", std::process::id());
    let group = Group::make(Machine::read(), &name, limits_of(config));
    let folders: Vec<_> = group.folders().collect();
    if !folders.is_empty() {
        let text = serde_json::to_vec(&folders).expect("paths of groups are UTF-8");
        if let Err(error) = fs::write(dir.file(CGROUPS), text) {
            eprintln!("the control groups of the VM are not recorded: {error}");
        }
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_room_for_the_vmm_and_for_a_snapshot() {
        let config = |more: serde_json::Value| -> LaunchConfig {
            let mut config = serde_json::json!({
                "v": 1, "vmKey": "k", "memoryMib": 256, "vcpus": 2, "diskMib": 64,
                "kernel": { "path": "/k", "kind": "debian" }, "initramfs": "/i",
                "vmm": { "name": "vmm", "program": "/p" },
            });
            for (key, value) in more.as_object().unwrap() {
                config[key] = value.clone();
            }
            serde_json::from_value(config).unwrap()
        };
        let limits = |more| {
            let Limits { cpus, memory_mib } = limits_of(&config(more));
            (cpus, memory_mib)
        };
        assert_eq!(limits(serde_json::json!({})), (3, 256 + 768));
        let budget = serde_json::json!({ "memoryMib": 4096, "overheadMib": 16 });
        let snapshots = serde_json::json!({ "dir": "/s", "maxMib": 100 });
        assert_eq!(
            limits(serde_json::json!({ "budget": budget })),
            (3, 256 + 32)
        );
        assert_eq!(
            limits(serde_json::json!({ "budget": budget, "snapshots": snapshots })),
            (3, 256 + 32 + 256)
        );
    }
}
