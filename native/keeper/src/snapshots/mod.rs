//! Snapshots of booted guests that wait for `Start`: their keys, their folder, and how one is written and read.
//!
//! A snapshot holds no program and no data of a user. Only the keeper opens its files: a VMM writes and reads a snapshot
//! through a pipe, so that no VMM can change what another one starts from.

mod key;
mod pipe;
mod store;

pub use key::{Key, KeyParts, file_identity};
pub use pipe::{Reading, Writing};
pub use store::{Found, Lookup, Making, Record, Store};
