//! Replays the logs when a store opens, and removes unneeded files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ownership::{self, reason_to_keep};
use crate::error::{Error, Field, Result};
use crate::lsm::files::{CURRENT, FileName, log_name, number_in, parse};
use crate::lsm::manifest::edit::{MAX_NUMBER, StoreState, VersionEdit};
use crate::lsm::manifest::read_current;
use crate::lsm::memtable::Memtable;
use crate::lsm::options::Options;
use crate::lsm::shared::{Identity, LogState, Shared, create_log};
use crate::lsm::stats::store_stats::Reports;
use crate::lsm::version::stored_table::{StoredTable, Written};
use crate::lsm::wal::log_reader::{LogRecord, LogRecovery, read_log_in};
use crate::lsm::wal::logged_writes::{LoggedWrites, PLACE_LEN_BYTES};
use crate::lsm::wal::{LogId, LogKind};
use crate::sstable::{Peek, TableId};
use crate::storage::Storage;
use crate::sync::atomic::Ordering;
use crate::sync::lock;

/// The minimum memory in bytes for sorting writes, even if the write buffer is smaller.
const MIN_SORTED_LEN_BYTES: usize = 64 << 10;

/// The number of stale manifests above which [`sweep`] removes them.
const MAX_STALE_MANIFESTS: usize = 8;

#[derive(Debug, Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) options: &'a Options,
    pub(super) dir: &'a Path,
    pub(super) store_id: [u8; 16],
    pub(super) reports: &'a Reports,
}

pub(super) struct Replayed<'a> {
    /// Each group of writes becomes one SST.
    groups: Vec<LoggedWrites<'a>>,
    /// The sequence number of the last write that the store holds or has given up.
    last_sequence: u64,
    /// Whether writes are missing and the options accept that.
    has_gap: bool,
    /// Whether a log is missing, damaged or torn. Its last writes may be lost although no later
    /// record shows a gap.
    lacks_records: bool,
    /// The numbers of logs without any record or damage.
    empty_logs: Vec<u64>,
}

pub(super) struct Logs {
    /// The number and the bytes of each log, oldest first.
    contents: Vec<(u64, Vec<u8>)>,
    /// Whether the oldest needed log is missing, or another program's file has the name of a log.
    are_missing: bool,
}

pub(super) fn read_logs(site: &Site<'_>, oldest_needed: u64) -> Result<Logs> {
    let storage = site.options.storage.as_ref();
    let mut numbers: Vec<u64> = storage
        .list(site.dir)?
        .iter()
        .filter_map(|name| if let Some(FileName::Log(number)) = parse(name) { Some(number) } else { None })
        .filter(|&number| number >= oldest_needed)
        .collect();
    numbers.sort_unstable();
    let mut logs = Logs { contents: Vec::new(), are_missing: false };
    let mut own = Vec::new();
    for number in numbers {
        let path = site.dir.join(log_name(number));
        if number != oldest_needed && ownership::is_of_others(storage, &path, FileName::Log(number))? {
            if site.options.recovery == LogRecovery::Strict {
                // This file may have replaced the store's last log, and nothing else would show
                // that writes are missing.
                let what = "a file of another program, which may have replaced a log of the store (a salvage ignores \
                            this file)";
                return Err(Error::ForeignFile { what }.in_file(&path));
            }
            site.reports.add(format!(
                "{}: another program wrote this file, which may have replaced a log of the store; the store ignores \
                 it; check the newest writes, then move the file away",
                path.display()
            ));
            logs.are_missing = true;
        } else {
            own.push(number);
        }
    }
    if oldest_needed != 0 && own.first() != Some(&oldest_needed) {
        site.missing_log(oldest_needed)?;
        logs.are_missing = true;
    }
    for number in own {
        logs.contents.push((number, storage.read(&site.dir.join(log_name(number)))?));
    }
    Ok(logs)
}

pub(super) fn replay<'a>(
    site: &Site<'_>,
    logs: &'a Logs,
    oldest_needed: u64,
    last_sequence: u64,
) -> Result<Replayed<'a>> {
    let lacks_records = logs.are_missing;
    let found = Replayed { groups: Vec::new(), last_sequence, has_gap: false, lacks_records, empty_logs: Vec::new() };
    let mut replay = Replay { site, found };
    for (number, log) in &logs.contents {
        replay.read(*number, log, oldest_needed)?;
    }
    Ok(replay.found)
}

/// The number of file numbers that must be left for an open, besides those of the SSTs that it
/// writes from the logs. An open takes one for the manifest and one for the log.
const SPARE_NUMBERS: u64 = 16;

/// Checks that enough file numbers are left from `next` on. Otherwise the manifest that an open or
/// a repair writes could have a number that no later open accepts. The error names the file with
/// the highest number, or `CURRENT` if no file has that number.
pub(crate) fn check_file_numbers(storage: &dyn Storage, dir: &Path, next: u64) -> Result<()> {
    if (MAX_NUMBER + 1).saturating_sub(next) >= SPARE_NUMBERS {
        return Ok(());
    }
    let last = next - 1;
    let name = storage.list(dir)?.into_iter().find(|name| number_in(name) == Some(last));
    let path = dir.join(name.as_deref().unwrap_or(CURRENT));
    Err(Error::OutOfNumbers { field: Field::FileNumber, last }.in_file(&path))
}

/// Writes the replayed writes to SSTs in level 0, puts a new manifest in force that names these
/// SSTs, and starts a new log. A store that was just created has its manifest already, so it only
/// gets the log.
pub(super) fn bring_in(shared: &Shared, replayed: Replayed<'_>, is_torn: bool) -> Result<()> {
    let is_new = lock(&shared.catalogue.registry).manifest.may_be_in_force();
    if !is_new {
        // Write all SSTs before the manifest names any of them. As soon as the manifest names an
        // SST, missing writes that are older than its writes count as given up.
        let next =
            shared.catalogue.next_file_number.load(Ordering::Relaxed).saturating_add(replayed.groups.len() as u64);
        check_file_numbers(shared.options.storage.as_ref(), &shared.identity.dir, next)?;
        let tables = write_tables(shared, &replayed.groups)?;
        begin_manifest(shared, &replayed, &tables, is_torn)?;
        shared.change_state(|state| {
            let added = tables.into_iter().map(|stored| (0, stored)).collect();
            state.version = Arc::new(state.version.with(&[], added));
        });
        shared.reading.state.make_visible(replayed.last_sequence);
        remove_stale(shared, &replayed.empty_logs);
    }
    // Start the new log only after the manifest is in force. The new log states that no write
    // before its first write is missing. After a process crash or a failed sync, the last recovered
    // writes may have been in the page cache alone. If a power failure then kept the new log and
    // lost these writes, writes would be missing in the middle.
    let number = shared.catalogue.new_file_number();
    let first = replayed.last_sequence + 1;
    let log = create_log(shared.options.storage.as_ref(), &shared.identity, number, first)?;
    *lock(&shared.writing.log) = LogState { log, last_sequence: replayed.last_sequence };
    let memtable = Arc::new(Memtable::new(number, shared.options.write_buffer_bytes));
    shared.change_state(|state| state.memtable = memtable);
    // After this edit the older logs are obsolete. The new log was created before the edit,
    // because the log that a manifest names must exist.
    shared.install(VersionEdit { log_number: Some(number), ..VersionEdit::default() }, Vec::new(), |_| {})
}

/// Removes manifests that are not in force, logs before the one that the manifest in force names,
/// and empty logs. Failed opens may have left such files. The other logs stay until this open has
/// succeeded: if it fails, the next open must report the same problems again.
fn remove_stale(shared: &Shared, empty_logs: &[u64]) {
    let (manifest, log_number) = {
        let registry = lock(&shared.catalogue.registry);
        (registry.manifest.number(), registry.state.log_number)
    };
    let is_empty = |number: u64| number != log_number && empty_logs.contains(&number);
    remove_files(shared, |file| match file {
        FileName::Manifest(number) => number != manifest,
        FileName::Log(number) => number < log_number || is_empty(number),
        _ => false,
    });
}

/// Removes stale files of the store. A file that cannot be removed stays until the next open.
fn remove_files(shared: &Shared, is_stale: impl Fn(FileName) -> bool) {
    let storage = shared.options.storage.as_ref();
    let Ok(names) = storage.list(&shared.identity.dir) else { return };
    for name in &names {
        let Some(file) = parse(name).filter(|&file| is_stale(file)) else { continue };
        let Identity { dir, store_id, .. } = &shared.identity;
        remove_own(storage, &dir.join(name), file, store_id, &shared.reading.reports);
    }
}

/// Removes a file of the store. Keeps and reports a file that may belong to another program or
/// store ([`reason_to_keep`]).
fn remove_own(storage: &dyn Storage, path: &Path, file: FileName, store_id: &[u8; 16], reports: &Reports) {
    let removed = reason_to_keep(storage, path, file, store_id).and_then(|reason| match reason {
        None => storage.remove(path),
        Some(what) => {
            reports.add(format!(
                "{}: {what}; the store does not use this file, and leaves it unchanged; move it away to avoid this \
                 report",
                path.display()
            ));
            Ok(())
        }
    });
    warn_if_left(removed);
}

fn warn_if_left(removed: Result<()>) {
    if let Err(error) = removed {
        log::warn!("an unneeded file could not be removed; the next open tries again: {error}");
    }
}

/// Puts the new manifest in force, with the SSTs in `tables` added. If edits or writes may be
/// missing, first calls [`set_aside_unnamed`].
fn begin_manifest(shared: &Shared, replayed: &Replayed<'_>, tables: &[Arc<StoredTable>], is_torn: bool) -> Result<()> {
    let storage = shared.options.storage.as_ref();
    let mut registry = lock(&shared.catalogue.registry);
    let before = registry.state.last_sequence;
    let edit = VersionEdit {
        next_file_number: Some(shared.catalogue.next_file_number.load(Ordering::Relaxed)),
        last_sequence: Some(replayed.last_sequence),
        added: tables.iter().map(|stored| (0, stored.meta.clone())).collect(),
        ..VersionEdit::default()
    };
    let mut state = registry.state.clone();
    state.apply(&edit, 0)?;
    registry.manifest.prepare(storage, &shared.identity.dir, &state.snapshot())?;
    let mut moved = Vec::new();
    let set_aside = if is_torn || replayed.has_gap || replayed.lacks_records {
        // The missing writes may be in an SST whose edit was lost. Set such SSTs aside after the
        // new manifest is written: writing it may fail, and a repair uses SSTs only under their
        // old names. Set them aside before the manifest is in force: if a crash came between the
        // two steps in the other order, the next open would remove the SSTs.
        let known = if replayed.has_gap { before } else { replayed.last_sequence };
        set_aside_unnamed(shared, &state, known, &mut moved)
    } else {
        Ok(())
    };
    let begun = set_aside.and_then(|()| registry.manifest.put_in_force(storage, &shared.identity.dir));
    if begun.is_err() && !registry.manifest.may_be_in_force() {
        registry.manifest.abandon(storage, &shared.identity.dir);
        for (path, aside) in moved {
            if let Err(error) = storage.rename(&aside, &path) {
                log::warn!("an SST that a failed open renamed could not get its old name back: {error}");
            }
        }
    }
    begun?;
    registry.state = state;
    Ok(())
}

/// Writes each group of writes to an SST. After an error, removes all of these SSTs.
fn write_tables(shared: &Shared, groups: &[LoggedWrites<'_>]) -> Result<Vec<Arc<StoredTable>>> {
    let mut written = Written::default();
    for group in groups {
        let stored = write_table(shared, group, &written.0)?;
        written.0.push(stored);
    }
    Ok(std::mem::take(&mut written.0))
}

fn write_table(shared: &Shared, group: &LoggedWrites<'_>, others: &[Arc<StoredTable>]) -> Result<Arc<StoredTable>> {
    let buffer_len_bytes = shared.options.write_buffer_bytes.max(MIN_SORTED_LEN_BYTES);
    // The memory for sorting grows with the records of the group, so the number of passes over them
    // is bounded.
    let max_places = buffer_len_bytes.max(group.len_bytes() / 4) / PLACE_LEN_BYTES;
    // The hashes of more than `max_hashes` writes would be longer than half of the records, and
    // longer than the write buffer. The SST then gets no filter.
    let max_hashes = buffer_len_bytes.max(group.len_bytes() / 2) / size_of::<u64>();
    let with_filter = group.num_writes() <= max_hashes as u64;
    shared.write_level_0(group.num_writes(), group.sequences(), with_filter, others, |writer| {
        group.for_each_newest(max_places, |key, value| writer.add(key, value))
    })
}

impl Site<'_> {
    /// Reports a log that is missing or has no sound header. Returns an error instead, unless the
    /// options say to salvage.
    fn missing_log(&self, number: u64) -> Result<()> {
        let path = self.dir.join(log_name(number));
        if self.options.recovery == LogRecovery::Strict {
            return Err(Error::Corrupt { field: Field::LogHeader, offset: 0 }.in_file(&path));
        }
        let path = path.display();
        self.reports.add(format!("{path}: the log is missing or has no sound header; its writes may be lost"));
        Ok(())
    }
}

struct Replay<'a, 's> {
    site: &'s Site<'s>,
    found: Replayed<'a>,
}

impl<'a> Replay<'a, '_> {
    fn read(&mut self, number: u64, log: &'a [u8], oldest_needed: u64) -> Result<()> {
        let site = self.site;
        let path = site.dir.join(log_name(number));
        let id = LogId { kind: LogKind::WriteAhead, store_id: site.store_id, number };
        self.found.groups.push(LoggedWrites::of(log));
        let end = read_log_in(log, &path, id, site.options.recovery, &mut |record| self.take(&record, log, &path))?;
        self.found.groups.pop_if(|group| group.is_empty());
        self.found.lacks_records |= !end.is_clean();
        site.reports.add_tail(end.tail(&path));
        for (offset, len) in &end.skipped {
            site.reports.add(match len {
                0 => format!("{}: log records are missing before offset {offset}", path.display()),
                1 => format!("{}: 1 damaged byte at offset {offset} was skipped", path.display()),
                _ => format!("{}: {len} damaged bytes at offset {offset} were skipped", path.display()),
            });
        }
        if end.next_sequence.is_none() && end.skipped.is_empty() {
            // The header of the oldest needed log was durable before the manifest named the log. A
            // younger log without a header may be left by a crash during a rotation.
            if number == oldest_needed {
                site.missing_log(number)?;
            } else if end.torn_tail_bytes == 0 {
                let path = path.display();
                site.reports.add(format!("{path}: the log is empty; a crash probably cut off its creation"));
            }
        }
        // Even a log without records states the sequence number at which it begins. This number
        // reveals a manifest that has lost its last edits without a trace.
        let next = end.next_sequence.unwrap_or(0);
        if end.is_clean() && end.num_records == 0 {
            self.found.empty_logs.push(number);
        }
        self.check_gap(next, end.valid_len_bytes, &path).map_err(|error| error.in_file(&path))
    }

    /// If writes before `next` are missing, a salvage reports them and gives them up.
    fn check_gap(&mut self, next: u64, offset: u64, path: &Path) -> Result<()> {
        if next <= self.found.last_sequence + 1 {
            return Ok(());
        }
        if self.site.options.recovery == LogRecovery::Strict || next > MAX_NUMBER {
            return Err(Error::Corrupt { field: Field::LogSequence, offset });
        }
        let missing = next - self.found.last_sequence - 1;
        let writes = if missing == 1 { "1 write is".to_owned() } else { format!("{missing} writes are") };
        self.site.reports.add(format!("{}: {writes} missing before offset {offset}", path.display()));
        self.found.has_gap = true;
        self.found.last_sequence = next - 1;
        Ok(())
    }

    /// Begins a new group if the current one is full. Returns the sequence number of the next record.
    fn take(&mut self, record: &LogRecord<'a>, log: &'a [u8], path: &Path) -> Result<u64> {
        self.check_gap(record.sequence, record.payload_offset, path)?;
        // An interrupted recovery may have put the writes of the record into an SST already.
        let num_known = (self.found.last_sequence + 1).saturating_sub(record.sequence);
        let is_full = |group: &LoggedWrites<'_>| group.len_bytes() >= self.site.options.write_buffer_bytes.max(1);
        if self.found.groups.last().is_none_or(is_full) {
            self.found.groups.push(LoggedWrites::of(log));
        }
        let num_writes = self.found.groups.last_mut().map_or(Ok(0), |group| group.add(record, num_known))?;
        let next = record.sequence.saturating_add(num_writes);
        if next > MAX_NUMBER + 1 {
            return Err(Error::Corrupt { field: Field::LogSequence, offset: record.payload_offset });
        }
        self.found.last_sequence = self.found.last_sequence.max(next.saturating_sub(1));
        Ok(next)
    }
}

/// Renames SSTs that `state` does not name, because the open would remove them under their old
/// names. If an edit was lost, such an SST may hold the only copy of some writes. The new names are
/// durable on success.
///
/// An SST of this store that certainly holds no write above the sequence number `known` keeps its
/// name. A file of another program keeps its name, too.
///
/// `moved` receives the old and the new path of each renamed SST, even if the function fails.
fn set_aside_unnamed(
    shared: &Shared,
    state: &StoreState,
    known: u64,
    moved: &mut Vec<(PathBuf, PathBuf)>,
) -> Result<()> {
    let (storage, dir) = (shared.options.storage.as_ref(), shared.identity.dir.as_path());
    let named: HashSet<_> = state.levels.iter().flatten().map(|table| table.number).collect();
    for name in storage.list(dir)? {
        let Some(FileName::Table(number)) = parse(&name) else { continue };
        if named.contains(&number) {
            continue;
        }
        let path = dir.join(&name);
        if ownership::is_of_others(storage, &path, FileName::Table(number))? {
            continue;
        }
        if holds_only(storage, &path, shared.identity.table_id(number), known) {
            // Every crash between a flush and its edit leaves such an SST: this is no problem to
            // report.
            log::debug!("{}: no manifest names this SST, and the store has its writes or newer ones", path.display());
            continue;
        }
        let aside = free_name(storage, dir, &name)?;
        shared.reading.reports.add(format!(
            "{}: the manifest does not name this SST, which may hold the only copy of some writes; renamed to {}",
            path.display(),
            aside.display()
        ));
        storage.rename(&path, &aside)?;
        moved.push((path, aside));
    }
    storage.sync_dir(dir)
}

/// Returns an unused path: `unnamed-NNNNNN.sst`, or the same with `.2`, `.3` and so on appended.
fn free_name(storage: &dyn Storage, dir: &Path, table: &str) -> Result<PathBuf> {
    let mut free = dir.join(format!("unnamed-{table}"));
    for nth in 2u64.. {
        if !storage.exists(&free)? {
            break;
        }
        free = dir.join(format!("unnamed-{table}.{nth}"));
    }
    Ok(free)
}

/// Checksums must prove that the SST belongs to this store and holds no write above `known`.
fn holds_only(storage: &dyn Storage, path: &Path, id: TableId, known: u64) -> bool {
    let Ok(bytes) = storage.read(path) else { return false };
    let peek = Peek::at(&bytes);
    let origin = peek.properties.and_then(|own| own.origin);
    peek.table_id == Some(id) && origin.is_some_and(|origin| origin.largest_sequence <= known)
}

/// Removes the numbered files that a failed open created. Keeps them if the new manifest may be in
/// force, because that manifest may name any of them.
pub(super) fn undo(shared: &Shared) {
    let registry = lock(&shared.catalogue.registry);
    if registry.manifest.may_be_in_force() {
        return;
    }
    let storage = shared.options.storage.as_ref();
    let Ok(names) = storage.list(&shared.identity.dir) else { return };
    // The manifest was the first to get a number, above the numbers of all existing files.
    let is_made = |name: &String| number_in(name).is_some_and(|number| number >= registry.manifest.number());
    for name in names.iter().filter(|name| is_made(name)) {
        if let Err(error) = storage.remove(&shared.identity.dir.join(name)) {
            log::warn!("a file of a failed open could not be removed; the next open tries again: {error}");
        }
    }
}

/// Removes manifests that are not in force, if there are more than [`MAX_STALE_MANIFESTS`].
///
/// Up to this number, they stay until a manifest of this open is in force. Before that, the rename
/// of `CURRENT.tmp` to `CURRENT` may not be durable, so a power failure could put an older manifest
/// back in force. The sync of the directory here does not prove that the rename is durable, because
/// an earlier sync may have failed.
pub(super) fn sweep(site: &Site<'_>) {
    let (storage, dir) = (site.options.storage.as_ref(), site.dir);
    let (Ok(names), Ok(in_force)) = (storage.list(dir), read_current(storage, dir)) else { return };
    let is_stale = |name: &&String| matches!(parse(name), Some(FileName::Manifest(number)) if number != in_force);
    if names.iter().filter(is_stale).count() <= MAX_STALE_MANIFESTS {
        return;
    }
    // Manifests that stay do not count. Otherwise a few of them would make each open remove all
    // others.
    let is_removable = |name: &&String| {
        let reason = parse(name).map(|file| reason_to_keep(storage, &dir.join(name), file, &site.store_id));
        matches!(reason, Some(Ok(None)))
    };
    let stale: Vec<&String> = names.iter().filter(is_stale).filter(is_removable).collect();
    if stale.len() <= MAX_STALE_MANIFESTS || storage.sync_dir(dir).is_err() {
        return;
    }
    for name in stale {
        warn_if_left(storage.remove(&dir.join(name)));
    }
}

/// A file that cannot be removed stays until the next open.
pub(super) fn remove_leftovers(shared: &Shared) {
    let current_log = shared.reading.state.load().memtable.log_number;
    let manifest = lock(&shared.catalogue.registry).manifest.number();
    let live: HashSet<_> = shared.version().all_tables().map(|(_, table)| table.meta.number).collect();
    remove_files(shared, |file| match file {
        FileName::Table(number) => !live.contains(&number),
        FileName::Temporary => true,
        FileName::Log(number) => number != current_log,
        FileName::Manifest(number) => number != manifest,
        FileName::Current | FileName::Lock => false,
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use crate::lsm::Db;
    use crate::lsm::files::manifest_name;
    use crate::storage::Memory;

    #[test]
    fn a_sweep_counts_only_manifests_that_it_can_remove() {
        let (storage, dir) = (Memory::new(), Path::new("/store"));
        let options = Options { storage: Arc::new(storage.clone()), ..Options::default() };
        drop(Db::open(dir, options.clone()).unwrap());
        let manifest = storage.read(&dir.join(manifest_name(read_current(&storage, dir).unwrap()))).unwrap();
        let site = Site { options: &options, dir, store_id: [0; 16], reports: &Reports::default() };
        let write = |numbers: std::ops::Range<u64>, content: &[u8]| {
            for number in numbers {
                let mut file = storage.create(&dir.join(manifest_name(number))).unwrap();
                file.write_all(content).unwrap();
            }
        };
        let left = |mut numbers: std::ops::Range<u64>| {
            numbers.all(|number| storage.exists(&dir.join(manifest_name(number))).unwrap())
        };
        let stale = 100..100 + MAX_STALE_MANIFESTS as u64;
        write(stale.clone(), &manifest);
        write(200..220, b"The text of a person, who chose this name.\n");
        sweep(&site);
        assert!(left(stale.clone()) && left(200..220), "a manifest is removed before its successor is in force");
        write(stale.end..stale.end + 1, &manifest);
        sweep(&site);
        assert!(!left(stale.start..stale.start + 1) && left(200..220));
    }
}
