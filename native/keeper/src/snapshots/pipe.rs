//! The pipes between a VMM and the state in a snapshot. A thread copies, and the keeper serves its clients.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::key::hex;
use super::memory;
use super::store::{Making, Record, check_state_size};

const BUFFER_BYTES: usize = 1 << 20;
/// The time for the rest of a state after the VMM has written it: far below a second, except on a busy machine.
const END_LIMIT: Duration = Duration::from_secs(20);

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    // The kernel limits the size; a smaller pipe is only slower.
    let _ = fcntl_setpipe_size(&write, BUFFER_BYTES);
    Ok((read, write))
}

/// Sends a state to a VMM. Returns the end of the pipe that the VMM inherits.
pub struct Reading;

impl Reading {
    pub fn start(state: Vec<u8>) -> io::Result<OwnedFd> {
        let (read, write) = pipe()?;
        thread::Builder::new()
            .name("restore".into())
            .spawn(move || {
                // If the VMM ends early, the copy ends with an error, and the keeper sees the VMM's end.
                let _ = File::from(write).write_all(&state);
            })?;
        Ok(read)
    }
}

/// Receives a state from a VMM.
pub struct Writing {
    making: Making,
    copied: oneshot::Receiver<io::Result<Copied>>,
}

/// The whole state, as it was copied.
struct Copied {
    bytes: u64,
    sha256: String,
}

impl Writing {
    /// Returns the end of the pipe for the VMM too.
    pub fn start(making: Making) -> io::Result<(Self, OwnedFd)> {
        let (read, write) = pipe()?;
        let file = making.create_state()?;
        let (done, copied) = oneshot::channel();
        thread::Builder::new()
            .name("snapshot".into())
            .spawn(move || {
                // The keeper may have given up on the copy.
                let _ = done.send(copy_hashed(File::from(read), file));
            })?;
        Ok((Self { making, copied }, write))
    }

    /// Waits until the VMM has closed the pipe, so that it can add nothing when its guest runs again.
    pub async fn wait_for_end(self) -> io::Result<Written> {
        let copied = timeout(END_LIMIT, self.copied).await;
        let copied = copied.map_err(|_| io::Error::other("the VMM does not close its pipe"))?;
        Ok(Written {
            making: self.making,
            copied: copied.map_err(io::Error::other)??,
        })
    }
}

/// A snapshot whose state is in its file.
pub struct Written {
    making: Making,
    copied: Copied,
}

impl Written {
    /// Writes the memory, and puts the snapshot into its place. The thread ends when the snapshot is on the disk.
    pub fn publish(self, record: Record, sealed: File) -> io::Result<JoinHandle<io::Result<()>>> {
        let file = self.making.create_memory()?;
        // The VM is not ready yet, so its start can name a full disk.
        memory::reserve(&sealed, record.guest_bytes(), &file)?;
        thread::Builder::new()
            .name("publish".into())
            .spawn(move || {
                let pages = memory::write_file(&sealed, record.guest_bytes(), &file)?;
                self.making.publish(Record {
                    state_bytes: self.copied.bytes,
                    sha256: self.copied.sha256,
                    memory_bytes: pages.bytes,
                    memory_sha256: pages.sha256,
                    ..record
                })
            })
    }
}

fn copy_hashed(mut from: File, mut to: File) -> io::Result<Copied> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = 0;
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        bytes += count as u64;
        // A VMM that never ends its state must not fill the disk.
        check_state_size(bytes)?;
        hash.update(&buffer[..count]);
        to.write_all(&buffer[..count])?;
    }
    Ok(Copied {
        bytes,
        sha256: hex(&hash.finalize()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SnapshotSettings;
    use crate::snapshots::key::{Key, example_parts};
    use crate::snapshots::store::{Lookup, Store};

    fn making(folder: &std::path::Path) -> (Store, Key, Making) {
        let store = Store::open(&SnapshotSettings {
            dir: folder.join("snapshots"),
            max_mib: 1,
        })
        .unwrap();
        let key = Key::new(example_parts());
        let making = store.begin(&key, 0).unwrap().unwrap();
        (store, key, making)
    }

    fn files_of(folder: &std::path::Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder.join("snapshots")).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with(".lock-"))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_vmm_that_keeps_its_end_of_the_pipe_costs_the_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        let (store, key, making) = making(folder.path());
        let (writing, end) = Writing::start(making).unwrap();
        let mut end = File::from(end);
        end.write_all(b"state").unwrap();
        // The guest runs when this returns, so nothing may be published that it could still change.
        let refused = writing.wait_for_end().await.err().unwrap();
        assert!(refused.to_string().contains("does not close its pipe"));
        let _ = end.write_all(b"more");
        assert!(files_of(folder.path()).is_empty());
        assert!(matches!(store.find(&key), Lookup::Absent));
    }

    #[test]
    fn a_vmm_whose_state_does_not_end_is_cut_off_at_the_limit() {
        let (read, write) = pipe().unwrap();
        let sender = thread::spawn(move || {
            let mut write = File::from(write);
            (0..32).any(|_| write.write_all(&[7; BUFFER_BYTES]).is_err())
        });
        let file = tempfile::tempfile().unwrap();
        let error = copy_hashed(File::from(read), file.try_clone().unwrap()).err();
        assert!(sender.join().unwrap(), "the VMM may write more");
        let message = error.unwrap().to_string();
        assert!(
            message.contains("at most 16777216 are allowed"),
            "{message}"
        );
        assert!(file.metadata().unwrap().len() <= 16 << 20);
    }

    #[test]
    fn a_copy_is_whole_with_its_hash_and_a_full_disk_is_its_error() {
        let (read, write) = pipe().unwrap();
        let sender = thread::spawn(move || File::from(write).write_all(&[7; 3 * BUFFER_BYTES + 1]));
        let file = tempfile::tempfile().unwrap();
        let copied = copy_hashed(File::from(read), file.try_clone().unwrap()).unwrap();
        sender.join().unwrap().unwrap();
        assert_eq!(copied.bytes, 3 * BUFFER_BYTES as u64 + 1);
        assert_eq!(file.metadata().unwrap().len(), copied.bytes);
        assert_eq!(
            copied.sha256,
            hex(&Sha256::digest(vec![7; 3 * BUFFER_BYTES + 1]))
        );

        let (read, write) = pipe().unwrap();
        let sender = thread::spawn(move || File::from(write).write_all(&[7; 3 * BUFFER_BYTES]));
        let full = File::options().write(true).open("/dev/full").unwrap();
        let error = copy_hashed(File::from(read), full).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(sender.join().unwrap().is_err(), "the VMM is told at once");
    }
}
