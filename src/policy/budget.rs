//! So much memory for the filters of a whole store, however large it becomes.

use super::monkey::Kinds;
use super::{FilterPolicy, TableShape};
use crate::error::Result;
use crate::kinds::FilterKind;
use crate::spec::FilterSpec;

/// Bytes that a filter block may take beside the filter's bits: a trailer, a page sum, and half a cache line of rounding.
const TABLE_OVERHEAD_BYTES: f64 = 128.0;
/// The part of the budget that goes to bits: page sums take a thousandth, and a kind may take a little more than its
/// bits per key.
const SHARE_OF_BITS: f64 = 0.98;
/// The same for binary fuse filters, whose bits per key are those of the fingerprint: of ten thousand keys and more they
/// take up to 1.346 times that (of 11,417 keys, for which segments are just too long), and the rare third seed takes 2 %
/// more.
const SHARE_OF_FUSE_BITS: f64 = 0.72;
/// More bits a key on average save no read that anyone would notice, and would only be in the way when the store grows.
const MAX_BITS_PER_KEY: f64 = 20.0;

/// So many bytes for the filters of the whole store, spread over its levels as by [`Monkey`](super::Monkey).
///
/// The more keys there are, the fewer bits each gets: what is written has its share of the budget in a store of the
/// size that this then has (but never more than twenty bits a key on average). A table keeps its filter until a
/// compaction writes it anew, so one that was written when the store was smaller holds more than its share. Hence:
///
/// - after a compaction of the store over everything, the filters take no more than the budget
///   (binary fuse filters in tables of ten thousand keys and more; of three thousand, up to 5 % more);
/// - in between they take somewhat more while the store grows (measured in random order: at most a tenth more), and
///   never more than twice the budget, one table aside that is being flushed: what lies above the budget is taken from
///   the share of new tables, whose filters get worse, down to none.
///
/// ```
/// use filterblock::{FilterKind, FilterPolicy, LevelShape, MemoryBudget, TableShape};
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
    /// Filters of one kind, `total_bytes` in all. With none, no key has a filter.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) unless the kind takes a budget.
    pub fn new(kind: FilterKind, total_bytes: u64) -> Result<Self> {
        Ok(Self { kinds: Kinds::new(kind, kind)?, total_bytes })
    }

    /// Another kind in the deepest level: a small one, under fast ones.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) unless it takes a budget.
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
        let is_fuse = [self.kinds.upper, self.kinds.bottom].contains(&FilterKind::BinaryFuse);
        let share_of_bits = if is_fuse { SHARE_OF_FUSE_BITS } else { SHARE_OF_BITS };
        let for_bits = (total * share_of_bits - tables * TABLE_OVERHEAD_BYTES).max(0.0) * 8.0;
        // All of the share up to the budget, nothing of it at twice the budget, which is thus never passed.
        let share = (2.0 - in_use / total.max(1.0)).clamp(0.0, 1.0);
        let bits = (for_bits * share).min(keys * MAX_BITS_PER_KEY);
        Some(self.kinds.spread(&levels, bits).get(table.level).copied().unwrap_or(FilterSpec::FULL))
    }
}
