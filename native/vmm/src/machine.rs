//! Puts a machine together from its configuration.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use kvm_ioctls::{IoEventAddress, VcpuFd};
use vm_memory::GuestMemoryMmap;

use crate::arch::kernel::{Kernel, KernelError};
use crate::arch::vm::Vm;
use crate::arch::{acpi, boot, kernel, layout, registers};
use crate::bus::{Bus, Slot};
use crate::config::Config;
use crate::console::Console;
use crate::devices::block::Block;
use crate::devices::folders::Folders;
use crate::devices::rng::Rng;
use crate::devices::vsock::Vsock;
use crate::ended::{Ended, host_failed};
use crate::memory::Ram;
use crate::ports::Ports;
use crate::statistics::Counters;
use crate::vcpu::Machine;
use crate::virtio::{Device, registers as virtio_registers};

/// A machine whose CPUs have not run. Fields are dropped in this order: the memory is the last.
pub struct Assembled {
    pub vcpus: Vec<VcpuFd>,
    pub machine: Arc<Machine>,
    pub console: Arc<Console>,
    pub vm_counters: Option<Counters>,
    pub vcpu_counters: Vec<Counters>,
    /// CPUs and descriptors of interrupts belong to it.
    _vm: Vm,
    _ram: Ram,
}

/// Becomes the owner of a descriptor.
fn take(fd: RawFd) -> OwnedFd {
    // SAFETY: the configuration names each descriptor once, and all are open.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Builds the machine. The descriptors of the configuration have no other owner.
pub fn assemble(config: &Config) -> Result<Assembled, Ended> {
    let ram = Ram::new(config.memory_mib).map_err(|e| host_failed("the guest's memory", e))?;
    let vm = Vm::new(take(config.kvm_fd), &ram)?;
    let vcpu_count = u8::try_from(config.vcpus).unwrap_or(u8::MAX);
    let console = Console::new(take(config.console_fd), Instant::now())
        .map_err(|e| refused("consoleFd", &e))?;
    let console = Arc::new(console);
    let slots = make_slots(config, ram.memory(), &console)?;
    let loaded = load(config, &ram, vcpu_count, slots.len())?;
    let ports = Ports::new(console.clone()).map_err(|e| host_failed("eventfd", e))?;
    connect(&vm, &slots, &ports)?;
    let vcpus = vm.create_vcpus(vcpu_count)?;
    registers::set_up_first(&vcpus[0], ram.memory(), loaded.entry)
        .map_err(|e| host_failed("KVM", e))?;
    Ok(Assembled {
        vm_counters: Counters::open(vm.fd()),
        vcpu_counters: vcpus.iter().filter_map(Counters::open).collect(),
        vcpus,
        machine: Arc::new(Machine {
            bus: Bus::new(slots),
            ports,
        }),
        console,
        _vm: vm,
        _ram: ram,
    })
}

fn refused(key: impl Into<String>, error: &dyn std::fmt::Display) -> Ended {
    Ended::BadConfiguration {
        key: key.into(),
        text: error.to_string(),
    }
}

/// Loads the kernel and writes all that it reads at its entry.
fn load(config: &Config, ram: &Ram, vcpus: u8, devices: usize) -> Result<Kernel, Ended> {
    let memory = ram.memory();
    let mut file = File::from(take(config.kernel_fd));
    let loaded = kernel::load_kernel(memory, ram.low_end(), &mut file)
        .map_err(|e| refused("kernelFd", &e))?;
    let load_initramfs = |fd| -> Result<_, KernelError> {
        let mut file = File::from(take(fd));
        kernel::load_initramfs(memory, ram.low_end(), &loaded, &mut file)
    };
    let initramfs = config
        .initramfs_fd
        .map(load_initramfs)
        .transpose()
        .map_err(|e| refused("initramfsFd", &e))?;
    let acpi = acpi::write(memory, vcpus, devices).map_err(|e| host_failed("ACPI", e))?;
    let info = boot::BootInfo {
        slots: ram.slots(),
        command_line: &config.command_line,
        initramfs,
        acpi,
    };
    boot::write(memory, &loaded, &info).map_err(|e| host_failed("the guest's memory", e))?;
    Ok(loaded)
}

/// Makes the devices in the order in which the guest finds them: disks, vsock, rng.
fn make_slots(
    config: &Config,
    memory: &GuestMemoryMmap,
    console: &Arc<Console>,
) -> Result<Vec<Slot>, Ended> {
    let mut devices: Vec<Box<dyn Device>> = Vec::new();
    for (at, disk) in config.disks.iter().enumerate() {
        let file = File::from(take(disk.fd));
        let block = Block::new(file, &disk.serial, disk.read_only)
            .map_err(|e| refused(format!("disks[{at}].fd"), &e))?;
        devices.push(Box::new(block));
    }
    if let Some(vsock) = &config.vsock {
        let device = Vsock::new(take(vsock.fd), vsock.guest_cid, vsock.port)
            .map_err(|e| refused("vsock.fd", &e))?;
        devices.push(Box::new(device));
    }
    if let Some(folders) = &config.folders {
        let device =
            Folders::new(take(folders.fd), &folders.tag).map_err(|e| refused("folders.fd", &e))?;
        devices.push(Box::new(device));
    }
    if config.rng {
        devices.push(Box::new(Rng));
    }
    let make = |device| {
        let console = console.clone();
        let report = move |line: &str| console.note(line, Instant::now());
        Slot::new(device, memory.clone(), report).map_err(|e| host_failed("eventfd", e))
    };
    devices.into_iter().map(make).collect()
}

/// Lets KVM turn kicks into readable descriptors, and descriptors into interrupts.
fn connect(vm: &Vm, slots: &[Slot], ports: &Ports) -> Result<(), Ended> {
    let irqfd = |e| host_failed("KVM_IRQFD", e);
    for (index, slot) in slots.iter().enumerate() {
        let address = layout::device_address(index) + virtio_registers::QUEUE_NOTIFY;
        for (queue, kick) in (0u32..).zip(slot.kicks()) {
            vm.fd()
                .register_ioevent(kick, &IoEventAddress::Mmio(address), queue)
                .map_err(|e| host_failed("KVM_IOEVENTFD", e))?;
        }
        vm.fd()
            .register_irqfd(slot.interrupt().line(), layout::device_interrupt(index))
            .map_err(irqfd)?;
    }
    vm.fd()
        .register_irqfd(ports.com1_interrupt(), layout::COM1_INTERRUPT)
        .map_err(irqfd)
}
