//! Snapshots of QEMU without KVM: a migration stream that QEMU writes into a pipe, and reads from one at its start.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use voidbox_protocol::PROTOCOL_VERSION;

use super::command::qemu_args;
use super::qmp::Qmp;
use crate::config::{Accelerator, LaunchConfig, QemuSettings, SnapshotSettings};
use crate::exec::now_ms;
use crate::host::HostTsc;
use crate::snapshots::{
    Found, Key, KeyParts, Lookup, Reading, Record, Store, Writing, file_identity,
};
use crate::vmm::interface::{Beginning, NewVm, Publishing};
use crate::vmm::process::Descriptors;

const POLL: Duration = Duration::from_millis(2);
/// The state of a guest that waits: the memory that its kernel has used. It does not grow with the guest's size by more
/// than a few MiB for each GiB.
const EXPECTED_BYTES: u64 = 256 << 20;
/// The change of the size of a scratch disk after which QEMU tells its guest the size.
const OTHER_SIZE_BYTES: u64 = 1 << 20;
/// QEMU limits the speed of a migration for the sake of a network.
const BYTES_PER_SECOND: u64 = 8 << 30;

/// How one VM begins, with its end of the snapshot's pipe.
pub struct Preparation {
    pub beginning: Beginning,
    pub tsc: HostTsc,
    pub pipe: Option<OwnedFd>,
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
    record: Record,
}

/// Finds a snapshot, or decides to make one. Every failure leads to a plain boot, and its note names the failure.
pub async fn prepare(settings: &QemuSettings, vm: &NewVm<'_>) -> Preparation {
    let trusted = HostTsc::is_trusted();
    let mut note = None;
    let config = vm.config;
    // With KVM a guest's state contains the host's CPU, which this key does not describe.
    let is_possible = vm.with_snapshots && settings.accelerator == Accelerator::Tcg;
    if let Some(snapshots) = config.snapshots.as_ref().filter(|_| is_possible) {
        match prepare_snapshot(settings, config, snapshots, trusted).await {
            Ok(Ok(preparation)) => return preparation,
            Ok(Err(damage)) => note = damage,
            Err(error) => note = Some(format!("snapshots are not used: {error}")),
        }
    }
    Preparation {
        beginning: Beginning::Boot,
        tsc: HostTsc::measure().await,
        pipe: None,
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
    let store = Store::open(snapshots)?;
    let key = Key::new(key_parts(settings, config, trusted)?);
    let mut note = None;
    match store.find(&key) {
        Lookup::Found(found) => {
            let Found { state, record } = *found;
            return Ok(Ok(Preparation {
                beginning: Beginning::Snapshot,
                tsc: HostTsc {
                    khz: record.tsc_khz,
                    trusted,
                },
                pipe: Some(Reading::start(state, record.state_bytes)?),
                saving: None,
                snapshot_key: Some(key.hex),
                note: None,
            }));
        }
        Lookup::Damaged(damage) => {
            note = Some(format!("snapshot {} was deleted: {damage}", key.hex));
        }
        Lookup::Absent => {}
    }
    let Some(making) = store.begin(&key, EXPECTED_BYTES)? else {
        return Ok(Err(note));
    };
    let tsc = HostTsc::measure().await;
    let record = Record {
        key: key.hex,
        parts: key.parts,
        tsc_khz: tsc.khz,
        memory_mib: config.memory_mib,
        state_bytes: 0,
        state_mtime_ns: 0,
        sha256: String::new(),
        created_at_ms: now_ms(),
    };
    let (writing, pipe) = Writing::start(making)?;
    Ok(Ok(Preparation {
        beginning: Beginning::BootToSave,
        tsc,
        pipe: None,
        saving: Some(Saving {
            writing,
            pipe,
            record,
        }),
        snapshot_key: None,
        note,
    }))
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
        snapshot: None,
    };
    let tsc = HostTsc { khz: 0, trusted };
    let arguments = qemu_args(
        settings.accelerator,
        config,
        no_numbers,
        tsc,
        Beginning::BootToSave,
    );
    let root_disk = config.root_disk.as_ref();
    Ok(KeyParts {
        format: KeyParts::FORMAT,
        protocol: PROTOCOL_VERSION,
        keeper: env!("CARGO_PKG_VERSION").into(),
        host_boot: fs::read_to_string("/proc/sys/kernel/random/boot_id")?
            .trim()
            .into(),
        vmm: "qemu tcg".into(),
        program: file_identity(&settings.program)?,
        kernel: file_identity(&config.kernel.path)?,
        initramfs: file_identity(&config.initramfs)?,
        root_disk_bytes: root_disk
            .map(|disk| fs::metadata(disk).map(|disk| disk.len()))
            .transpose()?,
        arguments: arguments.into_iter().map(lossy).collect(),
    })
}

fn lossy(argument: OsString) -> String {
    argument.to_string_lossy().into_owned()
}

impl Saving {
    /// Lets QEMU write its state into the pipe, and continues the VM, whatever the result is.
    pub async fn save(self, qmp: &mut Qmp) -> Result<Publishing, String> {
        let saved = write_state(qmp, self.pipe).await;
        let written = self.writing.wait_for_end().await;
        qmp.run("cont", json!({})).await?;
        // If the file could not be written, QEMU knows only that its pipe broke.
        let written = written.map_err(|error| error.to_string())?;
        saved?;
        written
            .publish(self.record)
            .map_err(|error| error.to_string())
    }
}

/// The name of the pipe in QEMU.
const PIPE: &str = "snapshot";

async fn write_state(qmp: &mut Qmp, pipe: OwnedFd) -> Result<(), String> {
    qmp.run("stop", json!({})).await?;
    qmp.give(PIPE, pipe.as_fd()).await?;
    // The thread that reads sees the end once QEMU has closed its copy.
    drop(pipe);
    let parameters = json!({ "max-bandwidth": BYTES_PER_SECOND });
    qmp.run("migrate-set-parameters", parameters).await?;
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

/// Waits until QEMU has read its state, tells the guest the size of its own scratch disk, and lets it run. The copy is
/// paused at first, because its template was when it was saved.
pub async fn wait_for_copy(qmp: &mut Qmp, scratch_bytes: u64) -> Result<(), String> {
    loop {
        let status = qmp.run("query-status", json!({})).await?;
        match status.get("status").and_then(Value::as_str) {
            Some("paused") => break,
            Some("inmigrate") => sleep(POLL).await,
            other => return Err(format!("QEMU is {}", other.unwrap_or("in no state"))),
        }
    }
    // QEMU tells the guest only about a change, and its disk has the right size already.
    for size in [scratch_bytes + OTHER_SIZE_BYTES, scratch_bytes] {
        let resize = json!({ "device": "scratch", "size": size });
        qmp.run("block_resize", resize).await?;
    }
    qmp.run("cont", json!({})).await.map(drop)
}
