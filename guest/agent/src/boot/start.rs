//! Waits for `Start`. Before it, this guest is not a machine of its own yet: its keeper may copy the VM, and start the
//! copies later, with other disks.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use voidbox_protocol::PROTOCOL_VERSION;
use voidbox_protocol::decode::{Phase, read_frame};
use voidbox_protocol::handshake::{Start, Waiting};

use super::boot_error::BootError;
use super::devices;
use super::mounts::DEVICE_WAIT;
use crate::hex;

/// `BLKFLSBUF` of `<linux/fs.h>`: `_IO(0x12, 97)`.
const BLKFLSBUF: u32 = 0x1261;
const SECTOR_BYTES: u64 = 512;
/// The least random bytes that make a guest differ from its copies.
const MIN_ENTROPY_BYTES: usize = 32;

/// The disks of this guest, from the command line or from `Start`.
pub struct Disks {
    pub scratch: PathBuf,
    /// The serial number of the disk with the guest's root.
    pub root: Option<String>,
}

/// Tells the keeper that the guest waits, and returns the disks of its `Start`. All later random numbers, times and
/// blocks of disks are this guest's own.
pub fn wait_for_start(port: &File) -> Result<Disks, BootError> {
    let start = exchange(port).map_err(|error| BootError::at("waiting for Start", error))?;
    // Nothing draws a random number before this.
    renew_random_numbers(&start)
        .map_err(|error| BootError::at("renewing random numbers", error))?;
    devices::set_clock(start.clock_unix_ms)
        .map_err(|error| BootError::at("setting the clock", error))?;
    forget_cached_blocks(Path::new("/sys/block"))
        .map_err(|error| BootError::at("forgetting blocks of disks", error))?;
    let scratch = PathBuf::from(&start.scratch);
    wait_for_size(&scratch, start.scratch_bytes)?;
    Ok(Disks {
        scratch,
        root: start.root,
    })
}

fn exchange(mut port: &File) -> io::Result<Start> {
    let waiting = Waiting {
        protocol: PROTOCOL_VERSION,
    };
    port.write_all(&waiting.encode().map_err(io::Error::other)?)?;
    let frame = read_frame(&mut port, Phase::Handshake).map_err(io::Error::other)?;
    let frame = frame.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    Start::decode(&frame).map_err(io::Error::other)
}

fn renew_random_numbers(start: &Start) -> io::Result<()> {
    let entropy = hex::parse(&start.entropy, devices::MAX_ENTROPY_BYTES)
        .ok_or_else(|| io::Error::other("the random bytes are not hex"))?;
    if entropy.len() < MIN_ENTROPY_BYTES {
        return Err(io::Error::other(format!(
            "{} random bytes, expected {MIN_ENTROPY_BYTES} or more",
            entropy.len()
        )));
    }
    devices::reseed(&entropy)
}

/// Drops the blocks that the kernel read when it found the disks, because a copy has other disks.
fn forget_cached_blocks(class: &Path) -> io::Result<()> {
    for disk in fs::read_dir(class)? {
        let device = File::open(Path::new("/dev").join(disk?.file_name()))?;
        // SAFETY: the request has no argument.
        if unsafe { libc::ioctl(device.as_raw_fd(), BLKFLSBUF as libc::Ioctl) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Waits until the kernel knows the size of the disk, which the VMM reports by an interrupt.
fn wait_for_size(device: &Path, bytes: u64) -> Result<(), BootError> {
    let name = device.file_name().unwrap_or_default();
    let file = Path::new("/sys/block").join(name).join("size");
    let since = Instant::now();
    loop {
        let sectors = fs::read_to_string(&file)
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok());
        if sectors == Some(bytes / SECTOR_BYTES) {
            return Ok(());
        }
        if since.elapsed() > DEVICE_WAIT {
            let found =
                sectors.map_or_else(|| "no size".into(), |count| format!("{count} sectors"));
            let message = format!("{found}, expected {}", bytes / SECTOR_BYTES);
            return Err(BootError::at(
                format!("waiting for the size of {}", device.display()),
                io::Error::other(message),
            ));
        }
        thread::sleep(Duration::from_millis(1));
    }
}
