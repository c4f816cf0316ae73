//! 64-bit ARM: the place of its [`Processor`](super::Processor), which does not exist yet.
//!
//! A guest there boots by the 64-bit protocol of Linux's `Image` and finds its devices in a device tree. Its interrupt
//! controller is a GICv3, its console a PL011 or COM1 by addresses, and it resets by PSCI.

compile_error!("voidbox-vmm runs guests on x86_64 only");
