//! The rows about filters of calls.

use super::{callers, run_probe};

/// Each forbidden attempt, and the number of its call.
const FORBIDDEN: [(&str, libc::c_long); 4] = [
    ("socket", libc::SYS_socket),
    ("open", libc::SYS_open),
    ("request", libc::SYS_ioctl),
    ("code", libc::SYS_mmap),
];

pub fn a_forbidden_call_ends_the_process_and_is_named() {
    for (attempt, number) in FORBIDDEN {
        let output = run_probe(callers()[0], &["filter", attempt]);
        let line = format!(
            "{{\"event\":\"ended\",\"reason\":{{\"kind\":\"forbiddenCall\",\"text\":\"system call {number}\"}}}}\n"
        );
        let said = String::from_utf8_lossy(&output.stdout);
        // The library may open a file by a newer call.
        let newer = line.replace(&number.to_string(), &libc::SYS_openat.to_string());
        assert!(
            said == line || (attempt == "open" && said == newer),
            "{attempt}: {said}"
        );
        assert_eq!(output.status.code(), Some(1), "{attempt}");
    }
}

pub fn allowed_calls_and_requests_pass() {
    for caller in callers() {
        let output = run_probe(*caller, &["filter", "allowed"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

pub fn the_runtime_has_its_heap_its_clock_its_messages_and_its_handlers() {
    let output = run_probe(callers()[0], &["filter", "runtime"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
