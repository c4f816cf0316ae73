//! The bytes of a saved VM: fields in a fixed order, behind a header with version, length and checksum.
//!
//! A reader takes each field once, and each count and length within its limit. Whatever does not fit is an error.

use std::fs::File;
use std::io::{self, Read};

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The version of all that is in a state. A change of any field needs another one.
pub const VERSION: u32 = 3;
/// The limit of a state: 32 CPUs need about 1 MiB.
pub const LIMIT_BYTES: usize = 4 << 20;

const MAGIC: [u8; 8] = *b"VBXSTATE";
/// Magic number, version, length of the rest, CRC-32 of the rest.
pub(crate) const HEADER_BYTES: usize = 20;
/// The limit of a text in a state.
const TEXT_LIMIT_BYTES: usize = 1024;

/// A state that is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StateError(pub String);

impl StateError {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Writes the fields of a state.
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub fn new() -> Self {
        Self {
            bytes: vec![0; HEADER_BYTES],
        }
    }

    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn flag(&mut self, value: bool) {
        self.u8(value.into());
    }

    pub fn u16(&mut self, value: u16) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// Writes the number of elements of a list. A list of more than 2^32 is beyond the limit of a state.
    pub fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Writes a list of bytes.
    pub fn list(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes.extend(bytes);
    }

    /// Writes a text, cut to its limit.
    pub fn text(&mut self, text: &str) {
        let mut end = text.len().min(TEXT_LIMIT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.list(&text.as_bytes()[..end]);
    }

    /// Writes a structure of the kernel, byte by byte.
    pub fn structure(&mut self, value: &(impl IntoBytes + Immutable)) {
        self.bytes.extend(value.as_bytes());
    }

    /// Writes the fields that a reader has not read.
    pub fn rest(&mut self, from: Reader<'_>) {
        self.bytes.extend(from.rest);
    }

    /// Returns the whole state.
    pub fn finish(mut self) -> Result<Vec<u8>, StateError> {
        if self.bytes.len() > LIMIT_BYTES {
            return Err(StateError::new(format!(
                "a state of {} bytes; at most {LIMIT_BYTES}",
                self.bytes.len()
            )));
        }
        let (header, rest) = self.bytes.split_at_mut(HEADER_BYTES);
        let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..16].copy_from_slice(&length.to_le_bytes());
        header[16..].copy_from_slice(&crc32(rest).to_le_bytes());
        Ok(self.bytes)
    }
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads the fields of a state in the order in which they were written.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks the header of a whole state.
    pub fn open(state: &'a [u8]) -> Result<Self, StateError> {
        let Some((header, rest)) = state.split_at_checked(HEADER_BYTES) else {
            return Err(StateError::new("a state without its header"));
        };
        if header[..8] != MAGIC {
            return Err(StateError::new("no state of voidbox-vmm"));
        }
        let word = |at: usize| {
            let bytes = header[at..at + 4].try_into().unwrap_or_default();
            u32::from_le_bytes(bytes)
        };
        let (version, length, sum) = (word(8), word(12), word(16));
        if version != VERSION {
            return Err(StateError::new(format!(
                "a state of version {version}; this is {VERSION}"
            )));
        }
        if usize::try_from(length) != Ok(rest.len()) {
            return Err(StateError::new(format!(
                "{} bytes behind the header, expected {length}",
                rest.len()
            )));
        }
        let found = crc32(rest);
        if found != sum {
            return Err(StateError::new(format!(
                "the checksum is {found:#010x}, expected {sum:#010x}"
            )));
        }
        Ok(Self { rest })
    }

    /// Reads fields without a header, for fuzzers and tests of parts.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn of_fields(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], StateError> {
        let Some((taken, rest)) = self.rest.split_at_checked(bytes) else {
            return Err(StateError::new(format!(
                "{} bytes are left, expected {bytes}",
                self.rest.len()
            )));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let mut number = [0; N];
        number.copy_from_slice(self.take(N)?);
        Ok(number)
    }

    pub fn u8(&mut self) -> Result<u8, StateError> {
        self.number().map(u8::from_le_bytes)
    }

    pub fn flag(&mut self) -> Result<bool, StateError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(StateError::new(format!("a flag of {other}"))),
        }
    }

    pub fn u16(&mut self) -> Result<u16, StateError> {
        self.number().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, StateError> {
        self.number().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, StateError> {
        self.number().map(u64::from_le_bytes)
    }

    /// Reads the number of elements of a list; `what` names it in the error.
    pub fn count(&mut self, limit: usize, what: &str) -> Result<usize, StateError> {
        let count = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        if count > limit {
            return Err(StateError::new(format!("{count} {what}; at most {limit}")));
        }
        Ok(count)
    }

    /// Reads a list of bytes.
    pub fn list(&mut self, limit: usize, what: &str) -> Result<&'a [u8], StateError> {
        let count = self.count(limit, what)?;
        self.take(count)
    }

    pub fn text(&mut self) -> Result<String, StateError> {
        let bytes = self.list(TEXT_LIMIT_BYTES, "bytes of a text")?;
        String::from_utf8(bytes.to_vec()).map_err(|_| StateError::new("a text that is no UTF-8"))
    }

    /// Reads a structure of the kernel.
    pub fn structure<T: FromBytes>(&mut self) -> Result<T, StateError> {
        let bytes = self.take(size_of::<T>())?;
        // The length is right, and the bytes need no alignment.
        T::read_from_bytes(bytes).map_err(|_| StateError::new("a structure of another size"))
    }

    /// Fails unless all fields were read.
    pub fn end(self) -> Result<(), StateError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(StateError::new(format!("{left} bytes behind the end"))),
        }
    }
}

/// Reads a whole state from a file or a pipe.
pub fn read_all(file: File) -> io::Result<Vec<u8>> {
    let mut state = Vec::new();
    file.take(LIMIT_BYTES as u64 + 1).read_to_end(&mut state)?;
    if state.len() > LIMIT_BYTES {
        return Err(io::Error::other(format!(
            "more than {LIMIT_BYTES} bytes of a state"
        )));
    }
    Ok(state)
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    let mut index = 0;
    while index < table.len() {
        let mut value: u32 = byte;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 {
                value >> 1 ^ 0xedb8_8320
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[index] = value;
        byte += 1;
        index += 1;
    }
    table
};

/// The CRC-32 of Ethernet and zip, of bytes that come in parts.
pub struct Crc32(u32);

impl Crc32 {
    pub fn new() -> Self {
        Self(u32::MAX)
    }

    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| {
            let [low, ..] = sum.to_le_bytes();
            sum >> 8 ^ CRC_TABLE[usize::from(low ^ byte)]
        });
    }

    pub fn value(&self) -> u32 {
        !self.0
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = Crc32::new();
    sum.add(bytes);
    sum.value()
}

#[cfg(test)]
mod tests {
    use kvm_bindings::kvm_regs;

    use super::*;

    fn example() -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(1);
        writer.flag(true);
        writer.u16(2);
        writer.u32(3);
        writer.u64(4);
        writer.text("five");
        writer.structure(&kvm_regs {
            rip: 6,
            ..Default::default()
        });
        writer.finish().unwrap()
    }

    fn read(state: &[u8]) -> Result<kvm_regs, StateError> {
        let mut reader = Reader::open(state)?;
        assert_eq!((reader.u8()?, reader.flag()?), (1, true));
        assert_eq!((reader.u16()?, reader.u32()?, reader.u64()?), (2, 3, 4));
        assert_eq!(reader.text()?, "five");
        let regs = reader.structure()?;
        reader.end()?;
        Ok(regs)
    }

    #[test]
    fn fields_are_read_as_they_were_written() {
        assert_eq!(read(&example()).unwrap().rip, 6);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_state_with_any_changed_byte_or_another_length_is_refused() {
        let state = example();
        for at in 0..state.len() {
            let mut changed = state.clone();
            changed[at] ^= 1;
            assert!(Reader::open(&changed).is_err(), "byte {at}");
            assert!(Reader::open(&state[..at]).is_err(), "{at} bytes");
        }
        let mut longer = state.clone();
        longer.push(0);
        assert!(Reader::open(&longer).is_err());
        let mut newer = state;
        newer[8] += 1;
        let error = Reader::open(&newer).unwrap_err();
        assert!(error.0.contains("version 4"), "{error}");
    }

    #[test]
    fn counts_flags_texts_and_the_end_have_their_limits() {
        let fields = |bytes: &'static [u8]| Reader::of_fields(bytes);
        assert_eq!(fields(&[3, 0, 0, 0]).count(3, "x").unwrap(), 3);
        let error = fields(&[4, 0, 0, 0]).count(3, "x").unwrap_err();
        assert_eq!(error.0, "4 x; at most 3");
        assert!(fields(&[2]).flag().is_err());
        assert!(fields(&[1, 0, 0, 0, 0xff]).text().is_err());
        assert!(fields(&[0]).end().is_err());
        assert!(fields(&[0]).u16().is_err());
        let mut writer = Writer::new();
        writer.text(&format!("{}é", "x".repeat(TEXT_LIMIT_BYTES - 1)));
        let state = writer.finish().unwrap();
        let text = Reader::open(&state).unwrap().text().unwrap();
        assert_eq!(text.len(), TEXT_LIMIT_BYTES - 1);
    }

    #[test]
    fn a_state_has_at_most_4_mib() {
        let mut writer = Writer::new();
        writer.list(&vec![0; LIMIT_BYTES - HEADER_BYTES - 4]);
        assert_eq!(writer.finish().unwrap().len(), LIMIT_BYTES);
        let mut writer = Writer::new();
        writer.list(&vec![0; LIMIT_BYTES - HEADER_BYTES - 3]);
        assert!(writer.finish().is_err());
        for (length, whole) in [(LIMIT_BYTES, true), (LIMIT_BYTES + 1, false)] {
            let file = tempfile::tempfile().unwrap();
            file.set_len(length as u64).unwrap();
            assert_eq!(read_all(file).is_ok(), whole);
        }
    }
}
