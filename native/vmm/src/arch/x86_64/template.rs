//! CPU templates: which features of the host's CPU a guest sees, and whether a saved guest may continue on this CPU.

use kvm_bindings::kvm_cpuid_entry2 as Entry;

use crate::config::CpuTemplate;

/// The registers of a leaf: EAX, EBX, ECX, EDX.
type Words = [u32; 4];

const ALL: u32 = u32::MAX;
const NAMES: [&str; 4] = ["EAX", "EBX", "ECX", "EDX"];

/// The features of a portable guest, as bits of their leaves: those of x86-64-v3, which Intel's processors have since
/// Haswell and AMD's since Zen, and those by which a kernel protects itself from its programs. The guest
/// does not get another leaf.
const PORTABLE: &[(u32, u32, Words)] = &[
    (0, 0, [ALL; 4]),
    // SSE3 to SSE4.2, PCLMULQDQ, FMA, CX16, x2APIC, MOVBE, POPCNT, deadline of the TSC, AES, XSAVE, AVX, F16C, RDRAND,
    // hypervisor. In EDX the bits of each 64-bit processor.
    (1, 0, [ALL, ALL, 0xfff8_3203, 0x178b_fbff]),
    (2, 0, [ALL; 4]),
    // FSGSBASE, BMI1, AVX2, SMEP, BMI2, ERMS, SMAP. In EDX the controls of speculation.
    (7, 0, [0, 0x0010_03a9, 0, 0xac00_0400]),
    // x87, SSE, AVX; XSAVEOPT.
    (0xd, 0, [0b111, ALL, ALL, 0]),
    (0xd, 1, [1, 0, 0, 0]),
    (0xd, 2, [ALL; 4]),
    (0x8000_0000, 0, [ALL; 4]),
    // LAHF, LZCNT, PREFETCHW. SYSCALL, NX, pages of 1 GiB, RDTSCP, 64 bits, and AMD's copies of leaf 1.
    (0x8000_0001, 0, [ALL, ALL, 0x0000_0121, 0x2d93_fbff]),
    (0x8000_0002, 0, [ALL; 4]),
    (0x8000_0003, 0, [ALL; 4]),
    (0x8000_0004, 0, [ALL; 4]),
    (0x8000_0005, 0, [ALL; 4]),
    (0x8000_0006, 0, [ALL; 4]),
    // AMD's controls of speculation.
    (0x8000_0008, 0, [ALL, 0x0100_d000, ALL, 0]),
];
/// Leaves with subleaves of their own, which describe caches.
const CACHES: [u32; 2] = [4, 0x8000_001d];
/// Leaves of KVM.
const HYPERVISOR: std::ops::RangeInclusive<u32> = 0x4000_0000..=0x4000_ffff;
const LAST_PORTABLE: u32 = 0xd;
const LAST_PORTABLE_EXTENDED: u32 = 0x8000_0008;

/// The bits of leaves that a guest's code may depend on. KVM changes those that are absent while the guest runs: OSXSAVE,
/// MONITOR, OSPKE, the state of the APIC, and the size of the states that are on.
const COMPARED: &[(u32, Words)] = &[
    (0, [0, ALL, ALL, ALL]),
    (1, [0, 0, !(1 << 27 | 1 << 3), !(1 << 9)]),
    (7, [ALL, ALL, !(1 << 4), ALL]),
    (0xd, [ALL, 0, ALL, ALL]),
    (0x4000_0001, [ALL; 4]),
    (0x8000_0001, [0, 0, ALL, ALL]),
    (0x8000_0007, [0, 0, 0, ALL]),
    (0x8000_0008, [ALL, ALL, 0, 0]),
    (0x8000_0021, [ALL, 0, 0, 0]),
];
/// Family, model and stepping.
const SIGNATURE: (u32, Words) = (1, [0x0fff_3fff, 0, 0, 0]);

/// Removes the features that the template does not have.
pub fn apply(template: CpuTemplate, leaves: &mut Vec<Entry>) {
    if template == CpuTemplate::Host {
        return;
    }
    leaves.retain(|leaf| {
        CACHES.contains(&leaf.function)
            || HYPERVISOR.contains(&leaf.function)
            || find_portable(leaf).is_some()
    });
    for leaf in leaves {
        if let Some(words) = find_portable(leaf) {
            leaf.eax &= words[0];
            leaf.ebx &= words[1];
            leaf.ecx &= words[2];
            leaf.edx &= words[3];
        }
        match leaf.function {
            0 => leaf.eax = leaf.eax.min(LAST_PORTABLE),
            0x8000_0000 => leaf.eax = leaf.eax.min(LAST_PORTABLE_EXTENDED),
            _ => {}
        }
    }
}

fn find_portable(leaf: &Entry) -> Option<&'static Words> {
    let found = PORTABLE
        .iter()
        .find(|(function, index, _)| (*function, *index) == (leaf.function, leaf.index));
    found.map(|(_, _, words)| words)
}

/// Fails unless a guest that was saved with some leaves may continue with the leaves of this host. The error names both
/// values.
pub fn check(template: CpuTemplate, saved: &[Entry], own: &[Entry]) -> Result<(), String> {
    if template == CpuTemplate::Host {
        let signature = |leaves: &[Entry]| read(leaves, SIGNATURE.0, 0)[0] & SIGNATURE.1[0];
        let (saved, own) = (signature(saved), signature(own));
        if saved != own {
            return Err(format!(
                "it was saved on the CPU {saved:#x} and this is the CPU {own:#x}: only a VM with the CPU template \"portable\" continues on another CPU"
            ));
        }
    }
    for (function, mask) in COMPARED {
        let mut indices: Vec<u32> = [saved, own]
            .into_iter()
            .flatten()
            .filter(|leaf| leaf.function == *function)
            .map(|leaf| leaf.index)
            .collect();
        indices.sort_unstable();
        indices.dedup();
        for index in indices {
            let (ours, theirs) = (read(own, *function, index), read(saved, *function, index));
            for word in 0..NAMES.len() {
                let (found, expected) = (ours[word] & mask[word], theirs[word] & mask[word]);
                if found != expected {
                    return Err(format!(
                        "the features of this CPU are {found:#010x} in {} of leaf {function:#x}.{index}, expected {expected:#010x}",
                        NAMES[word]
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Returns a leaf, or zeros.
fn read(leaves: &[Entry], function: u32, index: u32) -> Words {
    let found = leaves
        .iter()
        .find(|leaf| (leaf.function, leaf.index) == (function, index));
    found.map_or([0; 4], |leaf| [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(function: u32, index: u32, [eax, ebx, ecx, edx]: Words) -> Entry {
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

    /// A CPU with all features.
    fn full(signature: u32) -> Vec<Entry> {
        let mut leaves: Vec<Entry> = [
            0,
            1,
            7,
            0xa,
            0x14,
            0x1d,
            0x4000_0001,
            0x8000_0001,
            0x8000_0008,
            0x8000_0021,
        ]
        .map(|function| leaf(function, 0, [ALL; 4]))
        .to_vec();
        leaves[1].eax = signature;
        leaves.push(leaf(7, 1, [ALL; 4]));
        leaves.extend((0..20).map(|index| leaf(0xd, index, [ALL; 4])));
        leaves
    }

    fn with(template: CpuTemplate, mut leaves: Vec<Entry>) -> Vec<Entry> {
        apply(template, &mut leaves);
        leaves
    }

    #[test]
    fn a_host_guest_has_all_features_and_a_portable_one_those_of_the_list() {
        assert_eq!(with(CpuTemplate::Host, full(1)), full(1));
        let leaves = with(CpuTemplate::Portable, full(1));
        let bit = |function, index, word: usize, bit: u32| {
            read(&leaves, function, index)[word] >> bit & 1
        };
        // SSE4.2, AVX, AVX2, BMI2, SMEP, LZCNT, NX, the hypervisor.
        for (function, word, at) in [
            (1, 2, 20),
            (1, 2, 28),
            (7, 1, 5),
            (7, 1, 8),
            (7, 1, 7),
            (0x8000_0001, 2, 5),
            (0x8000_0001, 3, 20),
            (1, 2, 31),
        ] {
            assert_eq!(bit(function, 0, word, at), 1, "{function:#x} {word} {at}");
        }
        // VMX, PCID, AVX-512, HLE, RTM, SHA, UMIP, PKU, AMX, SVM, SSE4A.
        for (function, word, at) in [
            (1, 2, 5),
            (1, 2, 17),
            (7, 1, 16),
            (7, 1, 4),
            (7, 1, 11),
            (7, 1, 29),
            (7, 2, 2),
            (7, 2, 3),
            (7, 3, 24),
            (0x8000_0001, 2, 2),
            (0x8000_0001, 2, 6),
        ] {
            assert_eq!(bit(function, 0, word, at), 0, "{function:#x} {word} {at}");
        }
        assert_eq!(read(&leaves, 0, 0)[0], 0xd);
        assert_eq!(read(&leaves, 0xd, 0)[0], 0b111);
        let functions: Vec<u32> = leaves.iter().map(|leaf| leaf.function).collect();
        for gone in [0xa, 0x14, 0x1d, 0x8000_0021] {
            assert!(!functions.contains(&gone), "{gone:#x}");
        }
        assert_eq!(read(&leaves, 7, 1), [0; 4]);
    }

    #[test]
    fn another_cpu_needs_the_portable_template_and_both_values_are_named() {
        let (old, new) = (0x306c3, 0x906ea);
        let error = check(CpuTemplate::Host, &full(old), &full(new)).unwrap_err();
        assert!(
            error.contains("0x306c3") && error.contains("0x906ea"),
            "{error}"
        );
        check(CpuTemplate::Host, &full(old), &full(old)).unwrap();
        let portable = |signature| with(CpuTemplate::Portable, full(signature));
        check(CpuTemplate::Portable, &portable(old), &portable(new)).unwrap();
    }

    #[test]
    fn a_feature_that_is_missing_or_new_is_refused_with_both_values() {
        for template in [CpuTemplate::Host, CpuTemplate::Portable] {
            let all = with(template, full(1));
            for (function, word, bit) in [
                (1, 2, 28),
                (7, 1, 5),
                (0xd, 0, 2),
                (0x8000_0001, 3, 27),
                (0x4000_0001, 0, 0),
            ] {
                let mut less = all.clone();
                let leaf = less
                    .iter_mut()
                    .find(|leaf| leaf.function == function)
                    .unwrap();
                let words = [&mut leaf.eax, &mut leaf.ebx, &mut leaf.ecx, &mut leaf.edx];
                *words[word] &= !(1 << bit);
                let values = [&all, &less].map(|leaves| {
                    let mask = COMPARED.iter().find(|(of, _)| *of == function).unwrap().1[word];
                    format!("{:#010x}", read(leaves, function, 0)[word] & mask)
                });
                for error in [check(template, &all, &less), check(template, &less, &all)] {
                    let error = error.unwrap_err();
                    assert!(values.iter().all(|value| error.contains(value)), "{error}");
                    assert!(error.contains(&format!("{function:#x}.0")), "{error}");
                }
            }
            let mut more = all.clone();
            more.push(leaf(7, 2, [1, 0, 0, 0]));
            check(template, &all, &more).unwrap_err();
        }
    }

    #[test]
    fn bits_that_kvm_changes_while_a_guest_runs_are_not_compared() {
        let mut changed = full(1);
        for leaf in &mut changed {
            match leaf.function {
                1 => {
                    (leaf.ebx, leaf.ecx, leaf.edx) = (0, ALL & !(1 << 27 | 1 << 3), ALL & !(1 << 9))
                }
                7 if leaf.index == 0 => leaf.ecx = ALL & !(1 << 4),
                0xd => leaf.ebx = 0,
                _ => {}
            }
        }
        check(CpuTemplate::Host, &full(1), &changed).unwrap();
    }
}
