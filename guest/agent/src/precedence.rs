//! Which threads of the agent the kernel's scheduler runs before programs.

/// A thread with a higher one runs before a thread with a lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// One among the programs.
    None = 0,
    /// Reads the outputs of a program.
    Reader = 1,
    /// Writes to the connection. A reader waits for the lock of the writer's queue. If the reader could interrupt the
    /// holder of that lock, a program would run before both.
    Writer = 2,
}

/// For the calling thread; its children start without precedence. A kernel that refuses changes nothing. Raw, since not
/// every C library makes this call.
pub fn take_precedence(precedence: Precedence) {
    const RESET_ON_FORK: i32 = 0x4000_0000;
    let policy = match precedence {
        Precedence::None => libc::SCHED_OTHER,
        Precedence::Reader | Precedence::Writer => libc::SCHED_FIFO,
    };
    let priority = precedence as i32;
    // SAFETY: the call reads the one number that it gets the address of.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            policy | RESET_ON_FORK,
            &raw const priority,
        );
    }
}
