//! The registers of a CPU at its start.

use kvm_bindings::{Msrs, kvm_fpu, kvm_msr_entry, kvm_regs, kvm_segment};
use kvm_ioctls::VcpuFd;
use vm_memory::{Bytes, GuestAddress};

use super::kernel::Entry;
use super::layout;
use crate::guest_memory::GuestMemory;

const CR0_PROTECTED: u64 = 1;
const CR0_PAGING: u64 = 1 << 31;
const CR4_PAE: u64 = 1 << 5;
const EFER_LONG: u64 = 1 << 8 | 1 << 10;
/// The bit of the flags that is always set.
const FLAGS: u64 = 2;
const FPU_CONTROL: u16 = 0x37f;
const SSE_CONTROL: u32 = 0x1f80;

const MSR_MISC_ENABLE: u32 = 0x1a0;
const MISC_FAST_STRINGS: u64 = 1;
const MSR_MTRR_DEFAULT: u32 = 0x2ff;
/// MTRRs are on, and all memory is written back.
const MTRR_WRITE_BACK: u64 = 1 << 11 | 6;

/// Entries of the local APIC's table, as a PC connects them.
const LVT_LINT0: usize = 0x350;
const LVT_LINT1: usize = 0x360;
const DELIVERY_NMI: u8 = 4;
const DELIVERY_EXTERNAL: u8 = 7;

const PAGE_PRESENT_WRITABLE: u64 = 0b11;
const PAGE_HUGE: u64 = 1 << 7;

type KvmResult = Result<(), kvm_ioctls::Error>;

/// Sets what every CPU has at its start.
pub fn set_up_any(vcpu: &VcpuFd) -> Result<(), String> {
    let wanted = [
        (MSR_MISC_ENABLE, MISC_FAST_STRINGS),
        (MSR_MTRR_DEFAULT, MTRR_WRITE_BACK),
    ];
    let entries = wanted.map(|(index, data)| kvm_msr_entry {
        index,
        data,
        ..Default::default()
    });
    let msrs = Msrs::from_entries(&entries).map_err(|e| format!("MSRs: {e:?}"))?;
    // KVM stops at the first one that it refuses, and returns how many it took.
    let taken = vcpu.set_msrs(&msrs).map_err(|e| format!("MSRs: {e}"))?;
    if let Some((index, _)) = wanted.get(taken) {
        return Err(format!("KVM refuses the MSR {index:#x}"));
    }
    let fpu = kvm_fpu {
        fcw: FPU_CONTROL,
        mxcsr: SSE_CONTROL,
        ..Default::default()
    };
    vcpu.set_fpu(&fpu).map_err(|e| format!("FPU: {e}"))?;
    connect_apic(vcpu).map_err(|e| format!("local APIC: {e}"))
}

fn connect_apic(vcpu: &VcpuFd) -> KvmResult {
    let mut apic = vcpu.get_lapic()?;
    for (at, mode) in [(LVT_LINT0, DELIVERY_EXTERNAL), (LVT_LINT1, DELIVERY_NMI)] {
        // Bits 8 to 10 of the register. The type of the bytes is the C compiler's.
        let byte = &mut apic.regs[at + 1];
        let [old] = byte.to_ne_bytes();
        *byte = libc::c_char::from_ne_bytes([old & !7 | mode]);
    }
    vcpu.set_lapic(&apic)
}

/// Sets the first CPU to the kernel's entry. The others wait for it.
pub fn set_up_first(vcpu: &VcpuFd, memory: &GuestMemory, entry: Entry) -> Result<(), String> {
    write_tables(memory, entry).map_err(|e| format!("page tables: {e}"))?;
    set_segments(vcpu, entry).map_err(|e| format!("special registers: {e}"))?;
    let regs = match entry {
        Entry::Pvh(rip) => kvm_regs {
            rip,
            rbx: layout::PVH_INFO,
            rflags: FLAGS,
            ..Default::default()
        },
        Entry::Linux64(rip) => kvm_regs {
            rip,
            rsi: layout::BOOT_PARAMS,
            rsp: layout::STACK,
            rbp: layout::STACK,
            rflags: FLAGS,
            ..Default::default()
        },
    };
    vcpu.set_regs(&regs).map_err(|e| format!("registers: {e}"))
}

/// A segment of the table, and as KVM loads it.
fn segment(selector: u16, type_: u8, long: bool) -> kvm_segment {
    kvm_segment {
        limit: 0xffff_ffff,
        selector,
        type_,
        present: 1,
        s: 1,
        l: long.into(),
        db: (!long).into(),
        g: 1,
        ..Default::default()
    }
}

fn set_segments(vcpu: &VcpuFd, entry: Entry) -> KvmResult {
    let long = matches!(entry, Entry::Linux64(_));
    let mut sregs = vcpu.get_sregs()?;
    sregs.gdt.base = layout::GDT;
    sregs.gdt.limit = 4 * 8 - 1;
    sregs.cs = segment(8, 0xb, long);
    let data = segment(16, 3, false);
    (sregs.ds, sregs.es, sregs.fs, sregs.gs, sregs.ss) = (data, data, data, data, data);
    sregs.tr = kvm_segment {
        limit: 0xf_ffff,
        selector: 24,
        type_: 0xb,
        present: 1,
        g: 1,
        ..Default::default()
    };
    if long {
        sregs.cr3 = layout::PAGE_TABLES;
        sregs.cr4 = CR4_PAE;
        sregs.cr0 |= CR0_PROTECTED | CR0_PAGING;
        sregs.efer |= EFER_LONG;
    } else {
        sregs.cr0 = CR0_PROTECTED;
        sregs.cr4 = 0;
    }
    vcpu.set_sregs(&sregs)
}

/// Writes the table of segments, and for 64-bit mode a map of the lowest addresses to themselves.
fn write_tables(memory: &GuestMemory, entry: Entry) -> Result<(), vm_memory::GuestMemoryError> {
    let long = matches!(entry, Entry::Linux64(_));
    let code: u64 = if long {
        0x00af_9b00_0000_ffff
    } else {
        0x00cf_9b00_0000_ffff
    };
    for (index, descriptor) in [0, code, 0x00cf_9300_0000_ffff, 0x008f_8b00_0000_ffff]
        .into_iter()
        .enumerate()
    {
        memory.write_obj(descriptor, GuestAddress(layout::GDT + index as u64 * 8))?;
    }
    if !long {
        return Ok(());
    }
    let [top, middle, low] = [0, 0x1000, 0x2000].map(|offset| layout::PAGE_TABLES + offset);
    memory.write_obj(middle | PAGE_PRESENT_WRITABLE, GuestAddress(top))?;
    for gib in 0..layout::MAPPED_GIB {
        let table = low + gib * 0x1000;
        memory.write_obj(
            table | PAGE_PRESENT_WRITABLE,
            GuestAddress(middle + gib * 8),
        )?;
        for index in 0..512u64 {
            let page = (gib << 30 | index << 21) | PAGE_HUGE | PAGE_PRESENT_WRITABLE;
            memory.write_obj(page, GuestAddress(table + index * 8))?;
        }
    }
    Ok(())
}
