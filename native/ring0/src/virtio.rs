//! A driver of virtio that keeps to the rules, until a case breaks one.

use crate::cpu::{read, write};

const DEVICES: u64 = 0xd000_0000;
const DEVICE_BYTES: u64 = 0x1000;
const MAGIC: u32 = u32::from_le_bytes(*b"virt");
/// Memory for rings and buffers of the first device.
const MEMORY: u64 = 16 << 20;
const MEMORY_OF_DEVICE: u64 = 0x4_0000;
const QUEUE_BYTES: u64 = 0x8000;
/// A block of memory that a guest reports.
const REPORTED: u64 = 32 << 20;
const REPORTED_BYTES: u32 = 2 << 20;
pub const QUEUE_SIZE: u32 = 8;

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;
pub const FEATURES: [u32; 2] = [1 << 28, 1];
pub const NEEDS_RESET: u32 = 64;
/// A poll of a status costs an exit, and the thread of the devices needs a while.
const POLLS: u32 = 200_000;

/// Offsets of registers.
pub mod register {
    pub const DEVICE_ID: u64 = 0x08;
    pub const DRIVER_FEATURES: u64 = 0x20;
    pub const DRIVER_FEATURES_SELECT: u64 = 0x24;
    pub const QUEUE_SELECT: u64 = 0x30;
    pub const QUEUE_SIZE: u64 = 0x38;
    pub const QUEUE_READY: u64 = 0x44;
    pub const NOTIFY: u64 = 0x50;
    pub const ACKNOWLEDGE: u64 = 0x64;
    pub const STATUS: u64 = 0x70;
    pub const DESCRIPTORS: u64 = 0x80;
    pub const AVAILABLE: u64 = 0x90;
    pub const USED: u64 = 0xa0;
    pub const CONFIG: u64 = 0x100;
}
use register as at;

/// Kinds of devices.
pub mod kind {
    pub const BLOCK: u32 = 2;
    pub const RNG: u32 = 4;
    pub const BALLOON: u32 = 5;
    pub const FOLDERS: u32 = 9;
    pub const VSOCK: u32 = 19;
}

/// A device.
#[derive(Clone, Copy)]
pub struct Device {
    pub index: u64,
    pub kind: u32,
}

/// The addresses of a queue.
#[derive(Clone, Copy)]
pub struct Rings {
    pub descriptors: u64,
    pub available: u64,
    pub used: u64,
}

/// A descriptor.
pub struct Raw(pub u64, pub u32, pub u16, pub u16);

impl Device {
    pub fn find(index: u64) -> Option<Self> {
        let base = DEVICES + index * DEVICE_BYTES;
        let is_there = read::<u32>(base) == MAGIC;
        is_there.then(|| Self {
            index,
            kind: read(base + at::DEVICE_ID),
        })
    }

    pub fn register(self, offset: u64) -> u64 {
        DEVICES + self.index * DEVICE_BYTES + offset
    }

    pub fn get(self, offset: u64) -> u32 {
        read(self.register(offset))
    }

    pub fn set(self, offset: u64, value: u32) {
        write(self.register(offset), value);
    }

    pub fn queues(self) -> u32 {
        match self.kind {
            kind::VSOCK | kind::BALLOON => 3,
            _ => 1,
        }
    }

    /// Returns the queue for requests of the guest.
    pub fn queue(self) -> u32 {
        match self.kind {
            kind::VSOCK => 1,
            kind::BALLOON => 2,
            _ => 0,
        }
    }

    pub fn rings(self, queue: u32) -> Rings {
        let base = MEMORY + self.index * MEMORY_OF_DEVICE + u64::from(queue) * QUEUE_BYTES;
        Rings {
            descriptors: base,
            available: base + 0x1000,
            used: base + 0x2000,
        }
    }

    /// Returns memory for requests: a page, and tables of descriptors behind it.
    pub fn buffer(self) -> u64 {
        self.rings(self.queue()).descriptors + 0x3000
    }

    /// Begins up to the features, without their end.
    pub fn greet(self) {
        for status in [0, 1, 3] {
            self.set(at::STATUS, status);
        }
        for (half, features) in [0, 1].into_iter().zip(FEATURES) {
            self.set(at::DRIVER_FEATURES_SELECT, half);
            self.set(at::DRIVER_FEATURES, features);
        }
    }

    /// Begins up to the settings of queues.
    pub fn agree(self) {
        self.greet();
        self.set(at::STATUS, 0xb);
    }

    /// Sets up a queue, with other places or another size than usual.
    pub fn set_queue(self, queue: u32, rings: Rings, size: u32) {
        self.set(at::QUEUE_SELECT, queue);
        self.set(at::QUEUE_SIZE, size);
        for (offset, address) in [
            (at::DESCRIPTORS, rings.descriptors),
            (at::AVAILABLE, rings.available),
            (at::USED, rings.used),
        ] {
            let [a, b, c, d, high @ ..] = address.to_le_bytes();
            self.set(offset, u32::from_le_bytes([a, b, c, d]));
            self.set(offset + 4, u32::from_le_bytes(high));
        }
        self.set(at::QUEUE_READY, 1);
    }

    /// Starts the device. Its queues are empty.
    pub fn start(self) {
        self.agree();
        for queue in 0..self.queues() {
            let rings = self.rings(queue);
            write::<u32>(rings.available, 0);
            write::<u32>(rings.used, 0);
            self.set_queue(queue, rings, QUEUE_SIZE);
        }
        self.set(at::STATUS, 0xf);
    }

    pub fn describe(self, index: u64, raw: &Raw) {
        let table = self.rings(self.queue()).descriptors;
        place(table + index * 16, raw);
    }

    /// Puts a head into the available ring, at the place with this number.
    pub fn order(self, number: u16, head: u16) {
        let available = self.rings(self.queue()).available;
        let slot = u64::from(number) % u64::from(QUEUE_SIZE);
        write::<u16>(available + 4 + slot * 2, head);
    }

    /// Says that `count` chains were made available, and kicks the queue.
    pub fn offer(self, count: u16) {
        write::<u16>(self.rings(self.queue()).available + 2, count);
        self.set(at::NOTIFY, self.queue());
    }

    /// Offers the chain that begins at the first descriptor.
    pub fn offer_first(self) {
        self.order(0, 0);
        self.offer(1);
    }

    pub fn used(self) -> u16 {
        read(self.rings(self.queue()).used + 2)
    }

    /// Waits until the device has used `count` chains.
    pub fn wait_used(self, count: u16) -> bool {
        (0..POLLS).any(|_| {
            core::hint::spin_loop();
            self.used() == count || self.has_failed()
        }) && self.used() == count
    }

    pub fn has_failed(self) -> bool {
        self.get(at::STATUS) & NEEDS_RESET != 0
    }

    pub fn wait_failed(self) -> bool {
        (0..POLLS).any(|_| self.has_failed())
    }

    /// Places a request that the device can carry out, in descriptors from the first one on.
    pub fn place_request(self) {
        let buffer = self.buffer();
        let (answer, status) = (buffer + 0x400, buffer + 0x800);
        match self.kind {
            kind::BLOCK => {
                // A read of the first sector.
                for at in [0, 8] {
                    write::<u64>(buffer + at, 0);
                }
                self.describe(0, &Raw(buffer, 16, NEXT, 1));
                self.describe(1, &Raw(answer, 512, NEXT | WRITE, 2));
                self.describe(2, &Raw(status, 1, WRITE, 0));
            }
            kind::FOLDERS => {
                // The message of 9p that asks for its version.
                write::<u32>(buffer, 19);
                write::<u32>(buffer + 4, 100 | 0xffff << 8);
                self.describe(0, &Raw(buffer, 19, NEXT, 1));
                self.describe(1, &Raw(answer, 512, WRITE, 0));
            }
            kind::VSOCK => {
                self.place_packet(buffer, 3, 0);
                self.describe(0, &Raw(buffer, 44, 0, 0));
            }
            kind::BALLOON => self.describe(0, &Raw(REPORTED, REPORTED_BYTES, WRITE, 0)),
            _ => self.describe(0, &Raw(answer, 32, WRITE, 0)),
        }
    }

    /// Places the header of a packet to the port of the keeper.
    pub fn place_packet(self, buffer: u64, operation: u16, length: u32) {
        write::<u64>(buffer, self.get(at::CONFIG).into());
        write::<u64>(buffer + 8, 2);
        write::<u32>(buffer + 16, 5000);
        write::<u32>(buffer + 20, 1024);
        write::<u32>(buffer + 24, length);
        write::<u32>(buffer + 28, 1 | u32::from(operation) << 16);
        write::<u32>(buffer + 32, 0);
        write::<u32>(buffer + 36, 4096);
        write::<u32>(buffer + 40, 0);
    }

    /// Resets the device, and has it carry out a request.
    pub fn works(self) -> bool {
        self.set(at::STATUS, 0);
        if self.get(at::STATUS) != 0 {
            return false;
        }
        self.start();
        self.place_request();
        self.offer_first();
        self.wait_used(1)
    }
}

/// Places a descriptor.
pub fn place(address: u64, Raw(at, length, flags, next): &Raw) {
    write(address, *at);
    write(address + 8, *length);
    write(address + 12, *flags);
    write(address + 14, *next);
}
