//! Generates random numbers that are reproducible from a seed.

/// The state of the generator SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(pub u64);

impl Random {
    #[expect(clippy::should_implement_trait, reason = "the numbers never end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns a random index of a slice of `len` elements.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns a random number from 0 to 1, without 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a random index below `len`. The logarithm of the index plus one is about uniformly
    /// distributed, so small indices are much more frequent than large ones.
    pub fn popular(&mut self, len: usize) -> usize {
        ((len as f64).powf(self.share()) as usize).clamp(1, len) - 1
    }
}
