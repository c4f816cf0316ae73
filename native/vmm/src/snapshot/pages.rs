//! Sets of pages, by their numbers in the file of the memory.

use crate::config::PageRun;

/// A set of pages.
pub struct PageSet {
    /// Bit `n % 64` of the word `n / 64` is the page `n`.
    words: Vec<u64>,
}

impl PageSet {
    /// Makes an empty set for a memory of whole MiB.
    pub fn new(memory_bytes: u64) -> Self {
        const WORD_BYTES: u64 = 64 * 4096;
        let words = usize::try_from(memory_bytes / WORD_BYTES).unwrap_or(0);
        Self {
            words: vec![0; words],
        }
    }

    /// Adds the pages of a bitmap that begins at the word `at`. Pages beyond the memory do not count.
    pub fn unite(&mut self, at: usize, bitmap: &[u64]) {
        let words = self.words.iter_mut().skip(at);
        for (word, more) in words.zip(bitmap) {
            *word |= more;
        }
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Returns the set as runs in order, or `None` if there are more than `limit`.
    pub fn runs(&self, limit: usize) -> Option<Vec<PageRun>> {
        let mut runs: Vec<PageRun> = Vec::new();
        for (at, word) in (0u32..).zip(&self.words) {
            let mut rest = *word;
            while rest != 0 {
                let first = at * 64 + rest.trailing_zeros();
                let count = (rest >> rest.trailing_zeros()).trailing_ones();
                let is_full = runs.len() == limit;
                match runs.last_mut() {
                    // A run continues in the next word.
                    Some((start, length)) if *start + *length == first => *length += count,
                    _ if is_full => return None,
                    _ => runs.push((first, count)),
                }
                // The bits from the first one of the run to its last one.
                let run = u64::MAX >> (64 - count) << rest.trailing_zeros();
                rest &= !run;
            }
        }
        Some(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn runs_are_in_order_and_continue_over_words() {
        let mut set = PageSet::new(2 * MIB);
        assert_eq!(set.runs(8), Some(Vec::new()));
        set.unite(0, &[1 | 1 << 63, 0b110]);
        set.unite(1, &[1]);
        // The second MiB.
        set.unite(4, &[u64::MAX, u64::MAX, 1 << 5]);
        let runs = vec![(0, 1), (63, 4), (256, 128), (389, 1)];
        assert_eq!(set.runs(4), Some(runs));
        assert_eq!(set.runs(3), None);
        set.clear();
        assert_eq!(set.runs(0), Some(Vec::new()));
    }

    #[test]
    fn pages_beyond_the_memory_do_not_count() {
        let mut set = PageSet::new(MIB);
        set.unite(3, &[1, 1]);
        set.unite(9, &[1]);
        assert_eq!(set.runs(8), Some(vec![(192, 1)]));
    }
}
