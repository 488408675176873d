//! A key is hashed once: below this file everything speaks [`KeyHash`]. Which function hashes is a [`KeyHasher`].

mod hasher;
mod secret;
mod sort;

pub use hasher::{HashIdentity, HashKind, KeyHasher};
pub use secret::{FINGERPRINT_LEN_BYTES, Fingerprint, Secret};

pub(crate) use sort::sort;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The seed under which a store hashes its keys; it is kept in every filter block, for all to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HashSeed(pub u64);

/// The 64-bit hash of a key by a [`KeyHasher`].
///
/// Computed once per key and good for every filter whose block names the same function, seed and secret. Asking a
/// filter with a hash made otherwise would answer about another key, so [`crate::FilterBlock::hasher`] gives the hasher
/// that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Hashes `key` by XXH3-64 under `seed`, without a secret: short for [`KeyHasher::xxh3`] and [`KeyHasher::of`].
    #[must_use]
    #[inline]
    pub fn of(key: &[u8], seed: HashSeed) -> Self {
        Self(xxh3_64_with_seed(key, seed.0))
    }

    /// Takes over a hash computed elsewhere, which must be by the function that the block names where others are to
    /// read the filter.
    #[must_use]
    #[inline]
    pub const fn from_raw(hash: u64) -> Self {
        Self(hash)
    }

    /// The hash as an integer.
    #[must_use]
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Maps the hash to `0..range`: a shard, a bucket or a word for the key.
    #[must_use]
    #[inline]
    pub const fn reduce(self, range: u64) -> u64 {
        reduce(self.0, range)
    }
}

/// Maps a uniform `hash` to `0..range`, in the order of the hashes (Lemire, "Fast random integer generation in an
/// interval", 2019: the high half of the 128-bit product).
#[must_use]
#[inline]
pub const fn reduce(hash: u64, range: u64) -> u64 {
    // The high half of hash * range is below range, so the cast loses nothing.
    ((hash as u128 * range as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduction_stays_in_range_and_keeps_the_order() {
        for range in [1, 2, 3, 1 << 20, u64::MAX] {
            assert_eq!(reduce(0, range), 0);
            assert_eq!(reduce(u64::MAX, range), range - 1);
            assert!(reduce(1 << 40, range) <= reduce(1 << 50, range));
        }
    }
}
