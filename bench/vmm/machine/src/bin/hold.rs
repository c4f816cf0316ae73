//! `hold`: keeps two VMs that never run, prints a line, and waits for its end.
//!
//! KVM changes its own code when the first VM of a kind appears and when the last one goes. An emulated host with two CPUs
//! may execute such code while it changes, and panics ("int3"). While these VMs exist, nothing changes.

use kvm_ioctls::Kvm;

fn main() {
    let kvm = Kvm::new().unwrap();
    // Its CPU has no local APIC in KVM, as the CPU of a probe of KVM.
    let without = kvm.create_vm().unwrap();
    let _probe = without.create_vcpu(0).unwrap();
    // Its CPU has a local APIC that is off, as each CPU at its start.
    let with = kvm.create_vm().unwrap();
    with.create_irq_chip().unwrap();
    let _off = with.create_vcpu(0).unwrap();
    println!("held");
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
}
