//! What a crash leaves: logs whose writes are in no table yet, and files that nobody needs.

use std::path::Path;
use std::sync::Arc;

use super::file_name::{FileName, log_name, parse};
use super::log_file::{LogId, LogKind};
use super::log_reader::{LogRecord, LogRecovery, read_log_in};
use super::logged_writes::{LoggedWrites, PLACE_LEN_BYTES};
use super::reports::{Reports, lock};
use super::shared::Shared;
use super::version::StoredTable;
use super::version_edit::{StoreState, VersionEdit};
use crate::error::{Error, Field, Result};
use crate::storage::Storage;

/// File and sequence numbers above this are no store's: it leaves room to count on without a check at each step.
pub(super) const MAX_NUMBER: u64 = u64::MAX / 2;

/// Beyond this no write is taken, so that a store that was written to can be opened: what is left up to [`MAX_NUMBER`] is
/// for what was acknowledged already, for flushes, compactions and reopening, which at a billion a second take 146 years.
pub(super) const MAX_WRITTEN_NUMBER: u64 = MAX_NUMBER / 2;

/// However small the write buffer, writes are sorted in so much memory.
const MIN_SORTED_LEN_BYTES: usize = 64 << 10;

/// What a key takes of the memory in which a filter is built: its hash, in an array that doubles.
const KEY_OF_FILTER_LEN_BYTES: usize = 16;

/// Brings the writes of all logs that are still needed into tables of level 0.
///
/// # Errors
/// Damage in the middle of a log, or writes missing between two logs, unless the options say to salvage; the first is
/// named with file and offset. I/O errors.
pub(super) fn replay_logs(shared: &Shared) -> Result<()> {
    let oldest_needed = lock(&shared.registry).state.log_number;
    let current = shared.state.load().memtable.log_number;
    let mut numbers: Vec<u64> = shared
        .options
        .storage
        .list(&shared.dir)?
        .iter()
        .filter_map(|name| if let Some(FileName::Log(number)) = parse(name) { Some(number) } else { None })
        .filter(|&number| (oldest_needed..current).contains(&number))
        .collect();
    numbers.sort_unstable();
    if oldest_needed != 0 && numbers.first() != Some(&oldest_needed) {
        shared.missing_log(oldest_needed)?;
    }
    let mut replay = Replay { shared, last_sequence: shared.state.last_visible(), has_gap: false };
    for number in numbers {
        replay.read(number, oldest_needed)?;
    }
    let Replay { last_sequence, has_gap, .. } = replay;
    if has_gap {
        // What is missing may be in a table whose naming was lost.
        let state = lock(&shared.registry).state.clone();
        set_aside_unnamed(shared.options.storage.as_ref(), &shared.dir, &state, &shared.reports)?;
    }
    if last_sequence > shared.state.last_visible() {
        shared.state.make_visible(last_sequence);
        // Before the new log, which says that all writes below its first are known: after the end of a process, or a sync
        // that failed, the last of them may have been read from the page cache alone. Were that log to survive a power
        // failure that they do not, writes would be missing in the middle.
        if last_sequence > lock(&shared.registry).state.last_sequence {
            install(shared, None, last_sequence)?;
        }
        let mut log = lock(&shared.log);
        log.last_sequence = last_sequence;
        shared.rotate(&mut log)?;
    }
    // Also when nothing was replayed: the logs before go now, and a log that the manifest names must exist.
    let log_number = Some(shared.state.load().memtable.log_number);
    shared.install(VersionEdit { log_number, ..VersionEdit::default() }, Vec::new(), |_| {})
}

/// From now on all writes up to `last_sequence` are in tables, the last in this new one of level 0, or lost.
fn install(shared: &Shared, stored: Option<Arc<StoredTable>>, last_sequence: u64) -> Result<()> {
    let edit = VersionEdit {
        last_sequence: Some(last_sequence),
        added: stored.iter().map(|stored| (0, stored.meta.clone())).collect(),
        ..VersionEdit::default()
    };
    shared.install(edit, stored.into_iter().map(|stored| (0, stored)).collect(), |_| {})
}

impl Shared {
    /// # Errors
    /// `Corrupt`, which names the file, unless the options say to salvage.
    fn missing_log(&self, number: u64) -> Result<()> {
        let path = self.dir.join(log_name(number));
        if self.options.recovery == LogRecovery::Strict {
            return Err(Error::Corrupt { field: Field::LogHeader, offset: 0 }.in_file(&path));
        }
        self.reports.add(format!("{}: the log is missing, or was cut to nothing; its writes are lost", path.display()));
        Ok(())
    }
}

struct Replay<'a> {
    shared: &'a Shared,
    /// The last write that is known, or given up.
    last_sequence: u64,
    /// Whether writes are missing, and nobody minds.
    has_gap: bool,
}

impl Replay<'_> {
    fn read(&mut self, number: u64, oldest_needed: u64) -> Result<()> {
        let shared = self.shared;
        let path = shared.dir.join(log_name(number));
        let id = LogId { kind: LogKind::WriteAhead, store_id: shared.store_id, number };
        let log = shared.options.storage.read(&path)?;
        let mut writes = LoggedWrites::of(&log);
        let end = read_log_in(&log, &path, id, shared.options.recovery, &mut |record| {
            let next = self.take(&record, &mut writes, &path)?;
            if writes.len_bytes() >= shared.options.write_buffer_bytes {
                self.bring_in(std::mem::replace(&mut writes, LoggedWrites::of(&log)))?;
            }
            Ok(next)
        })?;
        self.bring_in(writes)?;
        shared.reports.add_tail(end.tail(&path));
        for (offset, len) in &end.skipped {
            shared.reports.add(format!("{}: {len} damaged bytes at {offset} were skipped", path.display()));
        }
        if end.next_sequence.is_none() && end.skipped.is_empty() {
            // Its header was durable before the manifest named it. A younger one may be what a crash left of a rotation,
            // and if it was more, then the log behind it shows the gap.
            if number == oldest_needed {
                shared.missing_log(number)?;
            } else if end.torn_tail_bytes == 0 {
                shared.reports.add(format!("{}: cut off by a crash before its first byte", path.display()));
            }
        }
        // A log without records still says where it begins: with the first write that is in no table. That shows when
        // a manifest has lost its last edits without a trace.
        let next = end.next_sequence.unwrap_or(0);
        self.check_gap(next, end.valid_len_bytes, &path).map_err(|error| error.in_file(&path))
    }

    /// Whether the writes up to `next` are all known.
    fn check_gap(&mut self, next: u64, offset: u64, path: &Path) -> Result<()> {
        if next <= self.last_sequence + 1 {
            return Ok(());
        }
        if self.shared.options.recovery == LogRecovery::Strict || next > MAX_NUMBER {
            return Err(Error::Corrupt { field: Field::LogSequence, offset });
        }
        let missing = next - self.last_sequence - 1;
        self.shared.reports.add(format!("{}: {missing} writes before it are missing", path.display()));
        self.has_gap = true;
        self.last_sequence = next - 1;
        Ok(())
    }

    /// Gives the sequence number of the next record.
    fn take<'l>(&mut self, record: &LogRecord<'l>, writes: &mut LoggedWrites<'l>, path: &Path) -> Result<u64> {
        self.check_gap(record.sequence, record.payload_offset, path)?;
        // A recovery that was itself interrupted has brought the first writes into tables.
        let num_known = (self.last_sequence + 1).saturating_sub(record.sequence);
        let next = record.sequence.saturating_add(writes.add(record, num_known)?);
        if next > MAX_NUMBER + 1 {
            return Err(Error::Corrupt { field: Field::LogSequence, offset: record.payload_offset });
        }
        self.last_sequence = self.last_sequence.max(next - 1);
        Ok(next)
    }

    /// Makes a table of writes, the last that are known.
    fn bring_in(&self, writes: LoggedWrites<'_>) -> Result<()> {
        let Some(sequences) = writes.sequences() else { return Ok(()) };
        let buffer_len_bytes = self.shared.options.write_buffer_bytes.max(MIN_SORTED_LEN_BYTES);
        // The hashes of so many keys would take more than the buffer: only of batches that are longer than it.
        let with_filter = writes.num_writes() <= (buffer_len_bytes / KEY_OF_FILTER_LEN_BYTES) as u64;
        let stored = self.shared.write_level_0(writes.num_writes(), sequences, with_filter, |writer| {
            writes.for_each_newest(buffer_len_bytes / PLACE_LEN_BYTES, |key, value| writer.add(key, value))
        })?;
        install(self.shared, Some(stored), self.last_sequence)
    }
}

/// Gives tables that the manifest does not name another name, for a person to look at: where an edit was lost, such a
/// table may be the only one that holds its writes.
///
/// # Errors
/// Those of the storage.
pub(super) fn set_aside_unnamed(
    storage: &dyn Storage,
    dir: &Path,
    state: &StoreState,
    reports: &Reports,
) -> Result<()> {
    for name in storage.list(dir)? {
        let Some(FileName::Table(number)) = parse(&name) else { continue };
        if state.levels.iter().flatten().all(|table| table.number != number) {
            let (path, aside) = (dir.join(&name), dir.join(format!("unnamed-{name}")));
            reports.add(format!("{}: not named by the manifest; set aside as {}", path.display(), aside.display()));
            storage.rename(&path, &aside)?;
        }
    }
    Ok(())
}

/// Removes files of the store that nothing refers to; one that cannot be removed stays until the next time.
pub(super) fn remove_leftovers(shared: &Shared) {
    let storage = shared.options.storage.as_ref();
    let Ok(names) = storage.list(&shared.dir) else { return };
    let current_log = shared.state.load().memtable.log_number;
    let manifest = lock(&shared.registry).manifest.number();
    let version = Arc::clone(&shared.state.load().version);
    let is_live = |number| version.all_tables().any(|(_, table)| table.meta.number == number);
    for name in names {
        let is_needed = match parse(&name) {
            Some(FileName::Table(number)) => is_live(number),
            Some(FileName::Temporary) => false,
            Some(FileName::Log(number)) => number == current_log,
            Some(FileName::Manifest(number)) => number == manifest,
            Some(FileName::Current | FileName::Lock) | None => true,
        };
        if !is_needed && let Err(error) = storage.remove(&shared.dir.join(&name)) {
            log::warn!("a file that is no longer needed stays for now: {error}");
        }
    }
}
