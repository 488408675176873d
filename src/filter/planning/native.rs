//! Plans of the filters that this crate builds, each by the formulas that its builder goes by.

use super::{TOO_LARGE, check_keys_and_rate};
use crate::error::{Error, Result};
use crate::filter::spec::MILLIBITS;
use crate::filter::split_block::Lanes;
use crate::filter::{self, FilterKind, FilterSpec, Geometry, Rounding, binary_fuse, bumped_ribbon, math, ribbon};

/// Plans are made for so many keys at most: with a hundred bits for each, sizes fit 64 bits.
pub const MAX_KEYS: u64 = 1 << 56;
/// Bytes of a cache line.
const LINE_LEN_BYTES: u64 = 64;
/// Places of a key in a binary fuse filter.
const FUSE_PLACES: f64 = 3.0;

/// What a filter of a specification over so many keys will be.
///
/// ```
/// use filterblock::{FilterKind, FilterSpec, planning::Plan};
///
/// let plan = Plan::new("bloom:fpr=0.01".parse()?, 1_000_000)?;
/// assert_eq!(plan.payload_len_bytes(), 1_199_128);
/// // All that fits in a megabyte: 8.388 bits a key.
/// let plan = Plan::largest(FilterKind::Bloom, 1_000_000, 1 << 20)?.expect("more than a bit for each key");
/// assert!((plan.expected_rate() - 0.0178).abs() < 0.0001);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    spec: FilterSpec,
    num_keys: u64,
    payload_len_bytes: u64,
    record_len_bytes: usize,
    expected_rate: f64,
    lines_if_absent: f64,
    lines_if_present: f64,
}

impl Plan {
    /// Plans a filter.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] where there are no keys, more than [`MAX_KEYS`], or more than a filter of the kind can hold or
    /// can have the rate with.
    pub fn new(spec: FilterSpec, num_keys: u64) -> Result<Self> {
        let invalid = |reason| Error::InvalidSpec { spec: format!("{spec} for {num_keys} keys"), reason };
        // Of a specification the rate was checked when it was made.
        check_keys_and_rate(num_keys, 0.5).map_err(invalid)?;
        if num_keys > MAX_KEYS {
            return Err(invalid(TOO_LARGE));
        }
        spec.check_keys(num_keys)?;
        match spec.kind() {
            FilterKind::Empty | FilterKind::Full => Ok(Self::of(spec, num_keys, 0, 1.0)),
            FilterKind::Bloom | FilterKind::BlockedBloom | FilterKind::SplitBlock | FilterKind::SplitBlock512 => {
                Self::of_bloom(spec, num_keys).ok_or_else(|| invalid(TOO_LARGE))
            }
            FilterKind::BinaryFuse => Self::of_fuse(spec, num_keys)
                .ok_or_else(|| invalid("a binary fuse filter has less than 2^32 slots, for 3.8 thousand million keys")),
            FilterKind::Ribbon => Self::of_ribbon(spec, num_keys).ok_or_else(|| invalid(TOO_LARGE)),
            FilterKind::BumpedRibbon => {
                Self::of_bumped_ribbon(spec, num_keys).ok_or_else(|| invalid("too large for this machine's memory"))
            }
        }
    }

    /// The filter of a kind with the lowest rate whose payload has `max_len_bytes` at most; `None` where the smallest is
    /// larger than that.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] as [`Plan::new`], and where the kind takes no budget.
    pub fn largest(kind: FilterKind, num_keys: u64, max_len_bytes: u64) -> Result<Option<Self>> {
        let plan = |bits_per_key| Self::new(FilterSpec::bits_per_key(kind, bits_per_key)?, num_keys);
        let fits = |plan: &Self| plan.payload_len_bytes <= max_len_bytes;
        if kind == FilterKind::BinaryFuse {
            let plans = binary_fuse::WIDTHS.iter().map(|&width| plan(f64::from(width))).collect::<Result<Vec<_>>>()?;
            return Ok(plans.into_iter().rfind(fits));
        }
        let most = if kind == FilterKind::Ribbon { ribbon::MAX_COLUMNS * 1000 } else { *MILLIBITS.end() };
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

    /// A plan whose queries read one line.
    fn of(spec: FilterSpec, num_keys: u64, payload_len_bytes: u64, expected_rate: f64) -> Self {
        let lines = if payload_len_bytes == 0 { 0.0 } else { 1.0 };
        Self {
            spec,
            num_keys,
            payload_len_bytes,
            record_len_bytes: 0,
            expected_rate,
            lines_if_absent: lines,
            lines_if_present: lines,
        }
    }

    fn of_bloom(spec: FilterSpec, num_keys: u64) -> Option<Self> {
        let (len, probes) = filter::bloom_size(spec, num_keys, Rounding::Words)?;
        let rate = match spec.kind() {
            FilterKind::BlockedBloom => Geometry::BlockedBloom { probes },
            FilterKind::SplitBlock => Geometry::SplitBlock { lanes: Lanes::Narrow },
            FilterKind::SplitBlock512 => Geometry::SplitBlock { lanes: Lanes::Wide },
            _ => Geometry::Bloom { probes },
        }
        .expected_rate(num_keys, len);
        let plan = Self::of(spec, num_keys, len, rate);
        if spec.kind() != FilterKind::Bloom {
            return Some(plan);
        }
        let fill = super::exact_rate(num_keys * u64::from(probes), len * 8, 1);
        let [lines_if_absent, lines_if_present] = scattered_lines(fill, len, probes);
        Some(Self { lines_if_absent, lines_if_present, ..plan })
    }

    fn of_fuse(spec: FilterSpec, num_keys: u64) -> Option<Self> {
        let (len, rate) = binary_fuse::planned(spec, num_keys)?;
        let rate = math::with_equal_hashes(rate, num_keys);
        let lines = FUSE_PLACES.min(len.div_ceil(LINE_LEN_BYTES) as f64);
        Some(Self { lines_if_absent: lines, lines_if_present: lines, ..Self::of(spec, num_keys, len, rate) })
    }

    fn of_ribbon(spec: FilterSpec, num_keys: u64) -> Option<Self> {
        let planned = ribbon::planned(spec, num_keys)?;
        // All columns of two blocks, whatever the answer.
        let lines = pair_lines(planned.columns, 16).min(planned.len_bytes.div_ceil(LINE_LEN_BYTES) as f64);
        Some(Self {
            record_len_bytes: planned.record_len_bytes,
            lines_if_absent: lines,
            lines_if_present: lines,
            ..Self::of(spec, num_keys, planned.len_bytes, math::with_equal_hashes(planned.rate, num_keys))
        })
    }

    fn of_bumped_ribbon(spec: FilterSpec, num_keys: u64) -> Option<Self> {
        let planned = bumped_ribbon::planned(&spec, num_keys)?;
        // A second group of columns is read if the first agrees: of absent keys, one in 256.
        let [mut if_absent, mut if_present] = [0.0, 0.0];
        for group in 0..4 {
            let lines = pair_lines((planned.columns - 8.0 * f64::from(group)).clamp(0.0, 8.0), 8);
            if_absent += lines * (-8.0 * f64::from(group)).exp2();
            if_present += lines;
        }
        let in_all = |lines: f64| (lines + planned.bump_reads).min(planned.len_bytes.div_ceil(LINE_LEN_BYTES) as f64);
        Some(Self {
            record_len_bytes: planned.record_len_bytes,
            lines_if_absent: in_all(if_absent),
            lines_if_present: in_all(if_present),
            ..Self::of(spec, num_keys, planned.len_bytes, math::with_equal_hashes(planned.rate, num_keys))
        })
    }

    /// What is to be built.
    #[must_use]
    pub fn spec(&self) -> FilterSpec {
        self.spec
    }

    /// The number of distinct keys.
    #[must_use]
    pub fn num_keys(&self) -> u64 {
        self.num_keys
    }

    /// Bytes of the filter itself, without checksums and trailer.
    ///
    /// Exact for the Bloom filters. A binary fuse filter or a ribbon is larger in the rare case that its first system has
    /// no solution; of a bumped ribbon, how many keys are bumped differs from one set of keys to the next: by a twentieth
    /// of a per cent of a million keys, by up to one of a few thousand.
    #[must_use]
    pub fn payload_len_bytes(&self) -> u64 {
        self.payload_len_bytes
    }

    /// Bytes of the record of layers, which only ribbons have, in the extension of a block's trailer; as exact.
    #[must_use]
    pub fn record_len_bytes(&self) -> usize {
        self.record_len_bytes
    }

    /// Bits of the payload for each key.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        self.payload_len_bytes as f64 * 8.0 / self.num_keys as f64
    }

    /// The share of absent keys that will be answered "maybe", by the exact formula of the kind.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        self.expected_rate
    }

    /// Cache lines of 64 bytes that a query of an absent key reads on average, neighbours counted one by one: the cache
    /// misses of a filter that lies in memory alone.
    #[must_use]
    pub fn lines_if_absent(&self) -> f64 {
        self.lines_if_absent
    }

    /// The same for a key that was added.
    #[must_use]
    pub fn lines_if_present(&self) -> f64 {
        self.lines_if_present
    }
}

/// The lowest rate that a kind of filter has for `num_keys` keys in a payload of `max_len_bytes`; 1 where it has none.
///
/// # Errors
/// [`Error::InvalidSpec`] as [`Plan::largest`].
pub fn least_rate_in(kind: FilterKind, num_keys: u64, max_len_bytes: u64) -> Result<f64> {
    Ok(Plan::largest(kind, num_keys, max_len_bytes)?.map_or(1.0, |plan| plan.expected_rate()))
}

/// Lines that probes anywhere in `len_bytes` read on average, for an absent key, which stops at the first bit that is not
/// set, and for a present one. A share `fill` of the bits is set.
pub(super) fn scattered_lines(fill: f64, len_bytes: u64, probes: u32) -> [f64; 2] {
    // What the i-th probe reads was read by none of the i before it with this chance to the i-th power.
    let other_line = 1.0 - 1.0 / len_bytes.div_ceil(LINE_LEN_BYTES).max(1) as f64;
    let sum = |ratio: f64| (0..probes).map(|i| ratio.powi(i.cast_signed())).sum();
    [sum(fill * other_line), sum(other_line)]
}

/// Lines that two neighbouring blocks touch on average, the first being any of many that lie one after the other; a block
/// has a word for each column.
fn pair_lines(columns: f64, word_len_bytes: u64) -> f64 {
    let of = |columns: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 32 columns")]
        let len = columns as u64 * word_len_bytes;
        let lines = |i: u64| (i * len % LINE_LEN_BYTES + 2 * len).div_ceil(LINE_LEN_BYTES);
        (0..LINE_LEN_BYTES).map(lines).sum::<u64>() as f64 / LINE_LEN_BYTES as f64
    };
    // Between whole columns, some blocks have one less.
    let (fewer, share) = (columns.floor(), columns.fract());
    of(fewer) * (1.0 - share) + of(fewer + 1.0) * share
}
