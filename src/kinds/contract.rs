//! The contract of a kind: what every entry of the list of kinds tells of itself.

use std::ops::RangeInclusive;

use super::shape::{Effort, Shape};
use crate::bits::NoMemory;
use crate::error::Result;
use crate::hash::KeyHash;

/// Least and most thousandths of a bit per key: below one bit a filter says "maybe" to nearly everything, above a
/// hundred every kind has long reached a rate that cannot be told from zero.
pub(crate) const MILLIBITS: RangeInclusive<u32> = 1_000..=100_000;

/// The number of keys of [`Kind::rate_of_many`]. Any number will do that is large enough for the size to be no multiple of a
/// granule.
pub(super) const MANY_KEYS: u64 = 512_000_000;

/// Why a filter has no plan: see [`Kind::plan`].
pub(crate) const TOO_LARGE: &str = "its size does not fit 64 bits; plan for fewer keys";
/// The same where the size is one of addresses.
pub(crate) const TOO_LARGE_FOR_MEMORY: &str = "too large for this machine's memory; plan for fewer keys";

/// What a filter may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Budget {
    /// Thousandths of a bit per distinct key.
    pub(crate) millibits: u32,
    /// The rate asked for, when the budget was given as one.
    pub(crate) rate: Option<f64>,
    /// The least space, at the price of a slower build: see [`Kind::HAS_COMPACT`].
    pub(crate) compact: bool,
}

impl Budget {
    /// A number of thousandths of a bit per key.
    pub(crate) const fn of_millibits(millibits: u32) -> Self {
        Self { millibits, rate: None, compact: false }
    }
}

/// The budgets that a kind takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Budgets {
    /// None: the filter takes no space.
    None,
    /// From the least of [`MILLIBITS`] up to so many thousandths of a bit.
    UpTo(u32),
    /// One of so many bits, in ascending order.
    Widths(&'static [u32]),
}

impl Budgets {
    /// Every budget of [`MILLIBITS`].
    pub(super) const ALL: Self = Self::UpTo(*MILLIBITS.end());

    /// Whether the kind can be had for so many thousandths of a bit; not for NaN.
    pub(crate) fn take(self, millibits: f64) -> bool {
        match self {
            Self::None => false,
            Self::UpTo(most) => millibits >= f64::from(*MILLIBITS.start()) && millibits <= f64::from(most),
            Self::Widths(widths) => widths.iter().any(|&width| f64::from(width) * 1000.0 == millibits),
        }
    }
}

/// What is known of a filter before it is built.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Planned {
    pub(crate) len_bytes: u64,
    /// Of the record in the trailer's extension.
    pub(crate) record_len_bytes: usize,
    pub(crate) rate: f64,
    /// Cache lines that a query of an absent key reads on average.
    pub(crate) lines_if_absent: f64,
    /// The same of a present key.
    pub(crate) lines_if_present: f64,
}

impl Planned {
    /// A filter without a record, whose queries read one line, or none where there are no bytes.
    pub(super) fn in_one_line(len_bytes: u64, rate: f64) -> Self {
        let lines = if len_bytes == 0 { 0.0 } else { 1.0 };
        Self { len_bytes, record_len_bytes: 0, rate, lines_if_absent: lines, lines_if_present: lines }
    }
}

/// A shape and its payload.
pub(crate) type Built = (Shape, Vec<u8>);

/// A kind of filter, as a type that the list of kinds names. Queries are functions of a kind's own: no call of them goes
/// through this trait.
pub(super) trait Kind {
    /// What is kept of a shape that was found to fit its payload.
    type Geometry;

    /// The budgets that the kind takes.
    const BUDGETS: Budgets;
    /// Why the kind has not every rate, and what to use in its place. A test compares the rates with the formulas.
    const LOWEST_RATE: &'static str;
    /// Whether the kind knows a slower build that takes less space.
    const HAS_COMPACT: bool;

    /// The false-positive rate of a filter of many keys.
    fn rate_of_many(millibits: u32) -> f64;

    /// The filter that `budget` gives `num_keys` keys, at least one.
    ///
    /// # Errors
    /// Why there is none.
    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str>;

    /// Builds the filter over `hashes`, at least one, which are distinct and sorted: the same set gives the same bytes.
    /// Leaves them in any order. `None` where these hashes have no filter of the kind: another takes its place.
    ///
    /// # Errors
    /// [`NoMemory`] when the payload would not fit in memory.
    fn build(budget: Budget, hashes: &mut [KeyHash], effort: Effort) -> std::result::Result<Option<Built>, NoMemory>;

    /// The rate of the filter that takes the place of one without a solution; `None` keeps the rate asked for, or else the
    /// bits.
    fn fallback_rate(budget: Budget) -> Option<f64>;

    /// Reads a shape and checks that a payload of `len_bytes` with `num_keys` keys can have it.
    ///
    /// # Errors
    /// The field that does not hold, at offset 0.
    fn parse(shape: &Shape, num_keys: u64, len_bytes: u64) -> Result<Self::Geometry>;
}
