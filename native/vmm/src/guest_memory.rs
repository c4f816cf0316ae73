//! The guest's memory as devices see it. It knows the pages that this process wrote; KVM knows those of the guest.

use vm_memory::bitmap::{AtomicBitmap, RefSlice};
use vm_memory::{GuestMemoryMmap, VolatileSlice};

/// All memory of a guest.
pub type GuestMemory = GuestMemoryMmap<AtomicBitmap>;

/// A range of it. A write through a pointer of its own marks the range itself.
pub type GuestSlice<'a> = VolatileSlice<'a, RefSlice<'a, AtomicBitmap>>;
