//! Rings at wrong places, of wrong sizes, with wrong numbers.

use super::Expected::{Any, Fails, Nothing};
use super::{Case, case};
use crate::MEMORY_BYTES;
use crate::cpu::{read, write};
use crate::virtio::{Device, QUEUE_SIZE, Rings, register};

const G: &str = "rings";
const REFUSED: &[&str] = &["needs a reset"];

pub const CASES: &[Case] = &[
    case(G, "ring-of-size-0", Fails(REFUSED), |d| sized(d, 0)),
    case(G, "ring-of-size-3", Fails(REFUSED), |d| sized(d, 3)),
    case(G, "ring-longer-than-allowed", Fails(REFUSED), |d| {
        sized(d, 512)
    }),
    case(G, "ring-size-beyond-16-bits", Fails(REFUSED), |d| {
        sized(d, 0x10_0000 | QUEUE_SIZE)
    }),
    case(G, "descriptors-unaligned", Fails(REFUSED), |d| {
        placed(d, |r| r.descriptors += 8)
    }),
    case(G, "available-ring-unaligned", Fails(REFUSED), |d| {
        placed(d, |r| r.available += 1)
    }),
    case(G, "used-ring-unaligned", Fails(REFUSED), |d| {
        placed(d, |r| r.used += 2)
    }),
    case(G, "descriptors-in-mmio", Fails(REFUSED), |d| {
        placed(d, |r| r.descriptors = 0xd000_0000)
    }),
    case(G, "used-ring-in-mmio", Fails(REFUSED), |d| {
        placed(d, |r| r.used = 0xd000_0000)
    }),
    case(G, "available-ring-in-the-gap", Fails(REFUSED), |d| {
        placed(d, |r| r.available = 0xc000_0000)
    }),
    case(G, "descriptors-beyond-memory", Fails(REFUSED), |d| {
        placed(d, |r| r.descriptors = MEMORY_BYTES)
    }),
    case(
        G,
        "used-ring-across-the-end-of-memory",
        Fails(REFUSED),
        |d| placed(d, |r| r.used = MEMORY_BYTES - 16),
    ),
    case(G, "available-ring-wraps-at-2-64", Fails(REFUSED), |d| {
        placed(d, |r| r.available = 0u64.wrapping_sub(16))
    }),
    case(G, "rings-at-one-place", Any, |d| {
        placed(d, |r| {
            r.available = r.descriptors;
            r.used = r.descriptors;
        });
        run_and_kick(d);
    }),
    case(G, "used-ring-over-the-available-ring", Any, |d| {
        placed(d, |r| r.used = r.available);
        run_and_kick(d);
    }),
    case(G, "index-jumps-by-half", Fails(REFUSED), |d| {
        jumped(d, 0x8000)
    }),
    case(G, "index-jumps-one-beyond-the-ring", Fails(REFUSED), |d| {
        jumped(d, 9)
    }),
    case(G, "index-goes-back", Fails(REFUSED), |d| {
        d.start();
        d.place_request();
        d.offer_first();
        d.wait_used(1);
        d.offer(0);
    }),
    case(
        G,
        "head-beyond-the-table",
        Fails(&["the descriptor", "needs a reset"]),
        |d| {
            d.start();
            d.order(0, 8);
            d.offer(1);
        },
    ),
    case(G, "head-of-65535", Fails(REFUSED), |d| {
        d.start();
        d.order(0, u16::MAX);
        d.offer(1);
    }),
    case(G, "same-head-eight-times", Any, |d| {
        d.start();
        d.place_request();
        for number in 0..8 {
            d.order(number, 0);
        }
        d.offer(8);
        d.wait_used(8);
    }),
    case(G, "used-index-written-by-the-driver", Any, |d| {
        d.start();
        d.place_request();
        write::<u16>(d.rings(d.queue()).used + 2, 0x7fff);
        d.offer_first();
    }),
    case(G, "index-runs-while-the-device-works", Any, |d| {
        d.start();
        d.place_request();
        d.offer_first();
        for count in 0..64 {
            d.offer(count);
        }
    }),
    case(G, "ready-twice", Nothing, |d| {
        d.agree();
        for _ in 0..2 {
            d.set_queue(d.queue(), d.rings(d.queue()), QUEUE_SIZE);
        }
    }),
    case(G, "ready-without-an-address", Any, |d| {
        d.agree();
        d.set(register::QUEUE_SELECT, d.queue());
        d.set(register::QUEUE_READY, 1);
        d.set(register::STATUS, 0xf);
        d.set(register::NOTIFY, d.queue());
    }),
    case(
        G,
        "moved-while-it-runs",
        Fails(&["outside of its time"]),
        |d| {
            d.start();
            d.set(register::DESCRIPTORS, 0);
        },
    ),
    case(G, "stopped-with-a-request", Nothing, |d| {
        d.start();
        d.place_request();
        d.order(0, 0);
        d.set(register::QUEUE_SELECT, d.queue());
        d.set(register::QUEUE_READY, 0);
        d.offer(1);
        d.set(register::NOTIFY, d.queue());
    }),
];

fn sized(device: Device, size: u32) {
    device.agree();
    device.set_queue(device.queue(), device.rings(device.queue()), size);
}

fn placed(device: Device, change: fn(&mut Rings)) {
    let mut rings = device.rings(device.queue());
    write::<u32>(rings.available, 0);
    write::<u32>(rings.used, 0);
    change(&mut rings);
    device.agree();
    device.set_queue(device.queue(), rings, QUEUE_SIZE);
}

fn run_and_kick(device: Device) {
    device.set(register::STATUS, 0xf);
    device.place_request();
    device.offer_first();
    read::<u32>(device.register(0));
}

fn jumped(device: Device, index: u16) {
    device.start();
    device.place_request();
    device.order(0, 0);
    device.offer(index);
}
