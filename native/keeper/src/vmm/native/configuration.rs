//! The configuration of `voidbox-vmm`: one line of JSON over its control. Files are numbers of inherited descriptors.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::rc::Rc;

use serde::Serialize;

use super::command_line::{GUEST_PORT, kernel_command_line};
use crate::config::LaunchConfig;
use crate::error::Failure;
use crate::vmm::ROOT_SERIAL;
use crate::vmm::process::Sockets;

const VERSION: u32 = 1;
/// Each VM has its own vsock device, so all guests may have the same address.
const GUEST_CID: u32 = 3;
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
    root: Option<File>,
    /// The VMM's end of the socket to the server of folders.
    folders: Option<OwnedFd>,
    beginning: BeginningFiles,
}

/// The files with which a VM begins.
pub enum BeginningFiles {
    Boot,
    /// It boots. Its state goes into the pipe, its memory into the file.
    Save(OwnedFd, Rc<File>),
    /// It continues from the state in the pipe. It cannot write the memory.
    Copy(OwnedFd, Rc<File>),
}

impl BeginningFiles {
    fn all(&self) -> Option<(BorrowedFd<'_>, BorrowedFd<'_>)> {
        match self {
            Self::Boot => None,
            Self::Save(state, memory) | Self::Copy(state, memory) => {
                Some((state.as_fd(), memory.as_fd()))
            }
        }
    }
}

impl Files {
    /// Opens all files. Only the keeper's user needs rights to them.
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
            BeginningFiles::Copy(..) => None,
            _ => {
                let kernel = open(&config.kernel.path, Access::Read)?;
                Some((kernel, open(&config.initramfs, Access::Read)?))
            }
        };
        Ok(Self {
            kvm: open(kvm, Access::Write)?,
            boot,
            scratch: open(scratch, Access::Write)?,
            root: root.map(|path| open(path, Access::Read)).transpose()?,
            folders,
            beginning,
        })
    }

    pub fn all(&self) -> Vec<BorrowedFd<'_>> {
        let (kernel, initramfs) = self.boot.as_ref().map(|(k, i)| (k, i)).unzip();
        let (state, memory) = self.beginning.all().unzip();
        [
            Some(&self.kvm),
            kernel,
            initramfs,
            Some(&self.scratch),
            self.root.as_ref(),
        ]
        .into_iter()
        .flatten()
        .map(AsFd::as_fd)
        .chain(self.folders.as_ref().map(AsFd::as_fd))
        .chain([state, memory].into_iter().flatten())
        .collect()
    }

    fn numbers(&self) -> Numbers {
        let (kernel, initramfs) = self.boot.as_ref().map(|(k, i)| (k, i)).unzip();
        let number = |(state, memory): (BorrowedFd<'_>, BorrowedFd<'_>)| SnapshotNumbers {
            state_fd: state.as_raw_fd(),
            memory_fd: memory.as_raw_fd(),
        };
        let files = self.beginning.all().map(number);
        let (save, restore) = match self.beginning {
            BeginningFiles::Copy(..) => (None, files),
            _ => (files, None),
        };
        Numbers {
            kvm: self.kvm.as_raw_fd(),
            kernel: kernel.map(AsRawFd::as_raw_fd),
            initramfs: initramfs.map(AsRawFd::as_raw_fd),
            scratch: self.scratch.as_raw_fd(),
            root: self.root.as_ref().map(AsRawFd::as_raw_fd),
            folders: self.folders.as_ref().map(AsRawFd::as_raw_fd),
            save,
            restore,
        }
    }
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

/// The numbers of the files of a VM.
struct Numbers {
    kvm: RawFd,
    kernel: Option<RawFd>,
    initramfs: Option<RawFd>,
    scratch: RawFd,
    root: Option<RawFd>,
    folders: Option<RawFd>,
    save: Option<SnapshotNumbers>,
    restore: Option<SnapshotNumbers>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotNumbers {
    state_fd: RawFd,
    memory_fd: RawFd,
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
    console_fd: RawFd,
    disks: Vec<ConfiguredDisk>,
    vsock: Vsock,
    #[serde(skip_serializing_if = "Option::is_none")]
    folders: Option<Folders>,
    rng: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    save: Option<SnapshotNumbers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restore: Option<SnapshotNumbers>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfiguredDisk {
    fd: RawFd,
    serial: &'static str,
    read_only: bool,
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
pub fn line(config: &LaunchConfig, files: &Files, sockets: Sockets) -> String {
    configure(config, files.numbers(), sockets)
}

/// Returns the configuration of a VM that makes a snapshot, without numbers of one launch. VMs of another shape cannot
/// continue from it.
pub fn shape(config: &LaunchConfig) -> String {
    let sockets = Sockets {
        port: 0,
        console: 0,
        control: 0,
    };
    let numbers = Numbers {
        kvm: 0,
        kernel: Some(0),
        initramfs: Some(0),
        scratch: 0,
        root: config.root_disk.as_ref().map(|_| 0),
        folders: config.mounts.first().map(|_| 0),
        save: Some(SnapshotNumbers {
            state_fd: 0,
            memory_fd: 0,
        }),
        restore: None,
    };
    configure(config, numbers, sockets)
}

fn configure(config: &LaunchConfig, numbers: Numbers, sockets: Sockets) -> String {
    let scratch = ConfiguredDisk {
        fd: numbers.scratch,
        serial: SCRATCH_SERIAL,
        read_only: false,
    };
    let root = numbers.root.map(|fd| ConfiguredDisk {
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
        console_fd: sockets.console,
        disks: [scratch].into_iter().chain(root).collect(),
        vsock: Vsock {
            guest_cid: GUEST_CID,
            port: GUEST_PORT,
            fd: sockets.port,
        },
        folders: numbers.folders.map(|fd| Folders {
            fd,
            tag: MOUNTS_TAG,
        }),
        rng: true,
        save: numbers.save,
        restore: numbers.restore,
    };
    serde_json::to_string(&configuration).expect("plain data serialises")
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let config = launch(root_disk, folder);
        let folders = root_disk.map(|_| File::open("/dev/null").unwrap().into());
        let scratch = folder.join("scratch");
        let files = Files::open(
            Path::new("/dev/null"),
            &config,
            &scratch,
            folders,
            beginning,
        )
        .unwrap();
        let sockets = Sockets {
            port: 90,
            console: 91,
            control: 92,
        };
        let mut value: serde_json::Value =
            serde_json::from_str(&line(&config, &files, sockets)).unwrap();
        // The numbers of files differ from run to run, so their order stands for them.
        let numbers: Vec<RawFd> = files.all().iter().map(AsRawFd::as_raw_fd).collect();
        replace_numbers(&mut value, &numbers);
        value
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
                "memoryMib": 256, "vcpus": 2, "consoleFd": 91,
                "disks": [
                    { "fd": "file 3", "serial": "voidbox-scratch", "readOnly": false },
                    { "fd": "file 4", "serial": "voidbox-root", "readOnly": true },
                ],
                "vsock": { "guestCid": 3, "port": 1024, "fd": 90 },
                "folders": { "fd": "file 5", "tag": "mounts" },
                "rng": true,
            })
        );
        let without = configured(None, &folder.0);
        assert!(without.get("folders").is_none());
        assert_eq!(without["disks"].as_array().unwrap().len(), 1);
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
        let files = serde_json::json!({ "stateFd": "file 4", "memoryFd": "file 5" });
        assert_eq!(save["save"], files);
        assert!(save.get("restore").is_none());
        let copy = BeginningFiles::Copy(null().into(), Rc::new(null()));
        let copy = configured_as(copy, None, &folder.0);
        let files = serde_json::json!({ "stateFd": "file 2", "memoryFd": "file 3" });
        assert_eq!(copy["restore"], files);
        for key in ["save", "kernelFd", "initramfsFd", "commandLine"] {
            assert!(copy.get(key).is_none(), "{key}");
        }
    }

    #[test]
    fn the_shape_of_a_vm_has_its_devices_and_no_number_of_one_launch() {
        let folder = TempDir::new("shape");
        let shape_of = |change: &dyn Fn(&mut LaunchConfig)| {
            let mut config = launch(None, &folder.0);
            change(&mut config);
            shape(&config)
        };
        let one = shape_of(&|_| ());
        assert_eq!(one, shape_of(&|config| config.disk_mib = 128));
        let mount = || crate::config::Mount {
            host_path: "/data".into(),
            guest_path: "/srv".into(),
        };
        for other in [
            shape_of(&|config| config.memory_mib = 512),
            shape_of(&|config| config.vcpus = 1),
            shape_of(&|config| config.root_disk = Some("/root".into())),
            shape_of(&|config| config.mounts = vec![mount()]),
        ] {
            assert_ne!(one, other);
        }
    }
}
