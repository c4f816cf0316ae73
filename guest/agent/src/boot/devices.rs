//! Sets up the clock, the random pool and the loopback.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;

use crate::log;

/// `RNDADDENTROPY` of `<linux/random.h>`: `_IOW('R', 0x03, int[2])`.
const RNDADDENTROPY: u32 = 0x4008_5203;
/// `RNDRESEEDCRNG` of `<linux/random.h>`: `_IO('R', 0x07)`.
const RNDRESEEDCRNG: u32 = 0x5207;
/// `IFF_UP | IFF_RUNNING`, in the width of the field in an interface request.
const LOOPBACK_FLAGS: libc::c_short = 0x41;
/// The limit of random bytes in one call.
pub const MAX_ENTROPY_BYTES: usize = 512;

/// Sets the wall clock, in milliseconds since 1970 UTC.
pub fn set_clock(unix_ms: u64) -> io::Result<()> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let at = libc::timespec {
        tv_sec: i64::try_from(unix_ms / 1000).map_err(invalid)?,
        tv_nsec: libc::c_long::try_from(unix_ms % 1000 * 1_000_000).map_err(invalid)?,
    };
    // SAFETY: `at` is a valid time that outlives the call.
    match unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const at) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[repr(C)]
struct PoolInfo {
    entropy_bits: libc::c_int,
    size_bytes: libc::c_int,
    bytes: [u8; MAX_ENTROPY_BYTES],
}

/// Mixes bytes of the host into the kernel's random pool, and credits every bit of them.
pub fn credit_entropy(bytes: &[u8]) -> io::Result<()> {
    let bytes = &bytes[..bytes.len().min(MAX_ENTROPY_BYTES)];
    let size = libc::c_int::try_from(bytes.len()).unwrap_or(0);
    let mut info = PoolInfo {
        entropy_bits: size * 8,
        size_bytes: size,
        bytes: [0; MAX_ENTROPY_BYTES],
    };
    info.bytes[..bytes.len()].copy_from_slice(bytes);
    let random = OpenOptions::new().write(true).open("/dev/random")?;
    // SAFETY: the kernel reads the two counts and then `size_bytes` bytes, all within `info`.
    let result = unsafe {
        libc::ioctl(
            random.as_raw_fd(),
            RNDADDENTROPY as libc::Ioctl,
            &raw const info,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Replaces the kernel's random numbers: `credit_entropy` takes effect only at the next reseed, which can be a minute away.
pub fn reseed(bytes: &[u8]) -> io::Result<()> {
    credit_entropy(bytes)?;
    let random = OpenOptions::new().write(true).open("/dev/random")?;
    // SAFETY: the request has no argument.
    match unsafe { libc::ioctl(random.as_raw_fd(), RNDRESEEDCRNG as libc::Ioctl) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Brings `lo` up. Without it, a guest works, except for programs that connect to themselves.
pub fn raise_loopback() {
    if let Err(error) = set_loopback_flags() {
        log::line(&format!("loopback: {error}"));
    }
}

fn set_loopback_flags() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind(("0.0.0.0", 0))?;
    // SAFETY: ifreq is plain data for which all-zero is a value. The name is shorter than its field and stays
    // terminated by zero, and the flags are the member that SIOCSIFFLAGS reads.
    let result = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (place, byte) in request.ifr_name.iter_mut().zip(*b"lo") {
            *place = libc::c_char::from_ne_bytes([byte]);
        }
        request.ifr_ifru.ifru_flags = LOOPBACK_FLAGS;
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as libc::Ioctl,
            &raw const request,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
