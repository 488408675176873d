//! Picks compactions: decides which SSTs are merged next, and into which level. Measures the pace of
//! compactions, to decide when level 0 has waited long enough.
//!
//! Picking depends only on the descriptions of the SSTs, on the state of the [`Picker`] and on the
//! arguments. It uses no file, lock or thread. The module `compaction` runs the picked compactions.
//!
//! A strategy has three parts, each in its own function. [`Picker::due_levels`] ranks the levels
//! that need a compaction, and [`Picker::pick_of`] chooses the SSTs of one level. If they find
//! nothing, [`Picker::pick_tombstones`] looks for tombstones to move or drop. The constructors of
//! [`Pick`] decide which SSTs of the next level a merge must include.

use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};
use std::time::{Duration, Instant};

use crate::lsm::manifest::edit::{NUM_LEVELS, TableMeta};

fn is_within(table: &TableMeta, from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    RangeBounds::<[u8]>::contains(&(Bound::Unbounded, to), table.smallest.as_slice())
        && RangeBounds::<[u8]>::contains(&(from, Bound::Unbounded), table.largest.as_slice())
}

/// A range of keys, both ends included.
#[derive(Debug, Clone, Copy)]
struct Keys<'a> {
    smallest: &'a [u8],
    largest: &'a [u8],
}

impl<'a> Keys<'a> {
    fn of_one(table: &'a TableMeta) -> Self {
        Self { smallest: &table.smallest, largest: &table.largest }
    }

    fn of(tables: impl Iterator<Item = &'a TableMeta> + Clone) -> Option<Self> {
        let smallest = tables.clone().map(|table| table.smallest.as_slice()).min()?;
        let largest = tables.map(|table| table.largest.as_slice()).max()?;
        Some(Self { smallest, largest })
    }

    fn overlap(&self, table: &TableMeta) -> bool {
        table.smallest.as_slice() <= self.largest && self.smallest <= table.largest.as_slice()
    }
}

/// The SSTs of a store by level: level 0 newest first, each deeper level in key order without
/// overlaps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Levels<'a>(pub(crate) Vec<Vec<&'a TableMeta>>);

impl<'a> Levels<'a> {
    pub(crate) fn tables(&self, level: usize) -> &[&'a TableMeta] {
        self.0.get(level).map_or(&[], Vec::as_slice)
    }

    fn bytes(&self, level: usize) -> u64 {
        sum(self.tables(level), |table| table.len_bytes)
    }

    /// Returns the SSTs of a level that overlap a range. The level must not be level 0.
    fn overlapping(&self, level: usize, keys: Keys<'a>) -> impl Iterator<Item = &'a TableMeta> + Clone {
        let tables = self.tables(level);
        let start = tables.partition_point(|table| table.largest.as_slice() < keys.smallest);
        tables.get(start..).unwrap_or_default().iter().copied().take_while(move |table| keys.overlap(table))
    }

    fn is_bottommost(&self, level: usize, keys: Keys<'a>) -> bool {
        (level + 1..NUM_LEVELS).all(|below| self.overlapping(below, keys).next().is_none())
    }
}

fn sum(tables: &[&TableMeta], of: impl Fn(&TableMeta) -> u64) -> u64 {
    tables.iter().fold(0, |sum, table| sum.saturating_add(of(table)))
}

/// The SSTs to merge, and the level that receives the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) level: usize,
    /// The level of the result: the next level, or `level` itself if an SST is rewritten in place.
    pub(crate) to: usize,
    /// The numbers of the SSTs of `level`: level 0 newest first, a deeper level in key order.
    pub(crate) upper: Vec<u64>,
    /// The numbers of all SSTs of the next level that overlap `upper`, in key order. Empty if an
    /// SST is rewritten in place.
    pub(crate) lower: Vec<u64>,
    /// Whether no level deeper than `to` has an SST that overlaps the result. The merge may then
    /// drop tombstones.
    pub(crate) bottommost: bool,
}

impl Pick {
    fn down(levels: &Levels<'_>, level: usize, upper: &[&TableMeta]) -> Option<Self> {
        let to = level + 1;
        let lower = levels.overlapping(to, Keys::of(upper.iter().copied())?);
        // The SSTs of the next level may cover a wider range than `upper`.
        let keys = Keys::of(upper.iter().copied().chain(lower.clone()))?;
        let bottommost = levels.is_bottommost(to, keys);
        let lower = lower.map(|table| table.number).collect();
        Some(Self { level, to, upper: upper.iter().map(|table| table.number).collect(), lower, bottommost })
    }

    /// Returns the pick that rewrites one SST in its level. Returns `None` if a deeper level has an
    /// SST that overlaps it. A pick never rewrites two SSTs in place, because their result could
    /// overlap an SST between them.
    fn in_place(levels: &Levels<'_>, level: usize, table: &TableMeta) -> Option<Self> {
        let keys = Keys::of_one(table);
        let pick = Self { level, to: level, upper: vec![table.number], lower: Vec::new(), bottommost: true };
        levels.is_bottommost(level, keys).then_some(pick)
    }

    pub(crate) fn inputs(&self) -> impl Iterator<Item = u64> {
        self.upper.iter().chain(&self.lower).copied()
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RangePicks {
    pub(crate) picks: Vec<Pick>,
    /// Whether a deeper level has SSTs that overlap the range.
    pub(crate) goes_on: bool,
}

/// Returns the picks for a manual compaction of the SSTs of a level that overlap a range.
///
/// * In level 0, if any SST overlaps the range, one pick merges all SSTs of the level into level 1.
/// * In another level, if a deeper level overlaps the range, too, one pick merges the SSTs into the
///   next level.
/// * Otherwise each of these SSTs gets a pick that rewrites it in place, unless a deeper level
///   overlaps the SST outside the range.
pub(crate) fn pick_range(levels: &Levels<'_>, level: usize, from: Bound<&[u8]>, to: Bound<&[u8]>) -> RangePicks {
    let within = |level: usize| levels.tables(level).iter().copied().filter(|table| is_within(table, from, to));
    let goes_on = (level + 1..NUM_LEVELS).any(|below| within(below).next().is_some());
    let upper: Vec<_> = within(level).collect();
    let picks = match level {
        0 if upper.is_empty() => Vec::new(),
        // Merge level 0 as a whole: an older SST that stayed in level 0 would hide the newer result
        // in level 1.
        0 => Pick::down(levels, 0, levels.tables(0)).into_iter().collect(),
        _ if goes_on => Pick::down(levels, level, &upper).into_iter().collect(),
        _ => upper.iter().filter_map(|&table| Pick::in_place(levels, level, table)).collect(),
    };
    RangePicks { picks, goes_on }
}

/// The maximum number of SSTs that the picker compares in a level other than level 0. The picker
/// compares them in key order, from the end of the last compaction on and then from the start of
/// the level. It picks the SST whose merge rewrites the fewest bytes of the next level per byte of
/// the SST.
const CANDIDATES: usize = 16;

/// Returns the number of bytes of level `below` that a merge of the SST into this level rewrites,
/// divided by the length of the SST.
fn rewritten_per_byte(levels: &Levels<'_>, table: &TableMeta, below: usize) -> f64 {
    let keys = Keys::of_one(table);
    let bytes = levels.overlapping(below, keys).fold(0u64, |sum, table| sum.saturating_add(table.len_bytes));
    bytes as f64 / table.len_bytes.max(1) as f64
}

/// Returns the total length of levels 0 and 1: about the most that a compaction of level 0 writes.
fn merge_bytes(levels: &Levels<'_>) -> u64 {
    levels.bytes(0).saturating_add(levels.bytes(1))
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The number of SSTs in level 0 that starts a compaction if a further condition holds: see
    /// [`Picker::is_level_0_due`].
    pub(crate) l0_trigger: usize,
    /// The number of SSTs in level 0 that starts a compaction in any case.
    pub(crate) l0_limit: usize,
    /// The maximum size of level 1.
    pub(crate) base_bytes: u64,
    pub(crate) size_ratio: u64,
}

#[derive(Debug)]
pub(crate) struct Picker {
    limits: Limits,
    /// For each level, the largest key of its last compaction. The next compaction continues after
    /// it.
    cursors: Vec<Vec<u8>>,
    /// The level of the last compaction, if that compaction failed.
    failed_level: Option<usize>,
    /// The numbers of the SSTs that no pick may include, because a compaction found damage or an
    /// unsupported format.
    left_out: BTreeSet<u64>,
}

impl Picker {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, cursors: vec![Vec::new(); NUM_LEVELS], failed_level: None, left_out: BTreeSet::new() }
    }

    /// Returns the most urgent compaction of a due level. Without one, returns a compaction that
    /// removes or moves tombstones, if that is worth its cost. Otherwise returns `None`. A
    /// compaction of level 0 that writes at most `spare_bytes` does not wait, even if a later one
    /// would be cheaper; see [`Picker::is_level_0_due`].
    pub(crate) fn pick(&self, levels: &Levels<'_>, spare_bytes: u64) -> Option<Pick> {
        let due = self.due_levels(levels, spare_bytes).into_iter().find_map(|level| self.pick_of(levels, level));
        due.or_else(|| self.pick_tombstones(levels))
    }

    /// Returns a compaction that drops tombstones, or moves them closer to the entries that they
    /// delete, so that deletions release space. Returns `None` if no compaction without left-out
    /// SSTs is worth its cost. Repeated picks come to an end, because each pick moves tombstones to
    /// a deeper level or drops them.
    fn pick_tombstones(&self, levels: &Levels<'_>) -> Option<Pick> {
        let (level_0, deeper) = (levels.tables(0), 1..NUM_LEVELS);
        let num_tombstones = sum(level_0, |table| table.num_tombstones);
        let num_deeper = deeper.clone().map(|level| sum(levels.tables(level), |table| table.num_entries)).max()?;
        // A merge of level 0 may rewrite all of level 1. It pays off only with many tombstones: at
        // least half as many as there are entries in level 0, and in each deeper level.
        let is_worth = num_tombstones.saturating_mul(2) >= num_deeper.max(sum(level_0, |table| table.num_entries));
        if num_tombstones > 0
            && is_worth
            && let Some(pick) = self.pick_level_0(levels)
        {
            return Some(pick);
        }
        let is_half = |table: &&&TableMeta| {
            table.num_tombstones > 0 && table.num_tombstones.saturating_mul(2) >= table.num_entries
        };
        deeper.flat_map(|level| levels.tables(level).iter().filter(is_half).map(move |&table| (level, table))).find_map(
            |(level, table)| {
                let pick = Pick::in_place(levels, level, table);
                let pick = pick.or_else(|| Pick::down(levels, level, &[table]).filter(|pick| pick.to < NUM_LEVELS));
                pick.filter(|pick| self.is_left_in(pick))
            },
        )
    }

    /// Returns the compaction of level 0, whether or not it is due. Returns `None` if the level is
    /// empty, or if one of the SSTs to merge is left out.
    pub(crate) fn pick_level_0(&self, levels: &Levels<'_>) -> Option<Pick> {
        Pick::down(levels, 0, levels.tables(0)).filter(|pick| self.is_left_in(pick))
    }

    /// Returns the levels that need a compaction, the largest ratio of size to limit first. If the
    /// last compaction failed, its level comes last: compactions of the other levels may need less
    /// space, or may release space.
    ///
    /// We rejected a fixed order from level 0 on: under a lasting load, level 0 may be due after
    /// each of its merges. Level 1 would then starve.
    fn due_levels(&self, levels: &Levels<'_>, spare_bytes: u64) -> Vec<usize> {
        let excess_of_level_0 = self.is_level_0_due(levels, spare_bytes).then(|| self.excess_of_level_0(levels));
        let mut due: Vec<(f64, usize)> = excess_of_level_0.map(|excess| (excess, 0)).into_iter().collect();
        let mut limit = self.limits.base_bytes;
        for level in 1..NUM_LEVELS - 1 {
            let bytes = levels.bytes(level);
            if bytes > limit {
                due.push((bytes as f64 / limit.max(1) as f64, level));
            }
            limit = limit.saturating_mul(self.limits.size_ratio);
        }
        // Both sorts are stable: of two levels with the same ratio, the one with the smaller number
        // comes first.
        due.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        due.sort_by_key(|&(_, level)| self.failed_level == Some(level));
        due.into_iter().map(|(_, level)| level).collect()
    }

    fn excess_of_level_0(&self, levels: &Levels<'_>) -> f64 {
        let by_bytes = levels.bytes(0) as f64 / self.limits.base_bytes.max(1) as f64;
        by_bytes.max(levels.tables(0).len() as f64 / self.limits.l0_limit.max(1) as f64)
    }

    /// Returns whether level 0 needs a compaction. It needs one if it has an SST and at least
    /// `l0_trigger` SSTs, and if one of these conditions holds:
    ///
    /// * It has at least as many bytes as level 1, so the merge writes at most about two bytes per
    ///   byte of level 0.
    /// * It has at least `base_bytes` bytes, the maximum size of level 1.
    /// * Levels 0 and 1 together have at most `spare_bytes` bytes.
    /// * It has at least `l0_limit` SSTs.
    fn is_level_0_due(&self, levels: &Levels<'_>, spare_bytes: u64) -> bool {
        let num_tables = levels.tables(0).len();
        num_tables >= self.limits.l0_trigger.max(1)
            && (levels.bytes(0) >= levels.bytes(1).min(self.limits.base_bytes)
                || merge_bytes(levels) <= spare_bytes
                || num_tables >= self.limits.l0_limit)
    }

    /// Returns the total bytes of levels 0 and 1, or `None` if level 0 does not wait. Level 0 waits
    /// if its compaction is not due, but would be due with a larger `spare_bytes`.
    pub(crate) fn waits_for(&self, levels: &Levels<'_>, spare_bytes: u64) -> Option<u64> {
        let waits = !self.is_level_0_due(levels, spare_bytes) && self.is_level_0_due(levels, u64::MAX);
        waits.then(|| merge_bytes(levels))
    }

    /// Returns the next compaction of a level: level 0 as a whole, or one SST of a deeper level.
    /// Returns `None` if the level is empty, or if every such compaction includes an SST that is
    /// left out.
    fn pick_of(&self, levels: &Levels<'_>, level: usize) -> Option<Pick> {
        if level == 0 {
            return self.pick_level_0(levels);
        }
        let after = self.cursors.get(level).map_or(&[][..], Vec::as_slice);
        let is_next = |table: &&&TableMeta| table.smallest.as_slice() > after;
        let (next, rest) = levels.tables(level).iter().partition::<Vec<_>, _>(is_next);
        let in_turn = next.into_iter().chain(rest).filter_map(|&table| {
            let pick = Pick::down(levels, level, &[table]).filter(|pick| self.is_left_in(pick))?;
            Some((rewritten_per_byte(levels, table, level + 1), pick))
        });
        // If candidates are equal, the first one wins.
        in_turn.take(CANDIDATES).min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, pick)| pick)
    }

    fn is_left_in(&self, pick: &Pick) -> bool {
        pick.inputs().all(|number| !self.left_out.contains(&number))
    }

    pub(crate) fn leaves_nothing_out(&self) -> bool {
        self.left_out.is_empty()
    }

    pub(crate) fn leave_out(&mut self, numbers: impl IntoIterator<Item = u64>) {
        self.left_out.extend(numbers);
    }

    /// The next compaction of this level continues after the key `largest`.
    pub(crate) fn note_begin(&mut self, level: usize, largest: &[u8]) {
        if let Some(cursor) = self.cursors.get_mut(level) {
            cursor.clear();
            cursor.extend_from_slice(largest);
        }
    }

    pub(crate) fn note_end(&mut self, level: usize, has_failed: bool) {
        self.failed_level = has_failed.then_some(level);
    }
}

/// The time that level 0 waits for its compaction, in multiples of the expected duration of this
/// compaction. A later, larger compaction can make an earlier one needless. With this wait,
/// needless compactions take about a third of the time at most.
const PATIENCE: f64 = 2.0;

/// The maximum number of bytes of a compaction that never waits. At the assumed speed, it takes
/// less than a tenth of a second.
const FREE_BYTES: u64 = 16 << 20;

/// The assumed write speed until a compaction has been measured.
const FIRST_BYTES_PER_SECOND: f64 = 200e6;

/// The lower limit of the measured speed. Without this limit, level 0 could wait for hours after a
/// compaction during which the machine slept.
const LEAST_BYTES_PER_SECOND: f64 = 5e6;

/// The minimum number of bytes of a compaction that is measured. A smaller one says little about
/// the speed.
const MEASURED_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_second: f64,
    /// The end of the last successful background compaction of level 0, or the opening of the
    /// store.
    level_0_merged: Instant,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { bytes_per_second: FIRST_BYTES_PER_SECOND, level_0_merged: Instant::now() }
    }

    pub(crate) fn note_end(&mut self, level: usize, bytes: u64, start: Instant) {
        let seconds = start.elapsed().as_secs_f64();
        if bytes >= MEASURED_BYTES && seconds > 0.0 {
            self.bytes_per_second = (bytes as f64 / seconds).max(LEAST_BYTES_PER_SECOND);
        }
        if level == 0 {
            self.level_0_merged = Instant::now();
        }
    }

    /// Returns the number of bytes that a compaction of level 0 may write without waiting any
    /// longer.
    pub(crate) fn spare_bytes(&self) -> u64 {
        let waited = self.level_0_merged.elapsed().as_secs_f64() / PATIENCE;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
        let bytes = (waited * self.bytes_per_second) as u64;
        bytes.max(FREE_BYTES)
    }

    /// Returns the remaining time for which level 0 waits for a compaction that writes `bytes`: at
    /// least 1 ms.
    pub(crate) fn delay(&self, bytes: u64) -> Duration {
        let seconds = bytes as f64 / self.bytes_per_second.max(1.0) * PATIENCE;
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        // Not zero: the caller has found that the compaction is not due yet.
        wait.saturating_sub(self.level_0_merged.elapsed()).max(Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests;
