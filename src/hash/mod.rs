//! Hashes keys. A [`KeyHasher`] computes the [`KeyHash`] of a key, and filters of keys work on this
//! hash.

mod hasher;
mod secret;
mod sort;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::simd::reduce;

pub use hasher::{HashIdentity, KeyHasher};
pub use secret::Secret;

pub(crate) use sort::sort;

/// The seed under which a store hashes its keys. The seed is public: every filter block stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HashSeed(pub u64);

/// The 64-bit hash of a key by a [`KeyHasher`].
///
/// The hash is valid only for filters whose keys were hashed with the same function, seed and
/// secret. Another filter could deny a key that it holds. Debug builds keep a tag of the hasher
/// beside each hash, and filter blocks check the tag. In release builds a hash takes eight bytes.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(debug_assertions), repr(transparent))]
pub struct KeyHash {
    raw: u64,
    #[cfg(debug_assertions)]
    made_by: HasherTag,
}

/// Identifies the hasher of a hash in debug builds. The tag 0 means that no [`KeyHasher`] made the
/// hash.
#[cfg(debug_assertions)]
type HasherTag = u64;

impl KeyHash {
    /// Hashes `key` by XXH3-64 under `seed`, without a secret. Short for [`KeyHasher::xxh3`] and
    /// [`KeyHasher::of`].
    #[must_use]
    #[inline]
    pub fn of(key: &[u8], seed: HashSeed) -> Self {
        KeyHasher::xxh3(seed).of(key)
    }

    /// Wraps a hash that the caller has computed. All keys of a filter must be hashed by the same
    /// function. If other programs read the filter, this must be the function that the filter block
    /// names, with the block's seed and secret. Debug builds do not check the hasher of a wrapped
    /// hash.
    #[must_use]
    #[inline]
    pub const fn from_raw(hash: u64) -> Self {
        Self {
            raw: hash,
            #[cfg(debug_assertions)]
            made_by: 0,
        }
    }

    /// Returns the hash as an integer.
    #[must_use]
    #[inline]
    pub const fn raw(self) -> u64 {
        self.raw
    }

    /// Maps the hash to `0..range`. For a `range` of 0, the result is 0.
    #[must_use]
    #[inline]
    pub const fn reduce(self, range: u64) -> u64 {
        reduce(self.raw, range)
    }
}

/// A key with its hash: see [`KeyHasher::key`]. The two travel together, so that no filter is asked for
/// one key with the hash of another.
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
    bytes: &'a [u8],
    hash: KeyHash,
}

impl<'a> Key<'a> {
    /// Returns the bytes of the key.
    #[must_use]
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the hash of the key.
    #[must_use]
    #[inline]
    pub fn hash(self) -> KeyHash {
        self.hash
    }
}

// Comparisons use the hash alone in every build, so that debug builds behave like release builds.
impl PartialEq for KeyHash {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl Eq for KeyHash {}

impl PartialOrd for KeyHash {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyHash {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.raw.cmp(&other.raw)
    }
}

impl Hash for KeyHash {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
    }
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
