//! Levelled compaction: merges tables downwards, so that each level below 0 stays one sorted run and reads ask few.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError};

use super::file_name::table_name;
use super::flush::table_meta;
use super::options::Options;
use super::picking::{Levels, Limits, Pick, Picker, RangePicks, TableFacts, pick_range};
use super::scan::{Direction, Merge, RunCursor, Source};
use super::shared::{Background, Shared, Work};
use super::stats::Task;
use super::version::{StoredTable, Version};
use super::version_edit::{NUM_LEVELS, VersionEdit};
use crate::error::{Error, Result};
use crate::sstable::{TableOptions, TableSummary, TableWriter};
use crate::sync::atomic::Ordering;
use crate::sync::lock;
use filterblock::FilterSpec;
use filterblock::TableShape;

/// A [`Pick`] with its tables.
#[derive(Debug)]
pub(super) struct Compaction {
    level: usize,
    to: usize,
    /// Tables of `level`, in the order of reading.
    upper: Vec<Arc<StoredTable>>,
    /// Tables of `to` that overlap them, in key order.
    lower: Vec<Arc<StoredTable>>,
    bottommost: bool,
}

/// What picking is told of a version.
fn levels_of(version: &Version) -> Levels<'_> {
    let facts = |level| version.tables(level).map(|table| TableFacts::from(&table.meta)).collect();
    Levels((0..NUM_LEVELS).map(facts).collect())
}

/// What picks the compactions of a store that is opened with these options.
pub(super) fn picker(options: &Options) -> Picker {
    Picker::new(Limits {
        l0_trigger: options.l0_compaction_trigger,
        base_bytes: options.level_base_bytes,
        size_ratio: options.size_ratio(),
    })
}

impl Compaction {
    /// The tables of a pick; `None` if the version has not all of them.
    fn of(version: &Version, pick: &Pick) -> Option<Self> {
        let tables = |level: usize, numbers: &[u64]| {
            let by_number: HashMap<u64, _> = version.tables(level).map(|table| (table.meta.number, table)).collect();
            numbers
                .iter()
                .map(|number| by_number.get(number).map(|&table| Arc::clone(table)))
                .collect::<Option<Vec<_>>>()
        };
        let (upper, lower) = (tables(pick.level, &pick.upper)?, tables(pick.to, &pick.lower)?);
        Some(Self { level: pick.level, to: pick.to, upper, lower, bottommost: pick.bottommost })
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
struct Turn<'a>(&'a Background);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.work).compacting = false;
        self.0.changed.notify_all();
    }
}

/// Compacts in the background until the store closes.
pub(super) fn run_compactions(shared: &Shared) {
    while let Some(compaction) = next_compaction(shared) {
        let turn = Turn(&shared.background);
        if let Some(last) = compaction.upper.last() {
            lock(&shared.background.picker).note_begin(compaction.level, &last.meta.largest);
        }
        let result = shared.compact(&compaction);
        lock(&shared.background.picker).note_end(compaction.level, result.is_err());
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
fn next_compaction(shared: &Shared) -> Option<Compaction> {
    let mut work = lock(&shared.background.work);
    loop {
        if work.closing || work.failure.is_some() {
            return None;
        }
        let rest = work.compactions.rest();
        if !rest.is_zero() {
            work = shared.background.wait_at_most(work, rest);
            continue;
        }
        if !work.compacting && work.callers_waiting == 0 {
            if let Some(compaction) = shared.pick_compaction() {
                work.compacting = true;
                return Some(compaction);
            }
            // What failed is not needed any more.
            work.compactions.succeed();
        }
        work = shared.background.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
    }
}

impl Shared {
    /// Whether level sizes call for a compaction.
    pub(super) fn needs_compaction(&self) -> bool {
        self.pick_compaction().is_some()
    }

    /// Keeps the table that an error names out of compactions in the background.
    fn leave_out(&self, compaction: &Compaction, error: &Error) {
        let is_named = |table: &Arc<StoredTable>| matches!(error, Error::InFile { path, .. } if *path == table.path);
        let is_any_named = compaction.inputs().any(is_named);
        // Where it names none of them, what was written is damaged. Whatever it came from, the next attempt would fail.
        let numbers =
            compaction.inputs().filter(|table| !is_any_named || is_named(table)).map(|table| table.meta.number);
        lock(&self.background.picker).leave_out(numbers);
        self.reading
            .reports
            .add(format!("{error}; left out of compactions in the background until the store is reopened"));
    }

    /// Whether the background is to compact level 0, when it is full. Not while it fails to: writers would wait for
    /// room that only their deletions make.
    pub(super) fn compacts_level_0(&self, version: &Version, work: &Work) -> bool {
        if !self.options.auto_compaction || work.compactions.is_failing() {
            return false;
        }
        let picker = lock(&self.background.picker);
        picker.leaves_nothing_out() || picker.pick_level_0(&levels_of(version)).is_some()
    }

    /// The compaction that is needed most, if any.
    fn pick_compaction(&self) -> Option<Compaction> {
        if !self.options.auto_compaction {
            return None;
        }
        let version = Arc::clone(&self.reading.state.load().version);
        let pick = lock(&self.background.picker).pick(&levels_of(&version))?;
        Compaction::of(&version, &pick)
    }

    /// Waits until no compaction is under way, and gives the caller the next turn.
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failure.
    fn begin_compaction(&self) -> Result<Turn<'_>> {
        let mut work = lock(&self.background.work);
        work.callers_waiting += 1;
        while work.compacting && work.failure.is_none() {
            work = self.background.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
        work.callers_waiting -= 1;
        if let Some(reason) = &work.failure {
            return Err(Error::Poisoned { reason: reason.clone() });
        }
        work.compacting = true;
        Ok(Turn(&self.background))
    }

    /// Merges all tables with keys of a range down to the lowest level that holds any, one level after the other.
    ///
    /// # Errors
    /// Damage of the tables, I/O errors, [`Error::Poisoned`] after an earlier failure.
    pub(super) fn compact_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        for level in 0..NUM_LEVELS {
            let turn = self.begin_compaction()?;
            let version = Arc::clone(&self.reading.state.load().version);
            let RangePicks { picks, goes_on } = pick_range(&levels_of(&version), level, from, to);
            let mut compactions: Vec<_> = picks.iter().filter_map(|pick| Compaction::of(&version, pick)).collect();
            // The lowest level may hold tombstones of what lay below once, and filters that were chosen for another store
            // than it is now.
            let is_needed = |one: &Compaction| {
                one.to != one.level || one.has_tombstones() || self.has_outdated_filter(&version, one)
            };
            compactions.retain(is_needed);
            drop(version);
            for compaction in compactions {
                self.compact(&compaction)?;
                // There is room again, or whatever else was missing.
                lock(&self.background.work).compactions.hurry();
            }
            drop(turn);
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    fn compact(&self, compaction: &Compaction) -> Result<()> {
        let to = compaction.to;
        let level_tag = |level: usize| u8::try_from(level).unwrap_or(u8::MAX);
        // A filter for a small level would be too large a one for the level below.
        let is_move = compaction.is_move() && !self.has_outdated_filter(&self.reading.state.load().version, compaction);
        let added = if is_move { compaction.upper.clone() } else { self.merge(compaction)? };
        let removed = compaction.upper.iter().map(|table| (level_tag(compaction.level), table.meta.number));
        let edit = VersionEdit {
            removed: removed.chain(compaction.lower.iter().map(|table| (level_tag(to), table.meta.number))).collect(),
            added: added.iter().map(|table| (level_tag(to), table.meta.clone())).collect(),
            ..VersionEdit::default()
        };
        let written = if is_move { 0 } else { added.iter().map(|table| table.meta.len_bytes).sum() };
        self.install(edit, added.into_iter().map(|table| (to, table)).collect(), |_| {})?;
        self.reading.counters.compactions.fetch_add(1, Ordering::Relaxed);
        self.reading.counters.compacted_bytes.fetch_add(written, Ordering::Relaxed);
        Ok(())
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
        shape.with_size_ratio(self.options.size_ratio())
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
        let shape = self.result_shape(&self.reading.state.load().version, compaction);
        let sequences = (
            compaction.inputs().map(|table| table.meta.smallest_sequence).min().unwrap_or(0),
            compaction.inputs().map(|table| table.meta.largest_sequence).max().unwrap_or(0),
        );
        let mut merge = Merge::new(compaction.sources(), Direction::Forward, Bound::Unbounded)?;
        let (allowance, mut len_bytes) = (self.table_allowance(), 0);
        while merge.entry().is_some() {
            let number = self.catalogue.new_file_number();
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
        let path = self.identity.dir.join(table_name(number));
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
