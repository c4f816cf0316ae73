//! How a VM begins: from a snapshot, as the VM that makes one, or with a boot.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use voidbox_protocol::PROTOCOL_VERSION;

use crate::config::{LaunchConfig, SnapshotSettings};
use crate::exec::now_ms;
use crate::host::HostCpu;
use crate::snapshots::{
    Found, Key, KeyParts, Lookup, Making, Namespace, Record, Store, file_identity, own_namespace,
};

/// The state of a guest that waits: the memory that its kernel has used. It does not grow with the guest's size by more
/// than a few MiB for each GiB.
const EXPECTED_BYTES: u64 = 256 << 20;

/// The beginning of a VM.
pub enum Plan {
    /// It continues from a snapshot.
    Copy(Box<Found>),
    /// It boots and makes a snapshot. The record has no sizes and hashes yet.
    Save(Box<Making>, Box<Record>),
    Boot,
}

/// Finds a snapshot, or decides to make one. The text says why a snapshot was deleted.
pub async fn decide(
    config: &LaunchConfig,
    snapshots: &SnapshotSettings,
    parts: KeyParts,
) -> io::Result<(Plan, Option<String>)> {
    let store = Store::open(snapshots)?;
    let key = Key::new(parts);
    let mut note = None;
    match store.find(&key) {
        Lookup::Found(found) => return Ok((Plan::Copy(found), None)),
        Lookup::Damaged(damage) => {
            note = Some(format!("snapshot {} was deleted: {damage}", key.hex));
        }
        Lookup::Absent => {}
    }
    let Some(making) = store.begin(&key, EXPECTED_BYTES)? else {
        return Ok((Plan::Boot, note));
    };
    let record = Record {
        key: key.hex,
        parts: key.parts,
        mount_namespace: own_namespace(Namespace::Mount),
        tsc_khz: 0,
        memory_mib: config.memory_mib,
        state_bytes: 0,
        state_mtime_ns: 0,
        sha256: String::new(),
        memory_bytes: 0,
        memory_mtime_ns: 0,
        memory_sha256: String::new(),
        created_at_ms: now_ms(),
    };
    Ok((Plan::Save(Box::new(making), Box::new(record)), note))
}

/// Does work that takes long on another thread, while the keeper serves its clients.
pub async fn in_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other)?
}

/// Returns all that must be equal for a copy to continue. `vmm` names the VMM with its accelerator. `cpu` is the host's,
/// if the guest has its features.
pub fn key_parts(
    config: &LaunchConfig,
    vmm: &str,
    program: &Path,
    cpu: Option<&HostCpu>,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> io::Result<KeyParts> {
    let of_cpu = |fact: fn(&HostCpu) -> &String| cpu.map(fact).cloned();
    let root_disk = config.root_disk.as_ref();
    Ok(KeyParts {
        format: KeyParts::FORMAT,
        protocol: PROTOCOL_VERSION,
        keeper: env!("CARGO_PKG_VERSION").into(),
        host_boot: fs::read_to_string("/proc/sys/kernel/random/boot_id")?
            .trim()
            .into(),
        vmm: vmm.into(),
        host_cpu: of_cpu(|cpu| &cpu.model),
        cpu_features: of_cpu(|cpu| &cpu.features),
        kvm_modules: of_cpu(|cpu| &cpu.modules),
        program: file_identity(program)?,
        kernel: file_identity(&config.kernel.path)?,
        initramfs: file_identity(&config.initramfs)?,
        root_disk_bytes: root_disk
            .map(|disk| fs::metadata(disk).map(|disk| disk.len()))
            .transpose()?,
        arguments: arguments
            .into_iter()
            .map(|argument| argument.as_ref().to_string_lossy().into_owned())
            .collect(),
    })
}
