//! The pipes between a VMM and the file of a snapshot. A thread copies, and the keeper serves its clients.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use sha2::{Digest, Sha256};

use super::key::hex;
use super::store::{Making, Record};

const BUFFER_BYTES: usize = 1 << 20;

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    // The kernel limits the size; a smaller pipe is only slower.
    let _ = fcntl_setpipe_size(&write, BUFFER_BYTES);
    Ok((read, write))
}

/// Sends a snapshot to a VMM. Returns the end of the pipe that the VMM inherits.
pub struct Reading;

impl Reading {
    pub fn start(mut file: File, bytes: u64) -> io::Result<OwnedFd> {
        let (read, write) = pipe()?;
        thread::Builder::new()
            .name("restore".into())
            .spawn(move || {
                // If the VMM ends early, the copy ends with an error, and the keeper sees the VMM's end.
                let _ = io::copy(&mut (&mut file).take(bytes), &mut File::from(write));
            })?;
        Ok(read)
    }
}

/// Receives a snapshot from a VMM.
pub struct Writing {
    making: Making,
    copy: JoinHandle<io::Result<(u64, String)>>,
}

impl Writing {
    /// Returns the end of the pipe that the VMM inherits too.
    pub fn start(making: Making) -> io::Result<(Self, OwnedFd)> {
        let (read, write) = pipe()?;
        let file = making.create_state()?;
        let copy = thread::Builder::new()
            .name("snapshot".into())
            .spawn(move || copy_hashed(File::from(read), file))?;
        Ok((Self { making, copy }, write))
    }

    /// Publishes the snapshot after the VMM has reported that it is complete. The thread ends when the snapshot is on the
    /// disk; it returns the reason if there is no snapshot.
    pub fn publish(self, record: Record) -> io::Result<JoinHandle<io::Result<()>>> {
        thread::Builder::new()
            .name("publish".into())
            .spawn(move || {
                let copied = self.copy.join();
                let (bytes, sha256) =
                    copied.map_err(|_| io::Error::other("the copy panicked"))??;
                self.making.publish(Record {
                    state_bytes: bytes,
                    sha256,
                    ..record
                })
            })
    }
}

fn copy_hashed(mut from: File, mut to: File) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = 0;
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
        to.write_all(&buffer[..count])?;
        bytes += count as u64;
    }
    Ok((bytes, hex(&hash.finalize())))
}
