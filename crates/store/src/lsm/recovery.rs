//! What a crash leaves: logs whose writes are in no table yet, and files that nobody needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file_name::{FileName, log_name, number_in, parse};
use super::log_file::{LogId, LogKind};
use super::log_reader::{LogRecord, LogRecovery, read_log_in};
use super::logged_writes::{LoggedWrites, PLACE_LEN_BYTES};
use super::manifest::read_current;
use super::memtable::Memtable;
use super::options::Options;
use super::ownership;
use super::reports::Reports;
use super::shared::{LogState, Shared, create_log};
use super::version::StoredTable;
use super::version_edit::{MAX_NUMBER, StoreState, VersionEdit};
use crate::error::{Error, Field, Result};
use crate::sstable::{Peek, TableId};
use crate::storage::Storage;
use crate::sync::atomic::Ordering;
use crate::sync::lock;

/// However small the write buffer, writes are sorted in so much memory.
const MIN_SORTED_LEN_BYTES: usize = 64 << 10;

/// More manifests than these of failed opens are removed before the next attempt.
const MAX_STALE_MANIFESTS: usize = 8;

/// What reading the logs needs to know of the store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) options: &'a Options,
    pub(super) dir: &'a Path,
    pub(super) store_id: [u8; 16],
    pub(super) reports: &'a Reports,
}

/// What the logs hold that is in no table.
pub(super) struct Replayed<'a> {
    /// Writes of which each group is to become a table.
    groups: Vec<LoggedWrites<'a>>,
    /// The last write that is known, or given up.
    last_sequence: u64,
    /// Whether writes are missing, and nobody minds.
    has_gap: bool,
    /// Logs that hold nothing, not even anything to be told of.
    empty_logs: Vec<u64>,
}

/// The numbers and bytes of all logs that are still needed, in their order.
///
/// # Errors
/// When the log that the manifest names is missing, unless the options say to salvage. I/O errors.
pub(super) fn read_logs(site: &Site<'_>, oldest_needed: u64) -> Result<Vec<(u64, Vec<u8>)>> {
    let storage = site.options.storage.as_ref();
    let mut numbers: Vec<u64> = storage
        .list(site.dir)?
        .iter()
        .filter_map(|name| if let Some(FileName::Log(number)) = parse(name) { Some(number) } else { None })
        .filter(|&number| number >= oldest_needed)
        .collect();
    numbers.sort_unstable();
    let mut own = Vec::new();
    for number in numbers {
        let path = site.dir.join(log_name(number));
        if number != oldest_needed && ownership::is_of_others(storage, &path, FileName::Log(number))? {
            if site.options.recovery == LogRecovery::Strict {
                // It may stand in the place of the store's last log: nothing else would show that writes are missing.
                let what = "a log of another program; move it away, or salvage the store without it";
                return Err(Error::ForeignFile { what }.in_file(&path));
            }
            site.reports.add(format!("{}: another program wrote it; left as it is", path.display()));
        } else {
            own.push(number);
        }
    }
    let numbers = own;
    if oldest_needed != 0 && numbers.first() != Some(&oldest_needed) {
        site.missing_log(oldest_needed)?;
    }
    numbers.into_iter().map(|number| Ok((number, storage.read(&site.dir.join(log_name(number)))?))).collect()
}

/// What `logs` hold behind the write `last_sequence`.
///
/// # Errors
/// Damage in the middle of a log, or writes missing between two logs, unless the options say to salvage; the first is
/// named with file and offset.
pub(super) fn replay<'a>(
    site: &Site<'_>,
    logs: &'a [(u64, Vec<u8>)],
    oldest_needed: u64,
    last_sequence: u64,
) -> Result<Replayed<'a>> {
    let found = Replayed { groups: Vec::new(), last_sequence, has_gap: false, empty_logs: Vec::new() };
    let mut replay = Replay { site, found };
    for (number, log) in logs {
        replay.read(*number, log, oldest_needed)?;
    }
    Ok(replay.found)
}

/// Makes tables of level 0 of what the logs hold, puts a new manifest in force that names them, and begins a new log. Up to
/// the manifest the store is as it was.
///
/// # Errors
/// I/O errors.
pub(super) fn bring_in(shared: &Shared, replayed: Replayed<'_>, is_torn: bool) -> Result<()> {
    let is_new = lock(&shared.catalogue.registry).manifest.may_be_in_force();
    if !is_new {
        // With the first table that is named, what is missing before it is given up, and no later recovery, and no repair,
        // knows that it was missing.
        let tables = write_tables(shared, &replayed.groups)?;
        begin_manifest(shared, &replayed, &tables, is_torn)?;
        shared.change_state(|state| {
            let added = tables.into_iter().map(|stored| (0, stored)).collect();
            state.version = Arc::new(state.version.with(&[], added));
        });
        shared.reading.state.make_visible(replayed.last_sequence);
        remove_stale(shared, &replayed.empty_logs);
    }
    // Not before the manifest is in force. The new log says that all writes below its first are known: after the end of a
    // process, or a sync that failed, the last of them may have been read from the page cache alone. Were that log to survive
    // a power failure that they do not, writes would be missing in the middle.
    let number = shared.catalogue.new_file_number();
    let first = replayed.last_sequence + 1;
    let log = create_log(shared.options.storage.as_ref(), &shared.identity, number, first)?;
    *lock(&shared.writing.log) = LogState { log, last_sequence: replayed.last_sequence };
    let memtable = Arc::new(Memtable::new(number, shared.options.write_buffer_bytes));
    shared.change_state(|state| state.memtable = memtable);
    // The logs before go now, and a log that the manifest names must exist.
    shared.install(VersionEdit { log_number: Some(number), ..VersionEdit::default() }, Vec::new(), |_| {})
}

/// Removes what opens leave that fail behind their manifest, so that it does not grow: other manifests, logs before the one
/// that the manifest names, and empty ones. The manifest has just come into force, so all that it says is durable. Logs with
/// writes stay until this open has succeeded: if it fails, the next one must tell again what is wrong with them.
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

/// Removes files of the store; one that cannot be removed stays until the next time.
fn remove_files(shared: &Shared, is_stale: impl Fn(FileName) -> bool) {
    let storage = shared.options.storage.as_ref();
    let Ok(names) = storage.list(&shared.identity.dir) else { return };
    for name in &names {
        let Some(file) = parse(name).filter(|&file| is_stale(file)) else { continue };
        remove_own(storage, &shared.identity.dir.join(name), file, &shared.reading.reports);
    }
}

/// Removes a file that is certainly a store's, and reports one that is not.
fn remove_own(storage: &dyn Storage, path: &Path, file: FileName, reports: &Reports) {
    let removed = ownership::reason_to_keep(storage, path, file).and_then(|reason| match reason {
        None => storage.remove(path),
        Some(what) => {
            reports.add(format!("{}: {what}; left as it is", path.display()));
            Ok(())
        }
    });
    if let Err(error) = removed {
        log::warn!("a file that is no longer needed stays for now: {error}");
    }
}

/// Puts the new manifest in force, with `tables` added.
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
    let set_aside = if is_torn || replayed.has_gap {
        // What is missing may be in a table whose naming was lost. Not before the new manifest is written, which may well
        // fail: a repair takes such a table back by its name. And not after it is in force: the next open would not know.
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
                log::warn!("a table that was set aside stays so: {error}");
            }
        }
    }
    begun?;
    registry.state = state;
    Ok(())
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

impl Site<'_> {
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
        site.reports.add_tail(end.tail(&path));
        for (offset, len) in &end.skipped {
            site.reports.add(format!("{}: {len} damaged bytes at {offset} were skipped", path.display()));
        }
        if end.next_sequence.is_none() && end.skipped.is_empty() {
            // Its header was durable before the manifest named it. A younger one may be what a crash left of a rotation,
            // and if it was more, then the log behind it shows the gap.
            if number == oldest_needed {
                site.missing_log(number)?;
            } else if end.torn_tail_bytes == 0 {
                site.reports.add(format!("{}: cut off by a crash before its first byte", path.display()));
            }
        }
        // A log without records still says where it begins: with the first write that is in no table. That shows when
        // a manifest has lost its last edits without a trace.
        let next = end.next_sequence.unwrap_or(0);
        if end.is_clean() && end.num_records == 0 {
            self.found.empty_logs.push(number);
        }
        self.check_gap(next, end.valid_len_bytes, &path).map_err(|error| error.in_file(&path))
    }

    /// Whether the writes up to `next` are all known.
    fn check_gap(&mut self, next: u64, offset: u64, path: &Path) -> Result<()> {
        if next <= self.found.last_sequence + 1 {
            return Ok(());
        }
        if self.site.options.recovery == LogRecovery::Strict || next > MAX_NUMBER {
            return Err(Error::Corrupt { field: Field::LogSequence, offset });
        }
        let missing = next - self.found.last_sequence - 1;
        self.site.reports.add(format!("{}: {missing} writes before it are missing", path.display()));
        self.found.has_gap = true;
        self.found.last_sequence = next - 1;
        Ok(())
    }

    /// Gives the sequence number of the next record.
    fn take(&mut self, record: &LogRecord<'a>, log: &'a [u8], path: &Path) -> Result<u64> {
        self.check_gap(record.sequence, record.payload_offset, path)?;
        // A recovery that was itself interrupted has brought the first writes into tables.
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

/// Gives tables that `state` does not name another name, for a person to look at: where an edit was lost, such a table may be
/// the only one that holds its writes. The new name is durable on return: under the old one the next open removes them, once
/// what they hold is given up.
///
/// A table whose writes are all `known`, in tables that `state` names, keeps its name and goes with what nobody needs. That
/// can be told now and never later: numbers of writes that are given up pass for known from then on.
///
/// `moved` gets the old and the new names, also before an error.
///
/// # Errors
/// Those of the storage.
fn set_aside_unnamed(
    shared: &Shared,
    state: &StoreState,
    known: u64,
    moved: &mut Vec<(PathBuf, PathBuf)>,
) -> Result<()> {
    let (storage, dir) = (shared.options.storage.as_ref(), shared.identity.dir.as_path());
    for name in storage.list(dir)? {
        let Some(FileName::Table(number)) = parse(&name) else { continue };
        if state.levels.iter().flatten().any(|table| table.number == number) {
            continue;
        }
        let path = dir.join(&name);
        if ownership::is_of_others(storage, &path, FileName::Table(number))? {
            continue;
        }
        if holds_only(storage, &path, shared.identity.table_id(number), known) {
            shared
                .reading
                .reports
                .add(format!("{}: not named by the manifest; other tables hold its writes", path.display()));
            continue;
        }
        let aside = free_name(storage, dir, &name)?;
        shared.reading.reports.add(format!(
            "{}: not named by the manifest; set aside as {}",
            path.display(),
            aside.display()
        ));
        storage.rename(&path, &aside)?;
        moved.push((path, aside));
    }
    storage.sync_dir(dir)
}

/// A name that no file has: `unnamed-NNNNNN.sst`, or with a number behind it, as an earlier open may have set a table of that
/// number aside.
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

/// Whether a table says of itself, under checksums, that it is this store's and holds no write above `known`. One that cannot
/// be read may hold any.
fn holds_only(storage: &dyn Storage, path: &Path, id: TableId, known: u64) -> bool {
    let Ok(bytes) = storage.read(path) else { return false };
    let peek = Peek::at(&bytes);
    let origin = peek.properties.and_then(|own| own.origin);
    peek.table_id == Some(id) && origin.is_some_and(|origin| origin.largest_sequence <= known)
}

/// Removes what an open made that failed, unless its manifest may be in force: then it may name any of it.
pub(super) fn undo(shared: &Shared) {
    let registry = lock(&shared.catalogue.registry);
    if registry.manifest.may_be_in_force() {
        return;
    }
    let storage = shared.options.storage.as_ref();
    let Ok(names) = storage.list(&shared.identity.dir) else { return };
    // The manifest was the first to get a number, above those of all files that were there.
    let is_made = |name: &String| number_in(name).is_some_and(|number| number >= registry.manifest.number());
    for name in names.iter().filter(|name| is_made(name)) {
        if let Err(error) = storage.remove(&shared.identity.dir.join(name)) {
            log::warn!("a file of an open that failed stays for now: {error}");
        }
    }
}

/// Removes manifests that are not in force, if there are many: of opens that failed when theirs may have been in force already.
///
/// Otherwise they stay until a manifest of this open is in force. That the name of the present one is durable is known then,
/// and here only as far as a sync of the directory makes up for one that failed before.
pub(super) fn sweep(site: &Site<'_>) {
    let (storage, dir) = (site.options.storage.as_ref(), site.dir);
    let (Ok(names), Ok(in_force)) = (storage.list(dir), read_current(storage, dir)) else { return };
    let is_stale = |name: &&String| matches!(parse(name), Some(FileName::Manifest(number)) if number != in_force);
    let stale: Vec<&String> = names.iter().filter(is_stale).collect();
    if stale.len() <= MAX_STALE_MANIFESTS || storage.sync_dir(dir).is_err() {
        return;
    }
    for name in stale {
        let Some(file) = parse(name) else { continue };
        remove_own(storage, &dir.join(name), file, site.reports);
    }
}

/// Removes files of the store that nothing refers to; one that cannot be removed stays until the next time.
pub(super) fn remove_leftovers(shared: &Shared) {
    let current_log = shared.reading.state.load().memtable.log_number;
    let manifest = lock(&shared.catalogue.registry).manifest.number();
    let version = Arc::clone(&shared.reading.state.load().version);
    remove_files(shared, |file| match file {
        FileName::Table(number) => version.all_tables().all(|(_, table)| table.meta.number != number),
        FileName::Temporary => true,
        FileName::Log(number) => number != current_log,
        FileName::Manifest(number) => number != manifest,
        FileName::Current | FileName::Lock => false,
    });
}
