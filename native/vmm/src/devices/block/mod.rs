//! A disk: a file of the host, read-only or not.
//!
//! A flush orders writes for the guest. It does not wait for the host's disk: the file lives no longer than its VM, or
//! it is read-only, as with QEMU's `cache=unsafe`.

mod file;
mod request;

use std::fs::File;
use std::io;

use crate::virtio::{Device, Failure, Progress, Rings};

pub use file::{DiskError, DiskFile};
use request::{MAX_RANGE_SECTORS, MAX_RANGES, Request, Status};

const ID: u32 = 2;
const QUEUE_SIZE: u16 = 256;

const SEGMENTS_LIMIT: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 5;
const BLOCK_SIZE: u64 = 1 << 6;
const FLUSH: u64 = 1 << 9;
const DISCARD: u64 = 1 << 13;
const WRITE_ZEROES: u64 = 1 << 14;

/// The limit of data segments in a request: the queue's size without header and status.
const MAX_SEGMENTS: u32 = 254;
/// Ext4 and the host's page cache work in blocks of this size.
const BLOCK_BYTES: u32 = 512;
const DISCARD_ALIGNMENT_SECTORS: u32 = 8;
const CONFIG_BYTES: usize = 60;

/// The device.
pub struct Block {
    name: String,
    serial: [u8; 20],
    file: DiskFile,
    read_only: bool,
    config: [u8; CONFIG_BYTES],
    vectors: Vec<libc::iovec>,
}

// SAFETY: the vectors are only used within a call of `process`; they are empty in between.
unsafe impl Send for Block {}

impl Block {
    /// Makes a disk of a file, whose size is rounded down to sectors.
    pub fn new(file: File, serial: &str, read_only: bool) -> io::Result<Self> {
        let file = DiskFile::new(file)?;
        let mut padded = [0; 20];
        for (to, from) in padded.iter_mut().zip(serial.bytes()) {
            *to = from;
        }
        let mut config = [0; CONFIG_BYTES];
        config[..8].copy_from_slice(&file.sectors().to_le_bytes());
        for (offset, value) in [
            (12, MAX_SEGMENTS),
            (20, BLOCK_BYTES),
            (36, MAX_RANGE_SECTORS),
            (40, MAX_RANGES),
            (44, DISCARD_ALIGNMENT_SECTORS),
            (48, MAX_RANGE_SECTORS),
            (52, MAX_RANGES),
        ] {
            config[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        }
        // Zeroes may be a hole.
        config[56] = 1;
        Ok(Self {
            name: serial.to_owned(),
            serial: padded,
            file,
            read_only,
            config,
            vectors: Vec::with_capacity(crate::virtio::MAX_DESCRIPTORS),
        })
    }
}

impl Device for Block {
    fn name(&self) -> &str {
        &self.name
    }

    fn id(&self) -> u32 {
        ID
    }

    fn queues(&self) -> &'static [u16] {
        &[QUEUE_SIZE]
    }

    fn features(&self) -> u64 {
        let any = SEGMENTS_LIMIT | BLOCK_SIZE | FLUSH;
        if self.read_only {
            any | READ_ONLY
        } else {
            any | DISCARD | WRITE_ZEROES
        }
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    fn reset(&mut self) {}

    fn process(&mut self, queue: usize, rings: &mut Rings<'_>) -> Result<Progress, Failure> {
        let memory = rings.memory;
        for _ in 0..rings.turn(queue) {
            let Some(chain) = rings.next(queue)? else {
                return Ok(Progress::Idle);
            };
            let request = Request::read(chain, memory)?;
            let (status, written) = match self.carry_out(&request) {
                Ok(written) => (Status::Done, written),
                Err(DiskError::NoRoom) => {
                    // The guest does not notice: the same request is carried out once there is room.
                    rings.put_back(queue);
                    return Ok(Progress::NoRoom);
                }
                Err(DiskError::Unsupported) => (Status::Unsupported, 0),
                Err(DiskError::Failed) => (Status::Failed, 0),
            };
            request.answer(status)?;
            rings.complete(queue, written + 1)?;
        }
        Ok(Progress::More)
    }
}

impl Block {
    /// Returns the number of bytes written to the guest.
    fn carry_out(&mut self, request: &Request<'_>) -> Result<u32, DiskError> {
        match request.kind {
            request::READ => self
                .file
                .read(request.sector, request.input, &mut self.vectors),
            request::FLUSH => Ok(0),
            request::SERIAL => {
                let length = request.input.len().min(20);
                let bytes = &self.serial[..length as usize];
                if request.input.write(0, bytes) {
                    Ok(length)
                } else {
                    Err(DiskError::Failed)
                }
            }
            request::WRITE | request::DISCARD | request::WRITE_ZEROES if self.read_only => {
                Err(DiskError::Failed)
            }
            request::WRITE => self
                .file
                .write(request.sector, request.output, &mut self.vectors),
            request::DISCARD | request::WRITE_ZEROES => {
                for range in request.ranges().ok_or(DiskError::Failed)? {
                    self.file.punch(range)?;
                }
                Ok(0)
            }
            _ => Err(DiskError::Unsupported),
        }
    }
}

#[cfg(test)]
mod tests;
