//! A VM as it is saved and restored: its CPUs, what they share, its devices and its memory.
//!
//! The state of a VM names its place in a chain. A base has all memory; each difference has the pages that changed since
//! the link before it.

mod chain;
mod head;
mod link;
mod merge;
mod pages;
mod restore;
mod save;

pub use chain::{Chain, ChainError, SavedLink, read_links};
pub use head::Shape;
pub use link::SnapshotId;
pub use merge::{MergeError, merge};
pub use restore::Restoring;
pub use save::{Files, Parts, Saver};
