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

const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// Random numbers that each run of the test repeats (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }
}

/// Changes a frame in one to three places: bits, bytes, pieces, and its header by that of another frame.
fn change(bytes: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len());
        match dice.below(6) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = dice.byte(),
            2 => bytes.insert(at, dice.byte()),
            3 => bytes.truncate(at.max(1)),
            4 => {
                let end = bytes.len().min(at + 1 + dice.below(30));
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let end = bytes.len().min(5);
                bytes.splice(..end, other[..5].iter().copied());
            }
        }
    }
}

#[test]
fn frames_with_random_changes_are_refused_or_decode_to_a_message_that_encodes_again() {
    let mut dice = Dice(SEED);
    let names = ["waiting", "start", "hello"];
    let mut refused = 0;
    const ROUNDS: usize = 6_000;
    for round in 0..ROUNDS {
        let name = names[round % names.len()];
        let other = pinned(names[dice.below(names.len())]);
        let mut bytes = pinned(name);
        change(&mut bytes, &other, &mut dice);
        let changed = bytes.clone();
        let outcome = std::panic::catch_unwind(move || decodes(name, &changed));
        let Ok(is_decoded) = outcome else {
            panic!("seed {SEED:#x}, round {round}: {name} {bytes:02x?}");
        };
        refused += usize::from(!is_decoded);
    }
    // Both must occur, or the changes are too harmless or too coarse.
    assert!(
        refused > ROUNDS / 2 && refused < ROUNDS,
        "seed {SEED:#x}: {refused} of {ROUNDS} are refused"
    );
}
