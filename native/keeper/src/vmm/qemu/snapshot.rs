//! Snapshots of QEMU: the state of the devices, which QEMU writes into a pipe and reads from one, and the
//! memory of the guest, which the keeper copies while the VM is stopped.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::command::qemu_args;
use super::descriptors::{Descriptors, SnapshotDescriptors, SnapshotFiles};
use super::qmp::Qmp;
use crate::config::{Accelerator, LaunchConfig, QemuSettings, SnapshotSettings};
use crate::host::{HostCpu, HostTsc};
use crate::snapshots::{Found, Key, KeyParts, Reading, Record, Writing, memory};
use crate::vmm::interface::{Beginning, NewVm, Publishing};
use crate::vmm::plan::{self, Plan, in_thread};

const POLL: Duration = Duration::from_millis(2);
/// The change of the size of a scratch disk after which QEMU tells its guest the size.
const OTHER_SIZE_BYTES: u64 = 1 << 20;

/// How one VM begins, with the files that its QEMU inherits.
pub struct Preparation {
    pub beginning: Beginning,
    pub tsc: HostTsc,
    pub files: SnapshotFiles,
    pub saving: Option<Saving>,
    /// Only for a VM that begins from a snapshot.
    pub snapshot_key: Option<String>,
    pub note: Option<String>,
}

/// A snapshot that QEMU has still to write.
pub struct Saving {
    writing: Writing,
    /// QEMU's end of the pipe.
    pipe: OwnedFd,
    /// The memory of the guest, which QEMU writes.
    memory: Rc<File>,
    record: Record,
}

/// Finds a snapshot, or decides to make one. Every failure leads to a plain boot, and its note names the failure.
pub async fn prepare(settings: &QemuSettings, vm: &NewVm<'_>) -> Preparation {
    let trusted = HostTsc::is_trusted();
    let mut note = None;
    let config = vm.config;
    if let Some(snapshots) = config.snapshots.as_ref().filter(|_| vm.with_snapshots) {
        match prepare_snapshot(settings, config, snapshots, trusted).await {
            Ok(Ok(preparation)) => return preparation,
            Ok(Err(damage)) => note = damage,
            Err(error) => note = Some(format!("snapshots are not used: {error}")),
        }
    }
    Preparation {
        beginning: Beginning::Boot,
        tsc: HostTsc::measure().await,
        files: SnapshotFiles::default(),
        saving: None,
        snapshot_key: None,
        note,
    }
}

async fn prepare_snapshot(
    settings: &QemuSettings,
    config: &LaunchConfig,
    snapshots: &SnapshotSettings,
    trusted: bool,
) -> io::Result<Result<Preparation, Option<String>>> {
    let parts = key_parts(settings, config, trusted)?;
    let (plan, note) = plan::decide(config, snapshots, parts).await?;
    let (making, mut record) = match plan {
        Plan::Copy(found) => {
            let held = in_thread(move || found.hold_memory().map(|memory| (found, memory)));
            let (found, memory) = held.await?;
            return Ok(Ok(prepare_copy(*found, memory, trusted)?));
        }
        Plan::Save(making, record) => (making, record),
        Plan::Boot => return Ok(Err(note)),
    };
    let tsc = HostTsc::measure().await;
    record.tsc_khz = tsc.khz;
    let (writing, pipe) = Writing::start(*making)?;
    let memory = Rc::new(memory::create(record.guest_bytes())?);
    Ok(Ok(Preparation {
        beginning: Beginning::BootToSave,
        tsc,
        files: SnapshotFiles {
            memory: Some(memory.clone()),
            state: None,
        },
        saving: Some(Saving {
            writing,
            pipe,
            memory,
            record: *record,
        }),
        snapshot_key: None,
        note,
    }))
}

fn prepare_copy(found: Found, memory: File, trusted: bool) -> io::Result<Preparation> {
    let Found { state, record, .. } = found;
    Ok(Preparation {
        beginning: Beginning::Snapshot,
        tsc: HostTsc {
            khz: record.tsc_khz,
            trusted,
        },
        files: SnapshotFiles {
            memory: Some(Rc::new(memory)),
            state: Some(Reading::start(state)?),
        },
        saving: None,
        snapshot_key: Some(record.key),
        note: None,
    })
}

/// Returns the key of the snapshot from which a VM would begin now.
pub fn key(settings: &QemuSettings, config: &LaunchConfig) -> io::Result<String> {
    let parts = key_parts(settings, config, HostTsc::is_trusted())?;
    Ok(Key::new(parts).hex)
}

/// Returns all that must be equal for a copy to continue.
fn key_parts(
    settings: &QemuSettings,
    config: &LaunchConfig,
    trusted: bool,
) -> io::Result<KeyParts> {
    let no_numbers = Descriptors {
        port: 0,
        console: 0,
        mailbox: 0,
        control: 0,
        snapshot: SnapshotDescriptors {
            memory: Some(0),
            state: None,
        },
    };
    let tsc = HostTsc { khz: 0, trusted };
    let arguments = qemu_args(
        settings.accelerator,
        config,
        no_numbers,
        tsc,
        Beginning::BootToSave,
    );
    // A guest on KVM has the features of the host's CPU. QEMU emulates the same CPU on each host.
    let (vmm, cpu) = match settings.accelerator {
        Accelerator::Kvm => ("qemu kvm", Some(HostCpu::read()?)),
        Accelerator::Tcg => ("qemu tcg", None),
    };
    plan::key_parts(config, vmm, &settings.program, cpu.as_ref(), arguments)
}

impl Saving {
    /// Lets QEMU write its state into the pipe, copies the memory, and continues the VM, whatever the result is.
    pub async fn save(self, qmp: &mut Qmp) -> Result<Publishing, String> {
        let saved = write_state(qmp, self.pipe).await;
        let written = self.writing.wait_for_end().await;
        let sealed = match saved {
            Ok(()) => seal_memory(&self.memory, self.record.guest_bytes()).await,
            Err(why) => Err(why),
        };
        qmp.run("cont", json!({})).await?;
        // If the file could not be written, QEMU knows only that its pipe broke.
        let written = written.map_err(|error| error.to_string())?;
        written
            .publish(self.record, sealed?)
            .map_err(|error| error.to_string())
    }
}

/// Copies the memory of a VM that is stopped.
async fn seal_memory(memory: &File, bytes: u64) -> Result<File, String> {
    let sealed = async {
        let memory = memory.try_clone()?;
        in_thread(move || memory::seal_copy(&memory, bytes)).await
    };
    sealed
        .await
        .map_err(|error| format!("copying the memory: {error}"))
}

/// The name of the pipe in QEMU.
const PIPE: &str = "snapshot";

/// Tells QEMU that memory is not part of its state.
async fn leave_memory_out(qmp: &mut Qmp) -> Result<(), String> {
    let capability = json!({ "capability": "x-ignore-shared", "state": true });
    let capabilities = json!({ "capabilities": [capability] });
    qmp.run("migrate-set-capabilities", capabilities)
        .await
        .map(drop)
}

async fn write_state(qmp: &mut Qmp, pipe: OwnedFd) -> Result<(), String> {
    qmp.run("stop", json!({})).await?;
    leave_memory_out(qmp).await?;
    qmp.give(PIPE, pipe.as_fd()).await?;
    // The thread that reads sees the end once QEMU has closed its copy.
    drop(pipe);
    qmp.run("migrate", json!({ "uri": format!("fd:{PIPE}") }))
        .await?;
    loop {
        let status = qmp.run("query-migrate", json!({})).await?;
        match status.get("status").and_then(Value::as_str) {
            Some("completed") => return Ok(()),
            Some(word @ ("failed" | "cancelled")) => {
                let why = status.get("error-desc").and_then(Value::as_str);
                return Err(format!(
                    "QEMU could not save the VM: {}",
                    why.unwrap_or(word)
                ));
            }
            _ => sleep(POLL).await,
        }
    }
}

/// Lets QEMU read its state from a pipe that it inherited. The copy is paused then, because its template was when it
/// was saved.
pub async fn read_state(qmp: &mut Qmp, state: i32) -> Result<(), String> {
    leave_memory_out(qmp).await?;
    qmp.run("migrate-incoming", json!({ "uri": format!("fd:{state}") }))
        .await?;
    loop {
        let status = qmp.run("query-status", json!({})).await?;
        match status.get("status").and_then(Value::as_str) {
            Some("paused") => return Ok(()),
            Some("inmigrate") => sleep(POLL).await,
            other => return Err(format!("QEMU is {}", other.unwrap_or("in no state"))),
        }
    }
}

/// Tells the guest of a copy the size of its own scratch disk, and lets it run. A file that is shorter grows.
pub async fn continue_copy(qmp: &mut Qmp, scratch_bytes: u64) -> Result<(), String> {
    // QEMU tells the guest only about a change, and its disk may have the right size already.
    for size in [scratch_bytes + OTHER_SIZE_BYTES, scratch_bytes] {
        let resize = json!({ "device": "scratch", "size": size });
        qmp.run("block_resize", resize).await?;
    }
    qmp.run("cont", json!({})).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::VmmSettings;
    use crate::disk::Disk;
    use crate::run_dir::RunDir;

    /// A launch whose folder of snapshots is in `folder`.
    fn config(folder: &Path, accelerator: &str) -> LaunchConfig {
        serde_json::from_value(json!({
            "v": 1, "vmKey": "k", "memoryMib": 256, "vcpus": 1, "diskMib": 64,
            "kernel": { "path": "/proc/self/exe", "kind": "debian" }, "initramfs": "/proc/self/exe",
            "vmm": {
                "name": "qemu", "program": "/proc/self/exe", "accelerator": accelerator, "bwrap": "/b",
            },
            "snapshots": { "dir": folder.join("snapshots"), "maxMib": 1024 },
        }))
        .unwrap()
    }

    fn settings(config: &LaunchConfig) -> &QemuSettings {
        match &config.vmm {
            VmmSettings::Qemu(settings) => settings,
            _ => panic!("the name chooses QEMU"),
        }
    }

    #[tokio::test]
    async fn the_first_vm_makes_a_snapshot_with_and_without_kvm() {
        for accelerator in ["kvm", "tcg"] {
            let folder = tempfile::tempdir().unwrap();
            let config = config(folder.path(), accelerator);
            let prepare = async |with_snapshots| {
                let vm = NewVm {
                    config: &config,
                    dir: &RunDir::at(folder.path()),
                    disk: &Disk::new("/", Duration::from_secs(1)),
                    with_snapshots,
                };
                super::prepare(settings(&config), &vm).await
            };
            let saved = prepare(true).await;
            assert_eq!(saved.note, None, "{accelerator}");
            assert_eq!(saved.beginning, Beginning::BootToSave, "{accelerator}");
            drop(saved);
            assert_eq!(prepare(false).await.beginning, Beginning::Boot);
        }
    }

    #[test]
    fn only_the_key_of_a_guest_on_kvm_contains_the_hosts_cpu() {
        let folder = tempfile::tempdir().unwrap();
        let parts = |accelerator| {
            let config = config(folder.path(), accelerator);
            key_parts(settings(&config), &config, true).unwrap()
        };
        let cpu = HostCpu::read().unwrap();
        let kvm = parts("kvm");
        assert_eq!(
            (kvm.host_cpu, kvm.cpu_features, kvm.kvm_modules),
            (Some(cpu.model), Some(cpu.features), Some(cpu.modules))
        );
        let emulated = parts("tcg");
        assert_eq!(
            (
                emulated.host_cpu,
                emulated.cpu_features,
                emulated.kvm_modules
            ),
            (None, None, None)
        );
        assert_ne!(kvm.vmm, emulated.vmm);
    }
}
