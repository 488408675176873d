//! Implements the dynamic count filter, whose counters become wider when needed (Aguilar-Saborit,
//! Trancoso, Muntes-Mulero, Larriba-Pey, "Dynamic count filters", 2006).
//!
//! ```text
//! counter j = overflow[j] * 2^x + base[j]
//!   base      x bits each, fixed             3 0 1 2 3 0 ...
//!   overflow  y bits each, rebuilt with a    0 0 0 5 0 0 ...
//!             new width when needed: y + 1 before a counter overflows; y - 1 some removals
//!             later, if no counter uses the top bit of its overflow
//! ```
//!
//! * When: counts of unknown size, with removals. No counter ever saturates, so every key can be
//!   removed.
//! * When not: for small counts use `Counting` or `DLeft`. One key that is counted a million times
//!   widens the counters of all keys.
//! * Numbers: `x + y` bits for each counter, and 9.6 counters per key at 1 %.
//!   [`DynamicCounting::with_fpr`] chooses `x`. `y` is as large as the largest count needs, and may
//!   stay larger after removals.
//! * A rebuild copies the overflow of all counters. The filter widens the overflow as soon as a
//!   counter needs it. It narrows the overflow only if the number of removals since the last
//!   rebuild is at least the number of counters. So if the largest count alternates between two
//!   widths, the filter does not rebuild at each change.

use super::counters::{bloom_of, rate_of};
use super::packed::PackedArray;
use super::shape::Shape;
use super::{Bloom, Frequency, Membership, Removable};
use crate::error::{Error, Result};
use filterblock::{HashSeed, KeyHash};

/// A dynamic count filter; see the [module](self).
#[derive(Debug, Clone)]
pub struct DynamicCounting {
    base: PackedArray,
    /// The upper bits of the counters. `None` if their width is 0.
    overflow: Option<PackedArray>,
    /// The number of counters whose overflow uses its top bit.
    wide: u64,
    removed_since_rebuild: u64,
    rebuilds: u64,
    shape: Shape,
    seed: HashSeed,
}

impl DynamicCounting {
    /// Creates a filter whose expected FPR is at most `false_positive_rate` while it holds at most
    /// `capacity` distinct keys. `mean_count` is the expected number of insertions of each key. The
    /// base of a counter has `floor(log2(mean_count))` bits, but at least 1 and at most 32.
    pub fn with_fpr(capacity: u64, false_positive_rate: f64, mean_count: u64, seed: HashSeed) -> Result<Self> {
        let shape = Shape::for_rate(capacity, false_positive_rate)?;
        Self::of_shape(shape, mean_count.checked_ilog2().unwrap_or(0).clamp(1, MAX_BASE_BITS), seed)
    }

    /// Creates a filter of `counters` counters, rounded up to a multiple of 8. A counter starts
    /// with `base_bits` bits, 1 to 32. Each key has `probes` probes, 1 to 30.
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

    /// Adds one occurrence of a key.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if there is no memory for wider counters, or if a counter would
    /// exceed 64 bits. The filter is then unchanged.
    pub fn insert(&mut self, key: &[u8]) -> Result<()> {
        self.insert_hash(KeyHash::of(key, self.seed))
    }

    /// Works like [`DynamicCounting::insert`], but takes the hash of the key.
    pub fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        let places = self.shape.distinct(hash);
        // Widen before counting, so that an error changes nothing. Each count grows by one, so one
        // more bit is enough for all counters.
        let would_overflow =
            |&cell: &u64| self.base.get(cell) == self.base.max() && self.overflow_of(cell) == self.most_overflow();
        if places.iter().any(would_overflow) {
            self.rebuild(self.overflow_bits() + 1)?;
        }
        places.iter().for_each(|&cell| self.put(cell, self.count(cell) + 1));
        Ok(())
    }

    /// Removes all keys and frees the overflow of the counters.
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

    /// Sets a counter. The count must fit in the current widths of base and overflow.
    fn put(&mut self, cell: u64, count: u64) {
        self.base.set(cell, count & self.base.max());
        if let Some(overflow) = &mut self.overflow {
            let (old, new) = (overflow.get(cell), count >> self.base.cell_bits());
            overflow.set(cell, new);
            self.wide = self.wide - u64::from(is_wide(overflow, old)) + u64::from(is_wide(overflow, new));
        }
    }

    /// Rebuilds the overflow with `bits` bits for each counter. All overflows must fit in this
    /// width. After an error, the filter is unchanged.
    fn rebuild(&mut self, bits: u32) -> Result<()> {
        if bits + self.base.cell_bits() > 64 {
            return Err(Error::TooLarge { what: "a counter would exceed 64 bits; remove keys, or clear the filter" });
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

    /// Returns the number of counters.
    #[must_use]
    pub fn num_counters(&self) -> u64 {
        self.shape.cells
    }

    /// Returns the number of probes of a key. If two probes choose the same counter, the counter
    /// counts the key once.
    #[must_use]
    pub fn num_probes(&self) -> u32 {
        self.shape.probes
    }

    /// Returns `x`, the fixed number of bits of each counter.
    #[must_use]
    pub fn base_bits(&self) -> u32 {
        self.base.cell_bits()
    }

    /// Returns `y`, the current number of extra bits of each counter.
    #[must_use]
    pub fn overflow_bits(&self) -> u32 {
        self.overflow.as_ref().map_or(0, PackedArray::cell_bits)
    }

    /// Returns the number of rebuilds of the overflow since the filter was created.
    /// [`clear`](Self::clear) does not reset this number.
    #[must_use]
    pub fn num_rebuilds(&self) -> u64 {
        self.rebuilds
    }

    /// Returns the current memory of the counters in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.base.len_bytes() + self.overflow.as_ref().map_or(0, PackedArray::len_bytes)
    }

    /// Returns the FPR at the current fill ratio.
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        rate_of(self.counts(), self.shape)
    }

    /// Returns a plain Bloom filter of the same keys, with one bit for each counter.
    pub fn to_bloom(&self) -> Result<Bloom> {
        bloom_of(self.shape, self.counts(), self.seed)
    }
}

/// The maximum width of the base in bits. The overflow can add 32 bits to a base of this width, and
/// no machine counts to 2^64.
const MAX_BASE_BITS: u32 = 32;

/// Returns whether `count` uses the top bit of a cell of `overflow`.
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
            // If there is no memory for the narrower overflow, keep the wider one. The key is
            // removed either way.
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
            // The width is 0, or floor(log2(largest overflow)) + 1.
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
    fn a_set_around_a_limit_does_not_rebuild_at_each_change() {
        let mut filter = DynamicCounting::with_shape(1_000, 3, 1, HashSeed(1)).unwrap();
        filter.insert(b"a").unwrap();
        for _ in 0..10_000 {
            filter.insert(b"a").unwrap();
            filter.remove(b"a").unwrap();
        }
        // At least 1,000 removals lie between a rebuild that widens and the next one that narrows.
        assert!((2..=21).contains(&filter.num_rebuilds()), "{}", filter.num_rebuilds());
    }

    #[test]
    fn impossible_widths_are_refused() {
        for bits in [0, 33] {
            let filter = DynamicCounting::with_shape(8, 1, bits, HashSeed(1));
            assert!(matches!(filter, Err(Error::Invalid { .. })), "{bits}");
        }
        for (count, bits) in [(0, 1), (1, 1), (3, 1), (4, 2), (1_000, 9), (u64::MAX, 32)] {
            assert_eq!(DynamicCounting::with_fpr(8, 0.1, count, HashSeed(1)).unwrap().base_bits(), bits, "{count}");
        }
    }
}
