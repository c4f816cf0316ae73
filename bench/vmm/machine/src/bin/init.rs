//! The first program of a guest: it prints a line. Then it loads the modules in `/modules`, in the order of their names. If
//! the guest has a vsock device, it returns each byte that the host sends.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use voidbox_bench_machine::{MARKER, PORT};

/// The time in which the host reads its counters, before the connection changes them.
const SILENCE: Duration = Duration::from_millis(500);

fn main() {
    println!("{MARKER}");
    std::thread::sleep(SILENCE);
    load_modules();
    if let Some(mut host) = connect() {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = host.read(&mut bytes) {
            if host.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
    }
    // A kernel panics when its first program ends.
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn load_modules() {
    let Ok(entries) = fs::read_dir("/modules") else {
        return;
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for file in paths.iter().flat_map(File::open) {
        // A module whose device is missing is not loaded.
        // SAFETY: the descriptor is open, and the parameters are an empty string.
        unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    }
}

fn connect() -> Option<File> {
    // SAFETY: the calls read a structure that lives here, and the descriptor is new.
    unsafe {
        let socket = libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0);
        if socket < 0 {
            return None;
        }
        let owned = OwnedFd::from_raw_fd(socket);
        let mut address: libc::sockaddr_vm = std::mem::zeroed();
        address.svm_family = libc::AF_VSOCK as libc::sa_family_t;
        address.svm_cid = libc::VMADDR_CID_HOST;
        address.svm_port = PORT;
        let size = size_of::<libc::sockaddr_vm>() as libc::socklen_t;
        let answer = libc::connect(socket, (&raw const address).cast(), size);
        (answer == 0).then(|| File::from(owned))
    }
}
