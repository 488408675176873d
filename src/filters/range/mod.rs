//! Implements the range filter, which answers whether a key lies between two bounds. Its FPR has an
//! upper bound for any data and any queries.
//!
//! ```text
//! key ─▶ mapping: an integer x, in the order of the keys ─▶ cell = x >> dropped_bits
//!     ─▶ code = (q(stretch of the cell) + the low bits of the cell) mod universe ─▶ Elias-Fano
//! ```
//! With `n` keys and a range of `l` cells without a key, the answer is "maybe" with a probability
//! of at most `l * n / universe`. The rounding of the hash may raise this bound by up to 3.2 % of
//! itself: see [`MAX_CODES`].
//!
//! (Costa, Ferragina, Vinciguerra, "Grafite: taming adversarial queries with optimal range
//! filters", SIGMOD 2024. The mapping and the choice of the cells are this crate's own.)
//!
//! The payload has the mapping, zeros up to a multiple of 8 bytes, and the codes. The record in the
//! extension has all parameters, so that the trailer's checksum covers them.

mod build;
mod elias_fano;
mod keys;
mod mapping;
mod query;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use build::{largest_universe, range_len};
use elias_fano::{EliasFano, len_bits};
use mapping::{MAX_BITS, Mapping};
use query::Codes;

use crate::codec::{Cursor, put_varint, u128_bytes, u128_from};
use crate::error::{Error, Field, Result};
use crate::filters::build::{Effort, Header};
use crate::filters::filter::{Budget, Budgets, Built, Filter, Info, Planned, Query, TOO_LARGE};
use crate::filters::{FilterKind, MAX_RECORD_LEN_BYTES};
use crate::hash::KeyHash;
use crate::simd::{NoMemory, Simd};

pub(crate) use build::build as build_range;
pub(crate) use keys::RangeKeys;
pub(crate) use query::{RangeHash, RangeKernel, is_empty as is_empty_range, is_reversed as is_reversed_range};

/// The maximum length of the common prefix of all keys. Further common bytes are positions with one
/// symbol.
const MAX_PREFIX_LEN_BYTES: usize = 255;
const MAX_POSITIONS: usize = 255;
/// The maximum number of leading bytes of a key that a mapping reads.
const KEPT_LEN_BYTES: usize = MAX_PREFIX_LEN_BYTES + MAX_POSITIONS;
/// The maximum number of plain positions. Together they have at most 120 bits.
const MAX_PLAIN_POSITIONS: u8 = 15;
/// The largest universe of codes. It is small compared with the prime 2^61 - 1 of the hash
/// function, so no code is more than 3.2 % likelier than `1 / universe`.
const MAX_CODES: u64 = 1 << 56;
/// The number of cells in the ranges that a filter for scans is sized for.
const SCAN_CELLS: u64 = 16;

/// Returns 99.5 % of a number of neighbours, rounded up. With a lower share, many queries next to a
/// key would fall into the cell of that key. With a higher share, cells would become small, and
/// scans would span many cells.
fn enough(neighbours: u64) -> u64 {
    neighbours - neighbours / 200
}

/// The parameters of a range filter, checked against the payload's length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Geometry {
    /// The number of integers in the ranges that the filter is sized for, or 0 for scans.
    range_len: u64,
    mapping: Mapping,
    dropped_bits: u32,
    /// The cells of the first and the last key.
    first: u128,
    last: u128,
    codes: Codes,
    parts: EliasFano,
    /// Whether all cells fit in 64 bits, and fewer than 64 bits are dropped.
    is_short: bool,
}

/// The flag of a mapping that cuts no bytes off any key.
const FLAG_WHOLE: u8 = 1;
/// The flag of ranks of 32 bits.
const FLAG_WIDE: u8 = 2;

/// The record has three varints of at most 10 bytes, eight bytes, and two integers of 16 bytes.
const _: () = assert!(3 * 10 + 8 + 2 * 16 <= MAX_RECORD_LEN_BYTES);

impl Geometry {
    /// Returns the header that [`Geometry::parse`] reads.
    #[expect(clippy::cast_possible_truncation, reason = "all below 128")]
    fn header(&self) -> Header<'static> {
        let mut record = Vec::new();
        put_varint(&mut record, self.range_len);
        put_varint(&mut record, self.codes.universe);
        put_varint(&mut record, self.parts.num_codes);
        let Mapping { prefix_len, num_positions, num_plain, num_sets, is_whole } = self.mapping;
        let flags = if is_whole { FLAG_WHOLE } else { 0 } | if self.parts.is_wide { FLAG_WIDE } else { 0 };
        record.extend_from_slice(&[self.codes.stretch_bits as u8, self.parts.low_bits as u8, self.dropped_bits as u8]);
        record.extend_from_slice(&[prefix_len, num_positions, num_plain, num_sets, flags]);
        record.extend_from_slice(&u128_bytes(self.first));
        record.extend_from_slice(&u128_bytes(self.last));
        Header { kind: FilterKind::Grafite, params: [0; 3], record: record.into() }
    }

    /// Reads the parameters and checks that a payload of `len_bytes` with `num_keys` keys can have
    /// them.
    pub(crate) fn parse(params: [u8; 3], record: &[u8], num_keys: u64, len_bytes: u64) -> Result<Self> {
        let invalid = || Error::corrupt(Field::Params);
        let geometry = Self::read(record).filter(|_| params == [0; 3]).ok_or_else(invalid)?;
        let Self { codes, first, last, dropped_bits, .. } = geometry;
        let is_valid = first <= last
            && dropped_bits < MAX_BITS
            && last < 1 << MAX_BITS >> dropped_bits
            && codes.are_valid(last - first)
            && geometry.mapping.is_valid();
        if !is_valid {
            return Err(invalid());
        }
        if geometry.parts.end as u64 != len_bytes {
            return Err(Error::corrupt(Field::PayloadLen));
        }
        // Several keys may share a code.
        let num_codes = geometry.parts.num_codes;
        if num_codes == 0 || num_codes > num_keys || num_codes > codes.universe {
            return Err(Error::corrupt(Field::NumKeys));
        }
        Ok(geometry)
    }

    fn read(record: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(record, 0);
        let mut varint = || cursor.take_varint(()).ok();
        let (range_len, universe, num_codes) = (varint()?, varint()?, varint()?);
        let [stretch_bits, low_bits, dropped_bits, prefix_len, num_positions, num_plain, num_sets, flags] =
            cursor.take_array::<8, _>(()).ok()?;
        let first = u128_from(&cursor.take_array(()).ok()?);
        let last = u128_from(&cursor.take_array(()).ok()?);
        if !cursor.is_empty() || flags & !(FLAG_WHOLE | FLAG_WIDE) != 0 {
            return None;
        }
        let is_whole = flags & FLAG_WHOLE != 0;
        let mapping = Mapping { prefix_len, num_positions, num_plain, num_sets, is_whole };
        let start = mapping.len_bytes().next_multiple_of(8);
        let parts = EliasFano::new(start, num_codes, universe, low_bits.into(), flags & FLAG_WIDE != 0)?;
        let codes = Codes { universe, stretch_bits: stretch_bits.into() };
        let is_short = u64::try_from(last).is_ok() && dropped_bits < 64;
        Some(Self { range_len, mapping, dropped_bits: dropped_bits.into(), first, last, codes, parts, is_short })
    }

    /// Returns the upper bound on the FPR for ranges of the length that the filter is sized for. It
    /// leaves out the rounding of the hash: see [`MAX_CODES`].
    pub(crate) fn expected_fpr(&self) -> f64 {
        let is_one_stretch = self.last - self.first < self.codes.universe.into();
        let len = match self.range_len {
            // If a cell stands for several possible keys, each of the two ends of a scan may lie in
            // the cell of a key.
            0 if is_one_stretch && (self.dropped_bits > 0 || !self.mapping.is_whole) => 2,
            _ if is_one_stretch => return 0.0,
            0 => SCAN_CELLS,
            range_len => range_len,
        };
        (len as f64 * self.parts.num_codes as f64 / self.codes.universe as f64).min(1.0)
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.range_len {
            0 => write!(f, "for scans of {SCAN_CELLS} cells")?,
            len => write!(f, "for ranges of {len} integers")?,
        }
        let Mapping { prefix_len, num_positions, num_plain, num_sets, .. } = self.mapping;
        write!(
            f,
            "; mapping: prefix of {prefix_len} bytes, {num_positions} positions, {num_plain} plain positions, \
             {num_sets} sets, {} bits dropped; {} codes below {}, {} low bits each, stretches of 2^{} cells",
            self.dropped_bits, self.parts.num_codes, self.codes.universe, self.parts.low_bits, self.codes.stretch_bits
        )
    }
}

pub(crate) struct Grafite;

/// The maximum number of integers in the ranges that a filter may be sized for.
pub(crate) const MAX_RANGE_LEN: u64 = 1 << 40;
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
    /// [`build_range`] builds the filter from keys.
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
