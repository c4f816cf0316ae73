//! The VMM of a VM, and the settings of only this VMM.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One variant for each VMM; `name` in the configuration chooses it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum VmmSettings {
    Qemu(QemuSettings),
    Vmm(NativeSettings),
    #[cfg(feature = "test-vmm")]
    Test(TestVmmSettings),
}

impl VmmSettings {
    /// Whether this VMM saves running VMs with their memory.
    pub fn saves_in_full(&self) -> bool {
        matches!(self, VmmSettings::Vmm(_))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QemuSettings {
    /// `qemu-system-x86_64`.
    pub program: PathBuf,
    pub accelerator: Accelerator,
    pub bwrap: PathBuf,
    /// If the configuration does not set it, it is searched in the usual folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mke2fs: Option<PathBuf>,
}

/// The VMM of this project, `voidbox-vmm`, which runs its guests on hardware KVM only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NativeSettings {
    /// `voidbox-vmm`.
    pub program: PathBuf,
    /// `voidbox-folders`; without it a VM has no mounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folders: Option<PathBuf>,
    /// As in [`QemuSettings`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mke2fs: Option<PathBuf>,
    #[serde(default)]
    pub cpu: CpuTemplate,
    /// The root disk is memory that VMs share. The guest's kernel must have the driver.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pmem: bool,
    /// A file that replaces `/dev/kvm` for a program that plays the VMM. The host then needs no KVM.
    #[cfg(feature = "test-vmm")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kvm: Option<PathBuf>,
}

/// The features of the host's CPU that the guest sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuTemplate {
    /// All that KVM supports.
    #[default]
    Host,
    /// Those that most CPUs have.
    Portable,
}

/// How QEMU runs the code of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    Kvm,
    Tcg,
}

/// A program that holds the guest port: no jail, no VM.
#[cfg(feature = "test-vmm")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TestVmmSettings {
    pub program: PathBuf,
    /// `{fd}`, `{mailbox}` and `{control}` become the descriptors of the guest port, the mailbox and the control.
    #[serde(default)]
    pub args: Vec<String>,
    /// How the program begins while the launch has snapshots.
    #[serde(default)]
    pub begins: TestBeginning,
}

#[cfg(feature = "test-vmm")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TestBeginning {
    #[default]
    Boot,
    BootToSave,
    Snapshot,
}
