//! Filters of calls. After the filter is installed, only plain calls follow: the runtime of Rust needs more of them.

use std::os::fd::AsRawFd;

use voidbox_jail::filter::{Call, Check, Table, report};

const fn call(number: libc::c_long, checks: &'static [Check]) -> Call {
    Call {
        number,
        checks,
        reason: "a test",
    }
}

const CALLS: &[Call] = &[
    call(libc::SYS_write, &[]),
    call(libc::SYS_exit_group, &[]),
    call(libc::SYS_ioctl, &[Check::Is(1, 0xAE80)]),
    call(libc::SYS_ioctl, &[Check::Is(1, 0xAE01)]),
    call(libc::SYS_mmap, &[Check::Without(2, libc::PROT_EXEC as u64)]),
];

/// The arguments are the name of what is tried, and the descriptor for the report.
pub fn try_call(args: &[String]) -> Result<(), String> {
    let out = std::io::stdout().as_raw_fd();
    report(out).map_err(|error| error.to_string())?;
    let table = Table {
        role: "test",
        calls: &[CALLS],
    };
    table
        .compile()
        .install()
        .map_err(|error| error.to_string())?;
    // SAFETY: no call gets a pointer that is used, except the text.
    unsafe {
        match args[0].as_str() {
            // Both requests pass the filter. The descriptor is not one of KVM, so the calls fail.
            "allowed" => {
                let refused = libc::ioctl(out, 0xAE80, 0) + libc::ioctl(out, 0xAE01, 0);
                let page = map(libc::PROT_READ);
                libc::_exit(i32::from(refused != -2 || page == libc::MAP_FAILED));
            }
            "socket" => drop(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0)),
            "open" => drop(libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY)),
            "request" => drop(libc::ioctl(out, 0xAE03, 0)),
            "code" => drop(map(libc::PROT_READ | libc::PROT_EXEC)),
            other => panic!("{other} is unknown"),
        }
        libc::write(out, c"it went on".as_ptr().cast(), 10);
        libc::_exit(0)
    }
}

unsafe fn map(protection: i32) -> *mut libc::c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address that the kernel chooses.
    unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) }
}
