//! The dynamic count filter: counters that become wider as they are needed (Aguilar-Saborit, Trancoso, Muntes-Mulero,
//! Larriba-Pey, "Dynamic count filters", 2006).
//!
//! ```text
//! counter j = overflow[j] * 2^x + base[j]
//!   base      x bits each, for good          3 0 1 2 3 0 ...
//!   overflow  y bits each, built anew with   0 0 0 5 0 0 ...   y + 1 when one is full, y - 1 when none has used
//!             another width                                    its top bit for as long as it takes to pay for it
//! ```
//!
//! * When: counts whose size nobody knows, with removals; no counter is ever full, so no key is ever stuck.
//! * When not: counts of a few, `Counting` or `DLeft`; one key that is counted a million times widens the counters of all.
//! * Numbers: `x + y` bits for each of the 9.6 counters a key at 1 %, where `x = log2` of how often a key is added on average
//!   and `y = log2(largest overflow) + 1`; two accesses for each counter of a key.
//! * Building anew costs a pass over all counters. A wider one is built when it must be; a narrower one only after as many
//!   removals as there are counters since the last, so that a set about a limit does not pay for each change.

use super::counters::{bloom_of, rate_of};
use super::shape::Shape;
use super::{Bloom, Frequency, Membership, Removable};
use crate::bits::PackedArray;
use crate::hash::{HashSeed, KeyHash};
use crate::variants::error::{Error, Result};

/// A dynamic count filter; see the [module](self).
#[derive(Debug, Clone)]
pub struct DynamicCounting {
    base: PackedArray,
    /// `None` while no counter has overflowed.
    overflow: Option<PackedArray>,
    /// Counters whose overflow uses its top bit.
    wide: u64,
    removed_since_rebuild: u64,
    rebuilds: u64,
    shape: Shape,
    seed: HashSeed,
}

impl DynamicCounting {
    /// A filter that answers "maybe" for at most that share of absent keys while it has no more than `capacity` distinct ones;
    /// each is expected to be added `mean_count` times, which chooses the width that all counters have from the start.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless there is a key and `0 < rate < 1`; [`Error::TooLarge`].
    pub fn with_rate(capacity: u64, false_positive_rate: f64, mean_count: u64, seed: HashSeed) -> Result<Self> {
        let shape = Shape::for_rate(capacity, false_positive_rate)?;
        Self::of_shape(shape, mean_count.checked_ilog2().unwrap_or(0).clamp(1, MAX_BASE_BITS), seed)
    }

    /// A filter of so many counters, rounded up to a multiple of 8, of 1 to 32 bits at first, of which a key has `probes`, 1
    /// to 30.
    ///
    /// # Errors
    /// [`Error::Invalid`] for other numbers; [`Error::TooLarge`].
    pub fn with_shape(counters: u64, probes: u32, base_bits: u32, seed: HashSeed) -> Result<Self> {
        if !(1..=MAX_BASE_BITS).contains(&base_bits) {
            let reason = format!("expected 1 to {MAX_BASE_BITS} bits; try 4");
            return Err(Error::invalid("width of a counter", base_bits, reason));
        }
        Self::of_shape(Shape::new(counters, probes)?, base_bits, seed)
    }

    fn of_shape(shape: Shape, base_bits: u32, seed: HashSeed) -> Result<Self> {
        let base = PackedArray::new(shape.cells, base_bits)?;
        Ok(Self { base, overflow: None, wide: 0, removed_since_rebuild: 0, rebuilds: 0, shape, seed })
    }

    /// Adds a key once more.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when a counter must become wider and there is no memory for it; nothing is changed.
    pub fn insert(&mut self, key: &[u8]) -> Result<()> {
        self.insert_hash(KeyHash::of(key, self.seed))
    }

    /// As [`DynamicCounting::insert`].
    ///
    /// # Errors
    /// As [`DynamicCounting::insert`].
    pub fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        let places = self.shape.distinct(hash);
        // Before anything is counted; one bit more is enough for all.
        let is_full =
            |&cell: &u64| self.base.get(cell) == self.base.max() && self.overflow_of(cell) == self.most_overflow();
        if places.iter().any(is_full) {
            self.rebuild(self.overflow_bits() + 1)?;
        }
        places.iter().for_each(|&cell| self.put(cell, self.count(cell) + 1));
        Ok(())
    }

    /// Forgets all keys, and what counters needed for them.
    pub fn clear(&mut self) {
        self.base.clear();
        (self.overflow, self.wide, self.removed_since_rebuild) = (None, 0, 0);
    }

    fn overflow_of(&self, cell: u64) -> u64 {
        self.overflow.as_ref().map_or(0, |overflow| overflow.get(cell))
    }

    fn most_overflow(&self) -> u64 {
        self.overflow.as_ref().map_or(0, PackedArray::max)
    }

    fn count(&self, cell: u64) -> u64 {
        self.overflow_of(cell) << self.base.cell_bits() | self.base.get(cell)
    }

    fn counts(&self) -> impl Iterator<Item = u64> {
        (0..self.shape.cells).map(|cell| self.count(cell))
    }

    /// Sets a counter to what both of its parts can hold.
    fn put(&mut self, cell: u64, count: u64) {
        self.base.set(cell, count & self.base.max());
        if let Some(overflow) = &mut self.overflow {
            let (old, new) = (overflow.get(cell), count >> self.base.cell_bits());
            overflow.set(cell, new);
            self.wide = self.wide - u64::from(is_wide(overflow, old)) + u64::from(is_wide(overflow, new));
        }
    }

    /// Gives the overflow of each counter another width, in which all of them fit.
    fn rebuild(&mut self, bits: u32) -> Result<()> {
        if bits + self.base.cell_bits() > 64 {
            return Err(Error::TooLarge { what: "a counter" });
        }
        let mut new = if bits == 0 { None } else { Some(PackedArray::new(self.shape.cells, bits)?) };
        self.wide = 0;
        if let (Some(old), Some(new)) = (&self.overflow, &mut new) {
            for (cell, count) in (0..).zip(old.iter()) {
                new.set(cell, count);
                self.wide += u64::from(is_wide(new, count));
            }
        }
        self.overflow = new;
        self.removed_since_rebuild = 0;
        self.rebuilds += 1;
        Ok(())
    }

    /// The number of counters.
    #[must_use]
    pub fn num_counters(&self) -> u64 {
        self.shape.cells
    }

    /// The number of counters of a key.
    #[must_use]
    pub fn num_probes(&self) -> u32 {
        self.shape.probes
    }

    /// `x`: the bits that each counter has for good.
    #[must_use]
    pub fn base_bits(&self) -> u32 {
        self.base.cell_bits()
    }

    /// `y`: the bits that each counter has besides, now.
    #[must_use]
    pub fn overflow_bits(&self) -> u32 {
        self.overflow.as_ref().map_or(0, PackedArray::cell_bits)
    }

    /// How often the overflow was built anew.
    #[must_use]
    pub fn num_rebuilds(&self) -> u64 {
        self.rebuilds
    }

    /// The memory of the counters now.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.base.len_bytes() + self.overflow.as_ref().map_or(0, PackedArray::len_bytes)
    }

    /// The share of absent keys that is answered "maybe", as full as the filter is now.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        rate_of(self.counts(), self.shape)
    }

    /// A plain Bloom filter of the same keys, with a bit for each counter.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn to_bloom(&self) -> Result<Bloom> {
        bloom_of(self.shape, self.counts(), self.seed)
    }
}

/// The widest base: with 32 bits beside it, no counter of a machine's lifetime overflows.
const MAX_BASE_BITS: u32 = 32;

/// Whether `count` uses the top bit of its cell.
fn is_wide(overflow: &PackedArray, count: u64) -> bool {
    count > overflow.max() / 2
}

impl Membership for DynamicCounting {
    fn seed(&self) -> HashSeed {
        self.seed
    }

    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.estimate_hash(hash) > 0
    }
}

impl Frequency for DynamicCounting {
    fn estimate_hash(&self, hash: KeyHash) -> u64 {
        self.shape.distinct(hash).iter().map(|&cell| self.count(cell)).min().unwrap_or(0)
    }
}

impl Removable for DynamicCounting {
    fn remove_hash(&mut self, hash: KeyHash) -> Result<()> {
        let places = self.shape.distinct(hash);
        if places.iter().any(|&cell| self.count(cell) == 0) {
            return Err(Error::KeyAbsent);
        }
        places.iter().for_each(|&cell| self.put(cell, self.count(cell) - 1));
        self.removed_since_rebuild += 1;
        let bits = self.overflow_bits();
        if bits > 0 && self.wide == 0 && self.removed_since_rebuild >= self.shape.cells {
            // Without memory for the narrower one the wider serves on; the key is removed either way.
            let _ = self.rebuild(bits - 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_wider_and_narrower_with_the_largest_overflow() {
        let mut filter = DynamicCounting::with_shape(64, 3, 2, HashSeed(1)).unwrap();
        let wanted = |count: u64| if count >> 2 == 0 { 0 } else { (count >> 2).ilog2() + 1 };
        for count in 1..=5_000u64 {
            filter.insert(b"a").unwrap();
            assert_eq!(filter.estimate(b"a"), count);
            // floor(log2(largest overflow)) + 1.
            assert_eq!(filter.overflow_bits(), wanted(count), "{count}");
        }
        let up = filter.num_rebuilds();
        assert_eq!(up, 11);
        for count in (0..5_000u64).rev() {
            filter.remove(b"a").unwrap();
            assert_eq!(filter.estimate(b"a"), count);
            let bits = filter.overflow_bits();
            assert!(bits >= wanted(count) && bits <= wanted(count + 64), "{count}: {bits}");
        }
        assert_eq!(filter.overflow_bits(), 11 - u32::try_from(filter.num_rebuilds() - up).unwrap());
        assert!(matches!(filter.remove(b"a"), Err(Error::KeyAbsent)));
    }

    #[test]
    fn a_set_about_a_limit_does_not_rebuild_at_each_change() {
        let mut filter = DynamicCounting::with_shape(1_000, 3, 1, HashSeed(1)).unwrap();
        filter.insert(b"a").unwrap();
        for _ in 0..10_000 {
            filter.insert(b"a").unwrap();
            filter.remove(b"a").unwrap();
        }
        // Each two of them are paid for by a thousand removals.
        assert!((2..=21).contains(&filter.num_rebuilds()), "{}", filter.num_rebuilds());
    }

    #[test]
    fn parts_of_a_counter_are_not_lost_when_it_is_rebuilt() {
        let mut filter = DynamicCounting::with_shape(800, 4, 1, HashSeed(1)).unwrap();
        let key = crate::codec::u64_bytes;
        for i in 0..64u64 {
            (0..i).for_each(|_| filter.insert(&key(i)).unwrap());
        }
        assert!((0..64u64).all(|i| filter.estimate(&key(i)) >= i));
        let frozen = filter.to_bloom().unwrap();
        assert!((1..64u64).all(|i| frozen.may_contain(&key(i))));
        assert_eq!(frozen.expected_rate(), filter.expected_rate());
        for i in 0..64u64 {
            (0..i).for_each(|_| filter.remove(&key(i)).unwrap());
        }
        assert!(filter.counts().all(|count| count == 0));
    }

    #[test]
    fn widths_that_cannot_be_are_refused() {
        for bits in [0, 33] {
            let filter = DynamicCounting::with_shape(8, 1, bits, HashSeed(1));
            assert!(matches!(filter, Err(Error::Invalid { .. })), "{bits}");
        }
        for (count, bits) in [(0, 1), (1, 1), (3, 1), (4, 2), (1_000, 9), (u64::MAX, 32)] {
            assert_eq!(DynamicCounting::with_rate(8, 0.1, count, HashSeed(1)).unwrap().base_bits(), bits, "{count}");
        }
    }
}
