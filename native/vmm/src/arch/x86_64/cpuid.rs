//! The features that a guest sees: those that KVM supports, with the shape of this machine.

use kvm_bindings::kvm_cpuid_entry2 as Entry;

use super::template;
use crate::config::CpuTemplate;

const HYPERVISOR: u32 = 1 << 31;
const TSC_DEADLINE: u32 = 1 << 24;
const XSAVE: u32 = 1 << 26;
const HYPER_THREADING: u32 = 1 << 28;
/// Leaf 0xd, subleaf 1: the compact form, and states of the supervisor.
const XSAVEC: u32 = 1 << 1;
const XSAVES: u32 = 1 << 3;
/// The legacy area and the header of an XSAVE area.
const XSAVE_BASE: u32 = 576;
/// A state of the supervisor, in ECX of its subleaf.
const SUPERVISOR_STATE: u32 = 1;
/// A state that begins at a multiple of 64 in the compact form, in ECX of its subleaf.
const ALIGNED_STATE: u32 = 1 << 1;
/// The flag of entries that have subleaves.
const HAS_INDEX: u32 = kvm_bindings::KVM_CPUID_FLAG_SIGNIFCANT_INDEX;

/// Returns the leaves of the CPU `id` of `vcpus`, from those that KVM supports and the template has.
pub fn guest_leaves(
    supported: &[Entry],
    cpu_template: CpuTemplate,
    id: u8,
    vcpus: u8,
) -> Vec<Entry> {
    let mut leaves: Vec<Entry> = supported
        .iter()
        // Their subleaves describe the host's processor.
        .filter(|leaf| !matches!(leaf.function, 0xb | 0x1f))
        .copied()
        .collect();
    template::apply(cpu_template, &mut leaves);
    for leaf in &mut leaves {
        match leaf.function {
            1 => describe_cpu(leaf, id, vcpus),
            4 => share_caches(leaf, vcpus),
            0x8000_0008 => count_cores(leaf, vcpus),
            0x8000_001d => share_caches_amd(leaf, vcpus),
            0x8000_001e => {
                leaf.eax = id.into();
                leaf.ebx = id.into();
                leaf.ecx = 0;
            }
            _ => {}
        }
    }
    leaves.extend(topology(id, vcpus));
    if let Some(leaf) = leaves.iter_mut().find(|leaf| leaf.function == 0) {
        leaf.eax = leaf.eax.max(0xb);
    }
    make_xsave_consistent(&mut leaves);
    leaves
}

/// KVM of older kernels leaves the hypervisor bit clear: the guest would not look for KVM's clock, and it would calibrate
/// its TSC with timers that do not exist.
fn describe_cpu(leaf: &mut Entry, id: u8, vcpus: u8) {
    leaf.ecx |= HYPERVISOR | TSC_DEADLINE;
    leaf.ebx = leaf.ebx & 0xffff | u32::from(vcpus) << 16 | u32::from(id) << 24;
    if vcpus > 1 {
        leaf.edx |= HYPER_THREADING;
    } else {
        leaf.edx &= !HYPER_THREADING;
    }
}

/// Each CPU is a core with its own caches of level 1 and 2; all share level 3.
fn share_caches(leaf: &mut Entry, vcpus: u8) {
    if leaf.eax & 0x1f == 0 {
        return;
    }
    let others = u32::from(vcpus) - 1;
    let level = leaf.eax >> 5 & 7;
    let sharing = if level >= 3 { others } else { 0 };
    leaf.eax = leaf.eax & 0x3fff | sharing << 14 | others << 26;
}

fn share_caches_amd(leaf: &mut Entry, vcpus: u8) {
    if leaf.eax & 0x1f == 0 {
        return;
    }
    let level = leaf.eax >> 5 & 7;
    let sharing = if level >= 3 { u32::from(vcpus) - 1 } else { 0 };
    leaf.eax = leaf.eax & !(0xfff << 14) | sharing << 14;
}

fn count_cores(leaf: &mut Entry, vcpus: u8) {
    leaf.ecx = leaf.ecx & !0xf0ff | (u32::from(vcpus) - 1) | id_bits(vcpus) << 12;
}

/// Returns the number of bits of an APIC id.
fn id_bits(vcpus: u8) -> u32 {
    u8::BITS - (vcpus - 1).leading_zeros()
}

/// One thread in each core, all cores in one package.
fn topology(id: u8, vcpus: u8) -> [Entry; 3] {
    let level = |index, eax, ebx, kind: u32| Entry {
        function: 0xb,
        index,
        flags: HAS_INDEX,
        eax,
        ebx,
        ecx: index | kind << 8,
        edx: id.into(),
        ..Default::default()
    };
    [
        level(0, 0, 1, 1),
        level(1, id_bits(vcpus), vcpus.into(), 2),
        level(2, 0, 0, 0),
    ]
}

/// Makes the sizes of leaf 0xd those of the states that it lists. KVM tells sizes of its host, some of whose states the
/// guest may not have, and a guest whose sum differs warns and goes without XSAVE.
fn make_xsave_consistent(leaves: &mut Vec<Entry>) {
    let has_xsave = leaves
        .iter()
        .any(|leaf| leaf.function == 1 && leaf.ecx & XSAVE != 0);
    if !has_xsave {
        leaves.retain(|leaf| leaf.function != 0xd);
        return;
    }
    let subleaf = |index: u32| {
        leaves
            .iter()
            .find(|leaf| leaf.function == 0xd && leaf.index == index)
            .copied()
    };
    let Some(main) = subleaf(0) else { return };
    let features = subleaf(1).unwrap_or_default();
    let exists = |bit: u32| subleaf(bit).is_some_and(|leaf| leaf.eax != 0);
    // Bits 0 and 1, x87 and SSE, lie in the legacy area.
    let user = (2..32).filter(|bit| main.eax >> bit & 1 == 1 && exists(*bit));
    let user: u32 = user.fold(main.eax & 0b11, |mask, bit| mask | 1 << bit);
    let supervisor = if features.eax & XSAVES == 0 {
        0
    } else {
        (2..32)
            .filter(|bit| features.ecx >> bit & 1 == 1 && exists(*bit))
            .fold(0u32, |mask, bit| mask | 1 << bit)
    };
    let states = |mask: u32| (2..32).filter(move |bit| mask >> bit & 1 == 1);
    let standard = states(user)
        .filter_map(subleaf)
        .map(|state| state.ebx.saturating_add(state.eax))
        .fold(XSAVE_BASE, u32::max);
    let compact = states(user | supervisor)
        .filter_map(subleaf)
        .fold(XSAVE_BASE, |end, state| {
            let start = if state.ecx & ALIGNED_STATE != 0 {
                end.next_multiple_of(64)
            } else {
                end
            };
            start.saturating_add(state.eax)
        });
    leaves.retain(|leaf| {
        leaf.function != 0xd
            || leaf.index < 2
            || (leaf.index < 32 && (user | supervisor) >> leaf.index & 1 == 1)
    });
    for leaf in leaves.iter_mut().filter(|leaf| leaf.function == 0xd) {
        match leaf.index {
            0 => {
                leaf.eax = user;
                leaf.edx = 0;
                // The size for the states that are on. KVM follows XCR0, except on a processor that does not tell it of a
                // change; there a guest reads this after it has turned all of them on.
                leaf.ebx = standard;
                leaf.ecx = standard;
            }
            1 => {
                leaf.ecx = supervisor;
                leaf.edx = 0;
                leaf.ebx = if leaf.eax & (XSAVEC | XSAVES) != 0 {
                    compact
                } else {
                    0
                };
            }
            index => {
                debug_assert!(index < 32);
                if supervisor >> index & 1 == 0 {
                    leaf.ecx &= !SUPERVISOR_STATE;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(function: u32, index: u32, [eax, ebx, ecx, edx]: [u32; 4]) -> Entry {
        Entry {
            function,
            index,
            eax,
            ebx,
            ecx,
            edx,
            ..Default::default()
        }
    }

    fn find(leaves: &[Entry], function: u32, index: u32) -> Entry {
        *leaves
            .iter()
            .find(|leaf| leaf.function == function && leaf.index == index)
            .unwrap_or_else(|| panic!("no leaf {function:#x}.{index}"))
    }

    /// A host whose processor has AVX, PKRU and tile data, with the sizes of all of them.
    fn host() -> Vec<Entry> {
        vec![
            leaf(0, 0, [0xd, 0, 0, 0]),
            leaf(1, 0, [0, 0x0510_0800, XSAVE, HYPER_THREADING]),
            leaf(4, 0, [0x1c00_4121, 0, 0, 0]),
            leaf(4, 3, [0x1c03_c163, 0, 0, 0]),
            leaf(0xb, 0, [1, 2, 0x100, 5]),
            // Tile data (18) has no subleaf of its own.
            leaf(0xd, 0, [0b10_0000_0111 | 1 << 18, 11008, 11008, 0]),
            leaf(0xd, 1, [XSAVEC | XSAVES, 9999, 1 << 11, 0]),
            leaf(0xd, 2, [256, 576, 0, 0]),
            leaf(0xd, 9, [8, 2688, 0, 0]),
            leaf(0xd, 11, [16, 0, SUPERVISOR_STATE, 0]),
            leaf(0xd, 17, [64, 2752, ALIGNED_STATE, 0]),
        ]
    }

    #[test]
    fn a_guest_knows_that_it_is_one_and_has_the_timer_of_the_tsc() {
        let leaves = guest_leaves(&host(), CpuTemplate::Host, 0, 1);
        let cpu = find(&leaves, 1, 0);
        assert_ne!(cpu.ecx & HYPERVISOR, 0);
        assert_ne!(cpu.ecx & TSC_DEADLINE, 0);
    }

    #[test]
    fn each_cpu_has_its_own_id_and_one_alone_has_no_siblings() {
        let leaves = guest_leaves(&host(), CpuTemplate::Host, 31, 32);
        let cpu = find(&leaves, 1, 0);
        assert_eq!(cpu.ebx, 31 << 24 | 32 << 16 | 0x0800);
        assert_ne!(cpu.edx & HYPER_THREADING, 0);
        assert_eq!(find(&leaves, 0xb, 0).edx, 31);
        assert_eq!(find(&leaves, 0xb, 1).ebx, 32);
        assert_eq!(find(&leaves, 0xb, 1).eax, 5);
        let leaves = guest_leaves(&host(), CpuTemplate::Host, 0, 1);
        assert_eq!(find(&leaves, 1, 0).edx & HYPER_THREADING, 0);
        assert_eq!(find(&leaves, 0xb, 1).eax, 0);
    }

    #[test]
    fn cores_share_the_last_cache_only() {
        let leaves = guest_leaves(&host(), CpuTemplate::Host, 0, 4);
        assert_eq!(find(&leaves, 4, 0).eax >> 14 & 0xfff, 0);
        assert_eq!(find(&leaves, 4, 3).eax >> 14 & 0xfff, 3);
        assert_eq!(find(&leaves, 4, 3).eax >> 26, 3);
    }

    #[test]
    fn the_sizes_of_xsave_are_those_of_the_states_that_are_listed() {
        let leaves = guest_leaves(&host(), CpuTemplate::Host, 0, 1);
        let main = find(&leaves, 0xd, 0);
        assert_eq!(main.eax, 0b10_0000_0111);
        assert_eq!(main.ecx, 2696, "the end of PKRU");
        assert_eq!(main.ebx, main.ecx);
        let features = find(&leaves, 0xd, 1);
        assert_eq!(features.ecx, 1 << 11);
        assert_eq!(features.ebx, 576 + 256 + 8 + 16);
        assert!(
            !leaves
                .iter()
                .any(|leaf| leaf.function == 0xd && leaf.index == 17)
        );
    }

    #[test]
    fn without_xsave_there_is_no_leaf_for_it() {
        let mut host = host();
        host[1].ecx = 0;
        let leaves = guest_leaves(&host, CpuTemplate::Host, 0, 1);
        assert!(leaves.iter().all(|leaf| leaf.function != 0xd));
    }
}
