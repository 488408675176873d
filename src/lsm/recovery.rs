//! What a crash leaves: logs whose writes are in no table yet, and files that nobody needs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::batch::BatchOps;
use super::file_name::{FileName, log_name, parse};
use super::log_file::{LogId, LogKind};
use super::log_reader::{LogRecord, LogRecovery, read_log};
use super::memtable::Memtable;
use super::reports::lock;
use super::shared::Shared;
use super::version_edit::VersionEdit;
use crate::error::{Error, Field, Result};
use crate::hash::KeyHash;

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
    let last_sequence = shared.visible.load(Ordering::Relaxed);
    let mut replay = Replay { shared, memtable: Memtable::new(0, shared.options.write_buffer_bytes), last_sequence };
    for number in numbers {
        replay.read(number)?;
    }
    let Replay { memtable, last_sequence, .. } = replay;
    if last_sequence == shared.visible.load(Ordering::Relaxed) {
        return Ok(());
    }
    install(shared, &memtable, Some(current), last_sequence)?;
    shared.visible.store(last_sequence, Ordering::Release);
    let mut log = lock(&shared.log);
    log.last_sequence = last_sequence;
    shared.rotate(&mut log)
}

/// Writes a memtable to level 0; with `log_number`, logs below that are no longer needed.
fn install(shared: &Shared, memtable: &Memtable, log_number: Option<u64>, last_sequence: u64) -> Result<()> {
    let stored = if memtable.is_empty() { None } else { Some(shared.write_memtable(memtable)?) };
    let edit = VersionEdit {
        log_number,
        last_sequence: Some(last_sequence),
        added: stored.iter().map(|stored| (0, stored.meta.clone())).collect(),
        ..VersionEdit::default()
    };
    shared.install(edit, stored.into_iter().map(|stored| (0, stored)).collect(), |_| {})
}

struct Replay<'a> {
    shared: &'a Shared,
    memtable: Memtable,
    last_sequence: u64,
}

impl Replay<'_> {
    fn read(&mut self, number: u64) -> Result<()> {
        let shared = self.shared;
        let path = shared.dir.join(log_name(number));
        let id = LogId { kind: LogKind::WriteAhead, store_id: shared.store_id, number };
        let storage = shared.options.storage.as_ref();
        let end = read_log(storage, &path, id, shared.options.recovery, &mut |record| self.take(&record, &path))?;
        if end.torn_tail_bytes > 0 {
            let (len, offset) = (end.torn_tail_bytes, end.valid_len_bytes);
            shared.reports.add(format!("{}: {len} bytes from {offset} on were cut off by a crash", path.display()));
        }
        for (offset, len) in &end.skipped {
            shared.reports.add(format!("{}: {len} damaged bytes at {offset} were skipped", path.display()));
        }
        Ok(())
    }

    /// Gives the sequence number of the next record.
    fn take(&mut self, record: &LogRecord<'_>, path: &Path) -> Result<u64> {
        if record.sequence > self.last_sequence + 1 {
            let missing = record.sequence - self.last_sequence - 1;
            if self.shared.options.recovery == LogRecovery::Strict {
                return Err(Error::Corrupt { field: Field::LogSequence, offset: record.payload_offset });
            }
            self.shared.reports.add(format!("{}: {missing} writes before it are missing", path.display()));
        }
        let mut sequence = record.sequence;
        for op in BatchOps::new(record.payload, record.payload_offset) {
            let op = op?;
            // A recovery that was itself interrupted has brought the first writes into tables.
            if sequence > self.last_sequence {
                let hash = KeyHash::of(op.key(), self.shared.seed);
                self.memtable.insert(op.key(), op.value(), hash, sequence);
                self.last_sequence = sequence;
            }
            sequence += 1;
        }
        if self.memtable.len_bytes() >= self.shared.options.write_buffer_bytes {
            let full = std::mem::replace(&mut self.memtable, Memtable::new(0, self.shared.options.write_buffer_bytes));
            install(self.shared, &full, None, self.last_sequence)?;
        }
        Ok(sequence)
    }
}

/// Removes files of the store that nothing refers to; one that cannot be removed stays until the next time.
///
/// After a torn manifest a table that it does not name may be one whose naming was lost: such a table is set aside under
/// another name, for a person to look at.
pub(super) fn remove_leftovers(shared: &Shared, manifest_was_torn: bool) {
    let storage = shared.options.storage.as_ref();
    let Ok(names) = storage.list(&shared.dir) else { return };
    let current_log = shared.state.load().memtable.log_number;
    let manifest = lock(&shared.registry).manifest.number();
    let version = Arc::clone(&shared.state.load().version);
    for name in names {
        let path = shared.dir.join(&name);
        let done = match parse(&name) {
            Some(FileName::Table(number)) if version.all_tables().any(|(_, table)| table.meta.number == number) => {
                Ok(())
            }
            Some(FileName::Table(_)) if manifest_was_torn => {
                shared.reports.add(format!("{}: not named by the torn manifest; set aside", path.display()));
                storage.rename(&path, &shared.dir.join(format!("unnamed-{name}")))
            }
            Some(FileName::Table(_) | FileName::Temporary) => storage.remove(&path),
            Some(FileName::Log(number)) if number != current_log => storage.remove(&path),
            Some(FileName::Manifest(number)) if number != manifest => storage.remove(&path),
            _ => Ok(()),
        };
        if let Err(error) = done {
            log::warn!("a file that is no longer needed stays for now: {error}");
        }
    }
}
