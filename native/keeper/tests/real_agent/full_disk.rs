//! A keeper whose disk is full: waiting tasks, the reports about it, and the outcomes.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{MIB, Vm, agent, test_vmm};

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn disk_full(vm: &Vm) -> Value {
    vm.call("status", json!({}))["ok"]["diskFull"].clone()
}

/// Writes into a file until nothing fits, and repeats this until it stays so: the keeper may still be freeing space
/// that it used at its start.
fn fill(vm: &Vm) {
    let mut options = std::fs::File::options();
    let mut file = options
        .create(true)
        .append(true)
        .open(vm.dir.join("filler"))
        .unwrap();
    let mut bytes = 0;
    loop {
        for size in [64 << 10, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        let filled = file.metadata().unwrap().len();
        if filled == bytes {
            return;
        }
        bytes = filled;
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn make_room(vm: &Vm) {
    std::fs::remove_file(vm.dir.join("filler")).unwrap();
}

#[test]
fn output_waits_for_room_and_comes_whole_and_once() {
    let vm = Vm::with_agent_on_small_disk("spool", 6, json!({}));
    let fence = vm.attach();
    let go = vm.guest_path("go");
    let script =
        format!("until [ -e {go} ]; do sleep 0.02; done; seq 300000; echo end >&2; exit 3");
    // The deadline is far shorter than the time for which the disk is full.
    vm.start(fence, "k", &script, json!({ "timeoutMs": 1500 }));
    fill(&vm);
    std::fs::write(&go, "").unwrap();
    wait_until("a full disk is said", || !disk_full(&vm).is_null());
    std::thread::sleep(Duration::from_secs(3));
    let said = disk_full(&vm);
    assert!(said["forMs"].as_u64().unwrap() >= 2500, "{said}");
    assert_eq!(said["limitMs"], 3_600_000);
    assert!(said["availableBytes"].as_u64() < said["neededBytes"].as_u64());
    let status = vm.call("status", json!({}));
    assert_eq!(status["ok"]["execs"][0]["state"], "running");
    assert!(
        vm.keeper_resident_bytes() < 24 * MIB,
        "the guest waits, so memory does not grow"
    );
    make_room(&vm);
    let exit = vm.wait("k");
    assert_eq!(
        (&exit["reason"], &exit["exitCode"]),
        (&json!("exited"), &json!(3))
    );
    let numbers: String = (1..=300_000).map(|number| format!("{number}\n")).collect();
    assert!(vm.output("k", "stdout", 0).rest() == numbers.into_bytes());
    assert_eq!(vm.output("k", "stderr", 0).rest(), b"end\n");
    assert!(disk_full(&vm).is_null());
    vm.acknowledge(fence, "k");
}

#[test]
fn an_end_that_cannot_be_written_down_is_told_once_it_can() {
    let vm = Vm::with_agent_on_small_disk("record", 6, json!({}));
    let fence = vm.attach();
    let go = vm.guest_path("go");
    vm.start(
        fence,
        "k",
        &format!("until [ -e {go} ]; do sleep 0.02; done; exit 7"),
        json!({}),
    );
    fill(&vm);
    std::fs::write(&go, "").unwrap();
    wait_until("a full disk is said", || !disk_full(&vm).is_null());
    // A failed write is repeated; between two attempts, no part of it remains.
    let halves = || names_of_exec(&vm).contains(&"record.json.new".to_owned());
    wait_until("no half record stays", || !halves());
    make_room(&vm);
    assert_eq!(vm.wait("k")["exitCode"], 7);
    assert!(!halves());
    let record = walk_for(&vm.dir.join("exec"), "record.json");
    assert_eq!(record["outcome"]["exitCode"], 7, "{record}");
}

fn names_of_exec(vm: &Vm) -> Vec<String> {
    let exec = std::fs::read_dir(vm.dir.join("exec"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    std::fs::read_dir(exec.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn walk_for(folder: &std::path::Path, name: &str) -> Value {
    let exec = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap();
    serde_json::from_slice(&std::fs::read(exec.path().join(name)).unwrap()).unwrap()
}

/// Starts the agent with a VMM that pauses once a file `full` exists, or on request. It resumes on request once a file
/// `room` exists.
fn stopping(extra: Value) -> Value {
    let script = r#"
        # With the shell both end, also while the first is stopped.
        setpriv --pdeathsig KILL "$0" --fd {fd} --mailbox-fd {mailbox} & guest=$!
        setpriv --pdeathsig KILL bash -c '
            until [ -e full ]; do sleep 0.02; done
            kill -STOP $0; echo no-room >&{control}' $guest &
        # The file has room for the words on a full disk too: its block is there.
        echo ready > asked
        echo ready >&{control}
        while read -r word <&{control}; do
            answer=refused
            case $word in
                pause) kill -STOP $guest ;;
                resume) if [ -e room ]; then kill -CONT $guest; answer=resumed; fi ;;
            esac
            echo "$word" >> asked
            [ "$word" = pause ] || echo $answer >&{control}
        done
        wait"#;
    let args = ["-c", script, agent().to_str().unwrap()];
    let mut config = json!({ "vmm": test_vmm(Path::new("/bin/bash"), &args) });
    for (key, value) in extra.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

/// The requests that the VMM received after `ready`.
fn asked(vm: &Vm) -> Vec<String> {
    let words = std::fs::read_to_string(vm.dir.join("asked")).unwrap_or_default();
    words.lines().map(str::to_owned).collect()
}

#[test]
fn a_vm_that_found_no_room_goes_on_and_its_deadlines_stood_still() {
    let vm = Vm::with_agent("no-room", stopping(json!({})));
    let fence = vm.attach();
    let go = vm.guest_path("go");
    let script = format!("echo begun; until [ -e {go} ]; do sleep 0.02; done; echo done");
    vm.start(fence, "k", &script, json!({ "timeoutMs": 2500 }));
    wait_until("the command begins", || walk_for_output(&vm));
    std::fs::write(vm.dir.join("full"), "").unwrap();
    wait_until("a full disk is said", || !disk_full(&vm).is_null());
    // This is longer than the deadline, and the VMM is asked again and again.
    std::thread::sleep(Duration::from_secs(3));
    wait_until("it is asked again", || asked(&vm).len() >= 4);
    assert!(asked(&vm)[1..].iter().all(|word| word == "resume"));
    std::fs::write(vm.dir.join("room"), "").unwrap();
    wait_until("it goes on", || disk_full(&vm).is_null());
    std::fs::write(go, "").unwrap();
    let exit = vm.wait("k");
    assert_eq!(
        (&exit["reason"], &exit["exitCode"]),
        (&json!("exited"), &json!(0))
    );
    assert_eq!(vm.output("k", "stdout", 0).rest(), b"begun\ndone\n");
}

#[test]
fn a_vm_whose_disk_runs_low_is_paused_until_there_is_room() {
    let vm = Vm::with_agent_on_small_disk("low", 6, stopping(json!({})));
    let fence = vm.attach();
    std::fs::write(vm.dir.join("room"), "").unwrap();
    vm.start(fence, "before", "true", json!({}));
    assert_eq!(vm.wait("before")["exitCode"], 0);
    vm.acknowledge(fence, "before");
    fill(&vm);
    wait_until("the VM is paused", || asked(&vm) == ["ready", "pause"]);
    assert!(!disk_full(&vm).is_null());
    make_room(&vm);
    wait_until("it goes on", || disk_full(&vm).is_null());
    assert_eq!(asked(&vm), ["ready", "pause", "resume"]);
    vm.start(fence, "after", "exit 3", json!({}));
    assert_eq!(vm.wait("after")["exitCode"], 3);
}

fn walk_for_output(vm: &Vm) -> bool {
    std::fs::read_dir(vm.dir.join("exec")).unwrap().any(|exec| {
        std::fs::metadata(exec.unwrap().path().join("stdout")).is_ok_and(|file| file.len() > 0)
    })
}

#[test]
fn a_disk_that_stays_full_ends_the_vm_with_a_reason_of_its_own() {
    let limit = json!({ "diskFullTimeoutMs": 800, "orphanTimeoutMs": 700 });
    let vm = Vm::with_agent("given-up", stopping(limit));
    let fence = vm.attach();
    vm.start(fence, "k", "sleep 60", json!({}));
    std::fs::write(vm.dir.join("full"), "").unwrap();
    let answer = vm.call("exec.wait", json!({ "execKey": "k" }));
    assert_eq!(answer["error"]["code"], "host/disk-full", "{answer}");
    let exit = vm.exit();
    assert_eq!(
        (&exit["reason"], &exit["code"]),
        (&json!("disk-full"), &json!("host/disk-full")),
        "{exit}"
    );
}
