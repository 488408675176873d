//! Parses the value of `--range-filter` of a store.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use filterblock::{
    Error, FilterKind, FilterSpec, Result,
    policy::{AboveBottom, FilterPolicy},
};

const NONE: &str = "none";
const ABOVE_BOTTOM: &str = "above-bottom:";
const EXPECTED: &str = "expected none, a range filter SPEC or above-bottom:SPEC; try grafite:fpr=0.01, \
                        grafite:L=1024:fpr=0.01 or above-bottom:grafite:fpr=0.01";

/// The range filters that SST files get.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum RangeChoice {
    #[default]
    None,
    /// The same range filter for every SST file.
    Fixed(FilterSpec),
    /// A range filter for every SST file that is not bottommost.
    AboveBottom(FilterSpec),
}

impl RangeChoice {
    /// Returns the policy for a store's options, or `None` for [`Self::None`].
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
        // For a range filter, the error of its own parser is more precise than `EXPECTED`.
        if !spec.starts_with(FilterKind::Grafite.name()) {
            return Err(Error::Invalid { what: "range filter", given: text.to_owned(), reason: EXPECTED.into() });
        }
        let spec = spec.parse()?;
        Ok(if is_above { Self::AboveBottom(spec) } else { Self::Fixed(spec) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_round_trip_through_text() {
        for text in ["none", "grafite:fpr=0.01", "grafite:L=1024:fpr=0.01", "above-bottom:grafite:12.7"] {
            assert_eq!(text.parse::<RangeChoice>().unwrap().to_string(), text);
        }
        assert_eq!((RangeChoice::None.policy().is_none(), RangeChoice::default()), (true, RangeChoice::None));
    }

    #[test]
    fn other_filters_are_refused_with_a_suggestion() {
        for text in ["", "bloom:10", "above-bottom:", "above-bottom:bloom:10", "grafite", "grafite:L=0:9", "None"] {
            let error = text.parse::<RangeChoice>().unwrap_err().to_string();
            assert!(error.contains("; try "), "{error}");
        }
    }
}
