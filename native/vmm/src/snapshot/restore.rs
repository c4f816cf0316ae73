//! A state that becomes the state of a new machine.

use kvm_ioctls::VcpuFd;

use super::head::{Head, Shape};
use crate::arch::saved::{SavedCpu, SavedVm};
use crate::arch::vm::Vm;
use crate::config::CpuTemplate;
use crate::state::{Reader, StateError};
use crate::vcpu::Machine;

/// A state whose first part is read: the CPUs and what they share.
pub struct Restoring<'a> {
    template: CpuTemplate,
    cpus: Vec<SavedCpu>,
    vm: SavedVm,
    rest: Reader<'a>,
}

impl<'a> Restoring<'a> {
    /// Reads the state of a VM of this shape.
    pub fn open(state: &'a [u8], shape: &Shape) -> Result<Self, StateError> {
        let mut from = Reader::open(state)?;
        Head::read(&mut from)?.check(shape)?;
        let cpus = shape.cpus;
        let saved = from.count(cpus, "CPUs")?;
        if saved != cpus {
            return Err(StateError::new(format!(
                "it was saved with {saved} CPUs, and has {cpus}"
            )));
        }
        Ok(Self {
            template: shape.template,
            cpus: (0..cpus)
                .map(|_| SavedCpu::read(&mut from))
                .collect::<Result<_, _>>()?,
            vm: SavedVm::read(&mut from)?,
            rest: from,
        })
    }

    /// Gives a new machine this state, and kicks all its queues. None of its CPUs has run.
    pub fn restore(self, vm: &Vm, cpus: &[VcpuFd], machine: &Machine) -> Result<(), StateError> {
        let Self {
            template,
            cpus: saved,
            vm: shared,
            mut rest,
        } = self;
        for (id, (cpu, saved)) in cpus.iter().zip(&saved).enumerate() {
            saved
                .check_features(cpu, template)
                .and_then(|()| saved.restore(cpu))
                .map_err(|e| StateError::new(format!("CPU {id}: {e}")))?;
        }
        shared.restore(vm.fd()).map_err(StateError)?;
        // Devices raise interrupts, which the controllers would lose if they got their state later.
        machine.ports.restore(&mut rest)?;
        restore_devices(machine, &mut rest)?;
        rest.end()
    }
}

fn restore_devices(machine: &Machine, from: &mut Reader<'_>) -> Result<(), StateError> {
    let slots = machine.bus.slots();
    let saved = from.count(slots.len(), "devices")?;
    if saved != slots.len() {
        return Err(StateError::new(format!(
            "it was saved with {saved} devices, and has {}",
            slots.len()
        )));
    }
    for slot in slots {
        slot.transport().restore(from)?;
        // A kick that was on its way is in no saved state.
        for kick in slot.kicks() {
            // A counter that is full has woken the thread already.
            let _ = kick.write(1);
        }
    }
    Ok(())
}
