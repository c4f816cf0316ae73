//! Waits for `Start`. Before it, this guest is not a machine of its own yet: its keeper may copy the VM, and start the
//! copies later, with other disks.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use voidbox_protocol::PROTOCOL_VERSION;
use voidbox_protocol::decode::{Phase, ReadError, read_frame};
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
    /// The device or the serial number of the disk with the guest's root.
    pub root: Option<String>,
}

/// Tells the keeper that the guest waits, and returns the disks of its `Start`. All later random numbers, times and
/// blocks of disks are this guest's own.
///
/// A copy may find its connection reset: it belonged to the VM that was copied. `connect` then makes another one, which
/// takes the place of `port`.
pub fn wait_for_start(
    port: &mut File,
    connect: impl FnOnce() -> Result<File, BootError>,
) -> Result<Disks, BootError> {
    say_waiting(port).map_err(|error| BootError::at("waiting for Start", error))?;
    let start = take_start(port, connect)?;
    forget_cached_blocks(Path::new("/sys/block"))
        .map_err(|error| BootError::at("forgetting blocks of disks", error))?;
    let scratch = PathBuf::from(&start.scratch);
    wait_for_size(&scratch, start.scratch_bytes)?;
    Ok(Disks {
        scratch,
        root: start.root,
    })
}

/// Waits for the `Start` of a guest that has disks already, and whose session has ended. A copy connects again, as in
/// [`wait_for_start`]. It has the same disks, so the kernel may keep their blocks.
pub fn wait_at_rest(
    port: &mut File,
    connect: impl FnOnce() -> Result<File, BootError>,
) -> Result<(), BootError> {
    let start = take_start(port, connect)?;
    wait_for_size(Path::new(&start.scratch), start.scratch_bytes)
}

/// Reads `Start`, over another connection if this one was reset, and renews random numbers and the clock by it.
fn take_start(
    port: &mut File,
    connect: impl FnOnce() -> Result<File, BootError>,
) -> Result<Start, BootError> {
    let start = match read_start(&*port) {
        Err(error) if is_of_a_copy(&error) => {
            *port = connect()?;
            // The keeper of a copy knows that its guest waits.
            read_start(&*port)
        }
        other => other,
    };
    let start = start.map_err(|error| BootError::at("waiting for Start", error))?;
    // Nothing draws a random number before this.
    renew_random_numbers(&start)
        .map_err(|error| BootError::at("renewing random numbers", error))?;
    devices::set_clock(start.clock_unix_ms)
        .map_err(|error| BootError::at("setting the clock", error))?;
    Ok(start)
}

/// Whether the connection was reset: during a read, or after the guest was saved between its `Waiting` and the read.
fn is_of_a_copy(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected
    )
}

fn say_waiting(mut port: &File) -> io::Result<()> {
    let waiting = Waiting {
        protocol: PROTOCOL_VERSION,
    };
    port.write_all(&waiting.encode().map_err(io::Error::other)?)
}

/// Reads the keeper's `Start`.
pub fn read_start(mut port: impl Read) -> io::Result<Start> {
    let frame = match read_frame(&mut port, Phase::Handshake) {
        Ok(frame) => frame,
        Err(ReadError::Io(error)) => return Err(error),
        Err(error) => return Err(io::Error::other(error)),
    };
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

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::thread::JoinHandle;

    use super::*;

    fn file(stream: TcpStream) -> File {
        OwnedFd::from(stream).into()
    }

    /// Returns both ends of a connection.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (ours, listener.accept().unwrap().0)
    }

    /// Ends a connection with a reset, once a frame has arrived.
    fn reset_behind_a_frame(mut peer: TcpStream) -> JoinHandle<Waiting> {
        thread::spawn(move || {
            let frame = read_frame(&mut peer, Phase::Handshake).unwrap().unwrap();
            let linger = libc::linger {
                l_onoff: 1,
                l_linger: 0,
            };
            // SAFETY: the kernel reads the structure with its size, during the call.
            let set = unsafe {
                libc::setsockopt(
                    peer.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_LINGER,
                    (&raw const linger).cast(),
                    libc::socklen_t::try_from(size_of::<libc::linger>()).unwrap(),
                )
            };
            assert_eq!(set, 0);
            Waiting::decode(&frame).unwrap()
        })
    }

    /// A `Start` that the guest refuses for its entropy, before it touches the machine.
    fn refused_start() -> Vec<u8> {
        let start = Start {
            clock_unix_ms: 0,
            entropy: "00".into(),
            scratch_bytes: 0,
            scratch: "/dev/vda".into(),
            root: None,
        };
        start.encode().unwrap()
    }

    #[test]
    fn a_copy_connects_again_and_takes_the_start_without_another_waiting() {
        let (ours, peer) = connection();
        let waiting = reset_behind_a_frame(peer);
        let (next, mut keeper) = connection();
        keeper.write_all(&refused_start()).unwrap();
        let mut port = file(ours);
        let Err(error) = wait_for_start(&mut port, || Ok(file(next))) else {
            panic!("its entropy is too short")
        };
        assert!(error.to_string().contains("1 random bytes"), "{error}");
        assert_eq!(waiting.join().unwrap().protocol, PROTOCOL_VERSION);
        drop(port);
        // The guest said nothing on the second connection.
        assert!(read_frame(&mut keeper, Phase::Handshake).unwrap().is_none());
    }

    #[test]
    fn a_guest_that_was_saved_before_its_read_finds_no_connection() {
        let errors = [libc::ECONNRESET, libc::ENOTCONN, libc::EPIPE, libc::EIO];
        let of_copies = errors.map(|code| is_of_a_copy(&io::Error::from_raw_os_error(code)));
        assert_eq!(of_copies, [true, true, false, false]);
    }

    #[test]
    fn a_second_reset_is_an_error() {
        let [(ours, one), (next, other)] = [connection(), connection()];
        let waiting = reset_behind_a_frame(one);
        let mut sender = next.try_clone().unwrap();
        let frame = Waiting {
            protocol: PROTOCOL_VERSION,
        };
        sender.write_all(&frame.encode().unwrap()).unwrap();
        let again = reset_behind_a_frame(other);
        let Err(error) = wait_for_start(&mut file(ours), || Ok(file(next))) else {
            panic!("both connections are reset")
        };
        assert!(error.to_string().contains("waiting for Start"), "{error}");
        waiting.join().unwrap();
        again.join().unwrap();
    }

    #[test]
    fn a_connection_that_ends_is_not_made_again() {
        let (ours, peer) = connection();
        let end = thread::spawn(move || {
            let mut peer = peer;
            read_frame(&mut peer, Phase::Handshake).unwrap();
        });
        let connect = || panic!("the keeper is gone");
        assert!(wait_for_start(&mut file(ours), connect).is_err());
        end.join().unwrap();
    }
}
