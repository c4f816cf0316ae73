//! The byte layout of one frame: `u32 length (LE) | u8 type | payload`.

use thiserror::Error;

/// Bytes before the payload: the length and the type.
pub const HEADER_BYTES: usize = 5;
/// The limit of a handshake payload (`Waiting`, `Hello`, `Ping`, `Pong`).
pub const MAX_HANDSHAKE_BYTES: usize = 64;
/// The limit of a `Start` payload, which is JSON.
pub const MAX_START_BYTES: usize = 1 << 10;
/// The limit of a control payload: the request id and its JSON.
pub const MAX_CONTROL_BYTES: usize = 1 << 20;
/// The limit of raw bytes in one data frame.
pub const MAX_CHUNK_BYTES: usize = 64 << 10;
/// The limit of a data payload: a chunk and its request id and stream byte.
pub const MAX_DATA_BYTES: usize = MAX_CHUNK_BYTES + 16;

/// The reason why bytes are not a frame. Each of them ends the connection.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum FrameError {
    #[error("frame type {0} is unknown")]
    UnknownType(u8),
    #[error("a frame of type {frame_type:?} has {length} bytes of payload, the cap is {cap}")]
    TooLong {
        frame_type: FrameType,
        length: usize,
        cap: usize,
    },
    #[error("a frame of type {0:?} came before the session was set")]
    BeforeSession(FrameType),
}

macro_rules! frame_types {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)+) => {
        /// The type of a frame. Void-Box defines the numbers below 32.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum FrameType { $($(#[$doc])* $name = $number,)+ }

        impl FrameType {
            /// Every type, in the order of its number.
            pub const ALL: &'static [FrameType] = &[$(FrameType::$name,)+];
        }

        impl TryFrom<u8> for FrameType {
            type Error = FrameError;

            fn try_from(number: u8) -> Result<Self, FrameError> {
                match number {
                    $($number => Ok(FrameType::$name),)+
                    other => Err(FrameError::UnknownType(other)),
                }
            }
        }
    };
}

frame_types! {
    ExecRequest = 1,
    ExecResponse = 2,
    Ping = 3,
    Pong = 4,
    Shutdown = 5,
    WriteFile = 11,
    WriteFileResponse = 12,
    MkdirP = 13,
    MkdirPResponse = 14,
    ExecOutput = 15,
    ReadFile = 18,
    ReadFileResponse = 19,
    FileStat = 20,
    FileStatResponse = 21,
    Hello = 32,
    ExecStarted = 33,
    Credit = 34,
    Data = 35,
    StreamEnd = 36,
    ExecSignal = 37,
    TarPut = 38,
    TarPutResponse = 39,
    TarGet = 40,
    TarGetResponse = 41,
    Error = 42,
    Stats = 43,
    StatsResponse = 44,
    Cancel = 45,
    Configure = 46,
    Configured = 47,
    Mail = 48,
    MailTaken = 49,
    Connect = 50,
    Connected = 51,
    ExecFreeze = 52,
    ExecFrozen = 53,
    Clock = 54,
    ClockResponse = 55,
    Waiting = 56,
    Start = 57,
    DiskFreeze = 58,
    DiskFrozen = 59,
    Rest = 60,
    Resting = 61,
}

impl FrameType {
    /// Returns true for the frames before the session, which have no request id.
    pub fn is_handshake(self) -> bool {
        matches!(
            self,
            FrameType::Waiting
                | FrameType::Start
                | FrameType::Hello
                | FrameType::Ping
                | FrameType::Pong
        )
    }

    /// Returns true for frames with raw bytes; senders queue them after every other frame.
    pub fn is_data(self) -> bool {
        matches!(self, FrameType::Data | FrameType::ExecOutput)
    }

    /// Returns the most payload bytes that a frame of this type may have.
    pub fn cap(self) -> usize {
        if self == FrameType::Start {
            MAX_START_BYTES
        } else if self.is_handshake() {
            MAX_HANDSHAKE_BYTES
        } else if self.is_data() {
            MAX_DATA_BYTES
        } else {
            MAX_CONTROL_BYTES
        }
    }
}

/// One frame on the wire: its type and its payload (the request id included).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub frame_type: FrameType,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Returns the frame's bytes on the wire. Fails if the payload exceeds the type's limit.
    pub fn encode(&self) -> Result<Vec<u8>, FrameError> {
        encode(self.frame_type, &[&self.payload])
    }
}

/// Encodes a frame whose payload is the concatenation of `parts`.
pub fn encode(frame_type: FrameType, parts: &[&[u8]]) -> Result<Vec<u8>, FrameError> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let too_long = FrameError::TooLong {
        frame_type,
        length,
        cap: frame_type.cap(),
    };
    if length > frame_type.cap() {
        return Err(too_long);
    }
    let wire_length = u32::try_from(length).map_err(|_| too_long)?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + length);
    bytes.extend_from_slice(&wire_length.to_le_bytes());
    bytes.push(frame_type as u8);
    for part in parts {
        bytes.extend_from_slice(part);
    }
    Ok(bytes)
}
