//! Levelled compaction: merges tables downwards, so that each level below 0 stays one sorted run and reads ask few.

use std::ops::Bound;
use std::sync::{Arc, PoisonError};

use super::attempts::Task;
use super::file_name::table_name;
use super::flush::table_meta;
use super::reports::lock;
use super::scan::{Direction, Merge, RunCursor, Source};
use super::shared::{Shared, Work};
use super::version::{StoredTable, Version};
use super::version_edit::{NUM_LEVELS, VersionEdit};
use crate::error::{Error, Result};
use crate::sstable::{TableOptions, TableSummary, TableWriter};
use crate::sync::atomic::Ordering;
use filterblock::FilterSpec;
use filterblock::TableShape;

/// What to merge, and where to.
#[derive(Debug)]
pub(super) struct Compaction {
    level: usize,
    /// Where the result goes: the next level, or the same where a table loses its removals or gets another filter.
    to: usize,
    /// Tables of `level`, in the order of reading.
    upper: Vec<Arc<StoredTable>>,
    /// Tables of the next level that overlap them, in key order.
    lower: Vec<Arc<StoredTable>>,
    /// Whether no level further down holds keys of the range, so that removals need not be kept.
    bottommost: bool,
}

impl Compaction {
    /// Merges `upper`, tables of `level`, into the level below; `None` if there is nothing to merge.
    fn of(version: &Version, level: usize, upper: Vec<Arc<StoredTable>>) -> Option<Self> {
        let smallest = upper.iter().map(|table| table.meta.smallest.as_slice()).min()?;
        let largest = upper.iter().map(|table| table.meta.largest.as_slice()).max()?;
        let lower = version.overlapping(level + 1, smallest, largest);
        let smallest = lower.first().map_or(smallest, |table| smallest.min(&table.meta.smallest));
        let largest = lower.last().map_or(largest, |table| largest.max(&table.meta.largest));
        let bottommost = (level + 2..NUM_LEVELS).all(|below| version.overlapping(below, smallest, largest).is_empty());
        Some(Self { level, to: level + 1, lower, bottommost, upper })
    }

    /// Rewrites one table of the lowest level that has keys of its range; `None` if another level lies below it. One
    /// alone, because the result of two would overlap a table between them.
    fn in_place(version: &Version, level: usize, table: &Arc<StoredTable>) -> Option<Self> {
        let meta = &table.meta;
        let is_above = |below| !version.overlapping(below, &meta.smallest, &meta.largest).is_empty();
        if (level + 1..NUM_LEVELS).any(is_above) {
            return None;
        }
        Some(Self { level, to: level, upper: vec![Arc::clone(table)], lower: Vec::new(), bottommost: true })
    }

    fn has_tombstones(&self) -> bool {
        self.inputs().any(|table| table.meta.num_tombstones > 0)
    }

    fn inputs(&self) -> impl Iterator<Item = &Arc<StoredTable>> {
        self.upper.iter().chain(&self.lower)
    }

    /// A table that meets nothing below can just change its level, unless it has removals that nobody needs there.
    fn is_move(&self) -> bool {
        let is_free = !self.bottommost || self.upper.iter().all(|table| table.meta.num_tombstones == 0);
        self.level > 0 && self.to != self.level && self.lower.is_empty() && self.upper.len() == 1 && is_free
    }

    /// Newest first: each table of level 0 by itself, a deeper level as one run.
    fn sources(&self) -> Vec<Source> {
        let run = |tables: Vec<Arc<StoredTable>>| Source::Run(RunCursor::new(tables, None));
        let mut sources: Vec<Source> = match self.level {
            0 => self.upper.iter().map(|table| run(vec![Arc::clone(table)])).collect(),
            _ => vec![run(self.upper.clone())],
        };
        sources.push(run(self.lower.clone()));
        sources
    }
}

/// The right to compact, which one thread has at a time. It ends also when that thread panics.
struct Turn<'a>(&'a Shared);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.work).compacting = false;
        self.0.changed.notify_all();
    }
}

/// Compacts in the background until the store closes.
pub(super) fn run_compactions(shared: &Shared) {
    // Where the last compaction of each level ended: the next one goes on from there.
    let mut cursors: Vec<Vec<u8>> = vec![Vec::new(); NUM_LEVELS];
    let mut failed_level = None;
    while let Some(compaction) = next_compaction(shared, &cursors, failed_level) {
        let turn = Turn(shared);
        if let (Some(cursor), Some(last)) = (cursors.get_mut(compaction.level), compaction.upper.last()) {
            cursor.clone_from(&last.meta.largest);
        }
        let result = shared.compact(&compaction);
        failed_level = result.is_err().then_some(compaction.level);
        match &result {
            // Nothing has changed, and what is sound can be read and written as before; trying again would not help.
            Err(error) if error.is_damage() || error.is_unsupported() => shared.leave_out(&compaction, error),
            result => shared.note_attempt(Task::Compaction, result),
        }
        // The tables that it replaced go now, not when the next compaction begins.
        drop(compaction);
        drop(turn);
    }
}

/// The compaction that is due; `None` when the store closes or has failed.
fn next_compaction(shared: &Shared, cursors: &[Vec<u8>], failed_level: Option<usize>) -> Option<Compaction> {
    let mut work = lock(&shared.work);
    loop {
        if work.closing || work.failure.is_some() {
            return None;
        }
        let rest = work.compactions.rest();
        if !rest.is_zero() {
            work = shared.wait_at_most(work, rest);
            continue;
        }
        if !work.compacting && work.callers_waiting == 0 {
            if let Some(compaction) = shared.pick_compaction(cursors, failed_level) {
                work.compacting = true;
                return Some(compaction);
            }
            // What failed is not needed any more.
            work.compactions.succeed();
        }
        work = shared.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
    }
}

impl Shared {
    /// Whether level sizes call for a compaction.
    pub(super) fn needs_compaction(&self) -> bool {
        self.pick_compaction(&[], None).is_some()
    }

    /// Keeps the table that an error names out of compactions in the background.
    fn leave_out(&self, compaction: &Compaction, error: &Error) {
        let is_named = |table: &Arc<StoredTable>| matches!(error, Error::InFile { path, .. } if *path == table.path);
        let is_any_named = compaction.inputs().any(is_named);
        // Where it names none of them, what was written is damaged. Whatever it came from, the next attempt would fail.
        let numbers =
            compaction.inputs().filter(|table| !is_any_named || is_named(table)).map(|table| table.meta.number);
        lock(&self.left_out).extend(numbers);
        self.reports.add(format!("{error}; left out of compactions in the background until the store is reopened"));
    }

    /// Whether the background is to compact level 0, when it is full. Not while it fails to: writers would wait for
    /// room that only their deletions make.
    pub(super) fn compacts_level_0(&self, version: &Version, work: &Work) -> bool {
        self.options.auto_compaction
            && !work.compactions.is_failing()
            && (lock(&self.left_out).is_empty() || self.compaction_of_level_0(version).is_some())
    }

    fn compaction_of_level_0(&self, version: &Version) -> Option<Compaction> {
        let compaction = Compaction::of(version, 0, version.tables(0).cloned().collect())?;
        self.is_left_in(&compaction).then_some(compaction)
    }

    /// Whether none of the tables is known to be damaged.
    fn is_left_in(&self, compaction: &Compaction) -> bool {
        let left_out = lock(&self.left_out);
        compaction.inputs().all(|table| !left_out.contains(&table.meta.number))
    }

    /// The compaction that is needed most, if any. One of the level that failed last comes behind the others, which may
    /// need less room, or make some.
    fn pick_compaction(&self, cursors: &[Vec<u8>], failed_level: Option<usize>) -> Option<Compaction> {
        if !self.options.auto_compaction {
            return None;
        }
        let version = Arc::clone(&self.state.load().version);
        let is_full = version.tables(0).count() >= self.options.l0_compaction_trigger.max(1);
        let of_level_0 = || if is_full { self.compaction_of_level_0(&version) } else { None };
        match failed_level {
            None => of_level_0().or_else(|| self.compaction_of_full_level(&version, cursors, None)),
            Some(0) => self.compaction_of_full_level(&version, cursors, None).or_else(of_level_0),
            Some(_) => of_level_0()
                .or_else(|| self.compaction_of_full_level(&version, cursors, failed_level))
                .or_else(|| self.compaction_of_full_level(&version, cursors, None)),
        }
    }

    /// The compaction of the first level from 1 on that is over its size, but for one level.
    fn compaction_of_full_level(
        &self,
        version: &Version,
        cursors: &[Vec<u8>],
        but_for: Option<usize>,
    ) -> Option<Compaction> {
        let mut limit = self.options.level_base_bytes;
        for level in 1..NUM_LEVELS - 1 {
            let bytes: u64 = version.tables(level).map(|table| table.meta.len_bytes).sum();
            if bytes > limit && but_for != Some(level) {
                let is_next =
                    |table: &&Arc<StoredTable>| cursors.get(level).is_none_or(|after| table.meta.smallest > *after);
                let (next, rest) = version.tables(level).partition::<Vec<_>, _>(is_next);
                let in_turn = next.into_iter().chain(rest);
                let mut compactions =
                    in_turn.filter_map(|table| Compaction::of(version, level, vec![Arc::clone(table)]));
                let found = compactions.find(|compaction| self.is_left_in(compaction));
                if found.is_some() {
                    return found;
                }
            }
            limit = limit.saturating_mul(self.size_ratio());
        }
        None
    }

    /// Waits until no compaction is under way, and gives the caller the next turn.
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failure.
    fn begin_compaction(&self) -> Result<Turn<'_>> {
        let mut work = lock(&self.work);
        work.callers_waiting += 1;
        while work.compacting && work.failure.is_none() {
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
        work.callers_waiting -= 1;
        if let Some(reason) = &work.failure {
            return Err(Error::Poisoned { reason: reason.clone() });
        }
        work.compacting = true;
        Ok(Turn(self))
    }

    /// Merges all tables with keys of a range down to the lowest level that holds any, one level after the other.
    ///
    /// # Errors
    /// Damage of the tables, I/O errors, [`Error::Poisoned`] after an earlier failure.
    pub(super) fn compact_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        let within = |table: &StoredTable| {
            let starts_before_end = match to {
                Bound::Included(end) => table.meta.smallest.as_slice() <= end,
                Bound::Excluded(end) => table.meta.smallest.as_slice() < end,
                Bound::Unbounded => true,
            };
            let ends_behind_start = match from {
                Bound::Included(start) => table.meta.largest.as_slice() >= start,
                Bound::Excluded(start) => table.meta.largest.as_slice() > start,
                Bound::Unbounded => true,
            };
            starts_before_end && ends_behind_start
        };
        for level in 0..NUM_LEVELS {
            let turn = self.begin_compaction()?;
            let version = Arc::clone(&self.state.load().version);
            let deeper = (level + 1..NUM_LEVELS).any(|below| version.tables(below).any(|table| within(table)));
            let mut upper: Vec<_> = version.tables(level).filter(|table| within(table)).cloned().collect();
            // Level 0 is merged whole: an older table left behind would come to lie above a newer one.
            if level == 0 && !upper.is_empty() {
                upper = version.tables(0).cloned().collect();
            }
            // The lowest level is a sorted run already, but may hold removals of what lay below once, and filters that
            // were chosen for another store than it is now.
            let compactions: Vec<Compaction> = if level == 0 || deeper {
                Compaction::of(&version, level, upper).into_iter().collect()
            } else {
                let in_place = upper.iter().filter_map(|table| Compaction::in_place(&version, level, table));
                in_place.filter(|one| one.has_tombstones() || self.has_outdated_filter(&version, one)).collect()
            };
            drop(version);
            for compaction in compactions {
                self.compact(&compaction)?;
                // There is room again, or whatever else was missing.
                lock(&self.work).compactions.hurry();
            }
            drop(turn);
            if !deeper {
                break;
            }
        }
        Ok(())
    }

    fn compact(&self, compaction: &Compaction) -> Result<()> {
        let to = compaction.to;
        let level_tag = |level: usize| u8::try_from(level).unwrap_or(u8::MAX);
        // A filter for a small level would be too large a one for the level below.
        let is_move = compaction.is_move() && !self.has_outdated_filter(&self.state.load().version, compaction);
        let added = if is_move { compaction.upper.clone() } else { self.merge(compaction)? };
        let removed = compaction.upper.iter().map(|table| (level_tag(compaction.level), table.meta.number));
        let edit = VersionEdit {
            removed: removed.chain(compaction.lower.iter().map(|table| (level_tag(to), table.meta.number))).collect(),
            added: added.iter().map(|table| (level_tag(to), table.meta.clone())).collect(),
            ..VersionEdit::default()
        };
        let written = if is_move { 0 } else { added.iter().map(|table| table.meta.len_bytes).sum() };
        self.install(edit, added.into_iter().map(|table| (to, table)).collect(), |_| {})?;
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        self.counters.compacted_bytes.fetch_add(written, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn size_ratio(&self) -> u64 {
        self.options.level_size_ratio.max(2)
    }

    /// What a policy is told of the tables that a compaction writes.
    fn result_shape(&self, version: &Version, compaction: &Compaction) -> TableShape {
        let sum =
            |of: fn(&StoredTable) -> u64| compaction.inputs().fold(0u64, |sum, table| sum.saturating_add(of(table)));
        let num_keys = sum(|table| table.meta.num_entries);
        let num_tables = sum(|table| table.meta.len_bytes) / self.options.table_size_bytes.max(1) + 1;
        let mut levels = version.level_shapes(&compaction.inputs().map(|table| table.meta.number).collect());
        if let Some(level) = levels.get_mut(compaction.to) {
            level.num_keys = level.num_keys.saturating_add(num_keys);
            level.num_tables = level.num_tables.saturating_add(num_tables);
            if compaction.to == compaction.level {
                // The tables of the level are written anew one after the other: what one of them has too much of memory
                // must not be taken from the next.
                level.filter_bytes = 0;
            }
        }
        let shape = TableShape::new(num_keys, compaction.to, compaction.bottommost).with_levels(levels);
        shape.with_size_ratio(self.size_ratio())
    }

    /// Whether the policy would now choose another filter for a table: of another kind, a larger one by a quarter, or one
    /// smaller by a hundredth, since there may be a bound to memory. Less is not worth the writing.
    fn has_outdated_filter(&self, version: &Version, compaction: &Compaction) -> bool {
        let Some(policy) = &self.options.filter else { return false };
        let Some(chosen) = policy.choose(&self.result_shape(version, compaction)) else { return false };
        compaction.inputs().any(|table| {
            let Ok(present) = table.table.properties().filter.parse::<FilterSpec>() else { return true };
            let (present_bits, chosen_bits) = (present.millibits_per_key(), chosen.millibits_per_key());
            present.kind() != chosen.kind()
                || present_bits * 100 > chosen_bits * 101
                || present_bits * 5 < chosen_bits * 4
        })
    }

    /// Writes the merged entries to new tables of the level below; none of them stays after an error.
    fn merge(&self, compaction: &Compaction) -> Result<Vec<Arc<StoredTable>>> {
        let mut written: Vec<Arc<StoredTable>> = Vec::new();
        let result = self.merge_into(compaction, &mut written);
        if let Err(error) = &result {
            self.judge(error);
            written.iter().for_each(|table| table.mark_obsolete());
        }
        result.map(|()| written)
    }

    fn merge_into(&self, compaction: &Compaction, written: &mut Vec<Arc<StoredTable>>) -> Result<()> {
        let shape = self.result_shape(&self.state.load().version, compaction);
        let sequences = (
            compaction.inputs().map(|table| table.meta.smallest_sequence).min().unwrap_or(0),
            compaction.inputs().map(|table| table.meta.largest_sequence).max().unwrap_or(0),
        );
        let mut merge = Merge::new(compaction.sources(), Direction::Forward, Bound::Unbounded)?;
        let (allowance, mut len_bytes) = (self.table_allowance(), 0);
        while merge.entry().is_some() {
            let number = self.new_file_number();
            let options = self.table_options(number, &shape, sequences);
            let check = |len: u64| allowance.check(len_bytes + len);
            let table = self.make_table(number, || {
                let summary = self.write_one_table(&mut merge, compaction.bottommost, number, options, check)?;
                summary.map(|summary| self.open_table(table_meta(number, summary, sequences))).transpose()
            })?;
            len_bytes += table.as_ref().map_or(0, |table| table.meta.len_bytes);
            written.extend(table);
        }
        Ok(())
    }

    /// Writes one table's worth of a merge; `None` if nothing but removals was left that nobody needs.
    fn write_one_table(
        &self,
        merge: &mut Merge,
        drop_tombstones: bool,
        number: u64,
        options: TableOptions,
        check_len: impl Fn(u64) -> Result<()>,
    ) -> Result<Option<TableSummary>> {
        let path = self.dir.join(table_name(number));
        let mut writer = TableWriter::create(self.options.storage.as_ref(), &path, options)?;
        while let Some((key, value)) = merge.entry() {
            if value.is_some() || !drop_tombstones {
                if writer.num_entries() > 0 && writer.len_bytes() >= self.options.table_size_bytes {
                    break;
                }
                writer.add(key, value)?;
                check_len(writer.len_bytes())?;
            }
            merge.step()?;
        }
        if writer.num_entries() == 0 {
            return Ok(None);
        }
        writer.finish().map(Some)
    }
}
