//! Implements the d-left counting filter, which supports removals in half the memory of a counting
//! filter (Bonomi, Mitzenmacher, Panigrahy, Singh, Varghese, "An improved construction for counting
//! Bloom filters", 2006).
//!
//! ```text
//! key -> f, one of M = buckets * 2^r values       d = 4 subtables, permutation P_i for each
//!
//!          subtable 0     subtable 1     subtable 2     subtable 3
//!    P0(f) [rrr2 rrr1 .]  P1(f) [rrr1 ..] P2(f) [....]  P3(f) [rrr1 ..]    buckets of 8 cells
//!                                         ^ the emptiest stores r remainder bits, 2 counter bits
//! ```
//!
//! Four independently chosen buckets would lose keys. Keys that share a remainder and one of their
//! buckets would be confused, and a removal of one key could clear the cell of another. Therefore
//! the key is hashed once, to `f`, and the bucket and remainder in each subtable are a permutation
//! of `f`. If a key matches a cell in any subtable, it has the same `f` as the key of that cell. So
//! the filter never clears the cell of a key with another `f`. It counts keys with the same `f` as
//! one key.
//!
//! The permutation is `P_i(bucket, remainder) = ((bucket + shift_i(remainder)) mod buckets,
//! remainder)`, a bijection for every number of buckets. The paper's `a f + c mod 2^q` needs a
//! power of two as the number of buckets, which would waste up to half of the memory.
//!
//! * When: a set changes and its size is known.
//! * When not: to send plain bits to others, or if the number of keys may exceed the capacity, use
//!   `Counting`. For counts use `Spectral`.
//! * Numbers: at the capacity, at most three quarters of the cells are in use. The filter then
//!   takes `(r + 2) * 4/3` bits per key, and its FPR is at most `24 / 2^r`. With r = 11, these are
//!   17.3 bits per key and 1.17 %. `Counting` takes 37 bits per key for this FPR.
//! * A counter saturates at 3 and then keeps its value, so only `clear` frees its cell. Three
//!   present keys with the same `f` saturate a counter, and so does one key that is added three
//!   times. If `n` keys are present, each added once, an insertion saturates a counter with a
//!   probability below `(n/M)^2 / 2`. After 220,000 insertions with 20,000 keys present, 734 cells
//!   could not be freed at 8 bits per remainder, and none at 14 bits (tests/family/counts.rs
//!   prints these numbers).
//! * If the four buckets of a new key are full, the insertion returns an error and changes nothing.
//!   In the tests (tests/family/literature.rs) this never happens up to the capacity. The filter
//!   keeps no list of refused keys, because a list would hide that the filter is overfilled.

use super::packed::PackedArray;
use super::shape::{check_capacity, check_rate};
use super::{Frequency, Membership, Removable};
use crate::error::{Error, Result};
use filterblock::internals::bloom;
use filterblock::{HashSeed, KeyHash};
use filterblock_simd::reduce;

const SUBTABLES: u64 = 4;
const CELLS_PER_BUCKET: u64 = 8;
const COUNTER_BITS: u32 = 2;
/// The value of a saturated counter.
const SATURATED: u64 = (1 << COUNTER_BITS) - 1;
/// The capacity divided by the number of buckets of one subtable. At the capacity, at most six of
/// the eight cells of a bucket are used on average.
const KEYS_PER_BUCKET: u64 = SUBTABLES * 6;
const MAX_REMAINDER_BITS: u32 = 48;

/// A d-left counting filter; see the [module](self).
#[derive(Debug, Clone)]
pub struct DLeft {
    /// The cells, subtable by subtable and bucket by bucket. A cell has a remainder in its high
    /// bits and a counter in its low bits. The counter is zero only in an empty cell.
    cells: PackedArray,
    /// The number of buckets of each subtable.
    buckets: u64,
    remainder_bits: u32,
    used_cells: u64,
    seed: HashSeed,
}

impl DLeft {
    /// Creates a filter whose expected FPR is at most `false_positive_rate` while at most
    /// `capacity` cells are in use: see [`num_distinct`](Self::num_distinct).
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] unless `capacity > 0`, `0 < false_positive_rate < 1` and
    /// remainders of 48 bits suffice for the rate. Returns [`Error::TooLarge`] if the filter does
    /// not fit in memory or needs `2^64` or more values `f`.
    pub fn with_fpr(capacity: u64, false_positive_rate: f64, seed: HashSeed) -> Result<Self> {
        check_capacity(capacity)?;
        check_rate(false_positive_rate)?;
        let buckets = capacity.div_ceil(KEYS_PER_BUCKET);
        let values = capacity as f64 / buckets as f64 / false_positive_rate;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to about 1100")]
        let remainder_bits = values.log2().ceil().max(1.0) as u32;
        if remainder_bits > MAX_REMAINDER_BITS {
            let reason = format!(
                "it needs remainders of {remainder_bits} bits, and the maximum is {MAX_REMAINDER_BITS}; try 1e-9"
            );
            return Err(Error::invalid("false-positive rate", false_positive_rate, reason));
        }
        Self::with_shape(buckets, remainder_bits, seed)
    }

    /// Creates a filter of four subtables. Each subtable has `buckets` buckets of eight cells. A
    /// remainder has `remainder_bits` bits, 1 to 48. The capacity is `24 * buckets` keys.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] unless `buckets > 0` and `remainder_bits` is 1 to 48. Returns
    /// [`Error::TooLarge`] if the filter does not fit in memory, or if `buckets * 2^remainder_bits`
    /// is `2^64` or more.
    pub fn with_shape(buckets: u64, remainder_bits: u32, seed: HashSeed) -> Result<Self> {
        if buckets == 0 || !(1..=MAX_REMAINDER_BITS).contains(&remainder_bits) {
            let given = format!("{buckets} buckets, remainders of {remainder_bits} bits");
            let reason = format!(
                "expected at least one bucket, and remainders of 1 to {MAX_REMAINDER_BITS} bits; try 1024 buckets \
                 and remainders of 12 bits"
            );
            return Err(Error::invalid("shape of a d-left filter", given, reason));
        }
        if buckets > u64::MAX >> remainder_bits {
            let what = "this d-left filter needs hashes of more than 64 bits; use a higher false-positive rate or a \
                        smaller capacity (in a shape: shorter remainders or fewer buckets)";
            return Err(Error::TooLarge { what });
        }
        let too_large = Error::TooLarge { what: "a d-left filter" };
        let cells = buckets.checked_mul(SUBTABLES * CELLS_PER_BUCKET).ok_or(too_large)?;
        let cells = PackedArray::new(cells, remainder_bits + COUNTER_BITS)?;
        Ok(Self { cells, buckets, remainder_bits, used_cells: 0, seed })
    }

    /// Adds one occurrence of a key. A counter saturates at three occurrences.
    ///
    /// # Errors
    /// Returns [`Error::NoRoom`] if all four buckets of a new key are full. The filter is then
    /// unchanged.
    pub fn insert(&mut self, key: &[u8]) -> Result<()> {
        self.insert_hash(KeyHash::of(key, self.seed))
    }

    /// Works like [`DLeft::insert`], but takes the hash of the key.
    pub fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        let value = self.value(hash);
        // Search for the value first. `find` requires that at most one cell has the value.
        if let Some(cell) = self.find(value) {
            let found = self.cells.get(cell);
            if found & SATURATED < SATURATED {
                self.cells.set(cell, found + 1);
            }
            return Ok(());
        }
        let load = |bucket: &u64| cells_of(*bucket).filter(|&cell| self.cells.get(cell) != 0).count();
        // `min_by_key` returns the leftmost of the emptiest buckets, as d-left hashing requires.
        let empty = self
            .buckets_of(value)
            .min_by_key(load)
            .and_then(|bucket| cells_of(bucket).find(|&cell| self.cells.get(cell) == 0));
        let cell = empty.ok_or(Error::NoRoom { capacity: self.capacity() })?;
        self.cells.set(cell, self.remainder(value) << COUNTER_BITS | 1);
        self.used_cells += 1;
        Ok(())
    }

    /// Returns the value `f` of a key. It is below `buckets * 2^remainder_bits`.
    fn value(&self, hash: KeyHash) -> u64 {
        reduce(hash.raw(), self.buckets << self.remainder_bits)
    }

    fn remainder(&self, value: u64) -> u64 {
        value & ((1 << self.remainder_bits) - 1)
    }

    /// Returns the bucket of a value in each subtable. Bucket numbers continue from one subtable to
    /// the next.
    fn buckets_of(&self, value: u64) -> impl Iterator<Item = u64> + use<> {
        let (buckets, bucket, remainder) = (self.buckets, value >> self.remainder_bits, self.remainder(value));
        // Within a subtable, the shift depends on the remainder alone, so each mapping is a
        // permutation. The multiplication by the increment of SplitMix64 spreads small remainders
        // over the high bits, and the first mixing step brings these bits down.
        let spread = KeyHash::from_raw((remainder + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (0..SUBTABLES).zip(bloom::mixed(spread)).map(move |(subtable, shift)| {
            // Both terms are below `buckets`, and `buckets` is below `2^63`, so the sum fits in 64
            // bits.
            let shift = if subtable == 0 { 0 } else { reduce(shift, buckets) };
            subtable * buckets + (bucket + shift) % buckets
        })
    }

    /// Returns the index of the only cell that holds a value, or `None` if no cell does.
    fn find(&self, value: u64) -> Option<u64> {
        let remainder = self.remainder(value);
        let is_it = |cell: &u64| {
            let found = self.cells.get(*cell);
            found != 0 && found >> COUNTER_BITS == remainder
        };
        self.buckets_of(value).flat_map(cells_of).find(is_it)
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.cells.clear();
        self.used_cells = 0;
    }

    /// Returns the number of keys that the filter is designed for. The filter also takes further
    /// keys while their buckets have space.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.buckets * KEYS_PER_BUCKET
    }

    /// Returns the number of used cells. Keys with the same value `f` share a cell. A cell whose
    /// counter is saturated stays in use until [`clear`](Self::clear).
    #[must_use]
    pub fn num_distinct(&self) -> u64 {
        self.used_cells
    }

    /// Returns the number of bits of a remainder.
    #[must_use]
    pub fn remainder_bits(&self) -> u32 {
        self.remainder_bits
    }

    /// Returns the memory of the cells in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.cells.len_bytes()
    }

    /// Returns the current FPR: the number of used cells divided by the number of values `f`.
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        self.used_cells as f64 / (self.buckets << self.remainder_bits) as f64
    }
}

fn cells_of(bucket: u64) -> std::ops::Range<u64> {
    bucket * CELLS_PER_BUCKET..(bucket + 1) * CELLS_PER_BUCKET
}

impl Membership for DLeft {
    fn seed(&self) -> HashSeed {
        self.seed
    }

    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.find(self.value(hash)).is_some()
    }
}

impl Removable for DLeft {
    fn remove_hash(&mut self, hash: KeyHash) -> Result<()> {
        let cell = self.find(self.value(hash)).ok_or(Error::KeyAbsent)?;
        let found = self.cells.get(cell);
        match found & SATURATED {
            SATURATED => {}
            1 => {
                self.cells.set(cell, 0);
                self.used_cells -= 1;
            }
            _ => self.cells.set(cell, found - 1),
        }
        Ok(())
    }
}

impl Frequency for DLeft {
    fn estimate_hash(&self, hash: KeyHash) -> u64 {
        let count = self.find(self.value(hash)).map_or(0, |cell| self.cells.get(cell) & SATURATED);
        if count == SATURATED { u64::MAX } else { count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_subtable_permutes_the_values() {
        for buckets in [1, 2, 3, 7, 64, 100] {
            let filter = DLeft::with_shape(buckets, 6, HashSeed(1)).unwrap();
            let mut seen: [HashSet<(u64, u64)>; 4] = Default::default();
            for value in 0..buckets << 6 {
                for (subtable, bucket) in filter.buckets_of(value).enumerate() {
                    assert_eq!(bucket / buckets, subtable as u64);
                    assert!(seen[subtable].insert((bucket, filter.remainder(value))), "{value} of {buckets} buckets");
                }
            }
        }
    }

    #[test]
    fn a_filter_without_space_still_counts_present_keys() {
        let mut filter = DLeft::with_shape(3, 10, HashSeed(1)).unwrap();
        let keys = || (0..1_000u64).map(filterblock::internals::codec::u64_bytes);
        let (taken, refused): (Vec<_>, Vec<_>) = keys().partition(|key| filter.insert(key).is_ok());
        assert!((72..=96).contains(&filter.num_distinct()), "{}", filter.num_distinct());
        assert!(taken.iter().all(|key| filter.may_contain(key)));
        assert!(refused.iter().filter(|key| filter.may_contain(*key)).count() < 100);
        let before: Vec<u64> = filter.cells.iter().collect();
        let new = refused.iter().find(|key| !filter.may_contain(*key)).unwrap();
        assert!(matches!(filter.insert(new), Err(Error::NoRoom { capacity: 72 })));
        assert!(filter.cells.iter().eq(before));
        filter.insert(&taken[0]).unwrap();
        assert_eq!(filter.estimate(&taken[0]), 2);
        filter.clear();
        assert_eq!((filter.num_distinct(), filter.may_contain(&taken[0])), (0, false));
    }

    #[test]
    fn a_saturated_counter_keeps_its_value() {
        let mut filter = DLeft::with_shape(3, 10, HashSeed(1)).unwrap();
        for expected in [1, 2, u64::MAX, u64::MAX] {
            filter.insert(b"a").unwrap();
            assert_eq!(filter.estimate(b"a"), expected);
        }
        (0..9).for_each(|_| filter.remove(b"a").unwrap());
        assert!(filter.may_contain(b"a"));
        assert!(matches!(filter.remove(b"b"), Err(Error::KeyAbsent)));
    }

    #[test]
    fn an_impossible_shape_is_refused() {
        for (buckets, bits) in [(0, 8), (8, 0), (8, 49)] {
            let filter = DLeft::with_shape(buckets, bits, HashSeed(1));
            assert!(matches!(filter, Err(Error::Invalid { .. })), "{buckets} {bits}");
        }
        for buckets in [1 << 57, u64::MAX] {
            assert!(matches!(DLeft::with_shape(buckets, 8, HashSeed(1)), Err(Error::TooLarge { .. })), "{buckets}");
        }
        assert!(matches!(DLeft::with_fpr(9, 1e-300, HashSeed(1)), Err(Error::Invalid { .. })));
    }
}
