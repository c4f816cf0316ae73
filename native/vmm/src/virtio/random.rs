//! Numbers for property tests: the same seed gives the same numbers.

/// A generator (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length)
            .map(|_| self.number().to_le_bytes()[0])
            .collect()
    }

    /// Returns one of some values.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let index = self.below(from.len() as u64);
        from[usize::try_from(index).unwrap()]
    }
}
