//! Implements the standard Bloom filter (Bloom, "Space/time trade-offs in hash coding with
//! allowable errors", 1970). Many threads can add keys to it at once.
//!
//! ```text
//! key -> hash -> x0 ------ x1 ------ x2         k = 3 bits of m
//!                 v         v         v
//!         0 0 1 0 1 0 0 1 0 1 0 0 0 1 1 0 ...   "absent" if one of them is 0
//! ```
//!
//! Bits and probes are the same as in a filter block of the kind `bloom`, so [`Bloom::freeze`]
//! needs no keys.
//!
//! * When: keys arrive one by one, their number is known within a factor of two, and no key is
//!   removed.
//! * When not: if all keys are known at once, a [`FilterBuilder`](filterblock::FilterBuilder) makes a smaller filter
//!   (`bumped-ribbon`) or a faster one (`blocked-bloom`). For an unknown number of keys use
//!   `Scalable`. To remove keys use `DLeft` or `Counting`.
//! * Numbers: `log2(1/FPR) / ln 2` bits per key, which is 9.6 at 1 %. The FPR with `n` keys is
//!   about `(1 - e^(-kn/m))^k`.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Membership;
use super::shape::Shape;
use crate::error::Result;
use filterblock::FilterKind;
use filterblock::internals::codec;
use filterblock::internals::zeros;
use filterblock::internals::{bloom, math, seal};
use filterblock::{HashSeed, KeyHash};

/// A standard Bloom filter; see the [module](self).
///
/// ```
/// use filterblock::{FilterBlock, HashSeed, Verify};
/// use filterblock_family::{Bloom, Membership};
/// let seen = Bloom::with_fpr(1_000, 0.01, HashSeed(7))?;
/// assert!(seen.insert(b"first"));
/// assert!(seen.may_contain(b"first"));
/// let block = seen.freeze()?;
/// let block = FilterBlock::open_any(block.as_slice(), Verify::AtOpen)?;
/// assert!(block.may_contain(block.hasher().key(b"first")));
/// # Ok::<(), filterblock_family::Error>(())
/// ```
#[derive(Debug)]
pub struct Bloom {
    /// Bit `i` is bit `i % 64` of word `i / 64`. Bits after the filter's last bit are zero.
    words: Vec<AtomicU64>,
    shape: Shape,
    seed: HashSeed,
}

impl Bloom {
    /// Creates a filter whose expected FPR is at most `false_positive_rate` while it holds at most
    /// `capacity` keys.
    pub fn with_fpr(capacity: u64, false_positive_rate: f64, seed: HashSeed) -> Result<Self> {
        Self::of_shape(Shape::for_rate(capacity, false_positive_rate)?, seed)
    }

    /// Creates a filter of `bits` bits, rounded up to whole bytes. Each key has `probes` probes, 1
    /// to 30.
    pub fn with_shape(bits: u64, probes: u32, seed: HashSeed) -> Result<Self> {
        Self::of_shape(Shape::new(bits, probes)?, seed)
    }

    pub(super) fn of_shape(shape: Shape, seed: HashSeed) -> Result<Self> {
        Ok(Self { words: zeros(shape.cells.div_ceil(64), "a Bloom filter")?, shape, seed })
    }

    /// Adds a key. Returns `true` if the key was certainly absent before. `false` means that it may
    /// have been present.
    ///
    /// If several threads add the same key at once, more than one of them may get `true`.
    pub fn insert(&self, key: &[u8]) -> bool {
        self.insert_hash(KeyHash::of(key, self.seed))
    }

    /// Works like [`Bloom::insert`], but takes the hash of the key.
    pub fn insert_hash(&self, hash: KeyHash) -> bool {
        let mut is_new = false;
        for bit in bloom::positions(hash, self.shape.cells, self.shape.probes) {
            is_new |= self.set(bit);
        }
        is_new
    }

    /// Adds the keys with these hashes. It is faster than [`Bloom::insert_hash`], because no other
    /// thread can use the filter meanwhile, so that it needs no atomic operations.
    pub fn insert_hashes(&mut self, hashes: &[KeyHash]) {
        for &hash in hashes {
            for bit in bloom::positions(hash, self.shape.cells, self.shape.probes) {
                if let Some(word) = self.words.get_mut((bit / 64) as usize) {
                    *word.get_mut() |= 1 << (bit % 64);
                }
            }
        }
    }

    /// Sets a bit. Returns whether the bit was zero before.
    pub(super) fn set(&self, bit: u64) -> bool {
        let mask = 1 << (bit % 64);
        // Relaxed ordering is enough: while threads share the filter, bits only change from 0 to 1.
        // A thread that synchronizes with the end of an insertion sees all bits of that insertion.
        // Another thread may see only some of them, and may answer "absent".
        self.words.get((bit / 64) as usize).is_some_and(|word| word.fetch_or(mask, Ordering::Relaxed) & mask == 0)
    }

    fn is_set(&self, bit: u64) -> bool {
        self.words.get((bit / 64) as usize).is_none_or(|word| word.load(Ordering::Relaxed) >> (bit % 64) & 1 == 1)
    }

    /// Returns the number of bits.
    #[must_use]
    pub fn num_bits(&self) -> u64 {
        self.shape.cells
    }

    /// Returns the number of probes of a key. Two probes may hit the same bit.
    #[must_use]
    pub fn num_probes(&self) -> u32 {
        self.shape.probes
    }

    /// Returns the number of bits that are set.
    #[must_use]
    pub fn count_ones(&self) -> u64 {
        self.words().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Returns the FPR at the current fill ratio: about `(ones / bits)^probes`.
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        self.shape.rate_of(self.count_ones())
    }

    /// Estimates the number of distinct keys from the bits that are set: `-(m/k) ln(1 - ones/m)`
    /// (Swamidass and Baldi 2007). If all bits are set, returns the estimate for one zero bit.
    #[must_use]
    pub fn estimated_keys(&self) -> f64 {
        math::estimated_keys(self.count_ones(), self.shape.cells, self.shape.probes)
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.words.iter_mut().for_each(|word| *word.get_mut() = 0);
    }

    /// Returns a filter block that gives the current answers of this filter. The block's number of
    /// keys is [`estimated_keys`](Self::estimated_keys), rounded. It is at least 1 and at most the
    /// number of bits. If no bit is set, the block has the kind `empty` and 0 keys.
    pub fn freeze(&self) -> Result<Vec<u8>> {
        let payload = self.to_payload()?;
        let set_bits: u64 = payload.iter().map(|byte| u64::from(byte.count_ones())).sum();
        if set_bits == 0 {
            return Ok(seal(self.seed, FilterKind::Empty, 0, 0, Vec::new())?);
        }
        let keys = math::estimated_keys(set_bits, self.shape.cells, self.shape.probes);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the number of bits")]
        let keys = (keys.round() as u64).clamp(1, self.shape.cells);
        #[expect(clippy::cast_possible_truncation, reason = "at most 30")]
        let probes = self.shape.probes as u8;
        Ok(seal(self.seed, FilterKind::Bloom, probes, keys, payload)?)
    }

    /// Returns the bits in the layout of a `bloom` block: bit `i` is bit `i % 8` of byte `i / 8`.
    pub(super) fn to_payload(&self) -> Result<Vec<u8>> {
        let mut payload = zeros(self.shape.cells / 8, "a filter block")?;
        for (bytes, word) in payload.chunks_mut(8).zip(self.words()) {
            bytes.iter_mut().zip(codec::u64_bytes(word)).for_each(|(byte, of_word)| *byte = of_word);
        }
        Ok(payload)
    }

    /// Copies the filter. Unlike `clone`, it reports a lack of memory as an error.
    pub fn try_clone(&self) -> Result<Self> {
        let mut copy = Self::of_shape(self.shape, self.seed)?;
        copy.words.iter_mut().zip(self.words()).for_each(|(of_copy, word)| *of_copy.get_mut() = word);
        Ok(copy)
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Sets all bits of a word that are set in `bits`. Ignores bits after the filter's last bit.
    pub(super) fn or_word(&self, index: usize, bits: u64) {
        let excess = (index as u64 + 1).saturating_mul(64).saturating_sub(self.shape.cells).min(64);
        let mask = u64::MAX.checked_shr(u32::try_from(excess).unwrap_or(64)).unwrap_or(0);
        if let Some(word) = self.words.get(index) {
            word.fetch_or(bits & mask, Ordering::Relaxed);
        }
    }

    /// Clears all bits of a word that are zero in `bits`.
    pub(super) fn and_word(&mut self, index: usize, bits: u64) {
        if let Some(word) = self.words.get_mut(index) {
            *word.get_mut() &= bits;
        }
    }

    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        self.words_from(0)
    }

    pub(super) fn words_from(&self, index: usize) -> impl Iterator<Item = u64> {
        self.words.iter().skip(index).map(|word| word.load(Ordering::Relaxed))
    }
}

impl Membership for Bloom {
    fn seed(&self) -> HashSeed {
        self.seed
    }

    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        bloom::positions(hash, self.shape.cells, self.shape.probes).all(|bit| self.is_set(bit))
    }
}

/// `clone` aborts the process if there is no memory for the copy.
impl Clone for Bloom {
    fn clone(&self) -> Self {
        Self { words: self.words().map(AtomicU64::new).collect(), shape: self.shape, seed: self.seed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filterblock::{FilterBlock, FilterOptions, Verify};

    fn key(i: u64) -> [u8; 8] {
        codec::u64_bytes(i)
    }

    #[test]
    fn a_frozen_filter_with_set_bits_counts_at_least_one_key() {
        let bloom = Bloom::with_shape(64, 30, HashSeed(5)).unwrap();
        bloom.set(9);
        assert!(bloom.estimated_keys() < 0.5);
        let bytes = bloom.freeze().unwrap();
        assert_eq!(FilterBlock::open_any(bytes.as_slice(), Verify::AtOpen).unwrap().metadata().num_keys, 1);
    }

    #[test]
    fn many_hashes_set_the_bits_of_each() {
        let hashes: Vec<KeyHash> = (0..1_000).map(|i| KeyHash::of(&key(i), HashSeed(3))).collect();
        let (mut many, one) =
            (Bloom::with_fpr(1_000, 0.01, HashSeed(3)).unwrap(), Bloom::with_fpr(1_000, 0.01, HashSeed(3)).unwrap());
        many.insert_hashes(&hashes);
        for &hash in &hashes {
            one.insert_hash(hash);
        }
        assert!(many.words().eq(one.words()) && many.count_ones() > 0);
    }

    #[test]
    fn a_frozen_filter_equals_the_block_of_a_builder() {
        let mut builder = FilterOptions::new("bloom:10".parse().unwrap()).builder(HashSeed(3)).unwrap();
        let bloom = Bloom::with_shape(10_048, 7, HashSeed(3)).unwrap();
        for i in 0..1_000 {
            builder.add(builder.hasher().key(&key(i)));
            bloom.insert(&key(i));
        }
        let built = builder.finish().unwrap().bytes;
        assert_eq!(bloom.to_payload().unwrap(), built[..10_048 / 8]);
        assert_eq!(bloom.freeze().unwrap()[..10_048 / 8], built[..10_048 / 8]);
    }

    #[test]
    fn threads_that_insert_at_once_lose_no_key() {
        // The filter has few words, so threads often change the same word. Each key is added once,
        // so no second insertion of a key repairs a lost bit.
        for round in 0..200 {
            let bloom = Bloom::with_shape(4_096, 2, HashSeed(round)).unwrap();
            let (start, keys) = (std::sync::Barrier::new(4), 2_000);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (bloom, start) = (&bloom, &start);
                    scope.spawn(move || {
                        start.wait();
                        (thread..keys).step_by(4).for_each(|i| _ = bloom.insert(&key(i)));
                    });
                }
            });
            let alone = Bloom::with_shape(4_096, 2, HashSeed(round)).unwrap();
            (0..keys).for_each(|i| _ = alone.insert(&key(i)));
            assert!(alone.words().eq(bloom.words()));
            assert!(alone.clone().words().eq(bloom.words()));
        }
    }

    #[test]
    fn a_key_is_new_once_and_again_after_a_clear() {
        let mut bloom = Bloom::with_fpr(10, 0.01, HashSeed(1)).unwrap();
        assert_eq!((bloom.insert(b"a"), bloom.insert(b"a")), (true, false));
        assert!(bloom.count_ones() > 0 && bloom.expected_fpr() > 0.0);
        bloom.clear();
        assert_eq!((bloom.count_ones(), bloom.expected_fpr(), bloom.estimated_keys()), (0, 0.0, 0.0));
        assert!(!bloom.may_contain(b"a") && bloom.insert(b"a"));
    }
}
