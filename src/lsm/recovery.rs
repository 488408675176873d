//! What a crash leaves: logs whose writes are in no table yet, and files that nobody needs.

use std::path::Path;
use std::sync::Arc;

use super::file_name::{FileName, log_name, parse};
use super::log_file::{LogId, LogKind};
use super::log_reader::{LogRecord, LogRecovery, read_log_in};
use super::logged_writes::{LoggedWrites, PLACE_LEN_BYTES};
use super::ownership;
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
    let read = |number: u64| Ok((number, shared.options.storage.read(&shared.dir.join(log_name(number)))?));
    let logs = numbers.into_iter().map(read).collect::<Result<Vec<_>>>()?;
    let last_sequence = shared.state.last_visible();
    let mut replay = Replay { shared, groups: Vec::new(), last_sequence, has_gap: false };
    for (number, log) in &logs {
        replay.read(*number, log, oldest_needed)?;
    }
    // Up to here nothing was brought in: with the first table that is installed, what is missing before it is given up, and no
    // later recovery, and no repair, knows that it was missing.
    let Replay { groups, last_sequence, has_gap, .. } = replay;
    if last_sequence > shared.state.last_visible() {
        let tables = write_tables(shared, &groups)?;
        let added = tables.iter().map(|stored| (0, stored.meta.clone())).collect();
        let edit = VersionEdit { last_sequence: Some(last_sequence), added, ..VersionEdit::default() };
        if has_gap {
            // What is missing may be in a table whose naming was lost. Not before there is nothing left that may well fail: a
            // repair takes such a table back by its name.
            let mut state = lock(&shared.registry).state.clone();
            let is_set_aside = state.apply(&edit, 0).and_then(|()| {
                set_aside_unnamed(shared.options.storage.as_ref(), &shared.dir, &state, &shared.reports)
            });
            is_set_aside.inspect_err(|_| give_up(&tables))?;
        }
        shared.state.make_visible(last_sequence);
        // Before the new log, which says that all writes below its first are known: after the end of a process, or a sync
        // that failed, the last of them may have been read from the page cache alone. Were that log to survive a power
        // failure that they do not, writes would be missing in the middle.
        shared.install(edit, tables.into_iter().map(|stored| (0, stored)).collect(), |_| {})?;
        let mut log = lock(&shared.log);
        log.last_sequence = last_sequence;
        shared.rotate(&mut log)?;
    }
    // Also when nothing was replayed: the logs before go now, and a log that the manifest names must exist.
    let log_number = Some(shared.state.load().memtable.log_number);
    shared.install(VersionEdit { log_number, ..VersionEdit::default() }, Vec::new(), |_| {})
}

/// Makes a table of each group of writes.
fn write_tables(shared: &Shared, groups: &[LoggedWrites<'_>]) -> Result<Vec<Arc<StoredTable>>> {
    let mut tables: Vec<Arc<StoredTable>> = Vec::new();
    for group in groups {
        match write_table(shared, group, &tables) {
            Ok(stored) => tables.push(stored),
            Err(error) => {
                give_up(&tables);
                return Err(error);
            }
        }
    }
    Ok(tables)
}

/// Lets go of tables that no manifest has named; their files go with them.
fn give_up(tables: &[Arc<StoredTable>]) {
    tables.iter().for_each(|stored| stored.mark_obsolete());
}

fn write_table(shared: &Shared, group: &LoggedWrites<'_>, others: &[Arc<StoredTable>]) -> Result<Arc<StoredTable>> {
    let buffer_len_bytes = shared.options.write_buffer_bytes.max(MIN_SORTED_LEN_BYTES);
    // With a part of the log's length, how often it is gone through has a bound, however long it is.
    let max_places = buffer_len_bytes.max(group.len_bytes() / 4) / PLACE_LEN_BYTES;
    // More keys than that, each in fewer than sixteen bytes, have hashes that would take more than half the log's length.
    let max_hashes = buffer_len_bytes.max(group.len_bytes() / 2) / size_of::<u64>();
    let with_filter = group.num_writes() <= max_hashes as u64;
    shared.write_level_0(group.num_writes(), group.sequences(), with_filter, others, |writer| {
        group.for_each_newest(max_places, |key, value| writer.add(key, value))
    })
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
    /// Writes of which each group is to become a table.
    groups: Vec<LoggedWrites<'a>>,
    /// The last write that is known, or given up.
    last_sequence: u64,
    /// Whether writes are missing, and nobody minds.
    has_gap: bool,
}

impl<'a> Replay<'a> {
    fn read(&mut self, number: u64, log: &'a [u8], oldest_needed: u64) -> Result<()> {
        let shared = self.shared;
        let path = shared.dir.join(log_name(number));
        let id = LogId { kind: LogKind::WriteAhead, store_id: shared.store_id, number };
        self.groups.push(LoggedWrites::of(log));
        let end = read_log_in(log, &path, id, shared.options.recovery, &mut |record| self.take(&record, log, &path))?;
        self.groups.pop_if(|group| group.is_empty());
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
    fn take(&mut self, record: &LogRecord<'a>, log: &'a [u8], path: &Path) -> Result<u64> {
        self.check_gap(record.sequence, record.payload_offset, path)?;
        // A recovery that was itself interrupted has brought the first writes into tables.
        let num_known = (self.last_sequence + 1).saturating_sub(record.sequence);
        let is_full = |group: &LoggedWrites<'_>| group.len_bytes() >= self.shared.options.write_buffer_bytes.max(1);
        if self.groups.last().is_none_or(is_full) {
            self.groups.push(LoggedWrites::of(log));
        }
        let num_writes = self.groups.last_mut().map_or(Ok(0), |group| group.add(record, num_known))?;
        let next = record.sequence.saturating_add(num_writes);
        if next > MAX_NUMBER + 1 {
            return Err(Error::Corrupt { field: Field::LogSequence, offset: record.payload_offset });
        }
        self.last_sequence = self.last_sequence.max(next.saturating_sub(1));
        Ok(next)
    }
}

/// Gives tables that `state` does not name another name, for a person to look at: where an edit was lost, such a table may be
/// the only one that holds its writes. The new name is durable on return: under the old one the next open removes them, once
/// what they hold is given up.
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
            if ownership::is_of_others(storage, &path, FileName::Table(number))? {
                continue;
            }
            reports.add(format!("{}: not named by the manifest; set aside as {}", path.display(), aside.display()));
            storage.rename(&path, &aside)?;
        }
    }
    storage.sync_dir(dir)
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
        let Some(file) = parse(&name) else { continue };
        let is_needed = match file {
            FileName::Table(number) => is_live(number),
            FileName::Temporary => false,
            FileName::Log(number) => number == current_log,
            FileName::Manifest(number) => number == manifest,
            FileName::Current | FileName::Lock => true,
        };
        if is_needed {
            continue;
        }
        let path = shared.dir.join(&name);
        let removed = match ownership::reason_to_keep(storage, &path, file) {
            Ok(None) => storage.remove(&path),
            Ok(Some(what)) => {
                shared.reports.add(format!("{}: {what}; left as it is", path.display()));
                Ok(())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            log::warn!("a file that is no longer needed stays for now: {error}");
        }
    }
}
