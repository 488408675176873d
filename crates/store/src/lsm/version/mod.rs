//! Defines a version: the SSTs of a store at one moment.
//!
//! A version is immutable; flushes and compactions create new versions. Level 0 holds SSTs that may
//! overlap, newest first. Each deeper level is one sorted run.

pub(crate) mod batch_read;
pub(crate) mod filter_budget;
#[cfg(all(test, loom))]
mod obsolete_loom_tests;
pub(crate) mod pinnable_slice;
pub(crate) mod read_state;
pub(crate) mod run_map;
pub(crate) mod table_reads;

use std::collections::HashSet;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use self::batch_read::{Batch, Probe};
use self::filter_budget::Earlier;
use self::run_map::{Mapped, MappedRuns, SstOfMap};
use crate::codec::order_prefix;
use crate::error::{Error, Field, Result};
use crate::lsm::files::Removals;
use crate::lsm::manifest::edit::{NUM_LEVELS, TableMeta};
use crate::lsm::stats::rate_units;
use crate::lsm::stats::reports::Reports;
use crate::sstable::{Table, TableFilter};
use crate::storage::Storage;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, lock};
use filterblock::{FilterSet, FilterSlot, HashSeed, KeyHasher, RunMap, policy::LevelShape};

/// An SST of the store. After a compaction has replaced the SST, its file is removed when the last
/// reference is dropped, unless the store is closed.
#[derive(Debug)]
pub(crate) struct StoredTable {
    file: Arc<TableFile>,
    pub(crate) meta: TableMeta,
    pub(crate) table: Arc<Table>,
    pub(crate) path: PathBuf,
    /// The filter's expected FPR, in the units of
    /// [`ProbeTally::expected`](crate::lsm::stats::ProbeTally).
    pub(crate) expected: u32,
    /// The range filter's expected FPR, in the units of [`Self::expected`].
    pub(crate) expected_of_ranges: u32,
    /// Whether damage of the filter has been reported.
    is_reported: AtomicBool,
    mapped: Mutex<Mapped>,
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
    pub(crate) fn new(
        meta: TableMeta,
        table: Table,
        path: PathBuf,
        storage: Arc<dyn Storage>,
        closed: Arc<Mutex<Removals>>,
    ) -> Self {
        // This arithmetic takes long. Do it once per SST, not once per version.
        let (expected, expected_of_ranges) = match table.filter() {
            TableFilter::Ready(filter) => {
                let of_ranges = filter.expected_range_fpr().unwrap_or_default();
                (rate_units(filter.expected_fpr()), rate_units(of_ranges))
            }
            TableFilter::Absent | TableFilter::Degraded(_) => (0, 0),
        };
        let file = TableFile { path: path.clone(), storage, closed, obsolete: AtomicBool::new(false) };
        let (is_reported, mapped) = (AtomicBool::new(false), Mutex::default());
        let (file, table) = (Arc::new(file), Arc::new(table));
        Self { file, meta, table, path, expected, expected_of_ranges, is_reported, mapped }
    }

    pub(crate) fn mapped(&self) -> Mapped {
        lock(&self.mapped).clone()
    }

    pub(crate) fn set_mapped(&self, mapped: Mapped) {
        *lock(&self.mapped) = mapped;
    }

    /// Returns the run of the SST in a map, or `None` if the map does not hold all its keys.
    pub(crate) fn run_in(&self, wanted: &Arc<RunMap>) -> Option<u8> {
        match &*lock(&self.mapped) {
            Mapped::As(map, run) if Arc::ptr_eq(map, wanted) => Some(*run),
            _ => None,
        }
    }

    /// Returns this SST as the replacement of `other`, an earlier opening of the same file. Both
    /// then share the [`TableFile`], so the file stays while one of them is in use.
    pub(crate) fn instead_of(self, other: &Self) -> Self {
        // The damage of this opening has not been reported yet.
        Self { file: Arc::clone(&other.file), is_reported: AtomicBool::new(false), ..self }
    }

    /// Returns whether the filter could not be loaded when the SST was opened, although it may be
    /// sound: memory was short, or an I/O error occurred.
    pub(crate) fn lacks_filter(&self) -> bool {
        let is_transient = |error: &Error| matches!(error.root(), Error::Io(_) | Error::TooLarge { .. });
        self.table.filter().reason().and_then(|error| error.downcast_ref()).is_some_and(is_transient)
    }

    /// Reports a damaged or unusable filter, at most once.
    ///
    /// # Errors
    /// If `strict` is set, returns an error instead for an unusable filter, and for damaged pages
    /// if a new check finds the damage again.
    pub(crate) fn report_filter(&self, reports: &Reports, strict: bool) -> Result<()> {
        match self.table.filter() {
            TableFilter::Absent => Ok(()),
            TableFilter::Ready(filter) => {
                if let Some(error) = self.table.range_damage() {
                    self.report_once(reports, || error.to_string());
                }
                let damaged_pages = filter.damaged_pages();
                if damaged_pages == 0 {
                    return Ok(());
                }
                if let (true, Some(error)) = (strict, self.table.filter_damage()) {
                    return Err(error);
                }
                self.report_once(reports, || match self.table.filter_damage() {
                    Some(error) => error.to_string(),
                    None => format!(
                        "{}: damaged pages of the filter: {damaged_pages}; a new check found no damage, so check the \
                         memory and the disk of this machine, and reopen the store",
                        self.path.display()
                    ),
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
        // Reads of an SST with a damaged filter come here. All reads but the first must cost only
        // this load.
        if !self.is_reported.load(Ordering::Relaxed) && !self.is_reported.swap(true, Ordering::Relaxed) {
            reports.add(format!("{}; reads go on, and the unusable part of the filter answers \"maybe\"", message()));
        }
    }

    /// Marks the file as obsolete: the file is removed when the last reference is dropped.
    pub(crate) fn mark_obsolete(&self) {
        self.file.obsolete.store(true, Ordering::Relaxed);
    }

    /// Returns whether the file is obsolete: a compaction has replaced the SST, or the store has
    /// given it up.
    pub(crate) fn is_obsolete(&self) -> bool {
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

/// The facts about an SST that a read looks at first. They take at most 64 bytes, the length of a
/// cache line. The filter itself is in [`Version::filters`].
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    /// [`order_prefix`] of the first key.
    pub(crate) smallest: u64,
    /// [`order_prefix`] of the last key.
    pub(crate) largest: u64,
    /// The filter's expected FPR, in the units of
    /// [`ProbeTally::expected`](crate::lsm::stats::ProbeTally).
    pub(crate) expected: u32,
    /// The expected FPR of answers about whole keys: of the map of level 0 if the SST is mapped,
    /// otherwise of the filter.
    pub(crate) expected_of_keys: u32,
    pub(crate) filter: FilterSlot,
    /// Whether the map of level 0 answers for the keys of the SST.
    pub(crate) is_mapped: bool,
    /// Whether the filter holds the prefixes of the store's extractor beside the keys.
    pub(crate) has_prefixes: bool,
    pub(crate) has_ranges: bool,
    pub(crate) table: Arc<Table>,
    pub(crate) stored: Arc<StoredTable>,
}

const _: () = assert!(size_of::<Slot>() <= 64);

impl Slot {
    fn new(stored: Arc<StoredTable>, filters: &mut FilterSet, earlier: &Earlier) -> Self {
        let (filter, queries) = earlier.of(stored.meta.number, stored.table.shared_filter());
        let filter = filters.insert(filter);
        filters.add_queries(filter, queries);
        let (smallest, largest) = (order_prefix(&stored.meta.smallest), order_prefix(&stored.meta.largest));
        let (has_prefixes, has_ranges) = (stored.table.has_prefixes(), stored.table.has_ranges());
        let (expected, table) = (stored.expected, Arc::clone(&stored.table));
        Self {
            smallest,
            largest,
            expected,
            expected_of_keys: expected,
            filter,
            is_mapped: false,
            has_prefixes,
            has_ranges,
            table,
            stored,
        }
    }

    /// Adapts the expected FPR to a filter that has lost columns.
    fn update_expected(&mut self, filters: &FilterSet) {
        let Some(filter) = filters.filter(self.filter) else { return };
        if !Arc::ptr_eq(filter, self.table.shared_filter())
            && let Some(filter) = filter.ready()
        {
            self.expected = rate_units(filter.expected_fpr());
            self.expected_of_keys = self.expected;
        }
    }

    #[inline]
    pub(crate) fn covers(&self, probe: &Probe<'_>) -> bool {
        if self.smallest < probe.prefix && probe.prefix < self.largest {
            return true;
        }
        self.smallest <= probe.prefix && probe.prefix <= self.largest && self.covers_by_bytes(probe.key)
    }

    /// Returns the bits of the keys in `of` that the SST may hold.
    #[inline]
    pub(crate) fn mask_of(&self, batch: &Batch<'_>, of: u32) -> u32 {
        batch.within((self.smallest, self.largest), of, |probe| self.covers(probe))
    }

    /// Returns whether the SST's key range covers `key`. Compares whole keys, because equal
    /// prefixes do not decide the order.
    fn covers_by_bytes(&self, key: &[u8]) -> bool {
        self.stored.meta.smallest.as_slice() <= key && key <= self.stored.meta.largest.as_slice()
    }

    /// Returns whether all keys of the SST sort before the wanted key.
    #[inline]
    fn is_below(&self, probe: &Probe<'_>) -> bool {
        self.largest < probe.prefix || self.largest == probe.prefix && self.stored.meta.largest.as_slice() < probe.key
    }
}

/// The bounds of a scan, with the prefixes that decide most comparisons.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RangeProbe<'a> {
    from: (u64, Bound<&'a [u8]>),
    to: (u64, Bound<&'a [u8]>),
}

impl<'a> RangeProbe<'a> {
    pub(crate) fn new(from: Bound<&'a [u8]>, to: Bound<&'a [u8]>) -> Self {
        let prefix = |bound, unbounded| match bound {
            Bound::Included(key) | Bound::Excluded(key) => order_prefix(key),
            Bound::Unbounded => unbounded,
        };
        Self { from: (prefix(from, 0), from), to: (prefix(to, u64::MAX), to) }
    }

    /// Returns whether the SST may hold keys of the range.
    #[inline]
    fn overlaps(&self, slot: &Slot) -> bool {
        // Equal prefixes do not decide the order.
        self.from.0 < slot.largest && slot.smallest < self.to.0 || !self.is_above(slot) && !self.is_below(slot)
    }

    /// Returns whether all keys of the SST sort before the range.
    #[inline]
    fn is_above(&self, slot: &Slot) -> bool {
        // A key is in another cache line than the slot: read it only if the prefixes are equal.
        let largest = || slot.stored.meta.largest.as_slice();
        match self.from {
            (_, Bound::Unbounded) => false,
            (prefix, _) if slot.largest != prefix => slot.largest < prefix,
            (_, Bound::Included(from)) => largest() < from,
            (_, Bound::Excluded(from)) => largest() <= from,
        }
    }

    /// Returns whether all keys of the SST sort after the range.
    #[inline]
    fn is_below(&self, slot: &Slot) -> bool {
        let smallest = || slot.stored.meta.smallest.as_slice();
        match self.to {
            (_, Bound::Unbounded) => false,
            (prefix, _) if slot.smallest != prefix => prefix < slot.smallest,
            (_, Bound::Included(to)) => to < smallest(),
            (_, Bound::Excluded(to)) => to <= smallest(),
        }
    }
}

/// The SSTs of one level.
#[derive(Debug, Clone)]
pub(crate) struct Level {
    pub(crate) number: usize,
    /// Level 0: newest first. Deeper levels: in the order of their keys, without overlaps.
    pub(crate) slots: Vec<Slot>,
    /// [`Slot::largest`] of each SST, side by side. Empty in level 0. In deeper levels, a search
    /// over these eight bytes per SST loads fewer cache lines than a search over the slots.
    ends: Vec<u64>,
    /// The map of level 0, if it has one.
    pub(crate) mapped: Option<Box<MappedRuns>>,
}

/// The SSTs of a store at one moment.
#[derive(Debug)]
pub(crate) struct Version {
    /// The levels that hold SSTs, in the order of their numbers.
    pub(crate) levels: Vec<Level>,
    hasher: KeyHasher,
    /// The filters of all SSTs.
    pub(crate) filters: FilterSet,
    /// The total length in bytes to which the filters shrink, as far as possible. `None` sets no
    /// limit.
    filter_budget: Option<u64>,
    /// The number of mapped SSTs from which reads ask the map of level 0. `None` without a map.
    min_mapped: Option<usize>,
}

/// Creates a version without SSTs.
impl Default for Version {
    fn default() -> Self {
        Self::new(Vec::new(), &HashSeed::default().into(), (None, None))
    }
}

impl Version {
    /// Creates a version. The SSTs of each level may be in any order. Two SSTs of the same level
    /// may overlap only in level 0. `limits` are [`Options::filter_memory_budget`] and
    /// [`Options::min_mapped`].
    ///
    /// [`Options::filter_memory_budget`]: crate::lsm::options::Options::filter_memory_budget
    /// [`Options::min_mapped`]: crate::lsm::options::Options::min_mapped
    pub(crate) fn new(
        levels: Vec<Vec<Arc<StoredTable>>>,
        hasher: &KeyHasher,
        limits: (Option<u64>, Option<usize>),
    ) -> Self {
        Self::after(&Earlier::default(), levels, hasher, limits)
    }

    /// Creates the version that follows the one from which `earlier` was taken.
    fn after(
        earlier: &Earlier,
        levels: Vec<Vec<Arc<StoredTable>>>,
        hasher: &KeyHasher,
        (filter_budget, min_mapped): (Option<u64>, Option<usize>),
    ) -> Self {
        let mut filters = FilterSet::new(hasher);
        if filter_budget.is_some() {
            filters = filters.counting_queries();
        }
        let order = |(number, mut tables): (usize, Vec<Arc<StoredTable>>)| {
            if number == 0 {
                tables.sort_by_key(|table| std::cmp::Reverse((table.meta.largest_sequence, table.meta.number)));
            } else {
                tables.sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
            }
            let slots = tables.into_iter().map(|table| Slot::new(table, &mut filters, earlier));
            Level::new(number, slots.collect())
        };
        let levels = levels.into_iter().enumerate().map(order).filter(|level| !level.slots.is_empty());
        let mut levels: Vec<Level> = levels.collect();
        if let Some(budget) = filter_budget {
            // A filter that cannot shrink stays as it is, so the filters may take more than the
            // budget.
            filters.shrink_to(budget);
            levels.iter_mut().flat_map(|level| &mut level.slots).for_each(|slot| slot.update_expected(&filters));
        }
        let mut version = Self { levels, hasher: hasher.clone(), filters, filter_budget, min_mapped };
        let room_bytes = version.room_bytes();
        if let Some(level) = version.levels.first_mut().filter(|level| level.number == 0) {
            level.mapped = min_mapped.and_then(|min_mapped| level.map(min_mapped, room_bytes)).map(Box::new);
        }
        version
    }

    /// Returns the map of level 0, if reads ask one.
    pub(crate) fn run_map(&self) -> Option<&MappedRuns> {
        self.levels.first()?.mapped.as_deref()
    }

    /// Returns the bytes of the maps and of the waiting hashes that the SSTs of level 0 keep in memory.
    pub(crate) fn map_memory_bytes(&self) -> u64 {
        let (mut maps, mut sum): (Vec<Arc<RunMap>>, u64) = (Vec::new(), 0);
        for table in self.tables(0) {
            match table.mapped() {
                Mapped::NotYet | Mapped::Never => {}
                Mapped::Hashed(hashes) => sum += size_of_val(hashes.as_slice()) as u64,
                Mapped::As(map, _) if maps.iter().any(|other| Arc::ptr_eq(other, &map)) => {}
                Mapped::As(map, _) => {
                    sum += map.len_bytes();
                    maps.push(map);
                }
            }
        }
        sum
    }

    /// Returns how many bytes of the memory budget the filters leave.
    pub(crate) fn room_bytes(&self) -> u64 {
        let Some(budget) = self.filter_budget else { return u64::MAX };
        (0..NUM_LEVELS).fold(budget, |room, level| room.saturating_sub(self.filter_memory_bytes(level)))
    }

    /// Returns the data that the next version takes from this version: see [`Earlier::new`].
    fn earlier(&self, keeps_columns: bool) -> Earlier {
        if self.filter_budget.is_none() {
            return Earlier::default();
        }
        let slots = self.levels.iter().flat_map(|level| &level.slots);
        let of = |slot: &Slot| (slot.stored.meta.number, slot.filter);
        let found = slots.map(of).map(|(number, slot)| (number, self.filters.filter(slot), self.filters.queries(slot)));
        Earlier::new(found, keeps_columns)
    }

    /// Returns a version of the same SSTs that divides the memory budget anew among the filters,
    /// according to the queries so far. Filters that are asked often may get dropped columns back.
    pub(crate) fn with_rebalanced_filters(&self) -> Self {
        let levels = (0..NUM_LEVELS).map(|level| self.tables(level).cloned().collect()).collect();
        Self::after(&self.earlier(false), levels, &self.hasher, (self.filter_budget, self.min_mapped))
    }

    /// Returns the total length in bytes of the usable filters that reads ask in a level.
    pub(crate) fn filter_memory_bytes(&self, level: usize) -> u64 {
        let found = self.levels.iter().find(|found| found.number == level);
        let slots = found.into_iter().flat_map(|level| &level.slots);
        let filters = slots.filter_map(|slot| self.filters.filter(slot.filter)?.ready());
        filters.map(|filter| filter.metadata().block_len_bytes).sum()
    }

    /// Returns a version with some SSTs removed and others added. Each element of both lists
    /// begins with its level.
    pub(crate) fn with(&self, removed: &[(u8, u64)], added: Vec<(usize, Arc<StoredTable>)>) -> Self {
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
        Self::after(&self.earlier(true), levels, &self.hasher, (self.filter_budget, self.min_mapped))
    }

    /// Returns an iterator over the SSTs of a level, in the order of reading.
    pub(crate) fn tables(&self, level: usize) -> impl Iterator<Item = &Arc<StoredTable>> {
        let found = self.levels.iter().find(|found| found.number == level);
        found.into_iter().flat_map(|level| level.slots.iter().map(|slot| &slot.stored))
    }

    /// Returns an iterator over all SSTs and their levels, in the order of reading.
    pub(crate) fn all_tables(&self) -> impl Iterator<Item = (usize, &Arc<StoredTable>)> {
        self.levels.iter().flat_map(|level| level.slots.iter().map(|slot| (level.number, &slot.stored)))
    }

    /// Returns the number of SSTs without a usable filter of the prefixes of the store's extractor.
    pub(crate) fn num_tables_without_prefixes(&self) -> usize {
        self.levels.iter().flat_map(|level| &level.slots).filter(|slot| !slot.has_prefixes).count()
    }

    /// Returns the shapes of the levels for a filter policy, without the SSTs whose numbers are in
    /// `without`.
    pub(crate) fn level_shapes(&self, without: &HashSet<u64>) -> Vec<LevelShape> {
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
}

impl Level {
    fn new(number: usize, slots: Vec<Slot>) -> Self {
        let ends = if number == 0 { Vec::new() } else { slots.iter().map(|slot| slot.largest).collect() };
        Self { number, slots, ends, mapped: None }
    }

    /// Returns the view of the newest map that has an SST of level 0, and marks the mapped slots. Returns
    /// `None` if the map has fewer than `min_mapped` of the SSTs, or is longer than `room_bytes`.
    fn map(&mut self, min_mapped: usize, room_bytes: u64) -> Option<MappedRuns> {
        let map_of = |slot: &Slot| match slot.stored.mapped() {
            Mapped::As(map, _) => Some(map),
            Mapped::NotYet | Mapped::Hashed(_) | Mapped::Never => None,
        };
        let map = self.slots.iter().find_map(map_of).filter(|map| map.len_bytes() <= room_bytes)?;
        let sst = |slot: &Slot| SstOfMap {
            run: slot.stored.run_in(&map),
            smallest: slot.smallest,
            largest: slot.largest,
            num_keys: slot.stored.meta.num_entries,
        };
        let ssts: Vec<_> = self.slots.iter().map(sst).collect();
        let view = MappedRuns::new(Arc::clone(&map), &ssts);
        if view.num_mapped() < min_mapped as u64 {
            return None;
        }
        for (place, slot) in self.slots.iter_mut().enumerate() {
            if let Some(expected_of_keys) = view.expected_at(place) {
                (slot.is_mapped, slot.expected_of_keys) = (true, expected_of_keys);
            }
        }
        Some(view)
    }

    /// Passes to `visit`, as runs, the SSTs that may hold keys of a range. An SST of level 0 is a
    /// run by itself. The SSTs of a deeper level are neighbours, and form one run. `visit` gets
    /// each run and the position of its first SST in the level.
    #[inline]
    pub(crate) fn runs_within(&self, range: &RangeProbe<'_>, mut visit: impl FnMut(usize, &[Slot])) {
        if self.number == 0 {
            for (place, slot) in self.slots.iter().enumerate() {
                if range.overlaps(slot) {
                    visit(place, std::slice::from_ref(slot));
                }
            }
            return;
        }
        let first = self.ends.partition_point(|&end| end < range.from.0);
        let rest = self.slots.get(first..).unwrap_or_default();
        // Equal prefixes do not decide the order, and all keys of a store may have the same prefix.
        let is_above = |slot: &&Slot| range.is_above(slot);
        let above = if rest.first().is_some_and(|slot| is_above(&slot)) {
            rest.partition_point(|slot| is_above(&slot))
        } else {
            0
        };
        let rest = rest.get(above..).unwrap_or_default();
        // Short ranges usually end in their first SST.
        let len = match rest.get(1) {
            Some(second) if !range.is_below(second) => rest.partition_point(|slot| !range.is_below(slot)),
            _ => usize::from(rest.first().is_some_and(|slot| !range.is_below(slot))),
        };
        if len > 0 {
            visit(first + above, rest.get(..len).unwrap_or_default());
        }
    }

    /// Returns the first SST of a deeper level whose last key does not sort before the key. No
    /// other SST of the level can hold the key. Returns `None` if all SSTs end before the key.
    #[inline]
    pub(crate) fn candidate(&self, probe: &Probe<'_>) -> Option<&Slot> {
        let place = self.ends.partition_point(|&end| end < probe.prefix);
        let slot = self.slots.get(place)?;
        if slot.largest != probe.prefix {
            return Some(slot);
        }
        // Equal prefixes do not decide the order, and all keys of a store may have the same prefix.
        let rest = self.slots.get(place..).unwrap_or_default();
        rest.get(rest.partition_point(|slot| slot.is_below(probe)))
    }
}
