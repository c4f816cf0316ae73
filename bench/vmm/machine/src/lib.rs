//! The constants and the counters that the programs of this package share.

pub mod counters;

/// The line that a guest's first program prints on its console.
pub const MARKER: &str = "voidbox-bench: init runs";
/// The port of the host to which the guest's first program connects.
pub const PORT: u32 = 1024;
