//! Requests that no driver makes, and resets in the midst of requests.

use super::Expected::{Any, Fails, Nothing};
use super::{Case, case, case_of};
use crate::cpu::write;
use crate::virtio::kind::{BALLOON, BLOCK, FOLDERS, RNG, VSOCK};
use crate::virtio::{Device, NEXT, Raw, WRITE, register};

const G: &str = "requests";
/// The limit of the device.
const RESETS_THAT_WAIT: u16 = 64;

pub const CASES: &[Case] = &[
    case_of(G, "disk-sector-of-2-63", &[BLOCK], Nothing, |d| {
        disk(d, 0, 1 << 63)
    }),
    case_of(G, "disk-sector-whose-byte-wraps", &[BLOCK], Nothing, |d| {
        disk(d, 0, 1 << 55)
    }),
    case_of(G, "disk-request-of-no-kind", &[BLOCK], Nothing, |d| {
        disk(d, 0xffff_ffff, 0)
    }),
    case_of(G, "disk-discard-without-ranges", &[BLOCK], Nothing, |d| {
        disk(d, 11, 0)
    }),
    case_of(G, "disk-discard-beyond-the-end", &[BLOCK], Nothing, |d| {
        let buffer = d.buffer();
        d.start();
        write::<u64>(buffer, 11);
        write::<u64>(buffer + 16, u64::MAX - 7);
        write::<u64>(buffer + 24, 0xffff_ffff);
        d.describe(0, &Raw(buffer, 32, NEXT, 1));
        d.describe(1, &Raw(buffer + 64, 1, WRITE, 0));
        d.offer_first();
        d.wait_used(1);
    }),
    case_of(
        G,
        "disk-header-of-15-bytes",
        &[BLOCK],
        Fails(&["whole header"]),
        |d| {
            d.start();
            d.describe(0, &Raw(d.buffer(), 15, NEXT, 1));
            d.describe(1, &Raw(d.buffer(), 1, WRITE, 0));
            d.offer_first();
        },
    ),
    case_of(
        G,
        "disk-without-a-status",
        &[BLOCK],
        Fails(&["place for its status"]),
        |d| {
            d.start();
            d.describe(0, &Raw(d.buffer(), 16, 0, 0));
            d.offer_first();
        },
    ),
    case_of(
        G,
        "packet-longer-than-its-buffers",
        &[VSOCK],
        Fails(&["longer than its buffers"]),
        |d| {
            packet(d, 5, u32::MAX);
        },
    ),
    case_of(
        G,
        "packet-without-a-whole-header",
        &[VSOCK],
        Fails(&["whole header"]),
        |d| {
            d.start();
            d.describe(0, &Raw(d.buffer(), 43, 0, 0));
            d.offer_first();
        },
    ),
    case_of(G, "packet-of-no-kind", &[VSOCK], Nothing, |d| {
        packet(d, 0xffff, 0)
    }),
    case_of(
        G,
        "packets-of-unknown-connections",
        &[VSOCK],
        Nothing,
        |d| {
            d.start();
            d.place_packet(d.buffer(), 7, 0);
            d.describe(0, &Raw(d.buffer(), 44, 0, 0));
            // The driver offers no buffer for resets, and more packets than resets that may wait.
            for count in 1..=RESETS_THAT_WAIT + 8 {
                d.order(count - 1, 0);
                d.offer(count);
                if count <= RESETS_THAT_WAIT {
                    d.wait_used(count);
                }
            }
        },
    ),
    case_of(
        G,
        "connection-twice-and-its-credit-broken",
        &[VSOCK],
        Nothing,
        |d| {
            d.start();
            for (number, operation) in (0u16..).zip([1, 1, 5, 6, 4]) {
                let buffer = d.buffer() + u64::from(number) * 64;
                d.place_packet(buffer, operation, 0);
                write::<u32>(buffer + 40, 0x8000_0000);
                d.describe(number.into(), &Raw(buffer, 44, 0, 0));
                d.order(number, number);
            }
            d.offer(5);
            d.wait_used(5);
        },
    ),
    case_of(
        G,
        "message-of-9p-without-bytes",
        &[FOLDERS],
        Fails(&["no message of 9p"]),
        |d| message(d, 0),
    ),
    case_of(
        G,
        "message-of-9p-with-4-gib",
        &[FOLDERS],
        Fails(&["no message of 9p"]),
        |d| {
            message(d, u32::MAX);
        },
    ),
    case_of(
        G,
        "message-of-9p-without-room-for-an-answer",
        &[FOLDERS],
        Fails(&["without room"]),
        |d| {
            d.start();
            d.place_request();
            d.describe(0, &Raw(d.buffer(), 19, 0, 0));
            d.offer_first();
        },
    ),
    case_of(G, "random-numbers-for-8-mib", &[RNG], Nothing, |d| {
        d.start();
        d.describe(0, &Raw(40 << 20, 8 << 20, WRITE, 0));
        d.offer_first();
        d.wait_used(1);
    }),
    case_of(
        G,
        "balloon-that-is-filled",
        &[BALLOON],
        Fails(&["a balloon whose size is zero"]),
        |d| {
            d.start();
            let rings = d.rings(0);
            crate::virtio::place(rings.descriptors, &Raw(d.buffer(), 64, 0, 0));
            write::<u16>(rings.available + 4, 0);
            write::<u16>(rings.available + 2, 1);
            d.set(register::NOTIFY, 0);
        },
    ),
    case_of(
        G,
        "report-of-one-part-many-times",
        &[BALLOON],
        Nothing,
        |d| {
            d.start();
            for number in 0..8u16 {
                d.describe(number.into(), &Raw(32 << 20, 16 << 20, WRITE, 0));
                d.order(number, number);
            }
            d.offer(8);
            d.wait_used(8);
        },
    ),
    case(G, "reset-behind-each-kick", Any, |d| {
        for _ in 0..12 {
            d.start();
            d.place_request();
            d.offer_first();
            d.set(register::STATUS, 0);
        }
    }),
    case(G, "start-behind-a-reset-without-queues", Nothing, |d| {
        d.start();
        d.place_request();
        d.offer_first();
        d.set(register::STATUS, 0);
        d.agree();
        d.set(register::STATUS, 0xf);
        d.set(register::NOTIFY, d.queue());
    }),
];

fn disk(device: Device, kind: u32, sector: u64) {
    device.start();
    device.place_request();
    write::<u32>(device.buffer(), kind);
    write::<u64>(device.buffer() + 8, sector);
    device.offer_first();
    device.wait_used(1);
}

fn packet(device: Device, operation: u16, length: u32) {
    device.start();
    device.place_packet(device.buffer(), operation, length);
    device.describe(0, &Raw(device.buffer(), 44, 0, 0));
    device.offer_first();
}

fn message(device: Device, length: u32) {
    device.start();
    device.place_request();
    write::<u32>(device.buffer(), length);
    device.offer_first();
}
