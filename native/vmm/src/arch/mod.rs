//! The parts that depend on the processor. Each architecture is a folder with an implementation of [`Processor`] and a
//! `layout` of addresses.

mod processor;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use processor::{Boot, Processor};
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("voidbox-vmm runs guests on x86_64 only");
