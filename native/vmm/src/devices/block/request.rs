//! A request to a disk, as the guest writes it.

use crate::guest_memory::GuestMemory;
use crate::virtio::{Buffers, Chain, Failure};

pub const READ: u32 = 0;
pub const WRITE: u32 = 1;
pub const FLUSH: u32 = 4;
pub const SERIAL: u32 = 8;
pub const DISCARD: u32 = 11;
pub const WRITE_ZEROES: u32 = 13;

/// The limit of ranges in a request to discard, and of sectors in one.
pub const MAX_RANGES: u32 = 32;
pub const MAX_RANGE_SECTORS: u32 = 1 << 22;

const HEADER_BYTES: u32 = 16;
const RANGE_BYTES: u32 = 16;

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Done = 0,
    Failed = 1,
    Unsupported = 2,
}

/// Sectors of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub sector: u64,
    pub sectors: u32,
}

/// A request.
pub struct Request<'a> {
    pub kind: u32,
    pub sector: u64,
    /// The data that the disk reads.
    pub output: Data<'a>,
    /// The buffers that the disk fills, without the status.
    pub input: Data<'a>,
    status: Buffers<'a>,
}

/// A part of buffers.
#[derive(Clone, Copy)]
pub struct Data<'a> {
    buffers: Buffers<'a>,
    start: u32,
    length: u32,
}

impl Data<'_> {
    pub fn len(&self) -> u32 {
        self.length
    }

    pub fn read(&self, offset: u32, bytes: &mut [u8]) -> bool {
        self.buffers.read(self.start + offset, bytes)
    }

    pub fn write(&self, offset: u32, bytes: &[u8]) -> bool {
        self.buffers.write(self.start + offset, bytes)
    }

    /// Fills `vectors` with the pieces of memory from `offset` on.
    pub fn vectors(&self, offset: u32, vectors: &mut Vec<libc::iovec>) {
        let length = (self.length - offset) as usize;
        self.buffers.vectors(self.start + offset, length, vectors);
    }
}

impl<'a> Request<'a> {
    /// Reads the header. A chain has at least a header and a byte for the status.
    pub fn read(chain: &'a Chain, memory: &'a GuestMemory) -> Result<Self, Failure> {
        let (output, input) = (chain.readable(memory), chain.writable(memory));
        let mut header = [0; HEADER_BYTES as usize];
        if !output.read(0, &mut header) {
            return Err(Failure::new("a request without a whole header"));
        }
        let Some(length) = input.len().checked_sub(1) else {
            return Err(Failure::new("a request without a place for its status"));
        };
        let [a, b, c, d, _, _, _, _, sector @ ..] = header;
        Ok(Self {
            kind: u32::from_le_bytes([a, b, c, d]),
            sector: u64::from_le_bytes(sector),
            output: Data {
                buffers: output,
                start: HEADER_BYTES,
                length: output.len() - HEADER_BYTES,
            },
            input: Data {
                buffers: input,
                start: 0,
                length,
            },
            status: input,
        })
    }

    /// Writes the status, the last byte of the buffers.
    pub fn answer(&self, status: Status) -> Result<(), Failure> {
        if self.status.write(self.input.length, &[status as u8]) {
            Ok(())
        } else {
            Err(Failure::new("no place for the status"))
        }
    }

    /// Returns the ranges of a request to discard, if they keep to the limits.
    pub fn ranges(&self) -> Option<Vec<Range>> {
        let count = self.output.len() / RANGE_BYTES;
        if self.output.len() % RANGE_BYTES != 0 || !(1..=MAX_RANGES).contains(&count) {
            return None;
        }
        let mut ranges = Vec::new();
        for index in 0..count {
            let mut bytes = [0; RANGE_BYTES as usize];
            if !self.output.read(index * RANGE_BYTES, &mut bytes) {
                return None;
            }
            let [sector @ .., a, b, c, d, _, _, _, _] = bytes;
            let range = Range {
                sector: u64::from_le_bytes(sector),
                sectors: u32::from_le_bytes([a, b, c, d]),
            };
            if range.sectors > MAX_RANGE_SECTORS {
                return None;
            }
            ranges.push(range);
        }
        Some(ranges)
    }
}
