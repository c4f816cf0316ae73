//! Guests that abuse the door.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{LONG_BOOT_MS, Vm, frame, said, session_with};

/// The first id of the streams that a guest opens.
const FIRST_TUNNEL: u32 = 1 << 31;
const CREDIT: u8 = 34;
const DATA: u8 = 35;
const STREAM_END: u8 = 36;
const CANCEL: u8 = 45;
const CONNECT: u8 = 50;

fn connect(id: u32) -> Vec<u8> {
    let body = br#"{"to":"host","host":"a.example","port":443}"#;
    frame(CONNECT, id, body)
}

/// Starts a session with a door on both sides, or on neither, and then sends the frames of a guest.
fn sends_frames(name: &str, has_door: bool, frames: &[u8]) -> Vm {
    sends_in_pieces(name, has_door, frames, frames.len(), 0)
}

/// Sends `piece_bytes` at once. Before the next piece, the guest waits until `answers` more requests have their last
/// answer.
fn sends_in_pieces(
    name: &str,
    has_door: bool,
    frames: &[u8],
    piece_bytes: usize,
    answers: usize,
) -> Vm {
    let file = std::env::temp_dir().join(format!("voidbox-frames-{name}-{}", std::process::id()));
    std::fs::write(&file, frames).unwrap();
    let mut vm = Vm::new(name, LONG_BOOT_MS);
    let flags = match has_door {
        true => {
            vm.egress = json!({ "allow": [], "services": [] });
            5
        }
        false => 1,
    };
    // The script reads the keeper's answers, because the keeper must not wait for a guest that reads nothing.
    let send = format!(
        "cat <&$PORT >answers & exec 9<{file}; for piece in $(seq {pieces}); do \
         head -c {piece_bytes} <&9 >&$PORT; \
         until [ $(LC_ALL=C grep -aoE '\"\\}}|\\{{\\}}' answers | wc -l) -ge $((piece * {answers})) ]; do sleep 0.01; done; \
         done; touch sent; wait;",
        file = file.display(),
        pieces = frames.len().div_ceil(piece_bytes),
    );
    let script = session_with(flags, &said(47, 0, "{}"), &send);
    assert_eq!(vm.relaunch(&script).0, "created");
    vm
}

#[test]
fn tunnels_that_cannot_be_end_the_vm() {
    let id = FIRST_TUNNEL + 7;
    let data = frame(DATA, id, &[0; 65_536]);
    let credit = |bytes: u32| {
        let mut body = vec![0];
        body.extend(bytes.to_le_bytes());
        frame(CREDIT, id, &body)
    };
    let end = frame(STREAM_END, id, b"{}");
    let many: Vec<u8> = (0..129).flat_map(|n| connect(FIRST_TUNNEL + n)).collect();
    for (name, has_door, frames) in [
        ("no-door", false, connect(id)),
        ("a-request-of-the-keepers", true, connect(7)),
        ("twice", true, [connect(id), connect(id)].concat()),
        ("data-of-nothing", true, data.clone()),
        ("end-of-nothing", true, end.clone()),
        ("answer-of-a-guest", true, frame(51, id, b"{}")),
        (
            "beyond-the-window",
            true,
            [connect(id), data.repeat(3)].concat(),
        ),
        (
            "behind-its-end",
            true,
            [connect(id), end.clone(), frame(DATA, id, b"x")].concat(),
        ),
        (
            "endless-credit",
            true,
            [connect(id), credit(u32::MAX), credit(u32::MAX)].concat(),
        ),
        ("too-many", true, many),
        ("no-json", true, frame(CONNECT, id, b"{\"to\":\"host\"")),
        (
            "no-port",
            true,
            frame(
                CONNECT,
                id,
                br#"{"to":"host","host":"a.example","port":65536}"#,
            ),
        ),
        (
            "huge",
            true,
            frame(
                CONNECT,
                id,
                json!({ "to": "host", "host": "x".repeat(2 << 20), "port": 1 })
                    .to_string()
                    .as_bytes(),
            ),
        ),
    ] {
        let vm = sends_frames(name, has_door, &frames);
        let exit = vm.exit();
        assert_eq!(exit["code"], "vm/protocol", "{name}: {exit}");
    }
}

#[test]
fn a_flood_of_tunnels_is_bounded_in_memory_and_in_what_is_kept_of_it() {
    let name = "\u{1b}[2J\u{202e}".to_owned() + &"n".repeat(4_000);
    let wanted = json!({ "to": "host", "host": name, "port": 443 }).to_string();
    let pair = |number: u32| {
        let id = FIRST_TUNNEL + number;
        let cancel = frame(CANCEL, id, b"{}");
        [frame(CONNECT, id, wanted.as_bytes()), cancel].concat()
    };
    let frames: Vec<u8> = (0..4_000).flat_map(pair).collect();
    // A guest that did not wait for answers would exceed its limit of open streams, and break the protocol.
    let vm = sends_in_pieces("flood", true, &frames, 40 * pair(0).len(), 40);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !vm.dir.join("sent").exists() {
        let exit = std::fs::read_to_string(vm.dir.join("exit.json")).unwrap_or_default();
        assert!(exit.is_empty(), "the VM ended: {exit}");
        assert!(Instant::now() < deadline, "the keeper does not read on");
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = vm.call("status");
    assert_eq!(status["ok"]["state"], "ready", "{status}");
    let refused = status["ok"]["refusedConnections"].as_u64().unwrap();
    let notices = std::fs::read_to_string(vm.dir.join("notices")).unwrap();
    assert!(refused > 0 && !notices.is_empty(), "{refused} refused");
    assert!(notices.len() <= (512 << 10) + 64, "{} bytes", notices.len());
    assert!(
        notices
            .chars()
            .all(|letter| letter == '\n' || !letter.is_control())
    );
    for line in notices.lines() {
        let notice: Value = serde_json::from_str(line).unwrap();
        let host = notice["host"].as_str().unwrap_or_default();
        assert!(host.len() <= 255 && host.is_ascii(), "{line}");
        let reason = notice["reason"].as_str().unwrap_or_default();
        assert!(reason.len() <= 1024, "{} bytes of reason", reason.len());
    }
    let keeper: Value =
        serde_json::from_slice(&std::fs::read(vm.dir.join("keeper.json")).unwrap()).unwrap();
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", keeper["pid"])).unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(pages * 4096 < 64 << 20, "{pages} pages are resident");
}
