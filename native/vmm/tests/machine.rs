//! The machine around a guest: console, ends, pause, statistics. On any `/dev/kvm`.

mod guests;

use guests::{DATA, Script, Vm, kvm};
use serde_json::json;
use voidbox_jail::filter::Filter;
use voidbox_vmm::config::LINE_LIMIT_BYTES;
use voidbox_vmm::filters::{FILTERS, Filters};
use voidbox_vmm::run_with;

#[test]
fn a_guest_prints_and_resets() {
    let Some(kvm) = kvm() else { return };
    let (reason, code, console) = Vm::run(kvm, &Script::default().say("hello\n").reset(), |_| ());
    assert_eq!(reason, json!({ "kind": "reset" }));
    assert_eq!(code, 0);
    assert_eq!(console, b"hello\n");
}

#[test]
fn power_off_is_a_reset() {
    let Some(kvm) = kvm() else { return };
    let script = Script::default().port(1, 0x600, 5 << 2 | 1 << 5);
    let (reason, code, _) = Vm::run(kvm, &script, |_| ());
    assert_eq!((reason["kind"].as_str(), code), (Some("reset"), 0));
}

#[test]
fn a_triple_fault_ends_the_vm_with_its_place() {
    let Some(kvm) = kvm() else { return };
    let (reason, code, _) = Vm::run(kvm, &Script::default().triple_fault(), |_| ());
    assert_eq!((reason["kind"].as_str(), code), (Some("tripleFault"), 1));
    assert!(reason["rip"].as_str().unwrap().starts_with("0x"));
}

#[test]
fn an_instruction_that_kvm_does_not_emulate_is_named_by_place_and_bytes() {
    let Some(kvm) = kvm() else { return };
    let script = Script::default().unknown_instruction().say("runs").reset();
    let (reason, code, console) = Vm::run(kvm, &script, |_| ());
    // On hardware the processor runs it.
    if console == b"runs" {
        assert_eq!(code, 0);
        return;
    }
    assert_eq!((reason["kind"].as_str(), code), (Some("internalError"), 1));
    assert!(reason["rip"].as_str().unwrap().starts_with("0x100"));
    let bytes = reason["bytes"].as_str().unwrap();
    assert!(bytes.starts_with("f0480fc70f"), "{reason}");
}

#[test]
fn ports_and_addresses_without_a_device_do_nothing_and_are_counted() {
    let Some(kvm) = kvm() else { return };
    let script = Script::default()
        .port(4, 0xcf8, 0x8000_0000)
        .port(2, 0x3f8, 0x4141)
        .write(0xc000_0000, 7)
        .copy(0xc000_0000, DATA)
        .print(DATA, 4)
        // Waits for ever.
        .wait(DATA + 8, 1);
    let mut vm = Vm::start(kvm, &script, |_| ());
    assert_eq!(vm.receive()["event"], "started");
    assert_eq!(vm.read_console(4), [0xff; 4]);
    let statistics = vm.ask("statistics");
    assert_eq!(statistics["vm"]["unknown_ports"], 2);
    assert_eq!(statistics["vm"]["unknown_addresses"], 2);
    assert!(statistics["vcpus"][0]["exits"].as_u64().unwrap() > 0);
    assert_eq!(vm.ask("end")["reason"]["kind"], "killed");
}

#[test]
fn a_paused_guest_does_nothing_until_it_is_resumed() {
    let Some(kvm) = kvm() else { return };
    let script = Script::default().say("x").repeat_from(0);
    let mut vm = Vm::start(kvm, &script, |_| ());
    assert_eq!(vm.receive()["event"], "started");
    vm.read_console(1);
    for _ in 0..3 {
        assert_eq!(vm.ask("pause"), json!({ "event": "paused" }));
        let exits = |vm: &mut Vm| vm.ask("statistics")["vcpus"][0]["exits"].clone();
        let before = exits(&mut vm);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(exits(&mut vm), before);
        assert_eq!(vm.ask("resume"), json!({ "event": "resumed" }));
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while exits(&mut vm) == before {
            assert!(std::time::Instant::now() < limit, "it does not continue");
        }
    }
    vm.send(&json!({ "do": "end" }));
    let (reason, code, _) = vm.end();
    assert_eq!((reason["kind"].as_str(), code), (Some("killed"), 1));
}

#[test]
fn a_guest_that_loops_ends_with_its_keeper() {
    let Some(kvm) = kvm() else { return };
    let mut vm = Vm::start(kvm, &Script::default().wait(DATA, 1), |_| ());
    assert_eq!(vm.receive()["event"], "started");
    assert_eq!(vm.abandon(), 1);
}

#[test]
fn several_cpus_exist_and_end_together() {
    let Some(kvm) = kvm() else { return };
    let (reason, ..) = Vm::run(
        kvm.try_clone().unwrap(),
        &Script::default().reset(),
        |config| config["vcpus"] = 2.into(),
    );
    assert_eq!(reason["kind"], "reset", "{reason}");
    let mut vm = Vm::start(kvm, &Script::default().wait(DATA, 1), |config| {
        config["vcpus"] = 32.into();
    });
    assert_eq!(vm.receive()["event"], "started");
    let mut statistics = vm.ask("statistics");
    let cpus = statistics["vcpus"].as_array_mut().unwrap();
    assert_eq!(cpus.len(), 32);
    // A line has its limit, also once the counters have grown for years.
    for cpu in cpus {
        for counter in cpu.as_object_mut().unwrap().values_mut() {
            *counter = (u64::MAX / 1000).into();
        }
    }
    let bytes = statistics.to_string().len();
    assert!(bytes <= LINE_LIMIT_BYTES, "{bytes} bytes");
    assert_eq!(vm.ask("end")["reason"]["kind"], "killed");
}

#[test]
fn memory_beyond_the_gap_is_the_guests() {
    const BEYOND: u64 = 4 << 30;
    /// The VMM's table of the first 512 GiB, of which it fills four entries.
    const TABLE: u64 = 0xa000;
    const NEXT_TABLE: u64 = DATA + 0x1000;
    const HUGE_PAGE: u64 = 0x83;
    let Some(kvm) = kvm() else { return };
    let entry = u32::try_from(NEXT_TABLE | 3).unwrap();
    let script = Script::default()
        .place(NEXT_TABLE, &(BEYOND | HUGE_PAGE).to_le_bytes())
        .write(TABLE + 4 * 8, entry)
        .write(TABLE + 4 * 8 + 4, 0)
        .write(BEYOND + (1 << 20) - 4, u32::from_le_bytes(*b"high"))
        .print(BEYOND + (1 << 20) - 4, 4)
        // No memory is behind it, and no device.
        .print(BEYOND + (1 << 20), 1)
        .reset();
    let (reason, _, console) = Vm::run(kvm, &script, |config| config["memoryMib"] = 3073.into());
    assert_eq!(reason["kind"], "reset", "{reason}");
    assert_eq!(console, b"high\xff");
}

#[test]
fn a_bzimage_runs_at_its_64_bit_entry() {
    let Some(kvm) = kvm() else { return };
    let script = Script::default().say("unpacked").reset();
    let (reason, _, console) = Vm::run(kvm, &script, |config| script.load_bzimage(config));
    assert_eq!(reason["kind"], "reset", "{reason}");
    assert_eq!(console, b"unpacked");
}

/// The code of a second CPU, in 16-bit mode: it stores a byte, and halts for ever.
const SECOND_CPU: u64 = 0x3_0000;
const SECOND_CPU_CODE: [u32; 3] = [0x0006_c62e, 0xebf4_5a01, 0x9090_90fd];
const STORED: u64 = SECOND_CPU + 0x100;
const LOCAL_APIC: u64 = 0xfee0_0000;

#[test]
fn a_guest_starts_its_second_cpu_and_both_pause() {
    let Some(kvm) = kvm() else { return };
    let mut script = Script::default();
    for (at, word) in (SECOND_CPU..).step_by(4).zip(SECOND_CPU_CODE) {
        script = script.write(at, word);
    }
    let script = script
        .write(LOCAL_APIC + 0x310, 1 << 24)
        .write(LOCAL_APIC + 0x300, 0x4500)
        .write(LOCAL_APIC + 0x310, 1 << 24)
        .write(LOCAL_APIC + 0x300, 0x4630)
        .wait(STORED, 0x5a)
        .print(STORED, 1)
        .wait(DATA, 1);
    let mut vm = Vm::start(kvm, &script, |config| config["vcpus"] = 2.into());
    assert_eq!(vm.receive()["event"], "started");
    assert_eq!(vm.read_console(1), [0x5a]);
    assert_eq!(vm.ask("pause")["event"], "paused");
    let statistics = vm.ask("statistics");
    assert_eq!(statistics["vcpus"].as_array().unwrap().len(), 2);
    assert_eq!(vm.ask("resume")["event"], "resumed");
    assert_eq!(vm.ask("end")["reason"]["kind"], "killed");
}

#[test]
fn a_thread_without_its_filter_ends_the_start_before_the_guest_runs() {
    const REFUSED: &Filter = &Filter::refused("test");
    let Some(kvm) = kvm() else { return };
    let without: [fn(&mut Filters); 3] = [
        |filters| filters.vcpu = REFUSED,
        |filters| filters.devices = REFUSED,
        |filters| filters.control = REFUSED,
    ];
    for without in without {
        let mut filters = FILTERS;
        without(&mut filters);
        let script = Script::default().say("runs").reset();
        let run = |fd, _: &serde_json::Value| std::thread::spawn(move || run_with(fd, filters));
        let vm = Vm::start_by(kvm.try_clone().unwrap(), |config| script.load(config), run);
        // The end is the first message.
        let (reason, code, console) = vm.end();
        assert_eq!((reason["kind"].as_str(), code), (Some("hostFailed"), 1));
        let text = reason["text"].as_str().unwrap();
        assert!(text.contains("the filter of the role test"), "{reason}");
        assert_eq!(console, b"");
    }
}

#[test]
fn a_bad_request_is_refused_and_the_guest_continues() {
    let Some(kvm) = kvm() else { return };
    let mut vm = Vm::start(kvm, &Script::default().wait(DATA, 1), |_| ());
    assert_eq!(vm.receive()["event"], "started");
    assert_eq!(vm.ask("dance")["event"], "refused");
    assert_eq!(vm.ask("pause")["event"], "paused");
    assert_eq!(vm.ask("end")["reason"]["kind"], "killed");
}

#[test]
fn a_bad_configuration_is_the_only_message() {
    let kvm = std::fs::File::open("/dev/null").unwrap();
    let vm = Vm::start(kvm, &Script::default(), |config| {
        config["vcpus"] = 33.into()
    });
    let (reason, code, _) = vm.end();
    assert_eq!(code, 2);
    assert_eq!(reason["kind"], "badConfiguration");
    assert_eq!(reason["key"], "vcpus");
}

#[test]
fn a_file_that_is_no_kvm_and_one_that_is_no_kernel_are_named() {
    let null = || std::fs::File::open("/dev/null").unwrap();
    let vm = Vm::start(null(), &Script::default(), |_| ());
    let (reason, code, _) = vm.end();
    assert_eq!((reason["key"].as_str(), code), (Some("kvmFd"), 2));
    let Some(kvm) = kvm() else { return };
    let empty = tempfile::tempfile().unwrap();
    let vm = Vm::start(kvm, &Script::default(), |config| {
        config["kernelFd"] = guests::copy_of(&empty).into();
    });
    let (reason, code, _) = vm.end();
    assert_eq!((reason["key"].as_str(), code), (Some("kernelFd"), 2));
}
