//! VMs that are saved in full and continue, chains of differences, and copies of them. On any `/dev/kvm`.

mod guests;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;

use guests::virtio::{Device, NEXT, Raw, WRITE};
use guests::{DATA, LIMIT, Script, Vm, copy_of, kvm};
use serde_json::{Value, json};

const MEMORY_BYTES: u64 = 64 << 20;
const PAGE: u64 = 4096;
/// A page of memory that nothing else uses.
const MARK: u64 = DATA + 0x4_0000;

/// A link of a chain.
struct Link {
    state: File,
    memory: File,
}

impl Link {
    fn new() -> Self {
        let memory = tempfile::NamedTempFile::new().unwrap();
        memory.as_file().set_len(MEMORY_BYTES).unwrap();
        Self {
            state: tempfile::tempfile().unwrap(),
            memory: memory.into_file(),
        }
    }

    fn state(&self) -> File {
        let mut state = Vec::new();
        let mut file = &self.state;
        file.rewind().unwrap();
        file.read_to_end(&mut state).unwrap();
        let mut copy = tempfile::tempfile().unwrap();
        copy.write_all(&state).unwrap();
        copy.rewind().unwrap();
        copy
    }

    /// The descriptors of the link, as a part of a configuration.
    fn for_reading(&self) -> Value {
        let memory = File::open(format!("/proc/self/fd/{}", self.memory.as_raw_fd())).unwrap();
        json!({ "stateFd": self.state().into_raw_fd(), "memoryFd": memory.into_raw_fd() })
    }

    fn bytes(&self) -> u64 {
        self.memory.metadata().unwrap().blocks() * 512
    }

    /// The place of the first byte that is no hole.
    fn first_data(&self) -> u64 {
        // SAFETY: moves the position of an open file.
        let at = unsafe { libc::lseek(self.memory.as_raw_fd(), 0, libc::SEEK_DATA) };
        u64::try_from(at).unwrap()
    }

    fn byte(&self, at: u64) -> u8 {
        let mut byte = [0];
        self.memory.read_exact_at(&mut byte, at).unwrap();
        byte[0]
    }
}

fn start(kvm: &File, script: &Script) -> Vm {
    started(Vm::start(kvm.try_clone().unwrap(), script, allow))
}

fn allow(config: &mut Value) {
    config["fullSaves"] = true.into();
}

fn started(mut vm: Vm) -> Vm {
    assert_eq!(vm.receive(), json!({ "event": "started" }));
    vm
}

/// Starts a copy without its first message.
fn begin(kvm: &File, chain: &[&Link], change: impl FnOnce(&mut Value)) -> Vm {
    Vm::start_with(kvm.try_clone().unwrap(), |config| {
        allow(config);
        config["restore"] = chain[0].for_reading();
        let diffs = chain[1..].iter().map(|link| link.for_reading());
        config["restore"]["diffs"] = diffs.collect();
        change(config);
    })
}

fn restore(kvm: &File, chain: &[&Link]) -> Vm {
    started(begin(kvm, chain, |_| ()))
}

/// Saves a paused VM. Returns the link, and the name of its state.
fn save(vm: &mut Vm, request: &str) -> (Link, String) {
    let link = Link::new();
    let answer = vm.ask_with(request, &[&link.state, &link.memory]);
    assert_eq!(answer["event"], "saved", "{answer}");
    let id = answer["id"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 32);
    (link, id)
}

fn pause(vm: &mut Vm) {
    assert_eq!(vm.ask("pause"), json!({ "event": "paused" }));
}

fn resume(vm: &mut Vm) {
    assert_eq!(vm.ask("resume"), json!({ "event": "resumed" }));
}

fn why(answer: &Value) -> &str {
    assert_eq!(answer["event"], "refused", "{answer}");
    answer["why"].as_str().unwrap()
}

/// A guest that counts, and prints each number.
fn counter() -> Script {
    Script::default()
        .count_up(MARK)
        .print(MARK, 1)
        .repeat_from(0)
}

/// Lets a counter print and pauses it. Returns the number that is next.
fn count(vm: &mut Vm) -> u8 {
    let mut numbers = vm.read_console(3);
    pause(vm);
    numbers.extend(vm.drain_console());
    numbers.last().unwrap().wrapping_add(1)
}

fn numbers_from(next: u8) -> Vec<u8> {
    (0..5).map(|more| next.wrapping_add(more)).collect()
}

/// Merges a chain in a thread of its own, which keeps its filter. Returns the last message and the exit code.
fn merge(config: &Value) -> (Value, u8) {
    let (mut control, theirs) = UnixStream::pair().unwrap();
    control.set_read_timeout(Some(LIMIT)).unwrap();
    writeln!(control, "{config}").unwrap();
    let merging = std::thread::spawn(|| voidbox_vmm::run_merge(theirs.into_raw_fd()));
    let code = merging.join().unwrap();
    let mut line = String::new();
    control.read_to_string(&mut line).unwrap();
    (serde_json::from_str(&line).unwrap(), code)
}

fn merge_config(chain: &[&Link], into: &Link) -> Value {
    let chain: Vec<Value> = chain.iter().map(|link| link.for_reading()).collect();
    let into = json!({ "stateFd": copy_of(&into.state), "memoryFd": copy_of(&into.memory) });
    json!({ "version": 1, "chain": chain, "into": into })
}

#[test]
fn a_vm_continues_after_each_save_and_copies_of_each_link_continue_where_it_was() {
    let Some(kvm) = kvm() else { return };
    let mut vm = start(&kvm, &counter());
    let mut chain = Vec::new();
    let mut next = Vec::new();
    for request in ["saveFull", "saveDiff", "saveDiff"] {
        next.push(count(&mut vm));
        let (link, id) = save(&mut vm, request);
        chain.push((link, id));
        resume(&mut vm);
    }
    vm.read_console(3);
    vm.abandon();
    assert_ne!(chain[0].1, chain[1].1);
    let links: Vec<&Link> = chain.iter().map(|(link, _)| link).collect();
    for (newest, next) in next.iter().enumerate() {
        let mut copy = restore(&kvm, &links[..=newest]);
        assert_eq!(copy.read_console(5), numbers_from(*next), "link {newest}");
        copy.abandon();
    }
    // A difference has the pages that changed, and no others.
    assert!(links[1].bytes() < 32 * PAGE, "{} bytes", links[1].bytes());
    assert!(links[1].byte(MARK) != 0);
    assert_eq!(
        (links[1].byte(0x10_0000), links[0].byte(0x10_0000)),
        (0, 0x48)
    );
}

#[test]
fn a_copy_continues_the_chain_of_its_template() {
    let Some(kvm) = kvm() else { return };
    let mut vm = start(&kvm, &counter());
    count(&mut vm);
    let (base, _) = save(&mut vm, "saveFull");
    vm.abandon();
    let mut copy = restore(&kvm, &[&base]);
    let next = count(&mut copy);
    let (diff, _) = save(&mut copy, "saveDiff");
    copy.abandon();
    assert!(diff.bytes() < 32 * PAGE, "{} bytes", diff.bytes());
    let mut last = restore(&kvm, &[&base, &diff]);
    assert_eq!(last.read_console(5), numbers_from(next));
    last.abandon();
}

#[test]
fn a_chain_has_at_most_8_links_and_its_merge_is_a_base_that_differences_continue() {
    let Some(kvm) = kvm() else { return };
    let mut vm = start(&kvm, &counter());
    let mut next = count(&mut vm);
    let mut chain = vec![save(&mut vm, "saveFull")];
    for _ in 1..8 {
        resume(&mut vm);
        next = count(&mut vm);
        chain.push(save(&mut vm, "saveDiff"));
    }
    let refused = Link::new();
    let answer = vm.ask_with("saveDiff", &[&refused.state, &refused.memory]);
    assert!(why(&answer).contains("8 links"), "{answer}");
    let (fresh, _) = save(&mut vm, "saveFull");
    vm.abandon();
    let links: Vec<&Link> = chain.iter().map(|(link, _)| link).collect();
    let merged = Link::new();
    let (answer, code) = merge(&merge_config(&links, &merged));
    assert_eq!((answer, code), (json!({ "event": "merged" }), 0));
    // The merge has the pages of a full snapshot at the same place.
    let mut pages = [Vec::new(), Vec::new()];
    for (bytes, link) in pages.iter_mut().zip([&merged, &fresh]) {
        let mut file = &link.memory;
        file.rewind().unwrap();
        file.read_to_end(bytes).unwrap();
    }
    assert!(pages[0] == pages[1], "the memories differ");
    let mut copy = restore(&kvm, &[&merged]);
    assert_eq!(copy.read_console(5), numbers_from(next));
    let next = count(&mut copy);
    let (diff, _) = save(&mut copy, "saveDiff");
    copy.abandon();
    let mut last = restore(&kvm, &[&merged, &diff]);
    assert_eq!(last.read_console(5), numbers_from(next));
    last.abandon();
}

/// A guest waits until these are one. A test sets them in the memory of a base.
const GO: u64 = DATA + 0x5_0000;
const GO_ON: u64 = DATA + 0x6_0000;

/// A base whose guest waits, and a copy of it that has since read a sector of a disk, and zeroed a page.
struct Changed {
    base: Link,
    copy: Vm,
    disk: File,
}

impl Changed {
    fn start(kvm: &File) -> Self {
        let device = Device::new(0);
        let (header, answer) = (device.buffer(0, 0x800), device.buffer(0, 0x2000));
        let mut script = device.start(Script::default(), 1);
        for (at, address, length, flags) in [
            (0u16, header, 16, NEXT),
            (1, answer, 512, NEXT | WRITE),
            (2, device.buffer(0, 0x840), 1, WRITE),
        ] {
            let next = at + 1;
            let raw = Raw {
                address,
                length,
                flags,
                next,
            };
            script = device.describe(script, 0, at.into(), &raw);
        }
        script = device.order(script, 0, &[0]);
        script = script.place(header, &[0; 16]).place(MARK, b"zz");
        script = script.say("ready").wait(GO, 1);
        script = device.offer(script, 0, 1);
        script = device.wait(script, 0, 1).write(MARK, 0);
        script = script.say("done").wait(GO_ON, 1);
        script = script.print(answer, 3).print(MARK, 1).reset();
        let mut disk = tempfile::tempfile().unwrap();
        disk.write_all(&[b'd'; 4096]).unwrap();
        let mut vm = started(Vm::start(kvm.try_clone().unwrap(), &script, |config| {
            allow(config);
            config["disks"] = Self::disks(&disk);
        }));
        assert_eq!(vm.read_console(5), b"ready");
        pause(&mut vm);
        let (base, _) = save(&mut vm, "saveFull");
        vm.abandon();
        base.memory.write_all_at(&[1], GO).unwrap();
        let with_disk = |config: &mut Value| config["disks"] = Self::disks(&disk);
        let mut copy = started(begin(kvm, &[&base], with_disk));
        assert_eq!(copy.read_console(4), b"done");
        pause(&mut copy);
        base.memory.write_all_at(&[1], GO_ON).unwrap();
        Self { base, copy, disk }
    }

    fn disks(disk: &File) -> Value {
        json!([{ "fd": copy_of(disk), "serial": "d", "readOnly": false }])
    }

    /// Fails unless a copy of the chain has the sector and the zero.
    fn check(&self, kvm: &File, chain: &[&Link]) {
        let with_disk = |config: &mut Value| config["disks"] = Self::disks(&self.disk);
        let mut last = started(begin(kvm, chain, with_disk));
        assert_eq!(last.read_console(4), b"ddd\0");
        assert_eq!(last.end().0["kind"], "reset");
    }
}

#[test]
fn a_difference_has_the_pages_that_only_a_device_wrote_and_those_that_became_zero() {
    let Some(kvm) = kvm() else { return };
    let mut changed = Changed::start(&kvm);
    let (diff, _) = save(&mut changed.copy, "saveDiff");
    changed.check(&kvm, &[&changed.base, &diff]);
    let merged = Link::new();
    let chain = [&changed.base, &diff];
    assert_eq!(merge(&merge_config(&chain, &merged)).1, 0);
    changed.check(&kvm, &[&merged]);
    changed.copy.abandon();
}

#[test]
fn a_save_that_fails_loses_no_page_of_the_next_difference() {
    let Some(kvm) = kvm() else { return };
    let mut changed = Changed::start(&kvm);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let good = Link::new();
    for (request, state, memory) in [
        ("saveDiff", &good.state, &full),
        ("saveDiff", &full, &Link::new().memory),
        ("saveFull", &full, &Link::new().memory),
    ] {
        let answer = changed.copy.ask_with(request, &[state, memory]);
        assert!(why(&answer).contains("No space"), "{answer}");
    }
    let (diff, _) = save(&mut changed.copy, "saveDiff");
    changed.check(&kvm, &[&changed.base, &diff]);
    changed.copy.abandon();
}

#[test]
fn a_save_in_full_needs_the_permission_a_pause_a_base_and_two_files() {
    let Some(kvm) = kvm() else { return };
    let mut vm = started(Vm::start(kvm.try_clone().unwrap(), &counter(), |_| ()));
    pause(&mut vm);
    let link = Link::new();
    let both = [&link.state, &link.memory];
    assert!(why(&vm.ask_with("saveFull", &both)).contains("may not be saved"));
    vm.abandon();
    let mut vm = start(&kvm, &counter());
    assert!(why(&vm.ask_with("saveFull", &both)).contains("paused"));
    pause(&mut vm);
    assert!(why(&vm.ask_with("saveDiff", &both)).contains("no full snapshot"));
    assert!(why(&vm.ask("save")).contains("may not be saved"));
    let many = [&link.state; 9];
    for (count, named) in [(0, "0"), (1, "1"), (3, "3"), (4, "3"), (9, "3")] {
        let answer = vm.ask_with("saveFull", &many[..count]);
        let expected = format!("{named} descriptors");
        assert!(why(&answer).contains(&expected), "{count}: {answer}");
    }
    // A file that comes with another request is closed.
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(LIMIT)).unwrap();
    let theirs = File::from(std::os::fd::OwnedFd::from(theirs));
    assert_eq!(vm.ask_with("statistics", &[&theirs])["event"], "statistics");
    drop(theirs);
    assert_eq!(ours.read(&mut [0]).unwrap(), 0);
    save(&mut vm, "saveFull");
    vm.abandon();
}

#[test]
fn a_chain_that_does_not_fit_is_refused_by_its_link_before_a_guest_runs() {
    let Some(kvm) = kvm() else { return };
    let mut vm = start(&kvm, &counter());
    let chain = ["saveFull", "saveDiff", "saveDiff"].map(|request| {
        count(&mut vm);
        let (link, _) = save(&mut vm, request);
        resume(&mut vm);
        link
    });
    pause(&mut vm);
    let (other, _) = save(&mut vm, "saveFull");
    vm.abandon();
    let [base, one, two] = &chain;
    let refused = |chain: &[&Link], key: &str, text: &str| {
        let (reason, code, _) = begin(&kvm, chain, |_| ()).end();
        let merged = Link::new();
        let (merge_end, merge_code) = merge(&merge_config(chain, &merged));
        assert_eq!(
            (&reason["key"], code),
            (&json!(format!("restore.{key}")), 2)
        );
        assert!(reason["text"].as_str().unwrap().contains(text), "{reason}");
        // A merge refuses the same chains, for the same reason.
        assert_eq!(merge_end["event"], "ended", "{merge_end}");
        assert_eq!(
            (&merge_end["reason"]["text"], merge_code),
            (&reason["text"], 2)
        );
    };
    refused(&[one], "stateFd", "expected all pages");
    refused(
        &[base, two],
        "diffs[0].stateFd",
        "expected the pages that changed since",
    );
    refused(&[base, two, one], "diffs[0].stateFd", "expected");
    refused(&[base, one, one], "diffs[1].stateFd", "expected");
    refused(&[&other, one], "diffs[0].stateFd", "expected");
    refused(&[base, base], "diffs[0].stateFd", "all pages, expected");
    // Bytes that changed since the save.
    let at = one.first_data();
    let byte = one.byte(at);
    one.memory.write_all_at(&[byte ^ 1], at).unwrap();
    refused(&[base, one], "diffs[0].memoryFd", "checksum");
    one.memory.write_all_at(&[byte], at).unwrap();
    two.memory.set_len(MEMORY_BYTES + 1).unwrap();
    refused(
        &[base, one, two],
        "diffs[1].memoryFd",
        "it has 67108865 bytes",
    );
    two.memory.set_len(MEMORY_BYTES).unwrap();
    // A file that the VMM could write.
    let (reason, code, _) = begin(&kvm, &[base, one], |config| {
        config["restore"]["diffs"][0]["memoryFd"] = copy_of(&one.memory).into();
    })
    .end();
    assert_eq!(
        (&reason["key"], code),
        (&json!("restore.diffs[0].memoryFd"), 2)
    );
    let mut whole = restore(&kvm, &[base, one, two]);
    whole.read_console(1);
    whole.abandon();
}

#[test]
fn a_merge_without_room_or_with_a_result_of_another_size_is_refused() {
    let Some(kvm) = kvm() else { return };
    let mut vm = start(&kvm, &counter());
    count(&mut vm);
    let (base, _) = save(&mut vm, "saveFull");
    vm.abandon();
    let small = Link::new();
    small.memory.set_len(MEMORY_BYTES - 1).unwrap();
    let (end, code) = merge(&merge_config(&[&base], &small));
    assert_eq!((&end["reason"]["key"], code), (&json!("into"), 2));
    let full = File::options().write(true).open("/dev/full").unwrap();
    let state = Link {
        state: full,
        memory: Link::new().memory,
    };
    let (end, code) = merge(&merge_config(&[&base], &state));
    assert_eq!((&end["reason"]["key"], code), (&json!("into"), 2));
    assert!(end["reason"]["text"].as_str().unwrap().contains("No space"));
    let mut twice = merge_config(&[&base], &Link::new());
    twice["into"]["stateFd"] = twice["chain"][0]["stateFd"].clone();
    let (end, code) = merge(&twice);
    assert_eq!((&end["reason"]["key"], code), (&json!("into.stateFd"), 2));
}
