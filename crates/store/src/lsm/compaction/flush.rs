//! Flushes memtables to level 0, and runs the background threads that write memtables and the log's
//! buffer.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::lsm::files::{is_taken, log_name, table_name};
use crate::lsm::manifest::edit::{TableMeta, VersionEdit};
use crate::lsm::memtable::Memtable;
use crate::lsm::shared::Shared;
use crate::lsm::stats::Task;
use crate::lsm::version::read_state::ReadState;
use crate::lsm::version::stored_table::StoredTable;
use crate::sstable::{TableOptions, TableOrigin, TableSummary, TableWriter};
use crate::sync::atomic::Ordering;
use crate::sync::lock;
use filterblock::{KeyHash, policy::TableShape};

/// The interval at which a background thread passes the log's buffer to the operating system.
const LOG_FLUSH_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn run_flushes(shared: &Shared) {
    while let Some(memtable) = next_full_memtable(shared) {
        let flushed = shared.flush_memtable(&memtable);
        shared.note_attempt(Task::Flush, &flushed);
    }
}

/// Returns `None` when the store closes and no memtable is left or can be flushed.
fn next_full_memtable(shared: &Shared) -> Option<Arc<Memtable>> {
    let mut work = lock(&shared.background.work);
    loop {
        // Writes that cannot be flushed are in the log, so a close does not wait for them.
        let is_given_up = work.failure.is_some() || work.closing && work.flushes.is_failing();
        let oldest = if is_given_up { None } else { shared.reading.state.load().immutable.last().cloned() };
        if let Some(memtable) = oldest {
            let delay = work.flushes.delay();
            if delay.is_zero() {
                return Some(memtable);
            }
            drop(memtable);
            work = shared.background.wait_at_most(work, delay);
            continue;
        }
        if work.closing {
            return None;
        }
        work = shared.background.wait(work);
    }
}

/// Passes the log's buffer to the operating system periodically until the store closes, and drops
/// replaced states. It has its own thread, because writing an SST may take longer than
/// [`LOG_FLUSH_INTERVAL`].
pub(crate) fn run_log_flushes(shared: &Shared) {
    let mut flushed = Instant::now();
    let mut work = lock(&shared.background.work);
    while !work.closing {
        // Measure by the clock: with frequent changes, the wait may never time out.
        let rest = LOG_FLUSH_INTERVAL.saturating_sub(flushed.elapsed());
        if !rest.is_zero() {
            work = shared.background.wait_at_most(work, rest);
            continue;
        }
        drop(work);
        shared.flush_log();
        flushed = Instant::now();
        shared.reading.state.drop_replaced();
        work = lock(&shared.background.work);
    }
}

impl Shared {
    pub(crate) fn flush(&self) -> Result<()> {
        self.background.check_writable()?;
        let max_immutable = self.options.max_immutable_memtables.max(1);
        if lock(&self.background.work).flushes.is_failing()
            && self.reading.state.load().immutable.len() >= max_immutable
        {
            // While flushes fail, repeated calls must not pile up immutable memtables.
            self.wait_for_flushes(|state| state.immutable.len() < max_immutable)?;
        }
        let log_number = {
            let mut log = lock(&self.writing.log);
            if !self.reading.state.load().memtable.is_empty() {
                self.rotate(&mut log)?;
            }
            self.reading.state.load().memtable.log_number
        };
        // Do not wait for memtables that fill up meanwhile: under load, that wait would not end.
        self.wait_for_flushes(|state| state.immutable.iter().all(|memtable| memtable.log_number >= log_number))
    }

    /// Makes the next attempt at a flush due now. Then waits until `is_reached` returns `true` for
    /// the state. Returns an error if a flush fails during this call, or if the store has failed.
    pub(crate) fn wait_for_flushes(&self, is_reached: impl Fn(&ReadState) -> bool) -> Result<()> {
        let num_failed = self.background.hurry(Task::Flush);
        let mut work = lock(&self.background.work);
        while work.failure.is_none() && !is_reached(&self.reading.state.load()) {
            if let Some(error) = work.flushes.failure_since(num_failed) {
                return Err(error);
            }
            work = self.background.wait(work);
        }
        drop(work);
        self.background.check_writable()
    }

    /// Passes the log's buffer to the operating system, even after a failure elsewhere, because the
    /// buffer may hold acknowledged writes. If the write fails, the store accepts no more writes.
    fn flush_log(&self) {
        let flushed = lock(&self.writing.log).log.flush();
        if let Err(error) = flushed
            && self.background.check_writable().is_ok()
        {
            self.background.fail(&error);
        }
    }

    pub(crate) fn table_options(&self, number: u64, shape: &TableShape, sequences: (u64, u64)) -> Result<TableOptions> {
        let filters = self.options.choose_filters(shape)?;
        Ok(TableOptions {
            origin: TableOrigin::of(shape.level, sequences),
            block_size_bytes: self.options.block_size_bytes,
            compression: self.options.compression,
            filter: filters.points,
            range_filter: filters.ranges,
            prefix_extractor: self.identity.extractor.clone(),
            hasher: self.identity.hasher.clone(),
            table_id: self.identity.table_id(number),
            self_check: true,
            ..TableOptions::default()
        })
    }

    /// Returns the new SST, and the hashes of its keys if the map of level 0 needs them.
    fn write_memtable(&self, memtable: &Memtable) -> Result<(Arc<StoredTable>, Option<Vec<KeyHash>>)> {
        let allowance = self.table_allowance();
        let mut hashes = self.hashes_for_map(memtable.num_entries());
        let stored = self.write_level_0(memtable.num_entries(), memtable.sequences(), true, &[], |writer| {
            memtable.for_each_newest(|key, value| {
                let key = self.identity.hasher.key(key);
                writer.add_hashed(key, value)?;
                hashes.iter_mut().for_each(|hashes| hashes.push(key.hash()));
                allowance.check(writer.len_bytes())
            })
        })?;
        Ok((stored, hashes))
    }

    /// Writes a new SST file for level 0 with at most `num_keys` keys, which `add_all` adds.
    /// `others` are the SSTs that will be installed together with the new SST. Without
    /// `with_filter`, the new SST gets no filter.
    pub(crate) fn write_level_0(
        &self,
        num_keys: u64,
        sequences: (u64, u64),
        with_filter: bool,
        others: &[Arc<StoredTable>],
        add_all: impl FnOnce(&mut TableWriter<'_>) -> Result<()>,
    ) -> Result<Arc<StoredTable>> {
        let others = others.iter().map(|other| (0, Arc::clone(other))).collect();
        let mut levels = self.reading.state.load().version.with(&[], others).level_shapes(&HashSet::new());
        if let Some(level_0) = levels.first_mut() {
            level_0.num_keys = level_0.num_keys.saturating_add(num_keys);
            level_0.num_tables += 1;
        }
        let shape = TableShape::new(num_keys, 0, false).with_levels(levels);
        let shape = shape.with_size_ratio(self.options.size_ratio());
        let number = self.catalogue.new_file_number();
        let mut options = self.table_options(number, &shape, sequences)?;
        if !with_filter {
            (options.filter, options.range_filter) = (None, None);
        }
        self.make_table(number, || {
            let path = self.identity.dir.join(table_name(number));
            let mut writer = TableWriter::create(self.options.storage.as_ref(), &path, options)?;
            writer.reserve(usize::try_from(num_keys).unwrap_or_default());
            add_all(&mut writer)?;
            self.open_table(TableMeta::of(number, self.finish_table(writer, &path)?, sequences))
        })
    }

    pub(crate) fn finish_table(&self, writer: TableWriter<'_>, path: &Path) -> Result<TableSummary> {
        let summary = writer.finish()?;
        if let Some(error) = &summary.filter_error {
            self.reading.counters.failed_filters.fetch_add(1, Ordering::Relaxed);
            self.reading.reports.add(format!("{}: written without a filter: {error}", path.display()));
        }
        Ok(summary)
    }

    /// Runs `make`, which writes SST `number`. If `make` fails, removes the files of this SST, so
    /// that a task that fails repeatedly does not fill the disk.
    ///
    /// # Errors
    /// Returns an I/O error of kind `AlreadyExists` if a file already has the SST's name. After an
    /// error of this kind, no file is removed.
    pub(crate) fn make_table<T>(&self, number: u64, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let name = table_name(number);
        let path = self.identity.dir.join(&name);
        if self.options.storage.exists(&path)? {
            // The rename at the end would replace this file.
            return Err(Error::Io(std::io::ErrorKind::AlreadyExists.into()).in_file(&path));
        }
        make().inspect_err(|error| {
            if !is_taken(error) {
                self.discard([self.identity.dir.join(format!("{name}.tmp")), path]);
            }
        })
    }

    fn flush_memtable(&self, memtable: &Arc<Memtable>) -> Result<()> {
        let (stored, hashes) = self.write_memtable(memtable)?;
        let mapper = self.map_flushed(&stored, hashes);
        // The log of the next younger memtable is the oldest log that is still needed. Release the
        // state at the end of this block: held longer, it would keep SSTs alive that a compaction
        // has replaced.
        let log_number = {
            let state = self.reading.state.load();
            let younger = state.immutable.iter().rev().find(|other| other.log_number > memtable.log_number);
            younger.unwrap_or(&state.memtable).log_number
        };
        let edit = VersionEdit {
            log_number: Some(log_number),
            last_sequence: Some(stored.meta.largest_sequence),
            added: vec![(0, stored.meta.clone())],
            ..VersionEdit::default()
        };
        let len_bytes = stored.meta.len_bytes;
        self.install(edit, vec![(0, stored)], |state| {
            state.immutable.retain(|other| !Arc::ptr_eq(other, memtable));
            // Count before the state changes: a thread that sees the new SST also sees it counted.
            self.reading.counters.flushes.fetch_add(1, Ordering::Relaxed);
            self.reading.counters.flushed_bytes.fetch_add(len_bytes, Ordering::Relaxed);
        })?;
        drop(mapper);
        self.release_map();
        self.discard([self.identity.dir.join(log_name(memtable.log_number))]);
        Ok(())
    }
}
