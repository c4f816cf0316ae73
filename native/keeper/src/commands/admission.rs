//! Reserves memory for one more VM. The VMs of a folder are counted by the locks of their keepers. So every process
//! that launches a VM sees the same count, and a VM that has ended, in whatever way, uses no memory.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Instant;

use super::command_error::CommandError;
use super::pool;
use super::turn::wait_for_turn;
use crate::config::{Budget, LaunchConfig};
use crate::error::{Code, Failure};
use crate::run_dir::{EXIT, INTENT, RunDir};

/// The part of the budget that VMs may have which wait, as a divisor.
const POOL_SHARE: u64 = 8;

/// Waits for its turn, and counts. The caller holds the lock of `dir`, and drops the returned file once its own intent
/// is written.
pub fn admit(
    dir: &RunDir,
    config: &LaunchConfig,
    deadline: Instant,
) -> Result<Option<File>, CommandError> {
    let (Some(budget), Some(vms)) = (config.budget, dir.path().parent()) else {
        return Ok(None);
    };
    let turn = wait_for_turn(vms, deadline)?;
    let need_mib = u64::from(config.memory_mib) + u64::from(budget.overhead_mib);
    let mut counted = count(vms, dir, budget)?;
    let limit_mib = u64::from(budget.memory_mib);
    if config.waits && counted.pooled_mib + need_mib > limit_mib / POOL_SHARE {
        let message = format!(
            "a VM that waits needs {need_mib} MiB with its overhead: {} of {} MiB of the pool are taken",
            counted.pooled_mib,
            limit_mib / POOL_SHARE
        );
        return Err(Failure::new(Code::NoCapacity, message).into());
    }
    if !config.waits && counted.taken_mib + need_mib > limit_mib {
        counted = make_room(vms, dir, budget, need_mib)?;
    }
    let Counted {
        count, taken_mib, ..
    } = counted;
    if taken_mib + need_mib > limit_mib {
        let message = format!(
            "the VM needs {need_mib} MiB with its overhead: {taken_mib} of {} MiB are taken by {count} VMs",
            budget.memory_mib
        );
        return Err(Failure::new(Code::NoCapacity, message).into());
    }
    Ok(Some(turn))
}

/// Ends VMs that wait until there is room, so that no stage waits for the pool.
fn make_room(
    vms: &Path,
    own: &RunDir,
    budget: Budget,
    need_mib: u64,
) -> Result<Counted, CommandError> {
    for pooled in pool::list(vms).map_err(CommandError::io("listing the pool"))? {
        pool::end(&pooled.dir);
        let counted = count(vms, own, budget)?;
        if counted.taken_mib + need_mib <= u64::from(budget.memory_mib) {
            return Ok(counted);
        }
    }
    count(vms, own, budget)
}

/// The VMs of a folder.
#[derive(Default)]
struct Counted {
    count: usize,
    /// The memory with which all of them were admitted.
    taken_mib: u64,
    /// The part of the VMs that wait.
    pooled_mib: u64,
}

fn count(vms: &Path, own: &RunDir, budget: Budget) -> Result<Counted, CommandError> {
    living(vms, own, budget).map_err(CommandError::io("counting the VMs of this host"))
}

/// Returns the number of other VMs in the folder, and the memory with which they were admitted. A VM without a budget
/// is counted with the overhead of this launch.
fn living(vms: &Path, own: &RunDir, budget: Budget) -> io::Result<Counted> {
    let mut found = Counted::default();
    for entry in fs::read_dir(vms)? {
        let entry = entry?;
        let dir = RunDir::at(entry.path());
        if dir.path() == own.path() || dir.file(EXIT).exists() || !dir.path().is_dir() {
            continue;
        }
        if !dir.is_locked()? {
            continue;
        }
        let intent = fs::read(dir.file(INTENT)).ok();
        let intent: Option<serde_json::Value> =
            intent.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        // A launch that waits for its turn has not written its intent yet.
        let Some(intent) = intent else { continue };
        let overhead = intent["budget"]["overheadMib"].as_u64();
        let mib = intent["memoryMib"].as_u64().unwrap_or(0)
            + overhead.unwrap_or(u64::from(budget.overhead_mib));
        found.count += 1;
        found.taken_mib += mib;
        if pool::is_pooled(&entry.file_name()) {
            found.pooled_mib += mib;
        }
    }
    Ok(found)
}
