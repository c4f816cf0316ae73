//! The wire protocol between the keeper and the guest agent, for both sides.
//!
//! `frame` has the byte layout and its limits. `decode` turns bytes into frames, blocking or incrementally for an event
//! loop. `message` types every frame after the handshake, and `handshake` types the three frames before it. `credit`
//! counts how much each stream may still send. `mailbox` has the slots that hold data instead of frames, and
//! `system_folders` lists the folders that reject mounts. `docs/reference/protocol.md` describes the protocol; `vectors/` pins
//! the bytes.
#![forbid(unsafe_code)]

pub mod body;
pub mod credit;
pub mod decode;
pub mod frame;
pub mod handshake;
pub mod mailbox;
pub mod message;
pub mod system_folders;

/// The version in `Hello`, `Ping` and `Pong`; peers of different versions refuse each other.
pub const PROTOCOL_VERSION: u32 = 1;

/// The limit of open requests on one connection.
pub const MAX_OPEN_REQUESTS: usize = 256;

/// The first id of a tunnel, a stream that the guest opens. Lower ids belong to the keeper.
pub const FIRST_TUNNEL_ID: u32 = 1 << 31;

/// The limit of open tunnels on one connection, including tunnels for which one side still has to send its last
/// message.
pub const MAX_OPEN_TUNNELS: usize = 128;
