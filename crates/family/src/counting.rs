//! Implements the counting Bloom filter, which supports removals (Fan, Cao, Almeida, Broder,
//! "Summary cache: a scalable wide-area web cache sharing protocol", 2000).
//!
//! ```text
//! key -> k = 3 counters of m, 4 bits each
//!         0 0 1 0 2 0 0 1 0 1 0 0 15 1 0 0 ...   insert: +1 each; remove: -1 each
//!                                 ^^ a saturated counter stays 15
//! ```
//!
//! * When: a set changes, and others receive a plain Bloom filter of it from time to time
//!   ([`Counting::to_bloom`]).
//! * When not: if the plain filter is not needed, `DLeft` takes half the memory. For a set that is
//!   only read, use a filter block. For counts of a multiset, use `Spectral` or `DynamicCounting`.
//! * Numbers: the bits of a Bloom filter times the counter width, which is 38 bits per key at 1 %
//!   with 4 bits. A counter of 4 bits saturates at 15 and misses the 16th insertion. With `m`
//!   counters and the best number of probes, the probability that a set raises any counter 16 times
//!   is at most `1.37e-15 m` ([`Counting::bound_of_reaching`]).
//! * A saturated counter is never decremented, so saturation never makes the filter deny a present
//!   key. The price: if all counters of a key are saturated, the key can no longer be removed.

use super::counters::{Counters, rate_of};
use super::shape::Shape;
use super::{Bloom, Frequency, Membership, Removable};
use crate::error::Result;
use filterblock::{HashSeed, KeyHash};

/// The width of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CounterBits {
    /// A counter has 2 bits and saturates at 3. Use it for sets that seldom change.
    Two = 2,
    /// A counter has 4 bits and saturates at 15. This is the usual choice.
    Four = 4,
    /// A counter has 8 bits and saturates at 255. Use it for keys that are added many times.
    Eight = 8,
}

/// A counting Bloom filter; see the [module](self).
///
/// ```
/// use filterblock::HashSeed;
/// use filterblock_family::{CounterBits, Counting, Membership, Removable};
/// let mut cached = Counting::with_fpr(1_000, 0.01, CounterBits::Four, HashSeed(7))?;
/// cached.insert(b"page");
/// assert!(cached.may_contain(b"page"));
/// cached.remove(b"page")?;
/// assert!(!cached.may_contain(b"page"));
/// assert!(cached.remove(b"page").is_err());
/// # Ok::<(), filterblock_family::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Counting {
    counters: Counters,
    counter_bits: CounterBits,
    seed: HashSeed,
}

impl Counting {
    /// Creates a filter whose expected FPR is at most `false_positive_rate` while it holds at most
    /// `capacity` keys. Saturated counters that stay after removals may raise the FPR.
    pub fn with_fpr(
        capacity: u64,
        false_positive_rate: f64,
        counter_bits: CounterBits,
        seed: HashSeed,
    ) -> Result<Self> {
        Self::of_shape(Shape::for_rate(capacity, false_positive_rate)?, counter_bits, seed)
    }

    /// Creates a filter of `counters` counters, rounded up to a multiple of 8. Each key has
    /// `probes` probes, 1 to 30.
    pub fn with_shape(counters: u64, probes: u32, counter_bits: CounterBits, seed: HashSeed) -> Result<Self> {
        Self::of_shape(Shape::new(counters, probes)?, counter_bits, seed)
    }

    fn of_shape(shape: Shape, counter_bits: CounterBits, seed: HashSeed) -> Result<Self> {
        Ok(Self { counters: Counters::new(shape, counter_bits as u32)?, counter_bits, seed })
    }

    /// Adds one occurrence of a key. Saturated counters do not change.
    pub fn insert(&mut self, key: &[u8]) {
        self.insert_hash(KeyHash::of(key, self.seed));
    }

    /// Works like [`Counting::insert`], but takes the hash of the key.
    pub fn insert_hash(&mut self, hash: KeyHash) {
        let places = self.counters.places(hash);
        self.counters.add(&places);
    }

    /// Removes all keys and resets all counters, even saturated ones.
    pub fn clear(&mut self) {
        self.counters.clear();
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

    /// Returns the width of a counter.
    #[must_use]
    pub fn counter_bits(&self) -> CounterBits {
        self.counter_bits
    }

    /// Returns the memory of the counters in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.counters.cells().len_bytes()
    }

    /// Returns the number of saturated counters. A saturated counter does not change until
    /// [`clear`](Self::clear).
    #[must_use]
    pub fn num_saturated_counters(&self) -> u64 {
        let max = self.counters.cells().max();
        self.counters.cells().iter().filter(|&count| count == max).count() as u64
    }

    /// Returns the FPR at the current fill ratio.
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        rate_of(self.counters.cells().iter(), self.counters.shape())
    }

    /// Returns an upper bound on the probability that `keys` distinct keys raise any counter
    /// `count` times. The bound is the lesser of 1 and `m (e n k / (j m))^j`, for `m` counters, `n`
    /// keys, `k` probes and `j = count`. A counter of `b` bits misses an insertion when it is
    /// raised for the `2^b`-th time.
    #[must_use]
    pub fn bound_of_reaching(&self, count: u32, keys: u64) -> f64 {
        let Shape { cells, probes } = self.counters.shape();
        let (count, load) = (f64::from(count), keys as f64 * f64::from(probes) / cells as f64);
        (cells as f64 * (std::f64::consts::E * load / count).powf(count)).min(1.0)
    }

    /// Returns a plain Bloom filter of the same keys, with one bit for each counter.
    pub fn to_bloom(&self) -> Result<Bloom> {
        self.counters.to_bloom(self.seed)
    }
}

impl Membership for Counting {
    fn seed(&self) -> HashSeed {
        self.seed
    }

    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.counters.least(&self.counters.places(hash)) > 0
    }
}

impl Removable for Counting {
    fn remove_hash(&mut self, hash: KeyHash) -> Result<()> {
        let places = self.counters.places(hash);
        self.counters.remove(&places)
    }
}

impl Frequency for Counting {
    fn estimate_hash(&self, hash: KeyHash) -> u64 {
        self.counters.bound(&self.counters.places(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saturated_counter_stays_and_its_keys_stay_present() {
        for (width, max) in [(CounterBits::Two, 3), (CounterBits::Four, 15), (CounterBits::Eight, 255)] {
            let mut filter = Counting::with_shape(8, 1, width, HashSeed(1)).unwrap();
            for count in 1..=max + 2 {
                filter.insert(b"a");
                assert_eq!(filter.estimate(b"a"), if count < max { count } else { u64::MAX });
            }
            assert_eq!(filter.num_saturated_counters(), 1);
            (0..2 * max).for_each(|_| filter.remove(b"a").unwrap());
            assert!(filter.may_contain(b"a"));
            filter.clear();
            assert!(!filter.may_contain(b"a"));
        }
    }
}
