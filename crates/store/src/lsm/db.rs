//! Defines the handle of an open store, and its snapshots.

use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::files::{LOCK, not_found, table_name};
use super::manifest::Manifest;
use super::options::{Durability, Options};
use super::scan::{self, Scan};
use super::shared::Shared;
use super::stats::Task;
use super::stats::store_stats::{LevelStats, Stats};
use super::version::batch_read::{BATCH, Batch, Pairs};
use super::version::level::{Probe, ReadContext};
use super::version::read_state::{PinnableSlice, ReadState, ReadValue};
use super::version::run_map::MappedRuns;
use super::wal::batch::WriteBatch;
use crate::sync::lock;

use super::compaction::flush;
use super::{compaction, recovery};
use crate::error::{Error, Result};
use crate::sstable::TableFilter;
use crate::storage::Storage;
use crate::sync::atomic::{AtomicU64, Ordering};
use filterblock::{FilterCache, PrefixExtractor};

/// A log-structured store in one directory. Any number of threads may read and write through one
/// handle. Dropping the handle closes the store; [`Db::close`] does the same and returns the
/// result.
///
/// ```
/// # fn main() -> filterblock_store::Result<()> {
/// use filterblock_store::{Db, Options};
///
/// let dir = tempfile::tempdir()?;
/// let db = Db::open(dir.path(), Options::default())?;
/// db.put(b"apple", b"red")?;
/// assert_eq!(db.get(b"apple")?.as_deref(), Some(&b"red"[..]));
/// assert_eq!(db.get(b"plum")?, None);
/// db.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Db {
    pub(super) shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// This field is dropped last, after the threads have ended.
    _lock: StoreLock,
}

/// The lock of the directory. While this value exists, no other handle can open the store.
struct StoreLock(#[expect(dead_code, reason = "held, not used")] Box<dyn Send + Sync>);

impl std::fmt::Debug for StoreLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreLock")
    }
}

impl Db {
    /// Opens the store in a directory, or creates it there.
    ///
    /// An open flushes writes that are only in logs to SST files, and removes the leftovers of a
    /// crash. A failed open loses no writes.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, is damaged or has an unsupported
    /// format. An open does not check the data blocks and the indexes of SSTs.
    /// [`Options::recovery`] may accept damage of a log. A damaged filter is an error only if
    /// [`Options::strict_filters`] is set. Other errors are, for example:
    ///
    /// * [`Error::NotAStore`]: the directory is not empty and holds no store.
    /// * [`Error::ForeignFile`]: a file has the name of a store's file, but another program wrote
    ///   it, or its content does not show who wrote it.
    /// * [`Error::Locked`]: the store is open elsewhere, or another engine has locked the
    ///   directory.
    /// * An I/O error of kind `NotFound`: the manifest or an SST is missing, or there is no store
    ///   and [`Options::create_if_missing`] is not set.
    /// * [`filterblock::Error::Secret`]: [`Options::secret`] is missing or wrong.
    /// * [`filterblock::Error::Unexpected`]: [`Options::hash`] is not the store's hash kind.
    /// * [`filterblock::Error::Invalid`]: [`Options::secret`] is set, but the hash kind takes none;
    ///   or the policy in [`Options::range_filter`] chooses a kind that is no range filter.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let dir = recovery::named(path.as_ref());
        let (shared, lock) = recovery::open(dir, options).map_err(|error| error.in_file(dir))?;
        let mut db = Self { shared, threads: Vec::new(), _lock: StoreLock(lock) };
        db.spawn("filterblock-flush", flush::run_flushes)?;
        db.spawn("filterblock-compact", compaction::run_compactions)?;
        db.spawn("filterblock-log", flush::run_log_flushes)?;
        Ok(db)
    }

    fn spawn(&mut self, name: &str, work: fn(&Shared)) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let alarm = shared.background.alarm();
            work(&shared);
            alarm.disarm();
        });
        self.threads.push(thread.map_err(|error| Error::Io(error).in_file(&self.shared.identity.dir))?);
        Ok(())
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// Returns the errors of [`WriteBatch::put`] and [`Db::write`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value)?;
        self.write(batch)
    }

    /// Deletes `key`, whether or not it exists.
    ///
    /// # Errors
    /// Returns the errors of [`WriteBatch::delete`] and [`Db::write`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key)?;
        self.write(batch)
    }

    /// Writes a batch. Readers see all of the batch or nothing, even after a crash. An empty batch
    /// has no effect. The call may wait for flushes and compactions. If free disk space is short,
    /// it may first flush the memtable.
    ///
    /// # Errors
    /// Returns I/O errors of the log. The store then refuses writes with [`Error::Poisoned`] until
    /// it is reopened, as after every failure that makes writes unsafe. After reopening, reads show
    /// whether the failed write was kept. Returns [`Error::OutOfNumbers`] if the store runs out of
    /// sequence numbers or file numbers.
    ///
    /// These errors may be temporary, and nothing was written:
    ///
    /// * [`Error::NoSpace`]: the batch contains a put, and the free disk space is below
    ///   [`Options::reserve_bytes`] plus the space that the batch and the writes in memory need.
    /// * [`Error::BackgroundFails`]: the memtable is full, no new one may be started yet, and
    ///   flushes fail.
    /// * An I/O error that names a new log file: the log could not be created.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.shared.write(batch, self.shared.options.durability)
    }

    /// Writes a batch as [`Db::write`] does, with the given durability.
    ///
    /// # Errors
    /// Returns the errors of [`Db::write`].
    pub fn write_with(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        self.shared.write(batch, durability)
    }

    /// Returns the value of `key`, or `None` if `key` does not exist.
    ///
    /// # Errors
    /// Returns an error if a block that must be read is damaged or cannot be read. With
    /// [`Options::strict_filters`], damage of a filter may be an error, too.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (state, sequence) = self.shared.reading.state.moment();
        self.shared.get(&state, key, sequence)
    }

    /// Returns the value of `key` as [`Db::get`] does. The call does not copy the value if it lies
    /// in a memtable or if the store has a block cache. The result keeps the memory that holds the
    /// value, such as a block or a memtable: see [`PinnableSlice`].
    ///
    /// ```
    /// # use filterblock_store::{Db, Options};
    /// # let dir = tempfile::tempdir()?;
    /// let db = Db::open(dir.path(), Options { block_cache_bytes: 64 << 20, ..Options::default() })?;
    /// db.put(b"apple", b"red")?;
    /// db.flush()?;
    /// let value = db.get_pinned(b"apple")?;
    /// db.delete(b"apple")?;
    /// db.close()?;
    /// assert_eq!(value.as_deref(), Some(&b"red"[..]));
    /// # Ok::<(), filterblock_store::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Db::get`].
    pub fn get_pinned(&self, key: &[u8]) -> Result<Option<PinnableSlice>> {
        let (state, sequence) = self.shared.reading.state.moment();
        self.shared.get(&state, key, sequence)
    }

    /// Returns the values of many keys, in the order of `keys`. For many keys, one call is usually
    /// faster than single reads, because the cache misses in the filters overlap.
    ///
    /// # Errors
    /// Returns the errors of [`Db::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let (state, sequence) = self.shared.reading.state.moment();
        self.shared.multi_get(&state, keys, sequence)
    }

    /// Returns a snapshot of the current content. Reads of the snapshot see no later writes. The
    /// snapshot keeps its files and memory until it is dropped.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let (state, sequence) = self.shared.reading.state.moment();
        Snapshot { shared: Arc::clone(&self.shared), state: Arc::clone(&state), sequence }
    }

    /// Returns an iterator over the current entries of a range in key order. [`Iterator::rev`]
    /// reverses the order. The scan reads no SST whose range filter ([`Options::range_filter`])
    /// denies the range. The same holds for a filter that denies a prefix of all keys of the range:
    /// see [`Db::scan_prefix`]. Filters are not asked if [`Options::filter_use`] says to ignore
    /// them.
    ///
    /// ```
    /// # use filterblock_store::{Db, Options};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path(), Options::default())?;
    /// for entry in db.scan(b"a".as_slice()..b"b".as_slice()) {
    ///     let (key, value) = entry?;
    /// }
    /// # Ok::<(), filterblock_store::Error>(())
    /// ```
    pub fn scan<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Scan {
        let (state, sequence) = self.shared.reading.state.moment();
        scan::scan(&self.shared, &state, sequence, range.start_bound().cloned(), range.end_bound().cloned())
    }

    /// Returns an iterator over the current entries whose keys begin with `prefix`, in key order.
    /// If the extractor in [`Options::prefix_extractor`] is known to take a common prefix from
    /// these keys, the scan reads no SST whose filter denies that prefix. Range filters are asked
    /// as in [`Db::scan`]. Filters are not asked if [`Options::filter_use`] says to ignore them.
    ///
    /// ```
    /// # use filterblock_store::{Db, Options};
    /// # let dir = tempfile::tempdir()?;
    /// let db = Db::open(dir.path(), Options { prefix_extractor: "delimiter:/".parse()?, ..Options::default() })?;
    /// db.put(b"ann/age", b"31")?;
    /// db.put(b"bob/age", b"32")?;
    /// db.flush()?;
    /// assert_eq!(db.scan_prefix(b"bob/").count(), 1);
    /// assert_eq!(db.scan_prefix(b"ava/").count(), 0); // reads no data block
    /// assert_eq!((db.stats().scan_block_reads, db.stats().total.prefixes.true_negatives), (1, 1));
    /// # Ok::<(), filterblock_store::Error>(())
    /// ```
    pub fn scan_prefix(&self, prefix: &[u8]) -> Scan {
        let (state, sequence) = self.shared.reading.state.moment();
        let end = PrefixExtractor::end_of_prefix(prefix);
        scan::scan(&self.shared, &state, sequence, Bound::Included(prefix), end.as_ref().map(Vec::as_slice))
    }

    /// Writes the memtables to SST files and waits for the result. If writes would wait for a
    /// compaction of level 0 ([`Options::l0_stall_trigger`]), this call first waits for it, too.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`] after an earlier failure. Returns [`Error::BackgroundFails`] if
    /// a flush fails: the writes then stay in memory and in the log, and a background thread
    /// retries. I/O errors pass through.
    pub fn flush(&self) -> Result<()> {
        self.shared.wait_for_level_0()?;
        self.shared.flush()
    }

    /// Flushes the memtables, and merges all SSTs whose key ranges overlap a range into one sorted
    /// run. The merge drops overwritten entries. It drops tombstones if no deeper level overlaps
    /// the merged SSTs.
    ///
    /// If the policies choose a filter, the call also rebuilds SSTs of the range that have no
    /// filter or an outdated one. For example, a filter is outdated if the policies would now
    /// choose another kind, or over 25 % more bits per key. The call does not rebuild an SST if a
    /// deeper level overlaps the SST outside the range.
    ///
    /// # Errors
    /// Returns [`Error::NoSpace`] if the result would leave no space for the log, and the errors of
    /// [`Db::flush`]. Errors of SSTs, of the manifest and of the policies pass through.
    pub fn compact_range<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<()> {
        let (from, to) = (range.start_bound().cloned(), range.end_bound().cloned());
        match self.flush() {
            // If the flush lacks space, a compaction of deletions in SSTs may release space.
            Err(Error::BackgroundFails { .. }) => {
                self.shared.compact_range(from, to)?;
                self.flush()?;
            }
            flushed => flushed?,
        }
        self.shared.compact_range(from, to)
    }

    /// Waits until no immutable memtable waits for its flush, no compaction is due or running, and
    /// level 0 has its map ([`Options::run_map_trigger`]).
    /// It does not flush the current memtable. Retries that wait begin at once. During this call,
    /// automatic compaction ([`Options::auto_compaction`]) merges level 0 as soon as level 0 has
    /// [`Options::l0_compaction_trigger`] SSTs.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`] after an earlier failure. Returns [`Error::BackgroundFails`] if
    /// a flush or a compaction fails during this call for a reason that may be temporary.
    pub fn wait_idle(&self) -> Result<()> {
        let _waiter = self.shared.background.wait_for_idleness();
        let num_failed = self.shared.background.hurry(Task::Compaction);
        loop {
            self.shared.wait_for_flushes(|state| state.immutable.is_empty())?;
            let mut work = lock(&self.shared.background.work);
            while (work.compacting || work.mapping) && work.failure.is_none() {
                work = self.shared.background.wait(work);
            }
            let failure = work.compactions.failure_since(num_failed);
            drop(work);
            self.shared.background.check_writable()?;
            if let Some(error) = failure {
                return Err(error);
            }
            let is_done = !self.shared.needs_compaction() && !self.shared.needs_map();
            if is_done && self.shared.reading.state.load().immutable.is_empty() {
                return Ok(());
            }
            // A compaction or a flush is still due. Let the background threads run.
            std::thread::yield_now();
        }
    }

    /// Creates a second store with the current content in a missing or empty directory. The call
    /// first flushes the memtables. Then it links the SSTs, or copies them if hard links are not
    /// possible.
    ///
    /// The copy keeps the store's id and hash seed. The numbers of its new files have a random
    /// offset, so a new file of one store is almost never taken for a file of the other.
    ///
    /// # Errors
    /// Returns [`Error::NotAStore`] if `dir` holds any file except `LOCK`, and [`Error::Locked`] if
    /// another handle holds this lock. Returns [`Error::OutOfNumbers`] as [`Db::write`] does, and
    /// the errors of [`Db::flush`]. I/O errors pass through. A failed checkpoint never opens as a
    /// store that lacks a part of the content.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        let dir = dir.as_ref();
        let (source, outside) = (self.shared.options.storage.as_ref(), self.shared.files.outside.as_ref());
        self.shared.check_numbers()?;
        self.flush()?;
        let is_empty = |storage: &dyn Storage| Ok::<_, Error>(storage.list(dir)?.iter().all(|name| name == LOCK));
        if outside.exists(dir)? && !is_empty(outside)? {
            return Err(Error::NotAStore.in_file(dir));
        }
        recovery::create_dir_durably(outside, dir)?;
        let held = source.hold(dir)?;
        let storage = held.as_deref().unwrap_or(outside);
        // The lock keeps other handles from creating a store in this directory.
        let _lock = storage.lock(&dir.join(LOCK))?;
        if !is_empty(storage)? {
            return Err(Error::NotAStore.in_file(dir));
        }
        // Lock the registry first: the version then pins every SST that the registry's state names.
        let (mut state, version) = {
            let registry = lock(&self.shared.catalogue.registry);
            (registry.state.clone(), self.shared.version())
        };
        for (_, table) in version.all_tables() {
            if !source.is_named(&table.path, table.table.file())? {
                let reason = "another program removed or replaced this file of an open store; restore the file, \
                              reopen the store, and try again";
                return Err(not_found(reason).in_file(&table.path));
            }
            storage.link_or_copy(&table.path, &dir.join(table_name(table.meta.number)))?;
        }
        storage.sync_dir(dir)?;
        // The logs are not copied, because the flush has written their content to SSTs. A random
        // offset of 40 bits almost always exceeds the number of files that a store creates.
        state.log_number = 0;
        state.next_file_number = state.next_file_number.saturating_add(recovery::random_u64()? >> 24);
        Manifest::create(storage, dir, state.next_file_number, &state.snapshot()).map(drop)
    }

    /// Returns the sizes of the store, and its counters since it was opened or since the last call
    /// of [`Db::reset_stats`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        let state = self.shared.reading.state.load_full();
        let (gets, memory_hits, tallies) = self.shared.reading.counters.sum();
        let mut levels: Vec<LevelStats> =
            tallies.iter().enumerate().map(|(level, tally)| LevelStats::of(level, tally)).collect();
        for (level, stored) in state.version.all_tables() {
            let Some(stats) = levels.get_mut(level) else { continue };
            stats.tables += 1;
            stats.keys = stats.keys.saturating_add(stored.meta.num_entries);
            stats.bytes += stored.meta.len_bytes;
            stats.filter_bytes += stored.table.filter_len_bytes();
            let lacks_prefixes = self.shared.identity.extractor.is_some() && !stored.table.has_prefixes();
            stats.tables_without_prefixes += u64::from(lacks_prefixes);
            stats.tables_with_ranges += u64::from(stored.table.has_ranges());
            stats.degraded_tables += u64::from(match stored.table.filter_in_memory().as_deref() {
                None | Some(TableFilter::Absent) => false,
                Some(TableFilter::Degraded(_)) => true,
                Some(TableFilter::Ready(filter)) => {
                    filter.damaged_pages() > 0 || stored.table.range_damage_of(filter).is_some()
                }
            });
        }
        for (level, stats) in levels.iter_mut().enumerate() {
            stats.filter_memory_bytes = state.version.filter_memory_bytes(level);
        }
        if let Some(stats) = levels.first_mut() {
            stats.mapped_tables = state.version.run_map().map_or(0, MappedRuns::num_mapped);
            stats.map_memory_bytes = state.version.map_memory_bytes();
        }
        let used = levels.iter().rposition(|level| !level.is_blank()).map_or(0, |last| last + 1);
        levels.truncate(used);
        let mut total = LevelStats::default();
        levels.iter().for_each(|level| total.add(level));
        let counters = &self.shared.reading.counters;
        let (background_errors, retrying) = self.shared.background.retries();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (scan_block_reads, scan_block_read_bytes) = counters.scan_reads.get();
        Stats {
            levels,
            total,
            prefix_extractor: self.shared.identity.extractor.as_ref().map(|extractor| extractor.name().to_owned()),
            gets,
            memory_hits,
            memory_entries: state.memtable.num_entries()
                + state.immutable.iter().map(|memtable| memtable.num_entries()).sum::<u64>(),
            scans: read(&counters.scans),
            scan_block_reads,
            scan_block_read_bytes,
            write_stalls: read(&counters.write_stalls),
            write_stall_nanos: counters.write_stall_nanos(),
            write_delays: read(&counters.write_delays),
            write_delay_nanos: read(&counters.write_delay_nanos),
            filter_cache: self.shared.files.filter_cache.as_ref().map(FilterCache::counts),
            flushes: read(&counters.flushes),
            flushed_bytes: read(&counters.flushed_bytes),
            compactions: read(&counters.compactions),
            compacted_bytes: read(&counters.compacted_bytes),
            failed_filters: read(&counters.failed_filters),
            background_errors,
            retrying,
            reports: self.shared.reading.reports.messages(),
        }
    }

    /// Divides [`Options::filter_memory_budget`] anew among the filters, according to the number of
    /// queries of each filter so far. Older queries count less. Without a budget, the call has no effect.
    ///
    /// A background thread does the same when many reads find no room for their filters. The call may read
    /// filters that get columns back. The bytes of filters that leave stay in memory until no read or
    /// snapshot uses them.
    pub fn rebalance_filters(&self) {
        self.shared.rebalance_filters();
    }

    /// Resets the counters of [`Db::stats`]. The sizes, the reports, the running retries and the
    /// number of background errors stay. The time of a running stall counts from the reset on.
    pub fn reset_stats(&self) {
        self.shared.reading.counters.reset();
    }

    /// Closes the store. It flushes the memtables to SST files, so that the next open finds no
    /// writes in the logs.
    ///
    /// # Errors
    /// Returns the error of the last flush or of writing the log's buffer, or [`Error::Poisoned`]
    /// after an earlier failure. Even after an error the store is closed. The call does not wait
    /// for retries. The next open recovers the writes that are in the log files.
    pub fn close(mut self) -> Result<()> {
        self.shut_down()
    }

    fn shut_down(&mut self) -> Result<()> {
        if self.threads.is_empty() {
            return Ok(());
        }
        let flushed = self.shared.flush();
        // Flush the log even after a failure: its buffer may hold acknowledged writes.
        let logged = lock(&self.shared.writing.log).log.flush();
        self.shared.remove_left();
        lock(&self.shared.background.work).closing = true;
        self.shared.background.changed.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error!("a background thread of the store panicked");
            }
        }
        self.shared.reading.state.drop_replaced();
        flushed.and(logged)
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
            log::error!("the store was not closed cleanly: {error}");
        }
        // Set this while the directory's lock is still held. Afterwards the files may belong to
        // another store.
        lock(&self.shared.files.closed).is_closed = true;
    }
}

/// The content of a store at one moment, made by [`Db::snapshot`].
#[derive(Debug, Clone)]
pub struct Snapshot {
    shared: Arc<Shared>,
    state: Arc<ReadState>,
    sequence: u64,
}

impl Snapshot {
    /// Returns the value of `key` at the moment of the snapshot.
    ///
    /// # Errors
    /// Returns the errors of [`Db::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.shared.get(&self.state, key, self.sequence)
    }

    /// Returns the value of `key` at the moment of the snapshot, as [`Db::get_pinned`] does.
    ///
    /// # Errors
    /// Returns the errors of [`Db::get`].
    pub fn get_pinned(&self, key: &[u8]) -> Result<Option<PinnableSlice>> {
        self.shared.get(&self.state, key, self.sequence)
    }

    /// Returns the values of many keys at the moment of the snapshot, in the order of `keys`.
    ///
    /// # Errors
    /// Returns the errors of [`Db::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.shared.multi_get(&self.state, keys, self.sequence)
    }

    /// Returns an iterator over the entries of a range in key order at the moment of the snapshot.
    /// [`Iterator::rev`] reverses the order.
    pub fn scan<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Scan {
        let bound = |bound: Bound<&&'k [u8]>| bound.cloned();
        let (from, to) = (bound(range.start_bound()), bound(range.end_bound()));
        scan::scan(&self.shared, &self.state, self.sequence, from, to)
    }

    /// Returns an iterator over the entries whose keys begin with `prefix` at the moment of the
    /// snapshot: see [`Db::scan_prefix`].
    pub fn scan_prefix(&self, prefix: &[u8]) -> Scan {
        let end = PrefixExtractor::end_of_prefix(prefix);
        scan::scan(&self.shared, &self.state, self.sequence, Bound::Included(prefix), end.as_ref().map(Vec::as_slice))
    }
}

impl Shared {
    #[inline]
    fn read_context<'a>(&'a self, state: &'a ReadState) -> ReadContext<'a> {
        ReadContext {
            filters: &state.version.filters,
            recorder: self.reading.counters.recorder(),
            filter_use: self.options.filter_use,
            strict: self.options.strict_filters,
            extractor: self.identity.extractor.as_ref(),
            cache: self.reading.cache.as_deref(),
            reports: &self.reading.reports,
        }
    }

    #[inline]
    pub(super) fn get<V: ReadValue>(&self, state: &ReadState, key: &[u8], sequence: u64) -> Result<Option<V>> {
        let context = self.read_context(state);
        context.recorder.gets(1);
        let probe = Probe::new(key, &self.identity.hasher);
        if let Some(found) = state.get_from_memory(&probe, sequence) {
            context.recorder.memory_hit();
            return Ok(found);
        }
        Ok(state.version.get(&probe, &context)?.flatten())
    }

    fn multi_get<K: AsRef<[u8]>>(&self, state: &ReadState, keys: &[K], sequence: u64) -> Result<Vec<Option<Vec<u8>>>> {
        let context = self.read_context(state);
        context.recorder.gets(keys.len() as u64);
        let mut values = vec![None; keys.len()];
        let mut pairs = Pairs::default();
        for (keys, values) in keys.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
            let mut batch = Batch::new(keys, &self.identity.hasher);
            state.get_batch_from_memory(&mut batch, values, sequence, context.recorder);
            state.version.get_batch(&mut batch, values, &context, &mut pairs)?;
        }
        Ok(values)
    }
}
