//! The list of cases. Each breaks a rule, and has an end that is expected.

mod accesses;
mod descriptors;
mod ends;
mod interrupts;
mod msrs;
mod ports;
mod registers;
mod requests;
mod rings;

use crate::virtio::Device;

#[cfg(ring0)]
pub use ports::STEP;

/// How a case ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The device fails, and a line on the console has one of these texts.
    Fails(&'static [&'static str]),
    /// No device fails.
    Nothing,
    /// The device may fail.
    Any,
    /// The VM ends for one of these reasons.
    Ends(&'static [&'static str]),
    /// The VM continues, and the keeper ends it.
    Stands,
    /// The VM ends for any reason, or the keeper ends it.
    EndsOrStands,
}

/// Which devices a case has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Each,
    /// Devices of these kinds.
    Kinds(&'static [u32]),
    /// None; all of them must work afterwards.
    Machine,
}

/// A case. Unless the VM ends, each device of it must carry out a request after a reset.
pub struct Case {
    pub group: &'static str,
    pub name: &'static str,
    pub scope: Scope,
    pub expected: Expected,
    pub(crate) run: fn(Device),
}

/// The groups in their order. Each case of `ends` needs a VM of its own.
pub const GROUPS: &[&str] = &[
    "rings",
    "descriptors",
    "requests",
    "registers",
    "ports",
    "msrs",
    "interrupts",
    "accesses",
    "ends",
];

/// Returns all cases.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    [
        rings::CASES,
        descriptors::CASES,
        requests::CASES,
        registers::CASES,
        ports::CASES,
        msrs::CASES,
        interrupts::CASES,
        accesses::CASES,
        ends::CASES,
    ]
    .into_iter()
    .flatten()
}

/// Makes a case with each device.
const fn case(
    group: &'static str,
    name: &'static str,
    expected: Expected,
    run: fn(Device),
) -> Case {
    Case {
        group,
        name,
        scope: Scope::Each,
        expected,
        run,
    }
}

/// Makes a case without a device.
const fn machine_case(
    group: &'static str,
    name: &'static str,
    expected: Expected,
    run: fn(Device),
) -> Case {
    Case {
        scope: Scope::Machine,
        ..case(group, name, expected, run)
    }
}

/// Makes a case with devices of some kinds.
const fn case_of(
    group: &'static str,
    name: &'static str,
    kinds: &'static [u32],
    expected: Expected,
    run: fn(Device),
) -> Case {
    Case {
        scope: Scope::Kinds(kinds),
        ..case(group, name, expected, run)
    }
}
