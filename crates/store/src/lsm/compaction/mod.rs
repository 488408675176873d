//! Runs leveled compactions: merges of SSTs into the next level, trivial moves, and rewrites in
//! place. Each level except level 0 stays one sorted run, so that reads query few SSTs.

pub(crate) mod flush;
mod map_level_0;

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::lsm::background::{Background, Work};
use crate::lsm::files::table_name;
use crate::lsm::manifest::edit::{NUM_LEVELS, TableMeta, VersionEdit};
use crate::lsm::options::Options;
use crate::lsm::picking::{Levels, Limits, Pick, Picker, RangePicks, pick_range};
use crate::lsm::scan::merge::{Direction, Merge, RunCursor, Source};
use crate::lsm::shared::Shared;
use crate::lsm::stats::Task;
use crate::lsm::version::{
    Version,
    stored_table::{StoredTable, Written},
};
use crate::sstable::{TableOptions, TableSummary, TableWriter};
use crate::sync::atomic::Ordering;
use crate::sync::lock;
use filterblock::policy::TableShape;
use filterblock::{FilterCache, FilterSpec};

/// A [`Pick`] with its SSTs.
#[derive(Debug)]
pub(crate) struct Compaction {
    level: usize,
    to: usize,
    /// The SSTs of `level`: newest first in level 0, in key order in a deeper level.
    upper: Vec<Arc<StoredTable>>,
    /// The SSTs of the next level that overlap `upper`, in key order. Empty if an SST is rewritten
    /// in place.
    lower: Vec<Arc<StoredTable>>,
    bottommost: bool,
}

fn levels_of(version: &Version) -> Levels<'_> {
    Levels((0..NUM_LEVELS).map(|level| version.tables(level).map(|table| &table.meta).collect()).collect())
}

pub(crate) fn picker(options: &Options) -> Picker {
    Picker::new(Limits {
        l0_trigger: options.l0_compaction_trigger,
        l0_limit: options.l0_slowdown(),
        base_bytes: options.level_base_bytes,
        size_ratio: options.size_ratio(),
    })
}

impl Compaction {
    /// Returns the compaction of a pick, or `None` if the version lacks one of the picked SSTs.
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

    /// Returns whether the compaction can be a trivial move: its only SST changes its level without
    /// a rewrite. An SST of level 0 is always rewritten. A bottommost SST with tombstones is
    /// rewritten, to drop them.
    fn is_move(&self) -> bool {
        let is_free = !self.bottommost || self.upper.iter().all(|table| table.meta.num_tombstones == 0);
        self.level > 0 && self.to != self.level && self.lower.is_empty() && self.upper.len() == 1 && is_free
    }

    /// Newest first: each SST of level 0 by itself, a deeper level as one run.
    fn sources(&self) -> Vec<Source> {
        let run = |tables: Vec<Arc<StoredTable>>| Source::Run(RunCursor::new(tables, None).reading_ahead());
        let mut sources: Vec<Source> = match self.level {
            0 => self.upper.iter().map(|table| run(vec![Arc::clone(table)])).collect(),
            _ => vec![run(self.upper.clone())],
        };
        sources.push(run(self.lower.clone()));
        sources
    }
}

/// The right to compact, which at most one thread has at a time. Dropping this guard releases the
/// right, even after a panic.
struct Turn<'a>(&'a Background);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.work).compacting = false;
        self.0.changed.notify_all();
    }
}

enum Job {
    Compact(Compaction),
    /// Read the keys of level 0 for its map.
    MapLevel0,
    /// Decide anew which filters stay in memory.
    RebalanceFilters,
}

/// The time between two looks whether filters need a rebalance, and the least time between two rebalances.
/// Reads do not wake the background thread.
const REBALANCE_CHECK: Duration = Duration::from_millis(100);

pub(crate) fn run_compactions(shared: &Shared) {
    let mut rebalanced = Instant::now();
    while let Some(job) = next_job(shared, rebalanced) {
        let compaction = match job {
            Job::Compact(compaction) => compaction,
            Job::MapLevel0 => {
                shared.map_level_0();
                lock(&shared.background.work).mapping = false;
                shared.background.changed.notify_all();
                continue;
            }
            Job::RebalanceFilters => {
                shared.rebalance_filters();
                rebalanced = Instant::now();
                continue;
            }
        };
        let turn = Turn(&shared.background);
        if let Some(last) = compaction.upper.last() {
            lock(&shared.background.picker).note_begin(compaction.level, &last.meta.largest);
        }
        let start = Instant::now();
        let compacted = shared.compact(&compaction);
        if let Ok(written) = compacted {
            lock(&shared.background.pace).note_end(compaction.level, written, start);
        }
        lock(&shared.background.picker).note_end(compaction.level, compacted.is_err());
        let result = compacted.map(drop);
        match &result {
            // A retry would probably fail the same way.
            Err(error) if error.is_damage() || error.is_unsupported() => shared.leave_out(&compaction, error),
            result => shared.note_attempt(Task::Compaction, result),
        }
        // Release the replaced SSTs before the turn, so that their files are usually gone when a
        // waiting caller continues.
        drop(compaction);
        drop(turn);
    }
}

/// Waits for the next due compaction, takes the right to compact and returns the compaction. The
/// caller must create a [`Turn`], which releases the right. If no compaction is due, the work may be
/// to map level 0. Returns `None` when the store closes or has failed.
fn next_job(shared: &Shared, rebalanced: Instant) -> Option<Job> {
    let mut work = lock(&shared.background.work);
    loop {
        if work.closing || work.failure.is_some() {
            return None;
        }
        let delay = work.compactions.delay();
        if !delay.is_zero() {
            work = shared.background.wait_at_most(work, delay);
            continue;
        }
        if !work.compacting && work.callers_waiting == 0 {
            let is_idle = work.idle_waiters > 0;
            let spare_bytes = if is_idle { u64::MAX } else { lock(&shared.background.pace).spare_bytes() };
            if let Some(compaction) = shared.pick_compaction(spare_bytes) {
                work.compacting = true;
                return Some(Job::Compact(compaction));
            }
            // No compaction is due now, so one that failed earlier needs no retry.
            work.compactions.succeed();
            if shared.needs_map() {
                work.mapping = true;
                return Some(Job::MapLevel0);
            }
            let needs_rebalance = shared.files.filter_cache.as_ref().is_some_and(FilterCache::needs_rebalance);
            if needs_rebalance && rebalanced.elapsed() >= REBALANCE_CHECK {
                return Some(Job::RebalanceFilters);
            }
            if let Some(delay) = shared.level_0_delay(spare_bytes) {
                let delay = if needs_rebalance { delay.min(REBALANCE_CHECK) } else { delay };
                work = shared.background.wait_at_most(work, delay);
                continue;
            }
        }
        work = match &shared.files.filter_cache {
            Some(_) => shared.background.wait_at_most(work, REBALANCE_CHECK),
            None => shared.background.wait(work),
        };
    }
}

impl Shared {
    /// A compaction of level 0 counts even if it still waits to become cheaper.
    pub(crate) fn needs_compaction(&self) -> bool {
        self.pick_compaction(u64::MAX).is_some()
    }

    /// `None` if level 0 needs no compaction, if its compaction is due now, or without automatic compaction.
    fn level_0_delay(&self, spare_bytes: u64) -> Option<Duration> {
        if !self.options.auto_compaction {
            return None;
        }
        let version = self.version();
        let bytes = lock(&self.background.picker).waits_for(&levels_of(&version), spare_bytes)?;
        Some(lock(&self.background.pace).delay(bytes))
    }

    /// Excludes the input that `error` names from background compactions until the store is
    /// reopened, and reports the error. If `error` names no input, excludes all inputs.
    fn leave_out(&self, compaction: &Compaction, error: &Error) {
        let is_named = |table: &Arc<StoredTable>| matches!(error, Error::InFile { path, .. } if *path == table.path);
        let is_any_named = compaction.inputs().any(is_named);
        // If the error names no input, an output may be damaged. The next attempt with the same
        // inputs would probably fail the same way.
        let numbers =
            compaction.inputs().filter(|table| !is_any_named || is_named(table)).map(|table| table.meta.number);
        lock(&self.background.picker).leave_out(numbers);
        self.reading
            .reports
            .add(format!("{error}; background compactions skip the affected SSTs until the store is reopened"));
    }

    /// Returns whether a background thread compacts level 0 when it is full. Returns `false`
    /// without automatic compaction, while compactions fail, and if an SST that is left out blocks
    /// level 0. In these cases writers must not wait for level 0: the compaction may never come,
    /// and deletions may be the only way to release the space that it needs.
    pub(crate) fn compacts_level_0(&self, version: &Version, work: &Work) -> bool {
        if !self.options.auto_compaction || work.compactions.is_failing() {
            return false;
        }
        let picker = lock(&self.background.picker);
        picker.leaves_nothing_out() || picker.pick_level_0(&levels_of(version)).is_some()
    }

    pub(crate) fn pick_compaction(&self, spare_bytes: u64) -> Option<Compaction> {
        if !self.options.auto_compaction {
            return None;
        }
        let version = self.version();
        let pick = lock(&self.background.picker).pick(&levels_of(&version), spare_bytes)?;
        Compaction::of(&version, &pick)
    }

    fn begin_compaction(&self) -> Result<Turn<'_>> {
        let mut work = lock(&self.background.work);
        work.callers_waiting += 1;
        while work.compacting && work.failure.is_none() {
            work = self.background.wait(work);
        }
        work.callers_waiting -= 1;
        if let Some(reason) = &work.failure {
            return Err(Error::Poisoned { reason: reason.clone() });
        }
        work.compacting = true;
        Ok(Turn(&self.background))
    }

    /// Merges all SSTs that overlap a range, one level after the other, into the deepest level that
    /// overlaps it. If level 0 overlaps the range, the call merges all of level 0, and at least
    /// into level 1. In the deepest level, it rewrites only SSTs with tombstones or outdated
    /// filters.
    pub(crate) fn compact_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        for level in 0..NUM_LEVELS {
            let turn = self.begin_compaction()?;
            let version = self.version();
            let RangePicks { picks, goes_on } = pick_range(&levels_of(&version), level, from, to);
            let mut compactions: Vec<_> = picks.iter().filter_map(|pick| Compaction::of(&version, pick)).collect();
            // A merge into the next level is always needed. A rewrite in place is needed only to
            // drop tombstones or to replace an outdated filter.
            let is_needed = |one: &Compaction| {
                one.to != one.level || one.has_tombstones() || self.has_outdated_filter(&version, one)
            };
            compactions.retain(is_needed);
            drop(version);
            for compaction in compactions {
                self.compact(&compaction)?;
                // This compaction may have freed the space that background compactions lack, so
                // they are retried now.
                lock(&self.background.work).compactions.hurry();
            }
            drop(turn);
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Returns the number of bytes written, which is 0 for a trivial move.
    fn compact(&self, compaction: &Compaction) -> Result<u64> {
        let to = compaction.to;
        let level_tag = |level: usize| u8::try_from(level).unwrap_or(u8::MAX);
        // Do not move an SST with an outdated filter. For example, a filter that was chosen for a
        // small level may be too large for the next, larger level.
        let is_move = compaction.is_move() && !self.has_outdated_filter(&self.reading.state.load().version, compaction);
        let added = if is_move { compaction.upper.clone() } else { self.merge(compaction)? };
        let removed = compaction.upper.iter().map(|table| (level_tag(compaction.level), table.meta.number));
        let edit = VersionEdit {
            removed: removed.chain(compaction.lower.iter().map(|table| (level_tag(to), table.meta.number))).collect(),
            added: added.iter().map(|table| (level_tag(to), table.meta.clone())).collect(),
            ..VersionEdit::default()
        };
        let written = if is_move { 0 } else { added.iter().map(|table| table.meta.len_bytes).sum() };
        self.install(edit, added.into_iter().map(|table| (to, table)).collect(), |_| {
            // Count before the state changes: a thread that sees the new SSTs also sees the
            // compaction counted.
            self.reading.counters.compactions.fetch_add(1, Ordering::Relaxed);
            self.reading.counters.compacted_bytes.fetch_add(written, Ordering::Relaxed);
        })?;
        self.release_map();
        Ok(written)
    }

    /// The number of keys of each result is the sum over all inputs, an upper bound.
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
                // A range compaction may rewrite the SSTs of the level one after the other. Old
                // filters must not reduce the memory for the new filters, so no filter of this
                // level counts as memory in use.
                level.filter_bytes = 0;
            }
        }
        let shape = TableShape::new(num_keys, compaction.to, compaction.bottommost).with_levels(levels);
        shape.with_size_ratio(self.options.size_ratio())
    }

    /// Returns whether an input has an outdated filter, so that a rewrite is worth its cost. A
    /// filter is outdated if it is missing, or if the policies would now choose one
    ///
    /// * of another kind;
    /// * with over 25 % more bits per key, or with so few that the present filter has over 1 %
    ///   more;
    /// * with the prefixes of the store's extractor, if the filter lacks them;
    /// * with a different range filter beside it, or with none instead of one, if
    ///   [`Options::range_filter`] is set;
    /// * that is a different range filter without another filter.
    ///
    /// The limit for smaller filters is strict, because the policy may have a memory budget.
    /// Returns `false` if the policies now choose no filter or an invalid one.
    fn has_outdated_filter(&self, version: &Version, compaction: &Compaction) -> bool {
        // If the choice is invalid, no SST can be rewritten.
        let Ok(specs) = self.options.choose_filters(&self.result_shape(version, compaction)) else { return false };
        let Some(chosen) = specs.points else { return false };
        let wanted = self.identity.extractor.as_ref().filter(|_| specs.holds_prefixes());
        let ranges = specs.ranges.map(|ranges| ranges.to_string()).unwrap_or_default();
        compaction.inputs().any(|table| {
            let properties = table.table.properties();
            if wanted.is_some_and(|wanted| wanted.name() != properties.prefix_extractor)
                || self.options.range_filter.is_some() && ranges != properties.range_filter
                || specs.is_for_ranges_alone() && chosen.to_string() != properties.filter
            {
                return true;
            }
            let Ok(present) = properties.filter.parse::<FilterSpec>() else { return true };
            let (present_bits, chosen_bits) = (present.millibits_per_key(), chosen.millibits_per_key());
            present.kind() != chosen.kind()
                || present_bits * 100 > chosen_bits * 101
                || present_bits * 5 < chosen_bits * 4
        })
    }

    /// Writes the merged entries to new SSTs for the target level. After an error, calls
    /// [`Self::judge`], which may fail the store. After an error or a panic, removes these SSTs.
    fn merge(&self, compaction: &Compaction) -> Result<Vec<Arc<StoredTable>>> {
        let mut written = Written::default();
        self.merge_into(compaction, &mut written.0).inspect_err(|error| self.judge(error))?;
        Ok(std::mem::take(&mut written.0))
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
            let options = self.table_options(number, &shape, sequences)?;
            let check = |len: u64| allowance.check(len_bytes + len);
            let table = self.make_table(number, || {
                let summary = self.write_one_table(&mut merge, compaction.bottommost, number, options, check)?;
                summary.map(|summary| self.open_table(TableMeta::of(number, summary, sequences))).transpose()
            })?;
            len_bytes += table.as_ref().map_or(0, |table| table.meta.len_bytes);
            written.extend(table);
        }
        Ok(())
    }

    /// Writes entries of the merge to one SST file, until the file has
    /// [`Options::table_size_bytes`] or the merge ends. Returns `None` if the merge had only
    /// tombstones left that may be dropped.
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
        self.finish_table(writer, &path).map(Some)
    }
}
