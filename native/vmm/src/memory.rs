//! The guest's memory.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use vm_memory::bitmap::AtomicBitmap;
use vm_memory::mmap::MmapRegion;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestRegionMmap};

use crate::config::{PageRun, PagesConfig};
use crate::guest_memory::GuestMemory;
use crate::mapped_file::MappedFile;
use crate::mapping::Mapping;
pub use crate::mapping::{HUGE_PAGE, Slot};

/// Devices and interrupt controllers lie from here to [`GAP_END`]; memory continues behind it.
pub const GAP_START: u64 = 3 << 30;
pub const GAP_END: u64 = 4 << 30;

const PAGE_BYTES: usize = 4096;
/// Small enough for the cache of a CPU. A slot is a multiple of it.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// The memory of a guest. It is unmapped when the last user of its pages is gone, so it is dropped after them.
pub struct Ram {
    memory: GuestMemory,
    slots: Vec<Slot>,
    /// The addresses here that are a private mapping of a snapshot's file, in order.
    of_file: Vec<Range<usize>>,
    /// Files that the guest can only read.
    files: Vec<MappedFile>,
    _mappings: Vec<Mapping>,
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
    ///
    /// Where a huge page of the file is a hole, the memory is new, as in a VM that boots: the copy gets huge pages there,
    /// and writes cost no page of the file.
    pub fn copy_of(size_mib: u32, file: &File) -> io::Result<Self> {
        let mut of_file = Vec::new();
        let ram = Self::map(size_mib, |address, length, offset| {
            // SAFETY: the range lies in a mapping of the caller. A host without huge pages refuses.
            unsafe { libc::madvise(address, length, libc::MADV_HUGEPAGE) };
            for (first, end) in find_data(file, offset, offset + length as u64)? {
                let at = usize::try_from(first - offset).map_err(io::Error::other)?;
                let size = usize::try_from(end - first).map_err(io::Error::other)?;
                // SAFETY: replaces a part of the range, which nothing uses yet.
                let mapped = unsafe {
                    libc::mmap(
                        address.byte_add(at),
                        size,
                        libc::PROT_READ | libc::PROT_WRITE,
                        libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE,
                        file.as_raw_fd(),
                        libc::off_t::try_from(first).map_err(io::Error::other)?,
                    )
                };
                if mapped == libc::MAP_FAILED {
                    return Err(io::Error::last_os_error());
                }
                let start = address as usize + at;
                of_file.push(start..start + size);
            }
            Ok(())
        })?;
        Ok(Self { of_file, ..ram })
    }

    /// Gets pages before the guest runs: those of `written` as its own. A page that does not come now comes at its
    /// first use.
    pub fn populate(&self, pages: &PagesConfig) {
        for (runs, advice) in [
            (&pages.written, libc::MADV_POPULATE_WRITE),
            (&pages.read, libc::MADV_POPULATE_READ),
        ] {
            for part in runs.iter().flat_map(|run| self.find_pages(*run)) {
                // SAFETY: the range lies in a mapping of this memory, and the advice changes no byte of it.
                unsafe {
                    libc::madvise(
                        part.host as *mut libc::c_void,
                        usize::try_from(part.size).unwrap_or(0),
                        advice,
                    )
                };
            }
        }
    }

    /// Returns the parts of a run of pages of the file, one for each slot in which it lies.
    pub fn find_pages(&self, (first, count): PageRun) -> impl Iterator<Item = Slot> {
        const PAGE: u64 = PAGE_BYTES as u64;
        let (first, end) = (
            u64::from(first) * PAGE,
            (u64::from(first) + u64::from(count)) * PAGE,
        );
        let mut offset = 0;
        self.slots.iter().filter_map(move |slot| {
            let (from, to) = (first.max(offset), end.min(offset + slot.size));
            let part = (from < to).then(|| Slot {
                guest: slot.guest + (from - offset),
                size: to - from,
                host: slot.host + (from - offset),
            });
            offset += slot.size;
            part
        })
    }

    /// Lets `fill` prepare each range: its address, its length, and its place among all memory.
    fn map(
        size_mib: u32,
        mut fill: impl FnMut(*mut libc::c_void, usize, u64) -> io::Result<()>,
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
            let address = mapping.first_huge_page();
            // The range lies in the mapping: it begins at most one huge page behind its start.
            fill(address, length, offset)?;
            offset += size;
            // SAFETY: the range is mapped for as long as `mappings` lives, which is as long as the region.
            let region = unsafe {
                MmapRegion::<AtomicBitmap>::build_raw(
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
                host: address as u64,
            });
            mappings.push(mapping);
        }
        Ok(Self {
            memory: GuestMemory::from_regions(regions).map_err(io::Error::other)?,
            slots,
            of_file: Vec::new(),
            files: Vec::new(),
            _mappings: mappings,
        })
    }

    /// Adds files that the guest, and devices for it, can only read. They lie behind all memory, in their order.
    pub fn with_files(mut self, files: &[File]) -> io::Result<Self> {
        let memory_end = self.slots.last().map_or(0, |slot| slot.guest + slot.size);
        let mut end = memory_end.max(GAP_END);
        for file in files {
            let (mapped, region) = MappedFile::map(file, end)?;
            end = mapped.slot().guest + mapped.slot().size;
            self.memory = self
                .memory
                .insert_region(Arc::new(region))
                .map_err(io::Error::other)?;
            self.files.push(mapped);
        }
        Ok(self)
    }

    /// Returns the places of the files that the guest can only read.
    pub fn files(&self) -> impl Iterator<Item = Slot> {
        self.files.iter().map(MappedFile::slot)
    }

    /// Returns the guest's view. It must not be used after this value is dropped.
    pub fn memory(&self) -> &GuestMemory {
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

    /// Returns a bitmap for each slot, of the pages that this process has written since the last call.
    pub fn take_written(&self) -> impl Iterator<Item = Vec<u64>> {
        // Files that cannot be written lie behind the slots.
        self.memory
            .iter()
            .take(self.slots.len())
            .map(|region| MmapRegion::bitmap(region).get_and_reset())
    }

    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Returns the addresses of this process at which the memory lies.
    pub fn addresses(&self) -> impl Iterator<Item = Range<usize>> {
        self.slots.iter().filter_map(|slot| {
            let start = usize::try_from(slot.host).ok()?;
            Some(start..start + usize::try_from(slot.size).ok()?)
        })
    }

    /// Returns the parts of these addresses that are a private mapping of a snapshot's file, in whole huge pages.
    pub fn of_file(&self) -> &[Range<usize>] {
        &self.of_file
    }

    /// Returns the end of the memory below the gap.
    pub fn low_end(&self) -> u64 {
        self.slots[0].size
    }
}

/// Returns the parts of a file from `offset` to `end` that are no holes, in whole huge pages.
fn find_data(file: &File, offset: u64, end: u64) -> io::Result<Vec<(u64, u64)>> {
    const HUGE: u64 = HUGE_PAGE as u64;
    let seek = |from: u64, whence| {
        let from = libc::off_t::try_from(from).map_err(io::Error::other)?;
        // SAFETY: moves the position of an open file, which nothing else uses.
        match unsafe { libc::lseek(file.as_raw_fd(), from, whence) } {
            -1 => Err(io::Error::last_os_error()),
            found => u64::try_from(found).map_err(io::Error::other),
        }
    };
    let mut parts: Vec<(u64, u64)> = Vec::new();
    let mut at = offset;
    while at < end {
        let data = match seek(at, libc::SEEK_DATA) {
            Ok(data) => data,
            // There is only a hole up to the end of the file.
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => break,
            Err(error) => return Err(error),
        };
        if data >= end {
            break;
        }
        let hole = seek(data, libc::SEEK_HOLE)?.min(end);
        // `offset` is a multiple of a huge page in guest and file.
        let first = offset + (data - offset) / HUGE * HUGE;
        at = end.min(offset + (hole - offset).next_multiple_of(HUGE));
        match parts.last_mut() {
            Some((_, last)) if *last == first => *last = at,
            _ => parts.push((first, at)),
        }
    }
    Ok(parts)
}

/// Returns the runs of pages that are not zero, with their places.
pub(crate) fn runs_of_data(chunk: &[u8]) -> Vec<(usize, &[u8])> {
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
    fn holes_of_a_huge_page_are_new_memory_and_all_else_is_of_the_file() {
        const HUGE: u64 = HUGE_PAGE as u64;
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        assert_eq!(find_data(&file, 0, 64 << 20).unwrap(), []);
        for place in [
            HUGE + 4096,
            2 * HUGE - 4096,
            2 * HUGE,
            9 * HUGE,
            (64 << 20) - 8,
        ] {
            file.write_all_at(&7u64.to_le_bytes(), place).unwrap();
        }
        let parts = [
            (HUGE, 3 * HUGE),
            (9 * HUGE, 10 * HUGE),
            (31 * HUGE, 32 * HUGE),
        ];
        assert_eq!(find_data(&file, 0, 64 << 20).unwrap(), parts);
        assert_eq!(
            find_data(&file, 2 * HUGE, 9 * HUGE).unwrap(),
            [(2 * HUGE, 3 * HUGE)]
        );
        let ram = Ram::copy_of(64, &file).unwrap();
        let read = |place| ram.memory().read_obj::<u64>(GuestAddress(place)).unwrap();
        assert_eq!(
            (read(HUGE + 4096), read(0), read((64 << 20) - 8)),
            (7, 0, 7)
        );
        let blocks = || file.metadata().unwrap().blocks();
        let before = blocks();
        ram.memory().write_obj(1u8, GuestAddress(4 * HUGE)).unwrap();
        assert_eq!(blocks(), before);
    }

    #[test]
    fn pages_are_found_on_both_sides_of_the_gap_and_are_there_before_their_use() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3074 << 20).unwrap();
        let edge = 3u64 << 30;
        file.write_all_at(&[7; 16 << 10], edge - (8 << 10)).unwrap();
        let ram = Ram::copy_of(3074, &file).unwrap();
        let first = u32::try_from(edge / 4096).unwrap() - 2;
        let found: Vec<_> = ram
            .find_pages((first, 4))
            .map(|part| (part.guest, part.size))
            .collect();
        assert_eq!(found, [(edge - 8192, 8192), (GAP_END, 8192)]);
        let resident = || {
            let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let at = format!("{:x}-", ram.slots()[1].host);
            let own = smaps.split(&at).nth(1).unwrap();
            let kib = |name: &str| -> u64 {
                let line = own
                    .lines()
                    .find_map(|line| line.strip_prefix(name))
                    .unwrap();
                line.trim().trim_end_matches(" kB").parse().unwrap()
            };
            (kib("Rss:"), kib("Anonymous:"))
        };
        assert_eq!(resident(), (0, 0));
        ram.populate(&PagesConfig {
            written: vec![(first + 2, 1)],
            read: vec![(first + 3, 1)],
        });
        let (all, own) = resident();
        assert_eq!(own, 4);
        assert!(all >= 8, "{all} KiB");
        assert_eq!(
            ram.memory().read_obj::<u8>(GuestAddress(GAP_END)).unwrap(),
            7
        );
    }

    #[test]
    fn the_largest_memory_is_only_reserved() {
        let ram = Ram::new(*crate::config::MEMORY_MIB.end()).unwrap();
        let slots = ram.slots();
        assert_eq!(slots[1].guest + slots[1].size, (1 << 40) + (1 << 30));
    }

    const HUGE: u64 = HUGE_PAGE as u64;
    const SECTION: u64 = 128 << 20;

    fn file(bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    #[test]
    fn files_lie_behind_all_memory_in_sections_of_their_own() {
        for (mib, first) in [(64, 4 << 30), (3072, 4 << 30), (4096, 5 << 30)] {
            let files = [file(HUGE + 1), file(SECTION), file(1)];
            let ram = Ram::new(mib).unwrap().with_files(&files).unwrap();
            let found: Vec<_> = ram.files().map(|slot| (slot.guest, slot.size)).collect();
            let first = first + SECTION;
            let expected = [
                (first, 2 * HUGE),
                (first + SECTION, SECTION),
                // There is room between two files.
                (first + 3 * SECTION, HUGE),
            ];
            assert_eq!(found, expected);
            assert!(ram.files().all(|slot| slot.host % HUGE == 0));
        }
    }

    #[test]
    fn a_file_is_read_with_zeros_behind_its_end_and_is_no_part_of_the_memory() {
        let disk = file(HUGE + 100);
        disk.write_all_at(b"begin", 0).unwrap();
        disk.write_all_at(b"end", HUGE + 97).unwrap();
        let ram = Ram::new(64)
            .unwrap()
            .with_files(&[disk.try_clone().unwrap()]);
        let ram = ram.unwrap();
        let at = ram.files().next().unwrap().guest;
        let read = |offset| {
            let mut bytes = [0xff; 5];
            let place = GuestAddress(at + offset);
            ram.memory().read_slice(&mut bytes, place).unwrap();
            bytes
        };
        assert_eq!(&read(0), b"begin");
        assert_eq!(&read(HUGE + 97), b"end\0\0");
        assert_eq!(read(2 * HUGE - 5), [0; 5]);
        assert!(!ram.memory().check_range(GuestAddress(at + 2 * HUGE), 1));
        // Another user of the file changes it: both see the same page.
        disk.write_all_at(b"other", 0).unwrap();
        assert_eq!(&read(0), b"other");
        assert_eq!(ram.slots().len(), 1);
        assert_eq!(ram.take_written().count(), 1);
    }

    #[test]
    fn a_file_without_bytes_is_refused() {
        assert!(Ram::new(64).unwrap().with_files(&[file(0)]).is_err());
    }
}
