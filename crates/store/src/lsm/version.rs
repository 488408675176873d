//! A version: the SSTs of a store at one moment, and the path of a read through them.
//!
//! A version is immutable; flushes and compactions create new versions. Level 0 holds SSTs that may
//! overlap, newest first. Each deeper level is one sorted run. Newer writes always lie above older
//! ones, so a read goes from the top down and stops at the first SST that knows the key.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::batch_read::{BATCH, Batch, Probe};
use super::options::FilterUse;
use super::removals::Removals;
use super::reports::Reports;
use super::stats::{Recorder, Tally, rate_units};
use super::version_edit::{NUM_LEVELS, TableMeta};
use crate::codec::order_prefix;
use crate::error::{Error, Field, Result};
use crate::sstable::{BlockCache, BlockReads, Lookup, Table, TableFilter};
use crate::storage::Storage;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, lock};
use filterblock::{Answer, FilterSet, FilterSlot, HashSeed, KeyHasher, LevelShape};

/// An SST of the store. After a compaction has replaced it, its file is removed with the last
/// reference.
#[derive(Debug)]
pub(super) struct StoredTable {
    file: Arc<TableFile>,
    pub(super) meta: TableMeta,
    pub(super) table: Arc<Table>,
    pub(super) path: PathBuf,
    /// The filter's expected FPR, in the units of [`Tally::expected`].
    expected: u64,
    /// Whether the damage of its filter has been reported.
    is_reported: AtomicBool,
}

/// The file of an SST. It may be open more than once.
#[derive(Debug)]
struct TableFile {
    path: PathBuf,
    storage: Arc<dyn Storage>,
    /// The state of file deletion: whether the store is closed, and which files are left to remove.
    closed: Arc<Mutex<Removals>>,
    obsolete: AtomicBool,
}

impl StoredTable {
    pub(super) fn new(
        meta: TableMeta,
        table: Table,
        path: PathBuf,
        storage: Arc<dyn Storage>,
        closed: Arc<Mutex<Removals>>,
    ) -> Self {
        // This takes 8 us of arithmetic. Do it once per SST, not once per version.
        let expected = match table.filter() {
            TableFilter::Ready(filter) => rate_units(filter.expected_false_positive_rate()),
            TableFilter::Absent | TableFilter::Degraded(_) => 0,
        };
        let file = TableFile { path: path.clone(), storage, closed, obsolete: AtomicBool::new(false) };
        let is_reported = AtomicBool::new(false);
        Self { file: Arc::new(file), meta, table: Arc::new(table), path, expected, is_reported }
    }

    /// Returns this SST as the replacement of `other`, an earlier opening of the same file. Both
    /// then share the file, which is removed when neither is needed.
    pub(super) fn instead_of(self, other: &Self) -> Self {
        // The damage of this opening has not been reported yet.
        Self { file: Arc::clone(&other.file), is_reported: AtomicBool::new(false), ..self }
    }

    /// Returns whether the filter could not be loaded when the SST was opened, although it may be
    /// sound: memory ran out, or the device failed.
    pub(super) fn lacks_filter(&self) -> bool {
        matches!(self.table.filter(), TableFilter::Degraded(error)
            if matches!(error.root(), Error::Io(_) | Error::TooLarge { .. }))
    }

    /// Reports the damage of the filter, at most once.
    ///
    /// # Errors
    /// Returns that damage if `strict` is set.
    pub(super) fn report_filter(&self, reports: &Reports, strict: bool) -> Result<()> {
        match self.table.filter() {
            TableFilter::Absent => Ok(()),
            TableFilter::Ready(filter) => {
                let damaged_pages = filter.damaged_pages();
                if damaged_pages == 0 {
                    return Ok(());
                }
                if let (true, Some(error)) = (strict, self.table.filter_damage()) {
                    return Err(error);
                }
                self.report_once(reports, || match self.table.filter_damage() {
                    Some(error) => error.to_string(),
                    None => format!("{}: {damaged_pages} pages of the filter are damaged", self.path.display()),
                });
                Ok(())
            }
            TableFilter::Degraded(_) if strict => {
                Err(Error::Corrupt { field: Field::FilterBlock, offset: 0 }.in_file(&self.path))
            }
            TableFilter::Degraded(error) => {
                self.report_once(reports, || error.to_string());
                Ok(())
            }
        }
    }

    fn report_once(&self, reports: &Reports, message: impl FnOnce() -> String) {
        // Each read of an SST with a damaged filter comes here. All reads but the first must cost
        // only this load.
        if !self.is_reported.load(Ordering::Relaxed) && !self.is_reported.swap(true, Ordering::Relaxed) {
            reports.add(format!("{}; reads go on, and the damaged part of the filter answers \"maybe\"", message()));
        }
    }

    /// Marks the file as obsolete: it is removed with the last reference.
    pub(super) fn mark_obsolete(&self) {
        self.file.obsolete.store(true, Ordering::Relaxed);
    }

    /// Returns whether a compaction has replaced the SST.
    pub(super) fn is_obsolete(&self) -> bool {
        self.file.obsolete.load(Ordering::Relaxed)
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if !self.obsolete.load(Ordering::Relaxed) {
            return;
        }
        // Hold the lock until the file is removed, so that the store cannot close in between.
        lock(&self.closed).remove(self.storage.as_ref(), std::mem::take(&mut self.path));
    }
}

/// The facts about an SST that a read looks at first, in one cache line. The filter has another
/// line in [`Version::filters`].
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// [`order_prefix`] of the first key.
    pub(super) smallest: u64,
    pub(super) largest: u64,
    /// The filter's expected FPR, in the units of [`Tally::expected`].
    expected: u64,
    filter: FilterSlot,
    table: Arc<Table>,
    stored: Arc<StoredTable>,
}

const _: () = assert!(size_of::<Slot>() <= 64);

impl Slot {
    fn new(stored: Arc<StoredTable>, filters: &mut FilterSet<Error>) -> Self {
        let filter = filters.insert(Arc::clone(stored.table.shared_filter()));
        let (smallest, largest) = (order_prefix(&stored.meta.smallest), order_prefix(&stored.meta.largest));
        Self { smallest, largest, expected: stored.expected, filter, table: Arc::clone(&stored.table), stored }
    }

    #[inline]
    pub(super) fn covers(&self, probe: &Probe<'_>) -> bool {
        if self.smallest < probe.prefix && probe.prefix < self.largest {
            return true;
        }
        self.smallest <= probe.prefix && probe.prefix <= self.largest && self.covers_by_bytes(probe.key)
    }

    /// Returns the bits of those keys in `of` that the SST may hold.
    #[inline]
    fn mask_of(&self, batch: &Batch<'_>, of: u32) -> u32 {
        batch.within((self.smallest, self.largest), of, |probe| self.covers(probe))
    }

    /// Returns whether the SST's key range covers `key`. Compares whole keys, because equal
    /// prefixes decide nothing.
    fn covers_by_bytes(&self, key: &[u8]) -> bool {
        self.stored.meta.smallest.as_slice() <= key && key <= self.stored.meta.largest.as_slice()
    }

    /// Returns whether all keys of the SST sort below the wanted key.
    #[inline]
    fn is_below(&self, probe: &Probe<'_>) -> bool {
        self.largest < probe.prefix || self.largest == probe.prefix && self.stored.meta.largest.as_slice() < probe.key
    }
}

#[derive(Debug, Clone)]
struct Level {
    number: usize,
    slots: Vec<Slot>,
}

/// The settings of a read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadContext<'a> {
    pub(super) filter_use: FilterUse,
    pub(super) strict: bool,
    pub(super) cache: Option<&'a BlockCache>,
    pub(super) reports: &'a Reports,
}

/// The SSTs of a store at one moment.
#[derive(Debug)]
pub(super) struct Version {
    /// The levels that hold SSTs, from the top down.
    levels: Vec<Level>,
    hasher: KeyHasher,
    /// The filters of all SSTs.
    filters: FilterSet<Error>,
}

/// Creates a version without SSTs.
impl Default for Version {
    fn default() -> Self {
        Self::new(Vec::new(), &HashSeed::default().into())
    }
}

impl Version {
    /// Creates a version. `levels[0]` may be in any order; the other levels must be free of
    /// overlaps.
    pub(super) fn new(levels: Vec<Vec<Arc<StoredTable>>>, hasher: &KeyHasher) -> Self {
        let mut filters = FilterSet::new(hasher);
        let order = |(number, mut tables): (usize, Vec<Arc<StoredTable>>)| {
            if number == 0 {
                tables.sort_by_key(|table| std::cmp::Reverse((table.meta.largest_sequence, table.meta.number)));
            } else {
                tables.sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
            }
            Level { number, slots: tables.into_iter().map(|table| Slot::new(table, &mut filters)).collect() }
        };
        let levels = levels.into_iter().enumerate().map(order).filter(|level| !level.slots.is_empty()).collect();
        Self { levels, hasher: hasher.clone(), filters }
    }

    /// Returns a version with some SSTs removed and others added. Each element of both lists
    /// begins with its level.
    pub(super) fn with(&self, removed: &[(u8, u64)], added: Vec<(usize, Arc<StoredTable>)>) -> Self {
        let mut levels: Vec<Vec<_>> = (0..NUM_LEVELS).map(|level| self.tables(level).cloned().collect()).collect();
        for (number, tables) in levels.iter_mut().enumerate() {
            tables.retain(|table: &Arc<StoredTable>| {
                !removed.iter().any(|&(level, file)| usize::from(level) == number && file == table.meta.number)
            });
        }
        for (level, table) in added {
            if let Some(tables) = levels.get_mut(level) {
                tables.push(table);
            }
        }
        Self::new(levels, &self.hasher)
    }

    /// Iterates over the SSTs of a level, in the order of reading.
    pub(super) fn tables(&self, level: usize) -> impl Iterator<Item = &Arc<StoredTable>> {
        let found = self.levels.iter().find(|found| found.number == level);
        found.into_iter().flat_map(|level| level.slots.iter().map(|slot| &slot.stored))
    }

    /// Iterates over all SSTs and their levels, in the order of reading.
    pub(super) fn all_tables(&self) -> impl Iterator<Item = (usize, &Arc<StoredTable>)> {
        self.levels.iter().flat_map(|level| level.slots.iter().map(|slot| (level.number, &slot.stored)))
    }

    /// Returns the shapes of the levels for a filter policy, without the SSTs whose numbers are in
    /// `without`.
    pub(super) fn level_shapes(&self, without: &HashSet<u64>) -> Vec<LevelShape> {
        let mut shapes = vec![LevelShape::default(); NUM_LEVELS];
        for (level, table) in self.all_tables().filter(|(_, table)| !without.contains(&table.meta.number)) {
            if let Some(shape) = shapes.get_mut(level) {
                shape.num_keys = shape.num_keys.saturating_add(table.meta.num_entries);
                shape.num_tables += 1;
                shape.filter_bytes += table.table.filter_len_bytes();
            }
        }
        shapes
    }

    /// Returns the newest version of a key in the SSTs. The outer `None` means that no SST knows
    /// the key; the inner `None` means that the key is deleted.
    ///
    /// # Errors
    /// Returns an error for a damaged index or data block, and for a damaged filter if
    /// `context.strict` is set. I/O errors pass through.
    #[inline]
    pub(super) fn get(
        &self,
        probe: &Probe<'_>,
        context: &ReadContext<'_>,
        recorder: Option<Recorder<'_>>,
    ) -> Result<Option<Option<Vec<u8>>>> {
        for level in &self.levels {
            let mut tally = Tally::default();
            let found = level.get(&self.filters, probe, context, &mut tally);
            if let Some(recorder) = recorder {
                recorder.level(level.number, &tally);
            }
            match found? {
                Lookup::NotFound => {}
                Lookup::Value(value) => return Ok(Some(Some(value))),
                Lookup::Tombstone => return Ok(Some(None)),
            }
        }
        Ok(None)
    }

    /// Reads many keys as [`Version::get`] does. The result for the `i`-th key goes to `values[i]`,
    /// and its bit in `batch.open` is cleared.
    ///
    /// The function processes one SST after the other. For each SST, it prefetches the filter's
    /// cache lines for all keys before it reads the first. We rejected a pass that prefetches for
    /// all SSTs first: at 36 runs, a key of a batch took 316 to 356 ns with that pass and 221 to
    /// 226 ns without; at five runs, 48 ns and 39 to 42 ns.
    ///
    /// # Errors
    /// Returns the errors of [`Version::get`].
    pub(super) fn get_batch(
        &self,
        batch: &mut Batch<'_>,
        values: &mut [Option<Vec<u8>>],
        context: &ReadContext<'_>,
        recorder: Option<Recorder<'_>>,
    ) -> Result<()> {
        for level in &self.levels {
            let mut tally = Tally::default();
            let result = level.get_batch(&self.filters, batch, values, context, &mut tally);
            if let Some(recorder) = recorder {
                recorder.level(level.number, &tally);
            }
            result?;
        }
        Ok(())
    }
}

impl Level {
    /// Returns the SSTs that may hold the key: all SSTs of level 0, at most one of a deeper level.
    #[inline]
    fn candidates(&self, probe: &Probe<'_>) -> &[Slot] {
        if self.number == 0 {
            return &self.slots;
        }
        let place = self.slots.partition_point(|slot| slot.is_below(probe));
        self.slots.get(place..).map_or(&[], |rest| rest.get(..1).unwrap_or_default())
    }

    #[inline]
    fn get(
        &self,
        filters: &FilterSet<Error>,
        probe: &Probe<'_>,
        context: &ReadContext<'_>,
        tally: &mut Tally,
    ) -> Result<Lookup> {
        for slot in self.candidates(probe) {
            if !slot.covers(probe) {
                continue;
            }
            // Keep this branch on the filter's answer a branch. It lets the processor continue with
            // the next SST while this filter's cache line is still loading.
            let answer = match context.filter_use {
                FilterUse::Consult => filters.ask(slot.filter, probe.hash),
                FilterUse::Ignore => Answer::Unfiltered,
            };
            if answer == Answer::No {
                tally.true_negatives += 1;
                tally.expected += slot.expected;
                continue;
            }
            let found = slot.search(probe, context, answer, tally)?;
            if found != Lookup::NotFound {
                return Ok(found);
            }
        }
        Ok(Lookup::NotFound)
    }

    fn get_batch(
        &self,
        filters: &FilterSet<Error>,
        batch: &mut Batch<'_>,
        values: &mut [Option<Vec<u8>>],
        context: &ReadContext<'_>,
        tally: &mut Tally,
    ) -> Result<()> {
        if self.number == 0 {
            for slot in &self.slots {
                let mask = slot.mask_of(batch, batch.open);
                slot.get_batch(filters, mask, batch, values, context, tally)?;
            }
            return Ok(());
        }
        // The keys of one SST need not be adjacent in the batch. Its filter gets all of them in one
        // query.
        let mut left = batch.open;
        while let Some(probe) = batch.probe(left.trailing_zeros()) {
            let mut done = 1 << left.trailing_zeros();
            if let Some(slot) = self.candidates(&probe).first() {
                let mask = slot.mask_of(batch, left);
                slot.get_batch(filters, mask, batch, values, context, tally)?;
                done |= mask;
            }
            left &= !done;
        }
        Ok(())
    }
}

impl Slot {
    /// Queries the filter for the keys with a bit in `mask`, and searches the SST for those that
    /// the filter does not deny.
    fn get_batch(
        &self,
        filters: &FilterSet<Error>,
        mask: u32,
        batch: &mut Batch<'_>,
        values: &mut [Option<Vec<u8>>],
        context: &ReadContext<'_>,
        tally: &mut Tally,
    ) -> Result<()> {
        let group = batch.gather(mask);
        let len = group.hashes().len();
        let mut answers = [true; BATCH];
        let is_filtered =
            context.filter_use == FilterUse::Consult && filters.ask_batch(self.filter, group.hashes(), &mut answers);
        let answer = if is_filtered { Answer::Maybe } else { Answer::Unfiltered };
        let mut answered = 0;
        for (i, _) in answers.iter().enumerate().take(len).filter(|&(_, &may_contain)| may_contain) {
            let Some((place, probe)) = group.place(i).and_then(|place| Some((place, batch.probe(place)?))) else {
                continue;
            };
            let value = match self.search(&probe, context, answer, tally)? {
                Lookup::NotFound => continue,
                Lookup::Value(value) => Some(value),
                Lookup::Tombstone => None,
            };
            answered |= 1 << place;
            if let Some(to) = values.get_mut(place as usize) {
                *to = value;
            }
        }
        let denied = answers.iter().take(len).filter(|&&may_contain| !may_contain).count() as u64;
        tally.true_negatives += denied;
        tally.expected += denied * self.expected;
        batch.open &= !answered;
        Ok(())
    }

    #[cold]
    fn search(
        &self,
        probe: &Probe<'_>,
        context: &ReadContext<'_>,
        answer: Answer,
        tally: &mut Tally,
    ) -> Result<Lookup> {
        if context.filter_use == FilterUse::Consult {
            self.stored.report_filter(context.reports, context.strict)?;
        }
        let mut reads = BlockReads::default();
        let found = self.table.find(probe.key, context.cache, &mut reads);
        tally.block_reads += reads.blocks;
        tally.block_read_bytes += reads.bytes;
        let found = found?;
        // A "maybe" from a damaged page counts as degraded, not as a false positive.
        let is_damaged = || matches!(self.table.filter(), TableFilter::Ready(filter) if filter.damaged_pages() > 0);
        match (answer, &found) {
            (Answer::Maybe, Lookup::NotFound) if is_damaged() => tally.degraded += 1,
            (Answer::Maybe, Lookup::NotFound) => {
                tally.false_positives += 1;
                tally.expected += self.expected;
            }
            (Answer::Maybe, _) => tally.true_positives += 1,
            _ if matches!(self.table.filter(), TableFilter::Degraded(_)) => tally.degraded += 1,
            _ => tally.unfiltered += 1,
        }
        Ok(found)
    }
}
