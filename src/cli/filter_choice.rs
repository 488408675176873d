//! A filter policy by name: one filter for all tables, or the library's choice by level.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::filter::FilterSpec;
use crate::policy::{ByLevel, FilterPolicy};

const BY_LEVEL: &str = "by-level";

/// `by-level`, or a filter specification.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FilterChoice {
    /// The library's default policy.
    ByLevel,
    /// The same filter for every table.
    Fixed(FilterSpec),
}

impl FilterChoice {
    /// The policy for a store's options.
    pub fn policy(self) -> Arc<dyn FilterPolicy> {
        match self {
            Self::ByLevel => Arc::new(ByLevel::default()),
            Self::Fixed(spec) => Arc::new(spec),
        }
    }
}

impl fmt::Display for FilterChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByLevel => f.pad(BY_LEVEL),
            Self::Fixed(spec) => f.pad(&spec.to_string()),
        }
    }
}

impl FromStr for FilterChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == BY_LEVEL { Ok(Self::ByLevel) } else { text.parse().map(Self::Fixed) }
    }
}
