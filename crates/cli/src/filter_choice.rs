//! Parses the values of `--filter` and `--range-filter` of a store: one filter for all SST files, or a
//! policy of the library. Also parses numbers of bytes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use charts::text::{BYTE_UNITS, parse_bytes};
use filterblock::policy::{AboveBottom, ByLevel, FilterPolicy, MemoryBudget, Monkey};
use filterblock::{Error, FilterKind, FilterSpec, Result};

const BY_LEVEL: &str = "by-level";
const MONKEY: &str = "monkey:";
const BUDGET: &str = "budget:";
const BY_LEVEL_EXPECTED: &str =
    "expected by-level or by-level:FAST/SMALL with two valid filters; try by-level:blocked-bloom:10/bumped-ribbon:8";
const MONKEY_EXPECTED: &str = "expected monkey:BITS or monkey:KIND:BITS, with 1 to 100 bits per key and a KIND of filter that takes this number of bits, except grafite; try monkey:10 or monkey:bloom:10";
const BUDGET_EXPECTED: &str = "expected budget:BYTES or budget:KIND:BYTES, with a whole number of bytes below 2^64 (with a unit such as MiB or MB, or without) and a KIND of filter that takes bits per key, except grafite; try budget:64MiB or budget:bloom:64MiB";

/// The filters that SST files get.
#[derive(Clone, Copy, PartialEq)]
pub enum FilterChoice {
    /// A filter by level: the default policy of the library, or the same policy with other filters.
    ByLevel(ByLevel),
    /// The same filter for every SST file.
    Fixed(FilterSpec),
    /// A mean number of bits per key over all SST files, distributed for the fewest block reads.
    Monkey(Kinds, f64, Monkey),
    /// An approximate limit in bytes for all filters, distributed for the fewest block reads.
    Budget(Kinds, u64, MemoryBudget),
}

/// The kind of filter above the deepest level, and the kind in the deepest level.
#[derive(Clone, Copy, PartialEq)]
pub struct Kinds(FilterKind, FilterKind);

impl FilterChoice {
    pub fn policy(self) -> Arc<dyn FilterPolicy> {
        match self {
            Self::ByLevel(policy) => Arc::new(policy),
            Self::Fixed(spec) => Arc::new(spec),
            Self::Monkey(_, _, policy) => Arc::new(policy),
            Self::Budget(_, _, policy) => Arc::new(policy),
        }
    }
}

impl Default for FilterChoice {
    fn default() -> Self {
        Self::ByLevel(ByLevel::default())
    }
}

impl fmt::Display for FilterChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByLevel(policy) if *policy == ByLevel::default() => f.pad(BY_LEVEL),
            Self::ByLevel(ByLevel { middle, bottom, .. }) => f.pad(&format!("{BY_LEVEL}:{middle}/{bottom}")),
            Self::Fixed(spec) => f.pad(&spec.to_string()),
            Self::Monkey(kinds, bits, _) => f.pad(&format!("{MONKEY}{kinds}{bits}")),
            Self::Budget(kinds, bytes, _) => f.pad(&format!("{BUDGET}{kinds}{}", with_unit(*bytes))),
        }
    }
}

impl FromStr for FilterChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let reason = match text {
            _ if text.starts_with(BY_LEVEL) => BY_LEVEL_EXPECTED,
            _ if text.starts_with(MONKEY) || text == "monkey" => MONKEY_EXPECTED,
            _ if text.starts_with(BUDGET) || text == "budget" => BUDGET_EXPECTED,
            _ => return text.parse().map(Self::Fixed),
        };
        parse(text).ok_or_else(|| Error::Invalid { what: "filter", given: text.to_owned(), reason: reason.into() })
    }
}

/// Parses a policy: `by-level`, `monkey` or `budget` with its parameters. Returns `None` for any
/// other text, and for invalid parameters.
fn parse(text: &str) -> Option<FilterChoice> {
    if text == BY_LEVEL {
        return Some(FilterChoice::default());
    }
    if let Some((fast, small)) = text.strip_prefix("by-level:").and_then(|specs| specs.split_once('/')) {
        return Some(FilterChoice::ByLevel(ByLevel::fast_and_small(fast.parse().ok()?, small.parse().ok()?)));
    }
    if let Some(rest) = text.strip_prefix(MONKEY) {
        let (kinds, number) = split_kinds(rest)?;
        let bits: f64 = number.parse().ok()?;
        return Some(FilterChoice::Monkey(kinds, bits, Monkey::new(kinds.0, bits).ok()?.with_bottom(kinds.1).ok()?));
    }
    let (kinds, number) = split_kinds(text.strip_prefix(BUDGET)?)?;
    let bytes = parse_bytes(number)?;
    let policy = MemoryBudget::new(kinds.0, bytes).ok()?.with_bottom(kinds.1).ok()?;
    Some(FilterChoice::Budget(kinds, bytes, policy))
}

/// Splits off an optional `KIND:` or `KIND/KIND:` at the start, and returns the kinds and the rest.
/// Returns `None` if a kind is unknown.
fn split_kinds(text: &str) -> Option<(Kinds, &str)> {
    let Some((kinds, number)) = text.split_once(':') else { return Some((Kinds::DEFAULT, text)) };
    let (upper, bottom) = kinds.split_once('/').unwrap_or((kinds, kinds));
    Some((Kinds(FilterKind::from_name(upper)?, FilterKind::from_name(bottom)?), number))
}

impl Kinds {
    const DEFAULT: Self = Self(FilterKind::BlockedBloom, FilterKind::BlockedBloom);
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(upper, bottom) = self;
        match self {
            kinds if *kinds == Self::DEFAULT => Ok(()),
            _ if upper == bottom => write!(f, "{upper}:"),
            _ => write!(f, "{upper}/{bottom}:"),
        }
    }
}

/// Parses the value of an option that takes a number of bytes.
pub fn memory(text: &str) -> Result<u64, &'static str> {
    parse_bytes(text)
        .ok_or("expected a whole number of bytes below 2^64, with a unit such as MiB or MB, or without; try 64MiB")
}

fn with_unit(bytes: u64) -> String {
    let is_exact = |(unit, size): &(&str, u64)| bytes > 0 && bytes.is_multiple_of(*size) && unit.ends_with("iB");
    let fits = BYTE_UNITS.into_iter().find(is_exact);
    fits.map_or_else(|| bytes.to_string(), |(unit, size)| format!("{}{unit}", bytes / size))
}

const NONE: &str = "none";
const ABOVE_BOTTOM: &str = "above-bottom:";
const RANGES_EXPECTED: &str = "expected none, a range filter SPEC or above-bottom:SPEC; try grafite:fpr=0.01, \
                        grafite:L=1024:fpr=0.01 or above-bottom:grafite:fpr=0.01";

/// The range filters that SST files get.
#[derive(Clone, Copy, PartialEq, Default)]
pub enum RangeChoice {
    #[default]
    None,
    /// The same range filter for every SST file.
    Fixed(FilterSpec),
    /// A range filter for every SST file that is not bottommost.
    AboveBottom(FilterSpec),
}

impl RangeChoice {
    pub fn policy(self) -> Option<Arc<dyn FilterPolicy>> {
        match self {
            Self::None => None,
            Self::Fixed(spec) => Some(Arc::new(spec)),
            Self::AboveBottom(spec) => Some(Arc::new(AboveBottom(spec))),
        }
    }
}

impl fmt::Display for RangeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad(NONE),
            Self::Fixed(spec) => f.pad(&spec.to_string()),
            Self::AboveBottom(spec) => f.pad(&format!("{ABOVE_BOTTOM}{spec}")),
        }
    }
}

impl FromStr for RangeChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == NONE {
            return Ok(Self::None);
        }
        let (spec, is_above) = match text.strip_prefix(ABOVE_BOTTOM) {
            Some(spec) => (spec, true),
            None => (text, false),
        };
        // For a range filter, the error of its own parser is more precise than `RANGES_EXPECTED`.
        if !spec.starts_with(FilterKind::Grafite.name()) {
            return Err(Error::Invalid {
                what: "range filter",
                given: text.to_owned(),
                reason: RANGES_EXPECTED.into(),
            });
        }
        let spec = spec.parse()?;
        Ok(if is_above { Self::AboveBottom(spec) } else { Self::Fixed(spec) })
    }
}
