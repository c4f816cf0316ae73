//! The filters of system calls in the threads of a VM. A process of its own, because other VMs would have threads too.

mod guests;

use std::fs;

use guests::{DATA, Script, Vm, kvm};
use serde_json::json;

/// Returns the names of this process's threads that have a filter, in order.
fn filtered_threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let mut names: Vec<String> = tasks
        .map(|task| task.unwrap().path())
        .filter(|task| {
            let status = fs::read_to_string(task.join("status")).unwrap_or_default();
            status.lines().any(|line| line == "Seccomp:\t2")
        })
        .map(|task| {
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            name.trim_end().to_owned()
        })
        // Threads of KVM itself.
        .filter(|name| !name.starts_with("kvm-"))
        .collect();
    names.sort();
    names
}

#[test]
fn each_thread_of_a_vm_has_its_filter_while_a_guest_runs() {
    let Some(kvm) = kvm() else { return };
    let script = Script::default().say("up").wait(DATA + 8, 1);
    let mut vm = Vm::start(kvm, &script, |_| ());
    assert_eq!(vm.receive(), json!({ "event": "started" }));
    // Both threads have done their first work, so they have begun.
    assert_eq!(vm.read_console(2), b"up");
    assert_eq!(vm.ask("pause"), json!({ "event": "paused" }));
    let names = filtered_threads();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains(&"vcpu0".to_owned()), "{names:?}");
    assert!(names.contains(&"devices".to_owned()), "{names:?}");
    assert_eq!(vm.ask("resume"), json!({ "event": "resumed" }));
    assert_eq!(vm.abandon(), 1);
}
