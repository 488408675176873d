//! Plans whole blocks. For a false-positive rate (FPR) or a size, finds the filter of a kind or of
//! a classical variant. For an FPR and a size, finds the largest number of keys for a kind.

use super::layout::block_len_bytes;
use crate::error::{Error, Result};
use crate::filters::{Budgets, FilterKind};
use crate::plans::{MAX_KEYS, Plan};
use crate::spec::FilterSpec;

/// The goal of a planned filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The FPR of the specification: see [`FilterSpec::false_positive_rate`]. For a classical
    /// variant, the number is an upper bound on the FPR by the formula of the variant. The number
    /// must be above 0 and below 1.
    FalsePositiveRate(f64),
    /// The budget in bits per key. For a binary fuse filter, it limits the bits of the payload per
    /// key. For a plan of the crate `filterblock-family`, it limits the bits per key. For any other kind,
    /// it must be within the limits of [`FilterSpec::bits_per_key`].
    BitsPerKey(f64),
    /// The largest number of bytes that the whole block may take. A filter of `filterblock-family` has no
    /// block: this number limits its bytes.
    LenBytes(u64),
}

/// A planned filter and the length of its block, with page checksums, record of parameters and trailer.
/// Other records, such as that of a secret, are not included.
///
/// ```
/// use filterblock::{FilterKind, planning::{BlockPlan, Goal}};
///
/// let smallest = BlockPlan::new(FilterKind::BumpedRibbon, 1_000_000, Goal::FalsePositiveRate(0.01))?;
/// assert_eq!(smallest.len_bytes(), 843_746);
/// // The inverse: the largest number of keys for which such a block suffices.
/// let most = BlockPlan::most_keys(FilterKind::BumpedRibbon, 0.01, 843_746)?.expect("it holds a key");
/// assert!(most.plan().num_keys() >= 1_000_000);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockPlan {
    plan: Plan,
    len_bytes: u64,
}

impl BlockPlan {
    /// Plans a block of a kind for a goal: see [`Goal`]. For [`Goal::LenBytes`], plans the block
    /// that has the lowest FPR within the limit.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::new`]. Returns [`Error::Invalid`] with the reason if the kind
    /// has no filter for this goal and this number of keys.
    pub fn new(kind: FilterKind, num_keys: u64, goal: Goal) -> Result<Self> {
        let refused = |reason: &'static str| refused(kind, num_keys, reason);
        match goal {
            Goal::FalsePositiveRate(rate) => Self::of_plan(Plan::new(spec_of_rate(kind, rate)?, num_keys)?),
            // In a specification, the bits per key of a binary fuse filter are the width of a
            // fingerprint. Here they limit the size of the whole payload, so that kinds can be
            // compared.
            Goal::BitsPerKey(bits) if matches!(kind.info().budgets, Budgets::Widths(_)) => {
                let len = u64::try_from(millibits(num_keys, bits) / 8000).unwrap_or(u64::MAX);
                Self::of_plan(Plan::largest(kind, num_keys, len)?.ok_or_else(|| refused(SMALLEST_IS_LARGER))?)
            }
            Goal::BitsPerKey(bits) => Self::of_plan(Plan::new(FilterSpec::bits_per_key(kind, bits)?, num_keys)?),
            Goal::LenBytes(len) => Self::largest(kind, num_keys, len),
        }
    }

    /// Returns the plan for the largest number of keys whose block has at most `max_len_bytes`. The
    /// block is that of [`Goal::FalsePositiveRate`] with `rate`. Returns `None` if no block of one
    /// key is that short.
    ///
    /// With one more key, there is no such block, unless the number is [`MAX_KEYS`]. The sizes of
    /// some kinds, such as ribbons and binary fuse filters, do not always grow with the number of
    /// keys. So for these kinds, a block of still more keys may have at most `max_len_bytes`, too.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the kind takes no FPR as its budget or cannot reach `rate`, or
    /// if `rate` is not above 0 and below 1.
    pub fn most_keys(kind: FilterKind, rate: f64, max_len_bytes: u64) -> Result<Option<Self>> {
        let spec = spec_of_rate(kind, rate)?;
        let fitting = |keys| {
            let plan = Plan::new(spec, keys).and_then(Self::of_plan).ok();
            plan.filter(|plan| plan.len_bytes <= max_len_bytes)
        };
        let (mut low, mut high) = (1, MAX_KEYS);
        let mut best = fitting(low);
        while best.is_some() && low < high {
            let middle = low + (high - low).div_ceil(2);
            match fitting(middle) {
                Some(found) => (low, best) = (middle, Some(found)),
                None => high = middle - 1,
            }
        }
        Ok(best)
    }

    fn of_plan(plan: Plan) -> Result<Self> {
        let len = block_len_bytes(plan.payload_len_bytes(), plan.record_len_bytes());
        let reason = "its length in bytes does not fit in 64 bits; plan for fewer keys";
        let too_long = || refused(plan.spec().kind(), plan.num_keys(), reason);
        Ok(Self { plan, len_bytes: len.ok_or_else(too_long)? })
    }

    /// Returns the plan with the lowest FPR of all blocks with at most `max_len_bytes` bytes.
    fn largest(kind: FilterKind, num_keys: u64, max_len_bytes: u64) -> Result<Self> {
        let mut payload = max_len_bytes;
        // Each try shortens the payload by half of the excess only, because checksums and record of
        // layers shrink with the payload.
        loop {
            let plan = Plan::largest(kind, num_keys, payload)?;
            let plan = plan.ok_or_else(|| refused(kind, num_keys, SMALLEST_IS_LARGER))?;
            let len_bytes = block_len_bytes(plan.payload_len_bytes(), plan.record_len_bytes()).unwrap_or(u64::MAX);
            if len_bytes <= max_len_bytes {
                return Ok(Self { plan, len_bytes });
            }
            payload = plan.payload_len_bytes().saturating_sub((len_bytes - max_len_bytes).div_ceil(2).max(1));
        }
    }

    /// Returns the plan of the filter.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the length of the whole block in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the bits of the whole block per key.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        self.len_bytes as f64 * 8.0 / self.plan.num_keys() as f64
    }
}

#[doc(hidden)]
pub const SMALLEST_IS_LARGER: &str =
    "even the smallest filter of this kind needs more space than is given; give more space";

fn refused(filter: impl std::fmt::Display, num_keys: u64, reason: &'static str) -> Error {
    Error::invalid("filter", format!("{filter} for {num_keys} keys"), reason)
}

/// Returns the budget of all keys together in thousandths of a bit. Rounds the bits per key to a
/// thousandth.
#[doc(hidden)]
#[must_use]
pub fn millibits(num_keys: u64, bits_per_key: f64) -> u128 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let of_key = (bits_per_key * 1000.0).round() as u64;
    u128::from(num_keys) * u128::from(of_key)
}

/// Returns the specification of a kind for an FPR. If the kind cannot reach the FPR, the error
/// names the lowest FPR of the kind.
fn spec_of_rate(kind: FilterKind, rate: f64) -> Result<FilterSpec> {
    FilterSpec::false_positive_rate(kind, rate).map_err(|error| match FilterSpec::of_lowest_fpr(kind) {
        Some(spec) if rate > 0.0 && rate < 1.0 => {
            let reason = format!("its lowest FPR is {:.1e}, with {spec}; use a higher FPR", spec.expected_fpr());
            Error::invalid("filter", format!("{kind}:fpr={rate}"), reason)
        }
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_keys_is_the_inverse_of_the_smallest_block() {
        for kind in [FilterKind::Bloom, FilterKind::BlockedBloom, FilterKind::SplitBlock, FilterKind::BinaryFuse] {
            for (rate, len) in [(0.1, 200), (0.01, 65_536), (0.004, 1 << 30), (0.0001, 1 << 45)] {
                let Ok(Some(most)) = BlockPlan::most_keys(kind, rate, len) else {
                    assert!(matches!(kind, FilterKind::SplitBlock | FilterKind::BinaryFuse), "{kind} {rate} {len}");
                    continue;
                };
                let of = |keys| BlockPlan::new(kind, keys, Goal::FalsePositiveRate(rate));
                assert_eq!(of(most.plan().num_keys()).unwrap(), most);
                assert!(most.len_bytes() <= len);
                let next = of(most.plan().num_keys() + 1);
                assert!(next.is_err() || next.unwrap().len_bytes() > len, "{kind} {rate} {len}");
            }
            assert_eq!(BlockPlan::most_keys(kind, 0.01, 60).unwrap(), None);
            for rate in [0.0, 1.0, f64::NAN] {
                let error = BlockPlan::most_keys(kind, rate, 1000).unwrap_err().to_string();
                assert!(error.contains("above 0 and below 1"), "{error}");
            }
        }
    }

    #[test]
    fn a_goal_out_of_reach_is_refused_with_its_reason() {
        let reason = |kind, goal| BlockPlan::new(kind, 1000, goal).unwrap_err().to_string();
        let lowest = reason(FilterKind::SplitBlock, Goal::FalsePositiveRate(1e-9));
        assert!(lowest.contains("its lowest FPR is") && lowest.contains("with split-block:100"), "{lowest}");
        assert!(reason(FilterKind::Ribbon, Goal::BitsPerKey(33.0)).contains("from 1 to 32"));
        assert!(reason(FilterKind::BinaryFuse, Goal::BitsPerKey(8.0)).contains(SMALLEST_IS_LARGER));
        assert!(reason(FilterKind::Bloom, Goal::LenBytes(99)).contains(SMALLEST_IS_LARGER));
    }
}
