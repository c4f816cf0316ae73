//! The controllers of interrupts, and interrupts of all kinds.

use super::Expected::Nothing;
use super::{Case, machine_case};
use crate::console::note;
use crate::cpu::{interrupts, nmis, read, take_interrupts, write};
use crate::virtio::Device;

const G: &str = "interrupts";
const LOCAL_APIC: u64 = 0xfee0_0000;
const SPURIOUS: u64 = LOCAL_APIC + 0xf0;
const COMMAND: u64 = LOCAL_APIC + 0x300;
const TARGET: u64 = LOCAL_APIC + 0x310;
const IO_APIC: u64 = 0xfec0_0000;
const PINS: u32 = 24;

/// To itself, as an edge.
const SELF: u32 = 1 << 18;
const TO_ALL: u32 = 2 << 18;
const TO_OTHERS: u32 = 3 << 18;
const NMI: u32 = 4 << 8;
const INIT: u32 = 5 << 8;
const START: u32 = 6 << 8;
const ASSERT: u32 = 1 << 14;
const LEVEL: u32 = 1 << 15;

pub const CASES: &[Case] = &[
    machine_case(G, "each-register-of-the-local-apic", Nothing, |_| {
        for value in [u32::MAX, 0x5555_5555, 0] {
            // The command comes later.
            for offset in (0..0x400).step_by(16).filter(|at| *at != 0x300) {
                write(LOCAL_APIC + offset, value);
                read::<u32>(LOCAL_APIC + offset);
            }
        }
        restore();
    }),
    machine_case(
        G,
        "local-apic-in-odd-widths-and-at-odd-places",
        Nothing,
        |_| {
            for offset in [0, 0x20, 0x80, 0xf0, 0x310, 0x3f0, 0xfe0] {
                write::<u8>(LOCAL_APIC + offset, 0xff);
                write::<u16>(LOCAL_APIC + offset + 1, 0xffff);
                write::<u32>(LOCAL_APIC + offset + 3, u32::MAX);
                write::<u64>(LOCAL_APIC + offset, u64::MAX);
                read::<u8>(LOCAL_APIC + offset + 7);
                read::<u64>(LOCAL_APIC + offset);
            }
            write::<u32>(LOCAL_APIC + 0xffd, u32::MAX);
            restore();
        },
    ),
    machine_case(G, "each-register-of-the-io-apic", Nothing, |_| {
        for index in 0..=0xff {
            write::<u32>(IO_APIC, index);
            write::<u32>(IO_APIC + 0x10, u32::MAX);
            read::<u32>(IO_APIC + 0x10);
        }
        for offset in [0u64, 1, 4, 0x10, 0x13, 0x20, 0x40, 0xff8] {
            write::<u8>(IO_APIC + offset, 0xff);
            write::<u64>(IO_APIC + offset, u64::MAX);
            read::<u16>(IO_APIC + offset);
        }
        mask_all();
    }),
    machine_case(G, "pins-of-each-kind-of-delivery", Nothing, |_| {
        restore();
        // Fixed, lowest, reserved, NMI, external. An SMI or INIT may end the VM.
        for delivery in [0, 1, 3, 4, 7] {
            for pin in 5..12 {
                set_pin(pin, delivery << 8 | 0x40 | (pin & 1) << 15);
            }
            for device in (0..12).map_while(Device::find) {
                device.works();
            }
            take_interrupts();
            restore();
        }
        mask_all();
        note("interrupts", interrupts());
    }),
    machine_case(G, "storm-of-interrupts-to-itself", Nothing, |_| {
        restore();
        // Those from 16 to 31 would be exceptions, and the ones before do not exist.
        for vector in (0..300).filter(|vector| !(16..32).contains(&(vector & 0xff))) {
            write(COMMAND, SELF | ASSERT | vector & 0xff);
            if vector % 8 == 0 {
                take_interrupts();
            }
        }
        for _ in 0..40 {
            take_interrupts();
        }
        note("interrupts", interrupts());
    }),
    machine_case(G, "nmi-to-itself", Nothing, |_| {
        let before = nmis();
        for _ in 0..20 {
            write(TARGET, 0u32);
            write(COMMAND, NMI | ASSERT);
        }
        write(COMMAND, TO_ALL | NMI | ASSERT);
        note("nmis", nmis() - before);
    }),
    machine_case(
        G,
        "init-and-start-of-cpus-that-do-not-exist",
        Nothing,
        |_| {
            for cpu in (1..255u32).step_by(7) {
                for command in [
                    INIT | ASSERT | LEVEL,
                    INIT | LEVEL,
                    START | ASSERT | 0xff,
                    NMI | ASSERT,
                ] {
                    write(TARGET, cpu << 24);
                    write(COMMAND, command);
                }
            }
            for command in [INIT, START | 0x10, NMI] {
                write(COMMAND, TO_OTHERS | ASSERT | command);
            }
        },
    ),
    machine_case(G, "commands-of-each-kind-to-nowhere", Nothing, |_| {
        for command in (0..0x1_0000u32).step_by(0x100) {
            write(TARGET, 0xfe00_0000u32);
            write(COMMAND, command);
        }
        restore();
    }),
    machine_case(G, "timer-of-the-local-apic-at-its-fastest", Nothing, |_| {
        restore();
        write(LOCAL_APIC + 0x3e0, 0xbu32);
        write(LOCAL_APIC + 0x320, 0x2_0050u32);
        for count in [1u32, 2, u32::MAX, 1] {
            write(LOCAL_APIC + 0x380, count);
            for _ in 0..20 {
                take_interrupts();
            }
        }
        restore();
    }),
];

/// Switches the local APIC on, with nothing of its own that interrupts.
fn restore() {
    for entry in [0x320, 0x330, 0x340, 0x350, 0x360, 0x370] {
        write(LOCAL_APIC + entry, 0x1_0000u32);
    }
    write(LOCAL_APIC + 0x380, 0u32);
    write(LOCAL_APIC + 0x80, 0u32);
    write(LOCAL_APIC + 0xd0, 0u32);
    write(LOCAL_APIC + 0xe0, u32::MAX);
    write(SPURIOUS, 0x1ffu32);
    for _ in 0..16 {
        write(LOCAL_APIC + 0xb0, 0u32);
    }
}

pub fn set_pin(pin: u32, low: u32) {
    write(IO_APIC, 0x10 + pin * 2 + 1);
    write(IO_APIC + 0x10, 0u32);
    write(IO_APIC, 0x10 + pin * 2);
    write(IO_APIC + 0x10, low);
}

fn mask_all() {
    for pin in 0..PINS {
        set_pin(pin, 0x1_0000);
    }
}
