//! Guests that fall silent.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::support::{LONG_BOOT_MS, Vm, guest_that_reacts, said, session_then};

const HOUR_MS: u64 = 3_600_000;

/// Returns the keeper's answers, line by line, to a request whose guest falls silent.
fn silent_guest_answers(name: &str, then: &str, op: Value, sent: &[u8]) -> (Vec<Value>, Value) {
    // The guest sends its answer only after the request: an earlier answer would be another breach of the protocol.
    let then = format!("take $length; take 1; {then}");
    let mut vm = Vm::new(name, LONG_BOOT_MS);
    vm.guest_silence_ms = 600;
    assert_eq!(
        vm.relaunch(&session_then(&said(47, 0, "{}"), &then)).0,
        "created"
    );
    let answer = |op| serde_json::from_str::<Value>(&vm.ask(op, || {})).unwrap();
    assert!(answer("ready")["ok"].is_object(), "{name}");
    let fence = answer("attach")["ok"]["fence"].clone();
    let mut stream = UnixStream::connect(vm.dir.join("k.sock")).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(15)))
        .unwrap();
    let mut request = op;
    for (field, value) in [("v", json!(1)), ("id", json!(1)), ("fence", fence)] {
        request[field] = value;
    }
    stream.write_all(format!("{request}\n").as_bytes()).unwrap();
    // A keeper that gives up early reads no more.
    let _ = stream.write_all(sent);
    let mut lines = Vec::new();
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => lines.extend(serde_json::from_slice::<Value>(&line)),
            Err(error) => panic!("{name}: the keeper waits with its guest: {error}"),
        }
    }
    (lines, vm.exit())
}

#[test]
fn a_guest_that_goes_silent_in_an_exchange_loses_its_vm() {
    let path = "/workspace/x";
    // The first request has the id 1.
    let present = &said(19, 1, r#"{"sizeBytes":9,"mode":420}"#);
    let is_folder = &said(41, 1, r#"{"kind":"dir"}"#);
    let tar = [0u8; 1024];
    let cases: [(&str, &str, Value, &[u8]); 7] = [
        (
            "no-file",
            "",
            json!({ "op": "file.get", "path": path }),
            &[],
        ),
        (
            "no-bytes",
            present,
            json!({ "op": "file.get", "path": path }),
            &[],
        ),
        ("no-tar", "", json!({ "op": "tar.get", "path": path }), &[]),
        (
            "no-entries",
            is_folder,
            json!({ "op": "tar.get", "path": path }),
            &[],
        ),
        (
            "no-answer",
            "",
            json!({ "op": "tar.put", "path": path }),
            &tar,
        ),
        (
            "no-file-answer",
            "",
            json!({ "op": "file.put", "path": path, "mode": 420, "sizeBytes": 0 }),
            &[],
        ),
        ("no-figures", "", json!({ "op": "stats" }), &[]),
    ];
    for (name, said, op, sent) in cases {
        let (lines, exit) = silent_guest_answers(name, said, op, sent);
        assert_eq!(exit["code"], "vm/protocol", "{name}: {exit}");
        let message = exit["message"].as_str().unwrap();
        assert!(message.contains("went silent"), "{name}: {exit}");
        if !name.starts_with("no-bytes") && !name.starts_with("no-entries") {
            let last = lines.last().unwrap();
            assert_eq!(last["error"]["code"], "vm/protocol", "{name}: {last}");
        }
    }
}

#[test]
fn a_guest_that_stands_still_under_a_command_loses_its_vm() {
    let start = json!({
        "op": "exec.start", "execKey": "a/0/1", "program": "sleep", "args": ["9"], "env": {}, "cwd": "/",
        "uid": 1000, "gid": 1000, "stdinBytes": null, "timeoutMs": 3_600_000, "maxOutputBytes": 1024,
    });
    let (lines, exit) = silent_guest_answers("no-pulse", "", start, &[]);
    assert_eq!(lines[0]["ok"]["known"], false, "{lines:?}");
    assert_eq!(exit["code"], "vm/protocol", "{exit}");
    let message = exit["message"].as_str().unwrap();
    assert!(message.contains("went silent"), "{exit}");
}

/// Returns a guest that reads every frame, and answers each request for its figures; `to_exec` is its reaction to a
/// command.
fn lively_guest(to_exec: &str) -> String {
    guest_that_reacts(1, &format!("1) {to_exec} ;;"))
}

/// Begins a command in such a guest, whose keeper waits a second for what the guest owes.
fn begin_command(name: &str, to_exec: &str, timeout_ms: u64) -> Vm {
    let start = json!({
        "v": 1, "id": 1, "op": "exec.start", "fence": 1, "execKey": "a/0/1", "program": "sleep", "args": ["9"],
        "env": {}, "cwd": "/", "uid": 1000, "gid": 1000, "stdinBytes": null, "timeoutMs": timeout_ms,
        "maxOutputBytes": 1024,
    });
    let mut vm = Vm::new(name, LONG_BOOT_MS);
    vm.guest_silence_ms = 1_000;
    assert_eq!(vm.relaunch(&lively_guest(to_exec)).0, "created");
    assert!(vm.call("ready")["ok"].is_object(), "{name}");
    assert_eq!(vm.call("attach")["ok"]["fence"], 1);
    let mut stream = UnixStream::connect(vm.dir.join("k.sock")).unwrap();
    stream.write_all(format!("{start}\n").as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    assert!(line.contains(r#""known":false"#), "{name}: {line}");
    vm
}

#[test]
fn a_guest_that_lives_and_never_starts_a_command_loses_its_vm() {
    let exit = begin_command("not-started", ":", HOUR_MS).exit();
    assert_eq!(exit["code"], "vm/protocol", "{exit}");
    let message = exit["message"].as_str().unwrap();
    assert!(message.contains("a/0/1 was not started"), "{exit}");
    // A command that has started may be silent until its deadline.
    let vm = begin_command("started", &said(33, 1, r#"{"pid":7}"#), HOUR_MS);
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(vm.call("status")["ok"]["state"], "ready");
}

#[test]
fn a_guest_that_lives_and_never_ends_a_killed_command_loses_its_vm() {
    let exit = begin_command("not-ended", &said(33, 1, r#"{"pid":7}"#), 100).exit();
    assert_eq!(exit["code"], "vm/protocol", "{exit}");
    let message = exit["message"].as_str().unwrap();
    let wanted = "a/0/1: the guest did not end the killed exec within 1000 ms";
    assert!(message.contains(wanted), "{exit}");
}
