//! What the handles and threads of one open store share, and how its state changes.

use std::path::PathBuf;
use std::sync::Arc;

use super::attempts::Attempts;
use super::file_name::{CURRENT_TEMPORARY, log_name, manifest_name, table_name};
use super::log_file::{LogId, LogKind, LogWriter};
use super::manifest::Manifest;
use super::memtable::Memtable;
use super::options::Options;
use super::picking::Picker;
use super::read_state::{Published, ReadState};
use super::removals::Removals;
use super::reports::{Reports, lock};
use super::stats::Counters;
use super::version::{ReadContext, StoredTable};
use super::version_edit::{StoreState, TableMeta, VersionEdit};
use super::write::WriteQueue;
use crate::error::{Error, Field, Result};
use crate::sstable::{BlockCache, Table, TableId, TableReadOptions};
use crate::storage::Storage;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use filterblock::KeyHasher;

/// The log that is written, and what belongs to it.
#[derive(Debug)]
pub(super) struct LogState {
    pub(super) log: LogWriter,
    /// The number of the last write.
    pub(super) last_sequence: u64,
}

/// The manifest and what it says.
#[derive(Debug)]
pub(super) struct Registry {
    pub(super) manifest: Manifest,
    pub(super) state: StoreState,
}

/// What background threads and waiting writers tell each other.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) closing: bool,
    /// The first failure that makes further writes unsafe.
    pub(super) failure: Option<String>,
    /// Whether a compaction, of the background or of a caller, is under way.
    pub(super) compacting: bool,
    /// Callers that wait to compact: they go before the background, which always finds more to do.
    pub(super) callers_waiting: usize,
    pub(super) flushes: Attempts,
    pub(super) compactions: Attempts,
}

#[derive(Debug)]
pub(super) struct Shared {
    /// Their storage holds the directory: it serves paths in `dir` only.
    pub(super) options: Options,
    /// The storage as it was given, for paths of other directories.
    pub(super) outside: Arc<dyn Storage>,
    pub(super) dir: PathBuf,
    pub(super) store_id: [u8; 16],
    /// Hashes each key, once.
    pub(super) hasher: KeyHasher,
    pub(super) state: Published,
    pub(super) queue: WriteQueue,
    pub(super) log: Mutex<LogState>,
    pub(super) registry: Mutex<Registry>,
    pub(super) next_file_number: AtomicU64,
    pub(super) work: Mutex<Work>,
    /// Told of every change of `work` and `state`.
    pub(super) changed: Condvar,
    /// Whether the handle is gone, and what is to be removed until then.
    pub(super) closed: Arc<Mutex<Removals>>,
    /// Locked for a moment at a time, also by whoever has `work`.
    pub(super) picker: Mutex<Picker>,
    pub(super) cache: Option<Arc<BlockCache>>,
    pub(super) counters: Counters,
    pub(super) reports: Reports,
}

impl Shared {
    pub(super) fn new_file_number(&self) -> u64 {
        self.next_file_number.fetch_add(1, Ordering::Relaxed)
    }

    /// The identity of a table, which its file and its filter must bear: half the store's id and the file's number.
    pub(super) fn table_id(&self, number: u64) -> TableId {
        table_id(&self.store_id, number)
    }

    #[inline]
    pub(super) fn read_context(&self) -> ReadContext<'_> {
        ReadContext {
            filter_use: self.options.filter_use,
            strict: self.options.strict_filters,
            cache: self.cache.as_deref(),
            reports: &self.reports,
        }
    }

    /// Opens a table of the store and reports a filter that cannot be used.
    pub(super) fn open_table(&self, meta: TableMeta) -> Result<Arc<StoredTable>> {
        open_table(&self.options, &self.dir, &self.store_id, &self.hasher, &self.reports, &self.closed, meta)
    }

    /// Opens tables again whose filter was not to be had when they were opened: it may be now, and reads would do without
    /// it until the store is reopened.
    pub(super) fn fetch_filters(&self) {
        let version = Arc::clone(&self.state.load().version);
        for (level, old) in version.all_tables().filter(|(_, table)| table.lacks_filter()) {
            // What is wrong with it has been told.
            let (options, reports, meta) = (&self.options, Reports::default(), old.meta.clone());
            let new = open_table(options, &self.dir, &self.store_id, &self.hasher, &reports, &self.closed, meta);
            let Some(new) = new.ok().and_then(Arc::into_inner) else { continue };
            let (new, number) = (new.instead_of(old), old.meta.number);
            let Ok(tag) = u8::try_from(level) else { continue };
            if new.lacks_filter() {
                continue;
            }
            // Nobody replaces tables meanwhile.
            let _registry = lock(&self.registry);
            self.change_state(|state| {
                if state.version.tables(level).any(|table| Arc::ptr_eq(table, old)) {
                    state.version = Arc::new(state.version.with(&[(tag, number)], vec![(level, Arc::new(new))]));
                }
            });
        }
    }

    /// Starts a new log and a new memtable; the present memtable, if it holds anything, waits for the disk from then on.
    ///
    /// # Errors
    /// That of the present log's sync, after which the store refuses writes until it is reopened. That of making the new
    /// log: nothing has changed then, and it may be tried again.
    pub(super) fn rotate(&self, log: &mut LogState) -> Result<()> {
        // Were the new log to survive a power failure that the old one's end does not, writes would be missing in the
        // middle. A few milliseconds in two hundred of loading.
        log.log.sync().inspect_err(|error| self.fail(error))?;
        let number = self.new_file_number();
        let made = create_log(&self.options, &self.dir, self.store_id, number, log.last_sequence + 1);
        // Should the file stay: it says that all writes below its first are known, which remains true.
        log.log = made.inspect_err(|error| {
            self.judge(error);
            self.discard([self.dir.join(log_name(number))]);
        })?;
        let memtable = Arc::new(Memtable::new(number, self.options.write_buffer_bytes));
        self.change_state(|state| state.rotate(memtable));
        Ok(())
    }

    /// Replaces the state that reads see.
    pub(super) fn change_state(&self, change: impl FnOnce(&mut ReadState)) {
        self.state.change(change);
        self.wake_all();
    }

    /// Wakes whoever waits for `work` or `state` to change.
    pub(super) fn wake_all(&self) {
        // With the lock taken nobody can be between looking and sleeping.
        drop(lock(&self.work));
        self.changed.notify_all();
    }

    /// Makes a step durable in the manifest, and then visible.
    ///
    /// # Errors
    /// That of the manifest. The step may or may not be in it then, so the store refuses writes until it is reopened.
    /// [`Error::Poisoned`] after an earlier failure, of anything.
    pub(super) fn install(
        &self,
        mut edit: VersionEdit,
        added: Vec<(usize, Arc<StoredTable>)>,
        change: impl FnOnce(&mut ReadState),
    ) -> Result<()> {
        let mut registry = lock(&self.registry);
        // Looked at under the lock. Of a manifest that failed, or of its name, nothing is known but that it may be lost:
        // no file may be removed on the strength of it. What was merged meanwhile is merged again.
        self.check_writable()?;
        edit.next_file_number = Some(self.next_file_number.load(Ordering::Relaxed));
        let mut next = registry.state.clone();
        next.apply(&edit, 0).inspect_err(|error| self.fail(error))?;
        if let Err(error) = registry.manifest.append(&edit) {
            self.fail(&error);
            return Err(error);
        }
        registry.state = next;
        if registry.manifest.is_long() {
            self.replace_manifest(&mut registry)?;
        }
        self.change_state(|state| {
            for (level, number) in &edit.removed {
                // A table that only changes its level stays.
                let moved = added.iter().any(|(_, table)| table.meta.number == *number);
                let found = state.version.tables(usize::from(*level)).find(|table| table.meta.number == *number);
                if let (false, Some(table)) = (moved, found) {
                    table.mark_obsolete();
                }
            }
            state.version = Arc::new(state.version.with(&edit.removed, added));
            change(state);
        });
        Ok(())
    }

    /// Begins a new manifest with the present state. Where it cannot be made, the one in force goes on.
    ///
    /// # Errors
    /// When nobody knows which of the two is in force; the store refuses writes then until it is reopened.
    fn replace_manifest(&self, registry: &mut Registry) -> Result<()> {
        let storage = self.options.storage.as_ref();
        let old = manifest_name(registry.manifest.number());
        let number = self.new_file_number();
        registry.state.next_file_number = self.next_file_number.load(Ordering::Relaxed);
        let mut made = Manifest::planned(number);
        if let Err(error) = made.prepare(storage, &self.dir, &registry.state.snapshot()) {
            log::warn!("the manifest is not replaced for now: {error}");
            self.judge(&error);
            self.discard([manifest_name(number).as_str(), CURRENT_TEMPORARY].map(|name| self.dir.join(name)));
            return self.check_writable();
        }
        made.put_in_force(storage, &self.dir).inspect_err(|error| self.fail(error))?;
        registry.manifest = made;
        self.discard([self.dir.join(old)]);
        Ok(())
    }

    /// Fails the store, should the caller panic before it drops what this gives.
    pub(super) fn alarm(&self) -> Alarm<'_> {
        Alarm(self)
    }

    /// Notes a failure after which the store takes no more writes.
    pub(super) fn fail(&self, error: &Error) {
        log::error!("{error}");
        lock(&self.work).failure.get_or_insert_with(|| error.to_string());
        self.changed.notify_all();
    }

    /// # Errors
    /// [`Error::Poisoned`] after a failure.
    pub(super) fn check_writable(&self) -> Result<()> {
        match &lock(&self.work).failure {
            None => Ok(()),
            Some(reason) => Err(Error::Poisoned { reason: reason.clone() }),
        }
    }
}

/// Fails the store and wakes everybody when it is dropped by a panic: of a filter policy or a storage, for example.
pub(super) struct Alarm<'a>(&'a Shared);

impl Alarm<'_> {
    /// Nothing happened.
    pub(super) fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        let reason = "a thread of the store panicked in the middle of its work";
        lock(&self.0.work).failure.get_or_insert_with(|| reason.to_owned());
        self.0.changed.notify_all();
    }
}

pub(crate) fn table_id(store_id: &[u8; 16], number: u64) -> TableId {
    let mut id = [0; 16];
    let (store, file) = id.split_at_mut(8);
    store.copy_from_slice(store_id.first_chunk::<8>().unwrap_or(&[0; 8]));
    file.copy_from_slice(&crate::codec::u64_bytes(number));
    id
}

/// Creates a log whose header and name are durable on return: only then may the manifest name it, a write be
/// acknowledged, or a younger log exist.
pub(super) fn create_log(
    options: &Options,
    dir: &std::path::Path,
    store_id: [u8; 16],
    number: u64,
    first_sequence: u64,
) -> Result<LogWriter> {
    let id = LogId { kind: LogKind::WriteAhead, store_id, number };
    let (storage, path) = (options.storage.as_ref(), dir.join(log_name(number)));
    let mut log = LogWriter::create(storage, &path, id, first_sequence)?;
    if let Err(error) = log.sync().and_then(|()| storage.sync_dir(dir)) {
        // Nothing names it. What stays is cleaned away when the store is opened next.
        let _ = storage.remove(&path);
        return Err(error);
    }
    Ok(log)
}

pub(super) fn open_table(
    options: &Options,
    dir: &std::path::Path,
    store_id: &[u8; 16],
    hasher: &KeyHasher,
    reports: &Reports,
    closed: &Arc<Mutex<Removals>>,
    meta: TableMeta,
) -> Result<Arc<StoredTable>> {
    let path = dir.join(table_name(meta.number));
    let read_options = TableReadOptions {
        io: options.io,
        verify: options.verify,
        filter_memory: options.filter_memory,
        strict: options.strict_filters,
        hasher: Some(hasher.clone()),
        table_id: Some(table_id(store_id, meta.number)),
    };
    let table = Table::open(options.storage.as_ref(), &path, read_options)?;
    // The manifest decides which reads come to a table: it must speak of this very file.
    let properties = table.properties();
    let agrees = table.len_bytes() == meta.len_bytes
        && table.smallest() == meta.smallest
        && table.largest() == meta.largest
        && properties.num_entries == meta.num_entries
        && properties.num_tombstones == meta.num_tombstones;
    if !agrees {
        return Err(Error::Corrupt { field: Field::Properties, offset: 0 }.in_file(&path));
    }
    let stored = StoredTable::new(meta, table, path, Arc::clone(&options.storage), Arc::clone(closed));
    reports.look_at(&stored, options.strict_filters)?;
    Ok(Arc::new(stored))
}
