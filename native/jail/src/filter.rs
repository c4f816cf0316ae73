//! Filters of system calls: each thread of a confined process may make only the calls of its role.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

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

/// The calls of a role. Another call is never made: the process ends.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub role: &'static str,
    pub calls: &'static [&'static [Call]],
}

/// A filter that cannot be made or installed.
#[derive(Debug, thiserror::Error)]
#[error("the filter of the role {role}: {source}")]
pub struct FilterError {
    role: &'static str,
    source: seccompiler::Error,
}

/// The program of a table, for the kernel.
pub struct Filter {
    role: &'static str,
    program: BpfProgram,
}

impl Table {
    /// Compiles the table.
    pub fn compile(&self) -> Result<Filter, FilterError> {
        let program = self.try_compile().map_err(|source| FilterError {
            role: self.role,
            source,
        })?;
        Ok(Filter {
            role: self.role,
            program,
        })
    }

    fn try_compile(&self) -> Result<BpfProgram, seccompiler::Error> {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        let mut unconditional = Vec::new();
        for call in self.calls.iter().copied().flatten() {
            let of_call = rules.entry(call.number).or_default();
            if call.checks.is_empty() {
                unconditional.push(call.number);
                continue;
            }
            let conditions: Result<Vec<_>, _> = call.checks.iter().map(condition).collect();
            of_call.push(SeccompRule::new(conditions?)?);
        }
        // A call without rules is always allowed.
        for number in unconditional {
            rules.insert(number, Vec::new());
        }
        // A trap, so that the process can name the call before it ends; see `report`.
        let filter = SeccompFilter::new(
            rules,
            SeccompAction::Trap,
            SeccompAction::Allow,
            TargetArch::x86_64,
        )?;
        Ok(filter.try_into()?)
    }
}

fn condition(check: &Check) -> Result<SeccompCondition, seccompiler::Error> {
    let condition = match *check {
        Check::Is(place, value) => SeccompCondition::new(
            place,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::Eq,
            u64::from(value),
        ),
        Check::Without(place, bits) => SeccompCondition::new(
            place,
            SeccompCmpArgLen::Qword,
            SeccompCmpOp::MaskedEq(bits),
            0,
        ),
    };
    Ok(condition?)
}

impl Filter {
    /// Installs the filter for the calling thread and for those that it starts. It cannot be removed, only be completed by
    /// another one.
    pub fn install(&self) -> Result<(), FilterError> {
        seccompiler::apply_filter(&self.program).map_err(|source| FilterError {
            role: self.role,
            source,
        })
    }
}

/// The descriptor for the line about a forbidden call.
static REPORT: AtomicI32 = AtomicI32::new(-1);

/// The exit code after a forbidden call.
const FORBIDDEN: libc::c_int = 1;

/// Lets the process end at a call that a filter forbids. Before that, it writes one line of JSON to `fd`, which names the
/// call by its number: an `ended` event of the kind `forbiddenCall`. Each filter must allow `write` and `exit_group`; if
/// one does not, the kernel kills the process without the line.
pub fn report(fd: RawFd) -> std::io::Result<()> {
    REPORT.store(fd, Ordering::Relaxed);
    // SAFETY: the structure is zeroed plain data, and the handler makes only calls that are safe in a handler.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = end_process as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The place of the call's number in `siginfo_t`: after three numbers, padding and an address.
const CALL_OFFSET: usize = 24;

const BEFORE: &[u8] = br#"{"event":"ended","reason":{"kind":"forbiddenCall","text":"system call "#;
const AFTER: &[u8] = b"\"}}\n";

extern "C" fn end_process(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid structure, in which SIGSYS has the call's number.
    let number = unsafe { info.cast::<u8>().add(CALL_OFFSET).cast::<i32>().read() };
    let mut line = [0_u8; 128];
    let length = write_line(number, &mut line);
    // SAFETY: the buffer is longer than `length`; both calls are safe in a handler.
    unsafe {
        libc::write(REPORT.load(Ordering::Relaxed), line.as_ptr().cast(), length);
        libc::_exit(FORBIDDEN)
    }
}

/// Writes the line without any allocation, and returns its length.
fn write_line(number: i32, line: &mut [u8; 128]) -> usize {
    let mut digits = [0_u8; 10];
    let mut rest = number.unsigned_abs();
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let mut length = 0;
    for part in [BEFORE, &digits[first..], AFTER] {
        line[length..length + part.len()].copy_from_slice(part);
        length += part.len();
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_call() {
        for number in [0, 41, i32::MAX] {
            let mut line = [0; 128];
            let length = write_line(number, &mut line);
            let text = std::str::from_utf8(&line[..length]).unwrap();
            let expected = format!(
                "{{\"event\":\"ended\",\"reason\":{{\"kind\":\"forbiddenCall\",\"text\":\"system call {number}\"}}}}\n"
            );
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn a_check_of_an_argument_that_no_call_has_is_refused() {
        const WRONG: Call = Call {
            number: libc::SYS_read,
            checks: &[Check::Is(6, 0)],
            reason: "a call has six arguments",
        };
        let table = Table {
            role: "wrong",
            calls: &[&[WRONG]],
        };
        let error = table.compile().err().unwrap().to_string();
        assert!(
            error.starts_with("the filter of the role wrong: "),
            "{error}"
        );
    }
}
