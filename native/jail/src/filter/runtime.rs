//! The calls of Rust, of its allocator and of the C library.

use super::{Call, Check};

const NO_CODE: &[Check] = &[Check::Without(2, libc::PROT_EXEC as u64)];

/// The calls of the runtime in each thread.
pub const RUNTIME: &[Call] = &[
    Call::any(
        libc::SYS_write,
        "wakes another thread by its eventfd; the line about a forbidden call; messages of a panic",
    ),
    Call::any(libc::SYS_writev, "messages of a panic on standard error"),
    Call::any(
        libc::SYS_futex,
        "locks, and the end of a thread that another one joins",
    ),
    Call::checked(libc::SYS_mmap, NO_CODE, "memory of the allocator"),
    Call::checked(libc::SYS_mprotect, NO_CODE, "memory of the allocator"),
    Call::any(
        libc::SYS_munmap,
        "memory of the allocator, and the stack of a thread that ends",
    ),
    Call::any(libc::SYS_mremap, "a large buffer that grows"),
    Call::any(libc::SYS_madvise, "memory that the allocator gives back"),
    Call::any(libc::SYS_brk, "memory of the allocator"),
    Call::any(
        libc::SYS_clock_gettime,
        "the time, on hosts whose clock cannot be read without a call",
    ),
    Call::any(
        libc::SYS_rt_sigprocmask,
        "the start and the end of a thread, and signals to CPUs",
    ),
    Call::any(
        libc::SYS_rt_sigreturn,
        "the end of the handler of the signal that stops a CPU",
    ),
    Call::any(libc::SYS_sigaltstack, "the end of a thread"),
    Call::any(
        libc::SYS_restart_syscall,
        "a wait that continues after the process was stopped",
    ),
    Call::any(libc::SYS_exit, "the end of a thread"),
    Call::any(libc::SYS_exit_group, "the end of the process"),
];
