//! Which filter a table gets: a [`FilterPolicy`] maps a table's shape, and that of its store, to a [`FilterSpec`].
//!
//! | Policy | What it knows | For |
//! |---|---|---|
//! | a [`FilterSpec`] | nothing | the same filter for every table |
//! | [`ByLevel`] | the table's level | a fast kind above, a small kind at the bottom |
//! | [`Monkey`] | the keys of each level | the fewest block reads for so many bits a key |
//! | [`MemoryBudget`] | the same, and the filters there are | the fewest block reads for so many bytes in all |

mod budget;
mod curve;
mod monkey;

use std::fmt::Debug;

pub use budget::MemoryBudget;
pub use monkey::Monkey;

use crate::spec::FilterSpec;

/// What is known of a table, and of its store, when its filter is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableShape {
    /// Keys that will be in the table at most. Of the tables that one compaction writes, all together.
    pub num_keys: u64,
    /// The level it is written to; 0 is what memory is flushed to.
    pub level: usize,
    /// Whether no level below holds keys of its range.
    pub bottommost: bool,
    /// The levels of the store as they will be with the table in its place and without those that it replaces; empty
    /// where that is not known.
    pub levels: Vec<LevelShape>,
    /// Each level may be so many times as large as the one above it.
    pub size_ratio: u64,
}

impl TableShape {
    /// A shape of a table in a store of which nothing is known.
    #[must_use]
    pub fn new(num_keys: u64, level: usize, bottommost: bool) -> Self {
        Self { num_keys, level, bottommost, levels: Vec::new(), size_ratio: 10 }
    }

    /// The same table in a store with these levels, itself included.
    #[must_use]
    pub fn with_levels(self, levels: Vec<LevelShape>) -> Self {
        Self { levels, ..self }
    }

    /// The same table in a store whose levels grow by this factor.
    #[must_use]
    pub fn with_size_ratio(self, size_ratio: u64) -> Self {
        Self { size_ratio, ..self }
    }

    /// The levels, and if these are not known, those of a store of this table alone.
    fn known_levels(&self) -> Vec<LevelShape> {
        let mut levels = self.levels.clone();
        // No store has a thousand levels, and a policy may be asked anything.
        if levels.len() <= self.level && self.level < 1_000 {
            levels.resize(self.level + 1, LevelShape::default());
        }
        match levels.get_mut(self.level) {
            Some(own) if own.num_keys == 0 => {
                let num_tables = own.num_tables.max(1);
                *own = LevelShape { num_keys: self.num_keys, num_tables, ..*own };
            }
            _ => {}
        }
        levels
    }
}

/// What a level of a store holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LevelShape {
    /// Entries in its tables, removals included; what is being written counts with the most that it can be.
    pub num_keys: u64,
    /// Its tables. Those of level 0 may overlap, so that each is a run of its own; any other level is one run.
    pub num_tables: u64,
    /// Bytes of the filters that it has already, and keeps.
    pub filter_bytes: u64,
}

impl LevelShape {
    /// A level without filters so far.
    #[must_use]
    pub fn new(num_keys: u64, num_tables: u64) -> Self {
        Self { num_keys, num_tables, filter_bytes: 0 }
    }

    /// The same with filters of so many bytes.
    #[must_use]
    pub fn with_filter_bytes(self, filter_bytes: u64) -> Self {
        Self { filter_bytes, ..self }
    }
}

/// Chooses the filter of each table that a store writes; `None` is a table without one.
///
/// A [`FilterSpec`] is the policy that always chooses it, and so is any function of a shape. A table that was written
/// under another policy stays readable: its filter block says what it is. It keeps that filter until a compaction writes
/// it anew; a compaction of the store does so where a policy has come to choose differently.
///
/// A policy is called by the threads that write tables. One that panics there fails the store, which then refuses writes
/// until it is opened anew, and loses none that it has acknowledged.
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

/// The default policy: a filter for level 0, one for the bottom, and one for what lies between.
///
/// A read may have to ask every table of level 0, but only one on each level below, and level 0 is small: sixteen bits
/// a key there cost a few per cent of all filter memory and make its part of the false positives, which would be the
/// largest, the smallest (the idea of [`Monkey`] in its simplest form).
///
/// The bottom holds nine tenths of the keys at a size ratio of ten, and its tables live longest. There a kind that takes
/// less space and more time to build and to ask is worth it: [`ByLevel::fast_and_small`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByLevel {
    /// For tables of level 0.
    pub level_0: FilterSpec,
    /// For tables with keys of their range below them.
    pub middle: FilterSpec,
    /// For tables below level 0 with nothing of their range below them.
    pub bottom: FilterSpec,
}

impl ByLevel {
    /// `small` at the bottom and `fast` above it, in level 0 too.
    ///
    /// ```
    /// use filterblock::{ByLevel, FilterPolicy, TableShape};
    ///
    /// let policy = ByLevel::fast_and_small("blocked-bloom:12".parse()?, "bumped-ribbon:fpr=0.01".parse()?);
    /// assert_eq!(policy.choose(&TableShape::new(1000, 2, true)), Some(policy.bottom));
    /// # Ok::<(), filterblock::Error>(())
    /// ```
    #[must_use]
    pub fn fast_and_small(fast: FilterSpec, small: FilterSpec) -> Self {
        Self { level_0: fast, middle: fast, bottom: small }
    }
}

impl Default for ByLevel {
    /// `blocked-bloom:16` (0.08 %) in level 0, `blocked-bloom:10` (0.97 %) below.
    fn default() -> Self {
        Self { level_0: FilterSpec::LARGE, middle: FilterSpec::default(), bottom: FilterSpec::default() }
    }
}

impl FilterPolicy for ByLevel {
    fn choose(&self, table: &TableShape) -> Option<FilterSpec> {
        Some(match table.level {
            0 => self.level_0,
            _ if table.bottommost => self.bottom,
            _ => self.middle,
        })
    }
}

impl Debug for dyn FilterPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FilterPolicy")
    }
}
