//! Registers of the CPU: read, and written with values that they do not have.

use super::Expected::Nothing;
use super::{Case, machine_case};
use crate::console::note;
use crate::cpu::{read_msr, write_msr};

const G: &str = "msrs";
const APIC_BASE: u32 = 0x1b;
const TSC_DEADLINE: u32 = 0x6e0;
const EFER: u32 = 0xc000_0080;
/// Places that KVM itself reads and writes.
const WALL_CLOCK: u32 = 0x4b56_4d00;
const SYSTEM_TIME: u32 = 0x4b56_4d01;
/// Common registers, then the registers of the local APIC, of hypervisors, of KVM, of AMD.
const RANGES: &[core::ops::Range<u32>] = &[
    0..0x400,
    0x400..0x420,
    0x480..0x494,
    0x800..0x840,
    0xd90..0xdb0,
    0x4000_0000..0x4000_0020,
    WALL_CLOCK..WALL_CLOCK + 16,
    EFER..EFER + 8,
    0xc000_0100..0xc000_0110,
    0xc001_0000..0xc001_0080,
    0xc001_1020..0xc001_1030,
    0xffff_fff0..0xffff_ffff,
];

pub const CASES: &[Case] = &[
    machine_case(G, "each-msr-read", Nothing, |_| {
        let known = msrs().filter(|index| read_msr(*index).is_some());
        note("msrs", known.count() as u64);
    }),
    machine_case(G, "each-msr-written-with-all-ones", Nothing, |_| {
        write_all(u64::MAX)
    }),
    machine_case(G, "each-msr-written-with-an-odd-value", Nothing, |_| {
        write_all(0x8000_0000_0000_0000);
    }),
    machine_case(G, "clock-of-kvm-where-no-memory-is", Nothing, |_| {
        for place in [
            0xc000_0001,
            crate::MEMORY_BYTES - 3,
            0xffff_ffff_ffff_fffd,
            0xd000_0001,
        ] {
            for index in [
                WALL_CLOCK,
                SYSTEM_TIME,
                WALL_CLOCK + 2,
                WALL_CLOCK + 3,
                WALL_CLOCK + 4,
            ] {
                write_msr(index, place);
            }
            crate::cpu::idle(100);
        }
        write_msr(SYSTEM_TIME, 0);
    }),
    machine_case(G, "storm-of-deadlines", Nothing, |_| {
        for deadline in 0..200 {
            write_msr(TSC_DEADLINE, deadline);
            crate::cpu::take_interrupts();
        }
        write_msr(TSC_DEADLINE, 0);
    }),
    machine_case(G, "local-apic-off-and-on", Nothing, |_| {
        let Some(base) = read_msr(APIC_BASE) else {
            return;
        };
        for value in [
            0,
            base & !0x800,
            base | 0x400,
            0xfee0_0c00,
            0x000f_ffff_f800,
            u64::MAX,
        ] {
            write_msr(APIC_BASE, value);
            write_msr(0x830, 0x4_00ff);
        }
        // An APIC leaves its second mode only when it is off.
        write_msr(APIC_BASE, base & !0xc00);
        write_msr(APIC_BASE, base);
    }),
];

fn msrs() -> impl Iterator<Item = u32> {
    RANGES.iter().cloned().flatten()
}

/// Writes each register, and gives it back what it had.
fn write_all(value: u64) {
    let mut taken = 0;
    for index in msrs().filter(|index| *index != APIC_BASE && *index != EFER) {
        let Some(before) = read_msr(index) else {
            continue;
        };
        if write_msr(index, value) {
            taken += 1;
            write_msr(index, before);
        }
    }
    note("written", taken);
}
