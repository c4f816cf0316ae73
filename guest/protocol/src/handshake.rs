//! The frames before a session: `Waiting` and `Start` of a guest that can begin as a copy, then `Hello`, `Ping`, `Pong`.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::frame::{self, Frame, FrameError, FrameType};

/// Bytes of a session key.
pub const KEY_BYTES: usize = 32;
/// Flag bit 0 of `Ping` and `Pong`: many concurrent requests. Both sides require it.
pub const FLAG_MULTIPLEX: u8 = 1;
/// Flag bit 1: in `Ping` the keeper has given the guest a mailbox, in `Pong` the agent has found it.
pub const FLAG_MAILBOX: u8 = 2;
/// Flag bit 2: in `Ping` the keeper provides a door for this guest, in `Pong` the agent can use one. Unless both set
/// it, the guest opens no streams.
pub const FLAG_DOOR: u8 = 4;
/// Flag bit 3: in `Ping` the keeper sends bytes of tunnels through the mailbox, in `Pong` the agent accepts them there.
/// Both require a mailbox and a door.
pub const FLAG_DOOR_MAIL: u8 = 8;
/// Flag bit 4: in `Ping` the keeper may set the guest's clock, in `Pong` the agent can do so. Unless both set it, no
/// `Clock` is sent.
pub const FLAG_CLOCK: u8 = 16;
/// Flag bit 5: in `Ping` the keeper may freeze the guest's scratch disk, in `Pong` the agent can do so. Unless both set
/// it, no `DiskFreeze` is sent.
pub const FLAG_DISK: u8 = 32;
/// Flag bit 6: in `Ping` the keeper may end the session without the guest's end, in `Pong` the agent can do so. Unless
/// both set it, no `Rest` is sent.
pub const FLAG_REST: u8 = 64;

/// The reason why a handshake frame is rejected. Each of them ends the connection.
#[derive(Debug, Error)]
pub enum HandshakeError {
    #[error("expected {expected:?}, got {got:?}")]
    Unexpected { expected: FrameType, got: FrameType },
    #[error("{frame_type:?} has {length} bytes, expected {expected}")]
    Length {
        frame_type: FrameType,
        length: usize,
        expected: usize,
    },
    #[error("a frame before the session does not parse: {0}")]
    Json(#[from] serde_json::Error),
    #[error(
        "the keeper speaks protocol {keeper}, the guest agent {guest}; build both from one version"
    )]
    Version { keeper: u32, guest: u32 },
    #[error("the peer does not multiplex requests")]
    NoMultiplex,
    #[error("the guest does not use the door that its keeper offers")]
    NoDoor,
    #[error("the session key differs from the first one that this guest received")]
    WrongKey,
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// The secret that the keeper makes for one VM. A comparison takes the same time for any contents.
#[derive(Clone)]
pub struct SessionKey([u8; KEY_BYTES]);

impl SessionKey {
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl PartialEq for SessionKey {
    fn eq(&self, other: &Self) -> bool {
        let difference = self
            .0
            .iter()
            .zip(&other.0)
            .fold(0u8, |sum, (mine, theirs)| sum | (mine ^ theirs));
        std::hint::black_box(difference) == 0
    }
}

impl Eq for SessionKey {}

impl fmt::Debug for SessionKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SessionKey(..)")
    }
}

/// The agent's message before `Hello` if the kernel's command line has `voidbox.wait=1`: the guest has neither disks nor
/// a session yet, so its keeper may copy the VM. The agent then waits for `Start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    pub protocol: u32,
}

/// The keeper's answer to `Waiting`: what makes this guest a machine of its own. A copy gets it too, and its `Waiting`
/// was that of the guest from which it was copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    pub clock_unix_ms: u64,
    /// Random bytes as hex digits, at most 256 bytes. The guest's kernel derives all later random numbers from them.
    pub entropy: String,
    /// The size of the scratch disk, which can differ from the disk that the kernel found.
    pub scratch_bytes: u64,
    /// The device of the scratch disk, as in `voidbox.scratch`.
    pub scratch: String,
    /// The device or the serial number of the root disk, as in `voidbox.root`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
}

/// The agent's first message of a session once its port is open, before any user process exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    pub protocol: u32,
    /// The agent's version; the wire carries at most 10 bytes of it.
    pub agent: String,
    /// Milliseconds from the kernel's start to this message.
    pub boot_ms: u64,
}

/// The keeper's answer to `Hello`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    pub key: SessionKey,
    pub version: u32,
    pub flags: u8,
}

/// The agent's answer to `Ping`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pong {
    pub version: u32,
    pub flags: u8,
}

fn expect(frame: &Frame, expected: FrameType) -> Result<(), HandshakeError> {
    if frame.frame_type == expected {
        return Ok(());
    }
    Err(HandshakeError::Unexpected {
        expected,
        got: frame.frame_type,
    })
}

fn fixed<const N: usize>(frame: &Frame) -> Result<[u8; N], HandshakeError> {
    frame
        .payload
        .as_slice()
        .try_into()
        .map_err(|_| HandshakeError::Length {
            frame_type: frame.frame_type,
            length: frame.payload.len(),
            expected: N,
        })
}

impl Waiting {
    pub fn encode(&self) -> Result<Vec<u8>, HandshakeError> {
        Ok(frame::encode(
            FrameType::Waiting,
            &[&serde_json::to_vec(self)?],
        )?)
    }

    pub fn decode(frame: &Frame) -> Result<Self, HandshakeError> {
        expect(frame, FrameType::Waiting)?;
        Ok(serde_json::from_slice(&frame.payload)?)
    }
}

impl Start {
    pub fn encode(&self) -> Result<Vec<u8>, HandshakeError> {
        Ok(frame::encode(
            FrameType::Start,
            &[&serde_json::to_vec(self)?],
        )?)
    }

    pub fn decode(frame: &Frame) -> Result<Self, HandshakeError> {
        expect(frame, FrameType::Start)?;
        Ok(serde_json::from_slice(&frame.payload)?)
    }
}

impl Hello {
    /// Encodes the message. The agent's version is cut so that the frame stays within its limit.
    pub fn encode(&self) -> Result<Vec<u8>, HandshakeError> {
        let short = Hello {
            agent: self.agent.chars().filter(char::is_ascii).take(10).collect(),
            ..self.clone()
        };
        Ok(frame::encode(
            FrameType::Hello,
            &[&serde_json::to_vec(&short)?],
        )?)
    }

    pub fn decode(frame: &Frame) -> Result<Self, HandshakeError> {
        expect(frame, FrameType::Hello)?;
        Ok(serde_json::from_slice(&frame.payload)?)
    }
}

impl Ping {
    pub fn encode(&self) -> Result<Vec<u8>, HandshakeError> {
        Ok(frame::encode(
            FrameType::Ping,
            &[&self.key.0, &self.version.to_le_bytes(), &[self.flags]],
        )?)
    }

    pub fn decode(frame: &Frame) -> Result<Self, HandshakeError> {
        expect(frame, FrameType::Ping)?;
        let bytes: [u8; KEY_BYTES + 5] = fixed(frame)?;
        let mut key = [0u8; KEY_BYTES];
        key.copy_from_slice(&bytes[..KEY_BYTES]);
        let [a, b, c, d, flags] = [bytes[32], bytes[33], bytes[34], bytes[35], bytes[36]];
        Ok(Ping {
            key: SessionKey(key),
            version: u32::from_le_bytes([a, b, c, d]),
            flags,
        })
    }
}

impl Pong {
    pub fn encode(&self) -> Result<Vec<u8>, HandshakeError> {
        Ok(frame::encode(
            FrameType::Pong,
            &[&self.version.to_le_bytes(), &[self.flags]],
        )?)
    }

    pub fn decode(frame: &Frame) -> Result<Self, HandshakeError> {
        expect(frame, FrameType::Pong)?;
        let [a, b, c, d, flags] = fixed(frame)?;
        Ok(Pong {
            version: u32::from_le_bytes([a, b, c, d]),
            flags,
        })
    }
}

/// The agent's side of the key: it accepts the first key, and then only the same one.
#[derive(Debug, Default)]
pub struct SessionGate {
    key: Option<SessionKey>,
}

impl SessionGate {
    /// Checks a `Ping` against this side's version, and against the key of the first `Ping`, which sets the key.
    pub fn admit(&mut self, ping: &Ping, version: u32) -> Result<(), HandshakeError> {
        if ping.version != version {
            return Err(HandshakeError::Version {
                keeper: ping.version,
                guest: version,
            });
        }
        if ping.flags & FLAG_MULTIPLEX == 0 {
            return Err(HandshakeError::NoMultiplex);
        }
        match &self.key {
            Some(key) if *key != ping.key => Err(HandshakeError::WrongKey),
            Some(_) => Ok(()),
            None => {
                self.key = Some(ping.key.clone());
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ping(fill: u8) -> Ping {
        Ping {
            key: SessionKey::new([fill; KEY_BYTES]),
            version: 1,
            flags: FLAG_MULTIPLEX,
        }
    }

    #[test]
    fn the_first_key_is_the_only_key() {
        let mut gate = SessionGate::default();
        gate.admit(&ping(7), 1).unwrap();
        gate.admit(&ping(7), 1).unwrap();
        let refused = gate.admit(&ping(8), 1).unwrap_err();
        assert!(matches!(refused, HandshakeError::WrongKey));
    }

    #[test]
    fn a_refused_ping_does_not_set_the_key() {
        let mut gate = SessionGate::default();
        let refused = gate.admit(&ping(7), 2).unwrap_err().to_string();
        assert!(refused.contains("protocol 1") && refused.contains("agent 2"));
        let plain = Ping {
            flags: 0,
            ..ping(7)
        };
        assert!(matches!(
            gate.admit(&plain, 1),
            Err(HandshakeError::NoMultiplex)
        ));
        gate.admit(&ping(8), 1).unwrap();
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", ping(0x41).key), "SessionKey(..)");
    }

    #[test]
    fn a_long_hello_stays_within_the_handshake_cap() {
        let hello = Hello {
            protocol: u32::MAX,
            agent: "10.20.30-nightly-with-a-long-tail".into(),
            boot_ms: 1 << 32,
        };
        let bytes = hello.encode().unwrap();
        assert!(bytes.len() <= frame::HEADER_BYTES + frame::MAX_HANDSHAKE_BYTES);
    }
}
