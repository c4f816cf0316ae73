//! The system calls that each thread may make while a guest runs. A guest that takes a thread over gets no more.

use voidbox_jail::filter::{Call, Check, Filter, RUNTIME, Table};

use crate::ended::{Ended, host_failed};

/// `_IO(KVMIO, 0x80)`.
const KVM_RUN: u32 = 0xAE80;
/// `_IOR(KVMIO, 0x81, struct kvm_regs)`.
const KVM_GET_REGS: u32 = 0x8090_AE81;

/// `_IO(KVMIO, 0xad)`.
const KVM_KVMCLOCK_CTRL: u32 = 0xAEAD;

const DEBUG_CLOSE: Call = Call::checked(
    libc::SYS_fcntl,
    &[Check::Is(1, libc::F_GETFD as u32)],
    "a check before a descriptor is closed, in builds for tests",
);

pub const VCPU: Table = Table {
    role: "vcpu",
    calls: &[
        RUNTIME,
        &[
            Call::checked(
                libc::SYS_ioctl,
                &[Check::Is(1, KVM_KVMCLOCK_CTRL)],
                "tells the guest's clock about a pause",
            ),
            Call::any(
                libc::SYS_shutdown,
                "closes the guest port when the guest resets its device",
            ),
            Call::checked(libc::SYS_ioctl, &[Check::Is(1, KVM_RUN)], "runs the guest"),
            Call::checked(
                libc::SYS_ioctl,
                &[Check::Is(1, KVM_GET_REGS)],
                "the address of the instruction at which a guest ended",
            ),
        ],
    ],
};

pub const DEVICES: Table = Table {
    role: "devices",
    calls: &[
        RUNTIME,
        &[
            Call::any(
                libc::SYS_poll,
                "waits for kicks of queues, the guest port and the console",
            ),
            Call::any(libc::SYS_read, "resets an eventfd"),
            Call::any(libc::SYS_readv, "reads the guest port"),
            Call::any(libc::SYS_sendto, "writes the guest port"),
            Call::any(libc::SYS_shutdown, "closes the guest port in one direction"),
            Call::any(libc::SYS_recvfrom, "reads answers of the folder server"),
            Call::any(libc::SYS_preadv, "reads a disk"),
            Call::any(libc::SYS_pwritev, "writes a disk"),
            Call::checked(
                libc::SYS_fallocate,
                &[Check::Is(
                    1,
                    (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32,
                )],
                "discards a part of a disk",
            ),
            Call::any(libc::SYS_getrandom, "random numbers for the guest"),
            Call::any(libc::SYS_close, "the end of the devices"),
            DEBUG_CLOSE,
        ],
    ],
};

/// The calls of a save, of a VM that may be saved.
const SAVE: &[Call] = &[
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8004_AE98)],
        "the MP state of a CPU",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, KVM_GET_REGS)],
        "the registers of a CPU",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8138_AE83)],
        "the special registers of a CPU",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x9000_AEA4)],
        "the XSAVE area of a CPU",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8188_AEA6)],
        "the XCRs of a CPU",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8080_AEA1)],
        "the debug registers of a CPU",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8400_AE8E)],
        "the local APIC of a CPU",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0xAEA3)],
        "the speed of the TSC of a CPU",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0xC008_AE91)],
        "the features of a CPU",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0xC008_AE88)],
        "the MSRs of a CPU",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8040_AE9F)],
        "the events of a CPU",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8030_AE7C)],
        "the clock of the VM",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8070_AE9F)],
        "the PIT of the VM",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0xC208_AE62)],
        "the interrupt controllers of the VM",
    ),
    Call::any(libc::SYS_pwrite64, "the memory of a saved VM"),
];

/// The further calls of a VM that may be saved in full.
const SAVE_IN_FULL: &[Call] = &[
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x4020_AE46)],
        "the log of the pages that the guest writes begins",
    ),
    Call::checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x4010_AE42)],
        "the log of the pages that the guest has written",
    ),
];

/// The calls of the control of each VM.
const SERVE: &[Call] = &[
    Call::any(libc::SYS_poll, "waits for the keeper and the other threads"),
    Call::any(libc::SYS_read, "resets an eventfd"),
    Call::any(libc::SYS_recvmsg, "requests of the keeper"),
    Call::any(libc::SYS_pread64, "reads the counters of KVM"),
    Call::any(libc::SYS_tkill, "stops a CPU for a pause or for the end"),
    Call::any(
        libc::SYS_getpid,
        "stops a CPU, in builds with another C library",
    ),
    Call::any(
        libc::SYS_tgkill,
        "stops a CPU, in builds with another C library",
    ),
    Call::any(libc::SYS_close, "the end of the machine"),
    DEBUG_CLOSE,
];

pub const CONTROL: Table = Table {
    role: "control",
    calls: &[RUNTIME, SERVE],
};

pub const SAVING_CONTROL: Table = Table {
    role: "control of a VM that may be saved",
    calls: &[RUNTIME, SERVE, SAVE],
};

pub const FULLY_SAVING_CONTROL: Table = Table {
    role: "control of a VM that may be saved in full",
    calls: &[RUNTIME, SERVE, SAVE, SAVE_IN_FULL],
};

/// The only thread of a process that merges saved states. It has its descriptors before.
pub const MERGE: Table = Table {
    role: "merge",
    calls: &[
        RUNTIME,
        &[
            Call::any(libc::SYS_read, "the state of a link"),
            Call::any(libc::SYS_pread64, "the pages of a link"),
            Call::any(libc::SYS_pwrite64, "the pages of the result"),
            Call::any(libc::SYS_lseek, "finds the parts of the base with data"),
            Call::any(libc::SYS_fstat, "the size of a memory file"),
            Call::checked(
                libc::SYS_statx,
                &[Check::Is(2, libc::AT_EMPTY_PATH as u32)],
                "the size of a memory file",
            ),
            Call::checked(
                libc::SYS_fallocate,
                &[Check::Is(
                    1,
                    (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32,
                )],
                "a page of zeros becomes a hole",
            ),
            Call::any(libc::SYS_close, "the end of the merge"),
            DEBUG_CLOSE,
        ],
    ],
};

/// The filter of a merge, compiled with this program.
pub static MERGE_FILTER: Filter = const { MERGE.compile() };

/// The filters of the threads of a VM, by their role.
#[derive(Clone, Copy)]
pub struct Filters {
    pub vcpu: &'static Filter,
    pub devices: &'static Filter,
    pub control: &'static Filter,
    /// For the control of a VM that may be saved.
    pub saving_control: &'static Filter,
    /// For the control of a VM that may be saved in full.
    pub fully_saving_control: &'static Filter,
}

/// The filters, compiled with this program.
pub static FILTERS: Filters = Filters {
    vcpu: &const { VCPU.compile() },
    devices: &const { DEVICES.compile() },
    control: &const { CONTROL.compile() },
    saving_control: &const { SAVING_CONTROL.compile() },
    fully_saving_control: &const { FULLY_SAVING_CONTROL.compile() },
};

/// Installs a filter for this thread. The VM ends if that fails.
pub fn install(filter: &Filter) -> Result<(), Ended> {
    filter
        .install()
        .map_err(|error| host_failed("a filter of system calls", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_a_reason_and_no_thread_may_open_a_file_or_a_socket() {
        for table in [VCPU, DEVICES, FULLY_SAVING_CONTROL, MERGE] {
            for rule in table.calls.iter().copied().flatten() {
                assert!(!rule.reason.is_empty(), "{} {}", table.role, rule.number);
                let refused = [
                    libc::SYS_open,
                    libc::SYS_openat,
                    libc::SYS_socket,
                    libc::SYS_connect,
                    libc::SYS_execve,
                    libc::SYS_execveat,
                    libc::SYS_clone,
                    libc::SYS_clone3,
                    libc::SYS_fork,
                    libc::SYS_ptrace,
                ];
                assert!(
                    !refused.contains(&rule.number),
                    "{} {}",
                    table.role,
                    rule.number
                );
            }
        }
    }

    #[test]
    fn code_and_requests_are_checked_wherever_they_are_allowed() {
        for table in [VCPU, DEVICES, FULLY_SAVING_CONTROL, MERGE] {
            for rule in table.calls.iter().copied().flatten() {
                let needs_check = [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_ioctl];
                if needs_check.contains(&rule.number) {
                    assert!(!rule.checks.is_empty(), "{} {}", table.role, rule.number);
                }
            }
        }
    }
}
