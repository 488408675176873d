//! Plans the size, the false-positive rate (FPR) and the query cost of a filter before the filter is
//! built: see [`crate::planning`].

mod native;

pub use native::{MAX_KEYS, Plan, TOO_MANY_KEYS, lowest_fpr_in};

use crate::error::{Error, Result};
pub use crate::filters::math::classical_fpr;
use crate::filters::{TOO_LARGE, math};

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
