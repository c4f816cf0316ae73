//! The control groups of a VM. They limit its CPU and its memory, if a group of the host is delegated to the keeper.

mod facts;
mod find;
mod group;

pub use facts::Unlimited;
pub use find::Machine;
pub use group::{Group, Limits, remove_left};
