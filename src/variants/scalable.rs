//! The scalable Bloom filter: for a number of keys that nobody knows beforehand (Almeida, Baquero, Preguica, Hutchison,
//! "Scalable Bloom filters", 2007).
//!
//! ```text
//! stage 0  [k0 slices]                    rate P0        c keys
//! stage 1  [k1 slices      ]              rate P0 r      c s keys
//! stage 2  [k2 slices               ]     rate P0 r^2    c s^2 keys     new keys go here; asked first
//! ```
//!
//! A stage takes keys until half of its bits are set, and has `ceil(log2(1/rate))` slices: half full, a slice lets half of
//! the absent keys through. The rates are a geometric series, so all stages together stay below `P0 / (1 - r)`, which is the
//! rate that is asked for.
//!
//! * When: a set that grows without bound in memory, such as the URLs that a crawler has seen.
//! * When not: if the number of keys is known to a factor of two, `Bloom` is smaller and asked once; for a sorted file it is
//!   known exactly, and a filter block is built of it.
//! * Numbers: an absent key is asked of every stage, newest first, `log_s(n / c)` of them. At 1 % with s = 2 and r = 0.85 it
//!   takes 1.5 to 1.7 times the bits of a `Bloom` of a known number of keys when its last stage is full, and 3.3 to 4.5 times
//!   when that has just been opened.

use super::shape::check_rate_of;
use super::{Membership, Partitioned};
use crate::hash::{HashSeed, KeyHash};
use crate::variants::error::{Error, Result};

/// How the stages of a [`Scalable`] filter follow one another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// `s`: each stage takes so many times the keys of the one before; 2 or 4, say, and 1 to 1024.
    pub factor: u32,
    /// `r`: each stage has so many times the rate of the one before; above 0 and below 1, 0.8 to 0.9 for the least memory.
    pub tightening: f64,
}

impl Default for Growth {
    fn default() -> Self {
        Self { factor: 2, tightening: 0.85 }
    }
}

/// A scalable Bloom filter; see the [module](self).
#[derive(Debug, Clone)]
pub struct Scalable {
    /// At least one.
    stages: Vec<Partitioned>,
    initial_capacity: u64,
    /// `P0`.
    first_rate: f64,
    growth: Growth,
    seed: HashSeed,
}

impl Scalable {
    /// A filter that answers "maybe" for at most that share of absent keys, however many it takes; its first stage is made for
    /// `initial_capacity`.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless there is a key, `0 < rate < 1` and the growth is within its bounds;
    /// [`Error::TooLarge`].
    pub fn with_rate(initial_capacity: u64, false_positive_rate: f64, growth: Growth, seed: HashSeed) -> Result<Self> {
        check_rate_of(initial_capacity, false_positive_rate)?;
        let Growth { factor, tightening } = growth;
        if !((1..=1024).contains(&factor) && tightening > 0.0 && tightening < 1.0) {
            let reason = "expected a factor of 1 to 1024, and a tightening above 0 and below 1; try 2 and 0.85";
            return Err(Error::invalid("growth", format!("factor {factor}, tightening {tightening}"), reason));
        }
        let first_rate = false_positive_rate * (1.0 - tightening);
        let mut filter = Self { stages: Vec::new(), initial_capacity, first_rate, growth, seed };
        filter.open_stage()?;
        Ok(filter)
    }

    /// Adds a key; `true` if it was certainly not there before. What may be there is not added again.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when it takes another stage and there is no memory for it; nothing is changed.
    pub fn insert(&mut self, key: &[u8]) -> Result<bool> {
        self.insert_hash(KeyHash::of(key, self.seed))
    }

    /// As [`Scalable::insert`].
    ///
    /// # Errors
    /// As [`Scalable::insert`].
    pub fn insert_hash(&mut self, hash: KeyHash) -> Result<bool> {
        if self.may_contain_hash(hash) {
            return Ok(false);
        }
        if self.stages.last().is_none_or(is_full) {
            self.open_stage()?;
        }
        Ok(self.stages.last_mut().is_some_and(|stage| stage.insert_hash(hash)))
    }

    fn open_stage(&mut self) -> Result<()> {
        let too_large = Error::TooLarge { what: "a stage of a scalable filter" };
        let number = u32::try_from(self.stages.len()).unwrap_or(u32::MAX);
        let capacity = u64::from(self.growth.factor).checked_pow(number);
        let Some(capacity) = capacity.and_then(|times| times.checked_mul(self.initial_capacity)) else {
            return Err(too_large);
        };
        let rate = self.first_rate * self.growth.tightening.powi(number.cast_signed());
        // 64 slices are as good as a hash of 64 bits can be; the rate of so late a stage is lost in that of the first.
        let slices = (-rate.log2()).ceil().clamp(1.0, 64.0);
        // Half of the bits of a slice of s bits are set by s ln 2 keys. A key more than half is within reach for each slice.
        let slice_bits = (capacity as f64 / std::f64::consts::LN_2).ceil() + 2.0;
        if slice_bits >= 56f64.exp2() {
            return Err(too_large);
        }
        self.stages.try_reserve(1).map_err(|_| too_large)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and below 2^56")]
        self.stages.push(Partitioned::with_shape(slice_bits as u64, slices as u32, self.seed)?);
        Ok(())
    }

    /// Forgets all keys, and all stages but the first.
    pub fn clear(&mut self) {
        self.stages.truncate(1);
        self.stages.iter_mut().for_each(Partitioned::clear);
    }

    /// How many filters there are by now, and so how often an absent key is asked for.
    #[must_use]
    pub fn num_stages(&self) -> usize {
        self.stages.len()
    }

    /// The number of bits, of all stages.
    #[must_use]
    pub fn num_bits(&self) -> u64 {
        self.stages.iter().map(Partitioned::num_bits).sum()
    }

    /// The bits of a key in each stage, oldest first.
    pub fn num_slices(&self) -> impl Iterator<Item = u32> {
        self.stages.iter().map(Partitioned::num_slices)
    }

    /// What [`expected_rate`](Self::expected_rate) does not exceed: the rate that was asked for. No number of stages keeps it
    /// with more than `rate * 2^64` keys, since their hashes have 64 bits.
    #[must_use]
    pub fn rate_bound(&self) -> f64 {
        self.first_rate / (1.0 - self.growth.tightening)
    }

    /// The share of absent keys that is answered "maybe", as full as the stages are now, at most.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        1.0 - self.stages.iter().map(|stage| 1.0 - stage.expected_rate()).product::<f64>()
    }
}

/// Whether another key might set more than half of the bits.
fn is_full(stage: &Partitioned) -> bool {
    stage.count_ones() + u64::from(stage.num_slices()) > stage.num_bits() / 2
}

impl Membership for Scalable {
    fn seed(&self) -> HashSeed {
        self.seed
    }

    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.stages.iter().rev().any(|stage| stage.may_contain_hash(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_grow_by_the_factor_and_tighten_by_the_ratio() {
        let growth = Growth { factor: 4, tightening: 0.5 };
        let mut filter = Scalable::with_rate(100, 0.02, growth, HashSeed(1)).unwrap();
        for i in 0..8_000u64 {
            filter.insert(&crate::codec::u64_bytes(i)).unwrap();
            assert!(filter.expected_rate() <= filter.rate_bound());
        }
        // P0 = 0.02 (1 - 0.5) = 0.01: seven slices, and one more for each halving; 100 + 400 + 1600 keys, and 6400.
        assert_eq!(filter.num_slices().collect::<Vec<_>>(), [7, 8, 9, 10]);
        let keys = |stage: &Partitioned| stage.num_bits() as f64 / f64::from(stage.num_slices()) * 2f64.ln();
        for (stage, expected) in filter.stages.iter().zip([100.0, 400.0, 1_600.0, 6_400.0]) {
            assert!((keys(stage) - expected).abs() < 3.0, "{} for {expected}", keys(stage));
        }
        filter.clear();
        assert_eq!((filter.num_stages(), filter.expected_rate()), (1, 0.0));
    }

    #[test]
    fn an_unknown_number_of_keys_costs_up_to_four_times_the_bits() {
        let mut filter = Scalable::with_rate(1_000, 0.01, Growth::default(), HashSeed(1)).unwrap();
        let (mut keys, mut bits) = (0u64, Vec::new());
        while filter.num_stages() < 7 {
            let before = filter.num_bits();
            filter.insert(&crate::codec::u64_bytes(keys)).unwrap();
            keys += 1;
            if filter.num_bits() > before {
                let of_known = super::super::Bloom::with_rate(keys, 0.01, HashSeed(1)).unwrap().num_bits() as f64;
                bits.push((before as f64 / of_known, filter.num_bits() as f64 / of_known));
            }
        }
        // Before a stage is opened, and after.
        let as_said = |&(full, opened): &(f64, f64)| (1.4..1.7).contains(&full) && (3.3..4.6).contains(&opened);
        assert!(bits.iter().all(as_said), "{bits:?}");
    }

    #[test]
    fn a_first_stage_of_one_key_grows_as_any_other_does() {
        let mut filter = Scalable::with_rate(1, 0.5, Growth { factor: 1, tightening: 0.99 }, HashSeed(1)).unwrap();
        for i in 0..300u64 {
            filter.insert(&crate::codec::u64_bytes(i)).unwrap();
            assert!(filter.expected_rate() <= filter.rate_bound());
        }
        assert!((0..300u64).all(|i| filter.may_contain(&crate::codec::u64_bytes(i))));
    }

    #[test]
    fn growth_without_bounds_and_stages_without_memory_are_refused() {
        for (factor, tightening) in [(0, 0.5), (2_000, 0.5), (2, 0.0), (2, 1.0), (2, f64::NAN)] {
            let filter = Scalable::with_rate(9, 0.1, Growth { factor, tightening }, HashSeed(1));
            assert!(matches!(filter, Err(Error::Invalid { .. })), "{factor} {tightening}");
        }
        let filter = Scalable::with_rate(u64::MAX, 0.1, Growth::default(), HashSeed(1));
        assert!(matches!(filter, Err(Error::TooLarge { .. })));
    }
}
