//! Lists the types for which an engine loses rows if their columns have filters.

use std::fmt;

use super::Leaf;

/// The number of the logical type `DECIMAL`.
const DECIMAL: i16 = 5;
/// The number of the logical type `FLOAT16`.
const FLOAT16: i16 = 15;
/// The numbers of the converted types `DECIMAL` and `INTERVAL`.
const CONVERTED_DECIMAL: i64 = 5;
const CONVERTED_INTERVAL: i64 = 21;
/// The maximum precision of a decimal that DuckDB reads as a decimal.
const MAX_PRECISION: i64 = 38;

/// A type for which an engine loses rows: with a filter, the engine skips row groups that hold the
/// searched value. `tests/engines/suites/types.py` asks the engines for values of all types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The short name of the type, such as `interval`.
    pub name: &'static str,
    /// The type in words.
    pub kind: &'static str,
    /// The engine and its tested version.
    pub engine: &'static str,
    /// What the engine does, as a part of a sentence after its name.
    pub reason: &'static str,
}

impl Loss {
    /// The types, in the order of `docs/PARQUET.md`.
    pub const ALL: [Self; 3] = [Self::FLOAT16, Self::DECIMAL256, Self::INTERVAL];

    const FLOAT16: Self =
        Self { name: "float16", kind: "FLOAT16", engine: "DuckDB 2.0", reason: "hashes the values as FLOAT" };
    const DECIMAL256: Self = Self {
        name: "decimal256",
        kind: "DECIMAL with a precision over 38",
        engine: "DuckDB 2.0",
        reason: "reads and hashes the values as DOUBLE",
    };
    pub(super) const INTERVAL: Self = Self {
        name: "interval",
        kind: "INTERVAL",
        engine: "DuckDB 2.0",
        reason: "turns 30 days into a month and 24 hours into a day before it hashes a value",
    };

    /// Returns the entry of a column's type, or `None` if no tested engine loses rows.
    pub(super) fn of(leaf: &Leaf) -> Option<&'static Self> {
        let is_decimal = leaf.logical_type == Some(DECIMAL) || leaf.converted_type == Some(CONVERTED_DECIMAL);
        if leaf.logical_type == Some(FLOAT16) {
            Some(&Self::FLOAT16)
        } else if is_decimal && leaf.precision.is_none_or(|precision| precision > MAX_PRECISION) {
            Some(&Self::DECIMAL256)
        } else if leaf.converted_type == Some(CONVERTED_INTERVAL) {
            Some(&Self::INTERVAL)
        } else {
            None
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, engine, reason, .. } = self;
        write!(f, "the type {kind}: {engine} {reason}, so with a filter it loses rows")
    }
}
