//! A driver for tests and fuzzers: the guest's side of a device, without a guest. It panics if the test is wrong.
#![allow(clippy::missing_panics_doc)]

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};

use super::registers::*;
use super::transport::{VERSION_1, status};
use super::{Device, Interrupt, Progress, Transport};
use crate::guest_memory::GuestMemory;

pub const MEMORY_BYTES: usize = 16 << 20;
const QUEUES: u64 = 0x1_0000;
const QUEUE_BYTES: u64 = 0x1_0000;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x8000;
const BUFFERS: u64 = 0x10_0000;

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// A device, and what its driver knows.
pub struct Driver {
    pub transport: Transport,
    pub memory: GuestMemory,
    pub interrupt: Arc<Interrupt>,
    queues: Vec<DriverQueue>,
    free: u64,
}

#[derive(Default)]
struct DriverQueue {
    size: u16,
    available: u16,
    used: u16,
    next_descriptor: u16,
}

/// A descriptor as the guest writes it.
#[derive(Debug, Clone, Copy)]
pub struct Raw {
    pub address: u64,
    pub length: u32,
    pub flags: u16,
    pub next: u16,
}

/// A used chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The number that the device says that it wrote.
    pub written: u32,
    /// The writable buffers after it.
    pub bytes: Vec<u8>,
}

/// A chain that a driver has offered.
#[derive(Debug, Clone, Copy)]
pub struct Offered {
    pub head: u16,
    input: u64,
    input_bytes: usize,
}

impl Driver {
    /// Finds a device, without a start.
    pub fn find(device: Box<dyn Device>) -> Self {
        let memory = GuestMemory::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).unwrap();
        Self::find_in(memory, device)
    }

    /// Finds a device of a guest with this memory.
    pub fn find_in(memory: GuestMemory, device: Box<dyn Device>) -> Self {
        let interrupt = Arc::new(Interrupt::new().unwrap());
        let transport = Transport::new(device, memory.clone(), interrupt.clone(), Box::new(|_| ()));
        let count = transport.queues();
        Self {
            transport,
            memory,
            interrupt,
            queues: (0..count).map(|_| DriverQueue::default()).collect(),
            free: BUFFERS,
        }
    }

    /// Starts a device with all its features.
    pub fn start(device: Box<dyn Device>) -> Self {
        let mut driver = Self::find(device);
        driver.restart();
        driver
    }

    /// Resets the device and starts it once more.
    pub fn restart(&mut self) {
        self.set(STATUS, 0);
        self.free = BUFFERS;
        let features = self.features() | VERSION_1;
        self.set(STATUS, 1);
        self.set(STATUS, 3);
        self.accept(features);
        self.set(STATUS, 3 | status::FEATURES_OK);
        assert_ne!(self.get(STATUS) & status::FEATURES_OK, 0);
        for queue in 0..self.queues.len() {
            self.set_up_queue(queue);
        }
        self.set(STATUS, 3 | status::FEATURES_OK | status::DRIVER_OK);
        assert!(!self.needs_reset());
    }

    pub fn features(&mut self) -> u64 {
        let mut features = 0;
        for select in [1, 0] {
            self.set(DEVICE_FEATURES_SELECT, select);
            features = features << 32 | u64::from(self.get(DEVICE_FEATURES));
        }
        features
    }

    pub fn accept(&mut self, features: u64) {
        for select in 0..2 {
            self.set(DRIVER_FEATURES_SELECT, select);
            let half = u32::try_from(features >> (32 * select) & 0xffff_ffff).unwrap();
            self.set(DRIVER_FEATURES, half);
        }
    }

    pub fn set_up_queue(&mut self, queue: usize) {
        self.set(QUEUE_SELECT, u32::try_from(queue).unwrap());
        let size = self.get(QUEUE_LONGEST);
        self.queues[queue] = DriverQueue {
            size: u16::try_from(size).unwrap(),
            ..Default::default()
        };
        let base = Self::base(queue);
        let zeros = vec![0; usize::try_from(QUEUE_BYTES).unwrap()];
        self.memory.write_slice(&zeros, GuestAddress(base)).unwrap();
        self.set_queue(size, base, base + AVAILABLE, base + USED);
    }

    /// Writes the settings of the selected queue.
    pub fn set_queue(&mut self, size: u32, descriptors: u64, available: u64, used: u64) {
        self.set(QUEUE_SIZE, size);
        for (low, address) in [
            (QUEUE_DESCRIPTORS_LOW, descriptors),
            (QUEUE_AVAILABLE_LOW, available),
            (QUEUE_USED_LOW, used),
        ] {
            self.set(low, u32::try_from(address & 0xffff_ffff).unwrap());
            self.set(low + 4, u32::try_from(address >> 32).unwrap());
        }
        self.set(QUEUE_READY, 1);
    }

    pub fn base(queue: usize) -> u64 {
        QUEUES + queue as u64 * QUEUE_BYTES
    }

    pub fn set(&mut self, register: u64, value: u32) {
        self.transport.write(register, &value.to_le_bytes());
    }

    pub fn get(&mut self, register: u64) -> u32 {
        let mut bytes = [0; 4];
        self.transport.read(register, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    pub fn needs_reset(&mut self) -> bool {
        self.get(STATUS) & status::NEEDS_RESET != 0
    }

    /// Takes memory for a buffer.
    pub fn allocate(&mut self, length: usize) -> u64 {
        let at = self.free;
        self.free += length as u64;
        assert!(self.free <= MEMORY_BYTES as u64);
        at
    }

    pub fn write_descriptor(&self, queue: usize, index: u16, raw: Raw) {
        let at = Self::base(queue) + u64::from(index) * 16;
        self.write_raw(at, raw);
    }

    pub fn write_raw(&self, at: u64, raw: Raw) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&raw.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&raw.length.to_le_bytes());
        bytes[12..14].copy_from_slice(&raw.flags.to_le_bytes());
        bytes[14..].copy_from_slice(&raw.next.to_le_bytes());
        self.memory.write_slice(&bytes, GuestAddress(at)).unwrap();
    }

    /// Writes bytes into the guest's memory.
    pub fn write_memory(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    /// Offers a chain of two pieces to read and some room to write. Its memory is used again and again.
    pub fn offer_small(&mut self, queue: usize, first: &[u8], second: &[u8], room: usize) {
        self.free = BUFFERS;
        let output: Vec<&[u8]> = [first, second]
            .into_iter()
            .filter(|piece| !piece.is_empty())
            .collect();
        let input = [room];
        let input = if room == 0 { &[][..] } else { &input };
        if self.queues[queue].size > 0 && !(output.is_empty() && input.is_empty()) {
            self.offer(queue, &output, input);
        }
    }

    /// Asks for an interrupt at the next used chain of a queue, as Linux does after it has taken all.
    pub fn want_interrupt(&self, queue: usize) {
        let state = &self.queues[queue];
        let at = Self::base(queue) + AVAILABLE + 4 + u64::from(state.size) * 2;
        self.memory.write_obj(state.used, GuestAddress(at)).unwrap();
    }

    /// Returns true if the device wants a kick for the chain that was made available last.
    pub fn wants_kick(&self, queue: usize) -> bool {
        let state = &self.queues[queue];
        let at = Self::base(queue) + USED + 4 + u64::from(state.size) * 8;
        let event: u16 = self.memory.read_obj(GuestAddress(at)).unwrap();
        event == state.available.wrapping_sub(1)
    }

    /// Makes a chain available.
    pub fn make_available(&mut self, queue: usize, head: u16) {
        let state = &mut self.queues[queue];
        let slot = Self::base(queue) + AVAILABLE + 4 + u64::from(state.available % state.size) * 2;
        state.available = state.available.wrapping_add(1);
        let index = state.available;
        self.memory.write_obj(head, GuestAddress(slot)).unwrap();
        let at = GuestAddress(Self::base(queue) + AVAILABLE + 2);
        self.memory.write_obj(index, at).unwrap();
    }

    /// Sets the index of available chains.
    pub fn set_available(&mut self, queue: usize, index: u16) {
        self.queues[queue].available = index;
        let at = GuestAddress(Self::base(queue) + AVAILABLE + 2);
        self.memory.write_obj(index, at).unwrap();
    }

    /// Makes a chain of buffers available: copies of `output`, and buffers of the lengths of `input`.
    pub fn offer(&mut self, queue: usize, output: &[&[u8]], input: &[usize]) -> Offered {
        let input_bytes = input.iter().sum();
        let mut pieces: Vec<(u64, usize, u16)> = Vec::new();
        for bytes in output {
            let at = self.allocate(bytes.len());
            self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
            pieces.push((at, bytes.len(), 0));
        }
        let input_start = self.allocate(input_bytes);
        let zeros = vec![0; input_bytes];
        self.memory
            .write_slice(&zeros, GuestAddress(input_start))
            .unwrap();
        let mut at = input_start;
        for length in input {
            pieces.push((at, *length, WRITE));
            at += *length as u64;
        }
        let size = self.queues[queue].size;
        let first = self.queues[queue].next_descriptor;
        let count = u16::try_from(pieces.len()).unwrap();
        for (place, (address, length, flags)) in (0u16..).zip(pieces) {
            let last = place + 1 == count;
            let raw = Raw {
                address,
                length: u32::try_from(length).unwrap(),
                flags: flags | if last { 0 } else { NEXT },
                next: (first + place + 1) % size,
            };
            self.write_descriptor(queue, (first + place) % size, raw);
        }
        self.queues[queue].next_descriptor = (first + count) % size;
        self.make_available(queue, first);
        Offered {
            head: first,
            input: input_start,
            input_bytes,
        }
    }

    /// Lets the device work until it waits. Fails the test if it never does.
    pub fn kick(&mut self, queue: usize) -> Progress {
        for _ in 0..1000 {
            let progress = self.transport.process(queue);
            if progress != Progress::More {
                return progress;
            }
        }
        panic!("the device never waits");
    }

    /// Returns the next used chain: its head and the number of bytes written.
    pub fn take_used(&mut self, queue: usize) -> Option<(u16, u32)> {
        let used = Self::base(queue) + USED;
        let index: u16 = self.memory.read_obj(GuestAddress(used + 2)).unwrap();
        let state = &mut self.queues[queue];
        if index == state.used || state.size == 0 {
            return None;
        }
        let at = used + 4 + u64::from(state.used % state.size) * 8;
        state.used = state.used.wrapping_add(1);
        let head: u32 = self.memory.read_obj(GuestAddress(at)).unwrap();
        let written = self.memory.read_obj(GuestAddress(at + 4)).unwrap();
        Some((u16::try_from(head & 0xffff).unwrap(), written))
    }

    pub fn input_of(&self, offered: Offered) -> Vec<u8> {
        let mut bytes = vec![0; offered.input_bytes];
        self.memory
            .read_slice(&mut bytes, GuestAddress(offered.input))
            .unwrap();
        bytes
    }

    /// Offers a chain, kicks the queue, and returns the answer.
    pub fn request(&mut self, queue: usize, output: &[&[u8]], input_bytes: usize) -> Answer {
        let input = [input_bytes];
        let input = if input_bytes == 0 { &[][..] } else { &input };
        let offered = self.offer(queue, output, input);
        self.kick(queue);
        let (head, written) = self.take_used(queue).expect("the device answers");
        assert_eq!(head, offered.head);
        let bytes = self.input_of(offered);
        self.free = BUFFERS;
        Answer { written, bytes }
    }
}
