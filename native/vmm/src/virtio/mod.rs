//! Virtio 1.2 over MMIO: the transport, the rings, and the one walker of descriptors that all devices use.

mod chain;
mod device;
mod failure;
mod interrupt;
mod ring;
mod transport;

pub use chain::{Buffers, Chain, MAX_DESCRIPTORS};
pub use device::{Device, Progress, Source};
pub use failure::Failure;
pub use interrupt::Interrupt;
pub use ring::{Ring, Rings};
pub use transport::{Transport, registers};

#[cfg(any(test, feature = "fuzzing"))]
pub mod driver;
#[cfg(test)]
mod hostile_tests;
#[cfg(any(test, feature = "fuzzing"))]
pub mod random;
