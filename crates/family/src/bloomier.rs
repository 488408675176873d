//! Implements the Bloomier filter, a compact static map. It returns a value for each key of a set
//! that is known from the start (Chazelle, Kilian, Rubinfeld and Tal, "The Bloomier filter: an
//! efficient data structure for static support lookup tables", 2004).
//!
//! ```text
//! key ─▶ a row of 128 coefficients ─▶ XOR of the selected slots = [ fingerprint, q bits | value, v bits ]
//!                                     the key's own fingerprint? then the value, else "absent"
//! ```
//! [`Bloomier`] solves linear systems of all keys, as the ribbon filter does: one system for up to
//! 32 of the `v + q` bits. From 5,000 to a million keys, it usually takes 2 to 5 % more than
//! `v + q` bits per key. The paper's form, an XOR of three cells per key, takes 23 % more than
//! `v + q` bits. [`MutableBloomier`] is the paper's second form, whose values may change.
//!
//! * When: a map of short values (which file, which server, which version) must be small, and a
//!   wrong value for one absent key in `2^q` does no harm.
//! * When not: for keys that arrive later, for listing the keys, or for long values. Use a hash map
//!   there.
//! * Numbers: a lookup of a present key returns its value. An absent key is denied with probability
//!   `1 - 2^-q`.

mod mutable;

pub use mutable::MutableBloomier;

use super::Membership;
use crate::error::{Error, Result};
use crate::retrieval::Retrieval;
use filterblock::internals::too_large;
use filterblock::{HashSeed, KeyHash};
use filterblock_simd::ribbon::MAX_COLUMNS as MAX_RETRIEVED_BITS;
use filterblock_simd::try_push;

const WHAT: &str = "a Bloomier filter";

/// Returns the error for a filter that no attempt could build.
fn no_solution(seed: HashSeed) -> Error {
    let reason = "no attempt to build the Bloomier filter succeeded; build it again with another seed";
    Error::invalid("hash seed", seed.0, reason)
}

/// A multiplier that derives a key's fingerprint from its hash: output 40 of the generator that
/// `filterblock` uses for its constants, made odd.
const FINGERPRINT: u64 = 0xe2d3_d19e_fb49_25bb;

/// A map whose keys and values are fixed when it is built; see the [module](self).
///
/// ```
/// use filterblock::HashSeed;
/// use filterblock_family::Bloomier;
/// let port = Bloomier::new([("http", 80), ("https", 443)], 16, 20, HashSeed(3))?;
/// assert_eq!(port.get(b"https"), Some(443));
/// assert_eq!(port.get(b"gopher"), None);        // `Some` for one absent key in a million
/// # Ok::<(), filterblock_family::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Bloomier {
    /// The values and fingerprints, in groups of up to 32 columns.
    columns: Vec<Retrieval>,
    widths: Widths,
    len: u64,
    seed: HashSeed,
}

impl Bloomier {
    /// Builds a map from keys to values of `value_bits` bits, 1 to 64, with fingerprints of
    /// `fingerprint_bits` bits, 1 to 32.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for other widths, a value that is too wide, a key with two
    /// values, or two keys with equal hashes but different values. Also returns
    /// [`Error::Invalid`], which names the seed, if every attempt to solve a linear system of the
    /// keys fails. This is very unlikely. Returns [`Error::TooLarge`] if the filter does not fit in
    /// memory.
    pub fn new<K: AsRef<[u8]>>(
        entries: impl IntoIterator<Item = (K, u64)>,
        value_bits: u32,
        fingerprint_bits: u32,
        seed: HashSeed,
    ) -> Result<Self> {
        let widths = Widths::new(value_bits, fingerprint_bits)?;
        Self::of_entries(&hashed(entries, widths, seed)?, widths, seed)
    }

    fn of_entries(entries: &[(KeyHash, u64)], widths: Widths, seed: HashSeed) -> Result<Self> {
        let columns = widths.column_groups().map(|(first, width)| {
            let part = |hash: KeyHash, value: u64| low_bits(widths.word(hash, value) >> first, width);
            Retrieval::new(width, entries.iter().map(|&(hash, value)| (hash, part(hash, value))))
                .map_err(too_large(WHAT))?
                .ok_or_else(|| no_solution(seed))
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(Self { columns, widths, len: entries.len() as u64, seed })
    }

    /// Returns the value of a key. For an absent key, it returns `None` or, with probability
    /// `2^-fingerprint_bits`, an arbitrary value.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        self.get_hash(KeyHash::of(key, self.seed))
    }

    /// Works like [`Bloomier::get`], but takes the hash of the key.
    #[must_use]
    pub fn get_hash(&self, hash: KeyHash) -> Option<u64> {
        let groups = self.columns.iter().zip(self.widths.column_groups());
        let word = groups.fold(0, |word, (column, (first, _))| word | u128::from(column.get(hash)) << first);
        self.widths.value(hash, word)
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the map has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the memory of the values and fingerprints in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.columns.iter().map(Retrieval::len_bytes).sum()
    }
}

impl Membership for Bloomier {
    fn seed(&self) -> HashSeed {
        self.seed
    }

    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.get_hash(hash).is_some()
    }
}

/// The widths of values and fingerprints in bits.
#[derive(Debug, Clone, Copy)]
struct Widths {
    value: u32,
    fingerprint: u32,
}

impl Widths {
    fn new(value: u32, fingerprint: u32) -> Result<Self> {
        let invalid = |what, given, reason: &'static str| Err(Error::invalid(what, given, reason));
        if !(1..=64).contains(&value) {
            return invalid("width of a value", value, "expected 1 to 64 bits; give the width of the largest value");
        }
        if !(1..=32).contains(&fingerprint) {
            return invalid("width of a fingerprint", fingerprint, "expected 1 to 32 bits; try 8");
        }
        Ok(Self { value, fingerprint })
    }

    fn max_value(self) -> u64 {
        u64::MAX >> (64 - self.value)
    }

    fn check(self, value: u64) -> Result<()> {
        if value <= self.max_value() {
            return Ok(());
        }
        let reason = format!(
            "expected at most {}, because values have {} bits; build the map with wider values",
            self.max_value(),
            self.value
        );
        Err(Error::invalid("value", value, reason))
    }

    /// Returns the first bit and the width of each column group. Each group is solved as one linear
    /// system.
    fn column_groups(self) -> impl Iterator<Item = (u32, u32)> {
        let bits = self.value + self.fingerprint;
        (0..bits).step_by(MAX_RETRIEVED_BITS as usize).map(move |first| (first, (bits - first).min(MAX_RETRIEVED_BITS)))
    }

    /// Returns the word to store for a key: its fingerprint above its value.
    fn word(self, hash: KeyHash, value: u64) -> u128 {
        u128::from(fingerprint(hash, self.fingerprint)) << self.value | u128::from(value)
    }

    /// Returns the value in a word, or `None` if the word does not have this key's fingerprint.
    fn value(self, hash: KeyHash, word: u128) -> Option<u64> {
        #[expect(clippy::cast_possible_truncation, reason = "only the low bits are needed")]
        let value = word as u64 & self.max_value();
        (self.word(hash, value) == word).then_some(value)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "masked to 32 bits at most")]
fn low_bits(word: u128, width: u32) -> u32 {
    word as u32 & u32::MAX >> (32 - width)
}

/// Returns the fingerprint of a key. It behaves as if it were independent of the slots and
/// coefficients that the linear system derives from the same hash.
fn fingerprint(hash: KeyHash, width: u32) -> u32 {
    let mixed = hash.raw().wrapping_mul(FINGERPRINT);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(FINGERPRINT);
    (mixed >> 32) as u32 >> (32 - width)
}

/// Hashes the keys. Returns pairs of hash and value, sorted by hash and without duplicates.
fn hashed<K: AsRef<[u8]>>(
    entries: impl IntoIterator<Item = (K, u64)>,
    widths: Widths,
    seed: HashSeed,
) -> Result<Vec<(KeyHash, u64)>> {
    let mut found = Vec::new();
    for (key, value) in entries {
        widths.check(value)?;
        try_push(&mut found, (KeyHash::of(key.as_ref(), seed), value)).map_err(too_large(WHAT))?;
    }
    found.sort_unstable();
    found.dedup();
    if found.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b)) {
        // Among a billion keys, two have equal hashes with a probability of 3 %.
        let reason =
            "a key has two values, or two keys have equal hashes; give each key one value, or try another seed";
        return Err(Error::invalid("keys", format!("{} pairs", found.len()), reason));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use filterblock::internals::codec::u64_bytes;

    fn value_of(i: u64, width: u32) -> u64 {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - width)
    }

    #[test]
    fn every_key_has_its_value_at_any_width() {
        for keys in [0u64, 1, 2, 127, 128, 129, 1_000, 20_000] {
            for (value, fingerprint) in [(1, 1), (1, 32), (8, 8), (16, 16), (32, 20), (64, 1), (64, 32), (33, 31)] {
                let entries = (0..keys).map(|i| (u64_bytes(i), value_of(i, value)));
                let map = Bloomier::new(entries, value, fingerprint, HashSeed(7)).unwrap();
                assert!((0..keys).all(|i| map.get(&u64_bytes(i)) == Some(value_of(i, value))), "{keys} {value}");
                assert_eq!((map.len(), map.is_empty()), (keys, keys == 0));
            }
        }
    }

    #[test]
    fn a_system_without_a_solution_names_the_seed() {
        // Two values for one hash make every system unsolvable.
        let entries = [(KeyHash::from_raw(7), 1), (KeyHash::from_raw(7), 2)];
        let widths = Widths::new(8, 8).unwrap();
        for error in [
            Bloomier::of_entries(&entries, widths, HashSeed(3)).unwrap_err(),
            MutableBloomier::of_entries(&entries, widths, HashSeed(3)).unwrap_err(),
        ] {
            assert_eq!(
                error.to_string(),
                "invalid hash seed \"3\": no attempt to build the Bloomier filter succeeded; build it again with \
                 another seed"
            );
            assert!(matches!(error, Error::Invalid { what: "hash seed", .. }), "{error:?}");
        }
    }

    #[test]
    fn an_absent_key_passes_once_in_two_to_the_fingerprint() {
        const ASKED: u64 = 400_000;
        for (value, fingerprint) in [(1, 1), (1, 4), (8, 8), (64, 6), (28, 10), (31, 9)] {
            let entries = (0..10_000u64).map(|i| (u64_bytes(i), value_of(i, value)));
            let map = Bloomier::new(entries, value, fingerprint, HashSeed(1)).unwrap();
            let found = (10_000..10_000 + ASKED).filter(|&i| map.may_contain(&u64_bytes(i))).count() as f64;
            let rate = (-f64::from(fingerprint)).exp2();
            let (mean, variance) = (ASKED as f64 * rate, ASKED as f64 * rate * (1.0 - rate));
            assert!((found - mean).abs() < 5.0 * variance.sqrt(), "{value} {fingerprint}: {found} for {mean}");
        }
    }

    #[test]
    fn a_map_takes_little_more_than_its_bits() {
        let entries = (0..16_000u64).map(|i| (u64_bytes(i), i % 256));
        let map = Bloomier::new(entries, 8, 8, HashSeed(1)).unwrap();
        let bits = map.len_bytes() as f64 * 8.0 / 16_000.0;
        assert!((16.0..16.0 * 1.035).contains(&bits), "{bits} bits per key");
    }

    #[test]
    fn invalid_entries_and_widths_are_refused() {
        let make = |entries: &[(&str, u64)], value, fingerprint| {
            Bloomier::new(entries.iter().copied(), value, fingerprint, HashSeed(1)).err()
        };
        assert!(make(&[("a", 1), ("a", 1), ("b", 1)], 1, 1).is_none());
        for (entries, value, fingerprint) in [
            (&[("a", 1), ("b", 2), ("a", 3)][..], 2, 1),
            (&[("a", 4)], 2, 1),
            (&[], 0, 1),
            (&[], 65, 1),
            (&[], 1, 0),
            (&[], 1, 33),
        ] {
            assert!(matches!(make(entries, value, fingerprint), Some(Error::Invalid { .. })), "{entries:?}");
        }
    }
}
