//! A VM of KVM with its memory, interrupt controllers and CPUs.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use kvm_bindings::{
    CpuId, KVM_MAX_CPUID_ENTRIES, KVM_MEM_LOG_DIRTY_PAGES, KVM_MEM_READONLY, KVM_PIT_SPEAKER_DUMMY,
    kvm_enable_cap, kvm_pit_config, kvm_userspace_memory_region,
};
use kvm_ioctls::{Cap, Kvm, VcpuFd, VmFd};

use super::{cpuid, layout, saved};
use crate::config::CpuTemplate;
use crate::ended::{Ended, host_failed};
use crate::memory::{Ram, Slot};

const API_VERSION: i32 = 12;
/// The number of the first slot with a file that the guest can only read. Memory has the numbers below it.
const FIRST_FILE: u32 = 8;
/// The size of `struct kvm_xsave`.
const XSAVE_BYTES: i32 = 4096;
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
        self.set_slots(0, ram.slots().iter().copied(), 0)
            .and_then(|()| self.set_slots(FIRST_FILE, ram.files(), KVM_MEM_READONLY))
            .map_err(|e| host_failed("KVM_SET_USER_MEMORY_REGION", e))
    }

    /// Lets KVM note the pages that the guest writes from now on. No CPU runs.
    pub fn log_writes(&self, ram: &Ram) -> io::Result<()> {
        self.set_slots(0, ram.slots().iter().copied(), KVM_MEM_LOG_DIRTY_PAGES)
    }

    /// Returns a bitmap of the pages of a slot that the guest has written since the last call.
    pub fn take_written(&self, number: u32, slot: &Slot) -> io::Result<Vec<u64>> {
        let size = usize::try_from(slot.size).map_err(io::Error::other)?;
        let written = self.fd.get_dirty_log(number, size);
        written.map_err(|e| io::Error::from_raw_os_error(e.errno()))
    }

    fn set_slots(
        &self,
        first: u32,
        slots: impl Iterator<Item = Slot>,
        flags: u32,
    ) -> io::Result<()> {
        for (number, slot) in (first..).zip(slots) {
            let region = kvm_userspace_memory_region {
                slot: number,
                guest_phys_addr: slot.guest,
                memory_size: slot.size,
                userspace_addr: slot.host,
                flags,
            };
            // SAFETY: the range is mapped, and `Ram` keeps it mapped for as long as the VM lives.
            unsafe { self.fd.set_user_memory_region(region) }
                .map_err(|e| io::Error::from_raw_os_error(e.errno()))?;
        }
        Ok(())
    }

    pub fn fd(&self) -> &VmFd {
        &self.fd
    }

    /// Returns the MSRs of a saved CPU.
    pub fn saved_msrs(&self) -> Result<Vec<u32>, Ended> {
        let listed = self
            .kvm
            .get_msr_index_list()
            .map_err(|e| host_failed("KVM_GET_MSR_INDEX_LIST", e))?;
        Ok(saved::saved_msrs(listed.as_slice()))
    }

    /// Returns a second owner of a CPU, through which another thread reads the state of the CPU while it does not run.
    pub fn second_owner(&self, vcpu: &VcpuFd) -> Result<VcpuFd, Ended> {
        let failed = |e| host_failed("a second descriptor of a CPU", e);
        // SAFETY: copies an open descriptor.
        let fd = unsafe { libc::fcntl(vcpu.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0) };
        if fd < 0 {
            return Err(failed(std::io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is a CPU of this VM, and the result is its only owner.
        unsafe { self.fd.create_vcpu_from_rawfd(fd) }
            .map_err(|e| failed(std::io::Error::from_raw_os_error(e.errno())))
    }

    /// Fails for a host whose XSAVE area does not fit into the structure that is saved.
    pub fn check_xsave(&self) -> Result<(), String> {
        match self.fd.check_extension_int(Cap::Xsave2) {
            size if size > XSAVE_BYTES => Err(format!(
                "the XSAVE area of this host has {size} bytes; at most {XSAVE_BYTES} are saved"
            )),
            _ => Ok(()),
        }
    }

    /// Creates the CPUs. All but the first wait until the guest starts them.
    pub fn create_vcpus(&self, template: CpuTemplate, count: u8) -> Result<Vec<VcpuFd>, Ended> {
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
            let leaves = cpuid::guest_leaves(supported.as_slice(), template, id, count);
            let leaves =
                CpuId::from_entries(&leaves).map_err(|e| host_failed("CPUID", format!("{e:?}")))?;
            vcpu.set_cpuid2(&leaves)
                .map_err(|e| host_failed("KVM_SET_CPUID2", e))?;
            vcpus.push(vcpu);
        }
        Ok(vcpus)
    }
}
