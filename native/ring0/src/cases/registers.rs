//! Registers in wrong widths, orders and times.

use super::Expected::{Any, Fails, Nothing};
use super::{Case, case};
use crate::cpu::{read, write};
use crate::virtio::{QUEUE_SIZE, register as at};

const G: &str = "registers";
const ODD_READ: &[&str] = &["of an odd width"];
const ODD_WRITE: &[&str] = &["a write of"];
const TIME: &[&str] = &["outside of its time"];
const FEATURES_TIME: &[&str] = &["features before the driver or after their end"];

pub const CASES: &[Case] = &[
    case(G, "read-of-1-byte", Fails(ODD_READ), |d| {
        drop_value(read::<u8>(d.register(0)))
    }),
    case(G, "read-of-2-bytes", Fails(ODD_READ), |d| {
        drop_value(read::<u16>(d.register(at::STATUS)));
    }),
    case(G, "read-of-8-bytes", Fails(ODD_READ), |d| {
        drop_value(read::<u64>(d.register(at::STATUS)));
    }),
    case(G, "read-at-an-odd-place", Fails(ODD_READ), |d| {
        drop_value(read::<u32>(d.register(1)));
    }),
    case(G, "write-of-1-byte", Fails(ODD_WRITE), |d| {
        write::<u8>(d.register(at::STATUS), 1)
    }),
    case(G, "write-of-2-bytes", Fails(ODD_WRITE), |d| {
        write::<u16>(d.register(at::STATUS), 1)
    }),
    case(G, "write-of-8-bytes", Fails(ODD_WRITE), |d| {
        write::<u64>(d.register(at::STATUS), 1)
    }),
    case(G, "write-at-an-odd-place", Fails(ODD_WRITE), |d| {
        write::<u32>(d.register(at::STATUS + 2), 1);
    }),
    case(G, "unknown-offsets", Nothing, |d| {
        d.start();
        for offset in (0x54..0x60).chain(0x74..0x80).chain(0xa8..0x100).step_by(4) {
            d.get(offset);
            d.set(offset, u32::MAX);
        }
    }),
    case(G, "registers-that-are-only-read", Nothing, |d| {
        for offset in [0, 4, 8, 0xc, 0x10, 0x34, 0x60, 0xfc] {
            d.set(offset, u32::MAX);
        }
    }),
    case(G, "configuration-read-beyond-its-end", Nothing, |d| {
        for offset in (0x100..0x1000).step_by(0x3c) {
            drop_value(read::<u8>(d.register(offset)));
            drop_value(read::<u16>(d.register(offset + 1)));
            drop_value(read::<u64>(d.register(offset + 4)));
        }
        drop_value(read::<u64>(d.register(0xff8)));
    }),
    case(
        G,
        "configuration-written",
        Fails(&["into the configuration", "a balloon that is not empty"]),
        |d| d.set(at::CONFIG, 1),
    ),
    case(
        G,
        "queue-that-does-not-exist",
        Fails(&["a setting of the queue"]),
        |d| {
            d.agree();
            d.set_queue(3, d.rings(0), QUEUE_SIZE);
        },
    ),
    case(
        G,
        "queue-of-2-32-less-1",
        Fails(&["a setting of the queue"]),
        |d| {
            d.agree();
            d.set(at::QUEUE_SELECT, u32::MAX);
            d.get(at::QUEUE_READY);
            d.get(0x34);
            d.set(at::QUEUE_SIZE, QUEUE_SIZE);
        },
    ),
    case(G, "queue-before-the-features", Fails(TIME), |d| {
        d.set_queue(0, d.rings(0), QUEUE_SIZE);
    }),
    case(
        G,
        "start-before-the-features",
        Fails(&["a start before the features"]),
        |d| {
            d.set(at::STATUS, 7);
        },
    ),
    case(
        G,
        "start-with-features-that-were-not-offered",
        Fails(&["a start before the features"]),
        |d| {
            d.greet();
            d.set(at::DRIVER_FEATURES_SELECT, 1);
            d.set(at::DRIVER_FEATURES, u32::MAX);
            d.set(at::STATUS, 0xb);
            d.set(at::STATUS, 0xf);
        },
    ),
    case(
        G,
        "start-without-version-1",
        Fails(&["a start before the features"]),
        |d| {
            d.greet();
            d.set(at::DRIVER_FEATURES_SELECT, 1);
            d.set(at::DRIVER_FEATURES, 0);
            d.set(at::STATUS, 0xb);
            d.set(at::STATUS, 0xf);
        },
    ),
    case(
        G,
        "features-beyond-the-last",
        Fails(&["features beyond the last"]),
        |d| {
            d.greet();
            d.set(at::DRIVER_FEATURES_SELECT, 2);
            d.set(at::DRIVER_FEATURES, 1);
        },
    ),
    case(G, "features-before-the-driver", Fails(FEATURES_TIME), |d| {
        d.set(at::DRIVER_FEATURES, 0);
    }),
    case(G, "features-after-the-start", Fails(FEATURES_TIME), |d| {
        d.start();
        d.set(at::DRIVER_FEATURES, 0);
    }),
    case(
        G,
        "status-that-loses-bits",
        Fails(&["a status without bits"]),
        |d| {
            d.start();
            d.set(at::STATUS, 4);
        },
    ),
    case(G, "status-of-all-ones", Any, |d| {
        d.set(at::STATUS, u32::MAX);
        d.set(at::STATUS, 1);
    }),
    case(G, "driver-that-needs-a-reset", Nothing, |d| {
        d.set(at::STATUS, 0x43);
    }),
    case(
        G,
        "kick-of-a-queue-that-does-not-exist",
        Fails(&["a kick of the queue"]),
        |d| {
            d.start();
            d.set(at::NOTIFY, 3);
        },
    ),
    case(G, "kick-of-1-byte", Fails(ODD_WRITE), |d| {
        d.start();
        write::<u8>(d.register(at::NOTIFY), 0);
    }),
    case(G, "kick-of-8-bytes", Fails(ODD_WRITE), |d| {
        d.start();
        write::<u64>(d.register(at::NOTIFY), 1 << 32);
    }),
    case(G, "kick-before-the-start", Nothing, |d| {
        d.set(at::NOTIFY, 0);
        d.agree();
        d.set(at::NOTIFY, 0);
    }),
    case(
        G,
        "kick-of-a-failed-device",
        Fails(&["a kick of the queue"]),
        |d| {
            d.start();
            for queue in [9, 0, 9, u32::MAX] {
                d.set(at::NOTIFY, queue);
            }
        },
    ),
    case(G, "storm-of-kicks", Nothing, |d| {
        d.start();
        for _ in 0..300 {
            d.set(at::NOTIFY, d.queue());
        }
    }),
    case(G, "storm-of-resets", Nothing, |d| {
        for _ in 0..60 {
            d.set(at::STATUS, 0);
            d.set(at::STATUS, 1);
        }
    }),
    case(G, "acknowledgement-of-nothing", Nothing, |d| {
        d.start();
        d.set(at::ACKNOWLEDGE, u32::MAX);
        d.set(at::ACKNOWLEDGE, 0);
    }),
];

fn drop_value<T>(_: T) {}
