//! The exits of a virtual CPU: each has a handler or is an end of the VM.

use std::fmt::Write;

use kvm_bindings::kvm_run;
use kvm_ioctls::{VcpuExit, VcpuFd};

use crate::bus::Bus;
use crate::ended::Ended;
use crate::ports::{Effect, Ports};

/// The flag of an internal error that tells the bytes of its instruction.
const HAS_INSTRUCTION_BYTES: u64 = 1;
/// The longest instruction of x86.
const INSTRUCTION_LIMIT_BYTES: usize = 15;

/// The devices that a CPU reaches.
pub struct Machine {
    pub bus: Bus,
    pub ports: Ports,
}

/// The next step after an exit.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Continue,
    /// A signal or a kick: all exits before it are complete.
    Interrupted,
    End(Ended),
}

/// The meaning of an exit, before any register of the CPU is read.
enum Outcome {
    Done(Next),
    TripleFault,
    InternalError,
    Unknown(String),
}

/// Runs a CPU until its next exit, and handles it.
pub fn step(vcpu: &mut VcpuFd, machine: &Machine) -> Next {
    let run: *mut kvm_run = vcpu.get_kvm_run();
    let outcome = match vcpu.run() {
        Ok(exit) => handle(exit, machine, run),
        Err(error) => match error.errno() {
            libc::EINTR => Outcome::Done(Next::Interrupted),
            libc::EAGAIN => Outcome::Done(Next::Continue),
            errno => Outcome::Unknown(format!(
                "KVM_RUN: {}",
                std::io::Error::from_raw_os_error(errno)
            )),
        },
    };
    match outcome {
        Outcome::Done(next) => next,
        Outcome::TripleFault => Next::End(Ended::TripleFault { rip: rip(vcpu) }),
        Outcome::InternalError => Next::End(internal_error(vcpu)),
        Outcome::Unknown(text) => Next::End(Ended::UnknownExit {
            rip: rip(vcpu),
            text,
        }),
    }
}

fn handle(exit: VcpuExit<'_>, machine: &Machine, run: *mut kvm_run) -> Outcome {
    match exit {
        VcpuExit::MmioRead(address, data) => machine.bus.read(address, data),
        VcpuExit::MmioWrite(address, data) => machine.bus.write(address, data),
        VcpuExit::IoOut(port, data) => {
            for value in data.chunks(width(run)) {
                if machine.ports.write(port, value) == Effect::Reset {
                    return Outcome::Done(Next::End(Ended::Reset));
                }
            }
        }
        VcpuExit::IoIn(port, data) => {
            for value in data.chunks_mut(width(run)) {
                machine.ports.read(port, value);
            }
        }
        // A signal, or a window for an interrupt that KVM itself delivers.
        VcpuExit::Intr | VcpuExit::IrqWindowOpen => {}
        VcpuExit::Shutdown => return Outcome::TripleFault,
        VcpuExit::InternalError => return Outcome::InternalError,
        VcpuExit::FailEntry(reason, cpu) => {
            return Outcome::Unknown(format!(
                "the processor refuses the guest's state: {reason:#x} on CPU {cpu}"
            ));
        }
        other => {
            return Outcome::Unknown(format!("no handler for {other:?}"));
        }
    }
    Outcome::Done(Next::Continue)
}

/// Returns the width of each value of an exit for a port: one exit may have several values, as of `rep outsb`.
fn width(run: *mut kvm_run) -> usize {
    // SAFETY: the page is mapped as long as the CPU lives, and an exit for a port has set this part of the union.
    let size = unsafe { (*run).__bindgen_anon_1.io.size };
    usize::from(size).max(1)
}

fn rip(vcpu: &VcpuFd) -> Option<String> {
    vcpu.get_regs().ok().map(|regs| format!("{:#x}", regs.rip))
}

fn internal_error(vcpu: &mut VcpuFd) -> Ended {
    let rip = rip(vcpu);
    // SAFETY: an internal error has set this part of the union.
    let internal = unsafe { vcpu.get_kvm_run().__bindgen_anon_1.internal };
    let count = usize::try_from(internal.ndata).unwrap_or(0);
    let data = &internal.data[..count.min(internal.data.len())];
    Ended::InternalError {
        rip,
        bytes: instruction_bytes(internal.suberror, data),
        text: format!("{} ({})", describe(internal.suberror), internal.suberror),
    }
}

fn describe(suberror: u32) -> &'static str {
    match suberror {
        kvm_bindings::KVM_INTERNAL_ERROR_EMULATION => {
            "KVM does not emulate this instruction; hardware KVM would run it"
        }
        kvm_bindings::KVM_INTERNAL_ERROR_SIMUL_EX => "two exceptions at once",
        kvm_bindings::KVM_INTERNAL_ERROR_DELIVERY_EV => "an event that KVM cannot deliver",
        kvm_bindings::KVM_INTERNAL_ERROR_UNEXPECTED_EXIT_REASON => {
            "an exit of the processor that KVM does not know"
        }
        _ => "an internal error of KVM",
    }
}

/// Returns the bytes of the instruction, which follow flags and a length, in hexadecimal.
fn instruction_bytes(suberror: u32, data: &[u64]) -> String {
    let mut text = String::new();
    let is_emulation = suberror == kvm_bindings::KVM_INTERNAL_ERROR_EMULATION;
    let Some((flags, rest)) = data.split_first() else {
        return text;
    };
    if !is_emulation || flags & HAS_INSTRUCTION_BYTES == 0 {
        return text;
    }
    let bytes: Vec<u8> = rest.iter().flat_map(|word| word.to_le_bytes()).collect();
    let Some((length, bytes)) = bytes.split_first() else {
        return text;
    };
    let length = usize::from(*length).min(INSTRUCTION_LIMIT_BYTES);
    for byte in bytes.iter().take(length) {
        // A string takes every write.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_an_instruction_are_those_that_kvm_tells() {
        // cmpxchg16b [rdi], of four bytes.
        let data = [
            1,
            u64::from_le_bytes([4, 0x48, 0x0f, 0xc7, 0x0f, 0xaa, 0xaa, 0xaa]),
        ];
        assert_eq!(instruction_bytes(1, &data), "480fc70f");
        assert_eq!(instruction_bytes(3, &data), "");
        assert_eq!(instruction_bytes(1, &[0, data[1]]), "");
        assert_eq!(instruction_bytes(1, &[]), "");
        assert_eq!(instruction_bytes(1, &[1]), "");
        let long = [1, u64::MAX, u64::MAX, u64::MAX];
        assert_eq!(instruction_bytes(1, &long).len(), 30);
    }
}
