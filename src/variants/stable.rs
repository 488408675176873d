//! The stable Bloom filter **denies keys that were added, if that was long ago**: it is for streams without end, and the only
//! one here that may say "absent" wrongly (Deng, Rafiei, "Approximately detecting duplicates for streaming data using stable
//! Bloom filters", 2006). Never use it where "absent" skips a read.
//!
//! ```text
//! cells of d bits      0 0 3 1 0 2 0 0 3 0 1 ...
//! insert               1. P cells in a row, from a random one on: -1 each
//!                      2. the K cells of the key: set to Max = 2^d - 1
//! ask                  "seen" if no cell of the key is 0
//! ```
//!
//! As much is forgotten as is added, so the share of zeros settles at `(1 / (1 + 1 / (P (1/K - 1/m))))^Max`, and the rate of
//! false positives at `(1 - zeros)^K`, however long the stream.
//!
//! * When: near duplicates of an endless stream (clicks, packets, crawled links) in fixed memory, where now and then one that is
//!   taken for new does no harm.
//! * When not: for all else. A set that may not forget grows (`Scalable`) or is bounded (`Bloom`).
//! * Numbers: 100,000 cells of one bit, K = 3, P = 10: 76.9 % zeros, false positives 1.23 %.

use super::Membership;
use super::shape::{Shape, check_rate};
use crate::bits::PackedArray;
use crate::hash::{HashSeed, KeyHash, reduce};
use crate::kinds::bloom;
use crate::variants::error::{Error, Result};

/// Cells and how they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StableShape {
    /// `m`: rounded up to a multiple of 8.
    pub cells: u64,
    /// `d`: the width of a cell, 1 to 16.
    pub cell_bits: u32,
    /// `K`: the cells of a key, 1 to 30.
    pub probes: u32,
    /// `P`: the cells that are counted down for each key, 1 to `cells`.
    pub decrements: u64,
}

/// A stable Bloom filter, which forgets; see the [module](self).
#[derive(Debug, Clone)]
pub struct Stable {
    cells: PackedArray,
    shape: StableShape,
    /// Of the generator that chooses what is counted down: SplitMix64.
    random: u64,
    seed: HashSeed,
}

impl Stable {
    /// A filter of so many cells of `cell_bits` bits, 1 to 16, that settles at that rate of false positives. A key has half
    /// the cells that a Bloom filter of the rate would give it, one at least, as more of them are sooner forgotten.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless `0 < rate < 1` and the cells are enough for it; [`Error::TooLarge`].
    pub fn with_rate(cells: u64, cell_bits: u32, false_positive_rate: f64, seed: HashSeed) -> Result<Self> {
        check_rate(false_positive_rate)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 30")]
        let probes = (-false_positive_rate.log2() / 2.0).round().clamp(1.0, 30.0) as u32;
        // As many as there will be; with no more than a key has, the formula means nothing.
        let Shape { cells, .. } = Shape::new(cells, probes)?;
        if cells <= u64::from(probes) {
            let reason = format!("expected more cells than the {probes} of a key; try 1000000");
            return Err(Error::invalid("shape of a stable filter", format!("{cells} cells"), reason));
        }
        let shape = StableShape { cells, cell_bits, probes, decrements: 1 };
        let max = f64::from(cell_bits).exp2() - 1.0;
        // The formula for the zeros, solved for P.
        let zeros = 1.0 - false_positive_rate.powf(1.0 / f64::from(probes));
        let decrements = 1.0 / ((zeros.powf(-1.0 / max) - 1.0) * shape.spread());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, and is checked"
        )]
        let decrements = decrements.ceil().max(1.0) as u64;
        Self::with_shape(StableShape { decrements, ..shape }, seed)
    }

    /// A filter of any shape.
    ///
    /// # Errors
    /// [`Error::Invalid`] for numbers outside the bounds that [`StableShape`] gives; [`Error::TooLarge`].
    pub fn with_shape(shape: StableShape, seed: HashSeed) -> Result<Self> {
        let Shape { cells, probes } = Shape::new(shape.cells, shape.probes)?;
        let StableShape { cell_bits, decrements, .. } = shape;
        if !(1..=16).contains(&cell_bits) || !(1..=cells).contains(&decrements) || u64::from(probes) > cells {
            let given = format!("{cells} cells of {cell_bits} bits, {probes} of a key, {decrements} counted down");
            let reason = "expected 1 to 16 bits, and at most as many cells of a key, and counted down, as there are; \
                          try 1000000 of 3 bits, 3 and 10";
            return Err(Error::invalid("shape of a stable filter", given, reason));
        }
        let shape = StableShape { cells, ..shape };
        Ok(Self { cells: PackedArray::new(cells, cell_bits)?, shape, random: seed.0, seed })
    }

    /// Adds a key and forgets a little of the others; `true` if it was not there before, or was forgotten.
    pub fn insert(&mut self, key: &[u8]) -> bool {
        self.insert_hash(KeyHash::of(key, self.seed))
    }

    /// As [`Stable::insert`].
    pub fn insert_hash(&mut self, hash: KeyHash) -> bool {
        let is_new = !self.may_contain_hash(hash);
        let mut cell = reduce(self.next_random(), self.shape.cells);
        for _ in 0..self.shape.decrements {
            self.cells.set(cell, self.cells.get(cell).saturating_sub(1));
            cell = if cell + 1 == self.shape.cells { 0 } else { cell + 1 };
        }
        for cell in bloom::positions(hash, self.shape.cells, self.shape.probes) {
            self.cells.set(cell, self.cells.max());
        }
        is_new
    }

    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        self.cells.clear();
    }

    /// Cells and how they are used.
    #[must_use]
    pub fn shape(&self) -> StableShape {
        self.shape
    }

    /// The share of cells that are zero now: all at first, and less and less towards [`StableShape::stable_zeros`].
    #[must_use]
    pub fn zeros(&self) -> f64 {
        self.cells.iter().filter(|&cell| cell == 0).count() as f64 / self.cells.len() as f64
    }

    /// The share of keys never added that is answered "maybe", now.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        (1.0 - self.zeros()).powi(self.shape.probes.cast_signed())
    }
}

impl StableShape {
    /// `1/K - 1/m`.
    fn spread(&self) -> f64 {
        1.0 / f64::from(self.probes) - 1.0 / self.cells as f64
    }

    /// The share of cells that are zero in the long run.
    #[must_use]
    pub fn stable_zeros(&self) -> f64 {
        let max = f64::from(self.cell_bits).exp2() - 1.0;
        (1.0 / (1.0 + 1.0 / (self.decrements as f64 * self.spread()))).powf(max)
    }

    /// The share of keys never added that is answered "maybe" in the long run, and at most at any time.
    #[must_use]
    pub fn stable_rate(&self) -> f64 {
        (1.0 - self.stable_zeros()).powi(self.probes.cast_signed())
    }
}

impl Membership for Stable {
    fn seed(&self) -> HashSeed {
        self.seed
    }

    /// `false` if the key was not added, or was forgotten.
    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        bloom::positions(hash, self.shape.cells, self.shape.probes).all(|cell| self.cells.get(cell) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_cells_in_a_row_are_counted_down_as_was_said() {
        let shape = StableShape { cells: 64, cell_bits: 2, probes: 1, decrements: 5 };
        let mut filter = Stable::with_shape(shape, HashSeed(1)).unwrap();
        let mut starts = std::collections::HashSet::new();
        for i in 0..2_000u64 {
            (0..64).for_each(|cell| filter.cells.set(cell, 2));
            filter.insert(&crate::codec::u64_bytes(i));
            let lower: Vec<u64> = (0..64).filter(|&cell| filter.cells.get(cell) == 1).collect();
            // One of them may be the key's own, which is full.
            assert!([4, 5].contains(&lower.len()), "{lower:?}");
            let start = (0..64).find(|start| lower.iter().all(|cell| (cell + 64 - start) % 64 < 5)).unwrap();
            starts.insert(start);
            assert_eq!(filter.cells.iter().filter(|&cell| cell == 3).count(), 1);
        }
        assert_eq!(starts.len(), 64);
    }

    #[test]
    fn a_rate_is_reached_by_what_is_counted_down() {
        let large = [(1, 0.01), (3, 0.01), (2, 0.1), (1, 1e-4), (8, 0.3)].map(|(bits, rate)| (1_000_000, bits, rate));
        // Of few cells the rounding counts.
        for (cells, bits, rate) in large.into_iter().chain([(65, 1, 0.01), (33, 1, 1e-4), (100, 2, 0.1)]) {
            let filter = Stable::with_rate(cells, bits, rate, HashSeed(1)).unwrap();
            let shape = filter.shape();
            assert!(shape.stable_rate() <= rate, "{shape:?}");
            let less = StableShape { decrements: shape.decrements - 1, ..shape };
            assert!(less.decrements == 0 || less.stable_rate() > rate, "{shape:?}");
        }
    }

    #[test]
    fn a_shape_that_cannot_be_is_refused() {
        let good = StableShape { cells: 64, cell_bits: 2, probes: 3, decrements: 5 };
        for shape in [
            StableShape { cells: 0, ..good },
            StableShape { cell_bits: 0, ..good },
            StableShape { cell_bits: 17, ..good },
            StableShape { probes: 0, ..good },
            StableShape { probes: 31, ..good },
            StableShape { decrements: 0, ..good },
            StableShape { decrements: 65, ..good },
        ] {
            assert!(matches!(Stable::with_shape(shape, HashSeed(1)), Err(Error::Invalid { .. })), "{shape:?}");
        }
        // Too few cells for what would have to be counted down, or of no width.
        for (cells, bits, rate) in [(8, 16, 1e-6), (9, 1, 1e-6), (64, 0, 0.1), (0, 1, 0.1), (64, 1, f64::NAN)] {
            let filter = Stable::with_rate(cells, bits, rate, HashSeed(1));
            assert!(matches!(filter, Err(Error::Invalid { .. })), "{cells} {bits} {rate}");
        }
    }
}
