//! Keeps the memory of all filters of a store near a limit.

use super::monkey::Kinds;
use super::{FilterPolicy, TableShape};
use crate::error::Result;
use crate::filters::{Budgets, FilterKind};
use crate::spec::FilterSpec;

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
/// bytes over the levels as [`Monkey`](super::Monkey) does.
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
