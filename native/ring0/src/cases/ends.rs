//! Cases that end the VM, or after which its CPU does nothing.

use super::Expected::{Ends, EndsOrStands, Stands};
use super::interrupts::set_pin;
use super::{Case, machine_case};
use crate::cpu::{self, fault, jump, load_interrupts, map, out8, out16, write};
use crate::virtio::{Device, Raw, WRITE, kind, register};

const G: &str = "ends";
const RESET: super::Expected = Ends(&["reset"]);
const KEYBOARD_COMMAND: u16 = 0x64;
const SLEEP_CONTROL: u16 = 0x600;
const COMMAND: u64 = 0xfee0_0300;
/// An emulated KVM finds other reasons than hardware.
const CRASH: super::Expected = Ends(&["tripleFault", "internalError", "unknownExit"]);

pub const CASES: &[Case] = &[
    machine_case(G, "reset-by-the-keyboard-controller", RESET, |_| {
        out8(KEYBOARD_COMMAND, 0xd1);
        out16(KEYBOARD_COMMAND, 0xfefe);
        out8(KEYBOARD_COMMAND, 0xfe);
    }),
    machine_case(G, "sleep-of-kind-5", RESET, |_| {
        out8(SLEEP_CONTROL, 5 << 2 | 1 << 5)
    }),
    machine_case(G, "sleep-of-kind-0", RESET, |_| out8(SLEEP_CONTROL, 0xff)),
    machine_case(G, "reset-by-a-string-of-bytes", RESET, |_| {
        write::<u64>(24 << 20, 0xfe_0000_d1ff_00aa);
        cpu::write_string(KEYBOARD_COMMAND, (24 << 20) as *const u8, 8);
    }),
    machine_case(G, "reset-in-the-midst-of-requests", RESET, |_| {
        offer_to_all();
        out8(KEYBOARD_COMMAND, 0xfe);
    }),
    machine_case(G, "triple-fault", Ends(&["tripleFault"]), |_| {
        load_interrupts(0, 0);
        fault();
    }),
    machine_case(
        G,
        "triple-fault-in-the-midst-of-requests",
        Ends(&["tripleFault"]),
        |_| {
            offer_to_all();
            load_interrupts(0, 0);
            fault();
        },
    ),
    machine_case(G, "instructions-from-the-gap", CRASH, |_| {
        load_interrupts(0, 0);
        jump(0xc000_0000);
    }),
    machine_case(G, "instructions-from-behind-the-memory", CRASH, |_| {
        load_interrupts(0, 0);
        jump(map(crate::MEMORY_BYTES));
    }),
    machine_case(G, "instructions-from-a-device", CRASH, |_| {
        load_interrupts(0, 0);
        jump(0xd000_0000);
    }),
    machine_case(G, "stack-in-a-device", CRASH, |_| {
        load_interrupts(0, 0);
        // SAFETY: nothing follows.
        unsafe {
            core::arch::asm!("mov rsp, {}", "push rax", "ud2", in(reg) 0xd000_0070u64, options(noreturn))
        }
    }),
    machine_case(G, "report-of-the-memory-of-the-kernel", CRASH, |_| {
        let found = (0..12)
            .map_while(Device::find)
            .find(|d| d.kind == kind::BALLOON);
        if let Some(balloon) = found {
            balloon.start();
            balloon.describe(0, &Raw(0, 2 << 20, WRITE, 0));
            balloon.offer_first();
            cpu::idle(u64::MAX);
        }
    }),
    machine_case(
        G,
        "disk-that-reads-over-the-kernel",
        Ends(&["tripleFault", "internalError", "unknownExit", "reset"]),
        |_| {
            load_interrupts(0, 0);
            let Some(disk) = Device::find(0) else { return };
            disk.start();
            disk.place_request();
            disk.describe(1, &Raw(0x10_0000, 0x4000, 3, 2));
            disk.offer_first();
            cpu::idle(u64::MAX);
        },
    ),
    // The first CPU begins at its place after a reset, where no memory is.
    machine_case(G, "init-of-itself", CRASH, |_| {
        write(COMMAND, 1u32 << 18 | 5 << 8 | 1 << 14);
        write(COMMAND + 16, 0u32);
        write(COMMAND, 5u32 << 8 | 1 << 14);
        cpu::stop();
    }),
    machine_case(G, "smi-to-itself", EndsOrStands, |_| {
        write(COMMAND + 16, 0u32);
        write(COMMAND, 2u32 << 8 | 1 << 14);
        cpu::take_interrupts();
        cpu::stop();
    }),
    machine_case(G, "smi-and-init-from-pins", EndsOrStands, |_| {
        for delivery in [2, 5] {
            for pin in 5..12 {
                set_pin(pin, delivery << 8);
            }
            offer_to_all();
            cpu::take_interrupts();
        }
        cpu::stop();
    }),
    machine_case(G, "halt-without-interrupts", Stands, |_| cpu::stop()),
    machine_case(G, "requests-without-end", Stands, |_| {
        loop {
            offer_to_all();
            for device in (0..12).map_while(Device::find) {
                device.set(register::STATUS, 0);
            }
        }
    }),
];

fn offer_to_all() {
    for device in (0..12).map_while(Device::find) {
        device.set(register::STATUS, 0);
        device.start();
        device.place_request();
        device.offer_first();
    }
}
