//! Defines the contract of a kind: the facts and functions that every entry of the list of kinds
//! provides.

use std::ops::RangeInclusive;

use super::blank::Blank;
use super::shape::{Effort, Rounding, Shape};
use crate::bits::NoMemory;
use crate::error::Result;
use crate::hash::KeyHash;

/// The valid budgets, in thousandths of a bit per key. Below 1 bit per key, a filter answers
/// "maybe" for most absent keys. Above 100 bits per key, a lower FPR has no practical use.
pub(crate) const MILLIBITS: RangeInclusive<u32> = 1_000..=100_000;

/// The number of keys for which [`Kind::rate_of_many`] computes the FPR. At this number, rounding
/// of the payload length is negligible. The lowest FPR of a standard Bloom filter depends on this
/// number, because an absent key may have the hash of a present key.
pub(super) const MANY_KEYS: u64 = 512_000_000;

/// The reason in the error if a size is too large for a plan.
pub(crate) const TOO_LARGE: &str = "its size is too large for a plan; plan for fewer keys or a higher FPR";
/// The reason why [`Kind::plan`] finds no plan for a bumped ribbon of about 2^62 bytes or more.
pub(crate) const TOO_LARGE_FOR_MEMORY: &str = "too large for this machine's memory; plan for fewer keys";

/// The budget of a filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Budget {
    /// Thousandths of a bit per distinct key.
    pub(crate) millibits: u32,
    /// The requested FPR, if the budget was given as an FPR.
    pub(crate) rate: Option<f64>,
    /// Whether to build the smallest filter, at the cost of a slower build: see
    /// [`Kind::HAS_COMPACT`].
    pub(crate) compact: bool,
    /// The number of integers in the ranges that a range filter is sized for, or 0 for scans.
    pub(crate) range_len: u64,
}

impl Budget {
    /// Makes a budget of thousandths of a bit per key.
    pub(crate) const fn of_millibits(millibits: u32) -> Self {
        Self { millibits, rate: None, compact: false, range_len: 0 }
    }
}

/// The budgets that a kind accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Budgets {
    /// The kind accepts no budget, because its filter has no payload.
    None,
    /// From the minimum of [`MILLIBITS`] up to this many thousandths of a bit per key.
    UpTo(u32),
    /// One of these widths in bits. The widths are in ascending order.
    Widths(&'static [u32]),
}

impl Budgets {
    /// Every budget of [`MILLIBITS`].
    pub(super) const ALL: Self = Self::UpTo(*MILLIBITS.end());

    /// Returns whether the kind accepts this many thousandths of a bit per key. Returns `false` for
    /// NaN.
    pub(crate) fn take(self, millibits: f64) -> bool {
        match self {
            Self::None => false,
            Self::UpTo(most) => millibits >= f64::from(*MILLIBITS.start()) && millibits <= f64::from(most),
            Self::Widths(widths) => widths.iter().any(|&width| f64::from(width) * 1000.0 == millibits),
        }
    }
}

/// The properties of a filter that are known before it is built.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Planned {
    pub(crate) len_bytes: u64,
    /// The length of the kind's record in the extension.
    pub(crate) record_len_bytes: usize,
    pub(crate) rate: f64,
    /// The maximum number of bits that a query tests: see
    /// [`Geometry::probes`](super::Geometry::probes).
    pub(crate) probes: u32,
    /// The mean number of cache lines that a query of an absent key reads.
    pub(crate) lines_if_absent: f64,
    /// The mean number of cache lines that a query of a present key reads.
    pub(crate) lines_if_present: f64,
}

impl Planned {
    /// Returns the plan of a filter that has no record. A query reads one cache line, or none if
    /// the payload is empty.
    pub(super) fn in_one_line(len_bytes: u64, rate: f64, probes: u32) -> Self {
        let lines = if len_bytes == 0 { 0.0 } else { 1.0 };
        Self { len_bytes, record_len_bytes: 0, rate, probes, lines_if_absent: lines, lines_if_present: lines }
    }
}

/// A built filter: its shape and its payload.
pub(crate) type Built = (Shape, Vec<u8>);

/// The contract of a kind of filter. Each kind is one type with this trait. Queries go through
/// [`Query`](super::query::Query), not through this trait.
pub(super) trait Kind {
    /// The parsed shape, after it was found to fit its payload.
    type Geometry;

    /// The budgets that the kind accepts.
    const BUDGETS: Budgets;
    /// The reason in the error for a requested FPR that is too low. For a kind without a budget,
    /// every FPR gets this error.
    const LOWEST_RATE: &'static str;
    /// Whether the kind has a slower build that makes a smaller filter.
    const HAS_COMPACT: bool;

    /// Returns the FPR of a filter of [`MANY_KEYS`] keys with `millibits` thousandths of a bit per
    /// key. For ribbons and binary fuse filters, `millibits` is the space of the fingerprints
    /// alone. For a range filter, the result is the upper bound for scans.
    fn rate_of_many(millibits: u32) -> f64;

    /// Plans the filter that `budget` gives to `num_keys` keys. There is at least one key. The
    /// error is the reason why there is no such filter.
    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str>;

    /// Builds the filter over `hashes`. The hashes are distinct and sorted, and there is at least
    /// one. The same set gives the same bytes. The function may reorder the hashes. It returns
    /// `None` if the kind has no filter for these hashes; the caller then builds the fallback.
    fn build(budget: Budget, hashes: &mut [KeyHash], effort: Effort) -> std::result::Result<Option<Built>, NoMemory>;

    /// Returns the filter without keys into which [`super::fill`] sets the bits of `num_keys` keys.
    /// Returns `None` for a kind that is not built by setting bits.
    fn blank(_budget: Budget, _num_keys: u64, _rounding: Rounding) -> std::result::Result<Option<Blank>, NoMemory> {
        Ok(None)
    }

    /// Returns the FPR of the fallback, which the caller builds if this kind finds no solution.
    /// Returns `None` if the fallback gets the requested FPR or, for a budget in bits, the same
    /// bits per key.
    fn fallback_rate(budget: Budget) -> Option<f64>;

    /// Reads a shape and checks that a payload of `len_bytes` with `num_keys` keys can have it.
    fn parse(shape: &Shape, num_keys: u64, len_bytes: u64) -> Result<Self::Geometry>;
}
