//! From memory to level 0, and the threads that work in the background.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::file_name::{log_name, table_name};
use super::memtable::Memtable;
use super::reports::lock;
use super::shared::Shared;
use super::version::StoredTable;
use super::version_edit::{TableMeta, VersionEdit};
use crate::error::Result;
use crate::sstable::{TableOptions, TableOrigin, TableSummary, TableWriter};
use crate::sync::atomic::Ordering;
use filterblock::SelfCheck;
use filterblock::TableShape;

/// How long a buffered write stays in the process at most.
const LOG_FLUSH_INTERVAL: Duration = Duration::from_millis(100);

/// Writes memtables to tables until the store closes.
pub(super) fn run_flushes(shared: &Shared) {
    while let Some(memtable) = next_full_memtable(shared) {
        if let Err(error) = shared.flush_memtable(&memtable) {
            shared.fail(&error);
        }
    }
}

/// The oldest full memtable; `None` when the store closes or has failed.
fn next_full_memtable(shared: &Shared) -> Option<Arc<Memtable>> {
    let mut work = lock(&shared.work);
    loop {
        if work.failure.is_none()
            && let Some(memtable) = shared.state.load().waiting.last()
        {
            return Some(Arc::clone(memtable));
        }
        if work.closing {
            return None;
        }
        work = shared.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Hands the log's buffer to the operating system from time to time, until the store closes. On a thread of its own: a
/// table, or a sync of the log, may take longer than a write may stay in the process.
pub(super) fn run_log_flushes(shared: &Shared) {
    let mut flushed = Instant::now();
    let mut work = lock(&shared.work);
    while !work.closing {
        // By the clock: where much changes, no wait ever times out.
        let rest = LOG_FLUSH_INTERVAL.saturating_sub(flushed.elapsed());
        if !rest.is_zero() {
            (work, _) = shared.changed.wait_timeout(work, rest).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        drop(work);
        shared.flush_log();
        flushed = Instant::now();
        work = lock(&shared.work);
    }
}

impl Shared {
    /// After a failure elsewhere too, for the sake of what was acknowledged before.
    fn flush_log(&self) {
        let flushed = lock(&self.log).log.flush();
        if let Err(error) = flushed
            && self.check_writable().is_ok()
        {
            self.fail(&error);
        }
    }

    /// The settings for a new table.
    pub(super) fn table_options(&self, number: u64, shape: &TableShape, sequences: (u64, u64)) -> TableOptions {
        TableOptions {
            origin: origin(shape.level, sequences),
            block_size_bytes: self.options.block_size_bytes,
            compression: self.options.compression,
            filter: self.options.filter.as_ref().and_then(|policy| policy.choose(shape)),
            hasher: self.hasher.clone(),
            table_id: self.table_id(number),
            self_check: SelfCheck::On,
            ..TableOptions::default()
        }
    }

    /// Writes the newest version of each key of a memtable to a new file.
    ///
    /// # Errors
    /// That of the writer, which leaves nothing behind.
    fn write_memtable(&self, memtable: &Memtable) -> Result<Arc<StoredTable>> {
        self.write_level_0(memtable.num_entries(), memtable.sequences(), true, &[], |writer| {
            memtable.for_each_newest(|key, value| writer.add(key, value))
        })
    }

    /// Writes a new file for level 0, of at most `num_keys` keys, which `add_all` adds; `others` are to be installed with it.
    ///
    /// # Errors
    /// That of the writer or of `add_all`, which leave nothing behind; of opening the file, which stays until the store is
    /// opened next.
    pub(super) fn write_level_0(
        &self,
        num_keys: u64,
        sequences: (u64, u64),
        with_filter: bool,
        others: &[Arc<StoredTable>],
        add_all: impl FnOnce(&mut TableWriter<'_>) -> Result<()>,
    ) -> Result<Arc<StoredTable>> {
        let number = self.new_file_number();
        let path = self.dir.join(table_name(number));
        let others = others.iter().map(|other| (0, Arc::clone(other))).collect();
        let mut levels = self.state.load().version.with(&[], others).level_shapes(&HashSet::new());
        if let Some(level_0) = levels.first_mut() {
            level_0.num_keys = level_0.num_keys.saturating_add(num_keys);
            level_0.num_tables += 1;
        }
        let shape = TableShape::new(num_keys, 0, false).with_levels(levels);
        let shape = shape.with_size_ratio(self.size_ratio());
        let mut options = self.table_options(number, &shape, sequences);
        options.filter = options.filter.filter(|_| with_filter);
        let mut writer = TableWriter::create(self.options.storage.as_ref(), &path, options)?;
        writer.reserve(usize::try_from(num_keys).unwrap_or_default());
        add_all(&mut writer)?;
        self.open_table(table_meta(number, writer.finish()?, sequences))
    }

    fn flush_memtable(&self, memtable: &Arc<Memtable>) -> Result<()> {
        let stored = self.write_memtable(memtable)?;
        // The next younger memtable's log is the oldest that is still needed. Let go of at once: a state held while the log
        // is removed would keep tables that were compacted away meanwhile.
        let log_number = {
            let state = self.state.load();
            let younger = state.waiting.iter().rev().find(|waiting| waiting.log_number > memtable.log_number);
            younger.unwrap_or(&state.memtable).log_number
        };
        let edit = VersionEdit {
            log_number: Some(log_number),
            last_sequence: Some(stored.meta.largest_sequence),
            added: vec![(0, stored.meta.clone())],
            ..VersionEdit::default()
        };
        self.install(edit, vec![(0, stored)], |state| {
            state.waiting.retain(|waiting| !Arc::ptr_eq(waiting, memtable));
        })?;
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        // A log that stays is cleaned away when the store is opened next.
        if let Err(error) = self.options.storage.remove(&self.dir.join(log_name(memtable.log_number))) {
            log::warn!("an obsolete log stays for now: {error}");
        }
        Ok(())
    }
}

/// What a table says of where it comes from.
pub(super) fn origin(level: usize, (smallest_sequence, largest_sequence): (u64, u64)) -> Option<TableOrigin> {
    Some(TableOrigin { level: u8::try_from(level).ok()?, smallest_sequence, largest_sequence })
}

pub(super) fn table_meta(number: u64, summary: TableSummary, (smallest, largest): (u64, u64)) -> TableMeta {
    TableMeta {
        number,
        len_bytes: summary.len_bytes,
        num_entries: summary.num_entries,
        num_tombstones: summary.num_tombstones,
        smallest: summary.smallest,
        largest: summary.largest,
        smallest_sequence: smallest,
        largest_sequence: largest,
    }
}
