//! Implements the partitioned Bloom filter, in which a key has one bit in each of `k` slices
//! (Mullin, "A second look at Bloom filters", 1983; Chang, Feng, Li, "Approximate caches for packet
//! classification", 2004).
//!
//! ```text
//! key ->  slice 0           slice 1           slice 2          k slices of m/k bits
//!         0 0 1 0 0 1 0 0 | 1 0 0 0 0 0 1 0 | 0 1 0 0 0 0 1 0
//! ```
//!
//! * When: the FPR must be computed exactly from the number of keys. The stages of `Scalable` are
//!   such filters: `k` slices have an FPR of at most `2^-k` if at most half of their bits are 1.
//! * When not: `Bloom` has a slightly lower FPR, takes keys from many threads at once, and can be
//!   frozen to a block. For at most one cache miss per query, use a `blocked-bloom` block.
//! * Numbers: for ideal hashes, the expected FPR is exactly `(1 - (1 - k/m)^n)^k`, because bits of
//!   different slices are independent.

use super::Membership;
use super::packed::PackedArray;
use super::shape::check_rate_of;
use crate::error::{Error, Result};
use crate::plan;
use filterblock::internals::{bloom, math};
use filterblock::planning;
use filterblock::{HashSeed, KeyHash};
use filterblock_simd::reduce;

/// The maximum number of slices. A 64-bit hash supports no FPR below 2^-64.
const MAX_SLICES: u32 = 64;

/// A partitioned Bloom filter; see the [module](self).
#[derive(Debug, Clone)]
pub struct Partitioned {
    /// The bits, slice by slice.
    bits: PackedArray,
    slice_bits: u64,
    slices: u32,
    ones: u64,
    seed: HashSeed,
}

impl Partitioned {
    /// Creates a filter whose expected FPR is at most `false_positive_rate` while it holds at most
    /// `capacity` keys.
    pub fn with_fpr(capacity: u64, false_positive_rate: f64, seed: HashSeed) -> Result<Self> {
        check_rate_of(capacity, false_positive_rate)?;
        let (_, slices, mut slice_bits) = plan::slices(capacity, false_positive_rate).ok_or(TOO_LARGE)?;
        // The plan leaves out absent keys that have the hash of a present key.
        while full_fpr(capacity, slice_bits, slices) > false_positive_rate {
            slice_bits += slice_bits / 4_096 + 1;
        }
        Self::with_shape(slice_bits, slices, seed)
    }

    /// Creates a filter of `slices` slices, 1 to 64, with `slice_bits` bits each.
    pub fn with_shape(slice_bits: u64, slices: u32, seed: HashSeed) -> Result<Self> {
        if slice_bits == 0 || !(1..=MAX_SLICES).contains(&slices) {
            let reason = format!("expected 1 to {MAX_SLICES} slices of at least one bit; try 7 of 1024 bits");
            return Err(Error::invalid("slices", format!("{slices} of {slice_bits} bits"), reason));
        }
        let bits = slice_bits.checked_mul(u64::from(slices)).ok_or(TOO_LARGE)?;
        Ok(Self { bits: PackedArray::new(bits, 1)?, slice_bits, slices, ones: 0, seed })
    }

    /// Adds a key. Returns `true` if the key was certainly absent before. `false` means that it may
    /// have been present.
    pub fn insert(&mut self, key: &[u8]) -> bool {
        self.insert_hash(KeyHash::of(key, self.seed))
    }

    /// Works like [`Partitioned::insert`], but takes the hash of the key.
    pub fn insert_hash(&mut self, hash: KeyHash) -> bool {
        let before = self.ones;
        for bit in positions(hash, self.slice_bits, self.slices) {
            self.ones += 1 - self.bits.get(bit);
            self.bits.set(bit, 1);
        }
        self.ones > before
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.bits.clear();
        self.ones = 0;
    }

    /// Returns the number of bits of all slices.
    #[must_use]
    pub fn num_bits(&self) -> u64 {
        self.bits.len()
    }

    /// Returns the number of slices, which is also the number of bits of a key.
    #[must_use]
    pub fn num_slices(&self) -> u32 {
        self.slices
    }

    /// Returns the number of bits that are set.
    #[must_use]
    pub fn count_ones(&self) -> u64 {
        self.ones
    }

    /// Returns an upper bound on the FPR at the current fill ratio. The FPR is about the product of
    /// the slices' fill ratios. For a given number of ones, this product is largest if all fill
    /// ratios are equal.
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        let by_chance = (self.ones as f64 / self.bits.len() as f64).powi(self.slices.cast_signed());
        math::with_equal_hashes(by_chance, math::whole_keys(self.ones, self.bits.len(), self.slices))
    }
}

/// Returns the FPR with `num_keys` keys. It includes absent keys with the hash of a present key.
fn full_fpr(num_keys: u64, slice_bits: u64, slices: u32) -> f64 {
    let by_chance = planning::classical_fpr(num_keys, slice_bits, 1).powi(slices.cast_signed());
    math::with_equal_hashes(by_chance, num_keys)
}

const TOO_LARGE: Error = Error::TooLarge { what: "a filter" };

/// Returns the positions of the bits of a key, one in each slice.
fn positions(hash: KeyHash, slice_bits: u64, slices: u32) -> impl Iterator<Item = u64> {
    (0..u64::from(slices)).zip(bloom::mixed(hash)).map(move |(slice, x)| slice * slice_bits + reduce(x, slice_bits))
}

impl Membership for Partitioned {
    fn seed(&self) -> HashSeed {
        self.seed
    }

    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        positions(hash, self.slice_bits, self.slices).all(|bit| self.bits.get(bit) == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_bit_in_each_slice_and_set_bits_are_counted() {
        let mut filter = Partitioned::with_shape(101, 7, HashSeed(1)).unwrap();
        for i in 0..40u64 {
            assert_eq!(
                filter.may_contain(&filterblock::internals::codec::u64_bytes(i)),
                !filter.insert(&filterblock::internals::codec::u64_bytes(i))
            );
            let bits: Vec<u64> = filter.bits.iter().collect();
            assert_eq!(filter.count_ones(), bits.iter().sum::<u64>());
            assert!(bits.chunks(101).all(|slice| slice.contains(&1)));
        }
        filter.clear();
        assert_eq!((filter.count_ones(), filter.may_contain(b"a")), (0, false));
    }

    #[test]
    fn a_full_filter_has_at_most_the_requested_fpr() {
        for capacity in [1, 10, 1_000, 1_000_000] {
            for power in 1..=17 {
                let fpr = 0.1f64.powi(power).max(capacity as f64 / 62f64.exp2());
                let filter = Partitioned::with_fpr(capacity, fpr, HashSeed(1)).unwrap();
                let full = full_fpr(capacity, filter.slice_bits, filter.slices);
                assert!(full <= fpr && full > fpr * 0.2, "{capacity} keys at {fpr}: {full}");
            }
        }
    }

    #[test]
    fn an_impossible_shape_is_refused() {
        for (bits, slices) in [(0, 1), (1, 0), (1, 65)] {
            let filter = Partitioned::with_shape(bits, slices, HashSeed(1));
            assert!(matches!(filter, Err(Error::Invalid { .. })), "{slices} of {bits}");
        }
        assert!(matches!(Partitioned::with_shape(u64::MAX, 2, HashSeed(1)), Err(Error::TooLarge { .. })));
        assert!(matches!(Partitioned::with_fpr(u64::MAX, 0.1, HashSeed(1)), Err(Error::TooLarge { .. })));
        assert!(matches!(Partitioned::with_fpr(9, f64::NAN, HashSeed(1)), Err(Error::Invalid { .. })));
    }
}
