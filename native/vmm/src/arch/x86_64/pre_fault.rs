//! Maps memory to the guest before a CPU uses it (`KVM_PRE_FAULT_MEMORY`).

use std::io;
use std::os::fd::AsRawFd;

use kvm_ioctls::VcpuFd;

use crate::memory::Slot;

/// `_IOWR(KVMIO, 0xd5, struct kvm_pre_fault_memory)`.
const KVM_PRE_FAULT_MEMORY: u32 = 0xC040_AED5;

/// `struct kvm_pre_fault_memory` of `<linux/kvm.h>`.
#[repr(C)]
struct PreFault {
    address: u64,
    size: u64,
    flags: u64,
    padding: [u64; 5],
}

/// Maps a part of the memory, for all CPUs.
pub fn map(vcpu: &VcpuFd, part: &Slot) -> io::Result<()> {
    let mut rest = PreFault {
        address: part.guest,
        size: part.size,
        flags: 0,
        padding: [0; 5],
    };
    // Each call maps a part, and moves the range behind it.
    while rest.size > 0 {
        // SAFETY: KVM reads and writes this structure, which outlives the call.
        let result = unsafe {
            libc::ioctl(
                vcpu.as_raw_fd(),
                KVM_PRE_FAULT_MEMORY as libc::Ioctl,
                &raw mut rest,
            )
        };
        if result == -1 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
    Ok(())
}
