//! Defines a version: the SSTs of a store at one moment.
//!
//! A version is immutable; flushes and compactions create new versions. Level 0 holds SSTs that may
//! overlap, newest first. Each deeper level is one sorted run.

pub(crate) mod batch_read;
pub(crate) mod level;
pub(crate) mod read_state;
pub(crate) mod run_map;
pub(crate) mod stored_table;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use self::level::{Level, Probe, ReadContext, Slot};
use self::run_map::{Mapped, MappedRuns};
use self::stored_table::StoredTable;
use crate::error::Result;
use crate::lsm::manifest::edit::NUM_LEVELS;
use crate::lsm::stats::Tally;
use crate::sstable::{FoundValue, TableFilter};
use filterblock::{FilterSet, HashSeed, KeyHasher, RunMap, policy::LevelShape};

/// The filters of an earlier version, with the number of queries of each.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// The filters and their numbers of queries, by file number. Empty if the store has no budget.
    filters: HashMap<u64, (Option<Arc<TableFilter>>, u64)>,
    /// The mean number of queries per SST. A new SST starts with this number. With 0 queries, the
    /// output of a compaction of hot SSTs could lose more columns than a cold SST.
    mean_queries: u64,
}

impl Earlier {
    /// Collects the file numbers, filters and queries of an earlier version. If `keeps_columns` is
    /// not set, the next version begins with all columns of each filter.
    pub(crate) fn new<'f>(
        found: impl Iterator<Item = (u64, Option<&'f Arc<TableFilter>>, u64)>,
        keeps_columns: bool,
    ) -> Self {
        let mut filters = HashMap::new();
        let mut sum = 0u64;
        for (number, filter, queries) in found {
            // Older queries count less: each new version takes off up to an eighth.
            let queries = queries - queries / 8;
            sum = sum.saturating_add(queries);
            // Take over only a usable filter. The SST itself may have been reopened with a usable
            // one.
            let filter = filter.filter(|filter| keeps_columns && filter.ready().is_some()).cloned();
            filters.insert(number, (filter, queries));
        }
        let mean_queries = sum / (filters.len() as u64).max(1);
        Self { filters, mean_queries }
    }

    /// Returns the filter with which SST `number` starts in the next version, and its number of
    /// queries. `own` is the filter of the SST itself, with all columns.
    pub(crate) fn of(&self, number: u64, own: &Arc<TableFilter>) -> (Arc<TableFilter>, u64) {
        match self.filters.get(&number) {
            Some((Some(filter), queries)) => (Arc::clone(filter), *queries),
            Some((None, queries)) => (Arc::clone(own), *queries),
            None => (Arc::clone(own), self.mean_queries),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Version {
    /// The levels that hold SSTs, in the order of their numbers.
    pub(crate) levels: Vec<Level>,
    hasher: KeyHasher,
    pub(crate) filters: FilterSet,
    /// The total length in bytes to which the filters shrink, as far as possible. `None` sets no
    /// limit.
    filter_budget: Option<u64>,
    /// The number of mapped SSTs from which reads ask the map of level 0. `None` without a map.
    min_mapped: Option<usize>,
}

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
            let slots = tables.into_iter().map(|table| {
                let (filter, queries) = earlier.of(table.meta.number, table.table.shared_filter());
                let filter = filters.insert(filter);
                filters.add_queries(filter, queries);
                Slot::new(table, filter)
            });
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

    /// Leaves out the SSTs whose numbers are in `without`.
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

    /// Returns the newest version of a key in the SSTs. The outer `None` means that no SST holds a
    /// version of the key. The inner `None` means that the key is deleted.
    #[inline]
    pub(crate) fn get<V: FoundValue>(&self, probe: &Probe<'_>, context: &ReadContext<'_>) -> Result<Option<Option<V>>> {
        for level in &self.levels {
            let mut tally = Tally::default();
            let found = level.get(probe, context, &mut tally);
            context.recorder.level(level.number, &tally);
            let found = found?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}
