//! The set of tables that a store consists of at one moment, and the way of a read through it.
//!
//! A version never changes: flushes and compactions make a new one. Level 0 holds tables that may overlap, newest
//! first; each level below is one sorted run. Newer writes always lie above older ones, so a read goes from the top
//! down and stops at the first table that knows the key.

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

/// A table of the store. When the last reader of one that a compaction replaced is gone, so is its file.
#[derive(Debug)]
pub(super) struct StoredTable {
    file: Arc<TableFile>,
    pub(super) meta: TableMeta,
    pub(super) table: Arc<Table>,
    pub(super) path: PathBuf,
    /// The filter's expected rate, in the units of [`Tally::expected`].
    expected: u64,
    /// Whether its filter's damage has been told.
    is_reported: AtomicBool,
}

/// The file of a table, which may be open more than once.
#[derive(Debug)]
struct TableFile {
    path: PathBuf,
    storage: Arc<dyn Storage>,
    /// Whether the store is closed, and what is to be removed until then.
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
        // Eight microseconds of arithmetic: once for a table, not once for a version.
        let expected = match table.filter() {
            TableFilter::Ready(filter) => rate_units(filter.expected_false_positive_rate()),
            TableFilter::Absent | TableFilter::Degraded(_) => 0,
        };
        let file = TableFile { path: path.clone(), storage, closed, obsolete: AtomicBool::new(false) };
        let is_reported = AtomicBool::new(false);
        Self { file: Arc::new(file), meta, table: Arc::new(table), path, expected, is_reported }
    }

    /// This table in the place of `other`, which is the same file opened before: it goes when neither is needed.
    pub(super) fn instead_of(self, other: &Self) -> Self {
        // What is wrong with this one is told when it is read.
        Self { file: Arc::clone(&other.file), is_reported: AtomicBool::new(false), ..self }
    }

    /// Whether it has a filter that may well be sound, and was not to be had when the table was opened: there was no
    /// memory, or the device failed.
    pub(super) fn lacks_filter(&self) -> bool {
        matches!(self.table.filter(), TableFilter::Degraded(error)
            if matches!(error.root(), Error::Io(_) | Error::TooLarge { .. }))
    }

    /// Reports the damage of the filter, once.
    ///
    /// # Errors
    /// That damage, when `strict`.
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
                    None => format!("{}: {damaged_pages} pages of the filter were damaged", self.path.display()),
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
        // Each read of such a table comes here: all but the first must cost no more than this.
        if !self.is_reported.load(Ordering::Relaxed) && !self.is_reported.swap(true, Ordering::Relaxed) {
            reports.add(format!("{}; reads of the table answer \"maybe\" where its filter was asked", message()));
        }
    }

    /// The file goes with the last reference.
    pub(super) fn mark_obsolete(&self) {
        self.file.obsolete.store(true, Ordering::Relaxed);
    }

    /// Whether a compaction has replaced it.
    pub(super) fn is_obsolete(&self) -> bool {
        self.file.obsolete.load(Ordering::Relaxed)
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if !self.obsolete.load(Ordering::Relaxed) {
            return;
        }
        // Held until the file is gone, so that the store cannot close in between.
        lock(&self.closed).remove(self.storage.as_ref(), std::mem::take(&mut self.path));
    }
}

/// What a read looks at first: a cache line for each table. Its filter has another in [`Version::filters`].
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// [`order_prefix`] of the first and of the last key.
    pub(super) smallest: u64,
    pub(super) largest: u64,
    /// The filter's expected rate, in the units of [`Tally::expected`].
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

    /// Which keys of a batch, of those with a bit in `of`, the table may hold.
    #[inline]
    fn mask_of(&self, batch: &Batch<'_>, of: u32) -> u32 {
        batch.within((self.smallest, self.largest), of, |probe| self.covers(probe))
    }

    /// Equal prefixes decide nothing.
    fn covers_by_bytes(&self, key: &[u8]) -> bool {
        self.stored.meta.smallest.as_slice() <= key && key <= self.stored.meta.largest.as_slice()
    }

    /// Whether all keys of the table lie below the key asked for.
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

/// What a read needs besides the key.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadContext<'a> {
    pub(super) filter_use: FilterUse,
    pub(super) strict: bool,
    pub(super) cache: Option<&'a BlockCache>,
    pub(super) reports: &'a Reports,
}

/// The tables of a store.
#[derive(Debug)]
pub(super) struct Version {
    /// Levels that hold tables, in the order of reading.
    levels: Vec<Level>,
    hasher: KeyHasher,
    /// The filters of all tables.
    filters: FilterSet<Error>,
}

/// Without tables.
impl Default for Version {
    fn default() -> Self {
        Self::new(Vec::new(), &HashSeed::default().into())
    }
}

impl Version {
    /// `levels[0]` in any order, `levels[i]` without overlaps.
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

    /// The version without some tables and with others, given with their levels.
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

    /// The tables of a level, in the order of reading.
    pub(super) fn tables(&self, level: usize) -> impl Iterator<Item = &Arc<StoredTable>> {
        let found = self.levels.iter().find(|found| found.number == level);
        found.into_iter().flat_map(|level| level.slots.iter().map(|slot| &slot.stored))
    }

    /// All tables with their levels, in the order of reading.
    pub(super) fn all_tables(&self) -> impl Iterator<Item = (usize, &Arc<StoredTable>)> {
        self.levels.iter().flat_map(|level| level.slots.iter().map(|slot| (level.number, &slot.stored)))
    }

    /// What the levels hold, for a filter policy, without some tables, given by their files' numbers.
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

    /// The newest that tables say of a key: outside `None` if they do not know it, inside `None` if it was removed.
    ///
    /// # Errors
    /// Damage of an index or data block, and of a filter when `context.strict`; I/O errors.
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

    /// [`Version::get`] for many keys; what is found of the `i`-th goes to `values[i]`, and its bit in `batch.open` out.
    ///
    /// Table by table: the lines that a filter will be asked for are on their way to the cache before the first is looked
    /// at. A pass that prefetches for all tables first was rejected: with nothing else changed, a key of a batch cost 316
    /// to 356 ns with it at 36 runs and 221 to 226 without, at five runs 48 and 39 to 42.
    ///
    /// # Errors
    /// As [`Version::get`].
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
    /// The tables that may hold the key: all of level 0, at most one of a level below.
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
            // The branch on a filter's answer is what lets the processor run ahead to the next table while this one's
            // cache line is still on its way: keep it a branch.
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
        // The keys of one table need not be neighbours, and are asked together.
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
    /// Asks the filter for the keys with a bit in `mask`, and searches the table for those that it does not deny.
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
        // A page that is damaged answers "maybe", which is no error of the filter's arithmetic.
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
