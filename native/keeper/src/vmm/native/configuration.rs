//! The configuration of `voidbox-vmm`: one line of JSON over its control. Files are numbers of inherited descriptors.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::rc::Rc;

use serde::Serialize;

use super::command_line::{GUEST_PORT, kernel_command_line};
use crate::config::{CpuTemplate, LaunchConfig, NativeSettings};
use crate::error::Failure;
use crate::guest::mailbox;
use crate::snapshots::Touched;
use crate::vmm::process::Sockets;
use crate::vmm::{MAILBOX_SERIAL, ROOT_SERIAL};

const VERSION: u32 = 1;
/// The addresses that a guest may have. Each VM has its own vsock device, so two guests may have the same one, but a copy
/// has not that of its template.
const GUEST_CIDS: std::ops::Range<u32> = 3..u32::MAX;
/// The name by which the agent mounts all shared folders.
const MOUNTS_TAG: &str = "mounts";
/// The first disk of the VM, which its guest sees as `/dev/vda`.
const SCRATCH_SERIAL: &str = "voidbox-scratch";

/// The files of the host that a VM uses. The VMM gets their descriptors, and never a path.
pub struct Files {
    kvm: File,
    /// Kernel and initramfs, for a VM that boots.
    boot: Option<(File, File)>,
    scratch: File,
    /// The memory that the guest has as its second disk, for this VM only.
    pub mailbox: File,
    root: Option<File>,
    /// The VMM's end of the socket to the server of folders.
    folders: Option<OwnedFd>,
    beginning: BeginningFiles,
    guest_cid: u32,
}

/// The files with which a VM begins.
pub enum BeginningFiles {
    Boot,
    /// It boots. Its state goes into the pipe, its memory into the file.
    Save(OwnedFd, Rc<File>),
    /// It continues from the state in the pipe. It cannot write the memory.
    Copy {
        state: OwnedFd,
        memory: Rc<File>,
        /// The pages that it will use first.
        pages: Option<Touched>,
    },
    /// It continues from full saves, the base first. It cannot write them.
    Chain(Vec<SavedFiles>),
}

/// The state of a full save and its memory.
pub struct SavedFiles {
    pub state: File,
    pub memory: File,
}

impl BeginningFiles {
    fn all(&self) -> Vec<(BorrowedFd<'_>, BorrowedFd<'_>)> {
        match self {
            Self::Boot => Vec::new(),
            Self::Save(state, memory) | Self::Copy { state, memory, .. } => {
                vec![(state.as_fd(), memory.as_fd())]
            }
            Self::Chain(links) => {
                let files = links.iter();
                let files = files.map(|link| (link.state.as_fd(), link.memory.as_fd()));
                files.collect()
            }
        }
    }

    /// Returns the numbers of a VM that is saved, and those of a VM that continues.
    fn numbers(&self) -> (Option<SnapshotNumbers>, Option<RestoreNumbers>) {
        let mut all = self
            .all()
            .into_iter()
            .map(|(state, memory)| SnapshotNumbers {
                state_fd: state.as_raw_fd(),
                memory_fd: memory.as_raw_fd(),
            });
        let first = all.next();
        let pages = match self {
            Self::Boot | Self::Save(..) => return (first, None),
            Self::Copy { pages, .. } => pages.clone(),
            Self::Chain(_) => None,
        };
        let restore = first.map(|files| RestoreNumbers {
            files,
            diffs: all.collect(),
            pages,
        });
        (None, restore)
    }
}

impl Files {
    /// Opens all files, and makes the mailbox. Only the keeper's user needs rights to them.
    pub fn open(
        kvm: &Path,
        config: &LaunchConfig,
        scratch: &Path,
        folders: Option<OwnedFd>,
        beginning: BeginningFiles,
    ) -> Result<Self, Failure> {
        let root = config.root_disk.as_deref();
        // The memory of a copy contains its kernel.
        let boot = match beginning {
            BeginningFiles::Copy { .. } | BeginningFiles::Chain(_) => None,
            _ => {
                let kernel = open(&config.kernel.path, Access::Read)?;
                Some((kernel, open(&config.initramfs, Access::Read)?))
            }
        };
        Ok(Self {
            kvm: open(kvm, Access::Write)?,
            boot,
            scratch: open(scratch, Access::Write)?,
            mailbox: mailbox::memory()
                .map_err(|error| Failure::io("making the mailbox", &error))?,
            root: root.map(|path| open(path, Access::Read)).transpose()?,
            folders,
            beginning,
            guest_cid: choose_cid().map_err(|error| Failure::io("/dev/urandom", &error))?,
        })
    }

    pub fn all(&self) -> Vec<BorrowedFd<'_>> {
        let (kernel, initramfs) = self.boot.as_ref().map(|(k, i)| (k, i)).unzip();
        let saved = self.beginning.all();
        [
            Some(&self.kvm),
            kernel,
            initramfs,
            Some(&self.scratch),
            Some(&self.mailbox),
            self.root.as_ref(),
        ]
        .into_iter()
        .flatten()
        .map(AsFd::as_fd)
        .chain(self.folders.as_ref().map(AsFd::as_fd))
        .chain(
            saved
                .into_iter()
                .flat_map(|(state, memory)| [state, memory]),
        )
        .collect()
    }

    fn numbers(&self) -> Numbers {
        let (kernel, initramfs) = self.boot.as_ref().map(|(k, i)| (k, i)).unzip();
        let (save, restore) = self.beginning.numbers();
        Numbers {
            kvm: self.kvm.as_raw_fd(),
            kernel: kernel.map(AsRawFd::as_raw_fd),
            initramfs: initramfs.map(AsRawFd::as_raw_fd),
            scratch: self.scratch.as_raw_fd(),
            mailbox: self.mailbox.as_raw_fd(),
            root: self.root.as_ref().map(AsRawFd::as_raw_fd),
            folders: self.folders.as_ref().map(AsRawFd::as_raw_fd),
            full_saves: false,
            save,
            restore,
            guest_cid: self.guest_cid,
        }
    }
}

/// Chooses an address of a guest at random.
fn choose_cid() -> io::Result<u32> {
    let mut bytes = [0; 4];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let count = GUEST_CIDS.end - GUEST_CIDS.start;
    Ok(GUEST_CIDS.start + u32::from_ne_bytes(bytes) % count)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

fn open(path: &Path, access: Access) -> Result<File, Failure> {
    let opened: io::Result<File> = OpenOptions::new()
        .read(true)
        .write(access == Access::Write)
        .open(path);
    opened.map_err(|error| Failure::io(path.display(), &error))
}

/// The numbers of one launch: those of the files of a VM, and the address of its guest.
struct Numbers {
    guest_cid: u32,
    kvm: RawFd,
    kernel: Option<RawFd>,
    initramfs: Option<RawFd>,
    scratch: RawFd,
    mailbox: RawFd,
    root: Option<RawFd>,
    folders: Option<RawFd>,
    full_saves: bool,
    save: Option<SnapshotNumbers>,
    restore: Option<RestoreNumbers>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotNumbers {
    state_fd: RawFd,
    memory_fd: RawFd,
}

#[derive(Serialize)]
struct RestoreNumbers {
    #[serde(flatten)]
    files: SnapshotNumbers,
    /// Behind the first state of a chain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    diffs: Vec<SnapshotNumbers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<Touched>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    version: u32,
    kvm_fd: RawFd,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_fd: Option<RawFd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initramfs_fd: Option<RawFd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command_line: Option<String>,
    memory_mib: u32,
    vcpus: u32,
    cpu: CpuTemplate,
    console_fd: RawFd,
    disks: Vec<ConfiguredDisk>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pmem: Vec<Pmem>,
    vsock: Vsock,
    #[serde(skip_serializing_if = "Option::is_none")]
    folders: Option<Folders>,
    rng: bool,
    balloon: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    full_saves: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    save: Option<SnapshotNumbers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restore: Option<RestoreNumbers>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfiguredDisk {
    fd: RawFd,
    serial: &'static str,
    read_only: bool,
}

#[derive(Serialize)]
struct Pmem {
    fd: RawFd,
}

#[derive(Serialize)]
struct Folders {
    fd: RawFd,
    tag: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Vsock {
    guest_cid: u32,
    port: u32,
    fd: RawFd,
}

/// Returns the line without its end.
pub fn line(
    settings: &NativeSettings,
    config: &LaunchConfig,
    files: &Files,
    sockets: Sockets,
) -> String {
    let numbers = Numbers {
        full_saves: config.full_saves,
        ..files.numbers()
    };
    configure(settings, config, numbers, sockets)
}

/// Returns the configuration of a VM that makes a snapshot, without numbers of one launch. VMs of another shape cannot
/// continue from it.
pub fn shape(settings: &NativeSettings, config: &LaunchConfig) -> String {
    let sockets = Sockets {
        port: 0,
        console: 0,
        control: 0,
    };
    let numbers = Numbers {
        guest_cid: GUEST_CIDS.start,
        kvm: 0,
        kernel: Some(0),
        initramfs: Some(0),
        scratch: 0,
        mailbox: 0,
        root: config.root_disk.as_ref().map(|_| 0),
        folders: config.mounts.first().map(|_| 0),
        // It changes the rules of the VMM's calls, and nothing of the VM.
        full_saves: false,
        save: Some(SnapshotNumbers {
            state_fd: 0,
            memory_fd: 0,
        }),
        restore: None,
    };
    configure(settings, config, numbers, sockets)
}

fn configure(
    settings: &NativeSettings,
    config: &LaunchConfig,
    numbers: Numbers,
    sockets: Sockets,
) -> String {
    let scratch = ConfiguredDisk {
        fd: numbers.scratch,
        serial: SCRATCH_SERIAL,
        read_only: false,
    };
    let mailbox = ConfiguredDisk {
        fd: numbers.mailbox,
        serial: MAILBOX_SERIAL,
        read_only: false,
    };
    let (memory, disk) = match settings.pmem {
        true => (numbers.root, None),
        false => (None, numbers.root),
    };
    let root = disk.map(|fd| ConfiguredDisk {
        fd,
        serial: ROOT_SERIAL,
        read_only: true,
    });
    let command_line = || kernel_command_line(config, numbers.save.is_some());
    let configuration = Configuration {
        version: VERSION,
        kvm_fd: numbers.kvm,
        kernel_fd: numbers.kernel,
        initramfs_fd: numbers.initramfs,
        command_line: numbers.kernel.map(|_| command_line()),
        memory_mib: config.memory_mib,
        vcpus: config.vcpus,
        cpu: settings.cpu,
        console_fd: sockets.console,
        disks: [scratch, mailbox].into_iter().chain(root).collect(),
        pmem: memory.map(|fd| Pmem { fd }).into_iter().collect(),
        vsock: Vsock {
            guest_cid: numbers.guest_cid,
            port: GUEST_PORT,
            fd: sockets.port,
        },
        folders: numbers.folders.map(|fd| Folders {
            fd,
            tag: MOUNTS_TAG,
        }),
        rng: true,
        balloon: true,
        full_saves: numbers.full_saves,
        save: numbers.save,
        restore: numbers.restore,
    };
    serde_json::to_string(&configuration).expect("plain data serialises")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::VmmSettings;
    use crate::run_dir::tests::TempDir;

    fn configured(root_disk: Option<&Path>, folder: &Path) -> serde_json::Value {
        configured_as(BeginningFiles::Boot, root_disk, folder)
    }

    fn launch(root_disk: Option<&Path>, folder: &Path) -> LaunchConfig {
        let mut config = serde_json::json!({
            "v": 1, "vmKey": "k", "memoryMib": 256, "vcpus": 2, "diskMib": 64,
            "kernel": { "path": folder.join("kernel"), "kind": "debian" }, "initramfs": folder.join("initramfs"),
            "vmm": { "name": "vmm", "program": "/p" },
        });
        if let Some(path) = root_disk {
            config["rootDisk"] = path.to_str().unwrap().into();
        }
        serde_json::from_value(config).unwrap()
    }

    fn configured_as(
        beginning: BeginningFiles,
        root_disk: Option<&Path>,
        folder: &Path,
    ) -> serde_json::Value {
        configured_for(&launch(root_disk, folder), beginning, folder)
    }

    fn configured_for(
        config: &LaunchConfig,
        beginning: BeginningFiles,
        folder: &Path,
    ) -> serde_json::Value {
        let root_disk = config.root_disk.as_ref();
        let folders = root_disk.map(|_| File::open("/dev/null").unwrap().into());
        let scratch = folder.join("scratch");
        let files =
            Files::open(Path::new("/dev/null"), config, &scratch, folders, beginning).unwrap();
        let sockets = Sockets {
            port: 90,
            console: 91,
            control: 92,
        };
        let mut value: serde_json::Value =
            serde_json::from_str(&line(settings(config), config, &files, sockets)).unwrap();
        let cid = value["vsock"]["guestCid"].as_u64().unwrap();
        assert!((3..u64::from(u32::MAX)).contains(&cid), "{cid}");
        value["vsock"]["guestCid"] = "of its own".into();
        // The numbers of files differ from run to run, so their order stands for them.
        let numbers: Vec<RawFd> = files.all().iter().map(AsRawFd::as_raw_fd).collect();
        replace_numbers(&mut value, &numbers);
        value
    }

    fn settings(config: &LaunchConfig) -> &NativeSettings {
        match &config.vmm {
            VmmSettings::Vmm(settings) => settings,
            _ => panic!("the name chooses voidbox-vmm"),
        }
    }

    fn replace_numbers(value: &mut serde_json::Value, numbers: &[RawFd]) {
        match value {
            serde_json::Value::Object(fields) => {
                for (key, field) in fields {
                    let is_fd = key == "fd" || key.ends_with("Fd");
                    let at = numbers
                        .iter()
                        .position(|number| field.as_i64() == Some((*number).into()));
                    match at {
                        Some(at) if is_fd => *field = format!("file {at}").into(),
                        _ => replace_numbers(field, numbers),
                    }
                }
            }
            serde_json::Value::Array(items) => {
                for item in items {
                    replace_numbers(item, numbers);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn the_line_has_the_documented_form_and_no_path_of_the_host() {
        let folder = TempDir::new("configuration");
        for name in ["kernel", "initramfs", "scratch", "root"] {
            File::create(folder.0.join(name)).unwrap();
        }
        let value = configured(Some(&folder.0.join("root")), &folder.0);
        assert_eq!(
            value,
            serde_json::json!({
                "version": 1, "kvmFd": "file 0", "kernelFd": "file 1", "initramfsFd": "file 2",
                "commandLine": "console=ttyS0 loglevel=4 panic=-1 reboot=k voidbox.scratch=/dev/vda voidbox.port=vsock:1024 voidbox.root=voidbox-root",
                "memoryMib": 256, "vcpus": 2, "cpu": "host", "consoleFd": 91,
                "disks": [
                    { "fd": "file 3", "serial": "voidbox-scratch", "readOnly": false },
                    { "fd": "file 4", "serial": "voidbox-mailbox", "readOnly": false },
                    { "fd": "file 5", "serial": "voidbox-root", "readOnly": true },
                ],
                "vsock": { "guestCid": "of its own", "port": 1024, "fd": 90 },
                "folders": { "fd": "file 6", "tag": "mounts" },
                "rng": true, "balloon": true,
            })
        );
        let without = configured(None, &folder.0);
        assert!(without.get("folders").is_none());
        assert_eq!(without["disks"].as_array().unwrap().len(), 2);
        assert!(!without["commandLine"].as_str().unwrap().contains("root="));
        assert!(!value.to_string().contains(folder.0.to_str().unwrap()));
    }

    #[test]
    fn a_vm_that_makes_a_snapshot_waits_and_a_copy_has_no_kernel() {
        let folder = TempDir::new("beginnings");
        for name in ["kernel", "initramfs", "scratch"] {
            File::create(folder.0.join(name)).unwrap();
        }
        let null = || File::open("/dev/null").unwrap();
        let save = BeginningFiles::Save(null().into(), Rc::new(null()));
        let save = configured_as(save, None, &folder.0);
        let line = save["commandLine"].as_str().unwrap();
        assert!(line.ends_with(" voidbox.wait=1"), "{line}");
        let files = serde_json::json!({ "stateFd": "file 5", "memoryFd": "file 6" });
        assert_eq!(save["save"], files);
        assert!(save.get("restore").is_none());
        let copy_with = |pages| {
            let beginning = BeginningFiles::Copy {
                state: null().into(),
                memory: Rc::new(null()),
                pages,
            };
            configured_as(beginning, None, &folder.0)
        };
        let copy = copy_with(Some(Touched::default()));
        let pages = serde_json::json!({ "written": [], "read": [] });
        assert_eq!(copy["restore"]["pages"], pages);
        let copy = copy_with(None);
        let files = serde_json::json!({ "stateFd": "file 3", "memoryFd": "file 4" });
        assert_eq!(copy["restore"], files);
        let link = || SavedFiles {
            state: null(),
            memory: null(),
        };
        let chain = BeginningFiles::Chain(vec![link(), link()]);
        let chain = configured_as(chain, None, &folder.0);
        let files = serde_json::json!({
            "stateFd": "file 3", "memoryFd": "file 4",
            "diffs": [{ "stateFd": "file 5", "memoryFd": "file 6" }],
        });
        assert_eq!(chain["restore"], files);
        for key in ["save", "kernelFd", "initramfsFd", "commandLine"] {
            assert!(copy.get(key).is_none() && chain.get(key).is_none(), "{key}");
        }
    }

    #[test]
    fn a_root_disk_that_vms_share_is_memory_and_a_vm_has_full_saves_only_if_asked() {
        let folder = TempDir::new("memory");
        for name in ["kernel", "initramfs", "scratch", "root"] {
            File::create(folder.0.join(name)).unwrap();
        }
        let mut config = launch(Some(&folder.0.join("root")), &folder.0);
        if let VmmSettings::Vmm(settings) = &mut config.vmm {
            settings.pmem = true;
        }
        let value = configured_for(&config, BeginningFiles::Boot, &folder.0);
        assert_eq!(value["pmem"], serde_json::json!([{ "fd": "file 5" }]));
        assert_eq!(value["disks"].as_array().unwrap().len(), 2);
        let line = value["commandLine"].as_str().unwrap();
        assert!(line.ends_with(" voidbox.root=/dev/pmem0"), "{line}");
        config.root_disk = None;
        config.full_saves = true;
        let value = configured_for(&config, BeginningFiles::Boot, &folder.0);
        assert!(value.get("pmem").is_none());
        assert_eq!(value["fullSaves"], true);
    }

    #[test]
    fn guests_have_addresses_of_their_own() {
        let cids: std::collections::BTreeSet<u32> = (0..8).map(|_| choose_cid().unwrap()).collect();
        assert_eq!(cids.len(), 8);
        assert!(cids.iter().all(|cid| GUEST_CIDS.contains(cid)));
    }

    #[test]
    fn the_shape_of_a_vm_has_its_devices_and_no_number_of_one_launch() {
        let folder = TempDir::new("shape");
        let shape_of = |change: &dyn Fn(&mut LaunchConfig)| {
            let mut config = launch(None, &folder.0);
            change(&mut config);
            shape(settings(&config), &config)
        };
        let one = shape_of(&|_| ());
        assert_eq!(one, shape_of(&|config| config.disk_mib = 128));
        assert_eq!(one, shape_of(&|config| config.full_saves = true));
        let mount = || crate::config::Mount {
            host_path: "/data".into(),
            guest_path: "/srv".into(),
        };
        for other in [
            shape_of(&|config| config.memory_mib = 512),
            shape_of(&|config| config.vcpus = 1),
            shape_of(&|config| config.root_disk = Some("/root".into())),
            shape_of(&|config| {
                config.root_disk = Some("/root".into());
                if let VmmSettings::Vmm(settings) = &mut config.vmm {
                    settings.pmem = true;
                }
            }),
            shape_of(&|config| config.mounts = vec![mount()]),
            shape_of(&|config| {
                if let VmmSettings::Vmm(settings) = &mut config.vmm {
                    settings.cpu = CpuTemplate::Portable;
                }
            }),
        ] {
            assert_ne!(one, other);
        }
    }
}
