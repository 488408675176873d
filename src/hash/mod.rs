//! Hashes keys. A [`KeyHasher`] computes the [`KeyHash`] of a key, and filters of keys work on this
//! hash.

mod hasher;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::simd::reduce;

pub use hasher::{HashIdentity, KeyHasher, Secret};

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

/// The maximum number of hashes of one bucket sort. Their positions fit in `u16`s, and the scratch
/// memory stays below 1 MiB in release builds.
const MOST_AT_ONCE: usize = 1 << 15;
/// The minimum number of hashes of a bucket sort. For fewer hashes, the general sort is fast
/// enough.
const FEW: usize = 64;
/// The maximum number of hashes in a bucket. If a bucket has more, the general sort takes over,
/// because the time to sort a bucket may grow with the square of its size. Distinct random hashes
/// put at most about 9 into a bucket.
const CROWD: u16 = 24;

pub(crate) fn sort(hashes: &mut [KeyHash]) {
    if !hashes.is_sorted() {
        Scratch::default().sort(hashes, 0);
    }
}

#[derive(Default)]
struct Scratch {
    /// For each bucket, the position of its next hash.
    next: Vec<u16>,
    bucketed: Vec<KeyHash>,
}

impl Scratch {
    /// Sorts hashes whose first `equal_bits` bits are equal.
    fn sort(&mut self, hashes: &mut [KeyHash], equal_bits: u32) {
        if hashes.len() <= MOST_AT_ONCE {
            if hashes.len() < FEW || !self.sort_by_buckets(hashes, equal_bits) {
                hashes.sort_unstable();
            }
            return;
        }
        // Splits the hashes in place, because a copy of all hashes would take too much memory.
        let zeros = partition(hashes, equal_bits);
        let (low, high) = hashes.split_at_mut(zeros);
        if low.len().min(high.len()) < high.len().max(low.len()) / 2 {
            return hashes.sort_unstable();
        }
        self.sort(low, equal_bits + 1);
        self.sort(high, equal_bits + 1);
    }

    /// Sorts hashes whose first `equal_bits` bits are equal, with one to two buckets per hash.
    /// Returns `false`, and leaves the hashes as they are, if a bucket has more than [`CROWD`]
    /// hashes or the scratch memory cannot be allocated.
    fn sort_by_buckets(&mut self, hashes: &mut [KeyHash], equal_bits: u32) -> bool {
        let bits = hashes.len().ilog2() + 1;
        #[expect(clippy::cast_possible_truncation, reason = "at most 16 bits")]
        let bucket = |hash: KeyHash| ((hash.raw() << equal_bits) >> (u64::BITS - bits)) as usize;
        self.next.clear();
        let more = hashes.len().saturating_sub(self.bucketed.len());
        if self.next.try_reserve(1 << bits).is_err() || self.bucketed.try_reserve(more).is_err() {
            return false;
        }
        self.next.resize(1 << bits, 0);
        for &hash in &*hashes {
            if let Some(count) = self.next.get_mut(bucket(hash)) {
                *count += 1;
            }
        }
        let (mut most, mut begin) = (0, 0);
        for next in &mut self.next {
            most = most.max(*next);
            (*next, begin) = (begin, begin + *next);
        }
        if most > CROWD {
            return false;
        }
        self.bucketed.resize(self.bucketed.len().max(hashes.len()), KeyHash::from_raw(0));
        for &hash in &*hashes {
            if let Some(next) = self.next.get_mut(bucket(hash)) {
                if let Some(place) = self.bucketed.get_mut(usize::from(*next)) {
                    *place = hash;
                }
                *next += 1;
            }
        }
        insert_all(hashes, &self.bucketed);
        true
    }
}

/// Moves the hashes whose bit `bit` is 0 to the front, and returns their number. Bit 0 is the
/// highest bit.
///
/// The loop swaps every hash, so that it needs no branch on the bit.
fn partition(hashes: &mut [KeyHash], bit: u32) -> usize {
    let mut zeros = 0;
    for i in 0..hashes.len() {
        let is_one = hashes.get(i).map_or(0, |hash| hash.raw() << bit >> 63);
        hashes.swap(zeros, i);
        zeros += usize::from(is_one == 0);
    }
    zeros
}

/// Copies the first hashes of `from` to `to` in sorted order, until `to` is full. Each of these
/// hashes is at most a few positions from its sorted position, so an insertion sort is fast.
fn insert_all(to: &mut [KeyHash], from: &[KeyHash]) {
    let mut largest = KeyHash::from_raw(0);
    for (i, &hash) in from.iter().enumerate().take(to.len()) {
        let mut at = i;
        if hash < largest {
            while let Some(&before) =
                at.checked_sub(1).and_then(|before| to.get(before)).filter(|&&before| before > hash)
            {
                if let Some(place) = to.get_mut(at) {
                    *place = before;
                }
                at -= 1;
            }
        } else {
            largest = hash;
        }
        if let Some(place) = to.get_mut(at) {
            *place = hash;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::HashSeed;

    #[test]
    fn reduction_stays_in_range_and_keeps_the_order() {
        for range in [1, 2, 3, 1 << 20, u64::MAX] {
            assert_eq!(reduce(0, range), 0);
            assert_eq!(reduce(u64::MAX, range), range - 1);
            assert!(reduce(1 << 40, range) <= reduce(1 << 50, range));
        }
    }

    fn sorts(mut hashes: Vec<KeyHash>) {
        let mut expected = hashes.clone();
        expected.sort_unstable();
        sort(&mut hashes);
        assert!(hashes == expected, "{} hashes", hashes.len());
    }

    fn random(n: u64) -> impl Iterator<Item = KeyHash> {
        (0..n).map(|i| KeyHash::of(&i.to_le_bytes(), HashSeed(3)))
    }

    #[test]
    fn any_number_of_hashes_is_sorted() {
        let most = MOST_AT_ONCE as u64;
        for n in (0..200).chain([1_000, most - 1, most, most + 1, 2 * most + 1, 300_000]) {
            sorts(random(n).collect());
        }
    }

    #[test]
    fn unevenly_spread_numbers_are_sorted() {
        for n in [70, 5_000, 200_000] {
            sorts((0..n).map(|i| KeyHash::from_raw(n - i)).collect());
            sorts((0..n).map(|i| KeyHash::from_raw((n - i) << 50)).collect());
            sorts((0..n).map(|i| KeyHash::from_raw(i * i)).collect());
            sorts((0..n).map(|i| KeyHash::from_raw(u64::MAX * (i % 2))).collect());
            sorts(random(n).map(|hash| KeyHash::from_raw(hash.raw() >> 5)).collect());
            sorts(random(n).map(|hash| KeyHash::from_raw(hash.raw() << 20)).collect());
            sorts(random(n / 50).collect::<Vec<_>>().into_iter().cycle().take(5_000).collect());
        }
    }
}
