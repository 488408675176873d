//! Provides the facts of the range filter for specifications and plans, and its queries of hashes.

use std::fmt;
use std::sync::Arc;

use super::build::{largest_universe, range_len};
use super::elias_fano::{EliasFano, len_bits};
use super::record::Geometry;
use super::{MAX_CODES, SCAN_CELLS};
use crate::error::Result;
use crate::filters::filter::{Budget, Budgets, Built, Filter, Info, Planned, Query, TOO_LARGE};
use crate::filters::header::{Effort, Header};
use crate::hash::KeyHash;
use crate::simd::NoMemory;
use crate::simd::Simd;

pub(crate) struct Grafite;

/// The maximum number of integers in the ranges that a filter may be sized for.
pub(crate) const MAX_RANGE_LEN: u64 = 1 << 40;
/// The maximum budget, in thousandths of a bit per key.
const MAX_MILLIBITS: u32 = 50_000;
/// The planned length of the record.
const RECORD_LEN_BYTES: usize = 52;
/// The number of cache lines that a query reads in the plan: one of the mapping, two of the ranks,
/// two of the high bits and one of the low bits.
const LINES: f64 = 6.0;

/// Returns the upper bound on the FPR for ranges of `range_len` integers in a filter of many keys.
/// With `n` keys, the bound is `range_len * n / universe`, but at most 1.
pub(crate) fn range_rate(range_len: u64, millibits: u32) -> f64 {
    let bits = f64::from(millibits.min(MAX_MILLIBITS)) / 1000.0;
    // A key takes its low bits, a 1, and its share of the buckets. A bucket takes a 0, and 256
    // buckets take 18 bits of ranks.
    let buckets = |low_bits: u32| (bits - f64::from(low_bits) - 1.0) / (1.0 + 18.0 / 256.0);
    let universe_per_key = (0..MAX_MILLIBITS / 1000).map(|low_bits| buckets(low_bits) * f64::from(low_bits).exp2());
    let most = universe_per_key.fold(0.0, f64::max);
    (range_len as f64 / most).min(1.0)
}

/// Returns the maximum number of keys of a filter with the FPR of `budget`, or infinity if the
/// budget is in bits. The limit exists because the universe has at most [`MAX_CODES`] codes.
pub(crate) fn max_keys_of_rate(budget: Budget) -> f64 {
    budget.rate.map_or(f64::INFINITY, |rate| MAX_CODES as f64 * rate / range_len(budget) as f64)
}

impl Filter for Grafite {
    type Params = Arc<Geometry>;

    const INFO: Info = Info {
        name: "grafite",
        description: "a code that keeps the order of neighbouring keys",
        budgets: Budgets::UpTo(MAX_MILLIBITS),
        example_bits: 12.7,
        lowest_rate: "the lowest false-positive rate of a range filter without L is 6.1e-14, with 50 bits per key; use \
             a higher FPR",
        is_of_ranges: true,
        ..Info::COMMON
    };

    const HAS_VECTOR_CODE: bool = false;

    fn rate_of_many(millibits: u32) -> f64 {
        range_rate(SCAN_CELLS, millibits)
    }

    /// Plans a filter whose keys lie in different cells. The plan leaves out the mapping, which
    /// usually takes at most a few hundred bytes.
    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        let len = range_len(budget) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
        let universe = match budget.rate {
            Some(rate) => (num_keys as f64 * len / rate).ceil() as u64,
            None => largest_universe(num_keys, u128::from(num_keys) * u128::from(budget.millibits) / 1000),
        };
        let universe = universe.clamp(1, MAX_CODES);
        let bits = len_bits(num_keys, universe, EliasFano::best_low_bits(num_keys, universe));
        let len_bytes = u64::try_from(bits.div_ceil(64) * 8).map_err(|_| TOO_LARGE)?;
        let rate = (len * num_keys as f64 / universe as f64).min(1.0);
        Ok(Planned {
            len_bytes,
            record_len_bytes: RECORD_LEN_BYTES,
            rate,
            probes: 0,
            lines_if_absent: LINES,
            lines_if_present: LINES,
        })
    }

    /// Returns the always-maybe filter, because a range filter needs the bytes of the keys.
    /// [`super::build_range`] builds the filter from keys.
    fn build(_: Budget, _: &mut [KeyHash], _: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        Ok(Some((Header::ALWAYS_MAYBE, Vec::new())))
    }

    fn parse(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<Arc<Geometry>> {
        Geometry::parse(header.params, &header.record, num_keys, len_bytes).map(Arc::new)
    }

    fn expected_fpr(range: &Arc<Geometry>, _: u64, _: u64) -> f64 {
        range.expected_fpr()
    }

    fn probes(_: &Arc<Geometry>) -> u32 {
        0
    }

    fn describe(range: &Arc<Geometry>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{range}")
    }

    /// No hash is absent.
    fn is_proven(_: &Arc<Geometry>, _: &[u8], _: usize, _: KeyHash, _: impl Fn(usize, usize) -> bool) -> bool {
        false
    }
}

/// Answers "maybe" to every query of a hash, because a range filter needs the bytes of the key.
impl Query for Grafite {
    type Filter = Self;

    #[inline(always)]
    fn may_contain(_: impl Simd, _: &Arc<Geometry>, _: &[u8], _: usize, _: KeyHash) -> bool {
        true
    }

    #[inline(always)]
    fn prefetch(_: &Arc<Geometry>, _: &[u8], _: usize, _: KeyHash) {}
}
