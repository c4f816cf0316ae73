//! Each device, driven by a tiny guest. On any `/dev/kvm`.

mod guests;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use guests::virtio::{Device, NEXT, Raw, WRITE, connect, packet};
use guests::{DATA, Script, Vm, copy_of, kvm};
use serde_json::json;

fn raw(address: u64, length: u32, flags: u16, next: u16) -> Raw {
    Raw {
        address,
        length,
        flags,
        next,
    }
}

#[test]
fn a_guest_gets_random_numbers_and_an_interrupt() {
    let Some(kvm) = kvm() else { return };
    let rng = Device::new(0);
    let buffer = rng.buffer(0, 0);
    let mut script = rng.start(Script::default(), 1);
    script = rng.describe(script, 0, 0, &raw(buffer, 32, WRITE, 0));
    script = rng.offer(script, 0, 1);
    script = rng
        .wait(script, 0, 1)
        .print(buffer, 32)
        .copy(rng.register(0x60), buffer)
        .print(buffer, 1)
        .reset();
    let (reason, _, console) = Vm::run(kvm, &script, |config| config["rng"] = true.into());
    assert_eq!(reason["kind"], "reset", "{reason}");
    assert!(console[..32].iter().any(|byte| *byte != 0));
    assert_eq!(console[32..], [1]);
}

#[test]
fn memory_that_a_guest_reports_reads_as_zeros_and_its_neighbours_stay() {
    const PLACE: u64 = 4 << 20;
    const HUGE: u32 = 2 << 20;
    let Some(kvm) = kvm() else { return };
    let balloon = Device::new(0);
    let next = PLACE + u64::from(HUGE);
    let mut script = Script::default().place(PLACE, b"old").place(next, b"new");
    script = balloon.start(script, 3);
    script = balloon.describe(script, 2, 0, &raw(PLACE, HUGE, WRITE, 0));
    script = balloon.offer(script, 2, 1);
    script = balloon
        .wait(script, 2, 1)
        .print(PLACE, 3)
        .print(next, 3)
        .write(PLACE, u32::from_le_bytes(*b"more"))
        .print(PLACE, 4)
        .reset();
    let (reason, _, console) = Vm::run(kvm, &script, |config| config["balloon"] = true.into());
    assert_eq!(reason["kind"], "reset", "{reason}");
    assert_eq!(console, b"\0\0\0newmore");
}

fn header(kind: u32, sector: u64) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend([0; 4]);
    bytes.extend(sector.to_le_bytes());
    bytes
}

/// Places a request of 512 bytes in three descriptors from `first` on.
fn place_request(disk: Device, script: Script, first: u16, request: &[u8], data: u16) -> Script {
    let at = u64::from(first) * 0x100;
    let (head, body, status) = (
        disk.buffer(0, at),
        disk.buffer(0, 0x800 + at * 2),
        disk.buffer(0, at + 0x80),
    );
    let next = first + 1;
    let mut script = script.place(head, request).place(status, &[0xee]);
    script = disk.describe(script, 0, first.into(), &raw(head, 16, NEXT, next));
    script = disk.describe(
        script,
        0,
        next.into(),
        &raw(body, 512, NEXT | data, next + 1),
    );
    disk.describe(script, 0, (next + 1).into(), &raw(status, 1, WRITE, 0))
}

#[test]
fn a_guest_writes_a_disk_and_reads_it_back() {
    let Some(kvm) = kvm() else { return };
    let file = tempfile::tempfile().unwrap();
    file.set_len(64 << 10).unwrap();
    file.write_all_at(b"of the host", 0).unwrap();
    let disk = Device::new(0);
    let (written, read) = (disk.buffer(0, 0x800), disk.buffer(0, 0x800 + 3 * 0x200));
    let mut script = disk.start(Script::default(), 1);
    script = place_request(disk, script, 0, &header(1, 5), 0).place(written, b"of the guest");
    script = place_request(disk, script, 3, &header(0, 0), WRITE);
    script = disk.order(script, 0, &[0, 3]);
    script = disk.offer(script, 0, 2);
    script = disk
        .wait(script, 0, 2)
        .print(read, 11)
        .print(disk.buffer(0, 0x80), 1)
        .print(disk.buffer(0, 0x380), 1)
        .reset();
    let (reason, _, console) = Vm::run(kvm, &script, |config| {
        config["disks"] = json!([{ "fd": copy_of(&file), "serial": "d", "readOnly": false }]);
    });
    assert_eq!(reason["kind"], "reset", "{reason}");
    assert_eq!(console, b"of the host\0\0");
    let mut bytes = [0; 12];
    file.read_exact_at(&mut bytes, 5 * 512).unwrap();
    assert_eq!(&bytes, b"of the guest");
}

#[test]
fn a_guest_and_its_keeper_exchange_bytes() {
    let Some(kvm) = kvm() else { return };
    let (mut keeper, theirs) = UnixStream::pair().unwrap();
    let vsock = Device::new(0);
    let hello = [packet(5, 5), b"hello".to_vec()].concat();
    let mut script = connect(vsock, Script::default()).place(vsock.buffer(1, 256), &hello);
    let length = u32::try_from(hello.len()).unwrap();
    script = vsock.describe(script, 1, 1, &raw(vsock.buffer(1, 256), length, 0, 0));
    script = vsock.offer(script, 1, 2);
    script = vsock
        .wait(script, 0, 2)
        .print(vsock.buffer(0, 256 + 44), 5)
        .reset();
    let mut vm = Vm::start(kvm, &script, |config| {
        config["vsock"] = json!({ "guestCid": 3, "port": 1024, "fd": theirs.into_raw_fd() });
    });
    assert_eq!(vm.receive()["event"], "started");
    let mut bytes = [0; 5];
    keeper.set_read_timeout(Some(guests::LIMIT)).unwrap();
    keeper.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"hello");
    let statistics = vm.ask("statistics");
    // Three kicks: buffers for packets, the request for a connection, the hello. One interrupt: the answer to the request.
    assert_eq!(statistics["vm"]["kicks"], 3, "{statistics}");
    assert_eq!(statistics["vm"]["interrupts"], 1, "{statistics}");
    keeper.write_all(b"world").unwrap();
    let (reason, _, console) = vm.end();
    assert_eq!(reason["kind"], "reset", "{reason}");
    assert_eq!(console, b"world");
}

#[test]
fn a_vm_ends_although_its_keeper_has_read_nothing() {
    const DATA_BYTES: u32 = 256 << 10;
    let Some(kvm) = kvm() else { return };
    let (keeper, theirs) = UnixStream::pair().unwrap();
    let vsock = Device::new(0);
    let data = packet(5, DATA_BYTES);
    let length = u32::try_from(data.len()).unwrap() + DATA_BYTES;
    let mut script = connect(vsock, Script::default()).place(vsock.buffer(1, 256), &data);
    script = vsock.describe(script, 1, 1, &raw(vsock.buffer(1, 256), length, 0, 0));
    script = vsock.offer(script, 1, 2);
    script = vsock.wait(script, 1, 2).say("sent").wait(DATA, 1);
    let mut vm = Vm::start(kvm, &script, |config| {
        config["vsock"] = json!({ "guestCid": 3, "port": 1024, "fd": theirs.into_raw_fd() });
    });
    assert_eq!(vm.receive()["event"], "started");
    assert_eq!(vm.read_console(4), b"sent");
    assert_eq!(vm.ask("end")["reason"]["kind"], "killed");
    assert_eq!(vm.abandon(), 1);
    drop(keeper);
}

/// Makes a descriptor of the VMM another file, as if the file behind it had changed.
fn replace(target: i32, source: &File) {
    // SAFETY: both are open descriptors of this process.
    assert!(unsafe { libc::dup2(source.as_raw_fd(), target) } >= 0);
}

#[test]
fn a_write_without_room_pauses_the_vm_and_a_resume_repeats_it() {
    let Some(kvm) = kvm() else { return };
    let file = tempfile::tempfile().unwrap();
    file.set_len(64 << 10).unwrap();
    let fd = copy_of(&file);
    let (mut keeper, theirs) = UnixStream::pair().unwrap();
    let (disk, vsock) = (Device::new(0), Device::new(1));
    // The guest writes once its keeper has sent a byte.
    let mut script = connect(vsock, Script::default());
    script = vsock.wait(script, 0, 2);
    script = disk.start(script, 1);
    script = place_request(disk, script, 0, &header(1, 5), 0).place(disk.buffer(0, 0x800), b"x");
    script = disk.offer(script, 0, 1);
    script = disk
        .wait(script, 0, 1)
        .print(disk.buffer(0, 0x80), 1)
        .reset();
    let mut vm = Vm::start(kvm, &script, |config| {
        config["disks"] = json!([{ "fd": fd, "serial": "scratch", "readOnly": false }]);
        config["vsock"] = json!({ "guestCid": 3, "port": 1024, "fd": theirs.into_raw_fd() });
    });
    assert_eq!(vm.receive()["event"], "started");
    replace(fd, &File::options().write(true).open("/dev/full").unwrap());
    keeper.write_all(b"!").unwrap();
    let no_room = json!({ "event": "noRoom", "serial": "scratch" });
    assert_eq!(vm.receive(), no_room);
    assert_eq!(vm.ask("resume")["event"], "resumed");
    assert_eq!(vm.receive(), no_room, "there is still no room");
    replace(fd, &file);
    assert_eq!(vm.ask("resume")["event"], "resumed");
    let (reason, _, console) = vm.end();
    assert_eq!(reason["kind"], "reset", "{reason}");
    assert_eq!(console, [0], "the guest does not notice");
    let mut byte = [0];
    file.read_exact_at(&mut byte, 5 * 512).unwrap();
    assert_eq!(&byte, b"x");
}

#[test]
fn a_device_that_a_guest_breaks_needs_a_reset_and_the_vm_continues() {
    let Some(kvm) = kvm() else { return };
    let rng = Device::new(0);
    let status = rng.buffer(0, 0x100);
    let mut script = rng.start(Script::default(), 1);
    // A buffer outside of the memory.
    script = rng.describe(script, 0, 0, &raw(1 << 40, 32, WRITE, 0));
    script = rng.offer(script, 0, 1);
    script = script
        .wait_register(rng.register(0x70), 0x4f)
        .copy(rng.register(0x70), status)
        .print(status, 1)
        // A register in an odd width, before the reset.
        .write_wide(2, rng.register(0x70), 0)
        .write(rng.register(0x70), 0)
        .copy(rng.register(0x70), status)
        .print(status, 1)
        .reset();
    let (reason, _, console) = Vm::run(kvm, &script, |config| config["rng"] = true.into());
    assert_eq!(reason["kind"], "reset", "{reason}");
    let text = String::from_utf8_lossy(&console);
    assert!(
        text.contains("[voidbox-vmm: the device rng needs a reset: a buffer outside of the memory"),
        "{text}"
    );
    assert!(
        console.contains(&0x4f) && console.ends_with(&[0]),
        "{text:?}"
    );
}

#[test]
fn an_end_does_not_wait_for_a_keeper_that_reads_nothing() {
    let Some(kvm) = kvm() else { return };
    let (_keeper, theirs) = UnixStream::pair().unwrap();
    let vsock = Device::new(0);
    let mut script = connect(vsock, Script::default());
    // The same packet again and again; its credit ends, and the console is never read either.
    script = script.say("x").repeat_from(0);
    let mut vm = Vm::start(kvm, &script, |config| {
        config["vsock"] = json!({ "guestCid": 3, "port": 1024, "fd": theirs.into_raw_fd() });
    });
    assert_eq!(vm.receive()["event"], "started");
    vm.read_console(1);
    assert_eq!(vm.abandon(), 1);
}
