//! Compaction picking: which tables are merged next, and into which level.
//!
//! Pure decisions over descriptions of tables: no file, no lock, no thread. `compaction` does the work.
//!
//! A strategy has two parts, each a function of its own: [`Picker::due_levels`] ranks the levels that need a compaction,
//! and [`Picker::pick_of`] chooses the tables of one level. [`Pick`] alone decides what a merge must include.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::version_edit::{NUM_LEVELS, TableMeta};

/// What picking knows of an SST file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableFacts<'a> {
    pub(super) number: u64,
    pub(super) smallest: &'a [u8],
    pub(super) largest: &'a [u8],
    pub(super) len_bytes: u64,
}

impl<'a> From<&'a TableMeta> for TableFacts<'a> {
    fn from(meta: &'a TableMeta) -> Self {
        let TableMeta { number, smallest, largest, len_bytes, .. } = meta;
        Self { number: *number, smallest, largest, len_bytes: *len_bytes }
    }
}

impl TableFacts<'_> {
    fn overlaps(&self, keys: Keys<'_>) -> bool {
        self.smallest <= keys.largest && keys.smallest <= self.largest
    }

    fn is_within(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
        let starts_before_end = match to {
            Bound::Included(end) => self.smallest <= end,
            Bound::Excluded(end) => self.smallest < end,
            Bound::Unbounded => true,
        };
        let ends_behind_start = match from {
            Bound::Included(start) => self.largest >= start,
            Bound::Excluded(start) => self.largest > start,
            Bound::Unbounded => true,
        };
        starts_before_end && ends_behind_start
    }
}

/// A range of keys, both ends included.
#[derive(Debug, Clone, Copy)]
struct Keys<'a> {
    smallest: &'a [u8],
    largest: &'a [u8],
}

impl<'a> Keys<'a> {
    /// The range from the smallest key of the tables to the largest; `None` without tables.
    fn of(tables: impl Iterator<Item = TableFacts<'a>> + Clone) -> Option<Self> {
        let smallest = tables.clone().map(|table| table.smallest).min()?;
        let largest = tables.map(|table| table.largest).max()?;
        Some(Self { smallest, largest })
    }
}

/// The tables of a store by level: level 0 newest first, each deeper level in key order without overlaps.
#[derive(Debug, Clone, Default)]
pub(super) struct Levels<'a>(pub(super) Vec<Vec<TableFacts<'a>>>);

impl<'a> Levels<'a> {
    pub(super) fn tables(&self, level: usize) -> &[TableFacts<'a>] {
        self.0.get(level).map_or(&[], Vec::as_slice)
    }

    fn bytes(&self, level: usize) -> u64 {
        self.tables(level).iter().fold(0, |sum, table| sum.saturating_add(table.len_bytes))
    }

    fn overlapping(&self, level: usize, keys: Keys<'a>) -> impl Iterator<Item = TableFacts<'a>> + Clone {
        self.tables(level).iter().copied().filter(move |table| table.overlaps(keys))
    }

    /// Whether no level below `level` holds keys of the range.
    fn is_bottommost(&self, level: usize, keys: Keys<'a>) -> bool {
        (level + 1..NUM_LEVELS).all(|below| self.overlapping(below, keys).next().is_none())
    }
}

/// What to merge, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) level: usize,
    /// Where the result goes: the next level, or `level` itself when a table is rewritten in place.
    pub(super) to: usize,
    /// The numbers of the tables of `level`: level 0 newest first, a deeper level in key order.
    pub(super) upper: Vec<u64>,
    /// The numbers of all tables of the next level that overlap them, in key order.
    pub(super) lower: Vec<u64>,
    /// Whether no level below the result holds keys of its range, so that the merge may drop tombstones.
    pub(super) bottommost: bool,
}

impl Pick {
    /// Merges `upper`, tables of `level`, into the next level; `None` if there is nothing to merge.
    fn down(levels: &Levels<'_>, level: usize, upper: &[TableFacts<'_>]) -> Option<Self> {
        let to = level + 1;
        let lower = levels.overlapping(to, Keys::of(upper.iter().copied())?);
        // The tables of the next level may reach further than those above them.
        let keys = Keys::of(upper.iter().copied().chain(lower.clone()))?;
        let bottommost = levels.is_bottommost(to, keys);
        let lower = lower.map(|table| table.number).collect();
        Some(Self { level, to, upper: upper.iter().map(|table| table.number).collect(), lower, bottommost })
    }

    /// Rewrites one table in its level; `None` if a deeper level holds keys of its range. One table alone, because the
    /// result of two would overlap a table between them.
    fn in_place(levels: &Levels<'_>, level: usize, table: TableFacts<'_>) -> Option<Self> {
        let keys = Keys { smallest: table.smallest, largest: table.largest };
        let pick = Self { level, to: level, upper: vec![table.number], lower: Vec::new(), bottommost: true };
        levels.is_bottommost(level, keys).then_some(pick)
    }

    /// The numbers of all tables that the merge reads and replaces.
    pub(super) fn inputs(&self) -> impl Iterator<Item = u64> {
        self.upper.iter().chain(&self.lower).copied()
    }
}

/// What a caller's compaction of a range does with one level.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RangePicks {
    pub(super) picks: Vec<Pick>,
    /// Whether deeper levels hold tables of the range, too.
    pub(super) goes_on: bool,
}

/// Picks all tables of a level with keys of a range. A level with nothing of the range below it is a sorted run already:
/// each of its tables may be rewritten in place, if the caller finds a reason.
pub(super) fn pick_range(levels: &Levels<'_>, level: usize, from: Bound<&[u8]>, to: Bound<&[u8]>) -> RangePicks {
    let within = |level: usize| levels.tables(level).iter().copied().filter(|table| table.is_within(from, to));
    let goes_on = (level + 1..NUM_LEVELS).any(|below| within(below).next().is_some());
    let upper: Vec<_> = within(level).collect();
    let picks = match level {
        0 if upper.is_empty() => Vec::new(),
        // Level 0 is merged whole: an older table left behind would come to lie above a newer one.
        0 => Pick::down(levels, 0, levels.tables(0)).into_iter().collect(),
        _ if goes_on => Pick::down(levels, level, &upper).into_iter().collect(),
        _ => upper.iter().filter_map(|&table| Pick::in_place(levels, level, table)).collect(),
    };
    RangePicks { picks, goes_on }
}

/// When a level needs a compaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Tables in level 0 that start a compaction.
    pub(super) l0_trigger: usize,
    /// The size of level 1.
    pub(super) base_bytes: u64,
    /// Each further level may be so many times as large.
    pub(super) size_ratio: u64,
}

/// Picks what the background compacts next.
#[derive(Debug)]
pub(super) struct Picker {
    limits: Limits,
    /// By level, the largest key of its last compaction: the next one goes on from there.
    cursors: Vec<Vec<u8>>,
    /// The level of the last compaction, if that compaction failed.
    failed_level: Option<usize>,
    /// The numbers of tables that a compaction found to be damaged.
    left_out: BTreeSet<u64>,
}

impl Picker {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, cursors: vec![Vec::new(); NUM_LEVELS], failed_level: None, left_out: BTreeSet::new() }
    }

    /// The compaction that is needed most, if any.
    pub(super) fn pick(&self, levels: &Levels<'_>) -> Option<Pick> {
        self.due_levels(levels).into_iter().find_map(|level| self.pick_of(levels, level))
    }

    /// The compaction of level 0, full or not; `None` if the level is empty or one of the tables is left out.
    pub(super) fn pick_level_0(&self, levels: &Levels<'_>) -> Option<Pick> {
        Pick::down(levels, 0, levels.tables(0)).filter(|pick| self.is_left_in(pick))
    }

    /// The levels that need a compaction, the most urgent first. The level that failed last comes behind the others, which
    /// may need less room, or make some.
    fn due_levels(&self, levels: &Levels<'_>) -> Vec<usize> {
        let is_full = levels.tables(0).len() >= self.limits.l0_trigger.max(1);
        let mut due: Vec<usize> = is_full.then_some(0).into_iter().collect();
        let mut limit = self.limits.base_bytes;
        for level in 1..NUM_LEVELS - 1 {
            if levels.bytes(level) > limit {
                due.push(level);
            }
            limit = limit.saturating_mul(self.limits.size_ratio);
        }
        due.sort_by_key(|&level| self.failed_level == Some(level));
        due
    }

    /// The next compaction of a level: level 0 whole, one table of a deeper level.
    fn pick_of(&self, levels: &Levels<'_>, level: usize) -> Option<Pick> {
        if level == 0 {
            return self.pick_level_0(levels);
        }
        let after = self.cursors.get(level).map_or(&[][..], Vec::as_slice);
        let is_next = |table: &&TableFacts<'_>| table.smallest > after;
        let (next, rest) = levels.tables(level).iter().partition::<Vec<_>, _>(is_next);
        let in_turn = next.into_iter().chain(rest);
        in_turn.filter_map(|&table| Pick::down(levels, level, &[table])).find(|pick| self.is_left_in(pick))
    }

    fn is_left_in(&self, pick: &Pick) -> bool {
        pick.inputs().all(|number| !self.left_out.contains(&number))
    }

    /// Whether no table is left out.
    pub(super) fn leaves_nothing_out(&self) -> bool {
        self.left_out.is_empty()
    }

    /// Leaves tables out of every later pick.
    pub(super) fn leave_out(&mut self, numbers: impl IntoIterator<Item = u64>) {
        self.left_out.extend(numbers);
    }

    /// Notes that a compaction of a level begins whose last table ends with the key `largest`.
    pub(super) fn note_begin(&mut self, level: usize, largest: &[u8]) {
        if let Some(cursor) = self.cursors.get_mut(level) {
            cursor.clear();
            cursor.extend_from_slice(largest);
        }
    }

    /// Notes how the compaction of a level ended.
    pub(super) fn note_end(&mut self, level: usize, has_failed: bool) {
        self.failed_level = has_failed.then_some(level);
    }
}

#[cfg(test)]
#[path = "picking_tests.rs"]
mod tests;
