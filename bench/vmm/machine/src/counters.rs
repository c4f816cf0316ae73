//! KVM's counters of a VM or of a CPU (`KVM_GET_STATS_FD`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::fs::FileExt;

/// `_IO(KVMIO, 0xce)`.
const KVM_GET_STATS_FD: libc::c_ulong = 0xaece;
/// A descriptor of a counter before its name.
const DESCRIPTOR_BYTES: usize = 16;

/// Opens the counters of a descriptor of KVM. `None` on a kernel without them.
pub fn open(of: RawFd) -> Option<File> {
    // SAFETY: the call takes no argument and returns a new descriptor.
    let fd = unsafe { libc::ioctl(of, KVM_GET_STATS_FD as _, 0) };
    // SAFETY: the descriptor is new, and this is its only owner.
    (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })
}

/// Reads the counters that are one number each.
pub fn read(file: &File) -> io::Result<BTreeMap<String, u64>> {
    let word = |at: u64| -> io::Result<u32> {
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, at)?;
        Ok(u32::from_le_bytes(bytes))
    };
    let (name_bytes, count, descriptors, data) = (word(4)?, word(8)?, word(16)?, word(20)?);
    let mut counters = BTreeMap::new();
    let mut descriptor = vec![0; DESCRIPTOR_BYTES + name_bytes as usize];
    for index in 0..u64::from(count) {
        let place = u64::from(descriptors) + index * descriptor.len() as u64;
        file.read_exact_at(&mut descriptor, place)?;
        let (fixed, name) = descriptor.split_at(DESCRIPTOR_BYTES);
        if fixed[6..8] == [1, 0] {
            let offset = u32::from_le_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
            let mut value = [0; 8];
            file.read_exact_at(&mut value, u64::from(data) + u64::from(offset))?;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            counters.insert(name, u64::from_le_bytes(value));
        }
    }
    Ok(counters)
}
