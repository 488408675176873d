//! Chooses the filter of each SST. A [`FilterPolicy`] maps the [`TableShape`] of an SST to a
//! [`FilterSpec`].
//!
//! | Policy | Input | Use |
//! |---|---|---|
//! | a [`FilterSpec`] | none | the same filter for every SST |
//! | [`ByLevel`] | the SST's level, and whether a deeper level holds keys of the SST's range | a fast kind above, a small kind at the bottom |
//! | [`AboveBottom`] | whether a deeper level holds keys of the SST's range | range filters for short scans |
//! | [`Monkey`] | the keys and SSTs of each level | the fewest block reads for a number of bits per key |
//! | [`MemoryBudget`] | the keys, SSTs and filter bytes of each level | the fewest block reads for a number of bytes |

mod monkey;

use std::fmt::Debug;

use monkey::Kinds;

use crate::error::Result;
use crate::filters::{Budgets, FilterKind};
use crate::spec::FilterSpec;

pub use monkey::Monkey;

/// The facts about an SST and its store that a policy uses to choose a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableShape {
    /// The number of keys of the SST, usually an upper bound. If one compaction writes several
    /// SSTs, it counts the keys of all of them together.
    pub num_keys: u64,
    /// The level that the SST is written to. Memtables are flushed to level 0.
    pub level: usize,
    /// Whether no deeper level holds keys in the range of this SST. It may be `false` if the store
    /// did not check.
    pub bottommost: bool,
    /// The levels of the store after the new SST has replaced its inputs, from level 0 on. The list
    /// is empty if the levels are not known.
    pub levels: Vec<LevelShape>,
    /// The size limit of a level divided by the size limit of the level above it. The policies of
    /// this crate do not use it.
    pub size_ratio: u64,
}

impl TableShape {
    /// Creates the header of an SST in a store whose levels are not known. The size ratio is 10.
    #[must_use]
    pub fn new(num_keys: u64, level: usize, bottommost: bool) -> Self {
        Self { num_keys, level, bottommost, levels: Vec::new(), size_ratio: 10 }
    }

    /// Sets the levels of the store, including the new SST.
    #[must_use]
    pub fn with_levels(self, levels: Vec<LevelShape>) -> Self {
        Self { levels, ..self }
    }

    /// Sets the size ratio of the levels of the store.
    #[must_use]
    pub fn with_size_ratio(self, size_ratio: u64) -> Self {
        Self { size_ratio, ..self }
    }

    /// Returns the levels of the store. If the SST's own level is missing or has no keys, the level
    /// gets the keys of this SST. A missing level with a number of 1,000 or more stays missing.
    fn known_levels(&self) -> Vec<LevelShape> {
        let mut levels = self.levels.clone();
        // The level may be any number. No store has a thousand levels, so a higher number must not
        // allocate memory.
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
    /// The number of entries in the SSTs of the level, including tombstones. An SST that is being
    /// written counts with the upper bound on its number of entries.
    pub num_keys: u64,
    /// The number of SSTs. SSTs of level 0 may overlap, so each of them is a run. Each deeper level
    /// is one run.
    pub num_tables: u64,
    /// The number of bytes of the filters that the level already has and keeps.
    pub filter_bytes: u64,
}

impl LevelShape {
    /// Creates a level without filters.
    #[must_use]
    pub fn new(num_keys: u64, num_tables: u64) -> Self {
        Self { num_keys, num_tables, filter_bytes: 0 }
    }

    /// Sets the number of bytes of the level's filters.
    #[must_use]
    pub fn with_filter_bytes(self, filter_bytes: u64) -> Self {
        Self { filter_bytes, ..self }
    }
}

/// A rule that chooses the filter of each SST that a store writes.
///
/// A [`FilterSpec`] is a policy that always chooses itself. Any function from a [`TableShape`] to
/// an `Option<FilterSpec>` is a policy, too. An SST written under another policy stays readable,
/// because its filter block describes itself. An SST keeps its filter until a compaction rewrites
/// the SST.
///
/// If a policy panics in a write or in a background thread of `filterblock-store`, the store
/// refuses writes until it is opened again.
///
/// ```
/// use filterblock::{FilterSpec, policy::{FilterPolicy, TableShape}};
///
/// let by_level = |table: &TableShape| {
///     let spec = if table.bottommost { "bloom:10" } else { "blocked-bloom:12" };
///     spec.parse::<FilterSpec>().ok()
/// };
/// assert!(by_level.choose(&TableShape::new(1000, 0, false)).is_some());
/// ```
pub trait FilterPolicy: Send + Sync {
    /// Chooses the filter of an SST of this header. `None` means that the SST gets no filter.
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

/// The default policy. It has one filter for level 0. For deeper levels, it has one filter for
/// bottommost SSTs and one for all other SSTs.
///
/// A read may have to ask every SST of level 0, and one SST of each deeper level. All SSTs that are not
/// bottommost hold about a tenth of the keys, so many bits per key cost little memory there: 16 bits
/// instead of 10 add about 0.6 bits per key of the store. At 20 million keys, that more than halves the
/// block reads of a miss.
///
/// The deepest level usually holds most keys. So a kind that takes less space, but more time to
/// build, is worthwhile there. `bumped-ribbon:8` denies more absent keys than `blocked-bloom:10`,
/// and takes a fifth less memory. Use [`ByLevel::fast_and_small`] for other kinds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByLevel {
    /// The filter of SSTs in level 0.
    pub level_0: FilterSpec,
    /// The filter of an SST of level 1 or deeper, if a still deeper level holds keys of its range.
    pub middle: FilterSpec,
    /// The filter of an SST of level 1 or deeper, if no deeper level holds keys of its range.
    pub bottom: FilterSpec,
}

impl ByLevel {
    /// Creates a policy that uses `small` for bottommost SSTs of level 1 or deeper, and `fast` for
    /// all other SSTs.
    ///
    /// ```
    /// use filterblock::{policy::{ByLevel, FilterPolicy, TableShape}};
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
    /// Returns a policy with `bumped-ribbon:8` (FPR 0.39 %) for bottommost SSTs of level 1 or deeper, and
    /// `blocked-bloom:16` (0.08 %) for all other SSTs.
    fn default() -> Self {
        Self::fast_and_small(FilterSpec::LARGE, FilterSpec::SMALL)
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

/// A policy with one filter for all SSTs that are not bottommost, and without a filter for
/// bottommost SSTs. It is meant for range filters.
///
/// At a size ratio of ten, the deepest level holds about nine tenths of the keys. A scan that finds
/// keys usually finds them there and nothing in the SSTs above. For such a scan, the filters of
/// this policy save most reads of the SSTs above. They take about a tenth of the memory of filters
/// for all SSTs. If many scans find nothing at all, use range filters for all SSTs.
///
/// ```
/// use filterblock::{policy::{AboveBottom, FilterPolicy, TableShape}};
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

/// An estimate of the bytes of a filter block besides the filter's bits. The trailer and one page
/// checksum take 64, rounding to a cache line takes 32 on average, and the extension usually takes
/// at most 32.
const TABLE_OVERHEAD_BYTES: f64 = 128.0;
/// The share of the budget for filter bits. Page checksums take a thousandth, and a kind may take
/// slightly more than its bits per key.
const SHARE_OF_BITS: f64 = 0.98;
/// The share of the budget for the bits of binary fuse filters. Their bits per key are the width of
/// a fingerprint. With ten thousand or more keys, a filter takes up to about 1.35 times that width
/// per key.
const SHARE_OF_FUSE_BITS: f64 = 0.72;
/// The maximum mean number of bits per key. More bits do not save a noticeable number of reads, and
/// they take memory that new SSTs need when the store grows.
const MAX_BITS_PER_KEY: f64 = 20.0;

/// A policy that keeps the total size of all filters of the store near a limit. It spreads the
/// bytes over the levels as [`Monkey`] does.
///
/// The policy gives at most 20 bits per key on average. It computes the share of a new SST from the
/// size of the store when the SST is written. An SST keeps its filter until a compaction rewrites
/// the SST. The consequences are:
///
/// - After a full compaction of the store, the filters take about the budget or less. They may take
///   more if the budget is below 128 bytes per SST, or if binary fuse filters have fewer than ten
///   thousand keys.
/// - While the store grows, the filters may exceed the budget (docs/DESIGN.md, "The memory budget
///   is not strict"). Bytes above the budget reduce the share of new SSTs. At twice the budget, a
///   new SST gets an always-maybe filter. So the filters stay below about twice the budget.
///
/// ```
/// use filterblock::{FilterKind, policy::{FilterPolicy, LevelShape, MemoryBudget, TableShape}};
///
/// let policy = MemoryBudget::new(FilterKind::BlockedBloom, 1 << 20)?;
/// let bits = |keys| {
///     let table = TableShape::new(keys, 1, true).with_levels(vec![LevelShape::default(), LevelShape::new(keys, 1)]);
///     policy.choose(&table).map(|spec| spec.millibits_per_key() / 1000)
/// };
/// assert_eq!([100_000, 1_000_000, 2_000_000].map(bits), [Some(20), Some(8), Some(4)]);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryBudget {
    kinds: Kinds,
    total_bytes: u64,
}

impl MemoryBudget {
    /// Creates a policy for filters of one kind with `total_bytes` bytes in all. With 0 bytes,
    /// every SST with keys gets an always-maybe filter.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`](crate::Error::Invalid) if the kind takes no budget or is a range
    /// filter.
    pub fn new(kind: FilterKind, total_bytes: u64) -> Result<Self> {
        Ok(Self { kinds: Kinds::new(kind, kind)?, total_bytes })
    }

    /// Sets another kind for the deepest level that has keys.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`](crate::Error::Invalid) if the kind takes no budget or is a range
    /// filter.
    pub fn with_bottom(self, kind: FilterKind) -> Result<Self> {
        Ok(Self { kinds: Kinds::new(self.kinds.upper, kind)?, ..self })
    }
}

impl FilterPolicy for MemoryBudget {
    fn choose(&self, table: &TableShape) -> Option<FilterSpec> {
        let levels = table.known_levels();
        let (mut keys, mut tables, mut in_use) = (0.0, 0.0, 0.0);
        for level in &levels {
            keys += level.num_keys as f64;
            tables += level.num_tables as f64;
            in_use += level.filter_bytes as f64;
        }
        let total = self.total_bytes as f64;
        let has_fixed_widths = |kind: FilterKind| matches!(kind.info().budgets, Budgets::Widths(_));
        let is_any_fixed = has_fixed_widths(self.kinds.upper) || has_fixed_widths(self.kinds.bottom);
        let share_of_bits = if is_any_fixed { SHARE_OF_FUSE_BITS } else { SHARE_OF_BITS };
        let for_bits = (total * share_of_bits - tables * TABLE_OVERHEAD_BYTES).max(0.0) * 8.0;
        // An SST gets its full share while the filters are within the budget, and no share at
        // twice the budget.
        let share = (2.0 - in_use / total.max(1.0)).clamp(0.0, 1.0);
        let bits = (for_bits * share).min(keys * MAX_BITS_PER_KEY);
        Some(self.kinds.spread(&levels, bits).get(table.level).copied().unwrap_or(FilterSpec::ALWAYS_MAYBE))
    }
}
