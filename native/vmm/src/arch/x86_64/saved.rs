//! The state of a CPU, and of the parts that all CPUs share, as KVM gives and takes it.
//!
//! The order is part of the contract with KVM; each step names its reason.

use std::collections::BTreeSet;

use kvm_bindings::{
    CpuId, KVM_IRQCHIP_IOAPIC, KVM_IRQCHIP_PIC_MASTER, KVM_IRQCHIP_PIC_SLAVE,
    KVM_MAX_CPUID_ENTRIES, KVM_MAX_MSR_ENTRIES, Msrs, kvm_clock_data, kvm_cpuid_entry2,
    kvm_debugregs, kvm_irqchip, kvm_lapic_state, kvm_mp_state, kvm_msr_entry, kvm_pit_state2,
    kvm_regs, kvm_sregs, kvm_vcpu_events, kvm_xcrs, kvm_xsave,
};
use kvm_ioctls::{VcpuFd, VmFd};

use super::template;
use crate::config::CpuTemplate;
use crate::state::{Reader, StateError, Writer};

const MSR_TSC: u32 = 0x10;
const MSR_TSC_DEADLINE: u32 = 0x6e0;
/// KVM's list of MSRs has the MTRRs only on newer kernels.
const MTRRS: [std::ops::RangeInclusive<u32>; 5] = [
    0x200..=0x20f,
    0x250..=0x250,
    0x258..=0x259,
    0x268..=0x26f,
    0x2ff..=0x2ff,
];
/// MSRs that some hosts list and do not serve: the control of features, and counters of AMD's processors. A guest that
/// waits uses none of them.
const OPTIONAL: [std::ops::RangeInclusive<u32>; 3] = [
    0x3a..=0x3a,
    0xc001_0000..=0xc001_0007,
    0xc001_0200..=0xc001_020b,
];
/// The limit of MSRs of a CPU. KVM lists about 100.
const MAX_MSRS: usize = 1024;

/// Bits of CR4 and EFER by which a guest turns nested virtualization on.
const CR4_VMXE: u64 = 1 << 13;
const EFER_SVME: u64 = 1 << 12;

const CHIPS: [u32; 3] = [
    KVM_IRQCHIP_PIC_MASTER,
    KVM_IRQCHIP_PIC_SLAVE,
    KVM_IRQCHIP_IOAPIC,
];

/// Returns the MSRs that are saved, from the kernel's own list.
pub fn saved_msrs(listed: &[u32]) -> Vec<u32> {
    let all: BTreeSet<u32> = listed
        .iter()
        .copied()
        .chain(MTRRS.into_iter().flatten())
        .collect();
    all.into_iter().collect()
}

fn is_optional(index: u32) -> bool {
    OPTIONAL.iter().any(|range| range.contains(&index))
}

/// A CPU that does not run.
#[derive(Debug)]
pub struct SavedCpu {
    mp_state: kvm_mp_state,
    regs: kvm_regs,
    sregs: kvm_sregs,
    xsave: kvm_xsave,
    xcrs: kvm_xcrs,
    debug: kvm_debugregs,
    lapic: kvm_lapic_state,
    tsc_khz: u32,
    cpuid: Vec<kvm_cpuid_entry2>,
    msrs: Vec<kvm_msr_entry>,
    events: kvm_vcpu_events,
}

impl SavedCpu {
    /// Saves a CPU with the MSRs that [`saved_msrs`] returned.
    pub fn save(vcpu: &VcpuFd, msrs: &[u32]) -> Result<Self, String> {
        // It completes a start of the CPU that waits in the local APIC.
        let mp_state = vcpu.get_mp_state().map_err(|e| failed("MP state", e))?;
        let regs = vcpu.get_regs().map_err(|e| failed("registers", e))?;
        let sregs = vcpu
            .get_sregs()
            .map_err(|e| failed("special registers", e))?;
        refuse_nested(&sregs)?;
        Ok(Self {
            mp_state,
            regs,
            sregs,
            xsave: vcpu.get_xsave().map_err(|e| failed("XSAVE", e))?,
            xcrs: vcpu.get_xcrs().map_err(|e| failed("XCRs", e))?,
            debug: vcpu
                .get_debug_regs()
                .map_err(|e| failed("debug registers", e))?,
            lapic: vcpu.get_lapic().map_err(|e| failed("local APIC", e))?,
            tsc_khz: vcpu.get_tsc_khz().map_err(|e| failed("TSC", e))?,
            cpuid: vcpu
                .get_cpuid2(KVM_MAX_CPUID_ENTRIES)
                .map_err(|e| failed("CPUID", e))?
                .as_slice()
                .to_vec(),
            msrs: in_batches(msrs, |batch| read_msrs(vcpu, batch))?,
            // Earlier calls can still change an event.
            events: vcpu.get_vcpu_events().map_err(|e| failed("events", e))?,
        })
    }

    /// Fails unless a CPU with the features of this host can continue.
    pub fn check_features(&self, vcpu: &VcpuFd, template: CpuTemplate) -> Result<(), String> {
        let own = vcpu
            .get_cpuid2(KVM_MAX_CPUID_ENTRIES)
            .map_err(|e| failed("CPUID", e))?;
        template::check(template, &self.cpuid, own.as_slice())
    }

    /// Gives a CPU this state. The interrupt controllers exist already.
    pub fn restore(&self, vcpu: &VcpuFd) -> Result<(), String> {
        if vcpu.get_tsc_khz().ok() != Some(self.tsc_khz) {
            vcpu.set_tsc_khz(self.tsc_khz)
                .map_err(|e| failed("TSC", e))?;
        }
        // KVM checks most of the rest against the features.
        let leaves =
            CpuId::from_entries(&self.cpuid).map_err(|e| failed("CPUID", format!("{e:?}")))?;
        vcpu.set_cpuid2(&leaves).map_err(|e| failed("CPUID", e))?;
        vcpu.set_mp_state(self.mp_state)
            .map_err(|e| failed("MP state", e))?;
        vcpu.set_regs(&self.regs)
            .map_err(|e| failed("registers", e))?;
        vcpu.set_sregs(&self.sregs)
            .map_err(|e| failed("special registers", e))?;
        // On a host without XSAVE there are no XCRs.
        if self.xcrs.nr_xcrs > 0 {
            vcpu.set_xcrs(&self.xcrs).map_err(|e| failed("XCRs", e))?;
        }
        // SAFETY: KVM reads exactly this structure, because no guest has dynamic features.
        unsafe { vcpu.set_xsave(&self.xsave) }.map_err(|e| failed("XSAVE", e))?;
        vcpu.set_debug_regs(&self.debug)
            .map_err(|e| failed("debug registers", e))?;
        // Before the deadline of its timer, which KVM ignores in another mode of the timer.
        vcpu.set_lapic(&self.lapic)
            .map_err(|e| failed("local APIC", e))?;
        let (first, last) = order_msrs(&self.msrs);
        for part in [first, last] {
            in_batches(&part, |batch| write_msrs(vcpu, batch))?;
        }
        vcpu.set_vcpu_events(&self.events)
            .map_err(|e| failed("events", e))
    }

    pub fn write(&self, to: &mut Writer) {
        to.structure(&self.mp_state);
        to.structure(&self.regs);
        to.structure(&self.sregs);
        to.structure(&self.xsave);
        to.structure(&self.xcrs);
        to.structure(&self.debug);
        to.structure(&self.lapic);
        to.u32(self.tsc_khz);
        to.count(self.cpuid.len());
        self.cpuid.iter().for_each(|leaf| to.structure(leaf));
        to.count(self.msrs.len());
        self.msrs.iter().for_each(|msr| to.structure(msr));
        to.structure(&self.events);
    }

    pub fn read(from: &mut Reader<'_>) -> Result<Self, StateError> {
        Ok(Self {
            mp_state: from.structure()?,
            regs: from.structure()?,
            sregs: from.structure()?,
            xsave: from.structure()?,
            xcrs: from.structure()?,
            debug: from.structure()?,
            lapic: from.structure()?,
            tsc_khz: from.u32()?,
            cpuid: {
                let count = from.count(KVM_MAX_CPUID_ENTRIES, "leaves of CPUID")?;
                (0..count)
                    .map(|_| from.structure())
                    .collect::<Result<_, _>>()?
            },
            msrs: {
                let count = from.count(MAX_MSRS, "MSRs")?;
                (0..count)
                    .map(|_| from.structure())
                    .collect::<Result<_, _>>()?
            },
            events: from.structure()?,
        })
    }
}

fn failed(what: &str, error: impl std::fmt::Display) -> String {
    format!("{what}: {error}")
}

/// The state of a guest of the guest is not saved.
fn refuse_nested(sregs: &kvm_sregs) -> Result<(), String> {
    if sregs.cr4 & CR4_VMXE != 0 || sregs.efer & EFER_SVME != 0 {
        return Err("the guest uses nested virtualization".into());
    }
    Ok(())
}

/// Passes over all items. `work` returns what it has done with the first of a batch, in order; KVM stops at one that it
/// refuses.
fn in_batches<T: Copy + HasIndex, R>(
    items: &[T],
    mut work: impl FnMut(&[T]) -> Result<Vec<R>, String>,
) -> Result<Vec<R>, String> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < items.len() {
        let batch = &items[at..items.len().min(at + KVM_MAX_MSR_ENTRIES)];
        let done = work(batch)?;
        at += done.len();
        let refused = batch.get(done.len());
        all.extend(done);
        if let Some(refused) = refused {
            let index = refused.index();
            if !is_optional(index) {
                return Err(format!("KVM refuses the MSR {index:#x}"));
            }
            at += 1;
        }
    }
    Ok(all)
}

trait HasIndex {
    fn index(&self) -> u32;
}

impl HasIndex for u32 {
    fn index(&self) -> u32 {
        *self
    }
}

impl HasIndex for kvm_msr_entry {
    fn index(&self) -> u32 {
        self.index
    }
}

fn read_msrs(vcpu: &VcpuFd, batch: &[u32]) -> Result<Vec<kvm_msr_entry>, String> {
    let entries: Vec<kvm_msr_entry> = batch
        .iter()
        .map(|index| kvm_msr_entry {
            index: *index,
            ..Default::default()
        })
        .collect();
    let mut msrs = Msrs::from_entries(&entries).map_err(|e| failed("MSRs", format!("{e:?}")))?;
    let count = vcpu.get_msrs(&mut msrs).map_err(|e| failed("MSRs", e))?;
    Ok(msrs.as_slice().iter().take(count).copied().collect())
}

fn write_msrs(vcpu: &VcpuFd, batch: &[kvm_msr_entry]) -> Result<Vec<()>, String> {
    let msrs = Msrs::from_entries(batch).map_err(|e| failed("MSRs", format!("{e:?}")))?;
    let count = vcpu.set_msrs(&msrs).map_err(|e| failed("MSRs", e))?;
    Ok(vec![(); count.min(batch.len())])
}

/// Returns all MSRs but the deadline of the timer, and the deadline. It follows the TSC, in whose time it is.
///
/// A deadline of zero may belong to a timer that has fired, and whose interrupt KVM does not save. With the
/// present instead, the guest gets this interrupt, or one more than necessary.
fn order_msrs(msrs: &[kvm_msr_entry]) -> (Vec<kvm_msr_entry>, Vec<kvm_msr_entry>) {
    let now = msrs.iter().find(|msr| msr.index == MSR_TSC);
    let now = now.map_or(1, |msr| msr.data);
    let (mut deadlines, rest): (Vec<kvm_msr_entry>, _) =
        msrs.iter().partition(|msr| msr.index == MSR_TSC_DEADLINE);
    for deadline in &mut deadlines {
        if deadline.data == 0 {
            deadline.data = now;
        }
    }
    (rest, deadlines)
}

/// The clock, the timer and the interrupt controllers, which all CPUs of a VM share.
#[derive(Debug)]
pub struct SavedVm {
    clock_ns: u64,
    pit: kvm_pit_state2,
    chips: [kvm_irqchip; 3],
}

impl SavedVm {
    /// Saves a VM whose CPUs are saved already.
    pub fn save(vm: &VmFd) -> Result<Self, String> {
        let clock_ns = vm.get_clock().map_err(|e| failed("clock", e))?.clock;
        let pit = vm.get_pit2().map_err(|e| failed("PIT", e))?;
        let mut chips = CHIPS.map(|chip_id| kvm_irqchip {
            chip_id,
            ..Default::default()
        });
        for chip in &mut chips {
            vm.get_irqchip(chip)
                .map_err(|e| failed("interrupt controllers", e))?;
        }
        Ok(Self {
            clock_ns,
            pit,
            chips,
        })
    }

    /// Gives a VM this state. Its CPUs have theirs, and none has run.
    pub fn restore(&self, vm: &VmFd) -> Result<(), String> {
        vm.set_pit2(&self.pit).map_err(|e| failed("PIT", e))?;
        // Without flags the clock continues from the saved value: a jump would make all timers overdue.
        let clock = kvm_clock_data {
            clock: self.clock_ns,
            ..Default::default()
        };
        vm.set_clock(&clock).map_err(|e| failed("clock", e))?;
        for chip in &self.chips {
            vm.set_irqchip(chip)
                .map_err(|e| failed("interrupt controllers", e))?;
        }
        Ok(())
    }

    pub fn write(&self, to: &mut Writer) {
        to.u64(self.clock_ns);
        to.structure(&self.pit);
        self.chips.iter().for_each(|chip| to.structure(chip));
    }

    pub fn read(from: &mut Reader<'_>) -> Result<Self, StateError> {
        let saved = Self {
            clock_ns: from.u64()?,
            pit: from.structure()?,
            chips: [from.structure()?, from.structure()?, from.structure()?],
        };
        if saved.chips.each_ref().map(|chip| chip.chip_id) != CHIPS {
            return Err(StateError::new("interrupt controllers in another order"));
        }
        Ok(saved)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::arch::vm::Vm;
    use crate::memory::Ram;

    const APIC_TIMER: usize = 0x320;
    const DEADLINE_MODE: u8 = 4;

    fn msr(index: u32, data: u64) -> kvm_msr_entry {
        kvm_msr_entry {
            index,
            data,
            ..Default::default()
        }
    }

    #[test]
    fn the_deadline_of_a_timer_comes_behind_the_tsc_and_is_never_zero() {
        for (saved, restored) in [(9, 9), (0, 7)] {
            let msrs = [msr(MSR_TSC_DEADLINE, saved), msr(MSR_TSC, 7), msr(1, 2)];
            let (first, last) = order_msrs(&msrs);
            assert_eq!(first, [msr(MSR_TSC, 7), msr(1, 2)]);
            assert_eq!(last, [msr(MSR_TSC_DEADLINE, restored)]);
        }
        assert!(order_msrs(&[]).1.is_empty());
    }

    #[test]
    fn an_msr_that_kvm_refuses_is_named_unless_some_hosts_do_not_serve_it() {
        let all: Vec<u32> = (0x1000..0x1300).chain([0x3a, 0xc001_0200]).collect();
        // KVM stops at the one that it refuses, as if nothing followed.
        let take_but = |refused: &[u32]| {
            in_batches(&all, |batch| {
                assert!(batch.len() <= KVM_MAX_MSR_ENTRIES);
                let taken = batch.iter().copied();
                Ok(taken.take_while(|index| !refused.contains(index)).collect())
            })
        };
        assert_eq!(take_but(&[]).unwrap(), all);
        assert_eq!(take_but(&[0x3a, 0xc001_0200]).unwrap(), all[..0x300]);
        let error = take_but(&[0x1100]).unwrap_err();
        assert_eq!(error, "KVM refuses the MSR 0x1100");
    }

    #[test]
    fn the_kernels_list_is_completed_by_the_mtrrs() {
        let all = saved_msrs(&[0x2ff, 0x4b56_4d01, 0x10]);
        assert_eq!(all.first(), Some(&0x10));
        assert_eq!(all.last(), Some(&0x4b56_4d01));
        assert_eq!(all.len(), 2 + 16 + 1 + 2 + 8 + 1);
    }

    #[test]
    fn a_guest_with_guests_of_its_own_cannot_be_saved() {
        let mut sregs = kvm_sregs::default();
        refuse_nested(&sregs).unwrap();
        sregs.efer = EFER_SVME;
        refuse_nested(&sregs).unwrap_err();
        sregs = kvm_sregs::default();
        sregs.cr4 = CR4_VMXE;
        refuse_nested(&sregs).unwrap_err();
    }

    /// A VM with two CPUs, if there is KVM.
    fn vm() -> Option<(Ram, Vm, Vec<VcpuFd>)> {
        let kvm = File::options().read(true).write(true).open("/dev/kvm");
        let kvm = match kvm {
            Ok(kvm) => OwnedFd::from(kvm),
            Err(error) if std::env::var_os("VOIDBOX_REQUIRE_VM_TESTS").is_some() => {
                panic!("/dev/kvm: {error}, and VOIDBOX_REQUIRE_VM_TESTS is set")
            }
            Err(_) => return None,
        };
        let ram = Ram::new(64).unwrap();
        let vm = Vm::new(kvm, &ram).unwrap();
        let vcpus = vm.create_vcpus(CpuTemplate::Host, 2).unwrap();
        Some((ram, vm, vcpus))
    }

    #[test]
    fn a_saved_cpu_continues_only_where_its_features_are() {
        let Some((_ram, vm, vcpus)) = vm() else {
            return;
        };
        let msrs = vm.saved_msrs().unwrap();
        let mut saved = SavedCpu::save(&vcpus[0], &msrs).unwrap();
        saved.check_features(&vcpus[0], CpuTemplate::Host).unwrap();
        let features = saved.cpuid.iter_mut().find(|leaf| leaf.function == 1);
        features.unwrap().edx ^= 1 << 4;
        for template in [CpuTemplate::Host, CpuTemplate::Portable] {
            let error = saved.check_features(&vcpus[0], template).unwrap_err();
            assert!(error.contains("EDX of leaf 0x1.0"), "{error}");
        }
    }

    /// Gives a CPU values that no new one has.
    fn mark(vcpu: &VcpuFd, vm: &VmFd) {
        let mut regs = vcpu.get_regs().unwrap();
        (regs.rax, regs.r15, regs.rip) = (1, 15, 0x1234);
        vcpu.set_regs(&regs).unwrap();
        let mut sregs = vcpu.get_sregs().unwrap();
        (sregs.cr2, sregs.gdt.base) = (0x2000, 0x3000);
        vcpu.set_sregs(&sregs).unwrap();
        let mut debug = vcpu.get_debug_regs().unwrap();
        debug.db[0] = 0x4000;
        vcpu.set_debug_regs(&debug).unwrap();
        let mut fpu = vcpu.get_fpu().unwrap();
        fpu.fcw = 0x37f;
        fpu.xmm[3] = [7; 16];
        vcpu.set_fpu(&fpu).unwrap();
        let mut lapic = vcpu.get_lapic().unwrap();
        lapic.regs[APIC_TIMER + 2] = DEADLINE_MODE.cast_signed();
        vcpu.set_lapic(&lapic).unwrap();
        let far = vcpu_msr(vcpu, MSR_TSC) + (1 << 40);
        let msrs = [msr(0xc000_0102, 5), msr(MSR_TSC_DEADLINE, far)];
        assert_eq!(vcpu.set_msrs(&Msrs::from_entries(&msrs).unwrap()), Ok(2));
        let mut pit = vm.get_pit2().unwrap();
        pit.channels[2].count = 77;
        vm.set_pit2(&pit).unwrap();
    }

    fn vcpu_msr(vcpu: &VcpuFd, index: u32) -> u64 {
        let mut msrs = Msrs::from_entries(&[msr(index, 0)]).unwrap();
        assert_eq!(vcpu.get_msrs(&mut msrs), Ok(1));
        msrs.as_slice()[0].data
    }

    /// Returns a CPU's state as bytes, without what counts the time.
    fn bytes_without_time(saved: &SavedCpu) -> Vec<u8> {
        let mut saved = SavedCpu {
            cpuid: saved.cpuid.clone(),
            msrs: saved.msrs.clone(),
            // SAFETY: the structure is plain data.
            xsave: unsafe { std::ptr::read(&raw const saved.xsave) },
            ..*saved
        };
        saved.msrs.retain(|msr| msr.index != MSR_TSC);
        let mut to = Writer::new();
        saved.write(&mut to);
        to.finish().unwrap()
    }

    #[test]
    fn cpus_and_what_they_share_are_the_same_after_a_restore() {
        let Some((_ram, vm, vcpus)) = vm() else {
            return;
        };
        let indices = vm.saved_msrs().unwrap();
        mark(&vcpus[1], vm.fd());
        let saved = SavedCpu::save(&vcpus[1], &indices).unwrap();
        assert_eq!(
            saved.msrs.len(),
            indices.len(),
            "KVM serves all that it lists"
        );
        let shared = SavedVm::save(vm.fd()).unwrap();
        let mut to = Writer::new();
        saved.write(&mut to);
        shared.write(&mut to);
        let state = to.finish().unwrap();
        let mut from = Reader::open(&state).unwrap();
        let read = SavedCpu::read(&mut from).unwrap();
        let read_shared = SavedVm::read(&mut from).unwrap();
        from.end().unwrap();
        assert_eq!(bytes_without_time(&read), bytes_without_time(&saved));

        let (_ram, other, others) = self::vm().unwrap();
        read.restore(&others[1]).unwrap();
        read_shared.restore(other.fd()).unwrap();
        let again = SavedCpu::save(&others[1], &indices).unwrap();
        assert_eq!(bytes_without_time(&again), bytes_without_time(&saved));
        // A deadline that KVM got before the timer's mode would be gone.
        let deadline = vcpu_msr(&others[1], MSR_TSC_DEADLINE);
        assert!(deadline > 1 << 40);
        let [before, after] = [&saved, &again].map(|cpu| {
            let tsc = cpu.msrs.iter().find(|msr| msr.index == MSR_TSC);
            tsc.unwrap().data
        });
        assert!(
            (before..before + (1 << 40)).contains(&after),
            "{before} {after}"
        );
        let again = SavedVm::save(other.fd()).unwrap();
        assert_eq!(again.pit.channels[2].count, 77);
        assert_eq!(again.chips.len(), shared.chips.len());
        let minute = 60_000_000_000;
        let passed = again.clock_ns.checked_sub(shared.clock_ns);
        assert!(passed.is_some_and(|ns| ns < minute), "{passed:?}");
    }
}
