//! Ports: each one, in each width, and floods.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::Expected::Nothing;
use super::{Case, machine_case};
use crate::console::COM1;
use crate::cpu::{in8, in16, in32, map, out8, out16, out32, read_string, write_string};

const G: &str = "ports";
/// The distance of the ports that the cases try.
pub static STEP: AtomicU32 = AtomicU32::new(1);

const PIT: u16 = 0x43;
const KEYBOARD_COMMAND: u16 = 0x64;
const SLEEP_CONTROL: u16 = 0x600;
/// Each byte is an exit of the VM.
const FLOOD_BYTES: usize = 2 << 10;

pub const CASES: &[Case] = &[
    machine_case(G, "each-port-read", Nothing, |_| {
        for port in ports() {
            in8(port);
        }
    }),
    machine_case(G, "each-port-written", Nothing, |_| {
        // COM1 prints what happens.
        for port in ports().filter(|port| !(COM1..COM1 + 8).contains(port)) {
            out8(port, 0);
        }
    }),
    machine_case(G, "wide-reads-and-writes", Nothing, |_| {
        for port in [0, COM1, KEYBOARD_COMMAND, SLEEP_CONTROL, 0xcf8, 0xffff] {
            out16(port, 0xfefe);
            out32(port, 0xfefe_fefe);
            in16(port);
            in32(port);
        }
    }),
    machine_case(
        G,
        "commands-of-the-keyboard-controller-but-its-reset",
        Nothing,
        |_| {
            for command in 0..=0xff {
                if command != 0xfe {
                    out8(KEYBOARD_COMMAND, command);
                    out8(0x60, 0xfe);
                }
            }
        },
    ),
    machine_case(G, "sleeps-that-are-none", Nothing, |_| {
        for value in (0..=0xff).filter(|value| value & 0x20 == 0) {
            out8(SLEEP_CONTROL, value);
            out8(SLEEP_CONTROL + 1, value);
        }
    }),
    machine_case(G, "each-register-of-com1", Nothing, |_| {
        for value in [0xff, 0, 0x80, 0x55] {
            for register in (1..8).rev() {
                out8(COM1 + register, value);
                in8(COM1 + register);
            }
        }
        // Bytes to itself, beyond its buffer.
        out8(COM1 + 4, 0x10);
        for _ in 0..100 {
            out8(COM1, b'x');
        }
        for register in 0..8 {
            in8(COM1 + register);
        }
        // As the boot left it.
        out8(COM1 + 3, 3);
        out8(COM1 + 1, 0);
        out8(COM1 + 4, 8);
    }),
    machine_case(G, "pit-in-each-mode", Nothing, |_| {
        for mode in 0..=0xff {
            out8(PIT, mode);
            out8(0x40 + u16::from(mode >> 6) % 3, 1);
            out8(0x40 + u16::from(mode >> 6) % 3, 0);
        }
    }),
    machine_case(G, "strings-from-and-to-where-no-memory-is", Nothing, |_| {
        let hole = map(0xc000_0000);
        read_string(0x80, hole, 64);
        write_string(0x80, hole as *const u8, 64);
        let end = map(crate::MEMORY_BYTES - 8);
        read_string(0x80, end, 16);
        write_string(0x80, end as *const u8, 16);
    }),
    machine_case(G, "flood-of-the-console", Nothing, |_| {
        write_string(COM1, (8 << 20) as *const u8, FLOOD_BYTES);
    }),
];

fn ports() -> impl Iterator<Item = u16> {
    (0..=u16::MAX).step_by(STEP.load(Relaxed) as usize)
}
