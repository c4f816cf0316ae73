//! `voidbox-vmm` as a hostile program in its real jail, and its keeper.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Vm, start};

/// The folder of the program and of its scripts.
pub(super) const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");
pub(super) const STARTED: &str = r#"say {"event":"started"}"#;

/// Returns the program that plays the VMM, compiled as a static one.
pub(super) fn fake_vmm() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real_agent/fake_vmm.rs");
        let program = Path::new(FOLDER).join("fake-vmm");
        let compiled = Command::new("rustc")
            .args([
                "--edition",
                "2021",
                "-C",
                "target-feature=+crt-static",
                "-o",
            ])
            .arg(&program)
            .arg(source)
            .status();
        assert!(compiled.unwrap().success(), "{source} does not compile");
        program
    })
}

/// Launches a VM whose VMM does these steps.
fn launch(name: &str, steps: &[&str]) -> Vm {
    launch_with(name, steps, &json!({}), json!([]))
}

/// Launches with more settings of the VMM, and with mounts.
fn launch_with(name: &str, steps: &[&str], settings: &Value, mounts: Value) -> Vm {
    let script = Path::new(FOLDER).join(name);
    std::fs::write(&script, steps.join("\n")).unwrap();
    let mut vmm = json!({ "name": "vmm", "program": fake_vmm(), "kvm": "/dev/null" });
    for (key, value) in settings.as_object().unwrap() {
        vmm[key] = value.clone();
    }
    let config = json!({
        "vmm": vmm, "mounts": mounts,
        "kernel": { "path": script, "kind": "debian" }, "initramfs": script,
    });
    Vm::with_agent(&format!("native-{name}"), config)
}

/// Returns the end of a VM whose VMM does these steps after its guest is ready.
fn end_after(name: &str, steps: &[&str]) -> Value {
    let steps = [&[STARTED, "hello"], steps].concat();
    launch(name, &steps).exit()
}

pub(super) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_jail_of_the_vmm_has_the_inherited_files_and_no_others() {
    let vm = launch("look", &[STARTED, "look", "hello"]);
    let ready = vm.call("ready", json!({ "timeoutMs": 20_000 }));
    let status = &ready["ok"];
    assert_eq!(
        (
            &status["vmm"],
            &status["accelerator"],
            &status["start"]["kind"]
        ),
        (&json!("vmm"), &json!("kvm"), &json!("cold")),
        "{ready}"
    );
    assert!(status["jail"].as_str().unwrap().starts_with("empty root"));
    let console = || std::fs::read_to_string(vm.dir.join("console.log")).unwrap();
    wait_until("the VMM has looked", || console().contains("LOOK: done"));
    let seen: Vec<String> = console().lines().map(str::to_owned).collect();
    assert_eq!(seen, ["LOOK: done"]);
    let usage = vm.call("usage", json!({}));
    assert!(usage["ok"]["diskBytes"].as_u64().unwrap() > 0, "{usage}");
}

#[test]
fn a_vmm_that_found_no_room_is_resumed_until_it_runs() {
    let refused = r#"say {"event":"refused","why":"the disk is full"}"#;
    let vm = launch(
        "no-room",
        &[
            STARTED,
            "hello",
            r#"say {"event":"noRoom","serial":"voidbox-scratch"}"#,
            r#"expect {"do":"resume"}"#,
            refused,
            r#"expect {"do":"resume"}"#,
            r#"say {"event":"resumed"}"#,
            // The keeper sends no further request.
            r#"say {"event":"noRoom","serial":"voidbox-scratch"}"#,
            r#"expect {"do":"resume"}"#,
        ],
    );
    vm.call("ready", json!({ "timeoutMs": 20_000 }));
    let disk_full = || vm.call("status", json!({}))["ok"]["diskFull"].clone();
    // The last request has no answer, so the VM stays paused.
    wait_until("a full disk is reported", || {
        let report = disk_full();
        report["forMs"].as_u64().is_some_and(|ms| ms > 1_000)
    });
    let log = std::fs::read_to_string(vm.dir.join("keeper.log")).unwrap();
    assert!(
        log.contains("the VMM does not continue: the disk is full"),
        "{log}"
    );
}

#[test]
fn the_reason_of_the_vmms_end_is_in_the_exit_file_and_in_the_message() {
    let triple =
        r#"say {"event":"ended","reason":{"kind":"tripleFault","rip":"0xffffffff81000000"}}"#;
    let exit = end_after("triple", &[triple, "exit 1"]);
    assert_eq!(
        (&exit["reason"], &exit["code"]),
        (&json!("lost"), &json!("vm/lost")),
        "{exit}"
    );
    assert_eq!(
        exit["vmmEnd"],
        json!({ "kind": "tripleFault", "rip": "0xffffffff81000000" })
    );
    let message = exit["message"].as_str().unwrap();
    assert!(
        message.contains("triple fault, rip 0xffffffff81000000"),
        "{exit}"
    );

    let device = r#"say {"event":"ended","reason":{"kind":"deviceFailed","text":"queue 0 of vda has a loop"}}"#;
    let exit = end_after("device", &[device, "exit 1"]);
    assert_eq!(
        (&exit["reason"], &exit["code"]),
        (&json!("protocol"), &json!("vm/protocol")),
        "{exit}"
    );
    assert!(
        exit["message"]
            .as_str()
            .unwrap()
            .contains("queue 0 of vda has a loop")
    );

    let silent = end_after("silent", &["exit 1"]);
    assert_eq!(silent["code"], "vm/lost");
    assert!(silent["vmmEnd"].is_null(), "{silent}");
}

#[test]
fn a_command_that_waits_learns_of_a_panic_of_the_guests_kernel() {
    let vm = launch(
        "panic",
        &[
            STARTED,
            "hello",
            "request",
            "print [    3.1] Kernel panic - not syncing: out of fuel",
            "print [    3.2] Call Trace:",
            r#"say {"event":"ended","reason":{"kind":"reset"}}"#,
            "exit 0",
        ],
    );
    vm.call("ready", json!({ "timeoutMs": 20_000 }));
    vm.call("exec.start", start(vm.attach(), "k", "true", &json!({})));
    let answer = vm.call("exec.wait", json!({ "execKey": "k" }));
    assert_eq!(answer["error"]["code"], "vm/lost", "{answer}");
    let why = "the guest reset its machine; the guest's kernel panicked: \"out of fuel\"";
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.ends_with(why), "{answer}");
    let exit = vm.exit();
    assert!(exit["message"].as_str().unwrap().ends_with(why), "{exit}");
}

#[test]
fn a_vmm_that_refuses_its_configuration_ends_both_boots_with_the_key() {
    let refused = r#"say {"event":"ended","reason":{"kind":"badConfiguration","key":"vcpus"}}"#;
    let exit = launch("refused", &[refused, "exit 2"]).exit();
    assert_eq!(exit["code"], "vm/boot-timeout", "{exit}");
    assert_eq!(exit["boots"], 2);
    let message = exit["message"].as_str().unwrap();
    assert!(
        message.contains("the VMM refuses its configuration, key vcpus"),
        "{exit}"
    );
}

#[test]
fn a_control_that_breaks_its_protocol_ends_the_vm() {
    for (name, step) in [
        ("noise", "say hello"),
        ("twice", STARTED),
        ("unasked", r#"say {"event":"resumed"}"#),
        (
            "reason",
            r#"say {"event":"ended","reason":{"kind":"reset","rip":"elsewhere"}}"#,
        ),
    ] {
        let exit = end_after(name, &[step]);
        assert_eq!(
            (&exit["reason"], &exit["code"]),
            (&json!("protocol"), &json!("vm/protocol")),
            "{name}: {exit}"
        );
        assert!(
            exit["message"].as_str().unwrap().contains("control"),
            "{exit}"
        );
    }
}

#[test]
fn mail_that_cannot_be_ends_the_vm() {
    for (name, steps, why) in [
        ("no-mailbox", ["hello", "mail 0"], "no mailbox"),
        ("no-slot", ["hello mailbox", "mail 4"], "no slot 4"),
        (
            "unasked-mail",
            ["hello mailbox", "mail 3"],
            "does not expect it",
        ),
    ] {
        let exit = launch(name, &[&[STARTED], &steps[..]].concat()).exit();
        assert_eq!(
            (&exit["reason"], &exit["code"]),
            (&json!("protocol"), &json!("vm/protocol")),
            "{name}: {exit}"
        );
        assert!(
            exit["message"].as_str().unwrap().contains(why),
            "{name}: {exit}"
        );
    }
}

#[test]
fn a_vm_whose_server_of_folders_ends_is_lost() {
    // The program that plays the VMM refuses the arguments of the server, and ends.
    let settings = json!({ "folders": fake_vmm() });
    let mounts = json!([{ "hostPath": "/etc", "guestPath": "/data" }]);
    let exit = launch_with("folders", &[STARTED, "hello"], &settings, mounts).exit();
    assert_eq!(
        (&exit["reason"], &exit["code"]),
        (&json!("lost"), &json!("vm/lost")),
        "{exit}"
    );
}

#[test]
fn a_host_whose_kvm_is_no_hardware_starts_no_vmm() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({
        "vmm": { "name": "vmm", "program": fake_vmm() },
        "kernel": { "path": fake_vmm(), "kind": "debian" }, "initramfs": fake_vmm(),
    });
    match Vm::in_folder(folder.path(), "kvm", config) {
        // Hardware KVM is there, so the program starts, and finds no script.
        Ok(vm) => assert_eq!(vm.exit()["code"], "vm/boot-timeout"),
        Err(answer) => {
            assert_eq!(answer["error"]["code"], "host/not-ready", "{answer}");
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains("needs hardware KVM"), "{answer}");
        }
    }
}

pub(super) const PAUSE: &str = r#"expect {"do":"pause"}"#;
pub(super) const PAUSED: &str = r#"say {"event":"paused"}"#;
const SAVE: &str = r#"expect {"do":"save"}"#;
const SAVED: &str = r#"say {"event":"saved"}"#;
pub(super) const RESUME: &str = r#"expect {"do":"resume"}"#;
pub(super) const RESUMED: &str = r#"say {"event":"resumed"}"#;

/// A folder of snapshots, and VMs of one size that use it.
struct Snapshots(tempfile::TempDir);

impl Snapshots {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Launches a VM with this script, and returns it with how it began once it is ready.
    fn launch(&self, name: &str, steps: &[&str]) -> (Vm, Value) {
        let dir = self.0.path();
        let script = dir.join("script");
        // The key of a snapshot has the identity of this file.
        if !script.exists() {
            std::fs::write(&script, steps.join("\n")).unwrap();
        }
        let config = json!({
            "vmm": { "name": "vmm", "program": fake_vmm(), "kvm": "/dev/null" },
            "kernel": { "path": script, "kind": "debian" }, "initramfs": script,
            "snapshots": { "dir": dir.join("snapshots"), "maxMib": 128 },
        });
        let vm = Vm::in_folder(dir, name, config).unwrap();
        let ready = vm.call("ready", json!({ "timeoutMs": 20_000 }));
        let start = ready["ok"]["start"].clone();
        assert!(start.is_object(), "{ready}");
        (vm, start)
    }

    fn count(&self) -> usize {
        let entries = std::fs::read_dir(self.0.path().join("snapshots"));
        entries.map_or(0, |entries| {
            let names = entries.flatten().map(|entry| entry.file_name());
            names
                .filter(|name| !name.as_encoded_bytes().starts_with(b"."))
                .count()
        })
    }
}

/// The script of a VM that is saved; `copy` are the steps of its copies.
fn saved<'a>(put: &'a str, before: &[&'a str]) -> Vec<&'a str> {
    let to_save = [STARTED, "wait", PAUSE, PAUSED, SAVE];
    let behind = [put, SAVED, RESUME, RESUMED, "start", "hello"];
    [&to_save[..], before, &behind].concat()
}

#[test]
fn a_vm_that_waits_is_saved_and_the_next_one_continues_as_its_copy() {
    let snapshots = Snapshots::new();
    let put = format!("put {STARTED};start;hello");
    let (_first, start) = snapshots.launch("first", &saved(&put, &[]));
    assert_eq!(
        (&start["kind"], &start["note"]),
        (&json!("cold"), &Value::Null)
    );
    wait_until("the snapshot is published", || snapshots.count() == 1);
    let (_copy, start) = snapshots.launch("copy", &[]);
    assert_eq!(start["kind"], "snapshot", "{start}");
}

#[test]
fn the_first_copy_records_its_pages_and_the_next_one_gets_them_ahead() {
    let snapshots = Snapshots::new();
    let put = format!("put {STARTED};touch;start;hello");
    // A keeper publishes while its VM lives.
    let (_first, _) = snapshots.launch("first", &saved(&put, &[]));
    wait_until("the snapshot is published", || snapshots.count() == 1);
    for (name, are_known) in [("one", false), ("two", true)] {
        let (vm, start) = snapshots.launch(name, &[]);
        assert_eq!(start["kind"], "snapshot", "{start}");
        wait_until("the VMM says whether it got pages", || {
            let console = std::fs::read_to_string(vm.dir.join("console.log")).unwrap_or_default();
            console.contains(&format!("pages ahead: {are_known}"))
        });
    }
}

#[test]
fn memory_that_a_vmm_keeps_mapped_for_writing_is_no_snapshot() {
    let snapshots = Snapshots::new();
    let put = format!("put {STARTED};start;hello");
    let (_vm, start) = snapshots.launch("held", &saved(&put, &["hold"]));
    assert_eq!(start["kind"], "cold");
    let note = start["note"].as_str().unwrap();
    assert!(note.contains("sealing the memory"), "{note}");
    assert_eq!(snapshots.count(), 0);
}

#[test]
fn a_vmm_that_refuses_to_save_continues_without_a_snapshot() {
    let snapshots = Snapshots::new();
    let steps = [
        STARTED,
        "wait",
        PAUSE,
        PAUSED,
        SAVE,
        r#"say {"event":"refused","why":"the guest uses nested virtualization"}"#,
        RESUME,
        RESUMED,
        "start",
        "hello",
    ];
    let (_vm, start) = snapshots.launch("refuses", &steps);
    let note = start["note"].as_str().unwrap();
    assert!(note.contains("nested virtualization"), "{note}");
    assert_eq!(snapshots.count(), 0);
}

#[test]
fn a_copy_whose_vmm_refuses_its_state_boots_instead_and_names_the_reason() {
    let snapshots = Snapshots::new();
    let refusal =
        r#"say {"event":"ended","reason":{"kind":"badConfiguration","key":"restore.stateFd"}}"#;
    let put = format!("put {refusal};exit 2");
    let (_first, _) = snapshots.launch("first", &saved(&put, &[]));
    wait_until("the snapshot is published", || snapshots.count() == 1);
    // A VM without a snapshot does not wait, so this one breaks the protocol, and its keeper boots it once more.
    let script = snapshots.0.path().join("script");
    assert!(script.exists());
    let config = json!({
        "vmm": { "name": "vmm", "program": fake_vmm(), "kvm": "/dev/null" },
        "kernel": { "path": script, "kind": "debian" }, "initramfs": script,
        "snapshots": { "dir": snapshots.0.path().join("snapshots"), "maxMib": 128 },
    });
    let vm = Vm::in_folder(snapshots.0.path(), "refused", config).unwrap();
    wait_until("the keeper names the reason", || {
        let log = std::fs::read_to_string(vm.dir.join("keeper.log")).unwrap_or_default();
        log.contains("key restore.stateFd") && log.contains("the VM boots instead")
    });
}
