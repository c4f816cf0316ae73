//! Snapshots of booted guests that wait for `Start`: their keys, their folder, and how one is written and read.
//!
//! A snapshot holds no program and no data of a user. Only the keeper opens its files: a VMM writes and reads the state
//! of devices through a pipe, and maps memory that no process can change. So no VMM can change what another one starts
//! from.

mod holders;
mod key;
pub mod memory;
mod namespaces;
mod pipe;
mod store;
mod touched;

pub use key::{Key, KeyParts, file_identity};
pub use namespaces::{Namespace, own_namespace};
pub use pipe::{Reading, Writing};
pub use store::{Found, Lookup, Making, Record, Store};
pub use touched::Touched;
