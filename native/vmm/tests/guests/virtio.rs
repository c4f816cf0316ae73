//! Scripts of virtio drivers, for tiny guests.

use super::{DATA, Script};

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;

const MAGIC_DEVICES: u64 = 0xd000_0000;
const QUEUE_SIZE: u16 = 8;
/// Each queue has a page for its three rings, and a page for its buffers.
const QUEUE_BYTES: u64 = 0x2000;
const AVAILABLE: u64 = 0x400;
const USED: u64 = 0x800;
const BUFFERS: u64 = 0x1000;

/// A device of a guest, by its place.
#[derive(Clone, Copy)]
pub struct Device {
    index: u64,
}

/// A descriptor.
pub struct Raw {
    pub address: u64,
    pub length: u32,
    pub flags: u16,
    pub next: u16,
}

impl Device {
    pub fn new(index: u64) -> Self {
        Self { index }
    }

    pub fn register(self, offset: u64) -> u64 {
        MAGIC_DEVICES + self.index * 0x1000 + offset
    }

    fn rings(self, queue: u64) -> u64 {
        DATA + 0x1_0000 * (1 + self.index) + queue * QUEUE_BYTES
    }

    /// Returns the address of a buffer of a queue.
    pub fn buffer(self, queue: u64, offset: u64) -> u64 {
        self.rings(queue) + BUFFERS + offset
    }

    /// Returns the address of a descriptor.
    pub fn descriptor(self, queue: u64, index: u64) -> u64 {
        self.rings(queue) + index * 16
    }

    /// Returns the address of the index of used chains.
    pub fn used(self, queue: u64) -> u64 {
        self.rings(queue) + USED + 2
    }

    /// Starts the device with queues of eight descriptors.
    pub fn start(self, mut script: Script, queues: u64) -> Script {
        let register = |offset| self.register(offset);
        for status in [0, 1, 3] {
            script = script.write(register(0x70), status);
        }
        script = script
            .write(register(0x24), 0)
            .write(register(0x20), 0)
            .write(register(0x24), 1)
            .write(register(0x20), 1)
            .write(register(0x70), 0xb);
        for queue in 0..queues {
            let rings = self.rings(queue);
            let low = |address: u64| u32::try_from(address).unwrap();
            script = script
                .write(register(0x30), low(queue))
                .write(register(0x38), QUEUE_SIZE.into())
                .write(register(0x80), low(rings))
                .write(register(0x84), 0)
                .write(register(0x90), low(rings + AVAILABLE))
                .write(register(0x94), 0)
                .write(register(0xa0), low(rings + USED))
                .write(register(0xa4), 0)
                .write(register(0x44), 1);
        }
        script.write(register(0x70), 0xf)
    }

    /// Puts a descriptor into the table.
    pub fn describe(self, script: Script, queue: u64, index: u64, raw: &Raw) -> Script {
        let mut bytes = raw.address.to_le_bytes().to_vec();
        bytes.extend(raw.length.to_le_bytes());
        bytes.extend(raw.flags.to_le_bytes());
        bytes.extend(raw.next.to_le_bytes());
        script.place(self.rings(queue) + index * 16, &bytes)
    }

    /// Puts the heads of chains into the available ring, in their order.
    pub fn order(self, script: Script, queue: u64, heads: &[u16]) -> Script {
        let bytes: Vec<u8> = heads.iter().flat_map(|head| head.to_le_bytes()).collect();
        script.place(self.rings(queue) + AVAILABLE + 4, &bytes)
    }

    /// Makes chains up to `count` available, without a kick.
    pub fn make_available(self, script: Script, queue: u64, count: u16) -> Script {
        script.write_wide(2, self.rings(queue) + AVAILABLE + 2, count.into())
    }

    /// Makes chains up to `count` available, and kicks the queue.
    pub fn offer(self, script: Script, queue: u64, count: u16) -> Script {
        let kicked = u32::try_from(queue).unwrap();
        self.make_available(script, queue, count)
            .write(self.register(0x50), kicked)
    }

    /// Waits until the device has used `count` chains.
    pub fn wait(self, script: Script, queue: u64, count: u16) -> Script {
        script.wait(self.used(queue), count)
    }
}

/// A vsock header.
pub fn packet(op: u16, length: u32) -> Vec<u8> {
    packet_from(5000, op, length)
}

/// A vsock header of the guest's port `port`.
pub fn packet_from(port: u32, op: u16, length: u32) -> Vec<u8> {
    let mut bytes = 3u64.to_le_bytes().to_vec();
    bytes.extend(2u64.to_le_bytes());
    bytes.extend(port.to_le_bytes());
    bytes.extend(1024u32.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(1u16.to_le_bytes());
    bytes.extend(op.to_le_bytes());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(4096u32.to_le_bytes());
    bytes.extend(0u32.to_le_bytes());
    bytes
}

/// Connects to the keeper: two buffers to receive, and a request.
pub fn connect(vsock: Device, mut script: Script) -> Script {
    script = vsock.start(script, 3);
    for index in 0..2u64 {
        let raw = Raw {
            address: vsock.buffer(0, index * 256),
            length: 256,
            flags: WRITE,
            next: 0,
        };
        script = vsock.describe(script, 0, index, &raw);
    }
    script = vsock.order(script, 0, &[0, 1]);
    let request = packet(1, 0);
    let raw = Raw {
        address: vsock.buffer(1, 0),
        length: u32::try_from(request.len()).unwrap(),
        flags: 0,
        next: 0,
    };
    script = vsock
        .describe(script, 1, 0, &raw)
        .place(vsock.buffer(1, 0), &request);
    script = vsock.order(script, 1, &[0, 1]);
    script = vsock.offer(script, 0, 2);
    script = vsock.offer(script, 1, 1);
    vsock.wait(script, 0, 1)
}
