//! The virtual CPUs: one thread each.

mod exits;
mod gate;
mod team;

pub use exits::Machine;
pub use team::Team;
