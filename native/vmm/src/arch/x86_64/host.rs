//! The processor of this architecture, put together from its parts.

use std::io;
use std::os::fd::OwnedFd;

use kvm_ioctls::VcpuFd;

use super::vm::Vm;
use super::{acpi, boot, kernel, layout, pre_fault, registers};
use crate::arch::processor::{Boot, Processor};
use crate::config::CpuTemplate;
use crate::ended::{Ended, host_failed};
use crate::memory::{Ram, Slot};

/// x86-64, as [`Processor`].
pub struct Host;

impl Processor for Host {
    type Vm = Vm;

    fn create_vm(kvm: OwnedFd, ram: &Ram) -> Result<Vm, Ended> {
        Vm::new(kvm, ram)
    }

    fn create_vcpus(vm: &Vm, template: CpuTemplate, count: u8) -> Result<Vec<VcpuFd>, Ended> {
        vm.create_vcpus(template, count)
    }

    fn boot(boot: Boot, ram: &Ram, vcpus: &[VcpuFd]) -> Result<(), Ended> {
        let count = u8::try_from(vcpus.len()).unwrap_or(u8::MAX);
        let loaded = load(boot, ram, count)?;
        for vcpu in vcpus {
            registers::set_up_any(vcpu).map_err(|e| host_failed("KVM", e))?;
        }
        registers::set_up_first(&vcpus[0], ram.memory(), loaded.entry)
            .map_err(|e| host_failed("KVM", e))
    }

    fn map_ahead(vcpu: &VcpuFd, part: &Slot) -> io::Result<()> {
        pre_fault::map(vcpu, part)
    }

    fn device_address(index: usize) -> u64 {
        layout::device_address(index)
    }

    fn device_interrupt(index: usize) -> u32 {
        layout::device_interrupt(index)
    }
}

/// Loads the kernel and writes all that it reads at its entry. The files are closed afterwards.
fn load(mut files: Boot, ram: &Ram, vcpus: u8) -> Result<kernel::Kernel, Ended> {
    let memory = ram.memory();
    let refused = |key: &str, error: kernel::KernelError| Ended::BadConfiguration {
        key: key.into(),
        text: error.to_string(),
    };
    let loaded = kernel::load_kernel(memory, ram.low_end(), &mut files.kernel)
        .map_err(|e| refused("kernelFd", e))?;
    let initramfs = files
        .initramfs
        .map(|mut file| kernel::load_initramfs(memory, ram.low_end(), &loaded, &mut file))
        .transpose()
        .map_err(|e| refused("initramfsFd", e))?;
    let acpi = acpi::write(memory, vcpus, files.devices).map_err(|e| host_failed("ACPI", e))?;
    let info = boot::BootInfo {
        slots: ram.slots(),
        command_line: &files.command_line,
        initramfs,
        acpi,
    };
    boot::write(memory, &loaded, &info).map_err(|e| host_failed("the guest's memory", e))?;
    Ok(loaded)
}
