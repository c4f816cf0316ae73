//! The virtio devices of a VM.

pub mod balloon;
pub mod block;
pub mod folders;
pub mod pmem;
pub mod rng;
#[cfg(test)]
mod saved_tests;
pub mod vsock;
