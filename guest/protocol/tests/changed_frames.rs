//! Frames before the session with changed bytes: each is refused, or decodes to a message that encodes again.

use std::fs;
use std::path::PathBuf;

use voidbox_protocol::decode::{Phase, read_frame};
use voidbox_protocol::handshake::{Hello, Start, Waiting};

fn pinned(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let text = fs::read_to_string(folder.join(format!("{name}.hex"))).unwrap();
    let hex: String = text.split_whitespace().collect();
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

/// Decodes the first frame of these bytes as each side does. Returns whether it is the message of `name`.
fn decodes(name: &str, bytes: &[u8]) -> bool {
    let Ok(Some(frame)) = read_frame(&mut &bytes[..], Phase::Handshake) else {
        return false;
    };
    match name {
        "waiting" => Waiting::decode(&frame).is_ok_and(|waiting| waiting.encode().is_ok()),
        "start" => Start::decode(&frame).is_ok_and(|start| start.encode().is_ok()),
        _ => Hello::decode(&frame).is_ok_and(|hello| hello.encode().is_ok()),
    }
}

#[test]
fn every_changed_bit_of_a_frame_before_the_session_is_refused_or_decodes() {
    for name in ["waiting", "start", "hello"] {
        let good = pinned(name);
        assert!(decodes(name, &good), "{name}");
        let mut refused = 0;
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                refused += usize::from(!decodes(name, &bytes));
            }
            assert!(!decodes(name, &good[..at]), "{name} with {at} bytes");
        }
        // Each bit of the header but those that make the payload shorter or longer by white space is refused.
        assert!(refused > 5 * 8, "{name}: {refused} changes are refused");
    }
}
