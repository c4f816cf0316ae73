//! A chain that becomes a base. No VM takes part.

use super::chain::{Chain, ChainError, SavedLink};
use super::head::Head;
use super::link::Link;
use super::save::Files;
use crate::page_file;
use crate::state::{Reader, StateError, Writer};

/// Why a chain was not merged: a link of it, or the files of the result.
#[derive(Debug, PartialEq, Eq)]
pub enum MergeError {
    Chain(ChainError),
    Result(String),
}

impl From<ChainError> for MergeError {
    fn from(error: ChainError) -> Self {
        Self::Chain(error)
    }
}

/// Writes the newest state of a chain as a base, with all memory. The result has the name of the newest link, so later
/// differences continue from it. After a failure the files of the result are of no use.
pub fn merge(links: &[SavedLink], into: &Files) -> Result<(), MergeError> {
    let chain = Chain::open(links)?;
    let newest = chain.newest();
    for (at, link) in links.iter().enumerate() {
        page_file::check_size(&link.memory, newest.memory_bytes)
            .map_err(|text| ChainError::memory(at, text))?;
    }
    page_file::check_size(&into.memory, newest.memory_bytes).map_err(MergeError::Result)?;
    let base = page_file::copy(&links[0].memory, &into.memory, newest.memory_bytes);
    base.map_err(|e| MergeError::Result(format!("copying the base: {e}")))?;
    chain.each_difference(links, |memory, runs| {
        page_file::put(memory, &into.memory, runs)
    })?;
    let state = rebase(&links[links.len() - 1].state)
        .map_err(|error| ChainError::state(links.len() - 1, error))?;
    std::io::Write::write_all(&mut (&into.state), &state)
        .map_err(|e| MergeError::Result(format!("writing the state: {e}")))
}

/// Returns the state of a difference as one of a base.
fn rebase(state: &[u8]) -> Result<Vec<u8>, StateError> {
    let mut from = Reader::open(state)?;
    let head = Head::read(&mut from)?;
    let mut to = Writer::new();
    let link = Link {
        id: head.link.id,
        diff: None,
    };
    Head { link, ..head }.write(&mut to);
    to.rest(from);
    to.finish()
}
