//! Filters of system calls: each thread of a confined process may make only the calls of its role.
//!
//! A table is compiled into a program for the kernel while Rust compiles it, so a broken one breaks the build:
//!
//! ```
//! use voidbox_jail::filter::{Call, Check, Filter, Table};
//! const CALLS: &[Call] = &[Call { number: libc::SYS_read, checks: &[Check::Is(5, 0)], reason: "reads" }];
//! static FILTER: Filter = Table { role: "reader", calls: &[CALLS] }.compile();
//! ```
//!
//! ```compile_fail
//! use voidbox_jail::filter::{Call, Check, Filter, Table};
//! const CALLS: &[Call] = &[Call { number: libc::SYS_read, checks: &[Check::Is(6, 0)], reason: "reads" }];
//! static FILTER: Filter = Table { role: "reader", calls: &[CALLS] }.compile();
//! ```

mod report;
mod runtime;

use std::io;

use libc::sock_filter;

pub use report::report;
pub use runtime::RUNTIME;

/// A condition of an argument, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The lower half of the argument is this value.
    Is(u8, u32),
    /// These bits of the argument are not set.
    Without(u8, u64),
}

/// A call that a role may make. Calls with the same number are alternatives.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    pub number: libc::c_long,
    /// All of them must hold.
    pub checks: &'static [Check],
    /// The reason for which the role needs the call.
    pub reason: &'static str,
}

impl Call {
    /// A call with any arguments.
    pub const fn any(number: libc::c_long, reason: &'static str) -> Self {
        Self::checked(number, &[], reason)
    }

    /// A call whose arguments fulfil all checks.
    pub const fn checked(
        number: libc::c_long,
        checks: &'static [Check],
        reason: &'static str,
    ) -> Self {
        Self {
            number,
            checks,
            reason,
        }
    }
}

/// The calls of a role. Another call is never made: the process ends.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub role: &'static str,
    pub calls: &'static [&'static [Call]],
}

/// A filter that cannot be installed.
#[derive(Debug, thiserror::Error)]
#[error("the filter of the role {role}: {source}")]
pub struct FilterError {
    role: &'static str,
    source: io::Error,
}

/// The most instructions of a program; the kernel would take 4096.
const MAX_INSTRUCTIONS: usize = 256;

/// The program of a table, for the kernel.
#[derive(Clone, Copy)]
pub struct Filter {
    role: &'static str,
    program: [sock_filter; MAX_INSTRUCTIONS],
    length: usize,
}

/// `AUDIT_ARCH_X86_64`: a process of x86-64 may also make calls with the numbers of 32 bits.
const ARCHITECTURE: u32 = 0xC000_003E;
/// Places in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;
const ARGUMENTS: u8 = 6;
/// Numbers from here on belong to x32.
const NUMBERS_END: libc::c_long = 0x4000_0000;

const LOAD: u16 = code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
const EQUAL: u16 = code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
const ANY_BIT: u16 = code(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K);
const RETURN: u16 = code(libc::BPF_RET | libc::BPF_K);

impl Table {
    /// Compiles the table. Panics, which breaks the build of a constant, if a rule has a check of a seventh argument, a
    /// number that no call has, no reason, or if the table has too many rules.
    pub const fn compile(&self) -> Filter {
        self.compile_for(None)
    }

    /// Compiles the table for a test that traces the process: each allowed call stops the thread, and its message is the
    /// place of the rule in the table, counted from `first`.
    pub const fn compile_traced(&self, first: u16) -> Filter {
        self.compile_for(Some(first))
    }

    const fn compile_for(&self, traced_from: Option<u16>) -> Filter {
        let mut count = 0;
        let nothing = instruction(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0);
        let mut filter = Filter {
            role: self.role,
            program: [nothing; MAX_INSTRUCTIONS],
            length: 0,
        };
        filter.push(instruction(LOAD, ARCHITECTURE_AT, 0, 0));
        filter.push(instruction(EQUAL, ARCHITECTURE, 1, 0));
        filter.push(nothing);
        filter.push(instruction(LOAD, NUMBER_AT, 0, 0));
        let mut list = 0;
        while list < self.calls.len() {
            let mut rule = 0;
            while rule < self.calls[list].len() {
                let answer = match traced_from {
                    None => libc::SECCOMP_RET_ALLOW,
                    Some(first) => libc::SECCOMP_RET_TRACE | (first + count) as u32,
                };
                filter.push_call(&self.calls[list][rule], answer);
                rule += 1;
                count += 1;
            }
            list += 1;
        }
        // A trap, so that the process can name the call before it ends; see `report`.
        filter.push(instruction(RETURN, libc::SECCOMP_RET_TRAP, 0, 0));
        filter
    }
}

const fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

impl Filter {
    /// Returns a program without instructions, which no kernel installs: for tests of such a start.
    pub const fn refused(role: &'static str) -> Self {
        Self {
            role,
            program: [instruction(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0); MAX_INSTRUCTIONS],
            length: 0,
        }
    }

    const fn push(&mut self, instruction: sock_filter) {
        assert!(self.length < MAX_INSTRUCTIONS, "a table has too many rules");
        self.program[self.length] = instruction;
        self.length += 1;
    }

    /// Adds the instructions that answer a call. They begin and end with its number in the accumulator.
    const fn push_call(&mut self, call: &Call, answer: u32) {
        assert!(
            call.number >= 0 && call.number < NUMBERS_END,
            "no call has this number"
        );
        assert!(!call.reason.is_empty(), "a rule has no reason");
        let number = low_half(call.number as u64);
        if call.checks.is_empty() {
            self.push(instruction(EQUAL, number, 0, 1));
            self.push(instruction(RETURN, answer, 0, 0));
            return;
        }
        let mut length = 0;
        let mut at = 0;
        while at < call.checks.len() {
            length += check_length(call.checks[at]);
            at += 1;
        }
        assert!(length < u8::MAX - 2, "a rule has too many checks");
        // A call with another number needs no new load of it.
        self.push(instruction(EQUAL, number, 0, length + 2));
        at = 0;
        let mut left = length;
        while at < call.checks.len() {
            left -= check_length(call.checks[at]);
            self.push_check(call.checks[at], left);
            at += 1;
        }
        self.push(instruction(RETURN, answer, 0, 0));
        self.push(instruction(LOAD, NUMBER_AT, 0, 0));
    }

    /// Adds the instructions of a check, which jumps over `left` instructions and the end if it does not hold.
    const fn push_check(&mut self, check: Check, left: u8) {
        let fail = left + 1;
        match check {
            Check::Is(place, value) => {
                self.push(instruction(LOAD, argument(place), 0, 0));
                self.push(instruction(EQUAL, value, 0, fail));
            }
            Check::Without(place, bits) => {
                self.push(instruction(LOAD, argument(place), 0, 0));
                self.push(instruction(ANY_BIT, low_half(bits), fail + 2, 0));
                self.push(instruction(LOAD, argument(place) + 4, 0, 0));
                self.push(instruction(ANY_BIT, low_half(bits >> 32), fail, 0));
            }
        }
    }

    /// Installs the filter for the calling thread and for those that it starts. It cannot be removed, only be completed by
    /// another one. The thread can gain no new rights afterwards.
    pub fn install(&self) -> Result<(), FilterError> {
        let program = libc::sock_fprog {
            len: u16::try_from(self.length).unwrap_or(u16::MAX),
            filter: self.program.as_ptr().cast_mut(),
        };
        // SAFETY: the program is valid and as long as it says, and the kernel only reads it.
        let installed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::syscall(
                    libc::SYS_seccomp,
                    libc::SECCOMP_SET_MODE_FILTER,
                    0,
                    &raw const program,
                ) == 0
        };
        match installed {
            true => Ok(()),
            false => Err(FilterError {
                role: self.role,
                source: io::Error::last_os_error(),
            }),
        }
    }
}

/// Returns the code of an instruction. All of the kernel's have 16 bits.
#[allow(clippy::cast_possible_truncation)]
const fn code(parts: u32) -> u16 {
    assert!(parts <= u16::MAX as u32);
    parts as u16
}

/// Returns the lower 32 bits, which is all that a filter compares at once.
#[allow(clippy::cast_possible_truncation)]
const fn low_half(bits: u64) -> u32 {
    bits as u32
}

/// Returns the number of instructions of a check.
const fn check_length(check: Check) -> u8 {
    match check {
        Check::Is(..) => 2,
        Check::Without(..) => 4,
    }
}

/// Returns the place of the lower half of an argument.
const fn argument(place: u8) -> u32 {
    assert!(place < ARGUMENTS, "a call has six arguments");
    ARGUMENTS_AT + 8 * place as u32
}

#[cfg(test)]
mod tests;
