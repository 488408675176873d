//! Plans of the classical variants, by the formulas of their papers. They live in memory: no block holds them.

use std::fmt;

use super::{EQUAL_HASHES, MAX_BITS, MAX_KEYS, TOO_LARGE, bits_for, check_keys_and_rate, shortest};
use crate::error::{Error, Result};
use crate::kinds::{math, scattered_lines};

/// Most probes that are tried.
const MAX_PROBES: u32 = 64;
/// Bits of a counter.
const COUNTER_BITS: u64 = 4;
/// Subtables of a d-left filter, cells of a bucket, mean keys of a bucket, and bits of a cell's counter.
const D_LEFT_TABLES: u64 = 4;
const D_LEFT_CELLS: u64 = 8;
const D_LEFT_LOAD: u64 = 6;
const D_LEFT_COUNTER_BITS: u64 = 2;
/// Most bits of a remainder.
const D_LEFT_REMAINDER_BITS: u64 = 48;
/// How much more memory than the shortest Bloom filter one that is compressed may take before it is sent.
const COMPRESSED_MEMORY: f64 = 4.0;
/// A scalable filter begins with so many keys; each filter has twice the keys of the one before, and 0.85 of its rate.
const SCALABLE_FIRST_KEYS: u64 = 1024;
const SCALABLE_RATIO: f64 = 0.85;
/// Rates that are tried for a budget: from 1 down to 2^-100.
const MAX_HALVINGS: f64 = 100.0;
/// A hundred steps halve that to less than a rounding error.
const STEPS: u32 = 60;

/// A variant of the Bloom filter that can be planned by a formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Variant {
    /// A slice of `m/k` bits for each probe.
    Partitioned,
    /// Counters of four bits in the place of bits, so that keys can be removed (Fan, Cao, Almeida, Broder, "Summary cache",
    /// 2000).
    Counting,
    /// Remainders in the least loaded of four buckets: removal in half the space of counters (Bonomi, Mitzenmacher,
    /// Panigrahy, Singh, Varghese, 2006).
    DLeft,
    /// A Bloom filter with more bits and fewer probes than is best in memory, which is smaller once it is compressed to be
    /// sent (Mitzenmacher, 2002).
    Compressed,
    /// A row of partitioned filters, each for twice the keys of the one before (Almeida, Baquero, Preguiça, Hutchison, 2007):
    /// here one that began with 1,024 keys, with rates in the ratio 0.85.
    Scalable,
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Partitioned, Self::Counting, Self::DLeft, Self::Compressed, Self::Scalable];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Partitioned => "partitioned",
            Self::Counting => "counting",
            Self::DLeft => "d-left",
            Self::Compressed => "compressed",
            Self::Scalable => "scalable",
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a variant takes for so many keys.
///
/// ```
/// use filterblock::planning::{Variant, VariantPlan};
///
/// // 12 bits of remainder and 2 of counter in three quarters of the cells: 18.67 bits a key, at most 0.586 %.
/// let plan = VariantPlan::new(Variant::DLeft, 24_000_000, 0.006)?;
/// assert_eq!(plan.memory_bits * 3, 24_000_000 * 56);
/// assert!((plan.expected_rate - 24.0 / 4096.0).abs() < 1e-11);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct VariantPlan {
    /// What is planned.
    pub variant: Variant,
    /// The number of distinct keys.
    pub num_keys: u64,
    /// Bits in memory.
    pub memory_bits: u64,
    /// Bits that are sent where they are fewer: the entropy of a compressed filter.
    pub sent_bits: Option<u64>,
    /// The expected false-positive rate; of a d-left and a scalable filter a bound of it.
    pub expected_rate: f64,
    /// Cache lines that a query of an absent key reads on average, as [`Plan::lines_if_absent`](super::Plan).
    pub lines_if_absent: f64,
    /// The same for a key that was added.
    pub lines_if_present: f64,
}

impl VariantPlan {
    /// The least that a variant takes for a rate.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless there are keys, at most [`MAX_KEYS`], `0 < rate < 1` can be had, and the size fits 64
    /// bits. No rate below `num_keys / 2^64` can be had: that share of absent keys has the 64-bit hash of a present one.
    pub fn new(variant: Variant, num_keys: u64, rate: f64) -> Result<Self> {
        let invalid = |reason| Error::invalid("filter", format!("{variant}:fpr={rate} for {num_keys} keys"), reason);
        check_keys_and_rate(num_keys, rate).map_err(invalid)?;
        if num_keys > MAX_KEYS {
            return Err(invalid(TOO_LARGE));
        }
        if math::equal_hash(num_keys) > rate {
            return Err(invalid(EQUAL_HASHES));
        }
        let plan = match variant {
            Variant::Partitioned => partitioned(num_keys, rate),
            Variant::Counting => counting(num_keys, rate)?,
            Variant::DLeft => Some(
                d_left(num_keys, rate).ok_or_else(|| invalid("remainders have at most 48 bits; use a higher rate"))?,
            ),
            Variant::Compressed => compressed(num_keys, rate)?,
            Variant::Scalable => scalable(num_keys, rate),
        };
        let plan = plan.ok_or_else(|| invalid(TOO_LARGE))?;
        // The formulas of the papers know no hash function.
        Ok(Self { expected_rate: math::with_equal_hashes(plan.expected_rate, num_keys), ..plan })
    }

    /// The lowest rate that a variant has in so many bits, sent where it is sent and in memory where not; `None` where a
    /// rate of nearly one takes more.
    ///
    /// # Errors
    /// [`Error::Invalid`] as [`VariantPlan::new`] for the number of keys.
    pub fn largest(variant: Variant, num_keys: u64, max_bits: u64) -> Result<Option<Self>> {
        check_keys_and_rate(num_keys, 0.5)
            .map_err(|reason| Error::invalid("filter", format!("{variant} for {num_keys} keys"), reason))?;
        let plan = |halvings: f64| Self::new(variant, num_keys, (-halvings).exp2()).ok();
        let fitting = |halvings| plan(halvings).filter(|plan| plan.bits() <= max_bits);
        let (mut low, mut high) = (0.01, MAX_HALVINGS);
        let mut best = fitting(low);
        for _ in 0..if best.is_some() { STEPS } else { 0 } {
            let middle = f64::midpoint(low, high);
            match fitting(middle) {
                Some(found) => (low, best) = (middle, Some(found)),
                None => high = middle,
            }
        }
        Ok(best)
    }

    /// What counts: the bits that are sent, or else those in memory.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.sent_bits.unwrap_or(self.memory_bits)
    }
}

/// Rounded up, if it can be counted.
fn whole(bits: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to MAX_BITS")]
    (bits < MAX_BITS).then(|| bits.ceil().max(1.0) as u64)
}

/// A plan of bits anywhere in memory, of which a share `fill` is set.
fn scattered(variant: Variant, num_keys: u64, (memory_bits, probes, fill): (u64, u32, f64), rate: f64) -> VariantPlan {
    let [lines_if_absent, lines_if_present] = scattered_lines(fill, memory_bits.div_ceil(8), probes);
    VariantPlan {
        variant,
        num_keys,
        memory_bits,
        sent_bits: None,
        expected_rate: rate,
        lines_if_absent,
        lines_if_present,
    }
}

/// The slices of fewest bits in all whose rate, `(1 - (1 - 1/s)^n)^k` with `k` slices of `s` bits, is so low: the bits in
/// all, `k`, and `s`.
pub(crate) fn slices(num_keys: u64, rate: f64) -> Option<(u64, u32, u64)> {
    let of = |probes: u32| {
        let set_share = rate.powf(1.0 / f64::from(probes));
        // (1 - 1/s)^n = 1 - c^(1/k)
        let other_bit_ln = (-set_share).ln_1p() / num_keys as f64;
        let slice = whole(-1.0 / other_bit_ln.exp_m1())?;
        Some((slice.checked_mul(probes.into())?, probes, slice))
    };
    (1..=MAX_PROBES).filter_map(of).min()
}

fn partitioned(num_keys: u64, rate: f64) -> Option<VariantPlan> {
    let (bits, probes, slice) = slices(num_keys, rate)?;
    let fill = super::exact_rate(num_keys, slice, 1);
    Some(scattered(Variant::Partitioned, num_keys, (bits, probes, fill), fill.powi(probes.cast_signed())))
}

fn counting(num_keys: u64, rate: f64) -> Result<Option<VariantPlan>> {
    let shortest = shortest(num_keys, rate)?;
    let Some(memory_bits) = shortest.bits.checked_mul(COUNTER_BITS) else { return Ok(None) };
    let fill = super::exact_rate(num_keys.saturating_mul(shortest.probes.into()), shortest.bits, 1);
    let rate = super::exact_rate(num_keys, shortest.bits, shortest.probes);
    Ok(Some(scattered(Variant::Counting, num_keys, (memory_bits, shortest.probes, fill), rate)))
}

/// At most as many remainders are compared as four buckets hold at the mean load: 24 of them, and less of few keys.
fn d_left(num_keys: u64, rate: f64) -> Option<VariantPlan> {
    let buckets = num_keys.div_ceil(D_LEFT_TABLES * D_LEFT_LOAD);
    let compared = num_keys as f64 / buckets as f64;
    let rate_of = |bits: u64| compared * (-(bits as f64)).exp2();
    let remainder_bits = (1..=D_LEFT_REMAINDER_BITS).find(|&bits| rate_of(bits) <= rate)?;
    let bucket_bits = D_LEFT_CELLS * (remainder_bits + D_LEFT_COUNTER_BITS);
    let memory_bits = buckets.checked_mul(D_LEFT_TABLES * bucket_bits)?;
    // A bucket begins at any byte of a line.
    let lines = 1.0 + (bucket_bits as f64 / 8.0 - 1.0) / 64.0;
    // Keys are in any of the four alike.
    let [lines_if_absent, lines_if_present] = [4.0 * lines, 2.5 * lines];
    let expected_rate = rate_of(remainder_bits);
    let variant = Variant::DLeft;
    Some(VariantPlan {
        variant,
        num_keys,
        memory_bits,
        sent_bits: None,
        expected_rate,
        lines_if_absent,
        lines_if_present,
    })
}

/// Of all numbers of probes up to the best in memory whose filter is not too large there, the one with the least entropy.
/// More probes make a filter of mostly ones, which is as small once compressed and costs more to ask.
fn compressed(num_keys: u64, rate: f64) -> Result<Option<VariantPlan>> {
    let shortest = shortest(num_keys, rate)?;
    let most = COMPRESSED_MEMORY * shortest.bits as f64;
    let of = |probes: u32| {
        let bits = bits_for(num_keys, rate, probes);
        let set_share = rate.powf(1.0 / f64::from(probes));
        (bits <= most).then(|| (bits * entropy(set_share), bits, probes, set_share))
    };
    let least = (1..=shortest.probes).filter_map(of).min_by(|one, other| one.0.total_cmp(&other.0));
    let plan = least.and_then(|(sent, memory, probes, set_share)| {
        let memory = whole(memory)?;
        let plan = scattered(Variant::Compressed, num_keys, (memory, probes, set_share), rate);
        Some(VariantPlan { sent_bits: Some(whole(sent)?), ..plan })
    });
    Ok(plan)
}

/// `H2(p)`: the bits that a bit is worth which is set with a probability of `p`.
fn entropy(p: f64) -> f64 {
    -(p * p.ln() + (1.0 - p) * (-p).ln_1p()) / std::f64::consts::LN_2
}

/// Filters of `k` slices that are full when half of their bits are set.
fn scalable(num_keys: u64, rate: f64) -> Option<VariantPlan> {
    let (mut rate_of, mut capacity, mut before) = (rate * (1.0 - SCALABLE_RATIO), SCALABLE_FIRST_KEYS, 0u64);
    let (mut memory_bits, mut lines_if_absent, mut lines_if_present) = (0u64, 0.0, 0.0);
    loop {
        let probes = (-rate_of.log2()).ceil().max(1.0);
        memory_bits = memory_bits.checked_add(whole(capacity as f64 * probes / std::f64::consts::LN_2)?)?;
        // The newest is asked first: a key of this filter passes by all that come later, as an absent one does.
        let keys = capacity.min(num_keys - before);
        lines_if_present += before as f64 / num_keys as f64 * 2.0 + keys as f64 / num_keys as f64 * probes;
        lines_if_absent += 2.0 * (1.0 - (-probes).exp2());
        before += keys;
        if before == num_keys {
            break;
        }
        (rate_of, capacity) = (rate_of * SCALABLE_RATIO, capacity * 2);
    }
    let variant = Variant::Scalable;
    Some(VariantPlan {
        variant,
        num_keys,
        memory_bits,
        sent_bits: None,
        expected_rate: rate,
        lines_if_absent,
        lines_if_present,
    })
}
