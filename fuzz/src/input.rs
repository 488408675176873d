//! Reads numbers, bytes and specifications from the front of a fuzzer's input. After the end of the
//! input, all numbers are zero.

use filterblock::{FilterKind, FilterSpec};

/// The bytes of a fuzzer's input that are not read yet.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Returns whether the input has ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads one byte.
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    /// Reads a little-endian number of `len` bytes.
    pub fn number(&mut self, len: usize) -> u64 {
        self.take(len).iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// Reads two bytes as a number below `range`. Returns 0 if the range is empty.
    pub fn below(&mut self, range: usize) -> usize {
        (self.number(2) as usize).checked_rem(range).unwrap_or_default()
    }

    /// Reads `len` bytes, or fewer if the input ends.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        front
    }

    /// Calls `step` until the input has ended, but at most `most` times.
    pub fn steps(&mut self, most: usize, mut step: impl FnMut(&mut Self)) {
        for _ in 0..most {
            if !self.is_empty() {
                step(self);
            }
        }
    }

    /// Reads a specification of any kind except `empty` and `grafite`.
    pub fn spec(&mut self) -> FilterSpec {
        let choice = self.byte();
        let kind = match choice % 10 {
            0 => return FilterSpec::ALWAYS_MAYBE,
            1 | 2 => FilterKind::Bloom,
            3 | 4 => FilterKind::BlockedBloom,
            5 => FilterKind::SplitBlock,
            6 => FilterKind::SplitBlock512,
            7 => FilterKind::Ribbon,
            8 => FilterKind::BumpedRibbon,
            _ => FilterKind::BinaryFuse,
        };
        let spec = self.budget(kind);
        if choice >= 128 { spec.compact().unwrap_or(spec) } else { spec }
    }

    fn budget(&mut self, kind: FilterKind) -> FilterSpec {
        let budget = self.number(2);
        if budget.is_multiple_of(16) {
            // If the kind cannot reach the FPR, the result is the default specification.
            let rate = 0.5f64.powi((budget / 16 % 64) as i32 + 1);
            return FilterSpec::false_positive_rate(kind, rate).unwrap_or_default();
        }
        let bits = match kind {
            FilterKind::BinaryFuse => [8.0, 12.0, 16.0][(budget % 3) as usize],
            FilterKind::Ribbon => 1.0 + (budget % 31_001) as f64 / 1000.0,
            _ => 1.0 + (budget % 99_001) as f64 / 1000.0,
        };
        FilterSpec::bits_per_key(kind, bits).unwrap()
    }
}
