//! Implements spectral Bloom filters, which estimate how often a key was added (Cohen, Matias,
//! "Spectral Bloom filters", 2003).
//!
//! ```text
//! key -> counters  [3] [7] [3]             the least counter counts the key, and perhaps others:
//!                                          it is never too low
//!
//! insert, minimum selection  [4] [8] [4]   raises all counters
//!         minimum increase   [4] [7] [4]   raises only the least; the others already count the key
//!         recurring minimum  [4] [8] [4]   raises all; the least occurs twice here. If it occurs
//!                                          once, a table counts the key as well
//! ```
//!
//! * When: you look up the counts of single keys, the counts of many keys must fit in little
//!   memory, and a count that is too high does less harm than one that is too low.
//! * When not: for counts of at most 2 use `DLeft`. For counts that are mostly small and seldom
//!   huge use `DynamicCounting`. To find the most frequent keys use another structure, such as
//!   Space-Saving.
//! * Numbers: for `n` keys, `k` probes, `m` counters and `gamma = n k / m`, minimum selection is
//!   wrong for about a share `(1 - e^-gamma)^k` of the keys. tests/family/counts.rs measures the
//!   shares of wrong counts at gamma 0.7 and k = 5, with 1,000 keys that are added ten times each
//!   on average. If all keys are equally likely, the shares are 3.2 % with minimum selection, 1.6 %
//!   with minimum increase and 1.7 % with recurring minimum.
//! * Recurring minimum differs from the paper. The paper's second filter (of m/2 counters) also
//!   answers for keys that were never added to it, and these answers may be too low. Here a hash
//!   table counts the keys with a single least counter. In that test with equally likely keys, the
//!   table has about a fifth of all keys. It takes 20 to 40 bytes for each of these keys, and its
//!   counts are never too low.

use std::collections::HashMap;

use super::counters::{Counters, rate_of};
use super::shape::{Places, Shape};
use super::{Bloom, Frequency, Membership, Removable};
use crate::error::{Error, Result};
use filterblock::{HashSeed, KeyHash};

/// The method by which a [`Spectral`] filter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpectralMode {
    /// Raises all counters of a key. Keys can be removed.
    MinimumSelection,
    /// Raises only the least counters of a key. Keys cannot be removed.
    MinimumIncrease,
    /// Raises all counters of a key. If the key has a single least counter, a table counts the key
    /// as well. Keys can be removed.
    RecurringMinimum,
}

/// A spectral Bloom filter; see the [module](self).
///
/// ```
/// use filterblock::HashSeed;
/// use filterblock_family::{Frequency, Spectral, SpectralMode};
/// let mut visits = Spectral::with_fpr(1_000, 0.01, SpectralMode::MinimumIncrease, HashSeed(7))?;
/// for visitor in ["ann", "bob", "ann"] {
///     visits.insert(visitor.as_bytes())?;
/// }
/// assert_eq!((visits.estimate(b"ann"), visits.estimate(b"bob"), visits.estimate(b"eve")), (2, 1, 0));
/// # Ok::<(), filterblock_family::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Spectral {
    counters: Counters,
    mode: SpectralMode,
    /// The keys that had a single least counter when they were added, each with a count. The count
    /// starts with the value of that counter, or with `u64::MAX` if the counter is saturated. Later
    /// insertions and removals of the key change it. Only [`SpectralMode::RecurringMinimum`] fills
    /// this table.
    apart: HashMap<KeyHash, u64>,
    seed: HashSeed,
}

/// The width of a counter of [`Spectral::with_fpr`]. Such a counter saturates at about 4.3 * 10^9.
const COUNTER_BITS: u32 = 32;

impl Spectral {
    /// Creates a filter with 32-bit counters. While it holds at most `capacity` distinct keys, the
    /// expected share of wrong estimates is at most `error_rate`, for present keys and for absent
    /// keys.
    pub fn with_fpr(capacity: u64, error_rate: f64, mode: SpectralMode, seed: HashSeed) -> Result<Self> {
        Self::of_shape(Shape::for_rate(capacity, error_rate)?, COUNTER_BITS, mode, seed)
    }

    /// Creates a filter of `counters` counters, rounded up to a multiple of 8. A counter has
    /// `counter_bits` bits, 1 to 64. Each key has `probes` probes, 1 to 30.
    pub fn with_shape(
        counters: u64,
        probes: u32,
        counter_bits: u32,
        mode: SpectralMode,
        seed: HashSeed,
    ) -> Result<Self> {
        Self::of_shape(Shape::new(counters, probes)?, counter_bits, mode, seed)
    }

    fn of_shape(shape: Shape, counter_bits: u32, mode: SpectralMode, seed: HashSeed) -> Result<Self> {
        Ok(Self { counters: Counters::new(shape, counter_bits)?, mode, apart: HashMap::new(), seed })
    }

    /// Adds one occurrence of a key. Saturated counters do not change.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] in the mode [`SpectralMode::RecurringMinimum`] if there is no
    /// memory for another key in the table. The filter is then unchanged.
    pub fn insert(&mut self, key: &[u8]) -> Result<()> {
        self.insert_hash(KeyHash::of(key, self.seed))
    }

    /// Works like [`Spectral::insert`], but takes the hash of the key.
    pub fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        let places = self.counters.places(hash);
        match self.mode {
            SpectralMode::MinimumSelection => self.counters.add(&places),
            SpectralMode::MinimumIncrease => self.counters.add_to_least(&places),
            SpectralMode::RecurringMinimum => {
                let too_large = |_| Error::TooLarge {
                    what: "the table of separately counted keys does not fit in memory; free memory, or create the \
                           filter with another mode",
                };
                self.apart.try_reserve(1).map_err(too_large)?;
                self.counters.add(&places);
                // Raise the count of a key in the table even if the key no longer has a single
                // least counter. Otherwise the count would be too low.
                if let Some(count) = self.apart.get_mut(&hash) {
                    *count = count.saturating_add(1);
                } else if self.is_alone(&places) {
                    self.apart.insert(hash, self.counters.bound(&places));
                }
            }
        }
        Ok(())
    }

    /// Returns whether exactly one counter of a key has the least value.
    fn is_alone(&self, places: &Places) -> bool {
        let least = self.counters.least(places);
        places.iter().filter(|&&cell| self.counters.cells().get(cell) == least).count() == 1
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.counters.clear();
        self.apart.clear();
    }

    /// Returns the mode of the filter.
    #[must_use]
    pub fn mode(&self) -> SpectralMode {
        self.mode
    }

    /// Returns the number of counters.
    #[must_use]
    pub fn num_counters(&self) -> u64 {
        self.counters.shape().cells
    }

    /// Returns the number of probes of a key. If two probes choose the same counter, the counter
    /// counts the key once.
    #[must_use]
    pub fn num_probes(&self) -> u32 {
        self.counters.shape().probes
    }

    /// Returns the number of keys that are counted in the table of
    /// [`SpectralMode::RecurringMinimum`]. It is 0 in the other modes.
    #[must_use]
    pub fn num_apart(&self) -> usize {
        self.apart.len()
    }

    /// Returns the FPR at the current fill ratio.
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        rate_of(self.counters.cells().iter(), self.counters.shape())
    }

    /// Returns a plain Bloom filter of the same keys, with one bit for each counter.
    pub fn to_bloom(&self) -> Result<Bloom> {
        self.counters.to_bloom(self.seed)
    }
}

impl Membership for Spectral {
    fn seed(&self) -> HashSeed {
        self.seed
    }

    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.counters.least(&self.counters.places(hash)) > 0
    }
}

impl Frequency for Spectral {
    fn estimate_hash(&self, hash: KeyHash) -> u64 {
        // Neither the count in the table nor the bound of the counters is ever too low.
        let apart = self.apart.get(&hash).copied().unwrap_or(u64::MAX);
        self.counters.bound(&self.counters.places(hash)).min(apart)
    }
}

impl Removable for Spectral {
    fn remove_hash(&mut self, hash: KeyHash) -> Result<()> {
        if self.mode == SpectralMode::MinimumIncrease {
            let reason =
                "removing a key would lower counters that the key did not raise; create the filter with another mode";
            return Err(Error::invalid("mode for removing a key", "minimum increase", reason));
        }
        let places = self.counters.places(hash);
        self.counters.remove(&places)?;
        let is_gone = self.counters.least(&places) == 0;
        if let Some(count) = self.apart.get_mut(&hash) {
            // `u64::MAX` means that the least counter was saturated, so the count is unknown. It
            // stays unknown after removals.
            *count -= u64::from(*count < u64::MAX);
            if is_gone || *count == 0 {
                self.apart.remove(&hash);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(i: u64) -> KeyHash {
        KeyHash::of(&filterblock::internals::codec::u64_bytes(i), HashSeed(1))
    }

    #[test]
    fn saturated_counters_give_no_bound_in_any_mode() {
        for mode in [SpectralMode::MinimumSelection, SpectralMode::MinimumIncrease, SpectralMode::RecurringMinimum] {
            let mut filter = Spectral::with_shape(80, 3, 2, mode, HashSeed(1)).unwrap();
            for expected in [1, 2, u64::MAX, u64::MAX] {
                filter.insert_hash(hash(1)).unwrap();
                assert_eq!(filter.estimate_hash(hash(1)), expected, "{mode:?}");
            }
            filter.clear();
            assert_eq!(filter.estimate_hash(hash(1)), 0, "{mode:?}");
        }
    }

    #[test]
    fn a_minimum_increase_filter_refuses_removals() {
        let mut filter = Spectral::with_fpr(100, 0.01, SpectralMode::MinimumIncrease, HashSeed(1)).unwrap();
        filter.insert_hash(hash(1)).unwrap();
        assert!(matches!(filter.remove_hash(hash(1)), Err(Error::Invalid { .. })));
        assert_eq!(filter.estimate_hash(hash(1)), 1);
    }

    #[test]
    fn separate_counts_are_dropped_with_the_last_key() {
        let mut filter = Spectral::with_shape(800, 5, 32, SpectralMode::RecurringMinimum, HashSeed(1)).unwrap();
        (0..100).for_each(|i| filter.insert_hash(hash(i)).unwrap());
        assert!((5..50).contains(&filter.num_apart()), "{}", filter.num_apart());
        (0..100).for_each(|i| filter.remove_hash(hash(i)).unwrap());
        assert!((0..100).all(|i| filter.estimate_hash(hash(i)) == 0));
        assert_eq!(filter.num_apart(), 0);
    }
}
