//! The virtio devices of a VM.

pub mod block;
pub mod folders;
pub mod rng;
pub mod vsock;
