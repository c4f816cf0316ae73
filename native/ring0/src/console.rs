//! The output of the kernel: COM1.

use crate::cpu;

pub const COM1: u16 = 0x3f8;

/// Writes the parts of a line. One exit of the VM carries a whole part.
pub fn say(parts: &[&str]) {
    for part in parts {
        cpu::write_string(COM1, part.as_bytes().as_ptr(), part.len());
    }
}

/// A number in hexadecimal.
pub struct Hex([u8; 16]);

impl Hex {
    pub fn of(value: u64) -> Self {
        let mut digits = [0; 16];
        let mut rest = value;
        for digit in digits.iter_mut().rev() {
            *digit = b"0123456789abcdef"[(rest & 15) as usize];
            rest >>= 4;
        }
        Self(digits)
    }

    pub fn text(&self) -> &str {
        let zeros = self
            .0
            .iter()
            .take(15)
            .take_while(|digit| **digit == b'0')
            .count();
        // SAFETY: all are digits. The check of a library for another target would use SSE.
        unsafe { core::str::from_utf8_unchecked(&self.0[zeros..]) }
    }
}

/// Tells a fact of a case.
pub fn note(what: &str, number: u64) {
    say(&["note ", what, " ", Hex::of(number).text(), "\n"]);
}
