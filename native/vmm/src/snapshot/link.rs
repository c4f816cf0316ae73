//! The place of a state in its chain: a base, and the differences behind it.

use std::fmt;

use crate::config::{MAX_DIFFS, MEMORY_MIB, PageRun};
use crate::state::{Reader, StateError, Writer};

/// The limit of a chain: a base and its differences.
pub const MAX_LINKS: usize = MAX_DIFFS + 1;
/// The limit of the runs of a difference. They need 2 MiB of its state.
pub const MAX_RUNS: usize = 256 << 10;

/// The name of a saved state, which no other state has. The result of a merge keeps that of the newest link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotId(pub u128);

impl fmt::Display for SnapshotId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:032x}", self.0)
    }
}

impl SnapshotId {
    fn write(self, to: &mut Writer) {
        to.structure(&self.0.to_le_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, StateError> {
        from.structure()
            .map(|bytes| Self(u128::from_le_bytes(bytes)))
    }
}

/// A state's own name, and what its memory file contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub id: SnapshotId,
    /// Absent in a base, whose file contains all memory.
    pub diff: Option<Diff>,
}

/// The part of a memory that changed since another state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    pub parent: SnapshotId,
    /// The pages of the file, in order. The parent has all others.
    pub runs: Vec<PageRun>,
    /// The CRC-32 of these pages, in order.
    pub sum: u32,
}

impl Link {
    pub fn write(&self, to: &mut Writer) {
        self.id.write(to);
        to.flag(self.diff.is_some());
        let Some(diff) = &self.diff else { return };
        diff.parent.write(to);
        to.u32(diff.sum);
        to.count(diff.runs.len());
        for (first, count) in &diff.runs {
            to.u32(*first);
            to.u32(*count);
        }
    }

    /// Reads the link of a state with so much memory.
    pub fn read(from: &mut Reader<'_>, memory_bytes: u64) -> Result<Self, StateError> {
        let id = SnapshotId::read(from)?;
        if !from.flag()? {
            return Ok(Self { id, diff: None });
        }
        let (parent, sum) = (SnapshotId::read(from)?, from.u32()?);
        let count = from.count(MAX_RUNS, "runs of pages")?;
        let mut runs = Vec::new();
        let mut end = 0;
        for _ in 0..count {
            let (first, count) = (from.u32()?, from.u32()?);
            let next = u64::from(first) + u64::from(count);
            if u64::from(first) < end || count == 0 || next * 4096 > memory_bytes {
                return Err(StateError::new(format!(
                    "{count} pages from {first}; runs in order, of {} pages",
                    memory_bytes / 4096
                )));
            }
            end = next;
            runs.push((first, count));
        }
        let diff = Some(Diff { parent, runs, sum });
        Ok(Self { id, diff })
    }
}

/// Fails unless these links are a base and its differences, each with the one before it as its parent. The error has the
/// number of the link.
pub fn check_chain<'a>(
    links: impl ExactSizeIterator<Item = &'a Link>,
) -> Result<(), (usize, StateError)> {
    if links.len() > MAX_LINKS {
        let text = format!("a chain of {} links; at most {MAX_LINKS}", links.len());
        return Err((MAX_LINKS, StateError::new(text)));
    }
    let mut before = None;
    for (at, link) in links.enumerate() {
        let parent = link.diff.as_ref().map(|diff| diff.parent);
        if parent != before {
            let name = |id: Option<SnapshotId>| match id {
                Some(id) => format!("the pages that changed since {id}"),
                None => "all pages".into(),
            };
            let text = format!("it has {}, expected {}", name(parent), name(before));
            return Err((at, StateError::new(text)));
        }
        before = Some(link.id);
    }
    Ok(())
}

/// Checks the size of a memory that a state names.
pub fn check_memory(bytes: u64) -> Result<(), StateError> {
    let mib = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
    if bytes % (1 << 20) == 0 && MEMORY_MIB.contains(&mib) {
        return Ok(());
    }
    Err(StateError::new(format!("a memory of {bytes} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 64 << 20;
    const PAGES: u32 = 16_384;

    fn link(id: u128, parent: Option<u128>, runs: Vec<PageRun>) -> Link {
        let diff = parent.map(|parent| Diff {
            parent: SnapshotId(parent),
            runs,
            sum: 7,
        });
        Link {
            id: SnapshotId(id),
            diff,
        }
    }

    fn round_trip(link: &Link) -> Result<Link, StateError> {
        let mut to = Writer::new();
        link.write(&mut to);
        let state = to.finish()?;
        let mut from = Reader::open(&state)?;
        let read = Link::read(&mut from, MEMORY)?;
        from.end()?;
        Ok(read)
    }

    #[test]
    fn a_base_and_a_difference_are_the_same_after_a_round_trip() {
        let most = (0..PAGES / 2).map(|at| (at * 2, 1)).collect();
        for link in [
            link(u128::MAX, None, Vec::new()),
            link(1, Some(2), Vec::new()),
            link(3, Some(u128::MAX - 1), vec![(0, 1), (1, 2), (PAGES - 1, 1)]),
            link(5, Some(4), most),
        ] {
            assert_eq!(round_trip(&link), Ok(link));
        }
    }

    #[test]
    fn runs_that_are_empty_in_another_order_or_beyond_the_memory_are_refused() {
        for runs in [
            vec![(3, 0)],
            vec![(3, 2), (4, 1)],
            vec![(4, 1), (3, 1)],
            vec![(PAGES - 1, 2)],
            vec![(u32::MAX, u32::MAX)],
            vec![(0, u32::MAX)],
        ] {
            let error = round_trip(&link(1, Some(2), runs)).unwrap_err();
            assert!(error.0.contains("of 16384 pages"), "{error}");
        }
    }

    #[test]
    fn a_difference_has_at_most_its_limit_of_runs() {
        let runs = |count: usize| (0..).map(|at| (at * 2, 1)).take(count).collect();
        let read = |count| {
            let mut to = Writer::new();
            link(1, Some(2), runs(count)).write(&mut to);
            let state = to.finish()?;
            Link::read(&mut Reader::open(&state)?, 8 << 30)
        };
        assert!(read(MAX_RUNS).is_ok());
        let error = read(MAX_RUNS + 1).unwrap_err();
        assert!(error.0.contains("at most 262144"), "{error}");
    }

    #[test]
    fn a_chain_begins_with_a_base_and_each_link_names_the_one_before_it() {
        let chain = |parents: &[Option<u128>]| {
            let links: Vec<Link> = (1..)
                .zip(parents)
                .map(|(id, parent)| link(id, *parent, Vec::new()))
                .collect();
            check_chain(links.iter()).map_err(|(at, error)| (at, error.0))
        };
        let whole: Vec<Option<u128>> = (0..8).map(|id| Some(id).filter(|id| *id > 0)).collect();
        assert_eq!(chain(&whole), Ok(()));
        let longer = [&whole[..], &[Some(8)]].concat();
        let (at, text) = chain(&longer).unwrap_err();
        assert_eq!((at, text.as_str()), (8, "a chain of 9 links; at most 8"));
        // No base, two bases, a link that is missing, two in the wrong order, a link that is its own parent.
        for (parents, wrong) in [
            (&[Some(9)][..], 0),
            (&[None, None], 1),
            (&[None, Some(1), Some(1)], 2),
            (&[None, Some(2), Some(1)], 1),
        ] {
            let (at, text) = chain(parents).unwrap_err();
            assert_eq!(at, wrong, "{parents:?}");
            assert!(text.contains("expected"), "{text}");
        }
    }

    #[test]
    fn a_memory_has_whole_mebibytes_within_the_limits() {
        for good in [64 << 20, 65 << 20, 1 << 40] {
            assert_eq!(check_memory(good), Ok(()));
        }
        for bad in [0, 63 << 20, (64 << 20) + 1, (1 << 40) + (1 << 20), u64::MAX] {
            check_memory(bad).unwrap_err();
        }
    }
}
