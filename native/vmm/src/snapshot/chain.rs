//! The files of a saved VM, as they are read: a base and its differences.

use std::fs::File;
use std::io;

use super::head::{Head, Shape};
use super::link::{SnapshotId, check_chain};
use super::save::Files;
use crate::config::PageRun;
use crate::memory::Ram;
use crate::page_file;
use crate::state::{self, Reader, StateError};

/// A state, and the file with its pages.
pub struct SavedLink {
    pub state: Vec<u8>,
    pub memory: File,
}

/// A part of a chain that is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct ChainError {
    /// The number of the link; the base is 0.
    pub link: usize,
    /// Its memory file is refused, and not its state.
    pub is_memory: bool,
    pub text: String,
}

impl ChainError {
    pub fn state(link: usize, error: StateError) -> Self {
        Self {
            link,
            is_memory: false,
            text: error.0,
        }
    }

    pub fn memory(link: usize, error: impl std::fmt::Display) -> Self {
        Self {
            link,
            is_memory: true,
            text: error.to_string(),
        }
    }
}

/// A chain whose links fit to each other. Its pages are not checked yet.
#[derive(Debug)]
pub struct Chain {
    heads: Vec<Head>,
}

impl Chain {
    /// Reads the beginning of each state. There is at least one.
    pub fn open(links: &[SavedLink]) -> Result<Self, ChainError> {
        let heads: Vec<Head> = (0..)
            .zip(links)
            .map(|(at, link)| {
                let head = Reader::open(&link.state).and_then(|mut from| Head::read(&mut from));
                head.map_err(|error| ChainError::state(at, error))
            })
            .collect::<Result<_, _>>()?;
        let Some(newest) = heads.last() else {
            let nothing = StateError::new("a chain without a link");
            return Err(ChainError::state(0, nothing));
        };
        for (at, head) in heads.iter().enumerate() {
            head.check_like(newest.memory_bytes, &newest.template)
                .map_err(|error| ChainError::state(at, error))?;
        }
        check_chain(heads.iter().map(|head| &head.link))
            .map_err(|(at, error)| ChainError::state(at, error))?;
        Ok(Self { heads })
    }

    /// Fails unless a VM of this shape can continue from the chain.
    pub fn check(&self, shape: &Shape) -> Result<(), ChainError> {
        let newest = self.heads.len() - 1;
        let checked = self.newest().check(shape);
        checked.map_err(|error| ChainError::state(newest, error))
    }

    pub fn newest(&self) -> &Head {
        // A chain has a link.
        &self.heads[self.heads.len() - 1]
    }

    /// Returns the name of the newest link, and the number of links.
    pub fn tip(&self) -> (SnapshotId, usize) {
        (self.newest().link.id, self.heads.len())
    }

    /// Puts the pages of all differences over those of the base, which the memory has.
    pub fn load(&self, links: &[SavedLink], ram: &Ram) -> Result<(), ChainError> {
        self.each_difference(links, |memory, runs| page_file::load(ram, memory, runs))
    }

    /// Lets `take` read the pages of each difference in order, and compares the checksum that it returns.
    pub(super) fn each_difference(
        &self,
        links: &[SavedLink],
        take: impl Fn(&File, &[PageRun]) -> io::Result<u32>,
    ) -> Result<(), ChainError> {
        for (at, (head, link)) in self.heads.iter().zip(links).enumerate() {
            let Some(diff) = &head.link.diff else {
                continue;
            };
            let found =
                take(&link.memory, &diff.runs).map_err(|error| ChainError::memory(at, error))?;
            if found != diff.sum {
                let text = format!(
                    "the checksum of its pages is {found:#010x}, expected {:#010x}",
                    diff.sum
                );
                return Err(ChainError::memory(at, text));
            }
        }
        Ok(())
    }
}

/// Reads the states of a chain.
pub fn read_links(files: Vec<Files>) -> Result<Vec<SavedLink>, ChainError> {
    let read = |(at, Files { state, memory })| {
        let state = state::read_all(state);
        let state = state.map_err(|e| ChainError::state(at, StateError::new(e.to_string())))?;
        Ok(SavedLink { state, memory })
    };
    files.into_iter().enumerate().map(read).collect()
}
