//! The store's handle.

use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use super::batch::WriteBatch;
use super::batch_read::{BATCH, Batch, Probe};
use super::file_name::{LOCK, table_name};
use super::manifest::Manifest;
use super::memtable::MemtableCursor;
use super::options::{Durability, Options};
use super::read_state::ReadState;
use super::scan::{RunCursor, Scan, Source};
use super::shared::Shared;
use super::stats::Task;
use super::stats::{LevelStats, Stats};
use crate::sync::lock;

use super::version_edit::NUM_LEVELS;
use super::{compaction, flush, open};
use crate::error::{Error, Result};
use crate::sstable::TableFilter;
use crate::storage::Storage;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A log-structured store in one directory. Any number of threads may read and write through one handle; dropping it
/// closes the store, and [`Db::close`] does that with a result.
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
    /// Freed last, after the threads have ended.
    _lock: StoreLock,
}

/// Keeps others out of the directory while it lives.
struct StoreLock(#[expect(dead_code, reason = "held, not used")] Box<dyn Send + Sync>);

impl std::fmt::Debug for StoreLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreLock")
    }
}

impl Db {
    /// Opens the store in a directory, or creates it there.
    ///
    /// Writes that were acknowledged and are only in logs become tables first; what a crash left over is removed. The store
    /// works in this very directory until it is closed, also if the directory is renamed. Where this fails for a store that
    /// exists, the directory is as it was.
    ///
    /// # Errors
    /// [`Error::NotAStore`] for a directory with files of others, [`Error::ForeignFile`] where such a file has the name of a
    /// store's, [`Error::Locked`] if the store is open elsewhere or another engine holds its lock,
    /// [`Error::Unsupported`] for a newer format, damage of manifest, log or table with file, field and offset named,
    /// and I/O errors. A damaged filter is no error unless [`Options::strict_filters`] is set.
    ///
    /// Before anything but the manifest is read: [`filterblock::Error::Secret`] where
    /// [`Options::secret`] is missing or another one,
    /// [`filterblock::Error::Unexpected`] where [`Options::hash`] is not the store's function, and
    /// [`filterblock::Error::Invalid`] for a secret where none was used.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let dir = open::named(path.as_ref());
        let (shared, lock) = open::open(dir, options).map_err(|error| error.in_file(dir))?;
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

    /// Gives `key` the value `value`.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`] over [`super::MAX_KEY_LEN_BYTES`]; those of [`Db::write`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value)?;
        self.write(batch)
    }

    /// Removes `key`; it is no error if there is none.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key)?;
        self.write(batch)
    }

    /// Writes a batch: readers and crashes see all of it or nothing.
    ///
    /// # Errors
    /// I/O errors of the log, after which the store takes no more writes until it is reopened
    /// ([`Error::Poisoned`]): what became of the failed write is then known again. [`Error::OutOfNumbers`] after some
    /// 4.6 * 10^18 writes, or from a manifest that claims as many.
    ///
    /// These pass, and nothing was written: [`Error::NoSpace`] for a batch that puts, while less is free on the disk than
    /// [`Options::reserve_bytes`]; [`Error::BackgroundFails`] while memory is full of writes that cannot be flushed; I/O
    /// errors of making a new log, which name another file than the log of an earlier write.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.shared.write(batch, self.shared.options.durability)
    }

    /// Like [`Db::write`], with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        self.shared.write(batch, durability)
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// Damage of a data or index block that had to be read, and I/O errors.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (state, sequence) = self.shared.reading.state.moment();
        self.shared.get(&state, key, sequence)
    }

    /// The values of many keys, in their order; faster than one by one, because the filters' cache misses overlap.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let (state, sequence) = self.shared.reading.state.moment();
        self.shared.multi_get(&state, keys, sequence)
    }

    /// The store as it is now. Reads of it neither see later writes nor wait for anything; its files and memory stay
    /// until it is dropped.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let (state, sequence) = self.shared.reading.state.lasting_moment();
        Snapshot { shared: Arc::clone(&self.shared), state, sequence }
    }

    /// The entries of a range in key order, as they are now; [`Iterator::rev`] gives them backwards.
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
        self.snapshot().scan(range)
    }

    /// Writes what is in memory to a table, and waits for that.
    ///
    /// # Errors
    /// I/O errors, [`Error::Poisoned`] after an earlier failure, [`Error::BackgroundFails`] where the table cannot be
    /// made: the writes stay in memory and in the log then, and the background tries again.
    pub fn flush(&self) -> Result<()> {
        self.shared.flush()
    }

    /// Merges all tables with keys of a range into one sorted run, removing what nobody can see any more, and gives
    /// tables another filter where the policy has come to choose otherwise (more than a hundredth smaller, or a quarter
    /// larger, or of another kind).
    ///
    /// # Errors
    /// As [`Db::flush`], and damage of the tables. [`Error::NoSpace`] where the result would leave no room for the log.
    pub fn compact_range<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<()> {
        let (from, to) = (range.start_bound().cloned(), range.end_bound().cloned());
        match self.flush() {
            // What is in tables already may hold deletions that make the room that was missing.
            Err(Error::BackgroundFails { .. }) => {
                self.shared.compact_range(from, to)?;
                self.flush()?;
            }
            flushed => flushed?,
        }
        self.shared.compact_range(from, to)
    }

    /// Waits until nothing is left to flush or to compact.
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failure in the background; [`Error::BackgroundFails`] after one that may pass, and that
    /// happened again when this was called.
    pub fn wait_idle(&self) -> Result<()> {
        let num_failed = self.shared.background.hurry(Task::Compaction);
        loop {
            self.shared.wait_for_flushes(|state| state.immutable.is_empty())?;
            let mut work = lock(&self.shared.background.work);
            while work.compacting && work.failure.is_none() {
                work = self.shared.background.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
            }
            let failure = work.compactions.failure_since(num_failed);
            drop(work);
            self.shared.background.check_writable()?;
            if let Some(error) = failure {
                return Err(error);
            }
            if !self.shared.needs_compaction() && self.shared.reading.state.load().immutable.is_empty() {
                return Ok(());
            }
            // The compaction that is needed has been seen but has not begun.
            std::thread::yield_now();
        }
    }

    /// Makes a second store of the present content in a new directory, by hard links where the file system has them.
    ///
    /// It keeps the store's id and hash seed, and its tables keep their numbers, because both are part of each table. The
    /// numbers of its new files begin at a random place far ahead, so that no new file of the one store passes for a file
    /// of the other.
    ///
    /// # Errors
    /// When `dir` exists and holds anything but a free lock, as [`Db::flush`], I/O errors, and [`Error::OutOfNumbers`] as for [`Db::write`];
    /// an unfinished checkpoint is no store.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        let dir = dir.as_ref();
        let (source, outside) = (self.shared.options.storage.as_ref(), self.shared.files.outside.as_ref());
        self.shared.check_numbers()?;
        self.flush()?;
        let is_empty = |storage: &dyn Storage| Ok::<_, Error>(storage.list(dir)?.iter().all(|name| name == LOCK));
        if outside.exists(dir)? && !is_empty(outside)? {
            return Err(Error::NotAStore.in_file(dir));
        }
        open::create_dir_durably(outside, dir)?;
        let held = source.hold(dir)?;
        let storage = held.as_deref().unwrap_or(outside);
        // Until the copy is a store, nobody makes another in its directory.
        let _lock = storage.lock(&dir.join(LOCK))?;
        if !is_empty(storage)? {
            return Err(Error::NotAStore.in_file(dir));
        }
        // The registry first, so that no table it names can go away while it is linked: the version pins them.
        let (mut state, version) = {
            let registry = lock(&self.shared.catalogue.registry);
            (registry.state.clone(), Arc::clone(&self.shared.reading.state.load().version))
        };
        for (_, table) in version.all_tables() {
            if !source.is_named(&table.path, table.table.file())? {
                let reason = "another program removed or replaced this file of an open store";
                let error = std::io::Error::new(std::io::ErrorKind::NotFound, reason);
                return Err(Error::Io(error).in_file(&table.path));
            }
            storage.link_or_copy(&table.path, &dir.join(table_name(table.meta.number)))?;
        }
        storage.sync_dir(dir)?;
        // The source's logs stay there. Forty bits: more than any store's files, far from the end of the numbers.
        state.log_number = 0;
        state.next_file_number = state.next_file_number.saturating_add(open::random_u64()? >> 24);
        Manifest::create(storage, dir, state.next_file_number, &state.snapshot()).map(drop)
    }

    /// What the store holds and did since it was opened or [`Db::reset_stats`] was called.
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
            stats.degraded_tables += u64::from(match stored.table.filter() {
                TableFilter::Absent => false,
                TableFilter::Degraded(_) => true,
                TableFilter::Ready(filter) => filter.damaged_pages() > 0,
            });
        }
        let used = levels.iter().rposition(|level| level.tables > 0 || level.probes > 0).map_or(0, |last| last + 1);
        levels.truncate(used);
        let mut total = LevelStats::default();
        levels.iter().for_each(|level| total.add(level));
        let counters = &self.shared.reading.counters;
        let (background_errors, retrying) = self.shared.background.retries();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            levels,
            total,
            gets,
            memory_hits,
            memory_entries: state.memtable.num_entries()
                + state.immutable.iter().map(|memtable| memtable.num_entries()).sum::<u64>(),
            write_stalls: read(&counters.write_stalls),
            write_stall_nanos: read(&counters.write_stall_nanos),
            flushes: read(&counters.flushes),
            compactions: read(&counters.compactions),
            compacted_bytes: read(&counters.compacted_bytes),
            background_errors,
            retrying,
            reports: self.shared.reading.reports.messages(),
        }
    }

    /// Starts the counts of [`Db::stats`] anew; sizes and reports stay.
    pub fn reset_stats(&self) {
        self.shared.reading.counters.reset();
    }

    /// Closes the store: what is in memory becomes a table, so that the next open has no log to read.
    ///
    /// # Errors
    /// Those of the last flush, or [`Error::Poisoned`] after an earlier failure; the store is closed all the same, without
    /// waiting for what fails to succeed, and acknowledged writes that are in the log are there at the next open.
    pub fn close(mut self) -> Result<()> {
        self.shut_down()
    }

    fn shut_down(&mut self) -> Result<()> {
        if self.threads.is_empty() {
            return Ok(());
        }
        let flushed = self.flush();
        // Also after a failure: acknowledged writes may still be in the buffer.
        let logged = lock(&self.shared.writing.log).log.flush();
        self.shared.remove_left();
        lock(&self.shared.background.work).closing = true;
        self.shared.background.changed.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error!("a background thread of the store panicked");
            }
        }
        flushed.and(logged)
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
            log::error!("closing the store: {error}");
        }
        // While the directory's lock is still held: from then on its files may be another store's.
        lock(&self.shared.files.closed).is_closed = true;
    }
}

/// A store as it was at one moment ([`Db::snapshot`]).
#[derive(Debug, Clone)]
pub struct Snapshot {
    shared: Arc<Shared>,
    state: Arc<ReadState>,
    sequence: u64,
}

impl Snapshot {
    /// The value that `key` had.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.shared.get(&self.state, key, self.sequence)
    }

    /// The values that many keys had, in their order.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.shared.multi_get(&self.state, keys, self.sequence)
    }

    /// The entries of a range in key order; [`Iterator::rev`] gives them backwards.
    pub fn scan<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Scan {
        let (state, sequence, cache) = (Arc::clone(&self.state), self.sequence, self.shared.reading.cache.clone());
        let make_sources = move || state.sources(sequence, &cache);
        let owned = |bound: Bound<&&[u8]>| bound.map(|key| key.to_vec());
        Scan::new(Box::new(make_sources), owned(range.start_bound()), owned(range.end_bound()))
    }
}

impl ReadState {
    /// Everything to be merged, newest first.
    fn sources(&self, sequence: u64, cache: &Option<Arc<crate::sstable::BlockCache>>) -> Vec<Source> {
        let memtables = std::iter::once(&self.memtable).chain(&self.immutable);
        let mut sources: Vec<Source> =
            memtables.map(|table| Source::Memtable(MemtableCursor::new(Arc::clone(table), sequence))).collect();
        let run = |tables: Vec<_>| Source::Run(RunCursor::new(tables, cache.clone()));
        sources.extend(self.version.tables(0).map(|table| run(vec![Arc::clone(table)])));
        sources.extend((1..NUM_LEVELS).map(|level| run(self.version.tables(level).cloned().collect())));
        sources
    }
}

impl Shared {
    #[inline]
    pub(super) fn get(&self, state: &ReadState, key: &[u8], sequence: u64) -> Result<Option<Vec<u8>>> {
        let recorder = self.reading.counters.recorder();
        if let Some(recorder) = recorder {
            recorder.gets(1);
        }
        let probe = Probe::new(key, &self.identity.hasher);
        if let Some(found) = state.get_from_memory(&probe, sequence) {
            if let Some(recorder) = recorder {
                recorder.memory_hit();
            }
            return Ok(found);
        }
        Ok(state.version.get(&probe, &self.read_context(), recorder)?.flatten())
    }

    fn multi_get<K: AsRef<[u8]>>(&self, state: &ReadState, keys: &[K], sequence: u64) -> Result<Vec<Option<Vec<u8>>>> {
        let recorder = self.reading.counters.recorder();
        if let Some(recorder) = recorder {
            recorder.gets(keys.len() as u64);
        }
        let context = self.read_context();
        let mut values = vec![None; keys.len()];
        for (keys, values) in keys.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
            let mut batch = Batch::new(keys, &self.identity.hasher);
            state.get_batch_from_memory(&mut batch, values, sequence, recorder);
            state.version.get_batch(&mut batch, values, &context, recorder)?;
        }
        Ok(values)
    }
}
