//! The rings of a queue, and the turns in which devices take buffers.

use virtio_queue::{Error, Queue, QueueOwnedT, QueueState, QueueT};
use vm_memory::GuestAddress;

use super::chain::{Chain, slice};
use super::failure::Failure;
use super::interrupt::Interrupt;
use crate::guest_memory::GuestMemory;
use crate::state::{Reader, StateError, Writer};

/// The addresses of a queue, which the guest sets before the device starts.
#[derive(Debug, Clone, Copy, Default)]
pub struct RingAddresses {
    pub descriptors: u64,
    pub available: u64,
    pub used: u64,
}

/// The bytes of a used ring beside its elements: flags, index, and the index of the next wanted kick.
const USED_FIELDS_BYTES: usize = 6;
const USED_ELEMENT_BYTES: usize = 8;

/// Whether all rings lie in the memory, and the one that the device writes where it may write.
fn is_within(queue: &Queue, memory: &GuestMemory) -> bool {
    let used = USED_FIELDS_BYTES + USED_ELEMENT_BYTES * usize::from(queue.size());
    queue.is_valid(memory) && slice(memory, GuestAddress(queue.used_ring()), used, true).is_some()
}

/// A queue.
pub struct Ring {
    queue: Queue,
    chain: Chain,
    /// True if the guest must learn of used buffers at the end of the turn.
    touched: bool,
    /// Used buffers of which the guest may learn later.
    lazy: u16,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error.to_string())
    }
}

impl Ring {
    pub fn new(longest: u16) -> Self {
        Self {
            // The devices' sizes are powers of two.
            queue: Queue::new(longest).unwrap_or_default(),
            chain: Chain::new(),
            touched: false,
            lazy: 0,
        }
    }

    pub fn longest(&self) -> u16 {
        self.queue.max_size()
    }

    pub fn ready(&self) -> bool {
        self.queue.ready()
    }

    pub fn reset(&mut self) {
        self.queue.reset();
        self.touched = false;
        self.lazy = 0;
    }

    /// Takes over what the guest says. All of the rings lies in its memory.
    pub fn start(
        &mut self,
        memory: &GuestMemory,
        size: u16,
        addresses: RingAddresses,
    ) -> Result<(), Failure> {
        self.queue.try_set_size(size)?;
        self.queue
            .try_set_desc_table_address(GuestAddress(addresses.descriptors))?;
        self.queue
            .try_set_avail_ring_address(GuestAddress(addresses.available))?;
        self.queue
            .try_set_used_ring_address(GuestAddress(addresses.used))?;
        self.queue.set_ready(true);
        if !is_within(&self.queue, memory) {
            self.queue.set_ready(false);
            return Err(Failure::new("a ring outside of the memory"));
        }
        Ok(())
    }

    pub fn stop(&mut self) {
        self.queue.set_ready(false);
    }

    pub fn use_event_index(&mut self, on: bool) {
        self.queue.set_event_idx(on);
    }
}

/// Fields of a saved queue.
impl Ring {
    pub fn save(&self, to: &mut Writer) {
        let state = self.queue.state();
        to.flag(state.ready);
        to.u16(state.size);
        to.u64(state.desc_table);
        to.u64(state.avail_ring);
        to.u64(state.used_ring);
        to.u16(state.next_avail);
        to.u16(state.next_used);
        to.flag(state.event_idx_enabled);
    }

    /// Takes over a saved queue, as [`Self::start`] takes over what a guest says.
    pub fn restore(
        &mut self,
        from: &mut Reader<'_>,
        memory: &GuestMemory,
    ) -> Result<(), StateError> {
        let state = QueueState {
            max_size: self.longest(),
            ready: from.flag()?,
            size: from.u16()?,
            desc_table: from.u64()?,
            avail_ring: from.u64()?,
            used_ring: from.u64()?,
            next_avail: from.u16()?,
            next_used: from.u16()?,
            event_idx_enabled: from.flag()?,
        };
        let queue = Queue::try_from(state).map_err(|e| StateError::new(format!("a queue: {e}")))?;
        if queue.ready() && !is_within(&queue, memory) {
            return Err(StateError::new("a ring outside of the memory"));
        }
        self.reset();
        self.queue = queue;
        Ok(())
    }
}

/// The queues of a device during a turn.
pub struct Rings<'a> {
    pub memory: &'a GuestMemory,
    pub(super) rings: &'a mut [Ring],
    pub(super) interrupt: &'a Interrupt,
}

impl Rings<'_> {
    /// Returns the limit of buffers in one turn: a guest that adds buffers forever lets others have their turn.
    pub fn turn(&self, queue: usize) -> u16 {
        self.rings[queue].queue.size()
    }

    /// Takes the next buffers of a queue, if there are any; then the guest kicks the queue for further ones.
    pub fn next(&mut self, queue: usize) -> Result<Option<&Chain>, Failure> {
        let ring = &mut self.rings[queue];
        if !ring.queue.ready() {
            return Ok(None);
        }
        let mut head = ring.queue.iter(self.memory)?.next().map(|c| c.head_index());
        if head.is_none() && ring.queue.enable_notification(self.memory)? {
            // The guest added one before it could see that it has to kick.
            head = ring.queue.iter(self.memory)?.next().map(|c| c.head_index());
        }
        let Some(head) = head else { return Ok(None) };
        let (table, size) = (GuestAddress(ring.queue.desc_table()), ring.queue.size());
        ring.chain.walk(self.memory, table, size, head)?;
        Ok(Some(&ring.chain))
    }

    /// Returns the chain that [`Self::next`] returned last.
    pub fn current(&self, queue: usize) -> &Chain {
        &self.rings[queue].chain
    }

    /// Gives the chain that [`Self::next`] returned last back to the guest. The device wrote `written` bytes.
    pub fn complete(&mut self, queue: usize, written: u32) -> Result<(), Failure> {
        let ring = &mut self.rings[queue];
        ring.queue
            .add_used(self.memory, ring.chain.head(), written)?;
        ring.touched = true;
        Ok(())
    }

    /// Lets [`Self::next`] return the same chain once more.
    pub fn put_back(&mut self, queue: usize) {
        self.rings[queue].queue.go_to_previous_position();
    }

    /// As [`Self::complete`], for buffers that the guest does not wait for. It learns of them with the next interrupt of
    /// the device, at the latest once they are a quarter of the queue.
    pub fn complete_lazily(&mut self, queue: usize, written: u32) -> Result<(), Failure> {
        let ring = &mut self.rings[queue];
        ring.queue
            .add_used(self.memory, ring.chain.head(), written)?;
        ring.lazy += 1;
        Ok(())
    }

    /// Interrupts the guest, once for all queues, if it wants to know of used buffers.
    pub(super) fn notify(&mut self) -> Result<(), Failure> {
        let mut is_wanted = false;
        for ring in self.rings.iter_mut() {
            let is_due = ring.lazy > 0 && ring.lazy >= ring.queue.size() / 4;
            if std::mem::take(&mut ring.touched) || is_due {
                ring.lazy = 0;
                is_wanted |= ring.queue.needs_notification(self.memory)?;
            }
        }
        if is_wanted {
            self.interrupt.used();
            // One interrupt is for all queues.
            self.rings.iter_mut().for_each(|ring| ring.lazy = 0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::mapped_file::MappedFile;
    use crate::state::HEADER_BYTES;

    #[test]
    fn a_ring_that_the_device_writes_lies_in_no_file_that_can_only_be_read() {
        const MEMORY: u64 = 0x10_0000;
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let (mapped, region) = MappedFile::map(&file, 4 << 30).unwrap();
        let memory = GuestMemory::from_ranges(&[(GuestAddress(0), 64 << 20)]).unwrap();
        let memory = memory.insert_region(Arc::new(region)).unwrap();
        let place = mapped.slot();
        let file = place.guest;
        for (descriptors, available, used, fits) in [
            (MEMORY, MEMORY, MEMORY, true),
            (file, file, MEMORY, true),
            (MEMORY, MEMORY, file, false),
            (MEMORY, MEMORY, file + place.size - 64, false),
            // From the end of the memory into nothing.
            (MEMORY, MEMORY, (64 << 20) - 64, false),
        ] {
            let addresses = RingAddresses {
                descriptors,
                available,
                used,
            };
            let started = Ring::new(8).start(&memory, 8, addresses);
            assert_eq!(started.is_ok(), fits, "{addresses:?}");
            let mut state = Writer::new();
            state.flag(true);
            state.u16(8);
            for address in [descriptors, available, used] {
                state.u64(address);
            }
            state.u16(0);
            state.u16(0);
            state.flag(true);
            let state = state.finish().unwrap();
            let mut fields = Reader::of_fields(&state[HEADER_BYTES..]);
            let restored = Ring::new(8).restore(&mut fields, &memory);
            assert_eq!(restored.is_ok(), fits, "{addresses:?}");
        }
    }
}
