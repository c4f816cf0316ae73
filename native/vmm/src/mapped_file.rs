//! A file in the guest's addresses, which the guest can only read. All VMs with the file share its pages.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use vm_memory::bitmap::AtomicBitmap;
use vm_memory::mmap::MmapRegion;
use vm_memory::{GuestAddress, GuestRegionMmap};

use crate::mapping::{HUGE_PAGE, Mapping, Slot};

/// Linux adds memory in sections of this size. A file begins one, at least a huge page behind what lies before it.
const SECTION: u64 = 128 << 20;

/// A file that is mapped. Bytes behind its end, up to the next huge page, are zeros.
pub struct MappedFile {
    slot: Slot,
    _mapping: Mapping,
}

impl MappedFile {
    /// Maps a file behind the guest's address `end`. The region may be used for as long as the first value lives.
    ///
    /// A file that becomes shorter later ends this process at the first use of a lost page.
    pub fn map(file: &File, end: u64) -> io::Result<(Self, GuestRegionMmap<AtomicBitmap>)> {
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if bytes == 0 {
            return Err(io::Error::other("a file without bytes"));
        }
        let too_large = || io::Error::other("a file of too many bytes");
        let size = bytes
            .checked_next_multiple_of(HUGE_PAGE)
            .ok_or_else(too_large)?;
        let reserved = size.checked_add(HUGE_PAGE).ok_or_else(too_large)?;
        let mapping = Mapping::read_only(reserved)?;
        let address = mapping.first_huge_page();
        // SAFETY: replaces a part of the new mapping, which nothing uses yet: it begins at most one huge page behind its
        // start.
        let mapped = unsafe {
            libc::mmap(
                address,
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_FIXED,
                file.as_raw_fd(),
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let slot = Slot {
            guest: (end + HUGE_PAGE as u64).next_multiple_of(SECTION),
            size: size as u64,
            host: address as u64,
        };
        // SAFETY: the range is mapped for as long as `_mapping` lives.
        let region = unsafe {
            MmapRegion::build_raw(
                address.cast(),
                size,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
            )
        }
        .map_err(io::Error::other)?;
        let region =
            GuestRegionMmap::new(region, GuestAddress(slot.guest)).ok_or_else(too_large)?;
        let mapped = Self {
            slot,
            _mapping: mapping,
        };
        Ok((mapped, region))
    }

    pub fn slot(&self) -> Slot {
        self.slot
    }
}
