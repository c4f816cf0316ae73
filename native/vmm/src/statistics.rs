//! The counters that KVM keeps of a VM and of each CPU (`KVM_GET_STATS_FD`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

/// `_IO(KVMIO, 0xce)`.
const KVM_GET_STATS_FD: libc::c_ulong = 0xaece;
const HEADER_BYTES: usize = 24;
/// A descriptor without its name.
const DESCRIPTOR_BYTES: usize = 16;
/// KVM has about 60 counters with names of 48 bytes.
const MAX_DESCRIPTORS: usize = 4096;
const MAX_NAME_BYTES: usize = 256;

/// The counters of a VM or of a CPU.
pub struct Counters(File);

impl Counters {
    /// Opens the counters of a VM's or a CPU's descriptor. `None` on a kernel without them.
    pub fn open(of: &impl AsRawFd) -> Option<Self> {
        // SAFETY: the call takes no argument and returns a new descriptor.
        let fd = unsafe { libc::ioctl(of.as_raw_fd(), KVM_GET_STATS_FD as _, 0) };
        // SAFETY: the descriptor is new, and this is its only owner.
        (fd >= 0).then(|| Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// Reads the counters that are one number each.
    pub fn read(&self) -> io::Result<BTreeMap<String, u64>> {
        read(|bytes, offset| self.0.read_exact_at(bytes, offset))
    }
}

fn read(at: impl Fn(&mut [u8], u64) -> io::Result<()>) -> io::Result<BTreeMap<String, u64>> {
    let mut header = [0; HEADER_BYTES];
    at(&mut header, 0)?;
    let word = |index: usize| {
        let bytes = &header[index * 4..index * 4 + 4];
        u32::from_le_bytes(bytes.try_into().unwrap_or_default())
    };
    let (name_bytes, count) = (word(1) as usize, word(2) as usize);
    let (descriptors, data) = (u64::from(word(4)), u64::from(word(5)));
    if name_bytes > MAX_NAME_BYTES || count > MAX_DESCRIPTORS {
        return Err(io::Error::other("counters of KVM in another shape"));
    }
    let mut counters = BTreeMap::new();
    let mut descriptor = vec![0; DESCRIPTOR_BYTES + name_bytes];
    for index in 0..count as u64 {
        let place = descriptors + index * descriptor.len() as u64;
        at(&mut descriptor, place)?;
        let (fixed, name) = descriptor.split_at(DESCRIPTOR_BYTES);
        let values = u16::from_le_bytes([fixed[6], fixed[7]]);
        let offset = u32::from_le_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
        if values != 1 {
            continue;
        }
        let mut value = [0; 8];
        at(&mut value, data + u64::from(offset))?;
        let end = name
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(name.len());
        let name = String::from_utf8_lossy(&name[..end]).into_owned();
        counters.insert(name, u64::from_le_bytes(value));
    }
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> io::Result<BTreeMap<String, u64>> {
        read(|into, offset| {
            let start = usize::try_from(offset).map_err(io::Error::other)?;
            let from = bytes
                .get(start..start + into.len())
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            into.copy_from_slice(from);
            Ok(())
        })
    }

    fn stats(count: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [0, 8, count, 24, 24, 24 + 2 * 24] {
            bytes.extend(u32::to_le_bytes(word));
        }
        for (name, values, offset) in [(b"exits\0\0\0", 1u16, 0u32), (b"halts\0\0\0", 3, 8)] {
            bytes.extend([0; 6]);
            bytes.extend(values.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend(name);
        }
        for value in [7u64, 1, 2, 3] {
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn numbers_are_read_by_name_and_histograms_are_left_out() {
        let counters = parse(&stats(2)).unwrap();
        assert_eq!(counters, BTreeMap::from([("exits".to_owned(), 7)]));
    }

    #[test]
    fn another_shape_is_an_error() {
        parse(&stats(5000)).unwrap_err();
        parse(&stats(2)[..30]).unwrap_err();
        parse(&[]).unwrap_err();
    }
}
