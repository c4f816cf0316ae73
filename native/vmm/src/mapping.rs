//! Memory of this process for a guest.

use std::io;

/// The size of a huge page. Guest and host addresses are equal modulo this, so that one entry of a page table maps it.
pub const HUGE_PAGE: usize = 2 << 20;

/// A piece of memory at its addresses in the guest and here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    pub guest: u64,
    pub size: u64,
    pub host: u64,
}

/// Memory of this process.
pub struct Mapping {
    address: *mut libc::c_void,
    size: usize,
}

// SAFETY: the mapping is only unmapped, once, by its owner.
unsafe impl Send for Mapping {}
// SAFETY: nothing is reachable through a shared reference.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `Mapping::new`, and nothing else unmaps it.
        unsafe { libc::munmap(self.address, self.size) };
    }
}

impl Mapping {
    /// Reserves private memory whose pages appear at their first use.
    pub fn new(size: usize) -> io::Result<Self> {
        Self::with_rights(size, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Reserves memory that reads as zeros.
    pub fn read_only(size: usize) -> io::Result<Self> {
        Self::with_rights(size, libc::PROT_READ)
    }

    fn with_rights(size: usize, rights: libc::c_int) -> io::Result<Self> {
        // SAFETY: a new private mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                rights,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { address, size })
    }

    /// Returns the first address that begins a huge page.
    pub fn first_huge_page(&self) -> *mut libc::c_void {
        (self.address as usize).next_multiple_of(HUGE_PAGE) as *mut libc::c_void
    }
}
