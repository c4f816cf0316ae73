//! The configuration of `voidbox-vmm`: one line of JSON over its control. Files are numbers of inherited descriptors.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

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
    kernel: File,
    initramfs: File,
    scratch: File,
    root: Option<File>,
    /// The VMM's end of the socket to the server of folders.
    folders: Option<OwnedFd>,
}

impl Files {
    /// Opens all files. Only the keeper's user needs rights to them.
    pub fn open(
        kvm: &Path,
        config: &LaunchConfig,
        scratch: &Path,
        folders: Option<OwnedFd>,
    ) -> Result<Self, Failure> {
        let root = config.root_disk.as_deref();
        Ok(Self {
            kvm: open(kvm, Access::Write)?,
            kernel: open(&config.kernel.path, Access::Read)?,
            initramfs: open(&config.initramfs, Access::Read)?,
            scratch: open(scratch, Access::Write)?,
            root: root.map(|path| open(path, Access::Read)).transpose()?,
            folders,
        })
    }

    pub fn all(&self) -> Vec<BorrowedFd<'_>> {
        [
            Some(&self.kvm),
            Some(&self.kernel),
            Some(&self.initramfs),
            Some(&self.scratch),
            self.root.as_ref(),
        ]
        .into_iter()
        .flatten()
        .map(AsFd::as_fd)
        .chain(self.folders.as_ref().map(AsFd::as_fd))
        .collect()
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    version: u32,
    kvm_fd: RawFd,
    kernel_fd: RawFd,
    initramfs_fd: RawFd,
    command_line: String,
    memory_mib: u32,
    vcpus: u32,
    console_fd: RawFd,
    disks: Vec<ConfiguredDisk>,
    vsock: Vsock,
    #[serde(skip_serializing_if = "Option::is_none")]
    folders: Option<Folders>,
    rng: bool,
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
    let scratch = ConfiguredDisk {
        fd: files.scratch.as_raw_fd(),
        serial: SCRATCH_SERIAL,
        read_only: false,
    };
    let root = files.root.as_ref().map(|file| ConfiguredDisk {
        fd: file.as_raw_fd(),
        serial: ROOT_SERIAL,
        read_only: true,
    });
    let configuration = Configuration {
        version: VERSION,
        kvm_fd: files.kvm.as_raw_fd(),
        kernel_fd: files.kernel.as_raw_fd(),
        initramfs_fd: files.initramfs.as_raw_fd(),
        command_line: kernel_command_line(config),
        memory_mib: config.memory_mib,
        vcpus: config.vcpus,
        console_fd: sockets.console,
        disks: [scratch].into_iter().chain(root).collect(),
        vsock: Vsock {
            guest_cid: GUEST_CID,
            port: GUEST_PORT,
            fd: sockets.port,
        },
        folders: files.folders.as_ref().map(|socket| Folders {
            fd: socket.as_raw_fd(),
            tag: MOUNTS_TAG,
        }),
        rng: true,
    };
    serde_json::to_string(&configuration).expect("plain data serialises")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_dir::tests::TempDir;

    fn configured(root_disk: Option<&Path>, folder: &Path) -> serde_json::Value {
        let mut config = serde_json::json!({
            "v": 1, "vmKey": "k", "memoryMib": 256, "vcpus": 2, "diskMib": 64,
            "kernel": { "path": folder.join("kernel"), "kind": "debian" }, "initramfs": folder.join("initramfs"),
            "vmm": { "name": "vmm", "program": "/p" },
        });
        if let Some(path) = root_disk {
            config["rootDisk"] = path.to_str().unwrap().into();
        }
        let config: LaunchConfig = serde_json::from_value(config).unwrap();
        let folders = root_disk.map(|_| File::open("/dev/null").unwrap().into());
        let scratch = folder.join("scratch");
        let files = Files::open(Path::new("/dev/null"), &config, &scratch, folders).unwrap();
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
}
