//! Fills the map of level 0 ([`RunMap`]): with the SSTs of flushes, and in the background with keys that
//! it reads from files.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use crate::error::{Error, Field, Result};
use crate::lsm::shared::Shared;
use crate::lsm::version::run_map::{Growing, KEPT_RUNS, MAX_RUNS, Mapped, Mapper};
use crate::lsm::version::{Version, stored_table::StoredTable};
use crate::sync::{MutexGuard, lock};
use filterblock::{KeyHash, RunMap, Runs};

/// The number of keys between two checks whether the background thread must stop to read keys.
const KEYS_PER_CHECK: usize = 4096;
/// The maximum number of times that the background thread looks for SSTs that were flushed while it
/// read keys.
const MAX_ROUNDS: usize = 8;

/// The SSTs of level 0 that may be mapped, newest first.
fn mappable(version: &Version) -> impl Iterator<Item = &Arc<StoredTable>> {
    version.tables(0).take(MAX_RUNS).filter(|table| is_mappable(table))
}

fn is_mappable(table: &StoredTable) -> bool {
    // The memory of a map depends on the number of entries, which a file may state wrongly.
    let is_plausible = table.meta.num_entries <= table.meta.len_bytes;
    is_plausible && table.table.denies_keys() && !matches!(table.mapped(), Mapped::Never)
}

/// Takes all SSTs of level 0 that are in a map out of it. Their keys may be read again.
fn forget_runs<'t>(tables: impl Iterator<Item = &'t Arc<StoredTable>>) {
    for table in tables {
        if matches!(table.mapped(), Mapped::As(..)) {
            table.set_mapped(Mapped::NotYet);
        }
    }
}

/// Replaces a map with a copy that keeps only `tables`. Returns `None` if there is no memory for it.
fn keep(current: &mut Growing, version: &Version, tables: &[&Arc<StoredTable>]) -> Option<()> {
    let runs: Vec<_> = tables.iter().filter_map(|table| Some((table, table.run_in(&current.map)?))).collect();
    let mut kept = Runs::NONE;
    runs.iter().for_each(|(_, run)| kept.insert(*run));
    current.keep(kept, num_keys(tables.iter().copied())).ok()?;
    // An SST that keeps its place in the old map would keep this map in memory.
    forget_runs(version.tables(0));
    for (table, run) in runs {
        table.set_mapped(Mapped::As(Arc::clone(&current.map), run));
    }
    Some(())
}

fn num_keys<'t>(tables: impl Iterator<Item = &'t Arc<StoredTable>>) -> u64 {
    tables.fold(0, |sum, table| sum.saturating_add(table.meta.num_entries))
}

impl Shared {
    /// While a map replaces another, both take memory of the budget of the filters.
    fn may_map(&self, version: &Version, num_keys: u64) -> bool {
        // About 36 bits a key, and room for spilled entries.
        let len_bytes = (num_keys.saturating_mul(9) / 2).saturating_add(4096);
        len_bytes.saturating_mul(2) <= version.room_bytes()
    }

    /// `None` if the hashes of a memtable are not needed or do not fit in memory.
    pub(crate) fn hashes_for_map(&self, num_entries: u64) -> Option<Vec<KeyHash>> {
        let mut hashes = Vec::new();
        let is_ready =
            self.options.min_mapped().is_some() && hashes.try_reserve_exact(usize::try_from(num_entries).ok()?).is_ok();
        is_ready.then_some(hashes)
    }

    /// Notes the hashes of all keys of a flushed SST. If level 0 then has enough SSTs for a map, adds the
    /// SST and those that wait to the map. The caller drops the returned guard after it has installed the
    /// SST. Until then, no other thread replaces the map.
    pub(crate) fn map_flushed(
        &self,
        stored: &Arc<StoredTable>,
        hashes: Option<Vec<KeyHash>>,
    ) -> MutexGuard<'_, Mapper> {
        let mut mapper = lock(&self.mapper);
        let hashes = hashes.filter(|hashes| hashes.len() as u64 == stored.meta.num_entries);
        if let (Some(mut hashes), Some(min_mapped), true) = (hashes, self.options.min_mapped(), is_mappable(stored)) {
            // There may be fewer keys than writes.
            hashes.shrink_to_fit();
            let version = self.version();
            stored.set_mapped(Mapped::Hashed(Arc::new(hashes)));
            self.map_hashed(&mut mapper, &version, stored, min_mapped);
        }
        mapper
    }

    fn map_hashed(&self, mapper: &mut Mapper, version: &Version, stored: &Arc<StoredTable>, min_mapped: usize) {
        let in_level = num_keys(mappable(version).chain([stored]));
        mapper.peak_keys = mapper.peak_keys.max(in_level);
        let mut hashed: Vec<_> =
            mappable(version).filter(|table| matches!(table.mapped(), Mapped::Hashed(_))).collect();
        hashed.insert(0, stored);
        let in_map = |map: &Arc<RunMap>| mappable(version).filter(|table| table.run_in(map).is_some()).count();
        let num_mapped = mapper.current.as_ref().map_or(0, |current| in_map(&current.map));
        if num_mapped == 0 {
            mapper.current = None;
        }
        if num_mapped + hashed.len() < min_mapped && self.may_map(version, in_level) {
            return;
        }
        if num_mapped == 0 {
            let capacity = mapper.peak_keys.max(in_level.saturating_mul(2));
            let may_map = self.may_map(version, capacity);
            mapper.current = if may_map { Growing::new(&self.identity.hasher, capacity).ok() } else { None };
            mapper.peak_keys = in_level;
        }
        for table in hashed.into_iter().rev() {
            let Mapped::Hashed(hashes) = table.mapped() else { continue };
            let mapped = mapper.current.as_mut().and_then(|current| self.map_hashes(current, version, &hashes));
            // The background thread reads the keys for a larger map.
            table.set_mapped(mapped.unwrap_or(Mapped::NotYet));
        }
    }

    /// Returns `None` if the map has no room.
    fn map_hashes(&self, current: &mut Growing, version: &Version, hashes: &[KeyHash]) -> Option<Mapped> {
        let len = hashes.len() as u64;
        if !current.has_room(len) {
            let in_map = mappable(version).filter(|table| table.run_in(&current.map).is_some());
            let kept: Vec<_> = in_map.take(KEPT_RUNS).collect();
            // A copy of the map that is not smaller would gain nothing.
            if num_keys(kept.iter().copied()) + len > current.capacity || !self.may_map(version, current.capacity) {
                return None;
            }
            keep(current, version, &kept)?;
        }
        Some(match current.add(hashes) {
            Some(run) => Mapped::As(Arc::clone(&current.map), run),
            None => Mapped::Never,
        })
    }

    /// Returns the SSTs and the capacity of a new map, if some SSTs of level 0 could be mapped and are not.
    fn missing_map<'v>(&self, version: &'v Version) -> Option<(Vec<&'v Arc<StoredTable>>, u64)> {
        let current = version.run_map();
        // Above this number, some SSTs are never mapped.
        let is_settled = current.is_some() && version.tables(0).nth(MAX_RUNS).is_some();
        let min_mapped = self.options.min_mapped().filter(|_| !is_settled)?;
        let tables: Vec<_> = mappable(version).collect();
        let is_missing = |table: &&Arc<StoredTable>| current.is_none_or(|view| table.run_in(&view.map).is_none());
        if tables.len() < min_mapped || !tables.iter().any(is_missing) {
            return None;
        }
        // If nothing was flushed since the open, the map need not grow.
        let is_growing = tables.iter().any(|table| matches!(table.mapped(), Mapped::As(..) | Mapped::Hashed(_)));
        let num_keys = num_keys(tables.iter().copied());
        let capacity = if is_growing { num_keys.saturating_mul(2) } else { num_keys };
        self.may_map(version, capacity).then_some((tables, capacity))
    }

    pub(crate) fn needs_map(&self) -> bool {
        let version = self.version();
        self.missing_map(&version).is_some()
    }

    /// Makes a new map of level 0 from the keys in the files. Does nothing if no map is missing. The
    /// function gives up if the store closes or fails, or if a compaction becomes due.
    pub(crate) fn map_level_0(&self) {
        let mut version = self.version();
        let Some((tables, capacity)) = self.missing_map(&version) else { return };
        let never = |table: &StoredTable| {
            if !matches!(table.mapped(), Mapped::As(..)) {
                table.set_mapped(Mapped::Never);
            }
        };
        let Ok(mut next) = Growing::new(&self.identity.hasher, capacity) else {
            tables.iter().for_each(|table| never(table));
            return;
        };
        let mut read: Vec<(Arc<StoredTable>, u8)> = Vec::new();
        for round in 0.. {
            let known: HashSet<u64> = read.iter().map(|(table, _)| table.meta.number).collect();
            let is_new = |table: &&Arc<StoredTable>| !known.contains(&table.meta.number);
            let mut new: Vec<_> = mappable(&version).filter(is_new).map(Arc::clone).collect();
            if new.is_empty() || round == MAX_ROUNDS {
                break;
            }
            // The oldest SST gets the lowest number, as if flushes had added them.
            new.reverse();
            for table in new {
                if !next.has_room(table.meta.num_entries) {
                    continue;
                }
                let start = Instant::now();
                let Some(hashes) = self.read_hashes(&table) else { return };
                match hashes.ok().and_then(|hashes| next.add(&hashes)) {
                    Some(run) => read.push((table, run)),
                    None => never(&table),
                }
                // A compaction has begun, or replaced an SST.
                if !self.rests_after_reading(start) || read.iter().any(|(table, _)| table.is_obsolete()) {
                    return;
                }
            }
            version = self.version();
        }
        self.replace_map(next, &read);
    }

    fn replace_map(&self, next: Growing, read: &[(Arc<StoredTable>, u8)]) {
        // No flush adds an SST to the old map meanwhile.
        let mut mapper = lock(&self.mapper);
        // The new map lacks an SST that was flushed since the last look.
        forget_runs(self.reading.state.load().version.tables(0));
        for (table, run) in read {
            table.set_mapped(Mapped::As(Arc::clone(&next.map), *run));
        }
        // The lock keeps other threads from replacing SSTs.
        let registry = lock(&self.catalogue.registry);
        let mut is_used = false;
        self.change_state(|state| {
            state.version = Arc::new(state.version.with(&[], Vec::new()));
            is_used = state.version.run_map().is_some_and(|view| Arc::ptr_eq(&view.map, &next.map));
        });
        drop(registry);
        if is_used {
            mapper.current = Some(next);
        } else {
            // The map is too large for the budget, or a compaction has emptied level 0. Do not read the same
            // keys again.
            read.iter().for_each(|(table, _)| table.set_mapped(Mapped::Never));
            mapper.current = None;
        }
        drop(mapper);
        self.reading.state.drop_replaced();
    }

    /// Returns the hashes of all keys of an SST, or `None` if the background thread must stop.
    fn read_hashes(&self, stored: &StoredTable) -> Option<Result<Arc<Vec<KeyHash>>>> {
        if let Mapped::Hashed(hashes) = stored.mapped() {
            return Some(Ok(hashes));
        }
        let mut hashes = Vec::new();
        let mut read = || -> Result<bool> {
            let no_memory = |_| Error::TooLarge { what: "the hashes of an SST" };
            hashes
                .try_reserve_exact(usize::try_from(stored.meta.num_entries).unwrap_or(usize::MAX))
                .map_err(no_memory)?;
            let mut cursor = stored.table.cursor(None).reading_ahead();
            cursor.seek_to_first()?;
            while cursor.valid() {
                if hashes.len().is_multiple_of(KEYS_PER_CHECK) && self.must_not_read() {
                    return Ok(false);
                }
                // Do not let a wrong number of entries take memory without a limit.
                if hashes.len() == hashes.capacity() {
                    return Err(Error::Corrupt { field: Field::Properties, offset: 0 }.in_file(&stored.path));
                }
                hashes.push(self.identity.hasher.of(cursor.key()));
                cursor.next()?;
            }
            if hashes.len() as u64 == stored.meta.num_entries {
                Ok(true)
            } else {
                Err(Error::Corrupt { field: Field::Properties, offset: 0 }.in_file(&stored.path))
            }
        };
        match read() {
            Ok(true) => Some(Ok(Arc::new(hashes))),
            Ok(false) => None,
            Err(error) => {
                // A read of the damaged part reports it.
                log::warn!("the keys of an SST could not be mapped, so reads ask its filter: {error}");
                Some(Err(error))
            }
        }
    }

    fn must_not_read(&self) -> bool {
        let work = lock(&self.background.work);
        work.closing || work.failure.is_some()
    }

    /// Waits as long as the last read took, so that reading takes at most half of a processor. Does not
    /// wait if a caller waits until the store is idle. Returns `false` if the background thread must
    /// stop, or has a compaction to do.
    fn rests_after_reading(&self, start: Instant) -> bool {
        let until = Instant::now() + start.elapsed();
        let mut work = lock(&self.background.work);
        loop {
            if work.closing || work.failure.is_some() {
                return false;
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() || work.idle_waiters > 0 {
                break;
            }
            work = self.background.wait_at_most(work, rest);
        }
        let spare_bytes = if work.idle_waiters > 0 { u64::MAX } else { lock(&self.background.pace).spare_bytes() };
        self.pick_compaction(spare_bytes).is_none()
    }

    /// Frees the map and the waiting hashes if no SST of level 0 needs them, or if they no longer fit in
    /// the memory budget beside the filters.
    pub(crate) fn release_map(&self) {
        let mut mapper = lock(&self.mapper);
        let version = self.version();
        if version.map_memory_bytes() > version.room_bytes() {
            let has_keys = |table: &&Arc<StoredTable>| matches!(table.mapped(), Mapped::As(..) | Mapped::Hashed(_));
            version.tables(0).filter(has_keys).for_each(|table| table.set_mapped(Mapped::NotYet));
        }
        let is_unused = |current: &mut Growing| version.tables(0).all(|table| table.run_in(&current.map).is_none());
        mapper.current.take_if(is_unused);
    }
}
