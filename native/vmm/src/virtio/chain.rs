//! The walker of descriptors: the only code that follows what a guest wrote into a table of descriptors.

use virtio_queue::desc::split::Descriptor;
use vm_memory::bitmap::Bitmap;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};

use super::failure::Failure;
use crate::guest_memory::{GuestMemory, GuestSlice};

/// The limit of descriptors in a chain, also in a table of their own. No queue is longer.
pub const MAX_DESCRIPTORS: usize = 256;

const DESCRIPTOR_BYTES: u32 = 16;

/// A buffer of the guest. The whole of it lies in one piece of the guest's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    address: GuestAddress,
    length: u32,
}

/// The buffers of one request: first those that the device reads, then those that it writes.
#[derive(Debug)]
pub struct Chain {
    head: u16,
    segments: Vec<Segment>,
    /// The number of segments that the device reads.
    readable: usize,
}

/// A place from which descriptors are read.
#[derive(Clone, Copy)]
struct Table {
    address: GuestAddress,
    entries: u32,
}

impl Table {
    fn read(self, memory: &GuestMemory, index: u32) -> Result<Descriptor, Failure> {
        if index >= self.entries {
            return Err(Failure::new(format!(
                "the descriptor {index} of a table with {}",
                self.entries
            )));
        }
        let offset = u64::from(index) * u64::from(DESCRIPTOR_BYTES);
        self.address
            .0
            .checked_add(offset)
            .and_then(|address| memory.read_obj(GuestAddress(address)).ok())
            .ok_or_else(|| Failure::new("a table of descriptors outside of the memory"))
    }
}

impl Chain {
    /// Makes an empty chain. The walker never allocates more for it.
    pub fn new() -> Self {
        Self {
            head: 0,
            segments: Vec::with_capacity(MAX_DESCRIPTORS),
            readable: 0,
        }
    }

    /// Reads the chain that begins at `head` in a table of `size` descriptors.
    pub(super) fn walk(
        &mut self,
        memory: &GuestMemory,
        table: GuestAddress,
        size: u16,
        head: u16,
    ) -> Result<(), Failure> {
        self.head = head;
        self.segments.clear();
        self.readable = 0;
        let mut table = Table {
            address: table,
            entries: size.into(),
        };
        let mut index = u32::from(head);
        let mut indirect = false;
        let mut total = 0u32;
        // A chain has no descriptor twice, so one longer than its table has a loop.
        let mut left = table.entries;
        while left > 0 {
            let descriptor = table.read(memory, index)?;
            if descriptor.refers_to_indirect_table() {
                table = check_indirect(&descriptor, indirect)?;
                indirect = true;
                index = 0;
                left = table.entries;
                continue;
            }
            left -= 1;
            total = total
                .checked_add(descriptor.len())
                .ok_or_else(|| Failure::new("a chain of 4 GiB or more"))?;
            self.push(memory, &descriptor)?;
            if !descriptor.has_next() {
                return Ok(());
            }
            index = descriptor.next().into();
        }
        Err(Failure::new("a chain without an end"))
    }

    fn push(&mut self, memory: &GuestMemory, descriptor: &Descriptor) -> Result<(), Failure> {
        let (address, length) = (descriptor.addr(), descriptor.len());
        if self.segments.len() == MAX_DESCRIPTORS {
            return Err(Failure::new(format!(
                "a chain of more than {MAX_DESCRIPTORS} descriptors"
            )));
        }
        if length == 0 {
            return Err(Failure::new("a buffer without bytes"));
        }
        let is_written = descriptor.is_write_only();
        if slice(memory, address, length as usize, is_written).is_none() {
            return Err(Failure::new(format!(
                "a buffer outside of the memory: {length} bytes at {:#x}",
                address.0
            )));
        }
        if !is_written {
            if self.readable < self.segments.len() {
                return Err(Failure::new("a buffer to read behind one to write"));
            }
            self.readable += 1;
        }
        self.segments.push(Segment { address, length });
        Ok(())
    }

    /// Returns the number by which the guest knows the chain.
    pub fn head(&self) -> u16 {
        self.head
    }

    /// Returns the buffers that the device reads.
    pub fn readable<'a>(&'a self, memory: &'a GuestMemory) -> Buffers<'a> {
        Buffers {
            memory,
            segments: &self.segments[..self.readable],
            is_written: false,
        }
    }

    /// Returns the buffers that the device writes.
    pub fn writable<'a>(&'a self, memory: &'a GuestMemory) -> Buffers<'a> {
        Buffers {
            memory,
            segments: &self.segments[self.readable..],
            is_written: true,
        }
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

fn check_indirect(descriptor: &Descriptor, within: bool) -> Result<Table, Failure> {
    if within {
        return Err(Failure::new("a table within a table of descriptors"));
    }
    if descriptor.has_next() {
        return Err(Failure::new("a table of descriptors with a next one"));
    }
    let entries = descriptor.len() / DESCRIPTOR_BYTES;
    if descriptor.len() % DESCRIPTOR_BYTES != 0 || entries == 0 {
        return Err(Failure::new(format!(
            "a table of descriptors of {} bytes",
            descriptor.len()
        )));
    }
    Ok(Table {
        address: descriptor.addr(),
        entries,
    })
}

/// Returns a range of the guest's memory, if all of it is in one piece. A file that the guest can only read is no memory
/// that a device writes.
pub(super) fn slice(
    memory: &GuestMemory,
    address: GuestAddress,
    length: usize,
    is_written: bool,
) -> Option<GuestSlice<'_>> {
    let region = memory.find_region(address)?;
    if is_written && region.prot() & libc::PROT_WRITE == 0 {
        return None;
    }
    let offset = address.0.checked_sub(region.start_addr().0)?;
    region
        .get_slice(vm_memory::MemoryRegionAddress(offset), length)
        .ok()
}

/// Buffers of a guest, as one range of bytes. The guest may change their bytes at any time.
#[derive(Clone, Copy)]
pub struct Buffers<'a> {
    memory: &'a GuestMemory,
    segments: &'a [Segment],
    /// The device writes them, also through pointers.
    is_written: bool,
}

impl<'a> Buffers<'a> {
    /// Returns the number of bytes: below 4 GiB.
    pub fn len(&self) -> u32 {
        // The walker added them up.
        self.segments.iter().map(|segment| segment.length).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns the same buffers for a device that writes none of their bytes.
    #[must_use]
    pub fn left_alone(self) -> Self {
        Self {
            is_written: false,
            ..self
        }
    }

    /// Copies `bytes.len()` bytes from `offset` out of the guest. Returns false if there are fewer.
    pub fn read(&self, offset: u32, bytes: &mut [u8]) -> bool {
        let mut rest = bytes;
        for slice in self.slices(offset, rest.len()) {
            let (now, later) = rest.split_at_mut(slice.len());
            slice.copy_to(now);
            rest = later;
        }
        rest.is_empty()
    }

    /// Copies `bytes` into the guest from `offset` on. Returns false if there is less room.
    pub fn write(&self, offset: u32, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        for slice in self.slices(offset, rest.len()) {
            let (now, later) = rest.split_at(slice.len());
            slice.copy_from(now);
            rest = later;
        }
        rest.is_empty()
    }

    /// Returns the pieces of memory of at most `length` bytes from `offset` on. Those that a device may write count as
    /// written from now on, so the write must happen in the same turn.
    pub fn slices(
        &self,
        offset: u32,
        length: usize,
    ) -> impl Iterator<Item = GuestSlice<'a>> + use<'a> {
        let (memory, is_written) = (self.memory, self.is_written);
        let mut skip = offset as usize;
        let mut left = length;
        self.segments.iter().filter_map(move |segment| {
            let size = segment.length as usize;
            let from = skip.min(size);
            skip -= from;
            let take = (size - from).min(left);
            if take == 0 {
                return None;
            }
            left -= take;
            let address = GuestAddress(segment.address.0 + from as u64);
            let piece = slice(memory, address, take, is_written)?;
            if is_written {
                piece.bitmap().mark_dirty(0, take);
            }
            Some(piece)
        })
    }

    /// Fills `vectors` with the same pieces as [`Self::slices`], for one call of the kernel, and returns their bytes.
    ///
    /// The pointers are valid for as long as the guest's memory is.
    pub fn vectors(&self, offset: u32, length: usize, vectors: &mut Vec<libc::iovec>) -> usize {
        vectors.clear();
        let mut total = 0;
        for slice in self.slices(offset, length) {
            total += slice.len();
            vectors.push(libc::iovec {
                iov_base: slice.ptr_guard_mut().as_ptr().cast(),
                iov_len: slice.len(),
            });
        }
        total
    }
}
