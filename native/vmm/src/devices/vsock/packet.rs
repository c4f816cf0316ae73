//! The header of a vsock packet.

use crate::virtio::Buffers;

pub const HEADER_BYTES: u32 = 44;
/// The CID of the VMM.
pub const HOST_CID: u64 = 2;
/// A connection of bytes in order.
pub const STREAM: u16 = 1;

/// Operations.
pub mod op {
    pub const REQUEST: u16 = 1;
    pub const RESPONSE: u16 = 2;
    pub const RESET: u16 = 3;
    pub const SHUTDOWN: u16 = 4;
    pub const DATA: u16 = 5;
    pub const CREDIT_UPDATE: u16 = 6;
    pub const CREDIT_REQUEST: u16 = 7;
}

/// The flags of a shutdown.
pub const NO_MORE_RECEIVED: u32 = 1;
pub const NO_MORE_SENT: u32 = 2;

/// A header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Header {
    pub source_cid: u64,
    pub destination_cid: u64,
    pub source_port: u32,
    pub destination_port: u32,
    /// The bytes of data behind the header.
    pub length: u32,
    pub kind: u16,
    pub op: u16,
    pub flags: u32,
    /// All the room that the sender has for data of this connection.
    pub room: u32,
    /// How many bytes the sender has taken out of its room so far, modulo 2³².
    pub taken: u32,
}

impl Header {
    /// Reads a header from the start of buffers, if they are long enough.
    pub fn read(buffers: &Buffers<'_>) -> Option<Self> {
        let mut bytes = [0; HEADER_BYTES as usize];
        if !buffers.read(0, &mut bytes) {
            return None;
        }
        let mut rest = bytes.as_slice();
        Some(Self {
            source_cid: u64::from_le_bytes(take(&mut rest)),
            destination_cid: u64::from_le_bytes(take(&mut rest)),
            source_port: u32::from_le_bytes(take(&mut rest)),
            destination_port: u32::from_le_bytes(take(&mut rest)),
            length: u32::from_le_bytes(take(&mut rest)),
            kind: u16::from_le_bytes(take(&mut rest)),
            op: u16::from_le_bytes(take(&mut rest)),
            flags: u32::from_le_bytes(take(&mut rest)),
            room: u32::from_le_bytes(take(&mut rest)),
            taken: u32::from_le_bytes(take(&mut rest)),
        })
    }

    pub fn bytes(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(&self.source_cid.to_le_bytes());
        put(&self.destination_cid.to_le_bytes());
        put(&self.source_port.to_le_bytes());
        put(&self.destination_port.to_le_bytes());
        put(&self.length.to_le_bytes());
        put(&self.kind.to_le_bytes());
        put(&self.op.to_le_bytes());
        put(&self.flags.to_le_bytes());
        put(&self.room.to_le_bytes());
        put(&self.taken.to_le_bytes());
        bytes
    }
}

/// Takes bytes off the front; the rest of a header is long enough.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let (now, later) = rest.split_at(N.min(rest.len()));
    bytes[..now.len()].copy_from_slice(now);
    *rest = later;
    bytes
}
