//! Hex digits of messages.

/// Returns the bytes of hex digits; `None` for other characters, half a byte, or more than `most` bytes.
pub fn parse(digits: &str, most: usize) -> Option<Vec<u8>> {
    if digits.len() % 2 != 0 || digits.len() > 2 * most || !digits.is_ascii() {
        return None;
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn hex_is_taken_whole_or_not_at_all() {
        assert_eq!(parse("00fF", 2), Some(vec![0, 255]));
        assert_eq!(parse("", 0), Some(vec![]));
        for wrong in ["0", "0g", "ää", "000000"] {
            assert_eq!(parse(wrong, 2), None, "{wrong}");
        }
    }
}
