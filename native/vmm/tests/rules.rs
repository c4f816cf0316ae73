//! The rules of the filters of system calls. A VM that uses each device and each request is traced, and then loses one
//! rule after the other. On any `/dev/kvm`.

mod guests;
mod processes;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use guests::virtio::{Device, NEXT, Raw, WRITE, connect, packet};
use guests::{LIMIT, Script, Vm, copy_of, kvm};
use processes::{Mode, NUMBERS, TABLES, rules};
use serde_json::{Value, json};
use voidbox_vmm::devices::vsock::ROOM_BYTES;

/// How the guest leaves its keeper, and ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    /// It sends all that it may, resets the device, and faults.
    ResetAndFault,
    /// It sends a reset of the connection, and resets the machine.
    Packet,
    /// The same, of a VM that is saved while it is paused.
    SavedPacket,
    /// The same, of a VM that is saved in full, and then the difference to that.
    FullySavedPacket,
}

const DISK: u64 = 0;
const VSOCK: u64 = 1;
const FOLDERS: u64 = 2;
const RNG: u64 = 3;
/// The places of tables. The rules of each are the first ones of the next.
const CONTROLLING: usize = 2;
const SAVING: usize = 3;
const FULLY_SAVING: usize = 4;
/// The bytes of a request to the server of folders, and of its answer.
const MESSAGE_BYTES: u8 = 30;

fn message() -> Vec<u8> {
    let mut message = vec![0; MESSAGE_BYTES.into()];
    message[0] = MESSAGE_BYTES;
    message
}

/// Adds a request of a disk in the descriptors from `first` on.
fn request(script: Script, first: u64, kind: u32, length: u32, flags: u16) -> Script {
    let disk = Device::new(DISK);
    let at = |offset| disk.buffer(0, first * 0x100 + offset);
    let mut header = kind.to_le_bytes().to_vec();
    header.resize(16, 0);
    let next = u16::try_from(first).unwrap() + 1;
    let raws = [
        (at(0), 16, NEXT, next),
        (at(0x80), length, NEXT | flags, next + 1),
        (at(0x40), 1, WRITE, 0),
    ];
    let mut script = script.place(at(0), &header);
    for (index, (address, length, flags, next)) in (first..).zip(raws) {
        let raw = Raw {
            address,
            length,
            flags,
            next,
        };
        script = disk.describe(script, 0, index, &raw);
    }
    script
}

/// Reads, writes and discards a part of the disk, with the same descriptors for the last two.
fn use_disk(mut script: Script) -> Script {
    const DISCARD: u32 = 11;
    /// The place of the length in a descriptor.
    const LENGTH_AT: u64 = 8;
    let disk = Device::new(DISK);
    script = disk.start(script, 1);
    script = request(script, 0, 0, 512, WRITE);
    script = request(script, 3, 1, 512, 0);
    script = disk.order(script, 0, &[0, 3, 3]);
    script = disk.offer(script, 0, 2);
    script = disk.wait(script, 0, 2);
    // The range of a discard is a sector and a number of sectors, here the first one.
    script = script
        .write(disk.buffer(0, 0x300), DISCARD)
        .write(disk.buffer(0, 0x380), 0)
        .write(disk.buffer(0, 0x388), 1)
        .write(disk.descriptor(0, 4) + LENGTH_AT, 16);
    script = disk.offer(script, 0, 3);
    disk.wait(script, 0, 3)
}

fn send(script: Script, index: u16, bytes: &[u8]) -> Script {
    send_more(script, index, bytes, 0)
}

/// Sends a packet with `length` bytes of data, whatever the guest's memory has there.
fn send_all(script: Script, index: u16, length: u32) -> Script {
    send_more(script, index, &packet(5, length), length)
}

fn send_more(script: Script, index: u16, bytes: &[u8], more: u32) -> Script {
    let vsock = Device::new(VSOCK);
    let at = vsock.buffer(1, u64::from(index) * 256);
    let raw = Raw {
        address: at,
        length: u32::try_from(bytes.len()).unwrap() + more,
        flags: 0,
        next: 0,
    };
    let script = vsock
        .describe(script, 1, index.into(), &raw)
        .place(at, bytes);
    vsock.offer(script, 1, index + 1)
}

fn guest(leave: Leave) -> Script {
    const RESET: u16 = 3;
    let (vsock, folders, rng) = (Device::new(VSOCK), Device::new(FOLDERS), Device::new(RNG));
    let mut script = use_disk(Script::default().say("up"));
    script = folders.start(script, 1);
    for (index, flags) in [(0, NEXT), (1, WRITE)] {
        let raw = Raw {
            address: folders.buffer(0, index * 256),
            length: u32::from(MESSAGE_BYTES),
            flags,
            next: 1,
        };
        script = folders.describe(script, 0, index, &raw);
    }
    script = script.place(folders.buffer(0, 0), &message());
    script = folders.offer(script, 0, 1);
    script = folders.wait(script, 0, 1);
    script = rng.start(script, 1);
    let raw = Raw {
        address: rng.buffer(0, 0),
        length: 32,
        flags: WRITE,
        next: 0,
    };
    script = rng.describe(script, 0, 0, &raw);
    script = rng.offer(script, 0, 1);
    script = rng.wait(script, 0, 1);
    script = connect(vsock, script);
    script = vsock.order(script, 1, &[0, 1, 2]);
    script = send(script, 1, &[packet(5, 5), b"hello".to_vec()].concat());
    script = vsock.wait(script, 0, 2);
    match leave {
        Leave::ResetAndFault => {
            // More than the keeper's socket takes, so bytes wait for the keeper at the reset.
            let script = send_all(script, 2, ROOM_BYTES);
            let script = vsock.wait(script, 1, 3);
            script.write(vsock.register(0x70), 0).triple_fault()
        }
        Leave::Packet | Leave::SavedPacket | Leave::FullySavedPacket => {
            let script = send(script, 2, &packet(RESET, 0));
            vsock.wait(script, 1, 3).reset()
        }
    }
}

/// Lets a VM live, in a process with these filters. Returns its last message.
fn live(kvm: &File, leave: Leave, mode: Mode, used: &Arc<Mutex<BTreeSet<usize>>>) -> Option<Value> {
    let (mut keeper, port) = UnixStream::pair().unwrap();
    let (mut server, folders) = UnixStream::pair().unwrap();
    for ours in [&keeper, &server] {
        ours.set_read_timeout(Some(LIMIT)).unwrap();
    }
    let disk = tempfile::tempfile().unwrap();
    disk.set_len(64 << 10).unwrap();
    let script = guest(leave);
    let start = |config: &mut Value| {
        script.load(config);
        config["disks"] = json!([{ "fd": copy_of(&disk), "serial": "d", "readOnly": false }]);
        config["vsock"] = json!({ "guestCid": 3, "port": 1024, "fd": port.into_raw_fd() });
        config["folders"] = json!({ "fd": folders.into_raw_fd(), "tag": "mounts" });
        config["rng"] = true.into();
        config["fullSaves"] = (leave == Leave::FullySavedPacket).into();
        if leave == Leave::SavedPacket {
            let [state, memory] = files();
            config["save"] =
                json!({ "stateFd": state.into_raw_fd(), "memoryFd": memory.into_raw_fd() });
        }
    };
    let used = used.clone();
    let mut vm = Vm::start_by(kvm.try_clone().unwrap(), start, |fd, config| {
        processes::run(fd, config, mode, used)
    });
    let mut last = None;
    let mut requests = match leave {
        Leave::FullySavedPacket => vec!["saveDiff", "saveFull"],
        _ => Vec::new(),
    };
    // A VM without a rule ends at any step; then each socket is at its end too.
    while let Some(message) = vm.try_receive() {
        match message["event"].as_str() {
            Some("started") => {
                let mut request = message_buffer();
                let _ = server.read_exact(&mut request);
                let _ = server.write_all(&self::message());
                let _ = keeper.read_exact(&mut [0; 5]);
                vm.try_ask("pause");
            }
            Some("paused") if leave == Leave::SavedPacket => vm.try_ask("save"),
            Some("paused" | "saved") => match requests.pop() {
                Some(request) => {
                    let [state, memory] = files();
                    vm.try_ask_with(request, &[&state, &memory]);
                }
                None => vm.try_ask("resume"),
            },
            Some("resumed") => vm.try_ask("statistics"),
            Some("statistics") => {
                let _ = keeper.write_all(b"world");
            }
            _ => {}
        }
        last = Some(message);
    }
    vm.abandon();
    last
}

/// The files of a saved VM.
fn files() -> [File; 2] {
    let files = [(); 2].map(|()| tempfile::tempfile().unwrap());
    files[1].set_len(64 << 20).unwrap();
    files
}

fn message_buffer() -> Vec<u8> {
    vec![0; MESSAGE_BYTES.into()]
}

fn kind(last: &Option<Value>) -> Option<&str> {
    last.as_ref()?["reason"]["kind"].as_str()
}

#[test]
#[ignore = "the other tests start it"]
fn a_vm_runs_in_a_process_of_its_own() {
    processes::be_child();
}

/// The test of the jail that makes the calls of the runtime.
const OF_RUNTIME: &str =
    "native/jail: the_runtime_has_its_heap_its_clock_its_messages_and_its_handlers";

/// The rules that the traced VMs may leave unused, and the test that needs each, or the reason why no test can.
const ELSEWHERE: &[(&str, libc::c_long, &str)] = &[
    ("all", libc::SYS_brk, OF_RUNTIME),
    ("all", libc::SYS_clock_gettime, OF_RUNTIME),
    (
        "all",
        libc::SYS_exit_group,
        "a_vm_without_one_of_its_rules_ends_and_names_the_call",
    ),
    ("all", libc::SYS_madvise, OF_RUNTIME),
    ("all", libc::SYS_mmap, OF_RUNTIME),
    ("all", libc::SYS_mprotect, OF_RUNTIME),
    ("all", libc::SYS_mremap, OF_RUNTIME),
    (
        "all",
        libc::SYS_restart_syscall,
        "a process that a person stops and continues",
    ),
    ("all", libc::SYS_rt_sigreturn, OF_RUNTIME),
    ("all", libc::SYS_writev, OF_RUNTIME),
    (
        "devices",
        libc::SYS_close,
        "machine.rs: VMs in threads, if the devices are the last owner of a file",
    ),
    (
        "devices",
        libc::SYS_fcntl,
        "machine.rs: VMs in threads, if the devices are the last owner of a file",
    ),
    ("control", libc::SYS_exit, "machine.rs: VMs in threads"),
    (
        "control",
        libc::SYS_sigaltstack,
        "machine.rs: VMs in threads",
    ),
    (
        "control",
        libc::SYS_tkill,
        "a paused VM of the static build: test/kvm-lab, full-disk.ts",
    ),
    (
        "control",
        libc::SYS_getpid,
        "machine.rs: a pause, by some versions of the C library",
    ),
];

#[test]
fn each_rule_is_used_by_a_traced_vm_or_names_what_needs_it() {
    let Some(kvm) = kvm() else { return };
    let used = Arc::default();
    let fault = live(&kvm, Leave::ResetAndFault, Mode::Traced, &used);
    assert_eq!(kind(&fault), Some("tripleFault"), "{fault:?}");
    let reset = live(&kvm, Leave::Packet, Mode::Traced, &used);
    assert_eq!(kind(&reset), Some("reset"), "{reset:?}");
    let saved = live(&kvm, Leave::SavedPacket, Mode::Traced, &used);
    assert_eq!(kind(&saved), Some("reset"), "{saved:?}");
    let saved = live(&kvm, Leave::FullySavedPacket, Mode::Traced, &used);
    assert_eq!(kind(&saved), Some("reset"), "{saved:?}");
    let used = used.lock().unwrap();
    let mut unused = Vec::new();
    for (place, table) in TABLES.iter().enumerate() {
        for (index, rule) in rules(table).iter().enumerate() {
            // A VM that may be saved has the rules of each control, which the other VMs use.
            let is_shared = match place {
                SAVING => index < rules(TABLES[CONTROLLING]).len(),
                FULLY_SAVING => index < rules(TABLES[SAVING]).len(),
                _ => false,
            };
            let is_elsewhere = ELSEWHERE.iter().any(|(role, number, _)| {
                *number == rule.number && (*role == "all" || *role == table.role)
            });
            if !used.contains(&(place * NUMBERS + index)) && !is_elsewhere && !is_shared {
                unused.push(format!("{} {}: {}", table.role, rule.number, rule.reason));
            }
        }
    }
    assert_eq!(unused, Vec::<String>::new());
}

#[test]
fn a_vm_without_one_of_its_rules_ends_and_names_the_call() {
    const IOCTL: libc::c_long = libc::SYS_ioctl;
    /// The role, the call, which of its rules is left out, and the guest that needs it.
    const RISKY: &[(usize, libc::c_long, usize, Leave)] = &[
        (0, IOCTL, 0, Leave::Packet),
        (0, IOCTL, 1, Leave::Packet),
        (0, IOCTL, 2, Leave::ResetAndFault),
        (0, libc::SYS_shutdown, 0, Leave::ResetAndFault),
        (1, libc::SYS_readv, 0, Leave::Packet),
        (1, libc::SYS_sendto, 0, Leave::Packet),
        (1, libc::SYS_recvfrom, 0, Leave::Packet),
        (1, libc::SYS_shutdown, 0, Leave::Packet),
        (1, libc::SYS_preadv, 0, Leave::Packet),
        (1, libc::SYS_pwritev, 0, Leave::Packet),
        (1, libc::SYS_fallocate, 0, Leave::Packet),
        (1, libc::SYS_getrandom, 0, Leave::Packet),
        (2, libc::SYS_pread64, 0, Leave::Packet),
        (3, libc::SYS_pwrite64, 0, Leave::SavedPacket),
        (4, libc::SYS_recvmsg, 0, Leave::FullySavedPacket),
    ];
    let Some(kvm) = kvm() else { return };
    let used = Arc::default();
    for (place, number, nth, leave) in RISKY {
        let all = rules(TABLES[*place]);
        let mut of_call = (0..all.len()).filter(|index| all[*index].number == *number);
        let rule = of_call.nth(*nth).expect("the table has the rule");
        let last = live(&kvm, *leave, Mode::Without(place * NUMBERS + rule), &used);
        let reason = &last.as_ref().expect("a last message")["reason"];
        let expected = json!({ "kind": "forbiddenCall", "text": format!("system call {number}") });
        let what = format!("{} {}", TABLES[*place].role, all[rule].reason);
        assert_eq!(*reason, expected, "without: {what}");
    }
}
