//! The wire protocol between the keeper and the guest agent, for both sides.
//!
//! `frame` has the byte layout and its caps, `decode` turns bytes into frames (blocking, or
//! incremental for an event loop), `message` types every frame after the handshake, `handshake`
//! types the three frames before it, `credit` counts what each stream may still send, `mailbox` has
//! the slots that hold data instead of frames, `system_folders` the folders that reject mounts.
//! `docs/reference/protocol.md` is the prose; `vectors/` pins the bytes.
#![forbid(unsafe_code)]

pub mod body;
pub mod credit;
pub mod decode;
pub mod frame;
pub mod handshake;
pub mod mailbox;
pub mod message;
pub mod system_folders;

/// Version that `Hello`, `Ping` and `Pong` carry; peers of different versions do not talk.
pub const PROTOCOL_VERSION: u32 = 1;

/// Requests that may be open at once on one connection.
pub const MAX_OPEN_REQUESTS: usize = 256;

/// The first id of a tunnel, a stream that the guest opens. Ids below it are the keeper's.
pub const FIRST_TUNNEL_ID: u32 = 1 << 31;

/// Tunnels that may be open at once on one connection, those included of which one side still has to
/// say the last word.
pub const MAX_OPEN_TUNNELS: usize = 128;
