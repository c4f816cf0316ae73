//! The agent's allocator keeps blocks of about a frame's size for the next frame.
//!
//! musl maps and unmaps each block of this size, so each 64 KiB of a transfer would cause new page faults. Under an
//! emulated CPU, they are most of the cost of a transfer.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::Mutex;

use crate::lock::lock;

/// The block holds a frame of the longest chunk with its head.
const BLOCK_BYTES: usize = 72 << 10;
/// The system's allocator serves smaller requests.
const SMALLEST_BYTES: usize = 16 << 10;
const BLOCK_ALIGN: usize = 16;
/// The number of kept blocks; the others are returned to the system.
const KEPT_BLOCKS: usize = 32;

const BLOCK: Layout = match Layout::from_size_align(BLOCK_BYTES, BLOCK_ALIGN) {
    Ok(layout) => layout,
    Err(_) => panic!("the block's layout is valid"),
};

struct Kept {
    blocks: [*mut u8; KEPT_BLOCKS],
    count: usize,
}

// SAFETY: a kept block has no owner, so any thread may take it.
unsafe impl Send for Kept {}

pub struct BlockCache {
    kept: Mutex<Kept>,
}

impl BlockCache {
    pub const fn new() -> Self {
        Self {
            kept: Mutex::new(Kept {
                blocks: [ptr::null_mut(); KEPT_BLOCKS],
                count: 0,
            }),
        }
    }

    fn take(&self) -> Option<*mut u8> {
        let mut kept = lock(&self.kept);
        kept.count = kept.count.checked_sub(1)?;
        Some(kept.blocks[kept.count])
    }

    /// Returns false if enough blocks are kept.
    fn keep(&self, block: *mut u8) -> bool {
        let mut kept = lock(&self.kept);
        let count = kept.count;
        if count == KEPT_BLOCKS {
            return false;
        }
        kept.blocks[count] = block;
        kept.count = count + 1;
        true
    }
}

fn is_block(layout: Layout) -> bool {
    (SMALLEST_BYTES..=BLOCK_BYTES).contains(&layout.size()) && layout.align() <= BLOCK_ALIGN
}

// SAFETY: a layout is either the system's own from first to last, or always the whole block's. A block has at most one
// owner, because it leaves `kept` when it is handed out.
unsafe impl GlobalAlloc for BlockCache {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !is_block(layout) {
            // SAFETY: the caller's promise about `layout`.
            return unsafe { System.alloc(layout) };
        }
        // SAFETY: the block's size is not zero.
        self.take()
            .unwrap_or_else(|| unsafe { System.alloc(BLOCK) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if !is_block(layout) {
            // SAFETY: it came from the system with this layout.
            unsafe { System.dealloc(pointer, layout) };
        } else if !self.keep(pointer) {
            // SAFETY: every block came from the system with the block's layout.
            unsafe { System.dealloc(pointer, BLOCK) };
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises a size that is valid with this alignment.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match (is_block(layout), is_block(new_layout)) {
            (true, true) => pointer,
            // SAFETY: the old and the new memory are both the system's.
            (false, false) => unsafe { System.realloc(pointer, layout, new_size) },
            _ => {
                // SAFETY: both layouts are valid; the two do not overlap and both have the bytes.
                unsafe {
                    let moved = self.alloc(new_layout);
                    if !moved.is_null() {
                        ptr::copy_nonoverlapping(pointer, moved, layout.size().min(new_size));
                        self.dealloc(pointer, layout);
                    }
                    moved
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 1).unwrap()
    }

    #[test]
    fn a_freed_block_is_given_out_again_and_enough_are_kept() {
        let cache = BlockCache::new();
        // SAFETY: each pointer is used within its layout and freed once with it.
        unsafe {
            let block = cache.alloc(layout(64 << 10));
            cache.dealloc(block, layout(64 << 10));
            let again = cache.alloc(layout(SMALLEST_BYTES));
            assert_eq!(block, again);
            let others: Vec<_> = (0..2 * KEPT_BLOCKS)
                .map(|_| cache.alloc(layout(BLOCK_BYTES)))
                .collect();
            assert!(!others.contains(&again));
            for block in others {
                cache.dealloc(block, layout(BLOCK_BYTES));
            }
            assert_eq!(lock(&cache.kept).count, KEPT_BLOCKS);
            cache.dealloc(again, layout(SMALLEST_BYTES));
        }
    }

    #[test]
    fn bytes_stay_when_memory_grows_and_shrinks_across_the_classes() {
        let cache = BlockCache::new();
        let sizes = [
            1,
            SMALLEST_BYTES - 1,
            SMALLEST_BYTES,
            BLOCK_BYTES,
            BLOCK_BYTES + 1,
            20,
            BLOCK_BYTES,
        ];
        // SAFETY: the pointer is always the last answer, with the layout it was asked for.
        unsafe {
            let mut size = 10;
            let mut pointer = cache.alloc(layout(size));
            pointer.write(7);
            for new_size in sizes {
                pointer = cache.realloc(pointer, layout(size), new_size);
                size = new_size;
                assert_eq!(pointer.read(), 7, "at {size}");
                pointer.add(size - 1).write(7);
            }
            cache.dealloc(pointer, layout(size));
        }
    }
}
