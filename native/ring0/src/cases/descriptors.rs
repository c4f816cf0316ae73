//! Descriptors of wrong lengths, addresses, orders and links.

use super::Expected::{Any, Fails};
use super::{Case, case};
use crate::MEMORY_BYTES;
use crate::virtio::{Device, INDIRECT, NEXT, Raw, WRITE, place};

const G: &str = "descriptors";
const OUTSIDE: &[&str] = &["a buffer outside of the memory"];
const TABLE_LENGTH: &[&str] = &["a table of descriptors of"];
/// Memory behind the buffer of a device, for a table.
const TABLE: u64 = 0x1000;
/// A part of the memory, of which a chain with a hundred has more than 4 GiB.
const LARGE: u32 = 48 << 20;

pub const CASES: &[Case] = &[
    case(G, "length-0", Fails(&["a buffer without bytes"]), |d| {
        single(d, d.buffer(), 0)
    }),
    case(G, "length-of-4-gib-less-1", Fails(OUTSIDE), |d| {
        single(d, d.buffer(), u32::MAX)
    }),
    case(G, "address-wraps-at-2-64", Fails(OUTSIDE), |d| {
        single(d, 0u64.wrapping_sub(8), 16)
    }),
    case(G, "address-of-2-64-less-1", Fails(OUTSIDE), |d| {
        single(d, u64::MAX, 1)
    }),
    case(G, "buffer-in-mmio", Fails(OUTSIDE), |d| {
        single(d, d.register(0), 4)
    }),
    case(G, "buffer-in-the-local-apic", Fails(OUTSIDE), |d| {
        single(d, 0xfee0_0300, 4)
    }),
    case(G, "buffer-at-the-end-of-memory", Fails(OUTSIDE), |d| {
        single(d, MEMORY_BYTES, 1)
    }),
    case(G, "buffer-across-the-end-of-memory", Fails(OUTSIDE), |d| {
        single(d, MEMORY_BYTES - 8, 16)
    }),
    case(G, "buffer-beyond-4-gib", Fails(OUTSIDE), |d| {
        single(d, 4 << 30, 16)
    }),
    case(
        G,
        "chain-of-more-than-4-gib",
        Fails(&["a chain of 4 GiB or more"]),
        |d| {
            indirect_chain(d, 100, 1 << 20, LARGE);
        },
    ),
    case(
        G,
        "next-beyond-the-table",
        Fails(&["the descriptor 8 of a table"]),
        |d| {
            first(d, &Raw(d.buffer(), 16, writable(d) | NEXT, 8));
        },
    ),
    case(
        G,
        "next-of-65535",
        Fails(&["the descriptor 65535 of a table"]),
        |d| {
            first(d, &Raw(d.buffer(), 16, writable(d) | NEXT, u16::MAX));
        },
    ),
    case(G, "loop-of-one", Fails(&["a chain without an end"]), |d| {
        first(d, &Raw(d.buffer(), 16, writable(d) | NEXT, 0));
    }),
    case(G, "loop-of-two", Fails(&["a chain without an end"]), |d| {
        d.start();
        d.describe(1, &Raw(d.buffer(), 16, writable(d) | NEXT, 0));
        d.describe(0, &Raw(d.buffer(), 16, writable(d) | NEXT, 1));
        d.offer_first();
    }),
    case(
        G,
        "table-within-a-table",
        Fails(&["a table within a table"]),
        |d| {
            place(d.buffer() + TABLE, &Raw(d.buffer(), 16, INDIRECT, 0));
            first(d, &Raw(d.buffer() + TABLE, 16, INDIRECT, 0));
        },
    ),
    case(
        G,
        "table-that-is-itself",
        Fails(&["a table within a table"]),
        |d| {
            let table = d.rings(d.queue()).descriptors;
            first(d, &Raw(table, 16, INDIRECT, 0));
        },
    ),
    case(G, "table-with-a-next", Fails(&["with a next one"]), |d| {
        first(d, &Raw(d.buffer() + TABLE, 16, INDIRECT | NEXT, 1));
    }),
    case(G, "table-of-0-bytes", Fails(TABLE_LENGTH), |d| table(d, 0)),
    case(G, "table-of-15-bytes", Fails(TABLE_LENGTH), |d| {
        table(d, 15)
    }),
    case(G, "table-of-17-bytes", Fails(TABLE_LENGTH), |d| {
        table(d, 17)
    }),
    case(
        G,
        "table-beyond-memory",
        Fails(&["a table of descriptors outside"]),
        |d| {
            first(d, &Raw(MEMORY_BYTES, 16, INDIRECT, 0));
        },
    ),
    case(
        G,
        "table-that-wraps-at-2-64",
        Fails(&["a table of descriptors outside"]),
        |d| {
            first(d, &Raw(0u64.wrapping_sub(16), 32, INDIRECT, 0));
        },
    ),
    case(
        G,
        "table-of-257-descriptors",
        Fails(&["a chain of more than 256"]),
        |d| {
            indirect_chain(d, 257, d.buffer(), 1);
        },
    ),
    case(
        G,
        "table-of-4-gib-with-a-loop",
        Fails(&["a chain of more than 256"]),
        |d| {
            let loop_at = d.buffer() + TABLE;
            place(loop_at, &Raw(d.buffer(), 1, writable(d) | NEXT, 0));
            first(d, &Raw(loop_at, 0xffff_fff0, INDIRECT, 0));
        },
    ),
    case(
        G,
        "read-behind-write",
        Fails(&["a buffer to read behind one to write"]),
        |d| {
            d.start();
            d.describe(1, &Raw(d.buffer(), 16, 0, 0));
            d.describe(0, &Raw(d.buffer(), 16, WRITE | NEXT, 1));
            d.offer_first();
        },
    ),
    case(
        G,
        "wrong-direction",
        Fails(&[
            "without a whole header",
            "no message of 9p",
            "without a buffer to write",
            "other buffers than its parts",
        ]),
        |d| first(d, &Raw(d.buffer(), 64, writable(d) ^ WRITE, 0)),
    ),
    case(G, "flags-that-do-not-exist", Any, |d| {
        first(d, &Raw(d.buffer(), 64, 0xfff8 | writable(d), 0));
    }),
    case(G, "buffer-over-the-rings", Any, |d| {
        let rings = d.rings(d.queue());
        first(d, &Raw(rings.descriptors, 0x3000, writable(d), 0));
    }),
    case(G, "descriptor-changes-while-the-device-works", Any, |d| {
        d.start();
        d.place_request();
        for number in 0..8 {
            d.order(number, 0);
        }
        d.offer(8);
        for length in 0..100 {
            d.describe(0, &Raw(d.buffer(), length * 0x0200_0000, writable(d), 0));
        }
    }),
];

/// Returns the flag of the buffer that the device's requests begin with.
fn writable(device: Device) -> u16 {
    use crate::virtio::kind::{BALLOON, RNG};
    if matches!(device.kind, RNG | BALLOON) {
        WRITE
    } else {
        0
    }
}

fn first(device: Device, raw: &Raw) {
    device.start();
    device.describe(0, raw);
    device.offer_first();
}

fn single(device: Device, address: u64, length: u32) {
    first(device, &Raw(address, length, writable(device), 0));
}

fn table(device: Device, bytes: u32) {
    first(device, &Raw(device.buffer() + TABLE, bytes, INDIRECT, 0));
}

/// Offers a table with `count` descriptors of the same buffer.
fn indirect_chain(device: Device, count: u16, address: u64, length: u32) {
    let table = device.buffer() + TABLE;
    for index in 0..count {
        let next = if index + 1 < count { NEXT } else { 0 };
        let flags = writable(device) | next;
        place(
            table + u64::from(index) * 16,
            &Raw(address, length, flags, index + 1),
        );
    }
    first(device, &Raw(table, u32::from(count) * 16, INDIRECT, 0));
}
