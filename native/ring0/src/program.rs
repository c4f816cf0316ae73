//! Runs the cases that the command line names. Lines on the console tell how each began and ended.

use core::ffi::{CStr, c_char};
use core::sync::atomic::Ordering::Relaxed;

use crate::cases::{Case, Expected, STEP, Scope, cases};
use crate::console::{Hex, say};
use crate::virtio::Device;
use crate::{PORT_STEP, cpu};

/// The place of the command line in what PVH gives a kernel.
const COMMAND_LINE_AT: u64 = 24;
const VECTORS: usize = 256;
const HANDLER_BYTES: u64 = 16;
const DEVICES: u64 = 12;

static mut GATES: [[u64; 2]; VECTORS] = [[0; 2]; VECTORS];

#[unsafe(no_mangle)]
extern "C" fn ring0_main(info: u64) -> ! {
    set_gates();
    let line = cpu::read::<u64>(info + COMMAND_LINE_AT);
    // SAFETY: the VMM has placed it there with its end, and it has only printable ASCII.
    let line = unsafe {
        let bytes = CStr::from_ptr(line as *const c_char).to_bytes();
        core::str::from_utf8_unchecked(bytes)
    };
    for word in line.split(' ') {
        if let Some(number) = word.strip_prefix(PORT_STEP) {
            STEP.store(number.parse().unwrap_or(1), Relaxed);
        }
    }
    say(&["ready\n"]);
    for case in cases() {
        if line
            .split(' ')
            .any(|word| word == case.group || word == case.name)
        {
            run(case);
        }
    }
    say(&["done\n"]);
    cpu::stop()
}

fn set_gates() {
    /// A present gate for interrupts, in the segment of the kernel.
    const GATE: u64 = 0x8e00_0008_0000;
    unsafe extern "C" {
        static ring0_handlers: u8;
    }
    let mut handler = (&raw const ring0_handlers) as u64;
    let gates = (&raw mut GATES).cast::<[u64; 2]>();
    for vector in 0..VECTORS {
        // The kernel lies below 4 GiB.
        let low = handler & 0xffff | GATE | (handler >> 16 & 0xffff) << 48;
        // SAFETY: this is the only code that writes the table, before its first use.
        unsafe { gates.add(vector).write_volatile([low, 0]) };
        handler += HANDLER_BYTES;
    }
    cpu::load_interrupts(gates as u64, 0xfff);
}

fn run(case: &Case) {
    if case.scope == Scope::Machine {
        say(&["case ", case.name, "\n"]);
        (case.run)(Device { index: 0, kind: 0 });
        return tell(None, all_work());
    }
    for device in (0..DEVICES).map_while(Device::find) {
        if let Scope::Kinds(kinds) = case.scope
            && !kinds.contains(&device.kind)
        {
            continue;
        }
        say(&[
            "case ",
            case.name,
            " on ",
            Hex::of(device.index).text(),
            "\n",
        ]);
        device.set(crate::virtio::register::STATUS, 0);
        (case.run)(device);
        let has_failed = match case.expected {
            Expected::Fails(_) => device.wait_failed(),
            _ => device.has_failed(),
        };
        tell(Some(has_failed), device.works());
    }
}

fn all_work() -> bool {
    (0..DEVICES).map_while(Device::find).all(Device::works)
}

fn tell(has_failed: Option<bool>, works: bool) {
    say(&[
        "\nend",
        match has_failed {
            Some(true) => " failed",
            Some(false) => " unharmed",
            None => "",
        },
        if works { " works\n" } else { " is broken\n" },
    ]);
}
