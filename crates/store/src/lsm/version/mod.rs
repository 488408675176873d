//! Defines a version: the SSTs of a store at one moment.
//!
//! A version is immutable; flushes and compactions create new versions. Level 0 holds SSTs that may
//! overlap, newest first. Each deeper level is one sorted run.

pub(crate) mod batch_read;
pub(crate) mod level;
pub(crate) mod read_state;
pub(crate) mod run_map;
pub(crate) mod stored_table;

use std::collections::HashSet;
use std::sync::Arc;

use self::level::{Level, Probe, ReadContext, Slot};
use self::run_map::{Mapped, MappedRuns};
use self::stored_table::StoredTable;
use crate::error::Result;
use crate::lsm::manifest::edit::NUM_LEVELS;
use crate::lsm::stats::Tally;
use crate::sstable::FoundValue;
use filterblock::{FilterCache, FilterSet, HashSeed, KeyHasher, RunMap, policy::LevelShape};

/// The bytes that a cache counts beside a filter block, at most.
const ALIGNMENT_BYTES: u64 = 64;

#[derive(Debug)]
pub(crate) struct Version {
    /// The levels that hold SSTs, in the order of their numbers.
    pub(crate) levels: Vec<Level>,
    hasher: KeyHasher,
    pub(crate) filters: FilterSet,
    /// The cache of the filters, if the store has one.
    filter_cache: Option<FilterCache>,
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
    /// may overlap only in level 0. `min_mapped` is [`Options::min_mapped`].
    ///
    /// [`Options::min_mapped`]: crate::lsm::options::Options::min_mapped
    pub(crate) fn new(
        levels: Vec<Vec<Arc<StoredTable>>>,
        hasher: &KeyHasher,
        (filter_cache, min_mapped): (Option<FilterCache>, Option<usize>),
    ) -> Self {
        let mut filters = FilterSet::new(hasher);
        let order = |(number, mut tables): (usize, Vec<Arc<StoredTable>>)| {
            if number == 0 {
                tables.sort_by_key(|table| std::cmp::Reverse((table.meta.largest_sequence, table.meta.number)));
            } else {
                tables.sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
            }
            let slots = tables.into_iter().map(|table| Slot::new(table, &mut filters, filter_cache.is_some()));
            Level::new(number, slots.collect())
        };
        let levels = levels.into_iter().enumerate().map(order).filter(|level| !level.slots.is_empty());
        let levels: Vec<Level> = levels.collect();
        let mut version = Self { levels, hasher: hasher.clone(), filters, filter_cache, min_mapped };
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

    /// Returns how many bytes of the memory budget the filters leave if all of them are in memory.
    pub(crate) fn room_bytes(&self) -> u64 {
        let Some(cache) = &self.filter_cache else { return u64::MAX };
        let filters = self.all_tables().map(|(_, table)| table.table.filter_len_bytes() + ALIGNMENT_BYTES);
        cache.max_bytes().saturating_sub(filters.fold(0, u64::saturating_add))
    }

    /// Returns a version of the same SSTs that uses the filters as they are in the cache now.
    pub(crate) fn with_filters_of_cache(&self) -> Self {
        self.with(&[], Vec::new())
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
        Self::new(levels, &self.hasher, (self.filter_cache.clone(), self.min_mapped))
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
