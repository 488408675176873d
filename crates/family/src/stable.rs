//! Implements the stable Bloom filter for endless streams (Deng, Rafiei, "Approximately detecting
//! duplicates for streaming data using stable Bloom filters", 2006).
//!
//! **It may deny added keys, most likely old ones.** With cells of `d` bits, it never denies the
//! last `2^d - 1` keys. It is the only filter here that gives false negatives in correct use. Never
//! use it where "absent" skips a read.
//!
//! ```text
//! m cells of d bits    0 0 3 1 0 2 0 0 3 0 1 ...
//! insert               1. P cells in a row, from a random one on: -1 each, but not below 0
//!                      2. the K cells of the key: set to Max = 2^d - 1
//! ask                  "seen" if no cell of the key is 0
//! ```
//!
//! In the long run, decrements clear on average as many cells as insertions set. So the share of
//! zeros settles at about `(1 / (1 + 1 / (P (1/K - 1/m))))^Max`. The FPR settles at about
//! `(1 - zeros)^K`.
//!
//! * When: you detect recent duplicates in an endless stream (clicks, packets, crawled links) with
//!   fixed memory, and a missed duplicate does no harm.
//! * When not: for everything else. If the set must not forget, it must grow (`Scalable`) or be
//!   bounded (`Bloom`).
//! * Numbers: 100,000 cells of one bit, K = 3 and P = 10 give 76.9 % zeros and an FPR of 1.23 %.

use super::Membership;
use super::packed::PackedArray;
use super::shape::{Shape, check_rate};
use crate::error::{Error, Result};
use filterblock::internals::bloom;
use filterblock::{HashSeed, KeyHash};
use filterblock_simd::reduce;

/// The number and width of the cells, and how keys use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StableShape {
    /// `m`: the number of cells, at least 1. [`Stable::with_shape`] rounds it up to a multiple of
    /// 8. The bounds of the other fields refer to the rounded number.
    pub cells: u64,
    /// `d`: the width of a cell in bits, 1 to 16.
    pub cell_bits: u32,
    /// `K`: the number of cells of a key, 1 to 30, and at most `cells`.
    pub probes: u32,
    /// `P`: the number of cells that each insertion decrements, 1 to `cells`.
    pub decrements: u64,
}

/// A stable Bloom filter, which forgets old keys; see the [module](self).
#[derive(Debug, Clone)]
pub struct Stable {
    cells: PackedArray,
    shape: StableShape,
    /// The state of the SplitMix64 generator that chooses which cells to decrement.
    random: u64,
    seed: HashSeed,
}

impl Stable {
    /// Creates a filter of `cells` cells, rounded up to a multiple of 8. A cell has `cell_bits`
    /// bits, 1 to 16. [`StableShape::stable_fpr`] is at most `false_positive_rate`.
    ///
    /// A key uses 1 to 30 cells: about half as many as the probes of a Bloom filter with the same
    /// FPR.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] unless `cell_bits` is 1 to 16, `0 < false_positive_rate < 1` and
    /// there are enough cells for the rate. Returns [`Error::TooLarge`] if the filter does not fit
    /// in memory.
    pub fn with_fpr(cells: u64, cell_bits: u32, false_positive_rate: f64, seed: HashSeed) -> Result<Self> {
        check_rate(false_positive_rate)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 30")]
        let probes = (-false_positive_rate.log2() / 2.0).round().clamp(1.0, 30.0) as u32;
        // The formula for P needs the rounded number of cells, and more cells than a key uses.
        let given = format!("{cells} cells of {cell_bits} bits for an FPR of {false_positive_rate}");
        let Shape { cells, .. } = Shape::new(cells, probes)?;
        if cells <= u64::from(probes) {
            let reason = format!("expected more cells than the {probes} that a key uses; try 1000000");
            return Err(Error::invalid("shape of a stable filter", given, reason));
        }
        let shape = StableShape { cells, cell_bits, probes, decrements: 1 };
        let max = f64::from(cell_bits).exp2() - 1.0;
        // The formula for the share of zeros, solved for P.
        let zeros = 1.0 - false_positive_rate.powf(1.0 / f64::from(probes));
        let decrements = 1.0 / ((zeros.powf(-1.0 / max) - 1.0) * shape.spread());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, and with_shape checks the result"
        )]
        let decrements = decrements.ceil().max(1.0) as u64;
        // For an invalid width, this error would wrongly blame the number of cells. `with_shape`
        // below reports the width.
        if (1..=16).contains(&cell_bits) && decrements > cells {
            let reason = "these cells are too few for this FPR; give more cells, or a higher FPR";
            return Err(Error::invalid("shape of a stable filter", given, reason));
        }
        Self::with_shape(StableShape { decrements, ..shape }, seed)
    }

    /// Creates a filter of the given shape.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for values outside the bounds of [`StableShape`], and
    /// [`Error::TooLarge`] if the filter does not fit in memory.
    pub fn with_shape(shape: StableShape, seed: HashSeed) -> Result<Self> {
        let Shape { cells, probes } = Shape::new(shape.cells, shape.probes)?;
        let StableShape { cell_bits, decrements, .. } = shape;
        if !(1..=16).contains(&cell_bits) || !(1..=cells).contains(&decrements) || u64::from(probes) > cells {
            let given = format!("{cells} cells of {cell_bits} bits, {probes} for each key, {decrements} decremented");
            let reason = "expected 1 to 16 bits per cell, at least as many cells as a key uses, and between 1 and \
                          all cells decremented; try 1000000 cells of 3 bits, 3 for each key, 10 decremented";
            return Err(Error::invalid("shape of a stable filter", given, reason));
        }
        let shape = StableShape { cells, ..shape };
        Ok(Self { cells: PackedArray::new(cells, cell_bits)?, shape, random: seed.0, seed })
    }

    /// Decrements [`StableShape::decrements`] cells, so that the filter forgets old keys, and adds
    /// a key. Returns `true` if the filter denied the key before the call. The key was then never
    /// added, or was forgotten. `false` means that the key may be a duplicate.
    pub fn insert(&mut self, key: &[u8]) -> bool {
        self.insert_hash(KeyHash::of(key, self.seed))
    }

    /// Works like [`Stable::insert`], but takes the hash of the key.
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

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.cells.clear();
    }

    /// Returns the number and width of the cells, and how keys use them.
    #[must_use]
    pub fn shape(&self) -> StableShape {
        self.shape
    }

    /// Returns the current share of zero cells. It starts at 1. As keys are added, it settles at
    /// about [`StableShape::stable_zeros`].
    #[must_use]
    pub fn zeros(&self) -> f64 {
        self.cells.iter().filter(|&cell| cell == 0).count() as f64 / self.cells.len() as f64
    }

    /// Returns the current FPR for keys that were never added.
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        (1.0 - self.zeros()).powi(self.shape.probes.cast_signed())
    }
}

impl StableShape {
    /// Returns `1/K - 1/m`.
    fn spread(&self) -> f64 {
        1.0 / f64::from(self.probes) - 1.0 / self.cells as f64
    }

    /// Returns the mean share of zero cells in the long run, by the formula of the paper.
    #[must_use]
    pub fn stable_zeros(&self) -> f64 {
        let max = f64::from(self.cell_bits).exp2() - 1.0;
        (1.0 / (1.0 + 1.0 / (self.decrements as f64 * self.spread()))).powf(max)
    }

    /// Returns the approximate FPR that the filter reaches in the long run, for keys that were
    /// never added. The FPR of a filter varies with its share of zero cells, so the FPR may exceed
    /// this value.
    #[must_use]
    pub fn stable_fpr(&self) -> f64 {
        (1.0 - self.stable_zeros()).powi(self.probes.cast_signed())
    }
}

impl Membership for Stable {
    fn seed(&self) -> HashSeed {
        self.seed
    }

    /// Returns whether the key may be present. `false` means that it was not added or was
    /// forgotten.
    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        bloom::positions(hash, self.shape.cells, self.shape.probes).all(|cell| self.cells.get(cell) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_insertion_decrements_the_given_number_of_cells() {
        let shape = StableShape { cells: 64, cell_bits: 2, probes: 1, decrements: 5 };
        let mut filter = Stable::with_shape(shape, HashSeed(1)).unwrap();
        let mut starts = std::collections::HashSet::new();
        for i in 0..2_000u64 {
            (0..64).for_each(|cell| filter.cells.set(cell, 2));
            filter.insert(&filterblock::internals::codec::u64_bytes(i));
            let lower: Vec<u64> = (0..64).filter(|&cell| filter.cells.get(cell) == 1).collect();
            // One of the decremented cells may be the key's own cell, whose value is then 3.
            assert!([4, 5].contains(&lower.len()), "{lower:?}");
            let start = (0..64).find(|start| lower.iter().all(|cell| (cell + 64 - start) % 64 < 5)).unwrap();
            starts.insert(start);
            assert_eq!(filter.cells.iter().filter(|&cell| cell == 3).count(), 1);
        }
        assert_eq!(starts.len(), 64);
    }

    #[test]
    fn the_decrements_are_the_fewest_that_reach_the_rate() {
        let large = [(1, 0.01), (3, 0.01), (2, 0.1), (1, 1e-4), (8, 0.3)].map(|(bits, rate)| (1_000_000, bits, rate));
        // With few cells, the rounding of the number of cells matters.
        for (cells, bits, rate) in large.into_iter().chain([(65, 1, 0.01), (33, 1, 1e-4), (100, 2, 0.1)]) {
            let filter = Stable::with_fpr(cells, bits, rate, HashSeed(1)).unwrap();
            let shape = filter.shape();
            assert!(shape.stable_fpr() <= rate, "{shape:?}");
            let less = StableShape { decrements: shape.decrements - 1, ..shape };
            assert!(less.decrements == 0 || less.stable_fpr() > rate, "{shape:?}");
        }
    }

    #[test]
    fn an_impossible_shape_is_refused() {
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
        // Too few cells for the probes, too few cells for the decrements, an invalid width, no
        // cells, and an invalid rate.
        for (cells, bits, rate) in [(8, 16, 1e-6), (9, 1, 1e-6), (64, 0, 0.1), (0, 1, 0.1), (64, 1, f64::NAN)] {
            let filter = Stable::with_fpr(cells, bits, rate, HashSeed(1));
            let error = filter.map(drop).unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{cells} {bits} {rate}");
            // The caller gave no number of decrements, so the messages of `with_fpr` do not name
            // one. `with_shape` reports an invalid width, and its message does.
            assert_eq!(error.to_string().contains("decremented"), bits == 0, "{cells} {bits} {rate}: {error}");
        }
    }
}
