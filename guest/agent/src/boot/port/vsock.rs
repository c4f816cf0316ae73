//! The vsock connection to the keeper. Its VMM accepts one connection, of this agent.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use crate::boot::boot_error::BootError;

/// `SO_VM_SOCKETS_CONNECT_TIMEOUT` of `<linux/vm_sockets.h>`, a `struct timeval`.
const CONNECT_TIMEOUT: libc::c_int = 6;
/// How long the VMM may take to answer. The kernel's default of 2 s is too short for a busy host.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// Connects to a port of the host.
pub fn open(port: u32, wait: Duration) -> Result<File, BootError> {
    let since = Instant::now();
    loop {
        match connect(port) {
            Ok(connection) => return Ok(connection.into()),
            // The kernel has not found the device yet.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) && since.elapsed() < wait => {
                thread::sleep(PAUSE);
            }
            Err(error) => {
                return Err(BootError::at(
                    format!("connecting to vsock port {port} of the host"),
                    error,
                ));
            }
        }
    }
}

fn connect(port: u32) -> io::Result<OwnedFd> {
    // SAFETY: a plain call. The descriptor is new, and no other value owns it.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        if fd == -1 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let limit = libc::timeval {
        tv_sec: libc::time_t::try_from(ANSWER_WAIT.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_usec: 0,
    };
    let limit_bytes =
        libc::socklen_t::try_from(size_of::<libc::timeval>()).map_err(io::Error::other)?;
    let address_bytes =
        libc::socklen_t::try_from(size_of::<libc::sockaddr_vm>()).map_err(io::Error::other)?;
    let family = libc::sa_family_t::try_from(libc::AF_VSOCK).map_err(io::Error::other)?;
    // SAFETY: sockaddr_vm is plain data for which all-zero is a value. The kernel reads both values, which outlive the
    // calls, with their own sizes.
    let connected = unsafe {
        let mut host: libc::sockaddr_vm = std::mem::zeroed();
        host.svm_family = family;
        host.svm_cid = libc::VMADDR_CID_HOST;
        host.svm_port = port;
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::AF_VSOCK,
            CONNECT_TIMEOUT,
            (&raw const limit).cast(),
            limit_bytes,
        ) == 0
            && libc::connect(socket.as_raw_fd(), (&raw const host).cast(), address_bytes) == 0
    };
    match connected {
        true => Ok(socket),
        false => Err(io::Error::last_os_error()),
    }
}
