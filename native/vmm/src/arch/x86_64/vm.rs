//! A VM of KVM with its memory, interrupt controllers and CPUs.

use std::os::fd::{IntoRawFd, OwnedFd};

use kvm_bindings::{
    CpuId, KVM_MAX_CPUID_ENTRIES, KVM_PIT_SPEAKER_DUMMY, kvm_enable_cap, kvm_pit_config,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};

use super::{cpuid, layout, registers};
use crate::ended::{Ended, host_failed};
use crate::memory::Ram;

const API_VERSION: i32 = 12;
/// With this, KVM tells the bytes of an instruction that it does not emulate.
const CAP_EXIT_ON_EMULATION_FAILURE: u32 = kvm_bindings::KVM_CAP_EXIT_ON_EMULATION_FAILURE;

/// A VM without CPUs.
pub struct Vm {
    kvm: Kvm,
    fd: VmFd,
}

impl Vm {
    /// Creates a VM on the open `/dev/kvm`, with interrupt controllers and a timer.
    ///
    /// The memory must live as long as the VM.
    pub fn new(kvm: OwnedFd, ram: &Ram) -> Result<Self, Ended> {
        // SAFETY: the descriptor is open, and this is its only owner.
        let kvm = unsafe { <Kvm as std::os::fd::FromRawFd>::from_raw_fd(kvm.into_raw_fd()) };
        let version = kvm.get_api_version();
        if version != API_VERSION {
            return Err(Ended::BadConfiguration {
                key: "kvmFd".into(),
                text: format!(
                    "it answers {version} as the version of KVM's API, not {API_VERSION}"
                ),
            });
        }
        let fd = kvm
            .create_vm()
            .map_err(|e| host_failed("KVM_CREATE_VM", e))?;
        fd.set_identity_map_address(layout::IDENTITY_MAP)
            .map_err(|e| host_failed("KVM_SET_IDENTITY_MAP_ADDR", e))?;
        fd.set_tss_address(layout::TSS)
            .map_err(|e| host_failed("KVM_SET_TSS_ADDR", e))?;
        fd.create_irq_chip()
            .map_err(|e| host_failed("KVM_CREATE_IRQCHIP", e))?;
        let pit = kvm_pit_config {
            flags: KVM_PIT_SPEAKER_DUMMY,
            ..Default::default()
        };
        fd.create_pit2(pit)
            .map_err(|e| host_failed("KVM_CREATE_PIT2", e))?;
        if fd.check_extension_raw(CAP_EXIT_ON_EMULATION_FAILURE.into()) > 0 {
            let cap = kvm_enable_cap {
                cap: CAP_EXIT_ON_EMULATION_FAILURE,
                args: [1, 0, 0, 0],
                ..Default::default()
            };
            fd.enable_cap(&cap)
                .map_err(|e| host_failed("KVM_CAP_EXIT_ON_EMULATION_FAILURE", e))?;
        }
        let vm = Self { kvm, fd };
        vm.map(ram)?;
        Ok(vm)
    }

    fn map(&self, ram: &Ram) -> Result<(), Ended> {
        for (number, slot) in (0..).zip(ram.slots()) {
            let region = kvm_userspace_memory_region {
                slot: number,
                guest_phys_addr: slot.guest,
                memory_size: slot.size,
                userspace_addr: slot.host,
                flags: 0,
            };
            // SAFETY: the range is mapped, and `Ram` keeps it mapped for as long as the VM lives.
            unsafe { self.fd.set_user_memory_region(region) }
                .map_err(|e| host_failed("KVM_SET_USER_MEMORY_REGION", e))?;
        }
        Ok(())
    }

    pub fn fd(&self) -> &VmFd {
        &self.fd
    }

    /// Creates the CPUs. All but the first wait until the guest starts them.
    pub fn create_vcpus(&self, count: u8) -> Result<Vec<VcpuFd>, Ended> {
        let supported = self
            .kvm
            .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
            .map_err(|e| host_failed("KVM_GET_SUPPORTED_CPUID", e))?;
        let mut vcpus = Vec::new();
        for id in 0..count {
            let vcpu = self
                .fd
                .create_vcpu(id.into())
                .map_err(|e| host_failed("KVM_CREATE_VCPU", e))?;
            let leaves = cpuid::guest_leaves(supported.as_slice(), id, count);
            let leaves =
                CpuId::from_entries(&leaves).map_err(|e| host_failed("CPUID", format!("{e:?}")))?;
            vcpu.set_cpuid2(&leaves)
                .map_err(|e| host_failed("KVM_SET_CPUID2", e))?;
            registers::set_up_any(&vcpu).map_err(|e| host_failed("KVM", e))?;
            vcpus.push(vcpu);
        }
        Ok(vcpus)
    }
}
