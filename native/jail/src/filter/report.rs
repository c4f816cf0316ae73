//! The last line of a process that made a forbidden call.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

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
}
