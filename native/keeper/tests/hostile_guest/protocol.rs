//! Guests and VMMs that break their protocols.

use serde_json::json;

use super::support::{
    LONG_BOOT_MS, SHORT_BOOT_MS, Vm, WHEN_ASKED, ready_fails_with, said, session_then,
};

#[test]
fn garbage_a_huge_length_and_half_a_frame_end_the_vm() {
    let sent = |bytes: &str| format!("{WHEN_ASKED} printf '{bytes}' >&$PORT; exec sleep 60");
    let garbage = sent("not a frame at all");
    ready_fails_with("garbage", LONG_BOOT_MS, &garbage, "vm/protocol");
    let huge = sent(r"\377\377\377\377\040");
    ready_fails_with("huge", LONG_BOOT_MS, &huge, "vm/protocol");
    let half = r"printf '\020\000\000\000\040{' >&$PORT; exec sleep 60";
    ready_fails_with("half", SHORT_BOOT_MS, half, "vm/boot-timeout");
}

/// Starts a guest that sets its session, with the mailbox or without, and then sends `frame`.
fn ends_a_session(name: &str, pong_flags: u8, frame: &str) {
    let hello =
        r#"printf '\063\000\000\000\040{"protocol":1,"agent":"hostile","bootMs":1}        '"#;
    let pong = format!(r"printf '\005\000\000\000\004\001\000\000\000\{pong_flags:03o}'");
    let configured = r"printf '\006\000\000\000\057\000\000\000\000{}'";
    let script = format!(
        "take() {{ head -c $1 <&$PORT >/dev/null; }}; {hello} >&$PORT; take 42; {pong} >&$PORT; take 5; \
         {configured} >&$PORT; printf '{frame}' >&$PORT; exec sleep 60"
    );
    let vm = Vm::launch(name, LONG_BOOT_MS, &script);
    let exit = vm.exit();
    assert_eq!(exit["code"], "vm/protocol", "{name}: {exit}");
    let message = exit["message"].as_str().unwrap();
    assert!(!message.contains("before it was ready"), "{name}: {exit}");
}

#[test]
fn mail_that_cannot_be_ends_the_vm() {
    const WITH: u8 = 3;
    const WITHOUT: u8 = 1;
    let mail =
        |slot_and_bytes: &str| format!(r"\011\000\000\000\060\001\000\000\000{slot_and_bytes}");
    let taken = |slot: &str| format!(r"\005\000\000\000\061\001\000\000\000{slot}");
    let one_byte = mail(r"\000\001\000\000\000");
    for (name, flags, frame) in [
        ("no-mailbox", WITHOUT, one_byte.clone()),
        ("no-mailbox-taken", WITHOUT, taken(r"\000")),
        ("nobody-asked", WITH, one_byte),
        ("no-slot", WITH, mail(r"\004\001\000\000\000")),
        ("no-bytes", WITH, mail(r"\000\000\000\000\000")),
        ("beyond-the-slot", WITH, mail(r"\003\001\000\004\000")),
        ("four-gib", WITH, mail(r"\000\377\377\377\377")),
        (
            "short",
            WITH,
            r"\006\000\000\000\060\001\000\000\000\000\001".to_owned(),
        ),
        ("taken-and-not-sent", WITH, taken(r"\000")),
        ("taken-from-nowhere", WITH, taken(r"\377")),
    ] {
        ends_a_session(name, flags, &frame);
    }
}

#[test]
fn a_vmm_that_breaks_the_protocol_of_its_control_ends_the_vm() {
    let configured = said(0x2f, 0, "{}");
    for (name, words) in [("no-ready", "nonsense"), ("no-word", "ready\nnonsense")] {
        let then = format!("printf '{words}\n' >&$CONTROL;");
        let vm = Vm::launch(name, LONG_BOOT_MS, &session_then(&configured, &then));
        let exit = vm.exit();
        assert_eq!(
            (&exit["reason"], &exit["code"]),
            (&json!("protocol"), &json!("vm/protocol"))
        );
        let message = exit["message"].as_str().unwrap();
        assert!(message.contains("nonsense"), "{exit}");
    }
}
