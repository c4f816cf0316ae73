//! A VM that is saved while all its CPUs and devices are paused.

use std::fs::File;
use std::io::{self, Write};

use kvm_ioctls::VcpuFd;

use super::head::{Head, Shape};
use super::link::{Diff, Link, MAX_LINKS, MAX_RUNS, SnapshotId};
use super::pages::PageSet;
use crate::arch::saved::{SavedCpu, SavedVm};
use crate::arch::vm::Vm;
use crate::ended::{Ended, host_failed};
use crate::generation::random;
use crate::memory::Ram;
use crate::page_file;
use crate::state::Writer;
use crate::vcpu::Machine;

/// The files into which a VM is saved. Both are closed afterwards.
pub struct Files {
    pub state: File,
    pub memory: File,
}

/// The machine that is saved.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    pub vm: &'a Vm,
    pub ram: &'a Ram,
    pub machine: &'a Machine,
}

/// Saves a VM.
pub struct Saver {
    shape: Shape,
    cpus: Vec<VcpuFd>,
    msrs: Vec<u32>,
    /// The reason why no VM of this host can be saved.
    refusal: Option<String>,
    names: Names,
    /// The files of the one save of a VM with `save`, until it happens.
    once: Option<Files>,
    /// Present in a VM with `fullSaves`.
    history: Option<History>,
}

/// Names for states. No other VM gives the same.
struct Names {
    vm: u64,
    next: u64,
}

/// The pages that a VM has written since it was last saved in full.
struct History {
    /// The state to which a difference refers, with the number of links of its chain.
    tip: Option<(SnapshotId, usize)>,
    /// Pages that were written since then. KVM has forgotten them when it told them, so a save that fails keeps them.
    written: PageSet,
    /// KVM tells the pages that the guest writes.
    is_logged: bool,
}

impl Saver {
    /// Prepares for saves of a VM with these CPUs, before a guest runs.
    pub fn new(shape: Shape, vm: &Vm, cpus: &[VcpuFd], once: Option<Files>) -> Result<Self, Ended> {
        let mut name = [0; 8];
        random(&mut name).map_err(|e| host_failed("random numbers", e))?;
        Ok(Self {
            shape,
            cpus: cpus
                .iter()
                .map(|cpu| vm.second_owner(cpu))
                .collect::<Result<_, _>>()?,
            msrs: vm.saved_msrs()?,
            refusal: vm.check_xsave().err(),
            names: Names {
                vm: u64::from_le_bytes(name),
                next: 0,
            },
            once,
            history: None,
        })
    }

    /// Allows full saves. The VM continues from the newest link of a chain, `tip`, or has booted.
    pub fn allow_full(
        &mut self,
        vm: &Vm,
        ram: &Ram,
        tip: Option<(SnapshotId, usize)>,
    ) -> Result<(), Ended> {
        // Without a state to refer to, a guest that runs faster is worth more than the log.
        if tip.is_some() {
            vm.log_writes(ram)
                .map_err(|e| host_failed("KVM_SET_USER_MEMORY_REGION", e))?;
        }
        self.history = Some(History {
            tip,
            written: PageSet::new(self.shape.memory_bytes),
            is_logged: tip.is_some(),
        });
        Ok(())
    }

    /// Writes state and memory of a VM with `save`, once. The error says why nothing of use was written.
    pub fn save(&mut self, parts: Parts<'_>) -> Result<(), String> {
        let once = self.once.take();
        let files = once.ok_or("this VM may not be saved, or it was saved already")?;
        let link = Link {
            id: self.names.next(),
            diff: None,
        };
        let state = self.state(parts, link)?;
        let saved = parts.ram.save(&files.memory);
        saved.map_err(|e| format!("writing the memory: {e}"))?;
        write_state(&files, &state)
    }

    /// Writes state and all memory. Returns the name of the state.
    pub fn save_full(&mut self, parts: Parts<'_>, files: &Files) -> Result<SnapshotId, String> {
        self.history()?.collect(parts)?;
        let id = self.names.next();
        let state = self.state(parts, Link { id, diff: None })?;
        let saved = parts.ram.save(&files.memory);
        saved.map_err(|e| format!("writing the memory: {e}"))?;
        write_state(files, &state)?;
        self.history()?.begin_at(id, 1);
        Ok(id)
    }

    /// Writes state and the pages that were written since the VM was last saved in full, or restored.
    pub fn save_diff(&mut self, parts: Parts<'_>, files: &Files) -> Result<SnapshotId, String> {
        let history = self.history()?;
        let (parent, links) = history
            .tip
            .ok_or("there is no full snapshot to which a difference could refer")?;
        if links == MAX_LINKS {
            return Err(format!(
                "the chain has {MAX_LINKS} links: merge it, or make a full snapshot"
            ));
        }
        history.collect(parts)?;
        let runs = history.written.runs(MAX_RUNS).ok_or_else(|| {
            format!("more than {MAX_RUNS} runs of pages were written: make a full snapshot")
        })?;
        let id = self.names.next();
        let sum = page_file::save(parts.ram, &files.memory, &runs)
            .map_err(|e| format!("writing the memory: {e}"))?;
        let diff = Some(Diff { parent, runs, sum });
        let state = self.state(parts, Link { id, diff })?;
        write_state(files, &state)?;
        self.history()?.begin_at(id, links + 1);
        Ok(id)
    }

    fn history(&mut self) -> Result<&mut History, String> {
        let history = self.history.as_mut();
        history.ok_or_else(|| "this VM may not be saved in full: it has no fullSaves".into())
    }

    fn state(&self, parts: Parts<'_>, link: Link) -> Result<Vec<u8>, String> {
        if let Some(why) = &self.refusal {
            return Err(why.clone());
        }
        let mut to = Writer::new();
        let head = Head {
            memory_bytes: self.shape.memory_bytes,
            template: self.shape.template.name().into(),
            link,
        };
        head.write(&mut to);
        to.count(self.cpus.len());
        for (id, cpu) in self.cpus.iter().enumerate() {
            let saved = SavedCpu::save(cpu, &self.msrs).map_err(|e| format!("CPU {id}: {e}"))?;
            saved.write(&mut to);
        }
        SavedVm::save(parts.vm.fd())?.write(&mut to);
        parts.machine.ports.save(&mut to);
        let slots = parts.machine.bus.slots();
        to.count(slots.len());
        for slot in slots {
            slot.transport().save(&mut to).map_err(|e| e.0)?;
        }
        to.finish().map_err(|e| e.0)
    }
}

fn write_state(files: &Files, state: &[u8]) -> Result<(), String> {
    (&files.state)
        .write_all(state)
        .map_err(|e| format!("writing the state: {e}"))
}

impl Names {
    fn next(&mut self) -> SnapshotId {
        self.next += 1;
        SnapshotId(u128::from(self.vm) << 64 | u128::from(self.next))
    }
}

impl History {
    /// Adds the pages that guest and devices have written since the last time.
    fn collect(&mut self, parts: Parts<'_>) -> Result<(), String> {
        let failed = |e: io::Error| format!("the log of written pages: {e}");
        if !self.is_logged {
            parts.vm.log_writes(parts.ram).map_err(failed)?;
            self.is_logged = true;
        }
        let mut at = 0;
        for (number, slot) in (0..).zip(parts.ram.slots()) {
            let guest = parts.vm.take_written(number, slot).map_err(failed)?;
            self.written.unite(at, &guest);
            at += guest.len();
        }
        // KVM does not see what this process writes.
        let mut at = 0;
        for devices in parts.ram.take_written() {
            self.written.unite(at, &devices);
            at += devices.len();
        }
        Ok(())
    }

    /// The state `id` is the newest link of a chain, and has each page.
    fn begin_at(&mut self, id: SnapshotId, links: usize) {
        self.written.clear();
        self.tip = Some((id, links));
    }
}
