//! Every frame after the handshake, typed: a request id and a message.

use thiserror::Error;

use crate::body::{
    Clock, ClockResponse, Configure, Connect, DiskFreeze, Empty, ErrorBody, ExecFreeze,
    ExecRequest, ExecResponse, ExecSignal, ExecStarted, FileStatResponse, PathRequest,
    ReadFileResponse, StatsResponse, StreamEnd, TarGetResponse, TarPutResponse, WriteFile,
};
use crate::frame::{self, Frame, FrameError, FrameType, MAX_CHUNK_BYTES};
use crate::mailbox::{Mail, MailError, checked_slot};

/// The reason why a frame is not a message, or a message is not a frame. On the receiving side, each error ends the
/// connection.
#[derive(Debug, Error)]
pub enum MessageError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a {0:?} frame has the wrong length")]
    Short(FrameType),
    #[error("a {frame_type:?} frame does not parse: {source}")]
    Json {
        frame_type: FrameType,
        source: serde_json::Error,
    },
    #[error("stream number {0} is unknown")]
    UnknownStream(u8),
    #[error("a chunk of {0} bytes is over the cap of {MAX_CHUNK_BYTES}")]
    ChunkTooLong(usize),
    #[error(transparent)]
    Mail(#[from] MailError),
    #[error("a {0:?} frame after the handshake")]
    Handshake(FrameType),
}

/// A stream of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Stream {
    /// The request's own data: files and tars, in either direction.
    Data = 0,
    Stdout = 1,
    Stderr = 2,
    Stdin = 3,
}

impl TryFrom<u8> for Stream {
    type Error = MessageError;

    fn try_from(number: u8) -> Result<Self, MessageError> {
        match number {
            0 => Ok(Stream::Data),
            1 => Ok(Stream::Stdout),
            2 => Ok(Stream::Stderr),
            3 => Ok(Stream::Stdin),
            other => Err(MessageError::UnknownStream(other)),
        }
    }
}

macro_rules! messages {
    ($($name:ident($body:ty),)+) => {
        /// A message after the handshake. Its variants have the names of the frame types.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Message {
            $($name($body),)+
            /// Output of an exec: [`Stream::Stdout`] or [`Stream::Stderr`] and raw bytes.
            ExecOutput(Stream, Vec<u8>),
            /// Raw bytes of the request's data or of stdin.
            Data(Vec<u8>),
            /// The number of additional bytes that the other side may send on a stream.
            Credit(Stream, u32),
            /// Bytes of the request's data that are in a slot of the sender.
            Mail(Mail),
            /// The receiver has read the bytes of this slot.
            MailTaken(u8),
        }

        impl Message {
            pub fn frame_type(&self) -> FrameType {
                match self {
                    $(Message::$name(_) => FrameType::$name,)+
                    Message::ExecOutput(..) => FrameType::ExecOutput,
                    Message::Data(_) => FrameType::Data,
                    Message::Credit(..) => FrameType::Credit,
                    Message::Mail(_) => FrameType::Mail,
                    Message::MailTaken(_) => FrameType::MailTaken,
                }
            }

            /// Encodes the message with a request's id.
            pub fn encode(&self, request_id: u32) -> Result<Vec<u8>, MessageError> {
                match self {
                    $(Message::$name(body) => {
                        encode_json(FrameType::$name, request_id, body)
                    })+
                    Message::ExecOutput(stream, bytes) => encode_output(request_id, *stream, bytes),
                    Message::Data(bytes) => encode_data(request_id, bytes),
                    Message::Credit(stream, bytes) => Ok(frame::encode(
                        FrameType::Credit,
                        &[
                            &request_id.to_le_bytes(),
                            &[*stream as u8],
                            &bytes.to_le_bytes(),
                        ],
                    )?),
                    Message::Mail(mail) => encode_mail(request_id, *mail),
                    Message::MailTaken(slot) => Ok(frame::encode(
                        FrameType::MailTaken,
                        &[&request_id.to_le_bytes(), &[checked_slot(*slot)?]],
                    )?),
                }
            }

            /// Decodes the request id and the message of a frame.
            pub fn decode(mut frame: Frame) -> Result<(u32, Message), MessageError> {
                let frame_type = frame.frame_type;
                let Some((&id, body)) = frame.payload.split_first_chunk::<4>() else {
                    return Err(match frame_type.is_handshake() {
                        true => MessageError::Handshake(frame_type),
                        false => MessageError::Short(frame_type),
                    });
                };
                let message = match frame_type {
                    $(FrameType::$name => Message::$name(decode_json(frame_type, body)?),)+
                    FrameType::ExecOutput => decode_output(body)?,
                    FrameType::Data => {
                        checked_chunk(body)?;
                        frame.payload.drain(..id.len());
                        Message::Data(frame.payload)
                    }
                    FrameType::Credit => decode_credit(body)?,
                    FrameType::Mail => decode_mail(body)?,
                    FrameType::MailTaken => decode_mail_taken(body)?,
                    FrameType::Waiting
                    | FrameType::Start
                    | FrameType::Hello
                    | FrameType::Ping
                    | FrameType::Pong => {
                        return Err(MessageError::Handshake(frame_type));
                    }
                };
                Ok((u32::from_le_bytes(id), message))
            }
        }
    };
}

messages! {
    ExecRequest(ExecRequest),
    ExecResponse(ExecResponse),
    Shutdown(Empty),
    WriteFile(WriteFile),
    WriteFileResponse(Empty),
    MkdirP(PathRequest),
    MkdirPResponse(Empty),
    ReadFile(PathRequest),
    ReadFileResponse(ReadFileResponse),
    FileStat(PathRequest),
    FileStatResponse(FileStatResponse),
    ExecStarted(ExecStarted),
    StreamEnd(StreamEnd),
    ExecSignal(ExecSignal),
    TarPut(PathRequest),
    TarPutResponse(TarPutResponse),
    TarGet(PathRequest),
    TarGetResponse(TarGetResponse),
    Error(ErrorBody),
    Stats(Empty),
    StatsResponse(StatsResponse),
    Cancel(Empty),
    Configure(Configure),
    Configured(Empty),
    Connect(Connect),
    Connected(Empty),
    ExecFreeze(ExecFreeze),
    ExecFrozen(Empty),
    DiskFreeze(DiskFreeze),
    DiskFrozen(Empty),
    Rest(Empty),
    Resting(Empty),
    Clock(Clock),
    ClockResponse(ClockResponse),
}

fn encode_json(
    frame_type: FrameType,
    request_id: u32,
    body: &impl serde::Serialize,
) -> Result<Vec<u8>, MessageError> {
    let json =
        serde_json::to_vec(body).map_err(|source| MessageError::Json { frame_type, source })?;
    Ok(frame::encode(
        frame_type,
        &[&request_id.to_le_bytes(), &json],
    )?)
}

fn decode_json<T: serde::de::DeserializeOwned>(
    frame_type: FrameType,
    body: &[u8],
) -> Result<T, MessageError> {
    serde_json::from_slice(body).map_err(|source| MessageError::Json { frame_type, source })
}

fn checked_chunk(bytes: &[u8]) -> Result<&[u8], MessageError> {
    if bytes.len() > MAX_CHUNK_BYTES {
        return Err(MessageError::ChunkTooLong(bytes.len()));
    }
    Ok(bytes)
}

/// Encodes a `Data` frame without building a message. At most 64 KiB.
pub fn encode_data(request_id: u32, bytes: &[u8]) -> Result<Vec<u8>, MessageError> {
    let parts = [&request_id.to_le_bytes()[..], checked_chunk(bytes)?];
    Ok(frame::encode(FrameType::Data, &parts)?)
}

/// Encodes an `ExecOutput` frame without building a message. At most 64 KiB.
pub fn encode_output(
    request_id: u32,
    stream: Stream,
    bytes: &[u8],
) -> Result<Vec<u8>, MessageError> {
    if !matches!(stream, Stream::Stdout | Stream::Stderr) {
        return Err(MessageError::UnknownStream(stream as u8));
    }
    let parts = [
        &request_id.to_le_bytes()[..],
        &[stream as u8],
        checked_chunk(bytes)?,
    ];
    Ok(frame::encode(FrameType::ExecOutput, &parts)?)
}

fn decode_output(body: &[u8]) -> Result<Message, MessageError> {
    let Some((&number, bytes)) = body.split_first() else {
        return Err(MessageError::Short(FrameType::ExecOutput));
    };
    match Stream::try_from(number)? {
        stream @ (Stream::Stdout | Stream::Stderr) => {
            Ok(Message::ExecOutput(stream, checked_chunk(bytes)?.to_vec()))
        }
        Stream::Data | Stream::Stdin => Err(MessageError::UnknownStream(number)),
    }
}

fn decode_credit(body: &[u8]) -> Result<Message, MessageError> {
    let [number, a, b, c, d]: [u8; 5] = body
        .try_into()
        .map_err(|_| MessageError::Short(FrameType::Credit))?;
    Ok(Message::Credit(
        Stream::try_from(number)?,
        u32::from_le_bytes([a, b, c, d]),
    ))
}

fn encode_mail(request_id: u32, mail: Mail) -> Result<Vec<u8>, MessageError> {
    let parts = [
        &request_id.to_le_bytes()[..],
        &[mail.slot()],
        &mail.bytes().to_le_bytes(),
    ];
    Ok(frame::encode(FrameType::Mail, &parts)?)
}

fn decode_mail(body: &[u8]) -> Result<Message, MessageError> {
    let [slot, a, b, c, d]: [u8; 5] = body
        .try_into()
        .map_err(|_| MessageError::Short(FrameType::Mail))?;
    let mail = Mail::new(slot, u32::from_le_bytes([a, b, c, d]))?;
    Ok(Message::Mail(mail))
}

fn decode_mail_taken(body: &[u8]) -> Result<Message, MessageError> {
    let [slot]: [u8; 1] = body
        .try_into()
        .map_err(|_| MessageError::Short(FrameType::MailTaken))?;
    Ok(Message::MailTaken(checked_slot(slot)?))
}
