//! Policies that choose the filter of an SST. A [`FilterPolicy`] maps the shape of an SST and of
//! its store to a [`FilterSpec`].
//!
//! | Policy | Input | Use |
//! |---|---|---|
//! | a [`FilterSpec`] | none | the same filter for every SST |
//! | [`ByLevel`] | the SST's level | a fast kind above, a small kind at the bottom |
//! | [`AboveBottom`] | whether a deeper level holds keys of the SST's range | range filters for short scans |
//! | [`Monkey`] | the keys of each level | the fewest block reads for a number of bits per key |
//! | [`MemoryBudget`] | the keys and the filter bytes of each level | the fewest block reads for a number of bytes |

mod budget;
mod curve;
mod monkey;

use std::fmt::Debug;

pub use budget::MemoryBudget;
pub use monkey::Monkey;

use crate::spec::FilterSpec;

/// The facts about an SST and its store that a policy uses to choose a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableShape {
    /// The largest number of keys that the SST may have. If one compaction writes several SSTs,
    /// the number is their total.
    pub num_keys: u64,
    /// The level that the SST is written to. Memtables are flushed to level 0.
    pub level: usize,
    /// Whether no deeper level holds keys in the range of this SST.
    pub bottommost: bool,
    /// The levels of the store after the new SST has replaced its inputs. Empty if the levels are
    /// not known.
    pub levels: Vec<LevelShape>,
    /// The size limit of a level divided by the size limit of the level above it.
    pub size_ratio: u64,
}

impl TableShape {
    /// Creates the shape of an SST in a store whose levels are not known. The size ratio is 10.
    #[must_use]
    pub fn new(num_keys: u64, level: usize, bottommost: bool) -> Self {
        Self { num_keys, level, bottommost, levels: Vec::new(), size_ratio: 10 }
    }

    /// Sets the levels of the store, including the new SST.
    #[must_use]
    pub fn with_levels(self, levels: Vec<LevelShape>) -> Self {
        Self { levels, ..self }
    }

    /// Sets the factor by which the levels of the store grow.
    #[must_use]
    pub fn with_size_ratio(self, size_ratio: u64) -> Self {
        Self { size_ratio, ..self }
    }

    /// Returns the levels of the store. If the SST's own level is missing or has no keys, it gets
    /// the keys of this SST.
    fn known_levels(&self) -> Vec<LevelShape> {
        let mut levels = self.levels.clone();
        // A caller may give any number. No store has a thousand levels, so a larger number
        // allocates no memory.
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

/// The contents of one level of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LevelShape {
    /// Entries in the SSTs of the level, including tombstones. An SST that is being written
    /// counts with its largest possible number.
    pub num_keys: u64,
    /// Number of SSTs. In level 0 SSTs may overlap, so each SST is a run. Every other level
    /// is one run.
    pub num_tables: u64,
    /// Bytes of the filters that the level already has and keeps.
    pub filter_bytes: u64,
}

impl LevelShape {
    /// Creates a level without filters.
    #[must_use]
    pub fn new(num_keys: u64, num_tables: u64) -> Self {
        Self { num_keys, num_tables, filter_bytes: 0 }
    }

    /// Sets the bytes of the level's filters.
    #[must_use]
    pub fn with_filter_bytes(self, filter_bytes: u64) -> Self {
        Self { filter_bytes, ..self }
    }
}

/// Chooses the filter of each SST that a store writes. `None` means an SST without a filter.
///
/// A [`FilterSpec`] is a policy that always chooses itself. Any function of a [`TableShape`] is a
/// policy, too. An SST written under another policy stays readable, because its filter block
/// describes itself. An SST keeps its filter until a compaction rewrites the SST.
///
/// In `filterblock-store`, the threads that write SSTs call the policy, and `Db::compact_range`
/// also rebuilds SSTs for which the policy now chooses a clearly different filter. If a policy
/// panics, the store refuses writes until it is opened again; it loses no acknowledged write.
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
    /// Chooses the filter of an SST of this shape.
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

/// The default policy: one filter for level 0, one for the bottom, and one for the levels between.
///
/// A read may have to ask every SST of level 0, but only one SST of each deeper level. Level 0
/// is small, so 16 bits per key there take only a few per cent of all filter memory. With 16 bits,
/// level 0 causes the fewest false positives of all levels; with 10 bits, it would cause the most.
/// This is the idea of [`Monkey`] in its simplest form.
///
/// At a size ratio of ten, the bottom holds nine tenths of the keys, and its SSTs live longest. So
/// a kind that takes less space, but more time to build, is worthwhile there: a bumped ribbon of
/// eight columns denies more absent keys than blocked Bloom with ten bits, in a fifth less memory.
/// Use [`ByLevel::fast_and_small`] for other kinds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByLevel {
    /// The filter of SSTs in level 0.
    pub level_0: FilterSpec,
    /// The filter of SSTs below level 0, if a deeper level holds keys of their range.
    pub middle: FilterSpec,
    /// The filter of SSTs below level 0, if no deeper level holds keys of their range.
    pub bottom: FilterSpec,
}

impl ByLevel {
    /// Uses `small` at the bottom, and `fast` above the bottom and in level 0.
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
    /// Uses `blocked-bloom:16` (FPR 0.08 %) in level 0, `bumped-ribbon:8` (0.39 %) at the bottom and
    /// `blocked-bloom:10` (0.97 %) between them.
    fn default() -> Self {
        Self { level_0: FilterSpec::LARGE, middle: FilterSpec::default(), bottom: FilterSpec::SMALL }
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

/// The same filter for every SST above the bottom, and none for the bottommost SSTs. It is meant
/// for range filters.
///
/// At a size ratio of ten, the bottom holds nine tenths of the keys. So a short scan that finds keys
/// finds them mostly there, and nothing in the SSTs above: these are the reads to save, and their
/// filters take a tenth of the memory.
///
/// ```
/// use filterblock::{AboveBottom, FilterPolicy, TableShape};
///
/// let policy = AboveBottom("grafite:fpr=0.01".parse()?);
/// assert_eq!(policy.choose(&TableShape::new(1000, 0, false)), Some(policy.0));
/// assert_eq!(policy.choose(&TableShape::new(1000, 2, true)), None);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AboveBottom(pub FilterSpec);

impl FilterPolicy for AboveBottom {
    fn choose(&self, table: &TableShape) -> Option<FilterSpec> {
        (!table.bottommost).then_some(self.0)
    }
}

impl Debug for dyn FilterPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FilterPolicy")
    }
}
