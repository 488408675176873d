//! Parses the text form of a specification: `KIND[:L=LEN]:BUDGET[:compact]`.

use std::str::FromStr;

use super::ranges::{ONLY_GRAFITE, RANGE_LEN_EXPECTED};
use super::{FilterSpec, ONLY_BUMPED_RIBBON, bits_expected, missing_budget, rate_expected, unknown_kind};
use crate::error::{Error, Result};
use crate::filters::FilterKind;

const COMPACT_TWICE: &str = "compact is given twice; give it once, as in bumped-ribbon:8:compact";
const COMPACT_COMES_LAST: &str = "compact comes after the budget; try bumped-ribbon:8:compact";
const RANGE_LEN_TWICE: &str = "the range length is given twice; give it once, as in grafite:L=1024:fpr=0.01";
const RANGE_LEN_COMES_FIRST: &str = "the range length comes before the budget; try grafite:L=1024:fpr=0.01";

impl FromStr for FilterSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = |reason: String| Error::invalid("filter", text, reason);
        let named = |error| match error {
            Error::Invalid { reason, .. } => Error::invalid("filter", text, reason),
            other => other,
        };
        if let Some(usual) = text.strip_suffix(":compact") {
            // This check also limits the recursion to one level.
            if usual.ends_with(":compact") {
                let name = text.split(':').next().unwrap_or_default();
                let has_compact = FilterKind::from_name(name).is_none_or(|kind| kind.info().has_compact_build);
                return Err(invalid(if has_compact { COMPACT_TWICE } else { ONLY_BUMPED_RIBBON }.to_owned()));
            }
            return usual.parse::<Self>().and_then(Self::compact).map_err(named);
        }
        if text == FilterKind::AlwaysMaybe.name() {
            return Ok(Self::ALWAYS_MAYBE);
        }
        let (name, parts) = text.split_once(':').unwrap_or((text, ""));
        let kind = FilterKind::from_name(name).ok_or_else(|| invalid(unknown_kind(name)))?;
        let (range_len, budget) = match parts.strip_prefix("L=") {
            None => (None, parts),
            Some(rest) => {
                let (len, budget) = rest.split_once(':').unwrap_or((rest, ""));
                (Some(len.parse().map_err(|_| invalid(RANGE_LEN_EXPECTED.to_owned()))?), budget)
            }
        };
        if budget.is_empty() {
            return Err(invalid(missing_budget(kind)));
        }
        if let Some(reason) = excess(kind, range_len.is_some(), budget) {
            return Err(invalid(reason));
        }
        let rate = budget.strip_prefix("fpr=").map(|rate| rate.parse().map_err(|_| invalid(rate_expected(kind))));
        let spec = match (rate.transpose()?, range_len) {
            (Some(rate), None) => Self::false_positive_rate(kind, rate),
            (Some(rate), Some(range_len)) => Self::of_range_rate(kind, rate, range_len),
            (None, range_len) => {
                let spec = Self::bits_per_key(kind, budget.parse().map_err(|_| invalid(bits_expected(kind)))?);
                spec.and_then(|spec| range_len.map_or(Ok(spec), |range_len| spec.with_range_len(range_len)))
            }
        };
        spec.map_err(named)
    }
}

/// Returns the reason for refusing a budget that has parts besides one number. Returns `None` if
/// another check refuses the budget, or if there is nothing to refuse.
fn excess(kind: FilterKind, has_range_len: bool, budget: &str) -> Option<String> {
    let parts = || budget.split(':');
    if !kind.takes_budget() || parts().any(str::is_empty) {
        return None;
    }
    if parts().any(|part| part.starts_with("L=")) {
        let reason = if has_range_len { RANGE_LEN_TWICE } else { RANGE_LEN_COMES_FIRST };
        return Some(if kind.info().is_of_ranges { reason } else { ONLY_GRAFITE }.to_owned());
    }
    let mut budgets = parts().filter(|&part| part != "compact");
    match (budgets.next(), budgets.next()) {
        (Some(one), Some(other)) => Some(format!("it has two budgets, {one} and {other}; give one budget")),
        _ if parts().all(|part| part != "compact") => None,
        _ if kind.info().has_compact_build => Some(COMPACT_COMES_LAST.to_owned()),
        _ => Some(ONLY_BUMPED_RIBBON.to_owned()),
    }
}
