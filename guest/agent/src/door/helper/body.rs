//! Finds the end of a body while its bytes pass.

use std::io::{self, Read, Write};

/// The limit of digits in a chunk's size.
const MAX_SIZE_DIGITS: usize = 16;
/// The limit in bytes of a chunk's size line, or of a line after the last chunk.
const MAX_LINE_BYTES: usize = 8 << 10;
/// The limit of bytes after the last chunk.
const MAX_TRAILER_BYTES: usize = 64 << 10;
const COPY_BYTES: usize = 32 << 10;

/// How a message marks the end of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    None,
    Length(u64),
    Chunked,
    UntilClose,
}

#[derive(Debug)]
enum State {
    /// The remaining bytes.
    Length(u64),
    /// Within a chunk's size line: the size so far, its digits, bytes of the line, and whether the digits have ended.
    Size(u64, usize, usize, bool),
    /// The remaining bytes of a chunk.
    Chunk(u64),
    /// The line end after a chunk.
    ChunkEnd,
    /// After the last chunk: bytes of this line, bytes of the whole trailer.
    Trailer(usize, usize),
    UntilClose,
    Over,
}

/// Tracks one body.
#[derive(Debug)]
pub struct Body(State);

impl Body {
    pub fn new(framing: Framing) -> Self {
        Self(match framing {
            Framing::None | Framing::Length(0) => State::Over,
            Framing::Length(left) => State::Length(left),
            Framing::Chunked => State::Size(0, 0, 0, false),
            Framing::UntilClose => State::UntilClose,
        })
    }

    pub fn is_over(&self) -> bool {
        matches!(self.0, State::Over)
    }

    /// The remaining bytes of a body with a known length.
    pub fn left(&self) -> Option<u64> {
        match self.0 {
            State::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Returns true if the end of the connection is the end of the body.
    pub fn ends_with_connection(&self) -> bool {
        matches!(self.0, State::Over | State::UntilClose)
    }

    /// Returns how many of the bytes belong to the body; fewer than all only at its end.
    pub fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut at = 0;
        while at < bytes.len() && !self.is_over() {
            at += self.step(&bytes[at..])?;
        }
        Ok(at)
    }

    /// Consumes at least one byte.
    fn step(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let some =
            |left: u64| usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (next, taken) = match self.0 {
            State::Length(left) => match left - some(left) as u64 {
                0 => (State::Over, some(left)),
                rest => (State::Length(rest), some(left)),
            },
            State::Chunk(left) => match left - some(left) as u64 {
                0 => (State::ChunkEnd, some(left)),
                rest => (State::Chunk(rest), some(left)),
            },
            State::UntilClose => (State::UntilClose, bytes.len()),
            State::Over => (State::Over, 0),
            State::Size(size, digits, line, over) => {
                (size_step(bytes[0], size, digits, line, over)?, 1)
            }
            State::ChunkEnd => match bytes[0] {
                b'\r' => (State::ChunkEnd, 1),
                b'\n' => (State::Size(0, 0, 0, false), 1),
                _ => return Err(broken("a chunk is longer than its size")),
            },
            State::Trailer(line, all) => (trailer_step(bytes[0], line, all)?, 1),
        };
        self.0 = next;
        Ok(taken)
    }
}

fn size_step(byte: u8, size: u64, digits: usize, line: usize, over: bool) -> io::Result<State> {
    if line >= MAX_LINE_BYTES {
        return Err(broken("the line of a chunk's size is too long"));
    }
    match (byte, char::from(byte).to_digit(16)) {
        (b'\n', _) if digits == 0 => Err(broken("a chunk without a size")),
        (b'\n', _) if size == 0 => Ok(State::Trailer(0, 0)),
        (b'\n', _) => Ok(State::Chunk(size)),
        (_, Some(digit)) if !over => {
            if digits >= MAX_SIZE_DIGITS {
                return Err(broken("the size of a chunk has too many digits"));
            }
            Ok(State::Size(
                size << 4 | u64::from(digit),
                digits + 1,
                line + 1,
                false,
            ))
        }
        (b'\r' | b';' | b' ' | b'\t', _) => Ok(State::Size(size, digits, line + 1, true)),
        _ if over => Ok(State::Size(size, digits, line + 1, true)),
        _ => Err(broken("the size of a chunk is not a number")),
    }
}

fn trailer_step(byte: u8, line: usize, all: usize) -> io::Result<State> {
    if line >= MAX_LINE_BYTES || all >= MAX_TRAILER_BYTES {
        return Err(broken("too many bytes follow the last chunk"));
    }
    Ok(match byte {
        b'\n' if line == 0 => State::Over,
        b'\n' => State::Trailer(0, all + 1),
        b'\r' => State::Trailer(line, all + 1),
        _ => State::Trailer(line + 1, all + 1),
    })
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Passes a body on as it arrives, and holds at most one read. Bytes read beyond the body stay in `ahead`. Returns
/// false if the connection ends before the body.
pub fn pass(
    body: &mut Body,
    ahead: &mut Vec<u8>,
    from: &mut impl Read,
    to: &mut impl Write,
) -> io::Result<bool> {
    let mut buffer = Vec::new();
    while !body.is_over() {
        if ahead.is_empty() {
            buffer.resize(COPY_BYTES, 0);
            let count = match from.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if count == 0 {
                return Ok(body.ends_with_connection());
            }
            let taken = body.take(&buffer[..count])?;
            to.write_all(&buffer[..taken])?;
            ahead.extend_from_slice(&buffer[taken..count]);
        } else {
            let taken = body.take(ahead)?;
            to.write_all(&ahead[..taken])?;
            ahead.drain(..taken);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(
        framing: Framing,
        bytes: &[u8],
        piece: usize,
    ) -> io::Result<(bool, Vec<u8>, Vec<u8>)> {
        let (mut out, mut ahead) = (Vec::new(), Vec::new());
        let mut pieces = Pieces(bytes, piece);
        let whole = pass(&mut Body::new(framing), &mut ahead, &mut pieces, &mut out)?;
        ahead.extend_from_slice(pieces.0);
        Ok((whole, out, ahead))
    }

    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn a_body_ends_where_it_says_however_its_bytes_are_cut() {
        let chunked: &[u8] = b"5;x=\"1\"\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n";
        for (framing, body) in [
            (Framing::None, &b""[..]),
            (Framing::Length(5), b"hello"),
            (Framing::Chunked, chunked),
            (Framing::Chunked, b"0\r\n\r\n"),
        ] {
            for piece in [1, 2, 3, 7, 100] {
                let bytes = [body, b"GET next"].concat();
                let (whole, out, ahead) = passed(framing, &bytes, piece).unwrap();
                assert!(whole);
                assert_eq!((&out[..], &ahead[..]), (body, &b"GET next"[..]));
            }
        }
    }

    #[test]
    fn a_body_that_is_cut_is_not_whole() {
        for (framing, bytes) in [
            (Framing::Length(5), &b"hell"[..]),
            (Framing::Chunked, b"5\r\nhello\r\n"),
            (Framing::Chunked, b"5\r\nhel"),
            (Framing::Chunked, b""),
        ] {
            assert!(!passed(framing, bytes, 3).unwrap().0);
        }
        assert!(passed(Framing::UntilClose, b"any", 2).unwrap().0);
    }

    #[test]
    fn what_is_no_chunk_is_an_error() {
        let long = [b"1;".to_vec(), vec![b'x'; MAX_LINE_BYTES]].concat();
        let trailers = [b"0\r\n".to_vec(), b"a: b\r\n".repeat(MAX_TRAILER_BYTES / 5)].concat();
        for bytes in [
            &b"\r\n"[..],
            b"x\r\n",
            b"5\r\nhelloX",
            b"-1\r\n",
            b"11111111111111111\r\n",
            &long,
            &trailers,
        ] {
            assert!(passed(Framing::Chunked, bytes, 64).is_err());
        }
    }
}
