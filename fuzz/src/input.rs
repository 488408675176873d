//! Numbers and bytes taken from the front of a fuzzer's input; when it has ended, zeros.

use filterblock::{FilterKind, FilterSpec};

/// What is left of an input.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    /// The next `len` bytes, little endian.
    pub fn number(&mut self, len: usize) -> u64 {
        self.take(len).iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// A number below `range`, of two bytes; 0 if the range is empty.
    pub fn below(&mut self, range: usize) -> usize {
        (self.number(2) as usize).checked_rem(range).unwrap_or_default()
    }

    /// The next `len` bytes, or as many as there are.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        front
    }

    /// A kind and a budget: all kinds, 1 to 100 bits a key in steps of a thousandth, or a rate.
    pub fn spec(&mut self) -> FilterSpec {
        let choice = self.byte();
        let kind = match choice % 10 {
            0 => return FilterSpec::FULL,
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
            // Rates that 100 bits cannot reach are refused.
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
