//! The interface of an architecture: each folder beside this file implements it for one.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use kvm_ioctls::VcpuFd;

use crate::config::CpuTemplate;
use crate::ended::Ended;
use crate::memory::{Ram, Slot};

/// The files and settings of a guest that boots.
pub struct Boot {
    pub kernel: File,
    pub initramfs: Option<File>,
    pub command_line: String,
    /// The number of virtio devices, which the guest finds by its tables.
    pub devices: usize,
}

/// The parts of a machine that depend on its processor.
pub trait Processor {
    /// A VM of KVM with its memory and interrupt controllers.
    type Vm;

    /// Creates a VM on the open `/dev/kvm`. The memory must live as long as the VM.
    fn create_vm(kvm: OwnedFd, ram: &Ram) -> Result<Self::Vm, Ended>;

    /// Creates the CPUs. All but the first wait until the guest starts them.
    fn create_vcpus(vm: &Self::Vm, template: CpuTemplate, count: u8) -> Result<Vec<VcpuFd>, Ended>;

    /// Loads the kernel, writes all that it reads at its entry, and sets the first CPU there.
    fn boot(boot: Boot, ram: &Ram, vcpus: &[VcpuFd]) -> Result<(), Ended>;

    /// Lets KVM map memory to the guest before a CPU uses it. A page that this process may only read is mapped so.
    fn map_ahead(vcpu: &VcpuFd, part: &Slot) -> io::Result<()>;

    /// Returns the address of the registers of a virtio device.
    fn device_address(index: usize) -> u64;

    /// Returns the interrupt of a virtio device.
    fn device_interrupt(index: usize) -> u32;
}
