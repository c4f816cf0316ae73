//! QEMU's command line, with paths inside the jail.

use std::ffi::OsString;

use super::descriptors::Descriptors;
#[cfg(test)]
use super::descriptors::SnapshotDescriptors;
use crate::config::{Accelerator, KernelKind, LaunchConfig};
use crate::host::HostTsc;
use crate::vmm::interface::Beginning;
use crate::vmm::{MAILBOX_SERIAL, ROOT_SERIAL};

/// The paths of QEMU's files in the jail.
pub const KERNEL: &str = "/vm/kernel";
pub const INITRAMFS: &str = "/vm/initramfs";
pub const SCRATCH: &str = "/vm/scratch.img";
pub const ROOT_DISK: &str = "/vm/root.img";
pub const MOUNTS: &str = "/mounts";

/// The CPU that TCG emulates: AVX2 and the like for programs. It lacks `erms`, with which the kernel would copy memory
/// byte by byte, each byte an emulated instruction. TCG lacks the other features, and QEMU would print a warning at
/// every start. `max` has slower page tables and copies than this CPU.
const EMULATED_CPU: &str = "Haswell-noTSX,-erms,-pcid,-invpcid,-x2apic,-tsc-deadline";

/// Returns the arguments after QEMU's own path. No argument is secret.
pub fn qemu_args(
    accelerator: Accelerator,
    config: &LaunchConfig,
    fds: Descriptors,
    tsc: HostTsc,
    beginning: Beginning,
) -> Vec<OsString> {
    let (machine, bus) = match config.kernel.kind {
        KernelKind::Debian => ("microvm,acpi=on,pcie=on,rtc=on", "pci"),
        KernelKind::Voidbox => ("microvm,acpi=off,pcie=off,rtc=on", "device"),
    };
    // Virtio over MMIO has the interrupts 5 to 12, and the last bus is used first: the fifth device would get 8, the
    // clock's interrupt.
    let (fifth_bus, root_bus) = match config.kernel.kind {
        KernelKind::Debian => ("", ""),
        KernelKind::Voidbox => (",bus=virtio-mmio-bus.2", ",bus=virtio-mmio-bus.1"),
    };
    let (accelerator_option, cpu) = match accelerator {
        Accelerator::Kvm => ("kvm", "host"),
        // The size of the cache for translated code, in MiB. A program that does not fit is translated again and again:
        // with 64, a large program needs half as much CPU time again. QEMU grows by the used part of the cache, and
        // admission counts all of it. The default is a 1 GiB reservation.
        Accelerator::Tcg => ("tcg,tb-size=256", EMULATED_CPU),
    };
    let mut args: Vec<OsString> = Vec::new();
    let mut add = |name: &str, value: String| args.extend([name.into(), value.into()]);
    match (beginning, fds.snapshot.memory) {
        (Beginning::BootToSave | Beginning::Snapshot, Some(memory)) => {
            // A copy maps the memory privately: its guest writes into pages of its own.
            let share = match beginning {
                Beginning::Snapshot => "off",
                Beginning::Boot | Beginning::BootToSave => "on",
            };
            add("-M", format!("{machine},memory-backend=ram"));
            add(
                "-object",
                format!(
                    "memory-backend-file,id=ram,size={}M,mem-path=/proc/self/fd/{memory},share={share}",
                    config.memory_mib
                ),
            );
        }
        _ => add("-M", machine.into()),
    }
    add("-accel", accelerator_option.into());
    add("-cpu", cpu.into());
    add("-m", format!("{}M", config.memory_mib));
    add("-smp", config.vcpus.to_string());
    // The memory of a copy contains its kernel, and a reset ends the VMM. Without the files QEMU starts faster.
    if beginning != Beginning::Snapshot {
        add("-kernel", KERNEL.into());
        add("-initrd", INITRAMFS.into());
        let mut line = kernel_command_line(accelerator, config, tsc);
        if beginning == Beginning::BootToSave {
            line.push_str(" voidbox.wait=1");
        }
        add("-append", line);
    }
    add("-display", "none".into());
    add(
        "-sandbox",
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny".into(),
    );
    add("-chardev", format!("socket,id=console,fd={}", fds.console));
    add("-serial", "chardev:console".into());
    add("-chardev", format!("socket,id=port,fd={}", fds.port));
    add("-chardev", format!("socket,id=control,fd={}", fds.control));
    add("-mon", "chardev=control,mode=control".into());
    add("-device", format!("virtio-serial-{bus},max_ports=2"));
    add(
        "-device",
        "virtserialport,chardev=port,name=voidbox.agent".into(),
    );
    add(
        "-drive",
        // If the host has no room, the VM is paused, and its guest does not notice this.
        format!(
            "if=none,id=scratch,file={SCRATCH},format=raw,cache=unsafe,discard=unmap,werror=enospc"
        ),
    );
    add("-device", format!("virtio-blk-{bus},drive=scratch"));
    // QEMU opens the file for reading first unless the option forbids it, and a descriptor has only one mode.
    add("-add-fd", format!("fd={},set=1", fds.mailbox));
    add(
        "-drive",
        "if=none,id=mailbox,file=/dev/fdset/1,format=raw,cache=unsafe,auto-read-only=off,file.locking=off".into(),
    );
    add(
        "-device",
        format!("virtio-blk-{bus},drive=mailbox,serial={MAILBOX_SERIAL}"),
    );
    if config.root_disk.is_some() {
        add(
            "-drive",
            // Many VMs have the same file open, all of them for reading.
            format!(
                "if=none,id=root,file={ROOT_DISK},format=raw,readonly=on,cache=unsafe,file.locking=off"
            ),
        );
        add(
            "-device",
            format!("virtio-blk-{bus},drive=root,serial={ROOT_SERIAL}{root_bus}"),
        );
    }
    add("-object", "rng-builtin,id=rng".into());
    add("-device", format!("virtio-rng-{bus},rng=rng"));
    if !config.mounts.is_empty() {
        add(
            "-fsdev",
            format!(
                "local,id=mounts,path={MOUNTS},security_model=none,readonly=on,multidevs=remap"
            ),
        );
        add(
            "-device",
            format!("virtio-9p-{bus},fsdev=mounts,mount_tag=mounts{fifth_bus}"),
        );
    }
    if beginning == Beginning::Snapshot {
        // The keeper names the pipe once QEMU knows that the memory is not in it.
        add("-incoming", "defer".into());
    }
    args.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
    args
}

/// Debian's kernel tests its ciphers at each boot, and sets up keys and a source of random numbers. No guest needs them
/// (it has virtio-rng), and they take a quarter of the boot on an emulated CPU.
const DEBIAN_WITHOUT_TESTS: &str = " cryptomgr.notests initcall_blacklist=jent_mod_init,crypto_kdf108_init,init_encrypted,load_system_certificate_list";

fn kernel_command_line(accelerator: Accelerator, config: &LaunchConfig, tsc: HostTsc) -> String {
    // Failures of an early boot stay visible on the console.
    let mut line =
        String::from("console=ttyS0 loglevel=4 panic=-1 reboot=t voidbox.scratch=/dev/vda");
    if config.root_disk.is_some() {
        line.push_str(&format!(" voidbox.root={ROOT_SERIAL}"));
    }
    if config.kernel.kind == KernelKind::Debian || accelerator != Accelerator::Kvm {
        // The machine of Debian's kernel has no timer that could calibrate a TSC: without the figure, one boot of five
        // hangs. An emulated timer is late on a busy host, and a clock that was calibrated by it is slow by as much.
        // KVM tells its guests the figure.
        line.push_str(&format!(" tsc_early_khz={}", tsc.khz));
    }
    if accelerator != Accelerator::Kvm {
        // An emulated CPU does not speculate, so it needs no mitigations, which would cost a switch of page tables at
        // every system call. Zeroing each page of the page cache, as Debian's kernel does, costs 512 more instructions.
        line.push_str(" mitigations=off init_on_alloc=0");
        if config.kernel.kind == KernelKind::Debian {
            line.push_str(DEBIAN_WITHOUT_TESTS);
        }
        // An emulated TSC is the host's. The kernel compares it with a timer that is late whenever one of two virtual
        // CPUs waits for a CPU of the host. It would then stop using the TSC, and its clock would fall behind. The host
        // has already checked the TSC.
        if tsc.trusted {
            line.push_str(" tsc=reliable");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(kind: &str, mounts: serde_json::Value) -> LaunchConfig {
        serde_json::from_value(serde_json::json!({
            "v": 1, "vmKey": "k", "memoryMib": 256, "vcpus": 2, "diskMib": 64,
            "kernel": { "path": "/home/a,b/vmlinuz", "kind": kind }, "initramfs": "/i",
            "vmm": { "name": "qemu", "program": "/q", "accelerator": "tcg", "bwrap": "/b" },
            "mounts": mounts,
        }))
        .unwrap()
    }

    fn line(config: &LaunchConfig) -> String {
        line_on(Accelerator::Tcg, config, true)
    }

    fn line_on(accelerator: Accelerator, config: &LaunchConfig, trusted: bool) -> String {
        let fds = Descriptors {
            port: 7,
            console: 8,
            mailbox: 9,
            control: 10,
            snapshot: SnapshotDescriptors {
                memory: Some(11),
                state: Some(12),
            },
        };
        let tsc = HostTsc {
            khz: 2_900_000,
            trusted,
        };
        let args = qemu_args(accelerator, config, fds, tsc, Beginning::Boot);
        args.join(std::ffi::OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn each_kernel_gets_its_devices() {
        let debian = line(&config("debian", serde_json::json!([])));
        assert!(debian.contains("virtio-blk-pci") && debian.contains("tsc_early_khz=2900000"));
        let voidbox = line(&config("voidbox", serde_json::json!([])));
        assert!(voidbox.contains("virtio-blk-device") && voidbox.contains("tsc_early_khz=2900000"));
        let by_kvm = line_on(
            Accelerator::Kvm,
            &config("voidbox", serde_json::json!([])),
            true,
        );
        assert!(
            !by_kvm.contains("tsc_early_khz"),
            "KVM gives its guests the figure"
        );
        for line in [debian, voidbox] {
            let at = |what: &str| line.find(what).expect(what);
            assert!(
                at("drive=scratch") < at("drive=mailbox,serial=voidbox-mailbox"),
                "the scratch disk is the first"
            );
        }
    }

    #[test]
    fn a_fifth_device_keeps_off_the_interrupt_of_the_clock() {
        let mounts = serde_json::json!([{ "hostPath": "/x", "guestPath": "/data" }]);
        let voidbox = line(&config("voidbox", mounts.clone()));
        assert!(voidbox.contains("mount_tag=mounts,bus=virtio-mmio-bus.2"));
        assert!(!line(&config("debian", mounts)).contains("virtio-mmio-bus"));
    }

    #[test]
    fn a_root_disk_is_read_only_behind_the_scratch_disk_and_named_to_the_guest() {
        for (kind, bus) in [
            ("debian", "virtio-blk-pci,drive=root,serial=voidbox-root "),
            (
                "voidbox",
                "virtio-blk-device,drive=root,serial=voidbox-root,bus=virtio-mmio-bus.1 ",
            ),
        ] {
            let mut config = config(kind, serde_json::json!([]));
            assert!(!line(&config).contains("voidbox.root"));
            config.root_disk = Some("/cache/root.ext4".into());
            let line = line(&config);
            assert!(line.contains("file=/vm/root.img,format=raw,readonly=on"));
            assert!(line.contains(bus) && line.contains(" voidbox.root=voidbox-root "));
            assert!(!line.contains("/cache"));
            assert!(line.find("drive=scratch") < line.find("drive=root"));
        }
    }

    #[test]
    fn a_copy_has_the_arguments_of_its_template_and_writes_no_memory_of_the_snapshot() {
        let config = config("debian", serde_json::json!([]));
        let fds = Descriptors {
            port: 7,
            console: 8,
            mailbox: 9,
            control: 10,
            snapshot: SnapshotDescriptors {
                memory: Some(11),
                state: Some(12),
            },
        };
        let tsc = HostTsc {
            khz: 2_900_000,
            trusted: true,
        };
        let args = |beginning| qemu_args(Accelerator::Tcg, &config, fds, tsc, beginning);
        let mut template = args(Beginning::BootToSave);
        let mut copy = args(Beginning::Snapshot);
        let at = copy.iter().position(|arg| arg == "-incoming").unwrap();
        assert_eq!(copy[at + 1], "defer");
        copy.drain(at..at + 2);
        let memory = |share: &str| {
            let path = "memory-backend-file,id=ram,size=256M,mem-path=/proc/self/fd/11";
            OsString::from(format!("{path},share={share}"))
        };
        let own = copy.iter_mut().find(|arg| **arg == memory("off"));
        *own.expect("its memory is private") = memory("on");
        let waits = |args: &[OsString]| {
            args.iter()
                .any(|arg| arg.to_str().unwrap().contains("voidbox.wait=1"))
        };
        assert!(waits(&template) && !waits(&args(Beginning::Boot)));
        // The kernel is in its memory.
        for file in ["-kernel", "-initrd", "-append"] {
            let at = template.iter().position(|arg| arg == file).unwrap();
            template.drain(at..at + 2);
        }
        assert_eq!(template, copy);
    }

    #[test]
    fn only_an_emulated_cpu_goes_without_mitigations() {
        let config = config("debian", serde_json::json!([]));
        assert!(line(&config).contains("mitigations=off"));
        assert!(line(&config).contains("cryptomgr.notests"));
        let line = line_on(Accelerator::Kvm, &config, true);
        assert!(!line.contains("mitigations") && line.contains("-cpu host"));
        assert!(!line.contains("cryptomgr") && !line.contains("initcall_blacklist"));
    }

    #[test]
    fn a_tsc_that_the_host_trusts_is_trusted_by_an_emulated_guest_and_no_other() {
        let config = config("debian", serde_json::json!([]));
        let is_trusted =
            |accelerator, trusted| line_on(accelerator, &config, trusted).contains(" tsc=reliable");
        assert!(is_trusted(Accelerator::Tcg, true));
        assert!(!is_trusted(Accelerator::Tcg, false));
        assert!(!is_trusted(Accelerator::Kvm, true));
    }

    #[test]
    fn there_is_no_network_device_no_monitor_and_no_host_path() {
        let line = line(&config(
            "debian",
            serde_json::json!([{ "hostPath": "/secret/x", "guestPath": "/data" }]),
        ));
        // No argument opens a path or a port to which another process could connect.
        for forbidden in [
            "net", "-monitor", "-qmp", "server", "path=/vm", "host=", "port=", "/secret", "/home",
        ] {
            assert!(!line.contains(forbidden), "{forbidden} in {line}");
        }
        // The only control is the socket whose other end the keeper has.
        assert_eq!(line.matches("-mon ").count(), 1);
        assert!(
            line.contains("-chardev socket,id=control,fd=10 -mon chardev=control,mode=control")
        );
        assert!(line.contains("readonly=on"));
    }
}
