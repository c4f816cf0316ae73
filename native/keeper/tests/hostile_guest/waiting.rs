//! Guests that abuse the wait before their start, and copies that fail.

use serde_json::Value;

use super::support::{LONG_BOOT_MS, Vm, WHEN_ASKED, said, session_then};

const WAITING: &str = r#"printf '\016\000\000\000\070{"protocol":1}' >&$PORT;"#;

/// Launches a guest with snapshots, which begins as `begins` says.
fn launch_with_snapshots(name: &str, begins: &'static str, script: &str) -> Vm {
    launch_within(name, begins, LONG_BOOT_MS, script)
}

fn launch_within(name: &str, begins: &'static str, boot_timeout_ms: u64, script: &str) -> Vm {
    let mut vm = Vm::new(name, boot_timeout_ms);
    vm.begins = Some(begins);
    assert_eq!(vm.relaunch(script).0, "created", "{name}");
    vm
}

#[test]
fn a_guest_that_abuses_its_wait_is_refused_by_name() {
    let hello = r#"printf '\063\000\000\000\040{"protocol":1,"agent":"hostile","bootMs":1}        ' >&$PORT;"#;
    let twice = format!("{WHEN_ASKED} {WAITING} {WAITING} exec sleep 60");
    let late = format!("{WHEN_ASKED} {hello} {WAITING} exec sleep 60");
    let bare = format!(r"{WHEN_ASKED} printf '\000\000\000\000\070' >&$PORT; exec sleep 60");
    let flood = format!("{WHEN_ASKED} while :; do {WAITING} done");
    let huge = format!(r"{WHEN_ASKED} printf '\377\377\377\377\070' >&$PORT; exec sleep 60");
    for (name, script, named) in [
        ("wait-twice", &twice, "expected Hello, got Waiting"),
        ("wait-late", &late, "expected Pong, got Waiting"),
        ("wait-bare", &bare, "does not parse"),
        ("wait-flood", &flood, "expected Hello, got Waiting"),
        ("wait-huge", &huge, "4294967295"),
    ] {
        let vm = launch_with_snapshots(name, "bootToSave", script);
        let answer = vm.call("ready");
        assert_eq!(answer["error"]["code"], "vm/protocol", "{name}: {answer}");
        let exit = vm.exit();
        let message = exit["message"].as_str().unwrap();
        assert!(message.contains(named), "{name}: {exit}");
    }
    // Without snapshots, no guest has a reason to wait.
    let vm = Vm::launch("wait-unasked", LONG_BOOT_MS, &twice);
    vm.call("ready");
    let exit = vm.exit();
    let message = exit["message"].as_str().unwrap();
    assert!(message.contains("expected Hello, got Waiting"), "{exit}");
}

#[test]
fn a_guest_that_never_waits_boots_and_the_reason_is_named() {
    let script = session_then(&said(47, 0, "{}"), "");
    let vm = launch_with_snapshots("wait-never", "bootToSave", &script);
    let answer = vm.call("ready");
    assert_eq!(answer["ok"]["start"]["kind"], "cold", "{answer}");
    let note = "no snapshot was made: the guest does not wait";
    assert_eq!(answer["ok"]["start"]["note"], note, "{answer}");
    assert!(answer["ok"]["start"]["sentAtMs"].is_null(), "{answer}");
}

#[test]
fn a_guest_that_waits_gets_its_start_and_boots_also_without_its_snapshot() {
    let script = format!(
        "take() {{ head -c $1 <&$PORT >/dev/null; }}; {WAITING} \
         length=$(head -c 4 <&$PORT | od -An -tu4); head -c 1 <&$PORT >kind; head -c $length <&$PORT >start; {}",
        session_then(&said(47, 0, "{}"), "")
    );
    let vm = launch_with_snapshots("wait-well", "bootToSave", &script);
    let answer = vm.call("ready");
    assert_eq!(answer["ok"]["start"]["kind"], "cold", "{answer}");
    let note = answer["ok"]["start"]["note"].as_str().unwrap();
    assert!(note.contains("this VMM has no snapshots"), "{answer}");
    let sent_at_ms = answer["ok"]["start"]["sentAtMs"].as_u64();
    assert!(
        sent_at_ms >= answer["ok"]["startedAtMs"].as_u64(),
        "{answer}"
    );
    let start = std::fs::read(vm.dir.join("start")).unwrap();
    let start: Value = serde_json::from_slice(&start).unwrap();
    assert_eq!(start["scratchBytes"], 16 << 20, "{start}");
    assert_eq!(std::fs::read(vm.dir.join("kind")).unwrap(), [57]);
}

/// The first life of each guest is a copy; the second one boots.
#[test]
fn a_copy_that_breaks_the_protocol_or_ends_costs_a_boot_and_the_reason_is_named() {
    let good = session_then(&said(47, 0, "{}"), "");
    let copy_waits = &format!("{WAITING} exec sleep 60;");
    for (name, first, named) in [
        (
            "copy-garbage",
            "printf 'not a frame at all' >&$PORT; exec sleep 60;",
            "broke the protocol",
        ),
        ("copy-waits", copy_waits, "got Waiting"),
        ("copy-ends", "exit 3;", "exit status: 3"),
        (
            "copy-silent",
            "exec sleep 60;",
            "sent no hello within 5000 ms",
        ),
    ] {
        let script = format!("[ -e second ] || {{ touch second; {first} }}; {good}");
        // A copy may use half of the boot limit.
        let vm = launch_within(name, "snapshot", 10_000, &script);
        let answer = vm.call("ready");
        assert_eq!(answer["ok"]["start"]["kind"], "cold", "{name}: {answer}");
        let note = answer["ok"]["start"]["note"].as_str().unwrap_or_default();
        assert!(note.starts_with("snapshot test: "), "{name}: {answer}");
        assert!(note.contains(named), "{name}: {answer}");
        assert!(note.ends_with("the VM boots instead"), "{name}: {answer}");
        let sent_at_ms = &answer["ok"]["start"]["sentAtMs"];
        assert!(sent_at_ms.is_null(), "{name}: {answer}");
    }
}
