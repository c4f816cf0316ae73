//! The launch configuration: the parts and limits of one VM.

mod pool;
mod vmm;

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk_copy;
use crate::egress::Egress;
use crate::error::{Code, Failure};

pub use vmm::*;

pub const CONFIG_VERSION: u32 = 1;

/// The limit of a chain of full saves: a base and its diffs. The VMM has the same limit.
pub const MAX_LINKS: usize = 8;
/// A run's id has up to 1,000 bytes; the key contains it with three bytes for each escaped byte.
const MAX_VM_KEY_BYTES: usize = 4096;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LaunchConfig {
    pub v: u32,
    /// `run/scope/generation`: the VM's identity.
    pub vm_key: String,
    pub memory_mib: u32,
    pub vcpus: u32,
    pub disk_mib: u32,
    pub kernel: Kernel,
    pub initramfs: PathBuf,
    pub vmm: VmmSettings,
    /// A read-only disk with the guest's root; without it, the initramfs is the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_disk: Option<PathBuf>,
    /// The disk with which the VM starts; without it, an empty one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<From>,
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// The hosts and services that the guest may reach; without it, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Egress>,
    #[serde(default = "default_orphan_timeout_ms")]
    pub orphan_timeout_ms: u64,
    #[serde(default = "default_boot_timeout_ms")]
    pub boot_timeout_ms: u64,
    /// The time for which the guest may make no progress in an exchange in which it owes an answer.
    #[serde(default = "default_guest_silence_ms")]
    pub guest_silence_ms: u64,
    #[serde(default = "default_console_max_bytes")]
    pub console_max_bytes: u64,
    #[serde(default = "default_spool_max_bytes")]
    pub spool_max_bytes: u64,
    /// The time that a VM waits while its host's disk is full.
    #[serde(default = "default_disk_full_timeout_ms")]
    pub disk_full_timeout_ms: u64,
    /// The limit for all VMs of the folder together; without it, a launch is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The snapshots of booted guests; without it, each VM boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<SnapshotSettings>,
    /// Whether the run directory is removed when the VM was stopped or its owner has gone, because no client needs it
    /// later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discard: bool,
    /// Whether the VM waits, as a copy whose guest did not get `Start`, until a launch takes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// Whether the running VM may be saved in full, with its memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full_saves: bool,
    /// A note for clients, which read it in `intent.json`; the keeper ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<serde_json::Map<String, serde_json::Value>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    pub path: PathBuf,
    pub kind: KernelKind,
}

/// The checkpoint from which a VM starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct From {
    /// The file of the disk. It is copied when the VM starts, and may be deleted afterwards.
    pub disk: PathBuf,
    /// The full saves with which the VM continues, the base first; without them, its guest boots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<SavedLink>,
}

/// The files of one full save without its disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedLink {
    pub id: String,
    pub state: PathBuf,
    pub memory: PathBuf,
}

/// The memory by which VMs are admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// The limit for all VMs of the folder.
    pub memory_mib: u32,
    /// The memory that this VM uses in addition to its guest's memory.
    pub overhead_mib: u32,
}

/// The folder of snapshots, which many keepers share.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SnapshotSettings {
    /// Only its user may read it. The first keeper makes it.
    pub dir: PathBuf,
    /// The limit of all snapshots of the folder together. The newest one is kept even if it is larger.
    pub max_mib: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelKind {
    /// PCI devices, modules, and a TSC whose speed the kernel must be given.
    Debian,
    /// MMIO devices, no modules, no ACPI.
    Voidbox,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mount {
    pub host_path: PathBuf,
    pub guest_path: String,
}

fn default_orphan_timeout_ms() -> u64 {
    15 * 60 * 1000
}

fn default_boot_timeout_ms() -> u64 {
    20_000
}

fn default_guest_silence_ms() -> u64 {
    100_000
}

fn default_console_max_bytes() -> u64 {
    1 << 20
}

fn default_spool_max_bytes() -> u64 {
    1 << 30
}

fn default_disk_full_timeout_ms() -> u64 {
    60 * 60 * 1000
}

impl LaunchConfig {
    /// Parses and checks a configuration; the error names the field, its value and the remedy.
    pub fn parse(bytes: &[u8]) -> Result<Self, Failure> {
        let config: Self = serde_json::from_slice(bytes)
            .map_err(|error| Failure::bad_request(format!("launch configuration: {error}")))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), Failure> {
        let refuse = |field: &str, value: String, want: &str| {
            Err(Failure::bad_request(format!(
                "launch configuration: {field} is {value}, expected {want}"
            )))
        };
        if self.v != CONFIG_VERSION {
            return Err(Failure::new(
                Code::ApiVersion,
                format!(
                    "launch configuration has v {}, this keeper speaks {CONFIG_VERSION}",
                    self.v
                ),
            ));
        }
        if self.vm_key.is_empty() || self.vm_key.len() > MAX_VM_KEY_BYTES {
            return refuse("vmKey", format!("{:?}", self.vm_key), "1 to 4096 bytes");
        }
        if !(64..=1 << 20).contains(&self.memory_mib) {
            return refuse("memoryMib", self.memory_mib.to_string(), "64 to 1048576");
        }
        if !(1..=64).contains(&self.vcpus) {
            return refuse("vcpus", self.vcpus.to_string(), "1 to 64");
        }
        if !(16..=1 << 24).contains(&self.disk_mib) {
            return refuse("diskMib", self.disk_mib.to_string(), "16 to 16777216");
        }
        if self.console_max_bytes < 4096 {
            return refuse(
                "consoleMaxBytes",
                self.console_max_bytes.to_string(),
                "4096 or more",
            );
        }
        if let Some(disk) = self.root_disk.as_deref().filter(|disk| !disk.is_absolute()) {
            return refuse("rootDisk", disk.display().to_string(), "an absolute path");
        }
        if let Some(from) = self.from.as_ref().filter(|from| !from.disk.is_absolute()) {
            return refuse(
                "from.disk",
                from.disk.display().to_string(),
                "an absolute path",
            );
        }
        self.check_chain()?;
        if let Some(snapshots) = self
            .snapshots
            .as_ref()
            .filter(|found| !found.dir.is_absolute())
        {
            let value = snapshots.dir.display().to_string();
            return refuse("snapshots.dir", value, "an absolute path");
        }
        for (index, mount) in self.mounts.iter().enumerate() {
            if !mount.host_path.is_absolute() {
                let value = mount.host_path.display().to_string();
                return refuse(
                    &format!("mounts[{index}].hostPath"),
                    value,
                    "an absolute path",
                );
            }
            if !Path::new(&mount.guest_path).is_absolute() {
                let value = mount.guest_path.clone();
                return refuse(
                    &format!("mounts[{index}].guestPath"),
                    value,
                    "an absolute path",
                );
            }
        }
        if self.waits && !self.can_wait() {
            return refuse(
                "waits",
                "true".into(),
                "it only for a copy of a snapshot on QEMU",
            );
        }
        if self.full_saves && !self.vmm.saves_in_full() {
            return refuse("fullSaves", "true".into(), "it only with the VMM \"vmm\"");
        }
        match &self.egress {
            Some(egress) => egress.check(),
            None => Ok(()),
        }
    }

    fn check_chain(&self) -> Result<(), Failure> {
        let chain = self.chain();
        let refuse = |found: String, want: &str| {
            Err(Failure::bad_request(format!(
                "launch configuration: from.chain {found}, expected {want}"
            )))
        };
        if chain.is_empty() {
            return Ok(());
        }
        if !self.vmm.saves_in_full() {
            return refuse("is there".into(), "it only with the VMM \"vmm\"");
        }
        if chain.len() > MAX_LINKS {
            let found = format!("has {} links", chain.len());
            return refuse(found, &format!("at most {MAX_LINKS}"));
        }
        let paths = chain.iter().flat_map(|link| [&link.state, &link.memory]);
        match paths.into_iter().find(|path| !path.is_absolute()) {
            Some(path) => refuse(format!("has {}", path.display()), "absolute paths"),
            None => Ok(()),
        }
    }

    /// Returns the full saves with which the VM continues, the base first; none for a VM whose guest boots.
    pub fn chain(&self) -> &[SavedLink] {
        self.from.as_ref().map_or(&[], |from| &from.chain)
    }

    /// The bytes that the guest's disk and memory can hold together: no honest tree is larger.
    pub fn guest_bytes(&self) -> u64 {
        (u64::from(self.disk_mib) + u64::from(self.memory_mib)) << 20
    }

    /// Opens the disk with which the VM starts. Fails if the file is missing, or if it is larger than the VM's disk.
    pub fn open_from(&self) -> Result<Option<File>, Failure> {
        let Some(From { disk, chain }) = &self.from else {
            return Ok(None);
        };
        let unfit = |why: String| {
            let message = format!("the disk {} of a checkpoint: {why}", disk.display());
            Failure::new(Code::CheckpointUnfit, message)
        };
        let file = disk_copy::open(disk).map_err(|error| unfit(error.to_string()))?;
        let bytes = file
            .metadata()
            .map_err(|error| unfit(error.to_string()))?
            .len();
        let limit = u64::from(self.disk_mib) << 20;
        if bytes > limit {
            return Err(unfit(format!(
                "it has {bytes} bytes, the disk of the VM only {limit}"
            )));
        }
        if bytes != limit && !chain.is_empty() {
            return Err(unfit(format!(
                "it has {bytes} bytes, the disk of the VM {limit}: a guest that continues with its memory needs the same size"
            )));
        }
        Ok(Some(file))
    }

    /// Fails, with a remedy, if a file or folder that the VM needs is missing.
    pub fn check_files(&self) -> Result<(), Failure> {
        let not_ready = |message: String| Err(Failure::new(Code::HostNotReady, message));
        let root_disk = self.root_disk.iter().map(|disk| ("root disk", disk));
        for (what, path) in [
            ("kernel", &self.kernel.path),
            ("initramfs", &self.initramfs),
        ]
        .into_iter()
        .chain(root_disk)
        {
            if !path.is_file() {
                return not_ready(format!("no {what} at {}: voidbox doctor", path.display()));
            }
        }
        self.open_from()?;
        for mount in &self.mounts {
            if !mount.host_path.exists() {
                let path = mount.host_path.display();
                return not_ready(format!(
                    "the folder {path}, to be mounted at {}, does not exist",
                    mount.guest_path
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
        let mut value = serde_json::json!({
            "v": 1, "vmKey": "run/scope/0", "memoryMib": 512, "vcpus": 1, "diskMib": 2048,
            "kernel": { "path": "/k", "kind": "debian" }, "initramfs": "/i",
            "vmm": { "name": "qemu", "program": "/q", "accelerator": "tcg", "bwrap": "/b" },
            "mounts": [{ "hostPath": "/data", "guestPath": "/data" }],
        });
        change(&mut value);
        value.to_string().into_bytes()
    }

    #[test]
    fn the_documented_configuration_parses_with_its_defaults() {
        let config = LaunchConfig::parse(&text(|_| ())).unwrap();
        assert_eq!(config.orphan_timeout_ms, 900_000);
        assert_eq!(config.boot_timeout_ms, 20_000);
        assert_eq!(config.disk_full_timeout_ms, 3_600_000);
        assert_eq!(config.kernel.kind, KernelKind::Debian);
    }

    #[test]
    fn each_bad_value_is_named() {
        let cases: [(&str, serde_json::Value); 5] = [
            ("memoryMib", 1.into()),
            ("vcpus", 0.into()),
            ("diskMib", 1.into()),
            ("vmKey", "".into()),
            ("consoleMaxBytes", 1.into()),
        ];
        for (field, value) in cases {
            let error = LaunchConfig::parse(&text(|config| config[field] = value)).unwrap_err();
            assert!(error.message.contains(field), "{error}");
            assert_eq!(error.code, Code::BadRequest);
        }
        let longest = "%E5".repeat(1_000) + "/a-scope/0";
        assert!(
            LaunchConfig::parse(&text(|config| config["vmKey"] = longest.clone().into())).is_ok()
        );
        let longer = "x".repeat(4_097);
        let error = LaunchConfig::parse(&text(|config| config["vmKey"] = longer.clone().into()));
        assert!(error.unwrap_err().message.contains("vmKey"));
        let relative = LaunchConfig::parse(&text(|config| {
            config["mounts"][0]["hostPath"] = "data".into()
        }));
        assert!(relative.unwrap_err().message.contains("mounts[0].hostPath"));
        let relative = LaunchConfig::parse(&text(|config| config["rootDisk"] = "disk".into()));
        assert!(relative.unwrap_err().message.contains("rootDisk"));
        let relative = LaunchConfig::parse(&text(|config| {
            config["snapshots"] = serde_json::json!({ "dir": "here", "maxMib": 1 });
        }));
        assert!(relative.unwrap_err().message.contains("snapshots.dir"));
        assert!(LaunchConfig::parse(&text(|config| config["surprise"] = 1.into())).is_err());
    }

    #[test]
    fn a_larger_disk_of_a_checkpoint_is_refused_with_both_sizes() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        let config = |mib: u32| {
            LaunchConfig::parse(&text(|config| {
                config["diskMib"] = mib.into();
                config["from"] = serde_json::json!({ "disk": disk });
            }))
            .unwrap()
        };
        let missing = config(64).open_from().unwrap_err();
        assert_eq!(missing.code, Code::CheckpointUnfit);
        let file = File::create(&disk).unwrap();
        file.set_len(64 << 20).unwrap();
        assert!(config(64).open_from().unwrap().is_some());
        assert!(config(65).open_from().unwrap().is_some());
        let larger = config(63).open_from().unwrap_err();
        assert_eq!(larger.code, Code::CheckpointUnfit);
        for bytes in ["67108864", "66060288"] {
            assert!(larger.message.contains(bytes), "{larger}");
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&disk, &link).unwrap();
        let by_link = LaunchConfig::parse(&text(|config| {
            config["from"] = serde_json::json!({ "disk": link });
        }));
        assert!(by_link.unwrap().open_from().is_err());
        let relative = LaunchConfig::parse(&text(|config| {
            config["from"] = serde_json::json!({ "disk": "disk" });
        }));
        assert!(relative.unwrap_err().message.contains("from.disk"));
    }

    #[test]
    fn another_version_is_said_to_be_one() {
        let error = LaunchConfig::parse(&text(|config| config["v"] = 2.into())).unwrap_err();
        assert_eq!(error.code, Code::ApiVersion);
    }

    #[test]
    fn a_vmm_has_its_own_settings_and_no_others() {
        for (settings, problem) in [
            (
                serde_json::json!({ "name": "xen" }),
                "unknown variant `xen`",
            ),
            (
                serde_json::json!({ "program": "/q" }),
                "missing field `name`",
            ),
            (
                serde_json::json!({ "name": "qemu", "program": "/q", "bwrap": "/b" }),
                "missing field `accelerator`",
            ),
            (
                serde_json::json!({
                    "name": "qemu", "program": "/q", "accelerator": "tcg", "bwrap": "/b", "args": []
                }),
                "unknown field `args`",
            ),
        ] {
            let error = LaunchConfig::parse(&text(|config| config["vmm"] = settings)).unwrap_err();
            assert_eq!(error.code, Code::BadRequest);
            assert!(error.message.contains(problem), "{error}");
        }
        let VmmSettings::Qemu(qemu) = LaunchConfig::parse(&text(|_| ())).unwrap().vmm else {
            panic!("the name chooses QEMU");
        };
        assert_eq!(qemu.accelerator, Accelerator::Tcg);
    }

    #[test]
    fn a_folder_that_is_missing_is_named() {
        let config = LaunchConfig::parse(&text(|config| {
            config["kernel"]["path"] = "/proc/self/exe".into();
            config["initramfs"] = "/proc/self/exe".into();
            config["mounts"][0]["hostPath"] = "/nowhere/at/all".into();
        }));
        let error = config.unwrap().check_files().unwrap_err();
        assert_eq!(error.code, Code::HostNotReady);
        assert!(error.message.contains("/nowhere/at/all"), "{error}");
    }
}
