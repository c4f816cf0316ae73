//! A VM as it is saved and restored: its CPUs, what they share, its devices and its memory.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use kvm_ioctls::VcpuFd;

use crate::arch::saved::{SavedCpu, SavedVm};
use crate::arch::vm::Vm;
use crate::ended::Ended;
use crate::memory::Ram;
use crate::state::{Reader, StateError, Writer};
use crate::vcpu::Machine;

/// Saves a VM, once.
pub struct Saver {
    cpus: Vec<VcpuFd>,
    msrs: Vec<u32>,
    state: File,
    memory: File,
    /// The reason why no VM of this host can be saved.
    refusal: Option<String>,
}

impl Saver {
    /// Prepares for a save of a VM with these CPUs, before a guest runs.
    pub fn new(state: OwnedFd, memory: OwnedFd, vm: &Vm, cpus: &[VcpuFd]) -> Result<Self, Ended> {
        Ok(Self {
            cpus: cpus
                .iter()
                .map(|cpu| vm.second_owner(cpu))
                .collect::<Result<_, _>>()?,
            msrs: vm.saved_msrs()?,
            state: state.into(),
            memory: memory.into(),
            refusal: vm.check_xsave().err(),
        })
    }

    /// Writes state and memory, and closes both. All CPUs and devices are paused. The error says why nothing of use was
    /// written.
    pub fn save(mut self, vm: &Vm, ram: &Ram, machine: &Machine) -> Result<(), String> {
        if let Some(why) = self.refusal {
            return Err(why);
        }
        let mut to = Writer::new();
        to.u64(memory_bytes(ram));
        to.count(self.cpus.len());
        for (id, cpu) in self.cpus.iter().enumerate() {
            let saved = SavedCpu::save(cpu, &self.msrs).map_err(|e| format!("CPU {id}: {e}"))?;
            saved.write(&mut to);
        }
        SavedVm::save(vm.fd())?.write(&mut to);
        machine.ports.save(&mut to);
        let slots = machine.bus.slots();
        to.count(slots.len());
        for slot in slots {
            slot.transport().save(&mut to).map_err(|e| e.0)?;
        }
        let state = to.finish().map_err(|e| e.0)?;
        ram.save(&self.memory)
            .map_err(|e| format!("writing the memory: {e}"))?;
        self.state
            .write_all(&state)
            .map_err(|e| format!("writing the state: {e}"))
    }
}

fn memory_bytes(ram: &Ram) -> u64 {
    ram.slots().iter().map(|slot| slot.size).sum()
}

/// A state whose first part is read: the CPUs and what they share.
pub struct Restoring<'a> {
    cpus: Vec<SavedCpu>,
    vm: SavedVm,
    rest: Reader<'a>,
}

impl<'a> Restoring<'a> {
    /// Reads the state of a VM with this memory and this number of CPUs.
    pub fn open(state: &'a [u8], memory: u64, cpus: usize) -> Result<Self, StateError> {
        let mut from = Reader::open(state)?;
        let saved = from.u64()?;
        if saved != memory {
            return Err(StateError::new(format!(
                "it was saved with {saved} bytes of memory, and has {memory}"
            )));
        }
        let saved = from.count(cpus, "CPUs")?;
        if saved != cpus {
            return Err(StateError::new(format!(
                "it was saved with {saved} CPUs, and has {cpus}"
            )));
        }
        Ok(Self {
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
            cpus: saved,
            vm: shared,
            mut rest,
        } = self;
        for (id, (cpu, saved)) in cpus.iter().zip(&saved).enumerate() {
            saved
                .restore(cpu)
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
