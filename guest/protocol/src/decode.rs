//! Decodes bytes into frames: [`read_frame`] for a blocking reader, [`Decoder`] for an event loop.

use std::io::{self, Read};

use thiserror::Error;

use crate::frame::{Frame, FrameError, FrameType, HEADER_BYTES};

/// The frames that a peer may send in this phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Only `Waiting`, `Start`, `Hello`, `Ping` and `Pong`.
    Handshake,
    /// Everything.
    Session,
}

/// The reason why a reader returned no frame.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the connection ended inside a frame")]
    Truncated,
    #[error("reading a frame: {0}")]
    Io(#[from] io::Error),
}

/// Parses the type and the payload length of a frame, and checks them before memory is allocated.
fn parse_header(
    header: [u8; HEADER_BYTES],
    phase: Phase,
) -> Result<(FrameType, usize), FrameError> {
    let [a, b, c, d, number] = header;
    let frame_type = FrameType::try_from(number)?;
    if phase == Phase::Handshake && !frame_type.is_handshake() {
        return Err(FrameError::BeforeSession(frame_type));
    }
    let cap = frame_type.cap();
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if length > cap {
        return Err(FrameError::TooLong {
            frame_type,
            length,
            cap,
        });
    }
    Ok((frame_type, length))
}

/// Reads the next frame of a blocking reader; `None` if the connection ended between two frames.
pub fn read_frame(reader: &mut impl Read, phase: Phase) -> Result<Option<Frame>, ReadError> {
    let mut header = [0u8; HEADER_BYTES];
    let mut filled = 0;
    while filled < HEADER_BYTES {
        match reader.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(ReadError::Truncated),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let (frame_type, length) = parse_header(header, phase)?;
    let mut payload = Vec::with_capacity(length);
    reader.take(length as u64).read_to_end(&mut payload)?;
    if payload.len() < length {
        return Err(ReadError::Truncated);
    }
    Ok(Some(Frame {
        frame_type,
        payload,
    }))
}

/// Turns the bytes of a connection into frames, however the bytes are split.
///
/// Holds at most one unfinished frame, so its memory is bounded by the largest cap. An error is
/// final: the connection is over and the decoder keeps returning it.
#[derive(Debug)]
pub struct Decoder {
    phase: Phase,
    header: [u8; HEADER_BYTES],
    header_filled: usize,
    body: Option<(FrameType, usize, Vec<u8>)>,
    failed: Option<FrameError>,
}

impl Decoder {
    pub fn new(phase: Phase) -> Self {
        Self {
            phase,
            header: [0; HEADER_BYTES],
            header_filled: 0,
            body: None,
            failed: None,
        }
    }

    /// Accepts every type from the next frame on; call it once the session is set.
    pub fn open_session(&mut self) {
        self.phase = Phase::Session;
    }

    /// Returns true if no part of a frame is held: a connection that ends here ends cleanly.
    pub fn is_between_frames(&self) -> bool {
        self.header_filled == 0
    }

    /// Consumes all of `bytes`, and appends the frames that they complete to `frames`. On an error, `frames` contains
    /// the frames before it.
    pub fn push(&mut self, mut bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), FrameError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        while !bytes.is_empty() {
            bytes = self.take_header(bytes).inspect_err(|error| {
                self.failed = Some(error.clone());
            })?;
            bytes = self.take_payload(bytes, frames);
        }
        Ok(())
    }

    fn take_header<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], FrameError> {
        if self.body.is_some() {
            return Ok(bytes);
        }
        let count = bytes.len().min(HEADER_BYTES - self.header_filled);
        let (head, rest) = bytes.split_at(count);
        self.header[self.header_filled..self.header_filled + count].copy_from_slice(head);
        self.header_filled += count;
        if self.header_filled == HEADER_BYTES {
            let (frame_type, length) = parse_header(self.header, self.phase)?;
            self.body = Some((frame_type, length, Vec::with_capacity(length)));
        }
        Ok(rest)
    }

    fn take_payload<'b>(&mut self, bytes: &'b [u8], frames: &mut Vec<Frame>) -> &'b [u8] {
        let Some((frame_type, length, mut payload)) = self.body.take() else {
            return bytes;
        };
        let count = bytes.len().min(length - payload.len());
        let (head, rest) = bytes.split_at(count);
        payload.extend_from_slice(head);
        if payload.len() == length {
            self.header_filled = 0;
            frames.push(Frame {
                frame_type,
                payload,
            });
        } else {
            self.body = Some((frame_type, length, payload));
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{MAX_CONTROL_BYTES, MAX_DATA_BYTES};

    fn wire() -> (Vec<u8>, Vec<Frame>) {
        let frames: Vec<Frame> = [
            (FrameType::Stats, b"\x07\x00\x00\x00{}".to_vec()),
            (FrameType::Data, b"\x07\x00\x00\x00".to_vec()),
            (FrameType::Data, vec![9; MAX_DATA_BYTES]),
        ]
        .into_iter()
        .map(|(frame_type, payload)| Frame {
            frame_type,
            payload,
        })
        .collect();
        let bytes = frames
            .iter()
            .flat_map(|frame| frame.encode().unwrap())
            .collect();
        (bytes, frames)
    }

    #[test]
    fn frames_come_out_however_the_bytes_are_cut() {
        let (bytes, expected) = wire();
        for size in [1, 2, 3, 5, 7, 4096, bytes.len()] {
            let mut decoder = Decoder::new(Phase::Session);
            let mut frames = Vec::new();
            for piece in bytes.chunks(size) {
                decoder.push(piece, &mut frames).unwrap();
            }
            assert_eq!(frames, expected, "cut every {size} bytes");
            assert!(decoder.is_between_frames());
        }
    }

    #[test]
    fn a_blocking_reader_gives_the_same_frames() {
        let (bytes, expected) = wire();
        let mut reader = bytes.as_slice();
        for frame in expected {
            assert_eq!(
                read_frame(&mut reader, Phase::Session).unwrap(),
                Some(frame)
            );
        }
        assert_eq!(read_frame(&mut reader, Phase::Session).unwrap(), None);
    }

    #[test]
    fn an_empty_payload_completes_with_its_header() {
        let mut decoder = Decoder::new(Phase::Session);
        let mut frames = Vec::new();
        decoder.push(&[0, 0, 0, 0, 43], &mut frames).unwrap();
        // The frame is returned as soon as its last byte has arrived, even if no byte follows.
        assert_eq!(frames.len(), 1);
    }

    #[test]
    fn half_a_frame_is_not_an_end() {
        let (bytes, _) = wire();
        for cut in [1, 4, 5, 9] {
            let mut reader = &bytes[..cut];
            assert!(matches!(
                read_frame(&mut reader, Phase::Session),
                Err(ReadError::Truncated)
            ));
            let mut decoder = Decoder::new(Phase::Session);
            decoder.push(&bytes[..cut], &mut Vec::new()).unwrap();
            assert!(!decoder.is_between_frames());
        }
    }

    #[test]
    fn a_length_over_the_cap_is_refused_from_the_header_alone() {
        for (frame_type, cap) in [
            (FrameType::Ping, 64),
            (FrameType::Data, MAX_DATA_BYTES),
            (FrameType::ExecRequest, MAX_CONTROL_BYTES),
        ] {
            for length in [cap + 1, u32::MAX as usize] {
                let mut header = u32::try_from(length).unwrap().to_le_bytes().to_vec();
                header.push(frame_type as u8);
                let expected = FrameError::TooLong {
                    frame_type,
                    length,
                    cap,
                };
                let mut decoder = Decoder::new(Phase::Session);
                assert_eq!(
                    decoder.push(&header, &mut Vec::new()),
                    Err(expected.clone())
                );
                assert_eq!(decoder.push(b"x", &mut Vec::new()), Err(expected.clone()));
                match read_frame(&mut header.as_slice(), Phase::Session) {
                    Err(ReadError::Frame(error)) => assert_eq!(error, expected),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn before_the_session_only_the_handshake_passes() {
        for frame_type in FrameType::ALL {
            let header = [0, 0, 0, 0, *frame_type as u8];
            let result = Decoder::new(Phase::Handshake).push(&header, &mut Vec::new());
            match frame_type.is_handshake() {
                true => assert_eq!(result, Ok(())),
                false => assert_eq!(result, Err(FrameError::BeforeSession(*frame_type))),
            }
        }
    }

    #[test]
    fn every_other_number_is_an_unknown_type() {
        let known: Vec<u8> = FrameType::ALL.iter().map(|known| *known as u8).collect();
        for number in 0..=u8::MAX {
            if !known.contains(&number) {
                let mut decoder = Decoder::new(Phase::Session);
                assert_eq!(
                    decoder.push(&[0, 0, 0, 0, number], &mut Vec::new()),
                    Err(FrameError::UnknownType(number))
                );
            }
        }
    }

    #[test]
    fn frames_before_a_broken_one_are_kept() {
        let (mut bytes, expected) = wire();
        bytes.extend_from_slice(&[0, 0, 0, 0, 255]);
        let mut frames = Vec::new();
        let result = Decoder::new(Phase::Session).push(&bytes, &mut frames);
        assert_eq!(result, Err(FrameError::UnknownType(255)));
        assert_eq!(frames, expected);
    }
}
