//! The pages that a copy of a snapshot uses before its first command. Later copies get them before their guest runs.
//!
//! The list changes when a page is there, and nothing else. So a list that is missing, old or wrong costs time only.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::run_dir::replace_private;

/// The name of the list beside the files of a snapshot.
pub const TOUCHED: &str = "touched";
/// The limit of each list, which the VMM has too.
const MAX_RUNS: usize = 1024;
/// The limit of written pages: each copy has its own ones, 16 MiB.
const MAX_WRITTEN_PAGES: u64 = 4096;
/// The limit of pages that are looked at, 4 GiB.
const MAX_PAGES: u64 = 1 << 20;
const MAX_FILE_BYTES: u64 = 64 << 10;
const PAGE_BYTES: u64 = 4096;
const ENTRY_BYTES: usize = 8;
/// Bits of an entry of `/proc/<pid>/pagemap`.
const PRESENT: u64 = 1 << 63;
const OF_FILE: u64 = 1 << 61;

/// A run of pages: the number of its first page in the memory, and its length.
type Run = (u32, u32);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Touched {
    /// Pages that the copy has written, so that they are its own.
    written: Vec<Run>,
    /// Pages that it shares with other copies.
    read: Vec<Run>,
}

impl Touched {
    /// Returns the pages that a process has used in the snapshot's memory, which it maps privately. `None` if this
    /// process does not.
    pub fn of_process(pid: u32, memory: &File) -> io::Result<Option<Self>> {
        let path = fs::read_link(format!("/proc/self/fd/{}", memory.as_raw_fd()))?;
        let mappings = fs::read(format!("/proc/{pid}/maps"))?;
        let mappings: Vec<Mapping> = mappings
            .split(|byte| *byte == b'\n')
            .filter_map(|line| Mapping::parse(line, &path))
            .collect();
        if mappings.is_empty() {
            return Ok(None);
        }
        if mappings.iter().map(|mapping| mapping.pages).sum::<u64>() > MAX_PAGES {
            return Err(io::Error::other("the memory is too large"));
        }
        let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
        let (mut written, mut read) = (Vec::new(), Vec::new());
        for mapping in mappings {
            for (page, entry) in mapping.read(&pagemap)? {
                match (entry & PRESENT != 0, entry & OF_FILE != 0) {
                    (true, true) => read.push(page),
                    (true, false) => written.push(page),
                    (false, _) => {}
                }
            }
        }
        if written.len() as u64 > MAX_WRITTEN_PAGES {
            return Err(io::Error::other(format!(
                "{} pages were written; at most {MAX_WRITTEN_PAGES} count",
                written.len()
            )));
        }
        Ok(Some(Self {
            written: runs_of(&written),
            read: runs_of(&read),
        }))
    }

    /// Reads the list of a snapshot whose guest has this memory; `None` if it does not fit.
    pub fn load(file: File, guest_bytes: u64) -> Option<Self> {
        let mut text = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut text).ok()?;
        let touched: Self = serde_json::from_slice(&text).ok()?;
        let pages = guest_bytes / PAGE_BYTES;
        let written: u64 = touched.written.iter().map(|run| u64::from(run.1)).sum();
        (written <= MAX_WRITTEN_PAGES
            && is_in_order(&touched.written, pages)
            && is_in_order(&touched.read, pages))
        .then_some(touched)
    }

    /// Puts the list beside the files of the snapshot.
    pub fn store(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        let partial = folder.join(format!(".{TOUCHED}-{}", std::process::id()));
        replace_private(&folder.join(TOUCHED), &partial, &text)
    }
}

/// A part of the snapshot's memory in a process.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    address: u64,
    pages: u64,
    first_page: u64,
}

impl Mapping {
    /// Parses a line of `/proc/<pid>/maps`. `None` for a mapping of another file, and for a shared one.
    fn parse(line: &[u8], path: &Path) -> Option<Self> {
        let head = line.strip_suffix(path.as_os_str().as_bytes())?;
        let mut words = std::str::from_utf8(head).ok()?.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let is_private = words.next()?.ends_with('p');
        let offset = words.next()?;
        // Device and inode. A longer path that ends with this one has more words.
        if !is_private || words.count() != 2 {
            return None;
        }
        let number = |hex| u64::from_str_radix(hex, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        Some(Self {
            address: start,
            pages: end.checked_sub(start)? / PAGE_BYTES,
            first_page: number(offset)? / PAGE_BYTES,
        })
    }

    /// Returns each page of the memory with its entry.
    fn read(&self, pagemap: &File) -> io::Result<Vec<(u32, u64)>> {
        let pages = usize::try_from(self.pages).map_err(io::Error::other)?;
        let mut bytes = vec![0; pages * ENTRY_BYTES];
        pagemap.read_exact_at(&mut bytes, self.address / PAGE_BYTES * ENTRY_BYTES as u64)?;
        (self.first_page..)
            .zip(bytes.chunks_exact(ENTRY_BYTES))
            .map(|(page, entry)| {
                let page = u32::try_from(page).map_err(io::Error::other)?;
                let entry = entry.try_into().map_err(io::Error::other)?;
                Ok((page, u64::from_ne_bytes(entry)))
            })
            .collect()
    }
}

/// Joins pages in order to runs. If there are too many runs, they also get the pages between them.
fn runs_of(pages: &[u32]) -> Vec<Run> {
    let mut gap = 0;
    loop {
        let mut runs: Vec<Run> = Vec::new();
        for page in pages {
            match runs.last_mut() {
                Some((first, count)) if *page - (*first + *count) <= gap => {
                    *count = *page - *first + 1;
                }
                _ => runs.push((*page, 1)),
            }
        }
        if runs.len() <= MAX_RUNS {
            return runs;
        }
        gap = 2 * gap + 1;
    }
}

fn is_in_order(runs: &[Run], pages: u64) -> bool {
    let mut end = 0;
    runs.len() <= MAX_RUNS
        && runs.iter().all(|(first, count)| {
            let (first, count) = (u64::from(*first), u64::from(*count));
            let fits = first >= end && count > 0 && first + count <= pages;
            end = first + count;
            fits
        })
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    const PAGES: usize = 64;

    /// Maps a memory as a copy does, for the life of the test process.
    fn map(memory: &File) -> *mut u8 {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                PAGES * 4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE,
                memory.as_raw_fd(),
                0,
            )
        };
        assert_ne!(address, libc::MAP_FAILED);
        address.cast()
    }

    #[test]
    fn pages_that_a_process_wrote_and_read_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("the memory");
        let memory = File::create_new(&path).unwrap();
        memory.write_all_at(&[7; PAGES * 4096], 0).unwrap();
        let memory = File::open(path).unwrap();
        let own = std::process::id();
        assert_eq!(Touched::of_process(own, &memory).unwrap(), None);
        let address = map(&memory);
        // SAFETY: both bytes lie in the mapping.
        unsafe {
            address.add(3 * 4096).write_volatile(1);
            address.add(40 * 4096).read_volatile();
        }
        let touched = Touched::of_process(own, &memory).unwrap().unwrap();
        assert_eq!(touched.written, [(3, 1)]);
        // The kernel maps pages around the one that is read.
        let holds = |page: u32| {
            let mut runs = touched.read.iter();
            runs.any(|(first, count)| (*first..first + count).contains(&page))
        };
        assert!(holds(40) && !holds(3), "{touched:?}");
    }

    #[test]
    fn only_a_private_mapping_of_the_memory_counts() {
        let path = Path::new("/s n/memory");
        let parse = |kind: &str, path_there: &str| {
            let line =
                format!("7f0000200000-7f0000400000 rw-{kind} 00600000 00:01 7     {path_there}");
            Mapping::parse(line.as_bytes(), path)
        };
        let found = parse("p", "/s n/memory").unwrap();
        let expected = Mapping {
            address: 0x7f00_0020_0000,
            pages: 512,
            first_page: 0x600,
        };
        assert_eq!(found, expected);
        for (kind, other) in [
            ("s", "/s n/memory"),
            ("p", "/a b/s n/memory"),
            ("p", "/s n/memory (deleted)"),
            ("p", "[heap]"),
            ("p", ""),
        ] {
            assert_eq!(parse(kind, other), None, "{other}");
        }
        assert_eq!(Mapping::parse(b"", path), None);
    }

    #[test]
    fn many_runs_are_joined_until_they_fit() {
        assert_eq!(runs_of(&[1, 2, 3, 5, 9, 10]), [(1, 3), (5, 1), (9, 2)]);
        let pages: Vec<u32> = (0..3000).map(|at| at * 3).collect();
        let runs = runs_of(&pages);
        assert!(runs.len() <= MAX_RUNS && is_in_order(&runs, 9000));
        let holds = |page: &u32| {
            let mut runs = runs.iter();
            runs.any(|(first, count)| (*first..first + count).contains(page))
        };
        assert!(pages.iter().all(holds));
    }

    #[test]
    fn a_list_is_read_as_it_was_stored_and_one_that_does_not_fit_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(TOUCHED);
        let load_as = |bytes| Touched::load(File::open(&path).unwrap(), bytes);
        let load = || load_as(100 * PAGE_BYTES);
        let touched = Touched {
            written: vec![(1, 2)],
            read: vec![(0, 1), (98, 2)],
        };
        touched.store(folder.path()).unwrap();
        assert_eq!(load(), Some(touched));
        for wrong in [
            "",
            "{}",
            r#"{"written":[[1,0]],"read":[]}"#,
            r#"{"written":[[2,1],[1,1]],"read":[]}"#,
            r#"{"written":[],"read":[[99,2]]}"#,
            r#"{"written":[],"read":[[4294967295,4294967295]]}"#,
            r#"{"written":[],"read":[],"more":1}"#,
        ] {
            fs::write(&path, wrong).unwrap();
            assert_eq!(load(), None, "{wrong}");
        }
        let many: Vec<Run> = (0..=1024).map(|at| (at * 2, 1)).collect();
        let most = Touched {
            read: many[1..].to_vec(),
            ..Touched::default()
        };
        most.store(folder.path()).unwrap();
        let load = || load_as(1 << 40);
        assert_eq!(load(), Some(most));
        for beyond in [
            Touched {
                read: many,
                ..Touched::default()
            },
            Touched {
                written: vec![(0, 4097)],
                ..Touched::default()
            },
        ] {
            beyond.store(folder.path()).unwrap();
            assert_eq!(load(), None);
        }
    }
}
