//! Spectral Bloom filters: how often is a key there? (Cohen, Matias, "Spectral Bloom filters", 2003)
//!
//! ```text
//! key -> counters  [3] [7] [3]                        the least counts the key, and perhaps others: never too few
//! insert  minimum selection   [4] [8] [4]             all
//!         minimum increase    [4] [7] [4]             the least only: the others count it already; nothing can be removed
//!         recurring minimum   [4] [8] [4] [4 twice]   all; a key whose least counter is alone is counted apart as well
//! ```
//!
//! * When: counts of many keys in little memory, asked of single keys, where too much does less harm than too little.
//! * When not: a count is either small and exact to be, `DLeft`; or mostly small and seldom huge, `DynamicCounting`; or wanted
//!   of the most frequent keys only, which is another structure's work.
//! * Numbers: with `gamma = n k / m` minimum selection is wrong for a share `(1 - e^-gamma)^k` of the keys. Measured at gamma
//!   0.7, k = 5, 1,000 keys ten times each on average: uniform 3.2 %, Zipf 2.2 %; minimum increase 1.6 % and 0.8 %; recurring
//!   minimum 1.7 % and 1.2 %.
//! * Recurring minimum here departs from the paper, whose second filter (of m/2 counters) also answers for keys that were never
//!   put there, and then too low: keys with a lone least counter, a fifth of all at gamma 0.7, are counted by their hashes
//!   in a table, which takes 20 to 40 bytes for each of them and is never too low.

use std::collections::HashMap;

use super::counters::{Counters, rate_of};
use super::shape::{Places, Shape};
use super::{Bloom, Frequency, Membership, Removable};
use crate::hash::{HashSeed, KeyHash};
use crate::variants::error::{Error, Result};

/// How a [`Spectral`] filter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpectralMode {
    /// All counters of a key are raised; keys can be removed.
    MinimumSelection,
    /// The least counters of a key are raised: half the errors or fewer; keys cannot be removed.
    MinimumIncrease,
    /// All counters of a key are raised, and one whose least counter is alone is also counted apart; keys can be removed.
    RecurringMinimum,
}

/// A spectral Bloom filter; see the [module](self).
///
/// ```
/// use filterblock::{HashSeed, variants::{Frequency, Spectral, SpectralMode}};
/// let mut visits = Spectral::with_rate(1_000, 0.01, SpectralMode::MinimumIncrease, HashSeed(7))?;
/// for visitor in ["ann", "bob", "ann"] {
///     visits.insert(visitor.as_bytes())?;
/// }
/// assert_eq!((visits.estimate(b"ann"), visits.estimate(b"bob"), visits.estimate(b"eve")), (2, 1, 0));
/// # Ok::<(), filterblock::variants::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Spectral {
    counters: Counters,
    mode: SpectralMode,
    /// Of keys that had a lone least counter when they were added: that counter then, and what came since. Empty in other modes.
    apart: HashMap<KeyHash, u64>,
    seed: HashSeed,
}

/// Full at four thousand million.
const COUNTER_BITS: u32 = 32;

impl Spectral {
    /// A filter of counters of 32 bits, whose estimates are wrong for at most that share of keys, present or not, while it has
    /// no more than `capacity` distinct ones.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless there is a key and `0 < rate < 1`; [`Error::TooLarge`].
    pub fn with_rate(capacity: u64, error_rate: f64, mode: SpectralMode, seed: HashSeed) -> Result<Self> {
        Self::of_shape(Shape::for_rate(capacity, error_rate)?, COUNTER_BITS, mode, seed)
    }

    /// A filter of so many counters, rounded up to a multiple of 8, of 1 to 64 bits, of which a key has `probes`, 1 to 30.
    ///
    /// # Errors
    /// [`Error::Invalid`] for other numbers; [`Error::TooLarge`].
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

    /// Adds a key once more.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when there is no memory to count a key apart; nothing is changed.
    pub fn insert(&mut self, key: &[u8]) -> Result<()> {
        self.insert_hash(KeyHash::of(key, self.seed))
    }

    /// As [`Spectral::insert`].
    ///
    /// # Errors
    /// As [`Spectral::insert`].
    pub fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        let places = self.counters.places(hash);
        match self.mode {
            SpectralMode::MinimumSelection => self.counters.add(&places),
            SpectralMode::MinimumIncrease => self.counters.add_to_least(&places),
            SpectralMode::RecurringMinimum => {
                let too_large = |_| Error::TooLarge { what: "a table of keys counted apart" };
                self.apart.try_reserve(1).map_err(too_large)?;
                self.counters.add(&places);
                // Once apart, always apart: a count that misses some insertions would be too low.
                if let Some(count) = self.apart.get_mut(&hash) {
                    *count = count.saturating_add(1);
                } else if self.is_alone(&places) {
                    self.apart.insert(hash, self.counters.bound(&places));
                }
            }
        }
        Ok(())
    }

    /// Whether the least counter of a key is less than all of its others.
    fn is_alone(&self, places: &Places) -> bool {
        let least = self.counters.least(places);
        places.iter().filter(|&&cell| self.counters.cells().get(cell) == least).count() == 1
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        self.counters.clear();
        self.apart.clear();
    }

    /// How it counts.
    #[must_use]
    pub fn mode(&self) -> SpectralMode {
        self.mode
    }

    /// The number of counters.
    #[must_use]
    pub fn num_counters(&self) -> u64 {
        self.counters.shape().cells
    }

    /// The number of counters of a key.
    #[must_use]
    pub fn num_probes(&self) -> u32 {
        self.counters.shape().probes
    }

    /// The number of keys that are counted apart.
    #[must_use]
    pub fn num_apart(&self) -> usize {
        self.apart.len()
    }

    /// The share of absent keys that is answered "maybe", as full as the filter is now.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        rate_of(self.counters.cells().iter(), self.counters.shape())
    }

    /// A plain Bloom filter of the same keys, with a bit for each counter.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
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
        // Neither is ever too low.
        let apart = self.apart.get(&hash).copied().unwrap_or(u64::MAX);
        self.counters.bound(&self.counters.places(hash)).min(apart)
    }
}

impl Removable for Spectral {
    /// Takes back one insertion of the key.
    ///
    /// # Errors
    /// As said of the trait; and [`Error::Invalid`] in the mode that cannot remove. Nothing is changed.
    fn remove_hash(&mut self, hash: KeyHash) -> Result<()> {
        if self.mode == SpectralMode::MinimumIncrease {
            let reason = "a counter that a key did not raise cannot be lowered by it; use another mode to remove keys";
            return Err(Error::invalid("removal from a filter", "of minimum increase", reason));
        }
        let places = self.counters.places(hash);
        self.counters.remove(&places)?;
        let is_gone = self.counters.least(&places) == 0;
        if let Some(count) = self.apart.get_mut(&hash) {
            // The bound of a full counter says as little as before.
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
        KeyHash::of(&crate::codec::u64_bytes(i), HashSeed(1))
    }

    #[test]
    fn counters_that_are_full_bound_nothing_in_any_mode() {
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
    fn counters_not_raised_for_a_key_are_not_lowered_for_it() {
        let mut filter = Spectral::with_rate(100, 0.01, SpectralMode::MinimumIncrease, HashSeed(1)).unwrap();
        filter.insert_hash(hash(1)).unwrap();
        assert!(matches!(filter.remove_hash(hash(1)), Err(Error::Invalid { .. })));
        assert_eq!(filter.estimate_hash(hash(1)), 1);
    }

    #[test]
    fn counts_kept_apart_are_forgotten_with_the_last_key() {
        let mut filter = Spectral::with_shape(800, 5, 32, SpectralMode::RecurringMinimum, HashSeed(1)).unwrap();
        (0..100).for_each(|i| filter.insert_hash(hash(i)).unwrap());
        assert!((5..50).contains(&filter.num_apart()), "{}", filter.num_apart());
        (0..100).for_each(|i| filter.remove_hash(hash(i)).unwrap());
        assert!((0..100).all(|i| filter.estimate_hash(hash(i)) == 0));
        assert_eq!(filter.num_apart(), 0);
    }
}
