//! The files of the host that QEMU sees in its jail.

use std::ffi::OsString;
use std::path::Path;

use super::command;
use crate::config::{Accelerator, QemuSettings};
use crate::error::Failure;
use crate::run_dir::SCRATCH;
use crate::vmm::interface::{Beginning, NewVm};
use crate::vmm::jail::{Jail, readable, resolve};

/// The firmware with which the machine starts.
const FIRMWARE: [&str; 2] = ["/usr/share/qemu", "/usr/share/seabios"];

/// Returns the whole command: the jail, and QEMU inside it.
pub fn command(
    settings: &QemuSettings,
    NewVm { config, dir, .. }: NewVm<'_>,
    keeper: &Path,
    uid: Option<u32>,
    beginning: Beginning,
    arguments: impl FnOnce() -> Vec<OsString>,
) -> Result<Vec<OsString>, Failure> {
    let mut jail = Jail::new(&settings.bwrap, uid);
    let qemu = resolve(&settings.program)?;
    make_folders(&mut jail, &qemu);
    jail.show_libraries();
    for path in FIRMWARE {
        jail.show_if_there(path);
    }
    show_qemu(&mut jail, &qemu);
    if beginning != Beginning::Snapshot {
        for (what, path, at) in [
            ("kernel", &config.kernel.path, command::KERNEL),
            ("initramfs", &config.initramfs, command::INITRAMFS),
        ] {
            jail.show(readable(what, path, uid)?, at);
        }
    }
    if let Some(disk) = &config.root_disk {
        jail.show(readable("root disk", disk, uid)?, command::ROOT_DISK);
    }
    jail.show_writable(dir.file(SCRATCH), command::SCRATCH);
    for (index, mount) in config.mounts.iter().enumerate() {
        let at = format!("{}/{index}", command::MOUNTS);
        jail.show(resolve(&mount.host_path)?, at);
    }
    if beginning != Beginning::Boot {
        // QEMU opens its memory, an inherited descriptor, by its path there.
        jail.show_own_processes();
    }
    if settings.accelerator == Accelerator::Kvm {
        jail.show_kvm();
    }
    let mut words = vec![qemu.into()];
    words.extend(arguments());
    jail.command(keeper, words)
}

/// Makes the folders above the files of the jail.
fn make_folders(jail: &mut Jail, qemu: &Path) {
    for folder in ["/usr/share", command::MOUNTS] {
        jail.make_folder(folder);
    }
    let above_qemu: Vec<&Path> = qemu
        .ancestors()
        .skip(1)
        .filter(|above| *above != Path::new("/"))
        .collect();
    for folder in above_qemu.into_iter().rev() {
        jail.make_folder(folder);
    }
}

/// Adds QEMU's binary, and for a build outside `/usr` its surrounding files.
fn show_qemu(jail: &mut Jail, qemu: &Path) {
    let prefix = qemu.parent().and_then(Path::parent);
    let shown = match prefix {
        Some(prefix) if prefix != Path::new("/usr") && prefix != Path::new("/") => prefix,
        _ => qemu,
    };
    jail.show(shown, shown);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{LaunchConfig, VmmSettings};
    use crate::disk::Disk;
    use crate::run_dir::RunDir;

    fn words(accelerator: &str) -> Vec<String> {
        words_of(accelerator, Beginning::Boot)
    }

    fn words_of(accelerator: &str, beginning: Beginning) -> Vec<String> {
        let config: LaunchConfig = serde_json::from_value(serde_json::json!({
            "v": 1, "vmKey": "k", "memoryMib": 256, "vcpus": 1, "diskMib": 64,
            "kernel": { "path": "/etc/hostname", "kind": "debian" }, "initramfs": "/etc/hostname",
            "vmm": {
                "name": "qemu", "program": "/usr/bin/env", "accelerator": accelerator,
                "bwrap": "/usr/bin/bwrap",
            },
            "mounts": [{ "hostPath": "/etc", "guestPath": "/data" }],
        }))
        .unwrap();
        let VmmSettings::Qemu(settings) = &config.vmm else {
            panic!("the name chooses QEMU");
        };
        let vm = NewVm {
            config: &config,
            dir: &RunDir::at("/state/vms/0123"),
            disk: &Disk::new("/", Duration::from_secs(1)),
            with_snapshots: false,
        };
        let keeper = Path::new("/usr/bin/env");
        let args = command(settings, vm, keeper, None, beginning, Vec::new).unwrap();
        args.into_iter()
            .map(|arg| arg.into_string().unwrap())
            .collect()
    }

    #[test]
    fn only_the_scratch_disk_can_be_written() {
        let words = words("tcg");
        let writable: Vec<&String> = words
            .iter()
            .zip(&words[1..])
            .filter(|(how, _)| *how == "--bind")
            .map(|(_, from)| from)
            .collect();
        assert_eq!(writable, ["/state/vms/0123/scratch.img"]);
        assert!(
            words
                .windows(3)
                .any(|three| three == ["--ro-bind", "/etc", "/mounts/0"])
        );
    }

    #[test]
    fn only_a_vm_with_a_snapshot_has_a_proc_in_its_jail() {
        let has_proc = |beginning| {
            let words = words_of("tcg", beginning);
            words.windows(2).any(|two| two == ["--proc", "/proc"])
        };
        assert!(has_proc(Beginning::BootToSave) && has_proc(Beginning::Snapshot));
        assert!(!has_proc(Beginning::Boot));
    }

    #[test]
    fn only_a_guest_on_the_cpu_has_kvm_in_its_jail() {
        let has_kvm = |accelerator| words(accelerator).contains(&"/dev/kvm".to_owned());
        assert!(has_kvm("kvm") && !has_kvm("tcg"));
    }
}
