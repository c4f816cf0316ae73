//! Zeros memory that the kernel has freed, because a snapshot of the guest contains each page that is not zero.
//!
//! The kernel fills its own start code and the initramfs with a pattern when it frees them. A page that a process gets
//! is zero. The kernel hands out the pages first that it freed last, and the largest free blocks, which no boot has
//! written, at the end.

use std::io;
use std::ptr;

/// The freed pages that are not zero, and few others: about 15 MiB with Debian's kernel.
const BYTES: usize = 16 << 20;

/// Gets the pages, and returns them.
pub fn zero_freed_memory() -> io::Result<()> {
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping that nothing else uses, until it is unmapped.
    unsafe {
        let pages = libc::mmap(ptr::null_mut(), BYTES, access, kind, -1, 0);
        if pages == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A huge page would be one of the blocks that no boot has written. A kernel without huge pages refuses this.
        libc::madvise(pages, BYTES, libc::MADV_NOHUGEPAGE);
        let populated = match libc::madvise(pages, BYTES, libc::MADV_POPULATE_WRITE) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        };
        libc::munmap(pages, BYTES);
        populated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_free_again() {
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
            pages * 4096
        };
        let before = resident();
        zero_freed_memory().unwrap();
        assert!(resident() < before + BYTES / 2);
    }
}
