//! Plans the classical variants of the Bloom filter, by the formulas of their papers. Filter blocks
//! do not store these variants.

use std::fmt;

use filterblock::internals::math::{self, scattered_lines};
use filterblock::internals::{
    EQUAL_HASHES, MAX_BITS, SMALLEST_IS_LARGER, TOO_LARGE, TOO_MANY_KEYS, check_keys_and_rate, millibits,
};
use filterblock::planning::{Goal, MAX_KEYS, bits_for, classical_fpr, shortest};
use filterblock::{Error, Result};

/// The maximum number of slices that a plan of a partitioned filter tries.
const MAX_PROBES: u32 = 64;
/// The number of bits of a counter in a counting filter.
const COUNTER_BITS: u64 = 4;
/// The header of a d-left filter: subtables, cells per bucket, mean keys per bucket, and counter
/// bits per cell.
const D_LEFT_TABLES: u64 = 4;
const D_LEFT_CELLS: u64 = 8;
const D_LEFT_LOAD: u64 = 6;
const D_LEFT_COUNTER_BITS: u64 = 2;
/// The maximum number of bits of a remainder.
const D_LEFT_REMAINDER_BITS: u64 = 48;
/// An upper limit for the memory of a compressed filter before it is sent, as a multiple of the
/// size of the shortest Bloom filter.
const COMPRESSED_MEMORY: f64 = 4.0;
/// The number of keys of the first stage of a scalable filter. Each later stage has twice the keys
/// and 0.85 times the FPR of the previous stage.
const SCALABLE_FIRST_KEYS: u64 = 1024;
const SCALABLE_RATIO: f64 = 0.85;
/// The maximum number of halvings of the FPR in [`VariantPlan::largest`], for an FPR of 2^-100.
const MAX_HALVINGS: f64 = 100.0;
/// The number of bisection steps.
const STEPS: u32 = 60;

/// A variant of the Bloom filter that a formula can plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Variant {
    /// A Bloom filter whose bits are split into slices of equal length, one slice for each probe.
    Partitioned,
    /// A Bloom filter with counters of four bits instead of bits, so that it can remove keys (Fan,
    /// Cao, Almeida, Broder, "Summary cache", 2000).
    Counting,
    /// A table of key remainders, each in the least loaded of four buckets. It can remove keys, and
    /// takes about half the space of a counting filter (Bonomi, Mitzenmacher, Panigrahy, Singh,
    /// Varghese, 2006).
    DLeft,
    /// A Bloom filter that is compressed before it is sent. It has more bits and fewer probes than
    /// the shortest Bloom filter of the same FPR, but takes fewer bits after compression
    /// (Mitzenmacher, 2002).
    Compressed,
    /// A sequence of partitioned filters, called stages. Each stage has twice the keys of the
    /// previous stage (Almeida, Baquero, Preguiça, Hutchison, 2007). Here the first stage has 1,024
    /// keys, and each later stage has 0.85 times the FPR of the previous stage.
    Scalable,
}

impl Variant {
    /// All variants.
    pub const ALL: [Self; 5] = [Self::Partitioned, Self::Counting, Self::DLeft, Self::Compressed, Self::Scalable];

    /// Returns the name of the variant.
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

/// The planned size, FPR and query cost of a variant for a number of keys.
///
/// ```
/// use filterblock_family::plan::{Variant, VariantPlan};
///
/// // A cell has 12 bits of remainder and 2 of counter, and three quarters of the cells are in use.
/// // So a key takes 18.67 bits. The FPR is at most 0.586 %.
/// let plan = VariantPlan::new(Variant::DLeft, 24_000_000, 0.006)?;
/// assert_eq!(plan.memory_bits * 3, 24_000_000 * 56);
/// assert!((plan.expected_fpr - 24.0 / 4096.0).abs() < 1e-11);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct VariantPlan {
    /// The planned variant.
    pub variant: Variant,
    /// The number of distinct keys.
    pub num_keys: u64,
    /// The number of bits in memory.
    pub memory_bits: u64,
    /// The number of bits of a compressed filter when it is sent, which is its entropy. It is
    /// `None` for all other variants.
    pub sent_bits: Option<u64>,
    /// The expected FPR. For a d-left or a scalable filter, it is an upper bound on the FPR.
    pub expected_fpr: f64,
    /// The mean number of cache lines that a query of an absent key reads, counted as in
    /// [`Plan::lines_if_absent`](filterblock::planning::Plan::lines_if_absent).
    pub lines_if_absent: f64,
    /// The mean number of cache lines that a query of a present key reads.
    pub lines_if_present: f64,
}

impl VariantPlan {
    /// Plans a filter of a variant for an FPR of `rate`, by the formula of the variant.
    /// [`expected_fpr`](Self::expected_fpr) may be higher than `rate`, for example because keys may
    /// have equal hashes.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if there are no keys or more than [`MAX_KEYS`], or if `rate` is
    /// not above 0 and below 1. Returns the same error if the variant cannot have this FPR with
    /// this number of keys.
    pub fn new(variant: Variant, num_keys: u64, rate: f64) -> Result<Self> {
        let invalid = |reason| Error::invalid("filter", format!("{variant}:fpr={rate} for {num_keys} keys"), reason);
        check_keys_and_rate(num_keys, rate).map_err(invalid)?;
        if num_keys > MAX_KEYS {
            return Err(invalid(TOO_MANY_KEYS));
        }
        if math::equal_hash(num_keys) > rate {
            return Err(invalid(EQUAL_HASHES));
        }
        let plan = match variant {
            Variant::Partitioned => partitioned(num_keys, rate),
            Variant::Counting => counting(num_keys, rate)?,
            Variant::DLeft => Some(
                d_left(num_keys, rate)
                    .ok_or_else(|| invalid("this FPR needs remainders of more than 48 bits; use a higher FPR"))?,
            ),
            Variant::Compressed => compressed(num_keys, rate)?,
            Variant::Scalable => scalable(num_keys, rate),
        };
        let plan = plan.ok_or_else(|| invalid(TOO_LARGE))?;
        // The formulas of the papers ignore equal hashes.
        Ok(Self { expected_fpr: math::with_equal_hashes(plan.expected_fpr, num_keys), ..plan })
    }

    /// Plans the filter of `variant` that has the lowest FPR with at most `max_bits`
    /// [`bits`](VariantPlan::bits). Returns `None` if even a filter with an FPR of nearly 1 takes
    /// more bits, or if there are more than [`MAX_KEYS`] keys.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if there are no keys.
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

    /// Plans a variant for a goal. [`Goal::BitsPerKey`] and [`Goal::LenBytes`] limit
    /// [`VariantPlan::bits`], because variants have no block.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] with the reason if the variant has no filter for this goal and
    /// this number of keys.
    pub fn for_goal(variant: Variant, num_keys: u64, goal: Goal) -> Result<Self> {
        let max_bits = match goal {
            Goal::FalsePositiveRate(rate) => return Self::new(variant, num_keys, rate),
            Goal::BitsPerKey(bits) => millibits(num_keys, bits) / 1000,
            Goal::LenBytes(len) => u128::from(len) * 8,
        };
        let found = Self::largest(variant, num_keys, u64::try_from(max_bits).unwrap_or(u64::MAX))?;
        let reason = if num_keys > MAX_KEYS { TOO_MANY_KEYS } else { SMALLEST_IS_LARGER };
        found.ok_or_else(|| Error::invalid("filter", format!("{variant} for {num_keys} keys"), reason))
    }

    /// Returns the bits that a budget counts: the sent bits of a compressed filter, and the bits in
    /// memory of all other variants.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.sent_bits.unwrap_or(self.memory_bits)
    }
}

/// Rounds up to a whole number of bits, which is at least 1. Returns `None` for 2^63 bits or more.
fn whole(bits: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to MAX_BITS")]
    (bits < MAX_BITS).then(|| bits.ceil().max(1.0) as u64)
}

/// Returns a plan that is not compressed. `lines` are the cache lines for an absent and a present key.
fn planned(variant: Variant, num_keys: u64, memory_bits: u64, expected_fpr: f64, lines: [f64; 2]) -> VariantPlan {
    let [lines_if_absent, lines_if_present] = lines;
    VariantPlan { variant, num_keys, memory_bits, sent_bits: None, expected_fpr, lines_if_absent, lines_if_present }
}

/// Plans a filter whose probes may hit any bit in memory, with a fill ratio of `fill`.
fn scattered(variant: Variant, num_keys: u64, (memory_bits, probes, fill): (u64, u32, f64), rate: f64) -> VariantPlan {
    planned(variant, num_keys, memory_bits, rate, scattered_lines(fill, memory_bits.div_ceil(8), probes))
}

/// Plans the smallest partitioned filter with an FPR of at most `rate`. Returns its total bits, its
/// number of slices `k`, and its bits per slice `s`. The FPR is `(1 - (1 - 1/s)^n)^k`. Returns
/// `None` if the filter is too large.
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
    let fill = classical_fpr(num_keys, slice, 1);
    Some(scattered(Variant::Partitioned, num_keys, (bits, probes, fill), fill.powi(probes.cast_signed())))
}

fn counting(num_keys: u64, rate: f64) -> Result<Option<VariantPlan>> {
    let shortest = shortest(num_keys, rate)?;
    let Some(memory_bits) = shortest.bits.checked_mul(COUNTER_BITS) else { return Ok(None) };
    let fill = classical_fpr(num_keys.saturating_mul(shortest.probes.into()), shortest.bits, 1);
    let rate = classical_fpr(num_keys, shortest.bits, shortest.probes);
    Ok(Some(scattered(Variant::Counting, num_keys, (memory_bits, shortest.probes, fill), rate)))
}

/// Plans a d-left filter. A query compares the key with the remainders in four buckets. On average,
/// four buckets hold 24 remainders, or fewer if there are few keys. Returns `None` if the FPR needs
/// remainders of more than 48 bits.
fn d_left(num_keys: u64, rate: f64) -> Option<VariantPlan> {
    let buckets = num_keys.div_ceil(D_LEFT_TABLES * D_LEFT_LOAD);
    let compared = num_keys as f64 / buckets as f64;
    let rate_of = |bits: u64| compared * (-(bits as f64)).exp2();
    let remainder_bits = (1..=D_LEFT_REMAINDER_BITS).find(|&bits| rate_of(bits) <= rate)?;
    let bucket_bits = D_LEFT_CELLS * (remainder_bits + D_LEFT_COUNTER_BITS);
    let memory_bits = buckets.checked_mul(D_LEFT_TABLES * bucket_bits)?;
    // A bucket may begin at any byte of a cache line.
    let lines = 1.0 + (bucket_bits as f64 / 8.0 - 1.0) / 64.0;
    // A present key is about equally likely to be in each of the four buckets, so its query reads
    // about 2.5 buckets.
    let lines = [4.0 * lines, 2.5 * lines];
    Some(planned(Variant::DLeft, num_keys, memory_bits, rate_of(remainder_bits), lines))
}

/// Plans the filter with the least entropy within the memory limit. The function tries all numbers
/// of probes up to the number of the shortest filter. Returns `None` if the filter is too large.
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

/// Returns `H2(p)`, the entropy, in bits, of a bit that is set with probability `p`.
fn entropy(p: f64) -> f64 {
    -(p * p.ln() + (1.0 - p) * (-p).ln_1p()) / std::f64::consts::LN_2
}

/// Plans a scalable filter. A stage with an FPR of `c` has `log2(1/c)` slices, rounded up. It is
/// full when half of its bits are set. Returns `None` if the filter is too large.
fn scalable(num_keys: u64, rate: f64) -> Option<VariantPlan> {
    let (mut rate_of, mut capacity, mut before) = (rate * (1.0 - SCALABLE_RATIO), SCALABLE_FIRST_KEYS, 0u64);
    let (mut memory_bits, mut lines_if_absent, mut lines_if_present) = (0u64, 0.0, 0.0);
    loop {
        let probes = (-rate_of.log2()).ceil().max(1.0);
        memory_bits = memory_bits.checked_add(whole(capacity as f64 * probes / std::f64::consts::LN_2)?)?;
        // A query asks the newest stage first. So it asks this stage for the keys of older stages,
        // too, and they are absent keys here.
        let keys = capacity.min(num_keys - before);
        lines_if_present += before as f64 / num_keys as f64 * 2.0 + keys as f64 / num_keys as f64 * probes;
        lines_if_absent += 2.0 * (1.0 - (-probes).exp2());
        before += keys;
        if before == num_keys {
            break;
        }
        (rate_of, capacity) = (rate_of * SCALABLE_RATIO, capacity * 2);
    }
    Some(planned(Variant::Scalable, num_keys, memory_bits, rate, [lines_if_absent, lines_if_present]))
}
