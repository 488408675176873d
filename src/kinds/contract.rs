//! The contract of a kind: the facts and functions that every entry of the list of kinds provides.

use std::ops::RangeInclusive;

use super::blank::Blank;
use super::shape::{Effort, Rounding, Shape};
use crate::bits::NoMemory;
use crate::error::Result;
use crate::hash::KeyHash;

/// The valid budgets, in thousandths of a bit per key. Below 1 bit per key, a filter answers
/// "maybe" to nearly everything. Above 100 bits per key, no kind gains anything that can be
/// measured.
pub(crate) const MILLIBITS: RangeInclusive<u32> = 1_000..=100_000;

/// The number of keys of [`Kind::rate_of_many`]. With this number, rounding to granules is
/// negligible. The lowest FPR of a standard Bloom filter depends on this number, because of equal
/// hashes.
pub(super) const MANY_KEYS: u64 = 512_000_000;

/// The reason why [`Kind::plan`] finds no plan if the size overflows 64 bits.
pub(crate) const TOO_LARGE: &str = "its size does not fit 64 bits; plan for fewer keys";
/// The reason why [`Kind::plan`] finds no plan if the size overflows the address space.
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
    /// The length of the ranges that a range filter is meant for; 0 for scans.
    pub(crate) range_len: u64,
}

impl Budget {
    /// Makes a budget of thousandths of a bit per key.
    pub(crate) const fn of_millibits(millibits: u32) -> Self {
        Self { millibits, rate: None, compact: false, range_len: 0 }
    }
}

/// The budgets that a kind takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Budgets {
    /// The kind takes no budget, because its filter takes no space.
    None,
    /// From the minimum of [`MILLIBITS`] up to this many thousandths of a bit per key.
    UpTo(u32),
    /// One of these widths in bits, in ascending order.
    Widths(&'static [u32]),
}

impl Budgets {
    /// Every budget of [`MILLIBITS`].
    pub(super) const ALL: Self = Self::UpTo(*MILLIBITS.end());

    /// Returns whether the kind takes this many thousandths of a bit per key. Returns `false` for
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
    /// The length of the record in the trailer's extension.
    pub(crate) record_len_bytes: usize,
    pub(crate) rate: f64,
    /// The number of bits that a query tests, as [`Geometry::probes`](super::Geometry::probes).
    pub(crate) probes: u32,
    /// The mean number of cache lines that a query of an absent key reads.
    pub(crate) lines_if_absent: f64,
    /// The mean number of cache lines that a query of a present key reads.
    pub(crate) lines_if_present: f64,
}

impl Planned {
    /// Returns the plan of a filter without a record whose queries read one cache line, or none if
    /// the payload is empty.
    pub(super) fn in_one_line(len_bytes: u64, rate: f64, probes: u32) -> Self {
        let lines = if len_bytes == 0 { 0.0 } else { 1.0 };
        Self { len_bytes, record_len_bytes: 0, rate, probes, lines_if_absent: lines, lines_if_present: lines }
    }
}

/// A shape and its payload.
pub(crate) type Built = (Shape, Vec<u8>);

/// A kind of filter, as a type that the list of kinds names. Queries are functions of the kind
/// itself and do not go through this trait.
pub(super) trait Kind {
    /// The parsed shape, after it was found to fit its payload.
    type Geometry;

    /// The budgets that the kind takes.
    const BUDGETS: Budgets;
    /// The reason to refuse an FPR that is too low: the lowest FPR of the kind, its cause, and an
    /// alternative. A test compares the FPR with the formulas.
    const LOWEST_RATE: &'static str;
    /// Whether the kind has a slower build that takes less space.
    const HAS_COMPACT: bool;

    /// Returns the FPR of a filter of many keys with `millibits` thousandths of a bit per key. A
    /// ribbon counts only the space of its fingerprints.
    fn rate_of_many(millibits: u32) -> f64;

    /// Plans the filter that `budget` gives to `num_keys` keys, at least one.
    ///
    /// # Errors
    /// Returns the reason why there is no such filter.
    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str>;

    /// Builds the filter over `hashes`. The hashes are distinct and sorted, and there is at least
    /// one. The same set gives the same bytes. The function leaves the hashes in any order. It
    /// returns `None` if the kind has no filter for these hashes; the caller then builds the
    /// fallback.
    ///
    /// # Errors
    /// Returns [`NoMemory`] if the payload does not fit in memory.
    fn build(budget: Budget, hashes: &mut [KeyHash], effort: Effort) -> std::result::Result<Option<Built>, NoMemory>;

    /// Returns the filter without keys into which [`super::fill`] sets the bits of `num_keys` keys.
    /// `None` if the kind does not only set bits.
    ///
    /// # Errors
    /// Returns [`NoMemory`] if the payload does not fit in memory.
    fn blank(_budget: Budget, _num_keys: u64, _rounding: Rounding) -> std::result::Result<Option<Blank>, NoMemory> {
        Ok(None)
    }

    /// Returns the FPR of the fallback, which the caller builds if this kind finds no solution.
    /// `None` means the requested FPR or, if the budget is in bits, the same bits per key.
    fn fallback_rate(budget: Budget) -> Option<f64>;

    /// Reads a shape and checks that a payload of `len_bytes` with `num_keys` keys can have it.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`](crate::Error::Corrupt) with the wrong field, at offset 0.
    fn parse(shape: &Shape, num_keys: u64, len_bytes: u64) -> Result<Self::Geometry>;
}
