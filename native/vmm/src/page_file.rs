//! Files with pages of a guest's memory, each page at its place among all memory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use vm_memory::{Bytes, GuestAddress};

use crate::config::PageRun;
use crate::memory::{CHUNK_BYTES, Ram, runs_of_data};
use crate::state::Crc32;

const PAGE_BYTES: u64 = 4096;

/// Writes the pages of these runs from the memory to the file, which has holes only. Pages of zeros stay holes. Returns
/// the CRC-32 of all these pages. No CPU and no device runs.
pub fn save(ram: &Ram, file: &File, runs: &[PageRun]) -> io::Result<u32> {
    let mut sum = Crc32::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    for run in runs {
        let mut offset = u64::from(run.0) * PAGE_BYTES;
        for part in ram.find_pages(*run) {
            for (at, length) in chunks(part.size) {
                let bytes = &mut chunk[..length];
                ram.memory()
                    .read_slice(bytes, GuestAddress(part.guest + at))
                    .map_err(io::Error::other)?;
                sum.add(bytes);
                for (place, run) in runs_of_data(bytes) {
                    file.write_all_at(run, offset + place as u64)?;
                }
                offset += length as u64;
            }
        }
    }
    Ok(sum.value())
}

/// Reads the pages of these runs into the memory. Returns their CRC-32. No CPU has run.
pub fn load(ram: &Ram, file: &File, runs: &[PageRun]) -> io::Result<u32> {
    let mut sum = Crc32::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    for run in runs {
        let mut offset = u64::from(run.0) * PAGE_BYTES;
        for part in ram.find_pages(*run) {
            for (at, length) in chunks(part.size) {
                let bytes = &mut chunk[..length];
                file.read_exact_at(bytes, offset)?;
                sum.add(bytes);
                ram.memory()
                    .write_slice(bytes, GuestAddress(part.guest + at))
                    .map_err(io::Error::other)?;
                offset += length as u64;
            }
        }
    }
    Ok(sum.value())
}

/// Puts the pages of these runs of one file over those of another. A page of zeros becomes a hole. Returns the CRC-32 of
/// the pages.
pub fn put(from: &File, to: &File, runs: &[PageRun]) -> io::Result<u32> {
    let mut sum = Crc32::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    for (first, count) in runs {
        let start = u64::from(*first) * PAGE_BYTES;
        for (at, length) in chunks(u64::from(*count) * PAGE_BYTES) {
            let bytes = &mut chunk[..length];
            from.read_exact_at(bytes, start + at)?;
            sum.add(bytes);
            clear(to, start + at, length)?;
            for (place, run) in runs_of_data(bytes) {
                to.write_all_at(run, start + at + place as u64)?;
            }
        }
    }
    Ok(sum.value())
}

/// Copies each page that is not zero. The other file has holes only.
pub fn copy(from: &File, to: &File, bytes: u64) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while let Some(data) = find(from, at, libc::SEEK_DATA)?.filter(|data| *data < bytes) {
        let end = find(from, data, libc::SEEK_HOLE)?
            .unwrap_or(bytes)
            .min(bytes);
        // A file system may end a part of data within a page.
        let start = data / PAGE_BYTES * PAGE_BYTES;
        let end = end.next_multiple_of(PAGE_BYTES).min(bytes);
        for (more, length) in chunks(end - start) {
            let bytes = &mut chunk[..length];
            from.read_exact_at(bytes, start + more)?;
            for (place, run) in runs_of_data(bytes) {
                to.write_all_at(run, start + more + place as u64)?;
            }
        }
        at = end;
    }
    Ok(())
}

/// Fails unless the file is as large as the memory.
pub fn check_size(file: &File, memory_bytes: u64) -> Result<(), String> {
    let found = file.metadata().map_err(|e| e.to_string())?.len();
    if found == memory_bytes {
        return Ok(());
    }
    Err(format!("it has {found} bytes, expected {memory_bytes}"))
}

/// Makes a range a hole, or zeros where the file system has no holes.
fn clear(file: &File, offset: u64, length: usize) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let start = libc::off_t::try_from(offset).map_err(io::Error::other)?;
    let bytes = libc::off_t::try_from(length).map_err(io::Error::other)?;
    // SAFETY: changes a range of an open file.
    if unsafe { libc::fallocate(file.as_raw_fd(), mode, start, bytes) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            file.write_all_at(&vec![0; length], offset)
        }
        error => Err(error),
    }
}

/// Returns the next place with or without data, or `None` if there is only a hole up to the end.
fn find(file: &File, from: u64, whence: libc::c_int) -> io::Result<Option<u64>> {
    let from = libc::off_t::try_from(from).map_err(io::Error::other)?;
    // SAFETY: moves the position of an open file, which nothing else uses.
    match unsafe { libc::lseek(file.as_raw_fd(), from, whence) } {
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            error => Err(error),
        },
        found => u64::try_from(found).map(Some).map_err(io::Error::other),
    }
}

/// Returns the places and lengths of the chunks of a range.
fn chunks(size: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..size).step_by(CHUNK_BYTES).map(move |at| {
        let left = usize::try_from(size - at).unwrap_or(CHUNK_BYTES);
        (at, left.min(CHUNK_BYTES))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn file(mib: u64, pages: &[(u64, u8)]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(mib * MIB).unwrap();
        for (page, byte) in pages {
            file.write_all_at(&[*byte; 4096], page * PAGE_BYTES)
                .unwrap();
        }
        file
    }

    fn page(file: &File, page: u64) -> [u8; 4096] {
        let mut bytes = [0; 4096];
        file.read_exact_at(&mut bytes, page * PAGE_BYTES).unwrap();
        bytes
    }

    #[test]
    fn pages_on_both_sides_of_the_gap_are_the_same_after_a_save_and_a_load() {
        let ram = Ram::new(3074).unwrap();
        let last_low = (3 << 30) - PAGE_BYTES;
        for (place, byte) in [(0, 1), (last_low, 2), (4 << 30, 3), ((4 << 30) + 4096, 4u8)] {
            ram.memory()
                .write_slice(&[byte; 4096], GuestAddress(place))
                .unwrap();
        }
        let gap = u32::try_from((3u64 << 30) / PAGE_BYTES).unwrap();
        let runs = [(0, 1), (gap - 1, 2), (gap + 300, 1)];
        let saved = file(3074, &[]);
        let sum = save(&ram, &saved, &runs).unwrap();
        // The page behind the run is not a part of the difference. The page of zeros is, and needs no room.
        assert_eq!(saved.metadata().unwrap().blocks() * 512, 3 * PAGE_BYTES);
        let other = Ram::new(3074).unwrap();
        let zeroed = GuestAddress((4 << 30) + 300 * PAGE_BYTES);
        other.memory().write_obj(9u64, zeroed).unwrap();
        assert_eq!(load(&other, &saved, &runs).unwrap(), sum);
        let read = |place| other.memory().read_obj::<u8>(GuestAddress(place)).unwrap();
        assert_eq!((read(0), read(last_low), read(4 << 30)), (1, 2, 3));
        assert_eq!((read((4 << 30) + 4096), read(zeroed.0)), (0, 0));
        saved.write_all_at(&[7], 100).unwrap();
        assert_ne!(load(&other, &saved, &runs).unwrap(), sum);
    }

    #[test]
    fn pages_of_a_difference_replace_those_of_the_base_and_zeros_become_holes() {
        let base = file(64, &[(0, 1), (1, 2), (100, 3), (16_383, 4)]);
        let diff = file(64, &[(1, 5), (200, 6)]);
        let merged = file(64, &[]);
        copy(&base, &merged, 64 * MIB).unwrap();
        let blocks = |file: &File| file.metadata().unwrap().blocks() * 512 / PAGE_BYTES;
        assert_eq!(blocks(&merged), 4);
        put(&diff, &merged, &[(1, 1), (100, 1), (200, 2)]).unwrap();
        let bytes = [0, 1, 100, 200, 201, 16_383].map(|at| page(&merged, at)[7]);
        assert_eq!(bytes, [1, 5, 0, 6, 0, 4]);
        assert_eq!(blocks(&merged), 4);
    }

    #[test]
    fn a_file_that_is_shorter_than_its_runs_is_an_error() {
        let short = file(1, &[]);
        let ram = Ram::new(64).unwrap();
        let error = load(&ram, &short, &[(255, 2)]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let error = check_size(&short, 64 * MIB).unwrap_err();
        assert_eq!(error, "it has 1048576 bytes, expected 67108864");
    }
}
