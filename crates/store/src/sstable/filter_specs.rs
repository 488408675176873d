//! Decides which filters an SST gets: a filter of keys, a range filter, both, or none.

use crate::error::Result;
use filterblock::{FilterKind, FilterSpec};

/// The filters of an SST.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FilterSpecs {
    /// The filter of the keys, or the range filter if the SST gets only a range filter. `None`
    /// means that the SST gets no filter.
    pub(crate) points: Option<FilterSpec>,
    /// The range filter beside the filter of the keys, if any.
    pub(crate) ranges: Option<FilterSpec>,
}

impl FilterSpecs {
    /// Combines the requested filter and the requested range filter. If `filter` is itself a range
    /// filter, the result ignores `ranges`.
    ///
    /// # Errors
    /// Returns [`filterblock::Error::Invalid`] if `ranges` is not a range filter.
    pub(crate) fn of(filter: Option<FilterSpec>, ranges: Option<FilterSpec>) -> Result<Self> {
        if let Some(ranges) = ranges {
            check_ranges(ranges)?;
        }
        Ok(match filter {
            None => Self { points: ranges, ranges: None },
            Some(filter) if is_for_ranges(filter) => Self { points: Some(filter), ranges: None },
            Some(_) => Self { points: filter, ranges },
        })
    }

    /// Returns whether the filter can hold prefixes beside the keys.
    pub(crate) fn holds_prefixes(&self) -> bool {
        self.points.is_some_and(|points| !is_for_ranges(points))
    }

    /// Returns whether the SST gets a range filter and no other filter.
    pub(crate) fn is_for_ranges_alone(&self) -> bool {
        self.points.is_some_and(is_for_ranges)
    }
}

fn is_for_ranges(spec: FilterSpec) -> bool {
    spec.kind() == FilterKind::Grafite
}

/// Checks that a filter is a range filter.
pub(crate) fn check_ranges(spec: FilterSpec) -> Result<()> {
    if is_for_ranges(spec) {
        return Ok(());
    }
    let reason = "this kind does not answer for ranges of keys; try grafite:fpr=0.01".into();
    Err(filterblock::Error::Invalid { what: "range filter", given: spec.to_string(), reason }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_filter_lies_beside_another_filter_or_alone() {
        let spec = |text: &str| (text != "-").then(|| text.parse::<FilterSpec>().unwrap());
        for (filter, ranges, points, beside, holds_prefixes) in [
            ("-", "-", "-", "-", false),
            ("bloom:10", "-", "bloom:10", "-", true),
            ("bloom:10", "grafite:9", "bloom:10", "grafite:9", true),
            ("-", "grafite:9", "grafite:9", "-", false),
            ("grafite:12", "grafite:9", "grafite:12", "-", false),
        ] {
            let found = FilterSpecs::of(spec(filter), spec(ranges)).unwrap();
            assert_eq!(found, FilterSpecs { points: spec(points), ranges: spec(beside) });
            assert_eq!(found.holds_prefixes(), holds_prefixes);
        }
        let error = FilterSpecs::of(None, spec("bloom:10")).unwrap_err().to_string();
        assert!(error.contains("try grafite"), "{error}");
    }
}
