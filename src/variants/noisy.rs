//! Several filters of one set, each of which is wrong half of the time: a set is shown in steps (in the spirit of the
//! exchange of contact lists by filters that give nobody away).
//!
//! ```text
//! seed 1  [ 0 1 1 0 1 0 .. ]  1.44 bits a key    half of all strangers pass
//! seed 2  [ 1 1 0 0 1 0 .. ]                     half of those
//! seed 3  [ 0 0 1 1 0 1 .. ]                     half of those: 12.5 %
//! ```
//! Whoever has the first filters is as sure of a key as they are many: a member is never denied, a stranger passes `i` of
//! them with probability `0.5^i`. So two sides can stop as soon as they know enough, and each can deny any single key.
//!
//! * When: sets are compared between parties that trust each other by steps.
//! * When not: it is no secret. Whoever can guess keys can ask for all of them, and all filters together tell as much as
//!   one Bloom filter of that rate; where only space counts, take one [`Bloom`].
//! * Numbers: five filters answer at 3.1 %.

use super::{Bloom, Membership};
use crate::hash::HashSeed;
use crate::variants::error::{Error, Result};

/// The rate of each filter.
const RATE: f64 = 0.5;
/// What one seed is apart from the next: odd, so that no two are alike.
const NEXT_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Filters of one set, at 50 % each, under different seeds; see the [module](self).
///
/// ```
/// use filterblock::{HashSeed, variants::Noisy};
/// let contacts = Noisy::new(["ann", "bob", "cem"], 5, HashSeed(3))?;
/// assert!(contacts.may_contain(b"ann", 2) && contacts.may_contain(b"ann", 5));
/// # Ok::<(), filterblock::variants::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Noisy {
    filters: Vec<Bloom>,
}

impl Noisy {
    /// `filters` filters of these keys; their seeds follow from `seed`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no keys or no filters; [`Error::TooLarge`].
    pub fn new<K: AsRef<[u8]>>(
        keys: impl IntoIterator<Item = K, IntoIter: Clone>,
        filters: u32,
        seed: HashSeed,
    ) -> Result<Self> {
        if filters == 0 {
            return Err(Error::invalid("number of filters", filters, "expected one or more; try 10"));
        }
        let keys = keys.into_iter();
        let capacity = keys.clone().count() as u64;
        let made = (0..filters).map(|number| {
            let seed = HashSeed(seed.0.wrapping_add(u64::from(number).wrapping_mul(NEXT_SEED)));
            let filter = Bloom::with_rate(capacity, RATE, seed)?;
            keys.clone().for_each(|key| _ = filter.insert(key.as_ref()));
            Ok(filter)
        });
        Ok(Self { filters: made.collect::<Result<_>>()? })
    }

    /// The filters, to be shown one after the other.
    #[must_use]
    pub fn filters(&self) -> &[Bloom] {
        &self.filters
    }

    /// What somebody knows of a key who has been shown the first filters; "maybe" without any.
    #[must_use]
    pub fn may_contain(&self, key: &[u8], shown: usize) -> bool {
        self.filters.iter().take(shown).all(|filter| filter.may_contain(key))
    }

    /// The share of strangers that pass the first filters, as full as they are.
    #[must_use]
    pub fn expected_rate(&self, shown: usize) -> f64 {
        self.filters.iter().take(shown).map(Bloom::expected_rate).product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::u64_bytes;

    /// Two-sided, at five standard deviations.
    #[test]
    fn each_filter_more_halves_the_strangers_and_denies_no_member() {
        const ASKED: u64 = 200_000;
        let noisy = Noisy::new((0..50_000u64).map(u64_bytes), 8, HashSeed(9)).unwrap();
        for shown in 0..=8u32 {
            let with = |i: u64| noisy.may_contain(&u64_bytes(i), shown as usize);
            assert!((0..50_000).all(with));
            let found = (50_000..50_000 + ASKED).filter(|&i| with(i)).count() as f64;
            let rate = 0.5f64.powi(shown.cast_signed());
            // The filters' own fill deviates too: by 0.1 % of half, each.
            let slack = ASKED as f64 * rate * 0.003 * f64::from(shown);
            let deviation = (ASKED as f64 * rate * (1.0 - rate)).sqrt();
            assert!((found - ASKED as f64 * rate).abs() <= 5.0 * deviation + slack, "{shown}: {found}");
            assert!((noisy.expected_rate(shown as usize) / rate - 1.0).abs() < 0.003 * f64::from(shown.max(1)));
        }
        let bits: u64 = noisy.filters().iter().map(Bloom::num_bits).sum();
        assert!((bits as f64 / 50_000.0 / 8.0 - std::f64::consts::LOG2_E).abs() < 0.01);
    }

    #[test]
    fn no_filter_and_no_key_are_refused() {
        assert!(matches!(Noisy::new(["a"], 0, HashSeed(1)), Err(Error::Invalid { .. })));
        assert!(matches!(Noisy::new([""; 0], 1, HashSeed(1)), Err(Error::Invalid { .. })));
    }
}
