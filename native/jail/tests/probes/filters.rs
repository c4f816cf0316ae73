//! Filters of calls. After the filter is installed, only plain calls follow: the runtime of Rust needs more of them.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use voidbox_jail::filter::{Call, Check, RUNTIME, Table, report};

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
    let is_runtime = args[0] == "runtime";
    let pipe = broken_pipe();
    let table = Table {
        role: "test",
        calls: if is_runtime { &[RUNTIME] } else { &[CALLS] },
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
            "runtime" => libc::_exit(i32::from(!use_runtime(pipe))),
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

/// The number of signals that were handled.
static HANDLED: AtomicI32 = AtomicI32::new(0);

extern "C" fn handle(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

/// Returns a pipe without a reader. A write to it is a signal for this process, which needs no further call.
fn broken_pipe() -> i32 {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors, and the handler only adds to a number.
    unsafe {
        libc::pipe(ends.as_mut_ptr());
        libc::close(ends[0]);
        libc::signal(libc::SIGPIPE, handle as *const () as libc::sighandler_t);
    }
    ends[1]
}

/// Makes the calls of an allocator, of a clock without a page of the process, of a message and of a handler.
fn use_runtime(pipe: i32) -> bool {
    const BYTES: usize = 64 << 10;
    // SAFETY: this function makes the mapping of all this memory, and nothing else uses it.
    unsafe {
        let page = map(libc::PROT_READ | libc::PROT_WRITE);
        let page = libc::mremap(page, 4096, BYTES, libc::MREMAP_MAYMOVE);
        if page == libc::MAP_FAILED {
            return false;
        }
        let mut now: libc::timespec = std::mem::zeroed();
        let results = [
            libc::mprotect(page, BYTES, libc::PROT_READ).into(),
            libc::madvise(page, BYTES, libc::MADV_DONTNEED).into(),
            libc::munmap(page, BYTES).into(),
            libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut now),
            libc::writev(2, std::ptr::null(), 0) as libc::c_long,
            // It has no reader.
            libc::write(pipe, c"x".as_ptr().cast(), 1) as libc::c_long + 1,
        ];
        let has_heap = libc::syscall(libc::SYS_brk, 0) > 0;
        results == [0; 6] && has_heap && HANDLED.load(Ordering::SeqCst) == 1
    }
}

unsafe fn map(protection: i32) -> *mut libc::c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address that the kernel chooses.
    unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) }
}
