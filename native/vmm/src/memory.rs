//! The guest's memory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use vm_memory::mmap::MmapRegion;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap, GuestRegionMmap};

/// Devices and interrupt controllers lie from here to [`GAP_END`]; memory continues behind it.
pub const GAP_START: u64 = 3 << 30;
pub const GAP_END: u64 = 4 << 30;

/// The size of a huge page. Guest and host addresses are equal modulo this, so that one entry of a page table maps it.
pub const HUGE_PAGE: usize = 2 << 20;

const PAGE_BYTES: usize = 4096;
/// Small enough for the cache of a CPU. A slot is a multiple of it.
const CHUNK_BYTES: usize = 256 << 10;

/// The memory of a guest. It is unmapped when the last user of its pages is gone, so it is dropped after them.
pub struct Ram {
    memory: GuestMemoryMmap,
    slots: Vec<Slot>,
    _mappings: Vec<Mapping>,
}

/// A piece of memory at its addresses in the guest and here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    pub guest: u64,
    pub size: u64,
    pub host: u64,
}

/// Memory of this process.
struct Mapping {
    address: *mut libc::c_void,
    size: usize,
}

// SAFETY: the mapping is only unmapped, once, by its owner.
unsafe impl Send for Mapping {}
// SAFETY: nothing is reachable through a shared reference.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `Mapping::new`, and nothing else unmaps it.
        unsafe { libc::munmap(self.address, self.size) };
    }
}

impl Mapping {
    /// Reserves private memory whose pages appear at their first use.
    fn new(size: usize) -> io::Result<Self> {
        // SAFETY: a new private mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { address, size })
    }
}

impl Ram {
    /// Maps `size_mib` MiB: from 0 to the gap of the devices, the rest from 4 GiB.
    pub fn new(size_mib: u32) -> io::Result<Self> {
        Self::map(size_mib, |address, length, _| {
            // SAFETY: the range lies in a mapping of the caller. A host without huge pages refuses, and small ones do too.
            unsafe { libc::madvise(address, length, libc::MADV_HUGEPAGE) };
            Ok(())
        })
    }

    /// Maps the memory of a saved VM. A page that the guest writes becomes its own; the file never changes.
    pub fn copy_of(size_mib: u32, file: &File) -> io::Result<Self> {
        Self::map(size_mib, |address, length, offset| {
            // SAFETY: replaces a range of a mapping of the caller, which nothing uses yet.
            let mapped = unsafe {
                libc::mmap(
                    address,
                    length,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE,
                    file.as_raw_fd(),
                    libc::off_t::try_from(offset).map_err(io::Error::other)?,
                )
            };
            if mapped == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        })
    }

    /// Lets `fill` prepare each range: its address, its length, and its place among all memory.
    fn map(
        size_mib: u32,
        fill: impl Fn(*mut libc::c_void, usize, u64) -> io::Result<()>,
    ) -> io::Result<Self> {
        let size = u64::from(size_mib) << 20;
        let low = size.min(GAP_START);
        let mut ranges = vec![(0, low)];
        if size > low {
            ranges.push((GAP_END, size - low));
        }
        let mut offset = 0;
        let mut slots = Vec::new();
        let mut regions = Vec::new();
        let mut mappings = Vec::new();
        for (guest, size) in ranges {
            let length = usize::try_from(size).map_err(io::Error::other)?;
            let mapping = Mapping::new(length + HUGE_PAGE)?;
            let host = (mapping.address as usize).next_multiple_of(HUGE_PAGE);
            let address = host as *mut libc::c_void;
            // The range lies in the mapping: it begins at most one huge page behind its start.
            fill(address, length, offset)?;
            offset += size;
            // SAFETY: the range is mapped for as long as `mappings` lives, which is as long as the region.
            let region = unsafe {
                MmapRegion::<()>::build_raw(
                    address.cast(),
                    length,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                )
            }
            .map_err(io::Error::other)?;
            let region = GuestRegionMmap::new(region, GuestAddress(guest))
                .ok_or_else(|| io::Error::other("memory beyond the last address"))?;
            regions.push(region);
            slots.push(Slot {
                guest,
                size,
                host: host as u64,
            });
            mappings.push(mapping);
        }
        Ok(Self {
            memory: GuestMemoryMmap::from_regions(regions).map_err(io::Error::other)?,
            slots,
            _mappings: mappings,
        })
    }

    /// Returns the guest's view. It must not be used after this value is dropped.
    pub fn memory(&self) -> &GuestMemoryMmap {
        &self.memory
    }

    /// Writes each page that is not zero to its place in a file of the memory's size. No CPU and no device runs.
    pub fn save(&self, file: &File) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut offset = 0;
        for slot in &self.slots {
            for at in (0..slot.size).step_by(CHUNK_BYTES) {
                // A slot is whole MiB.
                self.memory
                    .read_slice(&mut chunk, GuestAddress(slot.guest + at))
                    .map_err(io::Error::other)?;
                for (first, run) in runs_of_data(&chunk) {
                    file.write_all_at(run, offset + at + first as u64)?;
                }
            }
            offset += slot.size;
        }
        Ok(())
    }

    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Returns the end of the memory below the gap.
    pub fn low_end(&self) -> u64 {
        self.slots[0].size
    }
}

/// Returns the runs of pages that are not zero, with their places.
fn runs_of_data(chunk: &[u8]) -> Vec<(usize, &[u8])> {
    let mut runs = Vec::new();
    let mut start = None;
    for at in (0..chunk.len()).step_by(PAGE_BYTES) {
        let is_zero = chunk[at..at + PAGE_BYTES] == [0; PAGE_BYTES];
        match (is_zero, start) {
            (false, None) => start = Some(at),
            (true, Some(first)) => {
                runs.push((first, &chunk[first..at]));
                start = None;
            }
            _ => {}
        }
    }
    runs.extend(start.map(|first| (first, &chunk[first..])));
    runs
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use vm_memory::GuestMemoryBackend;

    use super::*;

    #[test]
    fn memory_below_the_gap_is_one_slot_whose_pages_can_be_huge() {
        for mib in [64, 3072] {
            let ram = Ram::new(mib).unwrap();
            assert_eq!(ram.slots().len(), 1);
            assert_eq!(ram.low_end(), u64::from(mib) << 20);
            assert_eq!(ram.slots()[0].host % HUGE_PAGE as u64, 0);
        }
    }

    #[test]
    fn memory_beyond_the_gap_continues_at_four_gib() {
        let ram = Ram::new(3073).unwrap();
        let [low, high] = ram.slots() else {
            panic!("two slots")
        };
        assert_eq!((low.guest, low.size), (0, 3 << 30));
        assert_eq!((high.guest, high.size), (4 << 30, 1 << 20));
        assert_eq!(high.host % HUGE_PAGE as u64, 0);
        let memory = ram.memory();
        memory
            .write_obj(7u32, GuestAddress((4 << 30) + (1 << 20) - 4))
            .unwrap();
        assert!(memory.write_obj(7u32, GuestAddress(3 << 30)).is_err());
        assert!(!memory.check_range(GuestAddress((3 << 30) - 1), 2));
    }

    #[test]
    fn a_copy_has_the_saved_pages_and_changes_neither_the_file_nor_another_copy() {
        let ram = Ram::new(3073).unwrap();
        let high = GuestAddress((4 << 30) + 4096);
        let places = [0, 4096, CHUNK_BYTES as u64 - 4096, 64 << 20].map(GuestAddress);
        for place in places.into_iter().chain([high]) {
            ram.memory().write_obj(place.0 + 7, place).unwrap();
        }
        let file = tempfile::tempfile().unwrap();
        file.set_len(3073 << 20).unwrap();
        ram.save(&file).unwrap();
        assert_eq!(file.metadata().unwrap().blocks() * 512, 5 * 4096);
        let [one, other] = [(); 2].map(|()| Ram::copy_of(3073, &file).unwrap());
        let read = |ram: &Ram, place| ram.memory().read_obj::<u64>(place).unwrap();
        for place in places.into_iter().chain([high]) {
            assert_eq!(read(&one, place), place.0 + 7);
            one.memory().write_obj(1u64, place).unwrap();
            assert_eq!(read(&other, place), place.0 + 7);
        }
        assert_eq!(read(&one, GuestAddress(8192)), 0);
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), 7);
    }

    #[test]
    fn the_largest_memory_is_only_reserved() {
        let ram = Ram::new(*crate::config::MEMORY_MIB.end()).unwrap();
        let slots = ram.slots();
        assert_eq!(slots[1].guest + slots[1].size, (1 << 40) + (1 << 30));
    }
}
