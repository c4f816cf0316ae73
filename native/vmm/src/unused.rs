//! Memory that the guest does not use, and that the host takes back.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::memory::{HUGE_PAGE, Ram};

/// The limit of parts of a snapshot's file that become new memory. Each adds up to two mappings to the process, and the
/// kernel allows 65,530.
const REPLACED_LIMIT: u32 = 16_384;

/// The memory of a guest, of which the host takes parts back. The memory must live longer.
pub struct Unused {
    all: Vec<Range<usize>>,
    /// The starts and ends of what is a private mapping of a snapshot's file. The rest is anonymous.
    of_file: BTreeMap<usize, usize>,
    left: u32,
}

impl Unused {
    pub fn of(ram: &Ram) -> Self {
        Self {
            all: ram.addresses().collect(),
            of_file: ram.of_file().iter().map(|r| (r.start, r.end)).collect(),
            left: REPLACED_LIMIT,
        }
    }

    /// Takes back the whole huge pages of a range, which read as zeros afterwards. The rest of the range, and what the
    /// host refuses to take, stays as it is. No report of Linux is smaller than a huge page.
    ///
    /// Both kinds of change are one step for the guest's CPUs and for the kernel: none of them finds an address unmapped.
    pub fn take_back(&mut self, range: Range<usize>) {
        if !self
            .all
            .iter()
            .any(|all| all.start <= range.start && range.end <= all.end)
        {
            return;
        }
        let mut at = range.start.next_multiple_of(HUGE_PAGE);
        let end = range.end - range.end % HUGE_PAGE;
        while at < end {
            let (next, is_of_file) = self.part(at, end);
            match is_of_file {
                true => self.replace(at..next),
                false => discard(&(at..next)),
            }
            at = next;
        }
    }

    /// Returns the end of the part of one kind that begins at an address, and whether it is of the file.
    fn part(&self, at: usize, end: usize) -> (usize, bool) {
        if let Some((_, last)) = self.of_file.range(..=at).next_back()
            && *last > at
        {
            return (end.min(*last), true);
        }
        let next = self.of_file.range(at..end).next();
        (next.map_or(end, |(first, _)| *first), false)
    }

    /// Makes a part of the file new memory. If its pages were only discarded, the guest would read the bytes of the file
    /// again.
    fn replace(&mut self, range: Range<usize>) {
        if self.left == 0 || !map_new(&range) {
            return;
        }
        self.left -= 1;
        let Some((first, last)) = self.of_file.range(..=range.start).next_back() else {
            return;
        };
        let (first, last) = (*first, *last);
        self.of_file.remove(&first);
        for (start, end) in [(first, range.start), (range.end, last)] {
            if start < end {
                self.of_file.insert(start, end);
            }
        }
    }
}

/// Drops pages of anonymous memory.
fn discard(range: &Range<usize>) {
    // SAFETY: the range is anonymous memory of the guest, to whose bytes no reference exists.
    unsafe {
        libc::madvise(
            range.start as *mut libc::c_void,
            range.len(),
            libc::MADV_DONTNEED,
        )
    };
}

/// Maps new memory over a range. Returns false if the range stays as it was.
fn map_new(range: &Range<usize>) -> bool {
    let address = range.start as *mut libc::c_void;
    // SAFETY: the range is memory of the guest, to whose bytes no reference exists. A host without huge pages refuses the
    // advice.
    unsafe {
        let mapped = libc::mmap(
            address,
            range.len(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if mapped == libc::MAP_FAILED {
            return false;
        }
        libc::madvise(address, range.len(), libc::MADV_HUGEPAGE);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use vm_memory::{Bytes, GuestAddress};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn host(ram: &Ram, guest: u64) -> usize {
        usize::try_from(ram.slots()[0].host + guest).unwrap()
    }

    fn take_back(unused: &mut Unused, ram: &Ram, guest: Range<u64>) {
        unused.take_back(host(ram, guest.start)..host(ram, guest.end));
    }

    fn read(ram: &Ram, guest: u64) -> u8 {
        ram.memory().read_obj(GuestAddress(guest)).unwrap()
    }

    fn write(ram: &Ram, guest: u64) {
        ram.memory().write_obj(9_u8, GuestAddress(guest)).unwrap();
    }

    /// A snapshot's memory of 64 MiB, of which the part from 4 to 12 MiB is 7 in each page.
    fn snapshot() -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 * MIB).unwrap();
        for page in (4 * MIB..12 * MIB).step_by(4096) {
            file.write_all_at(&[7], page).unwrap();
        }
        file
    }

    /// Returns the pages of a range that have memory of this process.
    fn own_pages(ram: &Ram, guest: Range<u64>) -> usize {
        const PRESENT: u64 = 1 << 63;
        const OF_FILE: u64 = 1 << 61;
        let map = File::open("/proc/self/pagemap").unwrap();
        let pages = (guest.start..guest.end).step_by(4096);
        pages
            .filter(|page| {
                let at = host(ram, *page) as u64 / 4096 * 8;
                let mut entry = [0; 8];
                map.read_exact_at(&mut entry, at).unwrap();
                u64::from_le_bytes(entry) & (PRESENT | OF_FILE) == PRESENT
            })
            .count()
    }

    #[test]
    fn whole_huge_pages_are_given_back_and_their_neighbours_stay() {
        let ram = Ram::new(64).unwrap();
        let mut unused = Unused::of(&ram);
        for page in (0..12 * MIB).step_by(4096) {
            write(&ram, page);
        }
        assert_eq!(own_pages(&ram, 0..12 * MIB), 3072);
        take_back(&mut unused, &ram, 3 * MIB..9 * MIB);
        assert_eq!(own_pages(&ram, 4 * MIB..8 * MIB), 0);
        assert_eq!(own_pages(&ram, 0..12 * MIB), 2048);
        let last = 4 * MIB - 4096;
        assert_eq!([last, 4 * MIB, 8 * MIB].map(|at| read(&ram, at)), [9, 0, 9]);
    }

    #[test]
    fn memory_of_a_copy_reads_as_zeros_and_never_as_the_snapshot() {
        let file = snapshot();
        let [ram, other] = [(); 2].map(|()| Ram::copy_of(64, &file).unwrap());
        let mut unused = Unused::of(&ram);
        for at in [4 * MIB, 6 * MIB, 30 * MIB] {
            write(&ram, at);
        }
        // From anonymous memory over a part of the file to anonymous memory, twice.
        for _ in 0..2 {
            take_back(&mut unused, &ram, 2 * MIB..8 * MIB);
            assert_eq!(
                [4 * MIB, 6 * MIB, 8 * MIB].map(|at| read(&ram, at)),
                [0, 0, 7]
            );
            write(&ram, 6 * MIB);
        }
        assert_eq!(
            unused.left,
            REPLACED_LIMIT - 1,
            "the second time it is new memory"
        );
        take_back(&mut unused, &ram, 10 * MIB..32 * MIB);
        let found = [10 * MIB - 4096, 10 * MIB, 12 * MIB, 30 * MIB].map(|at| read(&ram, at));
        assert_eq!(found, [7, 0, 0, 0]);
        assert_eq!(read(&other, 4 * MIB), 7);
        let mut byte = [0];
        file.read_exact_at(&mut byte, 4 * MIB).unwrap();
        assert_eq!(byte, [7]);
    }

    #[test]
    fn behind_the_limit_parts_of_the_file_stay_as_the_guest_left_them() {
        let file = snapshot();
        let ram = Ram::copy_of(64, &file).unwrap();
        let mut unused = Unused::of(&ram);
        unused.left = 1;
        write(&ram, 8 * MIB);
        write(&ram, 20 * MIB);
        for start in [4, 8, 20] {
            take_back(&mut unused, &ram, start * MIB..(start + 2) * MIB);
        }
        let found = [4 * MIB, 8 * MIB, 8 * MIB + 4096, 20 * MIB].map(|at| read(&ram, at));
        assert_eq!(found, [0, 9, 7, 0]);
    }

    #[test]
    fn other_memory_of_the_process_is_never_taken() {
        let ram = Ram::new(64).unwrap();
        let mut unused = Unused::of(&ram);
        let bytes = vec![9_u8; 3 * HUGE_PAGE];
        let start = bytes.as_ptr() as usize;
        unused.take_back(start..start + bytes.len());
        unused.take_back(host(&ram, 0) - HUGE_PAGE..host(&ram, HUGE_PAGE as u64));
        assert!(bytes.iter().all(|byte| *byte == 9));
    }
}
