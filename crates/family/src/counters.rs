//! Provides saturating counters for counting and spectral filters, and computes a Bloom filter and
//! the FPR from counters.

use super::bloom::Bloom;
use super::packed::PackedArray;
use super::shape::{Places, Shape};
use crate::error::{Error, Result};
use filterblock::{HashSeed, KeyHash};

/// Saturating counters. A removal does not change a saturated counter, because the counter may have
/// missed insertions.
#[derive(Debug, Clone)]
pub(super) struct Counters {
    cells: PackedArray,
    shape: Shape,
}

impl Counters {
    pub(super) fn new(shape: Shape, counter_bits: u32) -> Result<Self> {
        Ok(Self { cells: PackedArray::new(shape.cells, counter_bits)?, shape })
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn cells(&self) -> &PackedArray {
        &self.cells
    }

    pub(super) fn places(&self, hash: KeyHash) -> Places {
        self.shape.distinct(hash)
    }

    /// Returns the value of the least counter of a key. Unless it is saturated, it counts all
    /// occurrences of the key, and perhaps occurrences of other keys.
    pub(super) fn least(&self, places: &Places) -> u64 {
        places.iter().map(|&cell| self.cells.get(cell)).min().unwrap_or(0)
    }

    /// Returns an upper bound on the count of a key: the value of its least counter, or `u64::MAX`
    /// if that counter is saturated.
    pub(super) fn bound(&self, places: &Places) -> u64 {
        let least = self.least(places);
        if least == self.cells.max() { u64::MAX } else { least }
    }

    /// Increments all counters of a key, except saturated ones.
    pub(super) fn add(&mut self, places: &Places) {
        for &cell in places.iter() {
            let count = self.cells.get(cell);
            self.cells.set(cell, count.saturating_add(1).min(self.cells.max()));
        }
    }

    /// Increments only the least counters of a key, unless they are saturated. Its other counters
    /// are already high enough.
    pub(super) fn add_to_least(&mut self, places: &Places) {
        let wanted = self.least(places).saturating_add(1).min(self.cells.max());
        for &cell in places.iter() {
            self.cells.set(cell, self.cells.get(cell).max(wanted));
        }
    }

    /// Decrements all counters of a key, except saturated ones.
    ///
    /// # Errors
    /// Returns [`Error::KeyAbsent`] if a counter is zero. The counters are then unchanged.
    pub(super) fn remove(&mut self, places: &Places) -> Result<()> {
        if self.least(places) == 0 {
            return Err(Error::KeyAbsent);
        }
        for &cell in places.iter() {
            let count = self.cells.get(cell);
            if count < self.cells.max() {
                self.cells.set(cell, count - 1);
            }
        }
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.cells.clear();
    }

    /// Returns a Bloom filter of the same keys, in which a bit is set if its counter is not zero.
    pub(super) fn to_bloom(&self, seed: HashSeed) -> Result<Bloom> {
        bloom_of(self.shape, self.cells.iter(), seed)
    }
}

/// Returns a Bloom filter whose bits are set where `counts` are not zero.
pub(super) fn bloom_of(shape: Shape, counts: impl Iterator<Item = u64>, seed: HashSeed) -> Result<Bloom> {
    let bloom = Bloom::of_shape(shape, seed)?;
    for (bit, _) in (0..).zip(counts).filter(|&(_, count)| count > 0) {
        bloom.set(bit);
    }
    Ok(bloom)
}

/// Returns the FPR of a filter with these counters.
pub(super) fn rate_of(counts: impl Iterator<Item = u64>, shape: Shape) -> f64 {
    shape.rate_of(counts.filter(|&count| count > 0).count() as u64)
}
