//! Implements the scalable Bloom filter, for sets whose final size is unknown (Almeida, Baquero,
//! Preguica, Hutchison, "Scalable Bloom filters", 2007).
//!
//! ```text
//! stage 0  [k0 slices]                    FPR P0         c keys
//! stage 1  [k1 slices      ]              FPR P0 r       c s keys
//! stage 2  [k2 slices               ]     FPR P0 r^2     c s^2 keys  new keys go here; asked first
//! ```
//!
//! A stage takes keys until half of its bits are set. At that fill ratio, half of the absent keys
//! pass a slice, so a stage with the FPR `f` has `ceil(log2(1/f))` slices, but at most 64. The FPRs
//! are a geometric series, so all stages together stay below `P0 / (1 - r)`, which is the requested
//! FPR. [`Scalable::fpr_bound`] says up to how many keys this holds.
//!
//! * When: a set grows in memory without a known limit, such as the URLs that a crawler has seen.
//! * When not: if the number of keys is known within a factor of two, `Bloom` is smaller and needs
//!   one lookup. For an SST file, the number is known exactly; build a filter block.
//! * Numbers: a lookup asks the stages one by one, newest first, until a stage answers "maybe". For
//!   `n` keys and s > 1, there are about `log_s(1 + n (s - 1) / c)` stages. At 1 % with s = 2 and
//!   r = 0.85, a filter of one to six full stages takes 1.4 to 1.7 times the bits of a `Bloom` for
//!   the same keys. It takes 3.3 to 4.6 times the bits when the next stage has just been opened. A
//!   test in this file checks these bounds for c = 1,000.

use super::shape::check_rate_of;
use super::{Membership, Partitioned};
use crate::error::{Error, Result};
use filterblock::{HashSeed, KeyHash};

/// The growth of the stages of a [`Scalable`] filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// `s`: the capacity of a stage divided by the capacity of the previous stage, 1 to 1024. Usual
    /// values are 2 and 4.
    pub factor: u32,
    /// `r`: the FPR of a stage divided by the FPR of the previous stage, above 0 and below 1.
    /// Values from 0.8 to 0.9 need the least memory in the paper.
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
    /// The stages, oldest first. There is at least one.
    stages: Vec<Partitioned>,
    initial_capacity: u64,
    /// `P0`: the FPR of the first stage.
    first_rate: f64,
    growth: Growth,
    seed: HashSeed,
}

impl Scalable {
    /// Creates a filter whose FPR is at most `false_positive_rate` for any number of keys far below
    /// the limit of 64-bit hashes: see [`fpr_bound`](Self::fpr_bound). Its first stage has space
    /// for about `initial_capacity` keys.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] unless `initial_capacity > 0`, the growth is within its bounds,
    /// and the rate is below 1 and at least about `initial_capacity / 2^63`. Returns
    /// [`Error::TooLarge`] if the filter does not fit in memory.
    pub fn with_fpr(initial_capacity: u64, false_positive_rate: f64, growth: Growth, seed: HashSeed) -> Result<Self> {
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

    /// Adds a key and returns `true` if the key is certainly absent. Otherwise changes nothing and
    /// returns `false`, because the filter already answers "maybe" for the key.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the key needs another stage that does not fit in memory. The
    /// filter is then unchanged.
    pub fn insert(&mut self, key: &[u8]) -> Result<bool> {
        self.insert_hash(KeyHash::of(key, self.seed))
    }

    /// Works like [`Scalable::insert`], but takes the hash of the key.
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
        let too_large = Error::TooLarge {
            what: "a stage of the scalable filter does not fit in memory; free memory, or create the filter with a \
                   smaller capacity or growth factor",
        };
        let number = u32::try_from(self.stages.len()).unwrap_or(u32::MAX);
        let capacity = u64::from(self.growth.factor).checked_pow(number);
        let Some(capacity) = capacity.and_then(|times| times.checked_mul(self.initial_capacity)) else {
            return Err(too_large);
        };
        let rate = self.first_rate * self.growth.tightening.powi(number.cast_signed());
        // More than 64 slices do not help, because a hash has 64 bits. If the requested FPR is far
        // above 2^-64, the FPR of a stage with 64 slices is negligible.
        let slices = (-rate.log2()).ceil().clamp(1.0, 64.0);
        // `b ln 2` keys set half of the bits of a slice of `b` bits. The two extra bits of each
        // slice leave space for one more key.
        let slice_bits = (capacity as f64 / std::f64::consts::LN_2).ceil() + 2.0;
        if slice_bits >= 56f64.exp2() {
            return Err(too_large);
        }
        self.stages.try_reserve(1).map_err(|_| too_large)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and below 2^56")]
        self.stages.push(Partitioned::with_shape(slice_bits as u64, slices as u32, self.seed)?);
        Ok(())
    }

    /// Removes all keys, and all stages except the first.
    pub fn clear(&mut self) {
        self.stages.truncate(1);
        self.stages.iter_mut().for_each(Partitioned::clear);
    }

    /// Returns the number of stages. A lookup asks all of them before it answers "absent".
    #[must_use]
    pub fn num_stages(&self) -> usize {
        self.stages.len()
    }

    /// Returns the number of bits of all stages.
    #[must_use]
    pub fn num_bits(&self) -> u64 {
        self.stages.iter().map(Partitioned::num_bits).sum()
    }

    /// Returns the number of slices of each stage, oldest stage first. A key has one bit in each
    /// slice of its stage.
    pub fn num_slices(&self) -> impl Iterator<Item = u32> {
        self.stages.iter().map(Partitioned::num_slices)
    }

    /// Returns the requested FPR. [`expected_fpr`](Self::expected_fpr) does not exceed the
    /// requested FPR if the number of keys is far below `fpr_bound * 2^64`.
    #[must_use]
    pub fn fpr_bound(&self) -> f64 {
        self.first_rate / (1.0 - self.growth.tightening)
    }

    /// Returns an upper bound on the FPR at the current fill ratios of the stages.
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        1.0 - self.stages.iter().map(|stage| 1.0 - stage.expected_fpr()).product::<f64>()
    }
}

/// Returns whether more than half of the bits could be set after one more key.
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
        let mut filter = Scalable::with_fpr(100, 0.02, growth, HashSeed(1)).unwrap();
        for i in 0..8_000u64 {
            filter.insert(&filterblock::internals::codec::u64_bytes(i)).unwrap();
            assert!(filter.expected_fpr() <= filter.fpr_bound());
        }
        // P0 = 0.02 (1 - 0.5) = 0.01 gives seven slices, and each halving adds one. The stages hold
        // 100, 400, 1600 and 6400 keys.
        assert_eq!(filter.num_slices().collect::<Vec<_>>(), [7, 8, 9, 10]);
        let keys = |stage: &Partitioned| stage.num_bits() as f64 / f64::from(stage.num_slices()) * 2f64.ln();
        for (stage, expected) in filter.stages.iter().zip([100.0, 400.0, 1_600.0, 6_400.0]) {
            assert!((keys(stage) - expected).abs() < 3.0, "{} for {expected}", keys(stage));
        }
        filter.clear();
        assert_eq!((filter.num_stages(), filter.expected_fpr()), (1, 0.0));
    }

    #[test]
    fn a_growing_filter_takes_1_4_to_4_6_times_the_bits_of_a_bloom() {
        let mut filter = Scalable::with_fpr(1_000, 0.01, Growth::default(), HashSeed(1)).unwrap();
        let (mut keys, mut bits) = (0u64, Vec::new());
        while filter.num_stages() < 7 {
            let before = filter.num_bits();
            filter.insert(&filterblock::internals::codec::u64_bytes(keys)).unwrap();
            keys += 1;
            if filter.num_bits() > before {
                let of_known = super::super::Bloom::with_fpr(keys, 0.01, HashSeed(1)).unwrap().num_bits() as f64;
                bits.push((before as f64 / of_known, filter.num_bits() as f64 / of_known));
            }
        }
        // The ratios just before a stage opens, and just after.
        let as_documented = |&(full, opened): &(f64, f64)| (1.4..1.7).contains(&full) && (3.3..4.6).contains(&opened);
        assert!(bits.iter().all(as_documented), "{bits:?}");
    }

    #[test]
    fn invalid_growth_and_stages_beyond_memory_are_refused() {
        for (factor, tightening) in [(0, 0.5), (2_000, 0.5), (2, 0.0), (2, 1.0), (2, f64::NAN)] {
            let filter = Scalable::with_fpr(9, 0.1, Growth { factor, tightening }, HashSeed(1));
            assert!(matches!(filter, Err(Error::Invalid { .. })), "{factor} {tightening}");
        }
        let filter = Scalable::with_fpr(u64::MAX, 0.1, Growth::default(), HashSeed(1));
        assert!(matches!(filter, Err(Error::TooLarge { .. })));
    }
}
