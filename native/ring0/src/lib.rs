//! A hostile guest kernel. It drives each device of the VMM wrongly from ring 0, by a list of cases.
//!
//! The crate is compiled twice. `build.rs` compiles it as the kernel, with the flag `ring0` and without the standard
//! library. The tests of the VMM use it as a library, which has the kernel's file and the list.
#![cfg(target_arch = "x86_64")]
#![cfg_attr(ring0, no_std, no_main)]
#![cfg_attr(not(ring0), allow(dead_code))] // Only the kernel runs the cases.

#[cfg(ring0)]
mod boot;
mod cases;
mod console;
mod cpu;
#[cfg(ring0)]
mod program;
mod virtio;

pub use cases::{Case, Expected, GROUPS, Scope, cases};

/// The ELF file of the kernel, with the note of PVH. Its command line is a group, or the name of a case.
#[cfg(not(ring0))]
pub const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ring0"));

/// The memory of its VM.
pub const MEMORY_BYTES: u64 = 64 << 20;
/// A word of the command line before a number: the kernel tries each port whose number is a multiple of it.
pub const PORT_STEP: &str = "step=";
