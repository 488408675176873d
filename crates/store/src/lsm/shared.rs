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
use super::removals::{Removals, is_taken};
use super::reports::Reports;
use super::stats::Counters;
use super::version::{ReadContext, StoredTable};
use super::version_edit::{StoreState, TableMeta, VersionEdit};
use super::write_queue::WriteQueue;
use crate::error::{Error, Field, Result};
use crate::sstable::{BlockCache, Table, TableId, TableReadOptions};
use crate::storage::Storage;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::lock;
use crate::sync::{Condvar, Mutex};
use filterblock::{KeyHasher, Reclaimer};

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

/// Which store it is. Nothing of it changes while the store is open, and no lock is needed.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) dir: PathBuf,
    pub(super) store_id: [u8; 16],
    /// Hashes each key, once.
    pub(super) hasher: KeyHasher,
}

impl Identity {
    /// The identity of a table, which its file and its filter must bear: half the store's id and the file's number.
    pub(super) fn table_id(&self, number: u64) -> TableId {
        table_id(&self.store_id, number)
    }
}

/// Bytes of filters that may wait for a background thread to free them; beyond it, a reader frees them.
pub(super) const MAX_WAITING_BYTES: usize = 64 << 20;

/// For whoever makes and removes files; [`Options::storage`] holds the directory.
#[derive(Debug)]
pub(super) struct Files {
    /// The storage as it was given, for paths of other directories.
    pub(super) outside: Arc<dyn Storage>,
    /// Whether the handle is gone, and what is to be removed until then.
    pub(super) closed: Arc<Mutex<Removals>>,
    /// Keeps the bytes of filters that no read needs, until a background thread frees them.
    pub(super) reclaimer: Reclaimer,
}

/// For writers.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) queue: WriteQueue,
    pub(super) log: Mutex<LogState>,
}

/// For whoever installs a change of the tables.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) registry: Mutex<Registry>,
    pub(super) next_file_number: AtomicU64,
}

impl Catalogue {
    pub(super) fn new_file_number(&self) -> u64 {
        self.next_file_number.fetch_add(1, Ordering::Relaxed)
    }
}

/// For the background threads, and for writers and callers that wait for them.
#[derive(Debug)]
pub(super) struct Background {
    pub(super) work: Mutex<Work>,
    /// Told of every change of `work` and of [`Reading::state`].
    pub(super) changed: Condvar,
    pub(super) picker: Mutex<Picker>,
}

impl Background {
    /// Wakes whoever waits for `work` or the state to change.
    fn wake_all(&self) {
        // With the lock taken nobody can be between looking and sleeping.
        drop(lock(&self.work));
        self.changed.notify_all();
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

/// For readers, which take no lock but for reports.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) state: Published,
    pub(super) cache: Option<Arc<BlockCache>>,
    pub(super) counters: Counters,
    pub(super) reports: Reports,
}

/// An open store.
///
/// # Lock order
/// A thread that holds a lock takes only locks further to the right:
/// ```text
/// Writing::log ─┐
///               ├─▶ Published::change ─▶ Background::work ─▶ Background::picker ─▶ Files::closed
/// registry ─────┘
/// ```
/// Nobody holds [`Writing::log`] and [`Catalogue::registry`] at once. The lock of the write queue and that of a ticket are
/// held for moments and with no other, but for a ticket's under the queue's. The lock of the reports is the last of all.
/// No file is written or synced under `work`, `picker` or the queue's lock. Whoever looks at a state under `work` may hold
/// the last reference to it, and so remove the files that a compaction replaced: hence `closed` stands last.
#[derive(Debug)]
pub(super) struct Shared {
    /// Their storage holds the directory: it serves paths in [`Identity::dir`] only.
    pub(super) options: Options,
    pub(super) identity: Identity,
    pub(super) files: Files,
    pub(super) writing: Writing,
    pub(super) catalogue: Catalogue,
    pub(super) background: Background,
    pub(super) reading: Reading,
}

impl Shared {
    #[inline]
    pub(super) fn read_context(&self) -> ReadContext<'_> {
        ReadContext {
            filter_use: self.options.filter_use,
            strict: self.options.strict_filters,
            cache: self.reading.cache.as_deref(),
            reports: &self.reading.reports,
        }
    }

    /// Opens a table of the store and reports a filter that cannot be used.
    pub(super) fn open_table(&self, meta: TableMeta) -> Result<Arc<StoredTable>> {
        open_table(&self.options, &self.identity, &self.files, &self.reading.reports, meta)
    }

    /// Opens tables again whose filter was not to be had when they were opened: it may be now, and reads would do without
    /// it until the store is reopened.
    pub(super) fn fetch_filters(&self) {
        let version = Arc::clone(&self.reading.state.load().version);
        for (level, old) in version.all_tables().filter(|(_, table)| table.lacks_filter()) {
            // What is wrong with it has been told.
            let (options, reports, meta) = (&self.options, Reports::default(), old.meta.clone());
            let new = open_table(options, &self.identity, &self.files, &reports, meta);
            let Some(new) = new.ok().and_then(Arc::into_inner) else { continue };
            let (new, number) = (new.instead_of(old), old.meta.number);
            let Ok(tag) = u8::try_from(level) else { continue };
            if new.lacks_filter() {
                continue;
            }
            // Nobody replaces tables meanwhile.
            let _registry = lock(&self.catalogue.registry);
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
        log.log.sync().inspect_err(|error| self.background.fail(error))?;
        let number = self.catalogue.new_file_number();
        let made = create_log(self.options.storage.as_ref(), &self.identity, number, log.last_sequence + 1);
        // Should the file stay: it says that all writes below its first are known, which remains true.
        log.log = made.inspect_err(|error| {
            self.judge(error);
            if !is_taken(error) {
                self.discard([self.identity.dir.join(log_name(number))]);
            }
        })?;
        let memtable = Arc::new(Memtable::new(number, self.options.write_buffer_bytes));
        self.change_state(|state| state.rotate(memtable));
        Ok(())
    }

    /// Replaces the state that reads see.
    pub(super) fn change_state(&self, change: impl FnOnce(&mut ReadState)) {
        self.reading.state.change(change);
        self.background.wake_all();
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
        let mut registry = lock(&self.catalogue.registry);
        // Looked at under the lock. Of a manifest that failed, or of its name, nothing is known but that it may be lost:
        // no file may be removed on the strength of it. What was merged meanwhile is merged again.
        self.background.check_writable()?;
        edit.next_file_number = Some(self.catalogue.next_file_number.load(Ordering::Relaxed));
        let mut next = registry.state.clone();
        next.apply(&edit, 0).inspect_err(|error| self.background.fail(error))?;
        if let Err(error) = registry.manifest.append(&edit) {
            self.background.fail(&error);
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
        let number = self.catalogue.new_file_number();
        registry.state.next_file_number = self.catalogue.next_file_number.load(Ordering::Relaxed);
        let mut made = Manifest::planned(number);
        if let Err(error) = made.prepare(storage, &self.identity.dir, &registry.state.snapshot()) {
            log::warn!("the manifest is not replaced for now: {error}");
            self.judge(&error);
            if !is_taken(&error) {
                self.discard(
                    [manifest_name(number).as_str(), CURRENT_TEMPORARY].map(|name| self.identity.dir.join(name)),
                );
            }
            return self.background.check_writable();
        }
        made.put_in_force(storage, &self.identity.dir).inspect_err(|error| self.background.fail(error))?;
        registry.manifest = made;
        self.discard([self.identity.dir.join(old)]);
        Ok(())
    }
}

/// Fails the store and wakes everybody when it is dropped by a panic: of a filter policy or a storage, for example.
pub(super) struct Alarm<'a>(&'a Background);

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
    storage: &dyn Storage,
    identity: &Identity,
    number: u64,
    first_sequence: u64,
) -> Result<LogWriter> {
    let id = LogId { kind: LogKind::WriteAhead, store_id: identity.store_id, number };
    let path = identity.dir.join(log_name(number));
    let mut log = LogWriter::create(storage, &path, id, first_sequence)?;
    if let Err(error) = log.sync().and_then(|()| storage.sync_dir(&identity.dir)) {
        // Nothing names it. What stays is cleaned away when the store is opened next.
        let _ = storage.remove(&path);
        return Err(error);
    }
    Ok(log)
}

/// Opens a table of the store and reports a filter that cannot be used.
pub(super) fn open_table(
    options: &Options,
    identity: &Identity,
    files: &Files,
    reports: &Reports,
    meta: TableMeta,
) -> Result<Arc<StoredTable>> {
    let path = identity.dir.join(table_name(meta.number));
    let read_options = TableReadOptions {
        io: options.io,
        verify: options.verify,
        filter_memory: options.filter_memory,
        strict: options.strict_filters,
        hasher: Some(identity.hasher.clone()),
        table_id: Some(identity.table_id(meta.number)),
        reclaimer: Some(files.reclaimer.clone()),
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
    let stored = StoredTable::new(meta, table, path, Arc::clone(&options.storage), Arc::clone(&files.closed));
    stored.report_filter(reports, options.strict_filters)?;
    Ok(Arc::new(stored))
}
