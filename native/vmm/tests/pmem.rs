//! Files that the guest has as memory, and can only read. On any `/dev/kvm`.

mod guests;

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;

use guests::virtio::{Device, NEXT, Raw, WRITE};
use guests::{DATA, Script, Vm, copy_of, kvm};
use serde_json::{Value, json};

/// The first file of a VM with 64 MiB.
const PLACE: u64 = (4 << 30) + (128 << 20);
const HUGE: u64 = 2 << 20;
/// The VMM's table of the guest's lowest 512 GiB, by GiB.
const TABLE: u64 = 0xa000;
/// Tables of the guest's own: the fifth GiB, with the huge page of the file.
const OWN_TABLE: u64 = 3 << 20;
const PRESENT_AND_WRITABLE: u32 = 3;
const HUGE_ENTRY: u64 = 0x83;
/// The guest of a test waits until this is one.
const GO: u64 = DATA + 0x800;

/// Makes a file with a text at its start.
fn file(text: &[u8]) -> File {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(HUGE + 5).unwrap();
    file.as_file().write_all_at(text, 0).unwrap();
    file.as_file().write_all_at(b"end", HUGE).unwrap();
    file.into_file()
}

fn read_only(file: &File) -> File {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap()
}

fn pmem_of(file: &File) -> Value {
    json!([{ "fd": read_only(file).into_raw_fd() }])
}

/// Maps the first two huge pages of the file at its own addresses.
fn map(mut script: Script) -> Script {
    for page in 0..2 {
        let place = PLACE + page * HUGE;
        let entry = OWN_TABLE + place % (1 << 30) / HUGE * 8;
        script = script.place(entry, &(place | HUGE_ENTRY).to_le_bytes());
    }
    let table = u32::try_from(OWN_TABLE).unwrap() | PRESENT_AND_WRITABLE;
    script.write(TABLE + (PLACE >> 30) * 8, table)
}

#[test]
fn a_guest_reads_a_file_at_the_place_that_the_device_tells_and_its_writes_are_lost() {
    let Some(kvm) = kvm() else { return };
    let file = file(b"of the file");
    let pmem = Device::new(0);
    let mut script = map(Script::default());
    for word in 0..4 {
        script = script.copy(pmem.register(0x100 + word * 4), DATA + word * 4);
    }
    script = script
        .print(DATA, 16)
        .print(PLACE, 11)
        .print(PLACE + HUGE, 5);
    script = script
        .write(PLACE, 7)
        .write_wide(1, PLACE + 4096, 7)
        .print(PLACE, 2)
        .say("done");
    script = pmem.start(script, 1);
    let (request, answer) = (pmem.buffer(0, 0), pmem.buffer(0, 64));
    let raw = |address, flags| Raw {
        address,
        length: 4,
        flags,
        next: 1,
    };
    script = script.place(answer, &[0xff; 4]);
    script = pmem.describe(script, 0, 0, &raw(request, NEXT));
    script = pmem.describe(script, 0, 1, &raw(answer, WRITE));
    script = pmem.offer(script, 0, 1);
    script = pmem
        .wait(script, 0, 1)
        .print(answer, 4)
        .say("idle")
        .wait(GO, 1);
    let mut vm = Vm::start(kvm, &script, |config| config["pmem"] = pmem_of(&file));
    assert_eq!(vm.receive(), json!({ "event": "started" }));
    let config = [PLACE.to_le_bytes(), (2 * HUGE).to_le_bytes()].concat();
    assert_eq!(vm.read_console(16), config);
    assert_eq!(vm.read_console(11 + 5), b"of the fileend\0\0");
    assert_eq!(vm.read_console(2 + 4), b"ofdone");
    assert_eq!(vm.read_console(4 + 4), b"\0\0\0\0idle");
    let statistics = vm.ask("statistics");
    assert_eq!(statistics["vm"]["unknown_addresses"], 2, "{statistics}");
    assert_eq!(vm.ask("end")["reason"]["kind"], "killed");
    vm.abandon();
    let mut bytes = [0; 11];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"of the file");
}

#[test]
fn a_device_reads_a_buffer_in_a_file_and_fails_before_it_writes_one() {
    let Some(kvm) = kvm() else { return };
    let [file, target] = [file(b"from the file"), file(b"")];
    // The disk is the first device, the file the second, the source of random numbers the third.
    let (disk, rng) = (Device::new(0), Device::new(2));
    let (header, status) = (disk.buffer(0, 0), disk.buffer(0, 64));
    let raw = |address, length, flags, next| Raw {
        address,
        length,
        flags,
        next,
    };
    let mut script = Script::default().place(header, &[1]).place(status, &[0xff]);
    script = disk.start(script, 1);
    script = disk.describe(script, 0, 0, &raw(header, 16, NEXT, 1));
    script = disk.describe(script, 0, 1, &raw(PLACE, 512, NEXT, 2));
    script = disk.describe(script, 0, 2, &raw(status, 1, WRITE, 0));
    script = disk.offer(script, 0, 1);
    script = disk.wait(script, 0, 1).print(status, 1);
    script = rng.start(script, 1);
    script = rng.describe(script, 0, 0, &raw(PLACE, 16, WRITE, 0));
    script = rng.offer(script, 0, 1);
    script = script
        // It needs a reset.
        .wait_register(rng.register(0x70), 0x4f)
        .reset();
    let (reason, _, console) = Vm::run(kvm, &script, |config| {
        target.set_len(64 << 10).unwrap();
        config["disks"] = json!([{ "fd": copy_of(&target), "serial": "d", "readOnly": false }]);
        config["pmem"] = pmem_of(&file);
        config["rng"] = true.into();
    });
    assert_eq!(reason["kind"], "reset", "{reason}");
    let text = String::from_utf8_lossy(&console);
    assert!(
        console.starts_with(b"\0") && text.contains("outside of the memory"),
        "{text}"
    );
    for file in [file, target] {
        let mut bytes = [0; 13];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"from the file");
    }
}

#[test]
fn a_copy_has_the_bytes_of_its_own_file_and_the_snapshot_none_of_them() {
    let Some(kvm) = kvm() else { return };
    let script = map(Script::default())
        .print(PLACE, 8)
        .say("ready")
        .wait(GO, 1)
        .print(PLACE, 8)
        .print(PLACE + HUGE, 3)
        .reset();
    let template = file(b"template");
    let state = tempfile::tempfile().unwrap();
    let memory = tempfile::NamedTempFile::new().unwrap().into_file();
    memory.set_len(64 << 20).unwrap();
    let mut vm = Vm::start(kvm.try_clone().unwrap(), &script, |config| {
        config["pmem"] = pmem_of(&template);
        config["save"] = json!({ "stateFd": copy_of(&state), "memoryFd": copy_of(&memory) });
    });
    assert_eq!(vm.receive(), json!({ "event": "started" }));
    assert_eq!(vm.read_console(13), b"templateready");
    assert_eq!(vm.ask("pause"), json!({ "event": "paused" }));
    assert_eq!(vm.ask("save"), json!({ "event": "saved" }));
    assert_eq!(vm.ask("end")["reason"]["kind"], "killed");
    memory.write_all_at(&1u16.to_le_bytes(), GO).unwrap();
    let copy_with = |pmem: Value| {
        (&state).rewind().unwrap();
        Vm::start_with(kvm.try_clone().unwrap(), |config| {
            let memory = read_only(&memory).into_raw_fd();
            let mut own = tempfile::tempfile().unwrap();
            std::io::copy(&mut &state, &mut own).unwrap();
            own.rewind().unwrap();
            config["restore"] = json!({ "stateFd": own.into_raw_fd(), "memoryFd": memory });
            config["pmem"] = pmem;
        })
    };
    for text in [b"the copy", b"another."] {
        let mut copy = copy_with(pmem_of(&file(text)));
        assert_eq!(copy.receive(), json!({ "event": "started" }));
        let (reason, _, console) = copy.end();
        assert_eq!(reason["kind"], "reset", "{reason}");
        assert_eq!(console, [text, b"end".as_slice()].concat());
    }
    let large = file(b"large");
    large.set_len(2 * HUGE + 1).unwrap();
    for (pmem, text) in [
        (pmem_of(&large), "another place or size"),
        (json!([]), "devices"),
    ] {
        let (reason, code, _) = copy_with(pmem).end();
        assert_eq!(code, voidbox_vmm::BAD_CONFIGURATION);
        assert_eq!(reason["key"], "restore.stateFd", "{reason}");
        assert!(reason["text"].as_str().unwrap().contains(text), "{reason}");
    }
}

#[test]
fn a_file_that_could_be_written_and_a_file_without_bytes_are_refused() {
    let Some(kvm) = kvm() else { return };
    let mut writable = tempfile::tempfile().unwrap();
    writable.write_all(b"x").unwrap();
    let empty = read_only(&tempfile::NamedTempFile::new().unwrap().into_file());
    for (file, key) in [(writable, "pmem[0].fd"), (empty, "pmem")] {
        let kvm = kvm.try_clone().unwrap();
        let (reason, code, _) = Vm::start(kvm, &Script::default().reset(), |config| {
            config["pmem"] = json!([{ "fd": file.into_raw_fd() }]);
        })
        .end();
        assert_eq!(code, voidbox_vmm::BAD_CONFIGURATION);
        assert_eq!(reason["key"], key, "{reason}");
    }
}
