//! Defines the state that the handles and threads of one open store share, and the functions that
//! change it.

use std::path::PathBuf;
use std::sync::Arc;

use super::background::Background;
use super::files::{CURRENT_TEMPORARY, Removals, is_taken, log_name, manifest_name, remove, table_name};
use super::manifest::Manifest;
use super::manifest::edit::{StoreState, TableMeta, VersionEdit, table_id};
use super::memtable::Memtable;
use super::options::Options;
use super::stats::store_stats::Reports;
use super::stats::{Counters, Task};
use super::version::Version;
use super::version::read_state::{Published, ReadState};
use super::version::run_map::Mapper;
use super::version::stored_table::StoredTable;
use super::wal::batch::WriteBatch;
use super::wal::{LogId, LogKind, LogWriter};
use crate::error::{Error, Field, Result};
use crate::sstable::{BlockCache, Table, TableId, TableReadOptions};
use crate::storage::Storage;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, lock};
use filterblock::{FilterCache, KeyHasher, PrefixExtractor, Reclaimer};

#[derive(Debug)]
pub(super) struct LogState {
    pub(super) log: LogWriter,
    /// The sequence number of the last write.
    pub(super) last_sequence: u64,
}

#[derive(Debug)]
pub(super) struct Registry {
    pub(super) manifest: Manifest,
    pub(super) state: StoreState,
}

/// The identity of the store. It never changes while the store is open, so it needs no lock.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) dir: PathBuf,
    pub(super) store_id: [u8; 16],
    /// The hash function for keys. A read or write hashes each key once, for all filters.
    pub(super) hasher: KeyHasher,
    /// The extractor of the prefixes that new filters hold and about which reads ask filters.
    pub(super) extractor: Option<PrefixExtractor>,
}

impl Identity {
    pub(super) fn table_id(&self, number: u64) -> TableId {
        table_id(&self.store_id, number)
    }
}

/// The maximum total length in bytes of the dropped filters that wait for a background thread to
/// free them. The thread whose drop exceeds this limit frees them all.
pub(super) const MAX_WAITING_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct Files {
    /// The original storage, for paths in other directories. [`Options::storage`] may hold the
    /// store's directory open.
    pub(super) outside: Arc<dyn Storage>,
    pub(super) closed: Arc<Mutex<Removals>>,
    /// Keeps the memory of unneeded filters until it is freed: see [`MAX_WAITING_BYTES`].
    pub(super) reclaimer: Reclaimer,
    /// Reads filters and bounds their memory, with [`Options::filter_memory_budget`].
    pub(super) filter_cache: Option<FilterCache>,
}

#[derive(Debug)]
pub(super) struct Writing {
    pub(super) queue: WriteQueue,
    pub(super) log: Mutex<LogState>,
}

/// The maximum length in bytes of a group of batches in one log record, unless a single batch is
/// longer.
const MAX_GROUP_LEN_BYTES: usize = 1 << 20;

/// The maximum number of bytes that are written before the free space is checked again, because
/// other programs may write, too.
pub(super) const MAX_UNSEEN_BYTES: u64 = 1 << 20;

/// The minimum number of bytes that are written before the free space is checked again. With this
/// minimum, deletions on a full disk do not check at each write. Only puts check at each write
/// while space is short.
const MIN_UNSEEN_BYTES: u64 = 4 << 10;

/// Writers that wait for the leader, the bytes of the current step, and the result of the last
/// check of the free space.
#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    pub(super) inner: Mutex<Queue>,
    pub(super) changed: Condvar,
    pub(super) space: Space,
    /// Bytes written since the last step.
    in_step: AtomicU64,
}

/// The minimum number of bytes in a step. The leader slows down at most once per step.
const STEP_LEN_BYTES: u64 = 64 << 10;

impl WriteQueue {
    /// Counts bytes that the leader will write. Returns whether they complete a step.
    pub(super) fn is_step_done(&self, len_bytes: u64) -> bool {
        // Only the leader changes the counter.
        let in_step = self.in_step.load(Ordering::Relaxed).saturating_add(len_bytes);
        let is_done = in_step >= STEP_LEN_BYTES;
        self.in_step.store(if is_done { 0 } else { in_step }, Ordering::Relaxed);
        is_done
    }
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) has_leader: bool,
    pub(super) waiting: Vec<Arc<Ticket>>,
    /// The number of sleeping threads. Without sleepers, the wake-up system call is skipped.
    pub(super) sleepers: usize,
}

impl Queue {
    /// The size is bounded, so that the first writer does not wait long and the log record does not overflow.
    pub(super) fn take_group(&mut self) -> Vec<Arc<Ticket>> {
        let mut len_bytes = 0usize;
        let fitting = self.waiting.iter().take_while(|ticket| {
            len_bytes = len_bytes.saturating_add(ticket.batch.len_bytes());
            len_bytes <= MAX_GROUP_LEN_BYTES
        });
        let len = fitting.count().max(1).min(self.waiting.len());
        self.waiting.drain(..len).collect()
    }
}

/// The batch of a waiting writer. The leader stores the result of the write here.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) batch: WriteBatch,
    pub(super) sync: bool,
    pub(super) result: Mutex<Option<Result<()>>>,
}

/// The result of the last check of the free space.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Bytes of batches, each with a record header, that writers have announced since the check.
    pub(super) written: AtomicU64,
    /// Bytes that may be written before the next check.
    pub(super) allowance: AtomicU64,
    /// Whether the free space was too small for puts.
    pub(super) is_short: AtomicBool,
}

impl Space {
    pub(super) fn allow(&self, bytes: u64, is_short: bool) {
        self.written.store(0, Ordering::Relaxed);
        self.allowance.store(bytes.clamp(MIN_UNSEEN_BYTES, MAX_UNSEEN_BYTES), Ordering::Relaxed);
        self.is_short.store(is_short, Ordering::Relaxed);
    }
}

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

/// Shared state for readers. Apart from the locks of the cache, a read usually takes no lock.
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
/// Writing::log ──────┐
///                    ├─▶ Published::change ─▶ Background::work ─▶ Background::picker, pace ─▶ Files::closed
/// mapper ─▶ registry ┘
/// ```
/// No thread holds [`Writing::log`] and [`Catalogue::registry`] at the same time. The locks of the
/// write queue and of a ticket are held only briefly. A ticket's lock may be taken under the
/// queue's lock, but neither is held with any other lock. No file is written or synced under
/// `work`, `picker` or the queue's lock.
///
/// The locks of the reports, of the replaced states, of the stall counters, of the reclaimer and of an
/// SST's place in the map may be taken under any other lock. No lock is taken under them.
///
/// A thread that clones a version under `work` may drop the last reference to the version, and
/// thereby remove replaced files. This is why `closed` stands to the right of `work`.
#[derive(Debug)]
pub(super) struct Shared {
    /// The storage in these options may hold the directory open. Use it only for paths in
    /// [`Identity::dir`].
    pub(super) options: Options,
    pub(super) identity: Identity,
    pub(super) files: Files,
    pub(super) writing: Writing,
    pub(super) catalogue: Catalogue,
    pub(super) background: Background,
    pub(super) mapper: Mutex<Mapper>,
    pub(super) reading: Reading,
}

impl Shared {
    pub(super) fn version(&self) -> Arc<Version> {
        Arc::clone(&self.reading.state.load().version)
    }

    pub(super) fn open_table(&self, meta: TableMeta) -> Result<Arc<StoredTable>> {
        open_table(&self.options, &self.identity, &self.files, &self.reading.reports, meta)
    }

    /// Reopens SSTs whose filter could not be loaded, because the filter may be loadable now.
    pub(super) fn fetch_filters(&self) {
        let version = self.version();
        for (level, old) in version.all_tables().filter(|(_, table)| table.lacks_filter()) {
            // The filter's problems have been reported already.
            let (options, reports, meta) = (&self.options, Reports::default(), old.meta.clone());
            let new = open_table(options, &self.identity, &self.files, &reports, meta);
            let Some(new) = new.ok().and_then(Arc::into_inner) else { continue };
            let (new, number) = (new.instead_of(old), old.meta.number);
            let Ok(tag) = u8::try_from(level) else { continue };
            if new.lacks_filter() {
                continue;
            }
            // The lock keeps other threads from replacing SSTs.
            let _registry = lock(&self.catalogue.registry);
            self.change_state(|state| {
                if state.version.tables(level).any(|table| Arc::ptr_eq(table, old)) {
                    state.version = Arc::new(state.version.with(&[(tag, number)], vec![(level, Arc::new(new))]));
                }
            });
        }
    }

    pub(super) fn rebalance_filters(&self) {
        let Some(cache) = &self.files.filter_cache else { return };
        // Filters that only an earlier version uses take room.
        self.reading.state.drop_replaced();
        cache.rebalance();
        // The new version also knows the rates of filters that reads have loaded. The lock keeps other threads from replacing SSTs.
        let registry = lock(&self.catalogue.registry);
        let version = Arc::new(self.reading.state.load().version.with_filters_of_cache());
        self.change_state(|state| state.version = version);
        drop(registry);
        self.release_map();
        self.reading.state.drop_replaced();
    }

    /// Syncs the old log, and starts a new log and a new memtable. If the old memtable holds
    /// entries, it becomes immutable and waits for its flush.
    ///
    /// # Errors
    /// If the old log cannot be synced, the store refuses writes until it is reopened. If the new
    /// log cannot be created, the old log and memtable stay in use. The caller may then try again,
    /// unless the sync of the directory failed.
    pub(super) fn rotate(&self, log: &mut LogState) -> Result<()> {
        // Sync the old log first. If a power failure kept the new log and lost the end of the old
        // one, writes would be missing in the middle.
        log.log.sync().inspect_err(|error| self.background.fail(error))?;
        let number = self.catalogue.new_file_number();
        let made = create_log(self.options.storage.as_ref(), &self.identity, number, log.last_sequence + 1);
        // The new file may stay if it cannot be removed. It states that no write before its first
        // write is missing, and this remains true.
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

    pub(super) fn change_state(&self, change: impl FnOnce(&mut ReadState)) {
        self.reading.state.change(change);
        self.background.wake_all();
    }

    /// Makes an edit durable in the manifest and then visible. SSTs that the edit removes and does
    /// not move become obsolete. If the manifest is long, a new one replaces it.
    ///
    /// # Errors
    /// After an error, the edit may be in the manifest or not, so the store refuses writes until it
    /// is reopened.
    pub(super) fn install(
        &self,
        mut edit: VersionEdit,
        added: Vec<(usize, Arc<StoredTable>)>,
        change: impl FnOnce(&mut ReadState),
    ) -> Result<()> {
        let mut registry = lock(&self.catalogue.registry);
        // Check under the lock. A manifest whose write failed, or whose name could not be synced,
        // may be lost. No file may then be removed because of an edit in it.
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
                // The file of an SST that only changes its level stays.
                let moved = added.iter().any(|(_, table)| table.meta.number == *number);
                let found = state.version.tables(usize::from(*level)).find(|table| table.meta.number == *number);
                if let (false, Some(table)) = (moved, found) {
                    table.mark_obsolete();
                }
            }
            state.version = Arc::new(state.version.with(&edit.removed, added));
            change(state);
        });
        drop(registry);
        self.reading.state.drop_replaced();
        Ok(())
    }

    /// Starts a new manifest with the current state. If the new manifest cannot be created, the old
    /// one stays in use.
    ///
    /// # Errors
    /// After an error, it may be unknown which of the two manifests is in force, so the store
    /// refuses writes until it is reopened.
    fn replace_manifest(&self, registry: &mut Registry) -> Result<()> {
        let storage = self.options.storage.as_ref();
        let old = manifest_name(registry.manifest.number());
        let number = self.catalogue.new_file_number();
        registry.state.next_file_number = self.catalogue.next_file_number.load(Ordering::Relaxed);
        let mut made = Manifest::planned(number);
        if let Err(error) = made.prepare(storage, &self.identity.dir, &registry.state.snapshot()) {
            log::warn!("the manifest could not be replaced; the store tries again after the next change: {error}");
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

    /// Records the result of an attempt at a background task. After a failure, schedules a retry,
    /// unless the store has failed. After a success, tries again to remove files and to load
    /// filters.
    pub(super) fn note_attempt(&self, task: Task, result: &Result<()>) {
        self.files.reclaimer.reclaim();
        let Err(error) = result else {
            lock(&self.background.work).attempts(task).succeed();
            self.background.changed.notify_all();
            self.remove_left();
            self.fetch_filters();
            return;
        };
        self.judge(error);
        let mut work = lock(&self.background.work);
        if work.failure.is_none() {
            let name = match task {
                Task::Flush => "flush",
                Task::Compaction => "compaction",
            };
            log::warn!("a background {name} failed, and the store tries it again: {error}");
            work.attempts(task).fail(error);
        }
        drop(work);
        self.background.changed.notify_all();
    }

    /// Fails the store if `error` is a failed sync of the store's directory. Names that other
    /// threads have just created there may then be lost too, and no later sync reports the loss.
    pub(super) fn judge(&self, error: &Error) {
        // With ENFILE or EMFILE, the directory could not be opened. Nothing was synced then, and
        // nothing was lost.
        let is_tried = |source: &Error| matches!(source, Error::Io(error) if !cfg!(unix) || !matches!(error.raw_os_error(), Some(23 | 24)));
        if matches!(error, Error::InFile { path, source } if *path == self.identity.dir && is_tried(source)) {
            self.background.fail(error);
        }
    }

    /// Removes unneeded files. A missing file is not an error. The store tries again later to
    /// remove a file that cannot be removed now.
    ///
    /// The caller must keep the store open: after a close, the files may belong to another store.
    /// The lock of `Files::closed` is not held while a file is deleted: the deletion may take long,
    /// and a thread that drops a replaced SST needs the lock.
    pub(super) fn discard(&self, paths: impl IntoIterator<Item = PathBuf>) {
        let storage = self.options.storage.as_ref();
        let left: Vec<PathBuf> = paths.into_iter().filter(|path| !remove(storage, path)).collect();
        if !left.is_empty() {
            lock(&self.files.closed).left.extend(left);
        }
    }

    /// Tries again to remove files that could not be removed. The caller must keep the store open.
    pub(super) fn remove_left(&self) {
        let left = std::mem::take(&mut lock(&self.files.closed).left);
        self.discard(left);
    }
}

/// Creates a log whose header and name are durable on return. Before this function returns, no
/// manifest may name the log, no write in it may be acknowledged, and no younger log may exist.
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
        // Nothing names this file. If it stays, the next open removes it.
        let _ = storage.remove(&path);
        return Err(error);
    }
    Ok(log)
}

/// Opens an SST of the store, checks that the file agrees with `meta`, and reports an unusable
/// filter. With [`Options::strict_filters`], an unusable filter is an error.
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
        prefix_extractor: identity.extractor.clone(),
    };
    let table = Table::open_in(files.filter_cache.as_ref(), options.storage.as_ref(), &path, read_options)?;
    // The manifest decides which reads use an SST, so the manifest's metadata must match the file.
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
    stored.report_filter(stored.table.filter_in_memory().as_deref(), reports, options.strict_filters)?;
    Ok(Arc::new(stored))
}
