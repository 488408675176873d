//! Which filter a table gets: a [`FilterPolicy`] maps a table's shape to a [`FilterSpec`].

use std::fmt::Debug;

use crate::filter::FilterSpec;

/// What is known of a table when its filter is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableShape {
    /// Keys that will be in the table at most.
    pub num_keys: u64,
    /// The level it is written to; 0 is what memory is flushed to.
    pub level: usize,
    /// Whether no level below holds keys of its range.
    pub bottommost: bool,
}

impl TableShape {
    /// A shape of its three parts.
    #[must_use]
    pub fn new(num_keys: u64, level: usize, bottommost: bool) -> Self {
        Self { num_keys, level, bottommost }
    }
}

/// Chooses the filter of each table that a store writes; `None` is a table without one.
///
/// A [`FilterSpec`] is the policy that always chooses it, and so is any function of a shape. A table that was written
/// under another policy stays readable: its filter block says what it is.
///
/// ```
/// use filterblock::{FilterPolicy, FilterSpec, TableShape};
///
/// let by_level = |table: &TableShape| {
///     let spec = if table.bottommost { "bloom:10" } else { "blocked-bloom:12" };
///     spec.parse::<FilterSpec>().ok()
/// };
/// assert!(by_level.choose(&TableShape::new(1000, 0, false)).is_some());
/// ```
pub trait FilterPolicy: Send + Sync {
    /// The filter for a table of this shape.
    fn choose(&self, table: &TableShape) -> Option<FilterSpec>;
}

impl FilterPolicy for FilterSpec {
    fn choose(&self, _: &TableShape) -> Option<FilterSpec> {
        Some(*self)
    }
}

impl<F: Fn(&TableShape) -> Option<FilterSpec> + Send + Sync> FilterPolicy for F {
    fn choose(&self, table: &TableShape) -> Option<FilterSpec> {
        self(table)
    }
}

/// The default policy: more bits in level 0 than below.
///
/// A read may have to ask every table of level 0, but only one on each level below, and level 0 is small: sixteen bits
/// a key there cost a few per cent of all filter memory and make its part of the false positives, which would be the
/// largest, the smallest (the idea of Dayan et al., "Monkey: optimal navigable key-value store", 2017, in its simplest
/// form).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByLevel {
    /// For tables of level 0.
    pub level_0: FilterSpec,
    /// For all others.
    pub below: FilterSpec,
}

impl Default for ByLevel {
    /// `blocked-bloom:16` (0.08 %) above `blocked-bloom:10` (0.97 %).
    fn default() -> Self {
        Self { level_0: FilterSpec::LARGE, below: FilterSpec::default() }
    }
}

impl FilterPolicy for ByLevel {
    fn choose(&self, table: &TableShape) -> Option<FilterSpec> {
        Some(if table.level == 0 { self.level_0 } else { self.below })
    }
}

impl Debug for dyn FilterPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FilterPolicy")
    }
}
