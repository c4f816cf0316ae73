//! The virtio-serial port to the keeper.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::boot::boot_error::BootError;

/// The name that the keeper gives the port.
const PORT_NAME: &str = "voidbox.agent";
/// The keeper opens its end before the VMM's start. So a port without a peer for this long means that the keeper is
/// dead, and a guest without a keeper must not live on.
const PEER_WAIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// Waits for the port, and for the keeper on its other end.
pub fn open(wait: Duration) -> Result<File, BootError> {
    let since = Instant::now();
    let path = loop {
        if let Some(path) = find(Path::new("/sys/class/virtio-ports")) {
            break path;
        }
        if since.elapsed() >= wait {
            let missing = io::Error::from(io::ErrorKind::NotFound);
            return Err(BootError::at(
                format!("waiting for the virtio-serial port {PORT_NAME:?}"),
                missing,
            ));
        }
        thread::sleep(PAUSE);
    };
    let failed = |error: io::Error| BootError::at(format!("opening {}", path.display()), error);
    let port = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    wait_for_peer(&port).map_err(failed)?;
    Ok(port)
}

/// Returns the device of the port with the agent's name.
fn find(class: &Path) -> Option<PathBuf> {
    let ports = fs::read_dir(class).ok()?;
    ports.flatten().find_map(|port| {
        let name = fs::read_to_string(port.path().join("name")).ok()?;
        let device = Path::new("/dev").join(port.file_name());
        (name.trim_end() == PORT_NAME && device.exists()).then_some(device)
    })
}

/// Waits for the keeper, and sleeps after each poll: while no keeper is connected, a poll returns at once with a
/// hang-up, half a million times a second.
fn wait_for_peer(port: &File) -> io::Result<()> {
    let since = Instant::now();
    while since.elapsed() < PEER_WAIT {
        let mut fds = [PollFd::new(port, PollFlags::OUT)];
        let second = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&second))?;
        let events = fds[0].revents();
        if events.contains(PollFlags::OUT) && !events.contains(PollFlags::HUP) {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
    Err(io::Error::new(
        io::ErrorKind::NotConnected,
        "the keeper is gone",
    ))
}
