//! The identity of a copy of a VM (VMGENID). The guest's kernel mixes it into its random numbers, so two copies of one VM
//! do not have the same ones.

use std::io;

use vm_memory::{Bytes, GuestAddress};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::arch::layout;
use crate::guest_memory::GuestMemory;

/// The length of an identity, as Microsoft's specification has it.
pub const BYTES: usize = 16;

/// The identity, which lies in the guest's memory, and the interrupt that tells of its change.
pub struct Generation {
    interrupt: EventFd,
}

impl Generation {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: EventFd::new(EFD_NONBLOCK)?,
        })
    }

    /// Returns the descriptor that raises the interrupt.
    pub fn interrupt(&self) -> &EventFd {
        &self.interrupt
    }

    /// Gives a VM that boots its identity.
    pub fn begin(&self, memory: &GuestMemory) -> io::Result<()> {
        let mut identity = [0; BYTES];
        random(&mut identity)?;
        memory
            .write_slice(&identity, GuestAddress(layout::GENERATION))
            .map_err(io::Error::other)
    }

    /// Gives a copy of a VM another identity, and tells its guest. The interrupt controllers have their state already, and
    /// no CPU runs.
    pub fn change(&self, memory: &GuestMemory) -> io::Result<()> {
        self.begin(memory)?;
        self.interrupt.write(1)
    }
}

/// Fills the bytes with random ones.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    // SAFETY: the pointer is valid for the length. So few bytes come at once.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match usize::try_from(count) {
        Ok(count) if count == bytes.len() => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(memory: &GuestMemory) -> [u8; BYTES] {
        memory.read_obj(GuestAddress(layout::GENERATION)).unwrap()
    }

    #[test]
    fn a_copy_has_another_identity_and_its_guest_learns_of_it() {
        let memory = GuestMemory::from_ranges(&[(GuestAddress(0), 0x10_0000)]).unwrap();
        let generation = Generation::new().unwrap();
        generation.begin(&memory).unwrap();
        let first = read(&memory);
        assert_ne!(first, [0; BYTES]);
        assert!(
            generation.interrupt().read().is_err(),
            "a boot is no change"
        );
        generation.change(&memory).unwrap();
        assert_ne!(read(&memory), first);
        assert_eq!(generation.interrupt().read().unwrap(), 1);
    }
}
