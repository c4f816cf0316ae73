//! A hostile kernel in ring 0 drives all devices of the VMM, which is a process of its own. On any `/dev/kvm`.

mod guests;
mod hostile_kernel;

use hostile_kernel::{Hostile, run_group};
use voidbox_ring0::{Expected, GROUPS, cases};

/// Each case of this group has a VM of its own.
const ENDS: &str = "ends";

#[test]
fn the_list_has_each_name_once_and_each_group() {
    let mut names: Vec<&str> = cases().map(|case| case.name).collect();
    assert!(names.len() >= 100, "{} cases", names.len());
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases().count());
    for case in cases() {
        assert!(GROUPS.contains(&case.group), "{}", case.name);
        let ends_vm = matches!(
            case.expected,
            Expected::Ends(_) | Expected::Stands | Expected::EndsOrStands
        );
        assert_eq!(ends_vm, case.group == ENDS, "{}", case.name);
    }
}

#[test]
fn wrong_rings_and_descriptors_fail_their_device_alone() {
    run_group("rings");
    run_group("descriptors");
}

#[test]
fn wrong_requests_and_registers_fail_their_device_alone() {
    run_group("requests");
    run_group("registers");
}

#[test]
fn ports_and_msrs_harm_no_device() {
    run_group("ports");
    run_group("msrs");
}

#[test]
fn interrupts_and_accesses_beyond_memory_harm_no_device() {
    run_group("interrupts");
    run_group("accesses");
}

#[test]
fn an_end_of_the_kernel_is_an_end_of_the_vm_with_its_reason() {
    for case in cases().filter(|case| case.group == ENDS) {
        let Some(vm) = Hostile::start(case.name) else {
            return;
        };
        vm.check_end(case);
    }
}
