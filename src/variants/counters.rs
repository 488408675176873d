//! Counters in place of a Bloom filter's bits: what counting and spectral filters are made of.

use super::bloom::Bloom;
use super::shape::{Places, Shape};
use crate::bits::PackedArray;
use crate::hash::{HashSeed, KeyHash};
use crate::variants::error::{Error, Result};

/// Saturating counters: one that is full stays full, whatever is removed, since nobody knows how much it has missed.
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

    /// The least counter of a key: it counts all insertions of the key, and perhaps of others.
    pub(super) fn least(&self, places: &Places) -> u64 {
        places.iter().map(|&cell| self.cells.get(cell)).min().unwrap_or(0)
    }

    /// The least counter as a bound: a full one bounds nothing.
    pub(super) fn bound(&self, places: &Places) -> u64 {
        let least = self.least(places);
        if least == self.cells.max() { u64::MAX } else { least }
    }

    /// Counts a key in all of its counters.
    pub(super) fn add(&mut self, places: &Places) {
        for &cell in places.iter() {
            let count = self.cells.get(cell);
            self.cells.set(cell, count.saturating_add(1).min(self.cells.max()));
        }
    }

    /// Counts a key in its least counters only: the others count it already.
    pub(super) fn add_to_least(&mut self, places: &Places) {
        let wanted = self.least(places).saturating_add(1).min(self.cells.max());
        for &cell in places.iter() {
            self.cells.set(cell, self.cells.get(cell).max(wanted));
        }
    }

    /// Takes back what [`Counters::add`] did.
    ///
    /// # Errors
    /// [`Error::KeyAbsent`] when a counter is zero; nothing is changed.
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

    /// The bits of a Bloom filter of the same keys: those whose counter is not zero.
    pub(super) fn to_bloom(&self, seed: HashSeed) -> Result<Bloom> {
        bloom_of(self.shape, self.cells.iter(), seed)
    }
}

/// A Bloom filter whose bits are set where `counts` are not zero.
pub(super) fn bloom_of(shape: Shape, counts: impl Iterator<Item = u64>, seed: HashSeed) -> Result<Bloom> {
    let bloom = Bloom::of_shape(shape, seed)?;
    for (bit, _) in (0..).zip(counts).filter(|&(_, count)| count > 0) {
        bloom.set(bit);
    }
    Ok(bloom)
}

/// The share of absent keys that is answered "maybe" where so many of the cells are not zero.
pub(super) fn rate_of(counts: impl Iterator<Item = u64>, shape: Shape) -> f64 {
    shape.rate_of(counts.filter(|&count| count > 0).count() as u64)
}
