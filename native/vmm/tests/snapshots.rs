//! VMs that are saved, and copies that continue from them. On any `/dev/kvm`.

mod guests;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use guests::virtio::{Device, Raw, WRITE, connect, packet_from};
use guests::{DATA, LIMIT, Script, Vm, copy_of, kvm};
use serde_json::{Value, json};

const MEMORY_BYTES: u64 = 64 << 20;
/// The guest of a test waits until this is one. A test sets it in the memory of a copy.
const GO: u64 = DATA + 0x800;

/// The files of a saved VM.
struct Snapshot {
    state: File,
    memory: File,
}

impl Snapshot {
    fn new() -> Self {
        let memory = tempfile::NamedTempFile::new().unwrap();
        memory.as_file().set_len(MEMORY_BYTES).unwrap();
        Self {
            state: tempfile::tempfile().unwrap(),
            memory: memory.into_file(),
        }
    }

    /// Lets a VM be saved into these files.
    fn allow(&self, config: &mut Value) {
        config["save"] =
            json!({ "stateFd": copy_of(&self.state), "memoryFd": copy_of(&self.memory) });
    }

    fn let_go(&self) {
        self.memory.write_all_at(&1u16.to_le_bytes(), GO).unwrap();
    }

    fn state(&self) -> Vec<u8> {
        let mut state = Vec::new();
        let mut file = &self.state;
        file.rewind().unwrap();
        file.read_to_end(&mut state).unwrap();
        state
    }

    fn read_only_memory(&self) -> File {
        File::open(format!("/proc/self/fd/{}", self.memory.as_raw_fd())).unwrap()
    }

    /// Starts a copy without its first message.
    fn start(&self, kvm: &File, change: impl FnOnce(&mut Value)) -> Vm {
        let mut state = tempfile::tempfile().unwrap();
        state.write_all(&self.state()).unwrap();
        state.rewind().unwrap();
        Vm::start_with(kvm.try_clone().unwrap(), |config| {
            let memory = self.read_only_memory().into_raw_fd();
            config["restore"] = json!({ "stateFd": state.into_raw_fd(), "memoryFd": memory });
            change(config);
        })
    }

    fn restore(&self, kvm: &File, change: impl FnOnce(&mut Value)) -> Vm {
        let mut vm = self.start(kvm, change);
        assert_eq!(vm.receive(), json!({ "event": "started" }));
        vm
    }
}

/// Pauses a VM and saves it. It stays paused.
fn save(vm: &mut Vm) {
    assert_eq!(vm.ask("pause"), json!({ "event": "paused" }));
    assert_eq!(vm.ask("save"), json!({ "event": "saved" }));
}

/// Saves a guest that waits for [`GO`], once it has printed `ready`.
fn save_waiting(kvm: &File, script: &Script, change: impl FnOnce(&mut Value)) -> Snapshot {
    let snapshot = Snapshot::new();
    let mut vm = Vm::start(kvm.try_clone().unwrap(), script, |config| {
        snapshot.allow(config);
        change(config);
    });
    assert_eq!(vm.receive(), json!({ "event": "started" }));
    assert_eq!(vm.read_console(5), b"ready");
    save(&mut vm);
    assert_eq!(vm.ask("end")["reason"]["kind"], "killed");
    snapshot.let_go();
    snapshot
}

fn ready(script: Script) -> Script {
    script.say("ready").wait(GO, 1)
}

#[test]
fn a_copy_and_its_template_continue_with_the_access_that_was_next() {
    let Some(kvm) = kvm() else { return };
    // Each round stops the guest at another place: in its memory, or in the middle of an access to the port.
    let script = Script::default()
        .count_up(DATA)
        .print(DATA, 1)
        .repeat_from(0);
    for round in 0..8 {
        let snapshot = Snapshot::new();
        let start = |config: &mut Value| snapshot.allow(config);
        let mut vm = Vm::start(kvm.try_clone().unwrap(), &script, start);
        assert_eq!(vm.receive()["event"], "started");
        let mut before = vm.read_console(20 + round);
        save(&mut vm);
        before.extend(vm.drain_console());
        assert_eq!(before[..3], [1, 2, 3]);
        let next = before.last().unwrap().wrapping_add(1);
        let expected: Vec<u8> = (0..20).map(|more| next.wrapping_add(more)).collect();
        let mut copies: Vec<Vm> = (0..2).map(|_| snapshot.restore(&kvm, |_| ())).collect();
        for copy in &mut copies {
            assert_eq!(copy.read_console(20), expected, "round {round}, a copy");
        }
        assert_eq!(vm.ask("resume"), json!({ "event": "resumed" }));
        assert_eq!(vm.read_console(20), expected, "round {round}, the template");
        for vm in copies.into_iter().chain([vm]) {
            vm.abandon();
        }
    }
}

#[test]
fn an_access_that_was_answered_before_the_save_is_not_repeated_in_the_copy() {
    const READS: u64 = 2000;
    /// No device is there, and each access is counted.
    const NOTHING: u64 = 0xc000_0000;
    let Some(kvm) = kvm() else { return };
    let mut script = Script::default().place(DATA, b"be").print(DATA, 1);
    for _ in 0..READS {
        script = script.copy(NOTHING, DATA + 8);
    }
    let script = script.print(DATA + 1, 1).wait(GO, 1);
    let mut halfway = 0;
    for _ in 0..8 {
        let snapshot = Snapshot::new();
        let start = |config: &mut Value| snapshot.allow(config);
        let mut vm = Vm::start(kvm.try_clone().unwrap(), &script, start);
        assert_eq!(vm.receive()["event"], "started");
        assert_eq!(vm.read_console(1), b"b");
        save(&mut vm);
        let reads = |vm: &mut Vm| vm.ask("statistics")["vm"]["unknown_addresses"].as_u64();
        let before = reads(&mut vm).unwrap();
        vm.abandon();
        if before == READS {
            continue;
        }
        halfway += 1;
        let mut copy = snapshot.restore(&kvm, |_| ());
        assert_eq!(copy.read_console(1), b"e");
        assert_eq!(reads(&mut copy).unwrap() + before, READS);
        copy.abandon();
    }
    assert!(halfway > 0, "no guest was saved between its reads");
}

#[test]
fn a_copy_has_the_registers_the_msrs_the_apic_and_a_later_time() {
    const GS_BASE: u32 = 0xc000_0102;
    const LAPIC: u64 = 0xfee0_0000;
    let Some(kvm) = kvm() else { return };
    let script = Script::default()
        .write_msr(GS_BASE, 0x1234_5678_9abc)
        // A periodic timer without interrupts.
        .write(LAPIC + 0x3e0, 0xb)
        .write(LAPIC + 0x320, 1 << 17 | 1 << 16 | 0xec)
        .write(LAPIC + 0x380, 0x7000_0000)
        .read_tsc(DATA);
    let script = ready(script)
        .read_tsc(DATA + 8)
        .read_msr(GS_BASE, DATA + 16)
        .copy(LAPIC + 0x320, DATA + 24)
        .copy(LAPIC + 0x380, DATA + 28)
        .copy(LAPIC + 0x390, DATA + 32)
        .print(DATA, 36)
        .reset();
    let snapshot = save_waiting(&kvm, &script, |_| ());
    let mut copy = snapshot.restore(&kvm, |_| ());
    let bytes = copy.read_console(36);
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let passed = long(8).wrapping_sub(long(0));
    assert!((1..1 << 40).contains(&passed), "{passed} ticks");
    assert_eq!(long(16), 0x1234_5678_9abc);
    assert_eq!(word(24), 1 << 17 | 1 << 16 | 0xec);
    assert_eq!(word(28), 0x7000_0000);
    assert!((1..0x7000_0000).contains(&word(32)), "the timer runs");
    assert_eq!(copy.end().0["kind"], "reset");
}

#[test]
fn a_copy_has_all_cpus_of_its_template() {
    let Some(kvm) = kvm() else { return };
    let script = ready(Script::default()).say("more").reset();
    let two = |config: &mut Value| config["vcpus"] = 2.into();
    let snapshot = save_waiting(&kvm, &script, two);
    let mut copy = snapshot.restore(&kvm, two);
    assert_eq!(copy.read_console(4), b"more");
    assert_eq!(copy.end().0["kind"], "reset");
    let (reason, code, _) = snapshot.start(&kvm, |_| ()).end();
    assert_eq!((&reason["key"], code), (&json!("restore.stateFd"), 2));
    assert!(
        reason["text"].as_str().unwrap().contains("2 CPUs"),
        "{reason}"
    );
}

#[test]
fn a_copy_has_the_cpu_template_of_its_template_and_another_one_is_refused_by_name() {
    let Some(kvm) = kvm() else { return };
    let script = ready(Script::default()).say("more").reset();
    let portable = |config: &mut Value| config["cpu"] = "portable".into();
    let snapshot = save_waiting(&kvm, &script, portable);
    let mut copy = snapshot.restore(&kvm, portable);
    assert_eq!(copy.read_console(4), b"more");
    assert_eq!(copy.end().0["kind"], "reset");
    let (reason, code, _) = snapshot.start(&kvm, |_| ()).end();
    assert_eq!((&reason["key"], code), (&json!("restore.stateFd"), 2));
    let text = reason["text"].as_str().unwrap();
    assert!(text.contains("\"portable\", and has \"host\""), "{text}");
}

#[test]
fn pages_that_come_ahead_are_those_of_the_copy() {
    let Some(kvm) = kvm() else { return };
    let script = ready(Script::default())
        .count_up(DATA)
        .print(DATA, 1)
        .print(DATA + 0x2000, 1)
        .reset();
    let script = script.place(DATA, b"a").place(DATA + 0x2000, b"z");
    let snapshot = save_waiting(&kvm, &script, |_| ());
    let page = DATA / 4096;
    for _ in 0..2 {
        let mut copy = snapshot.restore(&kvm, |config| {
            let pages =
                json!({ "written": [[page, 1]], "read": [[0, 16], [page + 2, 1], [16_000, 384]] });
            config["restore"]["pages"] = pages;
        });
        assert_eq!(copy.read_console(2), b"bz");
        assert_eq!(copy.end().0["kind"], "reset");
    }
}

#[test]
fn memory_that_a_copy_reports_reads_as_zeros_and_not_as_in_its_template() {
    const PLACE: u64 = 4 << 20;
    const HUGE: u32 = 2 << 20;
    let Some(kvm) = kvm() else { return };
    let balloon = Device::new(0);
    let with_balloon = |config: &mut Value| config["balloon"] = true.into();
    let script = Script::default()
        .place(PLACE, b"old")
        .place(PLACE + 4096, b"own");
    let script = ready(balloon.start(script, 3)).write(PLACE + 4096, 0x6f6f_6f6f);
    let raw = Raw {
        address: PLACE,
        length: HUGE,
        flags: WRITE,
        next: 0,
    };
    let script = balloon.describe(script.print(PLACE, 3), 2, 0, &raw);
    let script = balloon.offer(script, 2, 1);
    let script = balloon
        .wait(script, 2, 1)
        .print(PLACE, 3)
        .print(PLACE + 4096, 3)
        .reset();
    let snapshot = save_waiting(&kvm, &script, with_balloon);
    for _ in 0..2 {
        let mut copy = snapshot.restore(&kvm, with_balloon);
        assert_eq!(copy.read_console(9), b"old\0\0\0\0\0\0");
        assert_eq!(copy.end().0["kind"], "reset");
    }
}

fn disk(sectors: u64, byte: u8) -> File {
    let mut file = tempfile::tempfile().unwrap();
    let bytes = usize::try_from(sectors * 512).unwrap();
    file.write_all(&vec![byte; bytes]).unwrap();
    file
}

fn with_disk(file: &File) -> impl Fn(&mut Value) + use<> {
    let file = file.try_clone().unwrap();
    move |config| {
        config["disks"] = json!([{ "fd": copy_of(&file), "serial": "d", "readOnly": false }]);
    }
}

/// A read of the first sector of a disk, as the chain `head` and two descriptors behind it.
fn describe_read(disk: Device, mut script: Script, head: u16, answer: u64) -> Script {
    let header = disk.buffer(0, 0x800 + u64::from(head) * 16);
    script = script.place(header, &[0; 16]);
    for (at, address, length, flags) in [
        (0u16, header, 16u32, 1u16),
        (1, answer, 512, 3),
        (2, answer + 512, 1, 2),
    ] {
        let raw = Raw {
            address,
            length,
            flags,
            next: head + at + 1,
        };
        script = disk.describe(script, 0, u64::from(head + at), &raw);
    }
    script
}

#[test]
fn the_queue_of_a_disk_continues_on_the_disk_of_the_copy_and_its_size_is_new() {
    let Some(kvm) = kvm() else { return };
    let device = Device::new(0);
    let (first, second) = (device.buffer(0, 0), device.buffer(0, 0x400));
    let mut script = device.start(Script::default(), 1);
    script = describe_read(device, script, 0, first);
    script = describe_read(device, script, 3, second);
    script = device.order(script, 0, &[0, 3]);
    script = device.offer(script, 0, 1);
    script = device.wait(script, 0, 1).write(device.register(0x64), 3);
    script = ready(script)
        // Used buffers, and a new configuration.
        .wait_register(device.register(0x60), 3)
        .copy(device.register(0xfc), DATA)
        .copy(device.register(0x100), DATA + 4)
        .write(device.register(0x64), 3);
    script = device.offer(script, 0, 2);
    script = device
        .wait(script, 0, 2)
        .print(DATA, 8)
        .print(first, 1)
        .print(second, 1)
        .reset();
    let old = disk(8, b'o');
    let snapshot = save_waiting(&kvm, &script, with_disk(&old));
    let new = disk(64, b'n');
    let mut copy = snapshot.restore(&kvm, with_disk(&new));
    let mut expected = [1u32, 64].map(u32::to_le_bytes).concat();
    expected.extend(b"on");
    assert_eq!(copy.read_console(10), expected);
    assert_eq!(copy.end().0["kind"], "reset");
}

#[test]
fn a_buffer_that_the_template_offered_without_a_kick_is_used_in_the_copy() {
    let Some(kvm) = kvm() else { return };
    let device = Device::new(0);
    let answer = device.buffer(0, 0);
    let mut script = device.start(Script::default(), 1);
    script = describe_read(device, script, 0, answer);
    script = device.order(script, 0, &[0]);
    script = device.make_available(script, 0, 1);
    script = ready(script);
    script = device.wait(script, 0, 1).print(answer, 1).reset();
    let old = disk(8, b'o');
    let snapshot = save_waiting(&kvm, &script, with_disk(&old));
    let mut copy = snapshot.restore(&kvm, with_disk(&disk(8, b'n')));
    assert_eq!(copy.read_console(1), b"n");
    assert_eq!(copy.end().0["kind"], "reset");
}

#[test]
fn a_copy_learns_that_its_connection_is_gone_and_makes_another_one() {
    let Some(kvm) = kvm() else { return };
    let vsock = Device::new(0);
    // A buffer for the event, before the connection.
    let mut script = Script::default();
    let event = Raw {
        address: vsock.buffer(2, 0),
        length: 4,
        flags: WRITE,
        next: 0,
    };
    script = vsock.describe(script, 2, 0, &event);
    script = vsock.order(script, 2, &[0]);
    script = script.place(vsock.buffer(2, 0), &[0xff; 4]);
    script = connect(vsock, script);
    script = vsock.offer(script, 2, 1);
    script = ready(script);
    script = vsock.wait(script, 2, 1).print(vsock.buffer(2, 0), 4);
    // The next connection has another port. Its answer comes into the second buffer.
    let request = packet_from(5001, 1, 0);
    let raw = Raw {
        address: vsock.buffer(1, 0x100),
        length: u32::try_from(request.len()).unwrap(),
        flags: 0,
        next: 0,
    };
    script = vsock
        .describe(script, 1, 1, &raw)
        .place(vsock.buffer(1, 0x100), &request);
    script = vsock.offer(script, 1, 2);
    let answer = vsock.buffer(0, 256);
    script = vsock
        .wait(script, 0, 2)
        .print(answer + 20, 4)
        .print(answer + 30, 2);
    script = script.reset();

    let with_socket = |socket: UnixStream| {
        let fd = socket.into_raw_fd();
        move |config: &mut Value| config["vsock"] = json!({ "guestCid": 3, "port": 1024, "fd": fd })
    };
    let (_template, theirs) = UnixStream::pair().unwrap();
    let snapshot = save_waiting(&kvm, &script, with_socket(theirs));
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(LIMIT)).unwrap();
    let mut copy = snapshot.restore(&kvm, with_socket(theirs));
    let mut expected = vec![0; 4];
    expected.extend(5001u32.to_le_bytes());
    // The operation is a response.
    expected.extend(2u16.to_le_bytes());
    assert_eq!(copy.read_console(10), expected);
    assert_eq!(copy.end().0["kind"], "reset");
    // The keeper of the copy sees one connection, and its end.
    let mut rest = Vec::new();
    let mut ours = ours;
    ours.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn a_save_needs_a_paused_vm_that_may_be_saved_and_happens_once() {
    let Some(kvm) = kvm() else { return };
    let script = Script::default().wait(GO, 1);
    let snapshot = Snapshot::new();
    let start = |config: &mut Value| snapshot.allow(config);
    let mut vm = Vm::start(kvm.try_clone().unwrap(), &script, start);
    assert_eq!(vm.receive()["event"], "started");
    let why = |answer: Value| answer["why"].as_str().unwrap().to_owned();
    assert!(why(vm.ask("save")).contains("paused"));
    save(&mut vm);
    assert!(why(vm.ask("save")).contains("saved already"));
    assert_eq!(vm.ask("resume"), json!({ "event": "resumed" }));
    vm.abandon();
    let mut vm = Vm::start(kvm, &script, |_| ());
    assert_eq!(vm.receive()["event"], "started");
    assert_eq!(vm.ask("pause")["event"], "paused");
    assert!(why(vm.ask("save")).contains("may not be saved"));
    vm.abandon();
}

#[test]
fn a_file_without_room_is_the_reason_and_the_vm_continues() {
    let Some(kvm) = kvm() else { return };
    let script = Script::default()
        .count_up(DATA)
        .print(DATA, 1)
        .repeat_from(0);
    for full_key in ["stateFd", "memoryFd"] {
        let snapshot = Snapshot::new();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut vm = Vm::start(kvm.try_clone().unwrap(), &script, |config| {
            snapshot.allow(config);
            config["save"][full_key] = full.into_raw_fd().into();
        });
        assert_eq!(vm.receive()["event"], "started");
        assert_eq!(vm.ask("pause")["event"], "paused");
        let answer = vm.ask("save");
        assert_eq!(answer["event"], "refused", "{answer}");
        assert!(
            answer["why"].as_str().unwrap().contains("No space"),
            "{answer}"
        );
        vm.drain_console();
        assert_eq!(vm.ask("resume")["event"], "resumed");
        vm.read_console(3);
        vm.abandon();
    }
}

#[test]
fn a_state_that_does_not_fit_is_refused_before_a_guest_runs() {
    let Some(kvm) = kvm() else { return };
    let snapshot = save_waiting(&kvm, &ready(Script::default()), |_| ());
    let refused = |text: &str, change: &dyn Fn(&mut Value)| {
        let (reason, code, _) = snapshot.start(&kvm, |config| change(config)).end();
        assert_eq!((&reason["key"], code), (&json!("restore.stateFd"), 2));
        assert!(reason["text"].as_str().unwrap().contains(text), "{reason}");
    };
    refused("0 devices, and has 1", &|config| {
        config["rng"] = true.into()
    });
    let whole = snapshot.state();
    for (bytes, text) in [
        (Vec::new(), "without its header"),
        ([&whole[..], b"x"].concat(), "behind the header"),
        (
            {
                let mut bytes = whole.clone();
                bytes[5000] ^= 4;
                bytes
            },
            "checksum",
        ),
    ] {
        refused(text, &|config| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            file.rewind().unwrap();
            config["restore"]["stateFd"] = file.into_raw_fd().into();
        });
    }
}

#[test]
fn memory_that_a_vmm_could_write_or_of_another_size_is_refused() {
    let Some(kvm) = kvm() else { return };
    let snapshot = save_waiting(&kvm, &ready(Script::default()), |_| ());
    let start = |change: &dyn Fn(&mut Value)| snapshot.start(&kvm, |config| change(config)).end();
    let (reason, code, _) = start(&|config| {
        config["restore"]["memoryFd"] = copy_of(&snapshot.memory).into();
    });
    assert_eq!((&reason["key"], code), (&json!("restore.memoryFd"), 2));
    assert!(
        reason["text"].as_str().unwrap().contains("for writing"),
        "{reason}"
    );
    let (reason, code, _) = start(&|config| config["memoryMib"] = 65.into());
    assert_eq!((&reason["key"], code), (&json!("restore.memoryFd"), 2));
    snapshot.memory.set_len(65 << 20).unwrap();
    let (reason, code, _) = start(&|config| config["memoryMib"] = 65.into());
    assert_eq!((&reason["key"], code), (&json!("restore.stateFd"), 2));
    assert!(
        reason["text"].as_str().unwrap().contains("bytes of memory"),
        "{reason}"
    );
}

#[test]
fn each_copy_finds_an_identity_of_its_own() {
    const IDENTITY: u64 = 0xf_f000;
    let Some(kvm) = kvm() else { return };
    let script = ready(Script::default()).print(IDENTITY, 16).reset();
    let snapshot = save_waiting(&kvm, &script, |_| ());
    let mut first = vec![0; 16];
    snapshot.memory.read_exact_at(&mut first, IDENTITY).unwrap();
    let mut identities = vec![vec![0; 16], first];
    for _ in 0..2 {
        let (reason, _, console) = snapshot.restore(&kvm, |_| ()).end();
        assert_eq!(reason["kind"], "reset", "{reason}");
        identities.push(console);
    }
    for (at, identity) in identities.iter().enumerate() {
        assert_eq!(identity.len(), 16);
        assert!(!identities[..at].contains(identity), "{identities:x?}");
    }
}
