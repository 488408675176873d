//! Plans the size, the false-positive rate (FPR) and the query cost of a filter before the filter is
//! built: see [`crate::planning`].

use crate::error::{Error, Result};
use crate::filters::{Budgets, FilterKind, MILLIBITS, Planned, TOO_LARGE, math};
use crate::spec::FilterSpec;

pub use crate::filters::math::classical_fpr;

/// The maximum number of probes that [`shortest`] tries. It is the best number for an FPR of
/// 2^-100.
const MAX_TRIED_PROBES: u32 = 100;

/// Returns `(1 - e^(-kn/m))^k`, the limit of [`classical_fpr`] for many bits.
///
/// With 0 probes, the result is 1. With 0 keys and some probes, it is 0. With 0 bits, some keys and
/// some probes, it is 1.
#[must_use]
pub fn simplified_fpr(num_keys: u64, num_bits: u64, probes: u32) -> f64 {
    let throws = num_keys as f64 * f64::from(probes);
    math::raised(throws, -1.0 / num_bits as f64, probes)
}

/// Returns `g(p) = -(m/n) ln p ln(1 - p)`, the natural logarithm of the FPR of a standard Bloom
/// filter. `m/n` is `bits_per_key`, and `p` is `empty_share`, the share of bits that stay 0.
/// Returns NaN unless `p` is above 0 and below 1.
///
/// The number of probes that leaves this share is `-(m/n) ln p`. The function is symmetric about
/// its minimum at `p = 1/2` (Mitzenmacher 2002).
#[must_use]
pub fn fpr_exponent(empty_share: f64, bits_per_key: f64) -> f64 {
    -bits_per_key * empty_share.ln() * (-empty_share).ln_1p()
}

/// Returns `0.6185^(m/n)`, more exactly `e^(-(m/n) (ln 2)^2)`: the lowest FPR of a standard Bloom
/// filter over all real numbers of probes.
#[must_use]
pub fn lowest_fpr(bits_per_key: f64) -> f64 {
    fpr_exponent(0.5, bits_per_key).exp()
}

/// Returns `(m/n) ln 2`, the number of probes with the lowest FPR, as a real number.
#[must_use]
pub fn ideal_probes(bits_per_key: f64) -> f64 {
    bits_per_key * std::f64::consts::LN_2
}

/// Returns the number of probes with the lowest [`simplified_fpr`], from 1 to 10,001. Within these
/// limits, it is one of the two whole numbers around [`ideal_probes`]. Without keys, it is the
/// [`ideal_probes`] of a filter of one key, rounded down.
#[must_use]
pub fn best_probes(num_keys: u64, num_bits: u64) -> u32 {
    let ideal = ideal_probes(num_bits as f64 / num_keys.max(1) as f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 1 to 10,000")]
    let below = ideal.floor().clamp(1.0, 10_000.0) as u32;
    let is_better = simplified_fpr(num_keys, num_bits, below + 1) < simplified_fpr(num_keys, num_bits, below);
    below + u32::from(is_better)
}

/// Returns `-kn / ln(1 - c^(1/k))`, the bits that `n` keys need for an FPR of `c` with `k` probes.
/// `rate` must be above 0 and below 1, and `probes` must not be 0.
#[must_use]
pub fn bits_for(num_keys: u64, rate: f64, probes: u32) -> f64 {
    // A probe hits a set bit with probability c^(1/k).
    let set_share = rate.powf(1.0 / f64::from(probes));
    -f64::from(probes) * num_keys as f64 / (-set_share).ln_1p()
}

/// The size of a standard Bloom filter, as [`shortest`] returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortest {
    /// The total number of bits.
    pub bits: u64,
    /// The number of probes of a key.
    pub probes: u32,
}

/// Returns the size of the shortest standard Bloom filter with an FPR of `rate`: the minimum of
/// [`bits_for`] over 1 to 100 probes, rounded up.
///
/// # Errors
/// Returns [`Error::Invalid`] if there are no keys, or if `rate` is not above 0 and below 1.
/// Returns the same error if the filter would have 2^63 bits or more.
pub fn shortest(num_keys: u64, rate: f64) -> Result<Shortest> {
    let invalid = |reason| Error::invalid("filter", format!("bloom:fpr={rate} for {num_keys} keys"), reason);
    check_keys_and_rate(num_keys, rate).map_err(invalid)?;
    let sized = (1..=MAX_TRIED_PROBES).map(|probes| (bits_for(num_keys, rate, probes), probes));
    let least = sized.min_by(|(one, _), (other, _)| one.total_cmp(other));
    let (bits, probes) = least.filter(|&(bits, _)| bits < MAX_BITS).ok_or_else(|| invalid(TOO_LARGE))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below MAX_BITS")]
    Ok(Shortest { bits: bits.ceil().max(1.0) as u64, probes })
}

/// The limit for numbers of bits. A number below it fits in a `u64` after rounding up.
pub const MAX_BITS: f64 = (1u64 << 63) as f64;

/// Checks a number of keys and a rate.
///
/// # Errors
/// Says what is wrong and what to try.
pub fn check_keys_and_rate(num_keys: u64, rate: f64) -> std::result::Result<(), &'static str> {
    // NaN fails both comparisons.
    if !(rate > 0.0 && rate < 1.0) {
        return Err("expected an FPR above 0 and below 1; try 0.01");
    }
    if num_keys == 0 { Err("there are no keys to plan for; try 1000000") } else { Ok(()) }
}

/// The maximum number of keys of a plan. Even with 100 bits per key, the number of bits then fits
/// in a `u64`.
pub const MAX_KEYS: u64 = 1 << 56;

/// The reason for refusing a plan of more than [`MAX_KEYS`] keys.
pub const TOO_MANY_KEYS: &str = "a plan takes at most 2^56 keys; plan for fewer keys";

/// The planned size, FPR and query cost of a filter.
///
/// ```
/// use filterblock::{FilterKind, FilterSpec, planning::Plan};
///
/// let plan = Plan::new("bloom:fpr=0.01".parse()?, 1_000_000)?;
/// assert_eq!(plan.payload_len_bytes(), 1_199_128);
/// // The best filter that fits in 1 MiB: 8.388 bits per key.
/// let plan = Plan::largest(FilterKind::Bloom, 1_000_000, 1 << 20)?.expect("1 MiB holds the smallest filter");
/// assert!((plan.expected_fpr() - 0.0178).abs() < 0.0001);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    spec: FilterSpec,
    num_keys: u64,
    planned: Planned,
}

impl Plan {
    /// Plans a filter of `spec` for `num_keys` keys.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if there are no keys or more than [`MAX_KEYS`]. Returns the same
    /// error if the kind cannot hold this number of keys, or cannot reach the FPR with this number.
    pub fn new(spec: FilterSpec, num_keys: u64) -> Result<Self> {
        let invalid = |reason| Error::invalid("filter", format!("{spec} for {num_keys} keys"), reason);
        // The FPR of a specification was checked when the specification was made.
        check_keys_and_rate(num_keys, 0.5).map_err(invalid)?;
        if num_keys > MAX_KEYS {
            return Err(invalid(TOO_MANY_KEYS));
        }
        spec.check_keys(num_keys)?;
        let planned = spec.kind().plan(spec.budget(), num_keys).map_err(invalid)?;
        Ok(Self { spec, num_keys, planned })
    }

    /// Plans the filter of `kind` that has the lowest FPR in a payload of at most `max_len_bytes`.
    /// Returns `None` if even the smallest filter does not fit.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::new`], and [`Error::Invalid`] if the kind takes no budget.
    pub fn largest(kind: FilterKind, num_keys: u64, max_len_bytes: u64) -> Result<Option<Self>> {
        let plan = |bits_per_key| Self::new(FilterSpec::bits_per_key(kind, bits_per_key)?, num_keys);
        let fits = |plan: &Self| plan.payload_len_bytes() <= max_len_bytes;
        let most = match kind.info().budgets {
            Budgets::Widths(widths) => {
                let plans = widths.iter().map(|&width| plan(f64::from(width))).collect::<Result<Vec<_>>>()?;
                return Ok(plans.into_iter().rfind(fits));
            }
            Budgets::UpTo(most) => most,
            Budgets::None => {
                let reason = "this kind takes no budget, so it has no largest filter; try blocked-bloom";
                return Err(Error::invalid("filter kind", kind, reason));
            }
        };
        let of_millibits = |millibits: u32| plan(f64::from(millibits) / 1000.0);
        let (mut low, mut high) = (*MILLIBITS.start(), most);
        let mut best = Some(of_millibits(low)?).filter(fits);
        // Sizes grow with the budget.
        while best.is_some() && low < high {
            let middle = low + (high - low).div_ceil(2);
            let found = of_millibits(middle)?;
            if fits(&found) {
                (low, best) = (middle, Some(found));
            } else {
                high = middle - 1;
            }
        }
        Ok(best)
    }

    /// Returns the specification of the planned filter.
    #[must_use]
    pub fn spec(&self) -> FilterSpec {
        self.spec
    }

    /// Returns the number of distinct keys.
    #[must_use]
    pub fn num_keys(&self) -> u64 {
        self.num_keys
    }

    /// Returns the length of the payload in bytes, without checksums and trailer.
    ///
    /// The number is exact for Bloom filters. It is an estimate for ribbons, binary fuse filters
    /// and range filters, because their sizes also depend on the keys themselves. For a range
    /// filter, the plan omits the mapping, which usually takes at most a few hundred bytes.
    #[must_use]
    pub fn payload_len_bytes(&self) -> u64 {
        self.planned.len_bytes
    }

    /// Returns the length in bytes of the kind's own record in the extension of the filter block,
    /// or 0 if there is no such record. The record of the built filter may have another length.
    #[must_use]
    pub fn record_len_bytes(&self) -> usize {
        self.planned.record_len_bytes
    }

    /// Returns the payload bits per key.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        self.planned.len_bytes as f64 * 8.0 / self.num_keys as f64
    }

    /// Returns the expected FPR: the share of absent keys for which the filter answers "maybe", by
    /// the exact formula of the kind. For a range filter, it is an upper bound for ranges of the
    /// length that the filter is planned for.
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        self.planned.rate
    }

    /// Returns the maximum number of bits that a query tests: probes of a Bloom filter, columns of
    /// a ribbon, bits of a fingerprint. It is 0 for filters without such bits.
    #[must_use]
    pub fn probes(&self) -> u32 {
        self.planned.probes
    }

    /// Returns the mean number of cache lines of 64 bytes that a query of an absent key reads.
    /// Neighbouring lines count separately.
    #[must_use]
    pub fn lines_if_absent(&self) -> f64 {
        self.planned.lines_if_absent
    }

    /// Returns the mean number of cache lines that a query of a present key reads.
    #[must_use]
    pub fn lines_if_present(&self) -> f64 {
        self.planned.lines_if_present
    }
}

/// Returns the lowest FPR of a kind for `num_keys` keys in a payload of `max_len_bytes`. Returns 1
/// if no filter fits.
///
/// # Errors
/// Returns the errors of [`Plan::largest`].
pub fn lowest_fpr_in(kind: FilterKind, num_keys: u64, max_len_bytes: u64) -> Result<f64> {
    Ok(Plan::largest(kind, num_keys, max_len_bytes)?.map_or(1.0, |plan| plan.expected_fpr()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_return_sound_limits_for_zero_arguments() {
        for rate in [classical_fpr, simplified_fpr] {
            assert_eq!(rate(0, 0, 3), 0.0, "no keys");
            assert_eq!(rate(0, 64, 3), 0.0, "no keys");
            assert_eq!(rate(9, 0, 3), 1.0, "no bits");
            assert_eq!(rate(9, 64, 0), 1.0, "no probes");
        }
        assert_eq!(classical_fpr(1, 1, 1), 1.0);
        assert!((classical_fpr(1, 64, 1) - 1.0 / 64.0).abs() < 1e-15);
        assert_eq!(best_probes(9, 0), 1);
        assert_eq!(best_probes(0, 9), best_probes(1, 9));
    }

    #[test]
    fn best_probes_beats_every_other_number_of_probes() {
        for keys in [1, 7, 100, 1_000_000] {
            for bits in [1, 2, 3, 5, 9, 10, 16, 24, 40].map(|bits| bits * keys) {
                let rate = |probes| simplified_fpr(keys, bits, probes);
                let best = (1..100).min_by(|&one, &other| rate(one).total_cmp(&rate(other))).unwrap();
                assert_eq!(best_probes(keys, bits), best, "{keys} keys, {bits} bits");
            }
        }
    }

    #[test]
    fn impossible_plans_are_refused_with_a_reason() {
        let reason = |keys, rate| {
            let Err(Error::Invalid { what: "filter", reason, .. }) = shortest(keys, rate) else {
                panic!("{keys} keys, {rate}")
            };
            reason
        };
        for rate in [0.0, 1.0, -0.1, 1.5, f64::NAN, f64::INFINITY] {
            assert!(reason(10, rate).contains("above 0 and below 1"), "{rate}");
        }
        assert!(reason(0, 0.01).contains("no keys"));
        assert_eq!(reason(u64::MAX, 0.01), TOO_LARGE);
        assert_eq!(shortest(1, 0.999_999).unwrap().bits, 1);
    }
}
