//! Maps keys to the SSTs of level 0 that may hold them, so that a miss asks one cache line instead
//! of one filter for each SST.
//!
//! An SST is *mapped* if the map holds the hashes of all its keys. A flush keeps the hashes of its SST
//! until level 0 has enough SSTs for a map, and then adds them. A background thread reads the keys of
//! SSTs whose hashes are not known, for example after an open. Until then, and for every SST that cannot
//! be mapped, reads ask the filter of the SST.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use super::batch_read::{BATCH, Batch, Probe};
use super::shared::Shared;
use super::stats::{Tally, rate_units};
use super::version::{Slot, StoredTable, Version};
use crate::error::{Error, Field, Result};
use crate::sync::{MutexGuard, lock};
use filterblock::{KeyHash, RunMap, Runs};

/// The maximum number of runs of a map.
pub(super) const MAX_RUNS: usize = 256;
/// The number of runs that stay in a map whose numbers are used up.
const KEPT_RUNS: usize = 192;
/// The number of keys between two checks whether the background thread must stop to read keys.
const KEYS_PER_CHECK: usize = 4096;
/// The maximum number of times that the background thread looks for SSTs that were flushed while it
/// read keys.
const MAX_ROUNDS: usize = 8;
/// The approximate memory of a map in bytes for each 8 keys: 35 bits a key.
const BYTES_PER_8_KEYS: u64 = 35;

/// Whether the keys of an SST are in a map.
#[derive(Debug, Clone, Default)]
pub(super) enum Mapped {
    /// No map has the keys. They may be read from the file.
    #[default]
    NotYet,
    /// These are the hashes of all keys. They wait until level 0 has enough SSTs for a map.
    Hashed(Arc<Vec<KeyHash>>),
    /// The map holds all keys of the SST as this run.
    As(Arc<RunMap>, u8),
    /// The map refused the keys, or they could not be read. Reads ask the filter of the SST.
    Never,
}

/// The map of level 0 as one version sees it.
#[derive(Debug, Clone)]
pub(super) struct MappedRuns {
    pub(super) map: Arc<RunMap>,
    /// The mapped runs of the version.
    known: Runs,
    /// The place of each run in the level.
    place_of: [u8; MAX_RUNS],
    /// The places of the SSTs that are not mapped, up to place 255. All SSTs after it are not mapped.
    always: Runs,
    /// Whether all SSTs of the level are mapped.
    is_whole: bool,
    /// All mapped SSTs cover each key whose order prefix lies between these two.
    inside: (u64, u64),
    /// The counts of the mapped SSTs before each place, and of all, for a key that they cover.
    before: Vec<Denials>,
    /// The order prefixes of the first keys of the mapped SSTs, in order.
    starts: Edges,
    /// The order prefixes of the last keys.
    ends: Edges,
}

/// The number of SSTs that cover a key and deny it, and the sum of their [`Slot::expected_of_keys`].
#[derive(Debug, Clone, Copy, Default)]
struct Denials {
    number: u64,
    expected: u64,
}

impl Denials {
    fn minus(self, other: Self) -> Self {
        Self { number: self.number - other.number, expected: self.expected - other.expected }
    }

    #[inline]
    fn count(self, num_keys: u64, tally: &mut Tally) {
        tally.points.true_negatives += num_keys * self.number;
        tally.points.expected += num_keys * self.expected;
    }
}

/// The first or the last keys of SSTs: their order prefixes, in order, and the counts up to each.
#[derive(Debug, Clone, Default)]
struct Edges(Vec<(u64, Denials)>);

impl Edges {
    fn new(slots: &[&Slot], edge: impl Fn(&Slot) -> u64) -> Self {
        let mut edges: Vec<_> = slots.iter().map(|slot| (edge(slot), u64::from(slot.expected_of_keys))).collect();
        edges.sort_unstable();
        let mut sum = Denials::default();
        let up_to = |(prefix, expected)| {
            sum = Denials { number: sum.number + 1, expected: sum.expected + expected };
            (prefix, sum)
        };
        Self(edges.into_iter().map(up_to).collect())
    }

    /// Returns the counts of the SSTs whose edge lies before a prefix. Returns `None` if the prefix does
    /// not decide, because an edge has it.
    fn before(&self, prefix: u64) -> Option<Denials> {
        let place = self.0.partition_point(|(edge, _)| *edge < prefix);
        if self.0.get(place).is_some_and(|(edge, _)| *edge == prefix) {
            return None;
        }
        Some(self.0.get(place.wrapping_sub(1)).map_or(Denials::default(), |(_, counts)| *counts))
    }
}

/// The answers of a map for the keys of a batch.
pub(super) struct BatchAnswers {
    /// The keys that each SST may hold: a bit for each key. For an SST that is not mapped, no bit is
    /// set.
    masks: [u32; MAX_RUNS],
    /// The keys that all SSTs cover and deny.
    denied: u32,
}

impl BatchAnswers {
    /// Opens the denied keys again, for the deeper levels.
    pub(super) fn give_back(&self, batch: &mut Batch<'_>) {
        batch.open |= self.denied;
    }

    /// Returns the bits of the keys that the mapped SST at a place may hold.
    #[inline]
    pub(super) fn of(&self, place: usize) -> u32 {
        self.masks.get(place).copied().unwrap_or(u32::MAX)
    }
}

impl MappedRuns {
    /// Returns the view of the newest map that has an SST of `slots`, and marks the mapped slots.
    /// Returns `None` if the map has fewer than `min_mapped` of the SSTs, or is longer than `room_bytes`.
    pub(super) fn of(slots: &mut [Slot], min_mapped: Option<usize>, room_bytes: u64) -> Option<Self> {
        let min_mapped = min_mapped?;
        let map = slots.iter().find_map(|slot| match slot.stored.mapped() {
            Mapped::As(map, _) => Some(map),
            Mapped::NotYet | Mapped::Hashed(_) | Mapped::Never => None,
        })?;
        if map.len_bytes() > room_bytes {
            return None;
        }
        let mut view = Self {
            map,
            known: Runs::NONE,
            place_of: [0; MAX_RUNS],
            always: Runs::NONE,
            is_whole: slots.len() <= MAX_RUNS,
            inside: (0, u64::MAX),
            before: vec![Denials::default()],
            starts: Edges::default(),
            ends: Edges::default(),
        };
        for (place, slot) in (0..=u8::MAX).zip(slots.iter()) {
            // Two SSTs never have the same run. If a bug gave them one, the older SST must be asked.
            match slot.stored.run_in(&view.map).filter(|run| !view.known.contains(*run)) {
                Some(run) => {
                    view.known.insert(run);
                    if let Some(of_run) = view.place_of.get_mut(usize::from(run)) {
                        *of_run = place;
                    }
                }
                None => view.always.insert(place),
            }
        }
        view.is_whole &= view.always.is_empty();
        if view.known.iter().count() < min_mapped {
            return None;
        }
        let mut before = Denials::default();
        for (place, slot) in (0..=u8::MAX).zip(slots.iter_mut()) {
            if !view.always.contains(place) {
                slot.set_mapped(rate_units(view.map.expected_fpr(slot.stored.meta.num_entries)));
                view.inside = (view.inside.0.max(slot.smallest), view.inside.1.min(slot.largest));
                before.number += 1;
                before.expected += u64::from(slot.expected_of_keys);
            }
            view.before.push(before);
        }
        let mapped: Vec<&Slot> = slots.iter().filter(|slot| slot.is_mapped).collect();
        view.starts = Edges::new(&mapped, |slot| slot.smallest);
        view.ends = Edges::new(&mapped, |slot| slot.largest);
        Some(view)
    }

    /// Returns the runs of the version that may hold a key.
    #[inline]
    pub(super) fn ask(&self, probe: &Probe<'_>) -> Runs {
        self.map.ask(probe.hash, &self.known)
    }

    /// Returns the number of mapped SSTs.
    pub(super) fn num_mapped(&self) -> u64 {
        self.all().number
    }

    #[inline]
    fn all(&self) -> Denials {
        self.before.last().copied().unwrap_or_default()
    }

    /// Returns whether all mapped SSTs cover a key.
    #[inline]
    pub(super) fn is_inside(&self, probe: &Probe<'_>) -> bool {
        self.inside.0 < probe.prefix && probe.prefix < self.inside.1
    }

    /// Returns whether no SST of the level can hold a key, because all are mapped and `found` names
    /// none. Then counts the answers. Returns `false` if the counts are not known.
    #[inline]
    pub(super) fn denies(&self, probe: &Probe<'_>, found: &Runs, tally: &mut Tally) -> bool {
        if !self.is_whole || !found.is_empty() {
            return false;
        }
        if self.is_inside(probe) {
            self.all().count(1, tally);
            return true;
        }
        self.covering(probe.prefix).inspect(|denials| denials.count(1, tally)).is_some()
    }

    /// Returns the counts of the mapped SSTs that cover a key. Returns `None` if the key's order prefix
    /// does not decide.
    #[cold]
    fn covering(&self, prefix: u64) -> Option<Denials> {
        let (started, ended) = (self.starts.before(prefix)?, self.ends.before(prefix)?);
        Some(started.minus(ended))
    }

    /// Returns the places of all SSTs to look at for a key: those that may hold it by the map, and those
    /// that are not mapped. Larger places than 255 are missing.
    pub(super) fn places_to_ask(&self, found: &Runs) -> Runs {
        let mut places = self.places(found);
        self.always.iter().for_each(|place| places.insert(place));
        places
    }

    /// Counts the mapped SSTs from place `from` to before place `to` that deny a key which all cover.
    pub(super) fn count_between(&self, from: usize, to: usize, tally: &mut Tally) {
        let before = |place: usize| self.before.get(place).copied().unwrap_or_else(|| self.all());
        before(to).minus(before(from)).count(1, tally);
    }

    /// Returns the places of the SSTs with these runs.
    pub(super) fn places(&self, found: &Runs) -> Runs {
        let mut places = Runs::NONE;
        found.iter().filter_map(|run| self.place_of.get(usize::from(run))).for_each(|&place| places.insert(place));
        places
    }

    /// Asks the map for the keys of a batch. Removes the bits of the keys that all SSTs cover and deny
    /// from `batch.open`, and counts these answers. [`BatchAnswers::give_back`] adds the bits again.
    pub(super) fn ask_batch(&self, batch: &mut Batch<'_>, tally: &mut Tally) -> BatchAnswers {
        let hashes = batch.open_hashes();
        let mut found = [Runs::NONE; BATCH];
        self.map.ask_batch(hashes, &self.known, &mut found);
        let mut answers = BatchAnswers { masks: [0; MAX_RUNS], denied: 0 };
        let mut rest = batch.open;
        for (key, found) in found.iter().enumerate().take(hashes.len()).filter(|(_, found)| !found.is_empty()) {
            rest &= !(1 << key);
            for place in self.places(found).iter() {
                if let Some(mask) = answers.masks.get_mut(usize::from(place)) {
                    *mask |= 1 << key;
                }
            }
        }
        if self.is_whole {
            answers.denied = batch.within(self.inside, rest, |_| false);
            self.all().count(answers.denied.count_ones().into(), tally);
            rest &= !answers.denied;
            while let Some(probe) = batch.probe(rest.trailing_zeros()) {
                let denies = self.denies(&probe, &Runs::NONE, tally);
                answers.denied |= u32::from(denies) << rest.trailing_zeros();
                rest &= rest - 1;
            }
        }
        batch.open &= !answers.denied;
        answers
    }
}

/// The map to which flushes add their SSTs. While a thread holds the lock of this value, no other
/// thread adds a run or replaces the map.
#[derive(Debug, Default)]
pub(super) struct Mapper {
    current: Option<Growing>,
    /// The most keys that level 0 has had since the map was made.
    peak_keys: u64,
}

/// A map and the room in it.
#[derive(Debug)]
struct Growing {
    map: Arc<RunMap>,
    /// The runs that have entries in the map.
    used: Runs,
    /// The number of keys in the map, also of SSTs that are gone.
    num_keys: u64,
    capacity: u64,
}

impl Growing {
    fn new(shared: &Shared, capacity: u64) -> Result<Self> {
        let map = Arc::new(RunMap::new(&shared.identity.hasher, capacity)?);
        Ok(Self { map, used: Runs::NONE, num_keys: 0, capacity })
    }

    fn has_room(&self, num_keys: u64) -> bool {
        self.num_keys + num_keys <= self.capacity && self.free_run().is_some()
    }

    fn free_run(&self) -> Option<u8> {
        (0..=u8::MAX).find(|run| !self.used.contains(*run))
    }

    /// Adds the hashes of all keys of an SST. Returns `None` if the map refuses them.
    fn add(&mut self, hashes: &[KeyHash]) -> Option<u8> {
        let run = self.free_run()?;
        self.used.insert(run);
        self.num_keys += hashes.len() as u64;
        self.map.add_run(run, hashes).then_some(run)
    }

    /// Replaces the map with one that holds only these SSTs, which it has.
    fn keep(&mut self, tables: &[&Arc<StoredTable>]) -> Result<()> {
        let mut kept = Runs::NONE;
        tables.iter().filter_map(|table| table.run_in(&self.map)).for_each(|run| kept.insert(run));
        let map = Arc::new(self.map.keeping(&kept)?);
        for table in tables {
            if let Some(run) = table.run_in(&self.map) {
                table.set_mapped(Mapped::As(Arc::clone(&map), run));
            }
        }
        self.num_keys = tables.iter().map(|table| table.meta.num_entries).sum();
        (self.map, self.used) = (map, kept);
        Ok(())
    }
}

/// The SSTs of level 0 that may be mapped, newest first.
fn mappable(version: &Version) -> impl Iterator<Item = &Arc<StoredTable>> {
    let of_level_0 = version.tables(0).take(MAX_RUNS);
    of_level_0.filter(|table| table.table.denies_keys() && !matches!(table.mapped(), Mapped::Never))
}

fn num_keys<'t>(tables: impl Iterator<Item = &'t Arc<StoredTable>>) -> u64 {
    tables.fold(0, |sum, table| sum.saturating_add(table.meta.num_entries))
}

impl Shared {
    /// Returns whether the memory budget of the filters has room for a map of so many keys. While a
    /// map replaces another, both take memory.
    fn may_map(&self, version: &Version, num_keys: u64) -> bool {
        let len_bytes = (num_keys / 8).saturating_mul(BYTES_PER_8_KEYS);
        len_bytes.saturating_mul(2) <= version.room_bytes()
    }

    /// Returns the list for the hashes of a memtable with so many entries, or `None` if they are not
    /// needed or do not fit in memory.
    pub(super) fn hashes_for_map(&self, num_entries: u64) -> Option<Vec<KeyHash>> {
        let mut hashes = Vec::new();
        let is_ready =
            self.options.min_mapped().is_some() && hashes.try_reserve_exact(usize::try_from(num_entries).ok()?).is_ok();
        is_ready.then_some(hashes)
    }

    /// Notes the hashes of all keys of a flushed SST. If level 0 then has enough SSTs for a map, adds the
    /// SST and those that wait to the map. The caller drops the returned guard after it has installed the
    /// SST. Until then, no other thread replaces the map.
    pub(super) fn map_flushed(
        &self,
        stored: &Arc<StoredTable>,
        hashes: Option<Vec<KeyHash>>,
    ) -> MutexGuard<'_, Mapper> {
        let mut mapper = lock(&self.mapper);
        let hashes = hashes.filter(|hashes| hashes.len() as u64 == stored.meta.num_entries);
        if let (Some(hashes), Some(min_mapped), true) = (hashes, self.options.min_mapped(), stored.table.denies_keys())
        {
            let version = Arc::clone(&self.reading.state.load().version);
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
            mapper.current = if may_map { Growing::new(self, capacity).ok() } else { None };
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
            current.keep(&kept).ok()?;
        }
        Some(match current.add(hashes) {
            Some(run) => Mapped::As(Arc::clone(&current.map), run),
            None => Mapped::Never,
        })
    }

    /// Returns the SSTs for a new map and its capacity, if reads of level 0 would gain from it: some
    /// SSTs of level 0 could be mapped and are not.
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

    /// Returns whether [`Shared::map_level_0`] has something to do.
    pub(super) fn needs_map(&self) -> bool {
        let version = Arc::clone(&self.reading.state.load().version);
        self.missing_map(&version).is_some()
    }

    /// Makes a new map of level 0 from the keys in the files. Does nothing if no map is missing. The
    /// function gives up if the store closes or fails, or if a compaction becomes due.
    pub(super) fn map_level_0(&self) {
        let version = Arc::clone(&self.reading.state.load().version);
        let Some((tables, capacity)) = self.missing_map(&version) else { return };
        let Ok(mut next) = Growing::new(self, capacity) else {
            tables.iter().for_each(|table| table.set_mapped(Mapped::Never));
            return;
        };
        let mut read: Vec<(Arc<StoredTable>, u8)> = Vec::new();
        let mut version = version.clone();
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
                    None => table.set_mapped(Mapped::Never),
                }
                if !self.rests_after_reading(start) {
                    return;
                }
            }
            version = Arc::clone(&self.reading.state.load().version);
        }
        self.replace_map(next, &read);
    }

    /// Lets reads use a new map that holds these SSTs.
    fn replace_map(&self, next: Growing, read: &[(Arc<StoredTable>, u8)]) {
        // No flush adds an SST to the old map meanwhile.
        let mut mapper = lock(&self.mapper);
        // The new map lacks an SST that was flushed since the last look.
        let version = Arc::clone(&self.reading.state.load().version);
        mappable(&version).for_each(|table| table.set_mapped(Mapped::NotYet));
        for (table, run) in read {
            table.set_mapped(Mapped::As(Arc::clone(&next.map), *run));
        }
        mapper.current = Some(next);
        // The lock keeps other threads from replacing SSTs.
        let registry = lock(&self.catalogue.registry);
        self.change_state(|state| state.version = Arc::new(state.version.with(&[], Vec::new())));
        drop(registry);
        drop(mapper);
        self.reading.state.drop_replaced();
    }

    /// Returns the hashes of all keys of an SST, or `None` if the background thread must stop.
    fn read_hashes(&self, stored: &StoredTable) -> Option<Result<Vec<KeyHash>>> {
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
            Ok(true) => Some(Ok(hashes)),
            Ok(false) => None,
            Err(error) => {
                // A read of the damaged part reports it.
                log::warn!("the keys of an SST could not be mapped, so reads ask its filter: {error}");
                Some(Err(error))
            }
        }
    }

    /// Returns whether the background thread must stop to read keys.
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

    /// Frees the map if no SST of level 0 is in it.
    pub(super) fn drop_unused_map(&self) {
        let mut mapper = lock(&self.mapper);
        let version = Arc::clone(&self.reading.state.load().version);
        let is_unused = |current: &mut Growing| version.tables(0).all(|table| table.run_in(&current.map).is_none());
        mapper.current.take_if(is_unused);
    }
}
