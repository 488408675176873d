//! The partitioned Bloom filter: one bit of a key in each of `k` slices (Mullin, "A second look at Bloom filters", 1983;
//! Chang, Feng, Li, "Approximate caches for packet classification", 2004).
//!
//! ```text
//! key ->  slice 0           slice 1           slice 2          k slices of m/k bits
//!         0 0 1 0 0 1 0 0 | 1 0 0 0 0 0 1 0 | 0 1 0 0 0 0 1 0
//! ```
//!
//! * When: slices that are to be read apart, by threads or from memories of their own; as a part of `Scalable`, whose bound
//!   rests on each slice being half full.
//! * When not: `Bloom` has the lower rate by a trifle (a key sets up to `k` bits of any slice there), and only that one can
//!   be frozen to a block; for one cache miss a query, a `blocked-bloom` block.
//! * Numbers: rate `(1 - (1 - k/m)^n)^k`, exactly, as bits of different slices are independent.

use super::Membership;
use super::shape::check_rate_of;
use crate::bits::PackedArray;
use crate::hash::{HashSeed, KeyHash, reduce};
use crate::kinds::{bloom, math};
use crate::planning;
use crate::variants::error::{Error, Result};

/// Most slices: a hash has no more to say.
const MAX_SLICES: u32 = 64;

/// A partitioned Bloom filter; see the [module](self).
#[derive(Debug, Clone)]
pub struct Partitioned {
    /// Slice by slice.
    bits: PackedArray,
    slice_bits: u64,
    slices: u32,
    ones: u64,
    seed: HashSeed,
}

impl Partitioned {
    /// A filter that answers "maybe" for at most that share of absent keys while it has no more than `capacity`.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless there is a key and `0 < rate < 1`; [`Error::TooLarge`].
    pub fn with_rate(capacity: u64, false_positive_rate: f64, seed: HashSeed) -> Result<Self> {
        check_rate_of(capacity, false_positive_rate)?;
        let (_, slices, slice_bits) = planning::slices(capacity, false_positive_rate).ok_or(TOO_LARGE)?;
        Self::with_shape(slice_bits, slices, seed)
    }

    /// A filter of `slices` slices, 1 to 64, of so many bits each.
    ///
    /// # Errors
    /// [`Error::Invalid`] for other numbers; [`Error::TooLarge`].
    pub fn with_shape(slice_bits: u64, slices: u32, seed: HashSeed) -> Result<Self> {
        if slice_bits == 0 || !(1..=MAX_SLICES).contains(&slices) {
            let reason = format!("expected 1 to {MAX_SLICES} slices of one bit or more; try 7 of 1024");
            return Err(Error::invalid("slices", format!("{slices} of {slice_bits} bits"), reason));
        }
        let bits = slice_bits.checked_mul(u64::from(slices)).ok_or(TOO_LARGE)?;
        Ok(Self { bits: PackedArray::new(bits, 1)?, slice_bits, slices, ones: 0, seed })
    }

    /// Adds a key; `true` if it was certainly not there before.
    pub fn insert(&mut self, key: &[u8]) -> bool {
        self.insert_hash(KeyHash::of(key, self.seed))
    }

    /// As [`Partitioned::insert`].
    pub fn insert_hash(&mut self, hash: KeyHash) -> bool {
        let before = self.ones;
        for bit in positions(hash, self.slice_bits, self.slices) {
            self.ones += 1 - self.bits.get(bit);
            self.bits.set(bit, 1);
        }
        self.ones > before
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        self.bits.clear();
        self.ones = 0;
    }

    /// The number of bits, of all slices.
    #[must_use]
    pub fn num_bits(&self) -> u64 {
        self.bits.len()
    }

    /// The number of slices, and so of bits of a key.
    #[must_use]
    pub fn num_slices(&self) -> u32 {
        self.slices
    }

    /// The number of bits that are set.
    #[must_use]
    pub fn count_ones(&self) -> u64 {
        self.ones
    }

    /// The share of absent keys that is answered "maybe", as full as the filter is now, at most: it is the product of how full
    /// the slices are, which is largest when all are alike.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        let by_chance = (self.ones as f64 / self.bits.len() as f64).powi(self.slices.cast_signed());
        math::with_equal_hashes(by_chance, math::whole_keys(self.ones, self.bits.len(), self.slices))
    }
}

const TOO_LARGE: Error = Error::TooLarge { what: "a filter" };

/// The bits of a key: one of each slice.
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
    fn a_key_has_a_bit_in_each_slice_and_what_is_set_is_counted() {
        let mut filter = Partitioned::with_shape(101, 7, HashSeed(1)).unwrap();
        for i in 0..40u64 {
            assert_eq!(filter.may_contain(&crate::codec::u64_bytes(i)), !filter.insert(&crate::codec::u64_bytes(i)));
            let bits: Vec<u64> = filter.bits.iter().collect();
            assert_eq!(filter.count_ones(), bits.iter().sum::<u64>());
            assert!(bits.chunks(101).all(|slice| slice.contains(&1)));
        }
        filter.clear();
        assert_eq!((filter.count_ones(), filter.may_contain(b"a")), (0, false));
    }

    #[test]
    fn a_shape_that_cannot_be_is_refused() {
        for (bits, slices) in [(0, 1), (1, 0), (1, 65)] {
            let filter = Partitioned::with_shape(bits, slices, HashSeed(1));
            assert!(matches!(filter, Err(Error::Invalid { .. })), "{slices} of {bits}");
        }
        assert!(matches!(Partitioned::with_shape(u64::MAX, 2, HashSeed(1)), Err(Error::TooLarge { .. })));
        assert!(matches!(Partitioned::with_rate(u64::MAX, 0.1, HashSeed(1)), Err(Error::TooLarge { .. })));
        assert!(matches!(Partitioned::with_rate(9, f64::NAN, HashSeed(1)), Err(Error::Invalid { .. })));
    }
}
