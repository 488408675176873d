//! Discloses a set of keys in steps, by several filters that each have an FPR of one half. For
//! example, two people find out how many contacts they share, and neither sends a list.
//!
//! ```text
//! seed 1  [ 0 1 1 0 1 0 .. ]  1.44 bits per key  half of all absent keys pass
//! seed 2  [ 1 1 0 0 1 0 .. ]                     half of the remaining ones
//! seed 3  [ 0 0 1 1 0 1 .. ]                     half of the remaining ones: 12.5 %
//! ```
//! The filters never deny a present key. An absent key passes `i` filters with a probability of at
//! most about `0.5^i`. Both sides can stop as soon as they know enough. The owner of the set can
//! still claim of any single key that the answer "maybe" is a false positive.
//!
//! * When: parties compare sets and trust each other step by step.
//! * When not: to keep the set secret. A party that can guess keys can query each guess. If only
//!   space matters, use one [`Bloom`].
//! * Numbers: five filters together have an FPR of 3.1 %.

use super::{Bloom, Membership};
use crate::error::{Error, Result};
use filterblock::HashSeed;
use filterblock::internals::too_large;
use filterblock_simd::try_push;

/// The FPR of each filter.
const RATE: f64 = 0.5;
/// The difference between consecutive seeds. It is odd, so all seeds differ.
const NEXT_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Several filters of one set, with different seeds and an FPR of 50 % each; see the
/// [module](self).
///
/// ```
/// use filterblock::HashSeed;
/// use filterblock_family::Noisy;
/// let contacts = Noisy::new(["ann", "bob", "cem"], 5, HashSeed(3))?;
/// assert!(contacts.may_contain(b"ann", 2) && contacts.may_contain(b"ann", 5));
/// # Ok::<(), filterblock_family::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Noisy {
    filters: Vec<Bloom>,
}

impl Noisy {
    /// Builds `filters` filters of the keys. Their seeds are derived from `seed`.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if there are no keys or no filters, and [`Error::TooLarge`] if a
    /// filter does not fit in memory.
    pub fn new<K: AsRef<[u8]>>(
        keys: impl IntoIterator<Item = K, IntoIter: Clone>,
        filters: u32,
        seed: HashSeed,
    ) -> Result<Self> {
        if filters == 0 {
            return Err(Error::invalid("number of filters", filters, "expected at least one; try 10"));
        }
        let keys = keys.into_iter();
        let capacity = keys.clone().count() as u64;
        if capacity == 0 {
            return Err(Error::invalid("keys", "none", "expected at least one key; pass the keys of the set"));
        }
        let mut made = Vec::new();
        for number in 0..filters {
            let seed = HashSeed(seed.0.wrapping_add(u64::from(number).wrapping_mul(NEXT_SEED)));
            let filter = Bloom::with_fpr(capacity, RATE, seed)?;
            keys.clone().for_each(|key| _ = filter.insert(key.as_ref()));
            try_push(&mut made, filter).map_err(too_large("the filters"))?;
        }
        Ok(Self { filters: made })
    }

    /// Returns the filters, in the order in which to disclose them.
    #[must_use]
    pub fn filters(&self) -> &[Bloom] {
        &self.filters
    }

    /// Returns whether a key may be present, for a party that has received only the first `shown`
    /// filters. If there are fewer filters than `shown`, uses all of them. Returns `true` if
    /// `shown` is 0.
    #[must_use]
    pub fn may_contain(&self, key: &[u8], shown: usize) -> bool {
        self.filters.iter().take(shown).all(|filter| filter.may_contain(key))
    }

    /// Returns the combined FPR of the first `shown` filters at their current fill ratios. It is 1
    /// if `shown` is 0.
    #[must_use]
    pub fn expected_fpr(&self, shown: usize) -> f64 {
        self.filters.iter().take(shown).map(Bloom::expected_fpr).product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filterblock::internals::codec::u64_bytes;

    #[test]
    fn each_further_filter_halves_the_fpr_and_keeps_all_keys() {
        const ASKED: u64 = 200_000;
        let noisy = Noisy::new((0..50_000u64).map(u64_bytes), 8, HashSeed(9)).unwrap();
        for shown in 0..=8u32 {
            let with = |i: u64| noisy.may_contain(&u64_bytes(i), shown as usize);
            assert!((0..50_000).all(with));
            let found = (50_000..50_000 + ASKED).filter(|&i| with(i)).count() as f64;
            let rate = 0.5f64.powi(shown.cast_signed());
            // The fill ratio of each filter also deviates from one half, by about 0.001.
            let slack = ASKED as f64 * rate * 0.003 * f64::from(shown);
            let deviation = (ASKED as f64 * rate * (1.0 - rate)).sqrt();
            assert!((found - ASKED as f64 * rate).abs() <= 5.0 * deviation + slack, "{shown}: {found}");
            assert!((noisy.expected_fpr(shown as usize) / rate - 1.0).abs() < 0.003 * f64::from(shown.max(1)));
        }
        let bits: u64 = noisy.filters().iter().map(Bloom::num_bits).sum();
        assert!((bits as f64 / 50_000.0 / 8.0 - std::f64::consts::LOG2_E).abs() < 0.01);
    }

    #[test]
    fn zero_filters_and_zero_keys_are_refused() {
        assert!(matches!(Noisy::new(["a"], 0, HashSeed(1)), Err(Error::Invalid { .. })));
        assert!(matches!(Noisy::new([""; 0], 1, HashSeed(1)), Err(Error::Invalid { .. })));
    }
}
