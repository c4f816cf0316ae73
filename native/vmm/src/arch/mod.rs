//! The parts that depend on the processor. Another architecture is another folder with the same functions and a `layout`.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("voidbox-vmm runs guests on x86_64 only");
