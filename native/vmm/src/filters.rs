//! The system calls that each thread may make while a guest runs. A guest that takes a thread over gets no more.

use voidbox_jail::filter::{Call, Check, Filter, FilterError, Table};

use crate::ended::{Ended, host_failed};

/// `_IO(KVMIO, 0x80)`.
const KVM_RUN: u32 = 0xAE80;
/// `_IOR(KVMIO, 0x81, struct kvm_regs)`.
const KVM_GET_REGS: u32 = 0x8090_AE81;

/// `_IO(KVMIO, 0xad)`.
const KVM_KVMCLOCK_CTRL: u32 = 0xAEAD;

const NO_CODE: &[Check] = &[Check::Without(2, libc::PROT_EXEC as u64)];

const fn call(number: libc::c_long, reason: &'static str) -> Call {
    checked(number, &[], reason)
}

const fn checked(number: libc::c_long, checks: &'static [Check], reason: &'static str) -> Call {
    Call {
        number,
        checks,
        reason,
    }
}

/// The calls of the runtime in each thread.
const RUNTIME: &[Call] = &[
    call(
        libc::SYS_write,
        "wakes another thread by its eventfd; the line about a forbidden call; messages of a panic",
    ),
    call(libc::SYS_writev, "messages of a panic on standard error"),
    call(
        libc::SYS_futex,
        "locks, and the end of a thread that another one joins",
    ),
    checked(libc::SYS_mmap, NO_CODE, "memory of the allocator"),
    checked(libc::SYS_mprotect, NO_CODE, "memory of the allocator"),
    call(
        libc::SYS_munmap,
        "memory of the allocator, and the stack of a thread that ends",
    ),
    call(libc::SYS_mremap, "a large buffer that grows"),
    call(libc::SYS_madvise, "memory that the allocator gives back"),
    call(libc::SYS_brk, "memory of the allocator"),
    call(
        libc::SYS_clock_gettime,
        "the time, on hosts whose clock cannot be read without a call",
    ),
    call(
        libc::SYS_rt_sigprocmask,
        "the start and the end of a thread, and signals to CPUs",
    ),
    call(
        libc::SYS_rt_sigreturn,
        "the end of the handler of the signal that stops a CPU",
    ),
    call(libc::SYS_sigaltstack, "the end of a thread"),
    call(
        libc::SYS_restart_syscall,
        "a wait that continues after the process was stopped",
    ),
    call(libc::SYS_exit, "the end of a thread"),
    call(libc::SYS_exit_group, "the end of the process"),
];

const DEBUG_CLOSE: Call = checked(
    libc::SYS_fcntl,
    &[Check::Is(1, libc::F_GETFD as u32)],
    "a check before a descriptor is closed, in builds for tests",
);

const VCPU: Table = Table {
    role: "vcpu",
    calls: &[
        RUNTIME,
        &[
            checked(
                libc::SYS_ioctl,
                &[Check::Is(1, KVM_KVMCLOCK_CTRL)],
                "tells the guest's clock about a pause",
            ),
            call(
                libc::SYS_shutdown,
                "closes the guest port when the guest resets its device",
            ),
            checked(libc::SYS_ioctl, &[Check::Is(1, KVM_RUN)], "runs the guest"),
            checked(
                libc::SYS_ioctl,
                &[Check::Is(1, KVM_GET_REGS)],
                "the address of the instruction at which a guest ended",
            ),
        ],
    ],
};

const DEVICES: Table = Table {
    role: "devices",
    calls: &[
        RUNTIME,
        &[
            call(
                libc::SYS_poll,
                "waits for kicks of queues, the guest port and the console",
            ),
            call(libc::SYS_read, "resets an eventfd"),
            call(libc::SYS_readv, "reads the guest port"),
            call(libc::SYS_sendto, "writes the guest port"),
            call(libc::SYS_shutdown, "closes the guest port in one direction"),
            call(libc::SYS_recvfrom, "reads answers of the folder server"),
            call(libc::SYS_preadv, "reads a disk"),
            call(libc::SYS_pwritev, "writes a disk"),
            checked(
                libc::SYS_fallocate,
                &[Check::Is(
                    1,
                    (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32,
                )],
                "discards a part of a disk",
            ),
            call(libc::SYS_getrandom, "random numbers for the guest"),
            call(libc::SYS_close, "the end of the devices"),
            DEBUG_CLOSE,
        ],
    ],
};

/// The calls of a save, of a VM that may be saved.
const SAVE: &[Call] = &[
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8004_AE98)],
        "the MP state of a CPU",
    ),
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, KVM_GET_REGS)],
        "the registers of a CPU",
    ),
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8138_AE83)],
        "the special registers of a CPU",
    ),
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x9000_AEA4)],
        "the XSAVE area of a CPU",
    ),
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8188_AEA6)],
        "the XCRs of a CPU",
    ),
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8080_AEA1)],
        "the debug registers of a CPU",
    ),
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8400_AE8E)],
        "the local APIC of a CPU",
    ),
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0xAEA3)],
        "the speed of the TSC of a CPU",
    ),
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0xC008_AE91)],
        "the features of a CPU",
    ),
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0xC008_AE88)],
        "the MSRs of a CPU",
    ),
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8040_AE9F)],
        "the events of a CPU",
    ),
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8030_AE7C)],
        "the clock of the VM",
    ),
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0x8070_AE9F)],
        "the PIT of the VM",
    ),
    checked(
        libc::SYS_ioctl,
        &[Check::Is(1, 0xC208_AE62)],
        "the interrupt controllers of the VM",
    ),
    call(libc::SYS_pwrite64, "the memory of a saved VM"),
];

/// The calls of the control of each VM.
const SERVE: &[Call] = &[
    call(libc::SYS_poll, "waits for the keeper and the other threads"),
    call(libc::SYS_read, "requests of the keeper, and eventfds"),
    call(libc::SYS_pread64, "reads the counters of KVM"),
    call(libc::SYS_tkill, "stops a CPU for a pause or for the end"),
    call(
        libc::SYS_getpid,
        "stops a CPU, in builds with another C library",
    ),
    call(
        libc::SYS_tgkill,
        "stops a CPU, in builds with another C library",
    ),
    call(libc::SYS_close, "the end of the machine"),
    DEBUG_CLOSE,
];

const CONTROL: Table = Table {
    role: "control",
    calls: &[RUNTIME, SERVE],
};

const SAVING_CONTROL: Table = Table {
    role: "control of a VM that may be saved",
    calls: &[RUNTIME, SERVE, SAVE],
};

/// The filters of all threads, compiled before a guest runs.
pub struct Filters {
    pub vcpu: Filter,
    pub devices: Filter,
    pub control: Filter,
}

impl Filters {
    /// Compiles them for a VM, which may be saved or not.
    pub fn compile(may_save: bool) -> Result<Self, Ended> {
        let compile = |table: Table| table.compile().map_err(fail);
        Ok(Self {
            vcpu: compile(VCPU)?,
            devices: compile(DEVICES)?,
            control: compile(if may_save { SAVING_CONTROL } else { CONTROL })?,
        })
    }
}

/// Installs a filter for this thread. The VM ends if that fails.
pub fn install(filter: &Filter) -> Result<(), Ended> {
    filter.install().map_err(fail)
}

fn fail(error: FilterError) -> Ended {
    host_failed("a filter of system calls", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_a_reason_and_no_thread_may_open_a_file_or_a_socket() {
        for table in [VCPU, DEVICES, SAVING_CONTROL] {
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
        assert!(
            [true, false]
                .into_iter()
                .all(|may_save| Filters::compile(may_save).is_ok())
        );
    }

    #[test]
    fn code_and_requests_are_checked_wherever_they_are_allowed() {
        for table in [VCPU, DEVICES, SAVING_CONTROL] {
            for rule in table.calls.iter().copied().flatten() {
                let needs_check = [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_ioctl];
                if needs_check.contains(&rule.number) {
                    assert!(!rule.checks.is_empty(), "{} {}", table.role, rule.number);
                }
            }
        }
    }
}
