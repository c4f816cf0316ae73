//! Accesses where no memory is, across its end, and between devices.

use core::arch::asm;

use super::Expected::Nothing;
use super::{Case, machine_case};
use crate::MEMORY_BYTES;
use crate::cpu::{copy, map, read, write};

const G: &str = "accesses";
const DEVICES: u64 = 0xd000_0000;
/// The place behind the last device that a VM may have.
const BEHIND_DEVICES: u64 = DEVICES + 0x1_0000;
const GAP: u64 = 0xc000_0000;

pub const CASES: &[Case] = &[
    machine_case(G, "behind-the-end-of-memory", Nothing, |_| {
        each_width(map(MEMORY_BYTES))
    }),
    machine_case(G, "across-the-end-of-memory", Nothing, |_| {
        let at = map(MEMORY_BYTES - 2);
        read::<u32>(at);
        read::<u64>(at);
        write::<u32>(at, u32::MAX);
        write::<u64>(at, u64::MAX);
        // The page behind is another one.
        let end = MEMORY_BYTES - 2;
        write::<u64>(end, 1);
        read::<u64>(end);
    }),
    machine_case(G, "in-the-gap", Nothing, |_| each_width(GAP)),
    machine_case(G, "at-4-gib", Nothing, |_| each_width(map(4 << 30))),
    machine_case(G, "at-512-gib-less-2-mib", Nothing, |_| {
        each_width(map((512 << 30) - (2 << 20)))
    }),
    machine_case(G, "behind-the-last-device", Nothing, |_| {
        for page in 0..64 {
            each_width(BEHIND_DEVICES + page * 0x1000);
        }
    }),
    machine_case(G, "before-the-first-device", Nothing, |_| {
        write::<u64>(DEVICES - 8, u64::MAX);
        read::<u64>(DEVICES - 8);
        // A part of it is a register.
        read::<u64>(DEVICES - 4);
        write::<u64>(DEVICES - 4, u64::MAX);
    }),
    machine_case(G, "across-two-devices", Nothing, |_| {
        read::<u64>(DEVICES + 0xffc);
        read::<u32>(DEVICES + 0xffe);
        write::<u64>(DEVICES + 0xffc, 0);
        write::<u32>(DEVICES + 0xffe, 0);
    }),
    machine_case(
        G,
        "copies-between-devices-memory-and-nothing",
        Nothing,
        |_| {
            copy(DEVICES, DEVICES + 0x1000, 0x40);
            copy(GAP, DEVICES, 0x10);
            copy(DEVICES, GAP, 0x10);
            copy(GAP, 24 << 20, 0x40);
            copy(24 << 20, GAP, 0x40);
            copy(map(MEMORY_BYTES - 0x10), 24 << 20, 0x20);
        },
    ),
    machine_case(
        G,
        "instructions-that-read-and-write-registers",
        Nothing,
        |_| {
            for address in [DEVICES + 0x70, DEVICES + 0x1070, GAP] {
                // SAFETY: the kernel owns all addresses.
                unsafe {
                    asm!(
                        "inc dword ptr [{0}]",
                        "lock inc dword ptr [{0}]",
                        "xchg [{0}], {1:e}",
                        "lock cmpxchg [{0}], {1:e}",
                        "lock xadd [{0}], {1:e}",
                        "bts dword ptr [{0}], 3",
                        "add {1:e}, [{0}]",
                        "push [{0}]",
                        "pop [{0}]",
                        in(reg) address,
                        inout(reg) 0u64 => _,
                        inout("rax") 0u64 => _,
                    );
                }
            }
        },
    ),
    machine_case(G, "page-tables-in-registers-and-nowhere", Nothing, |_| {
        // The walk of such a table faults, or finds entries of all ones.
        for table in [DEVICES, GAP, 4 << 30, MEMORY_BYTES] {
            crate::cpu::with_directory(table, |at| {
                crate::cpu::try_read(at);
            });
        }
    }),
];

/// Reads and writes in each width, at places with and without alignment.
fn each_width(address: u64) {
    for offset in [0, 1, 8, 0xff7] {
        let at = address + offset;
        read::<u8>(at);
        read::<u16>(at);
        read::<u32>(at);
        read::<u64>(at);
        write::<u8>(at, 0xff);
        write::<u16>(at, 0xffff);
        write::<u32>(at, u32::MAX);
        write::<u64>(at, u64::MAX);
    }
}
