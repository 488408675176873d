//! Opens or creates a store: takes its lock, and reads its manifest, SSTs and write-ahead logs.
//!
//! By default, an open reads and verifies the filter of each SST, about one byte per key. One thread
//! would need a long time for a large store, so several threads open its SSTs.

pub(crate) mod ownership;
pub(crate) mod replay;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use self::ownership::Ownership;
use self::replay::{Site, bring_in, check_file_numbers, read_logs, remove_leftovers, replay, sweep, undo};
use crate::codec::{u64_bytes, u64_from};
use crate::error::{Error, Field, Result};
use crate::lsm::background::Background;
use crate::lsm::compaction::picker;
use crate::lsm::files::{CURRENT, FileName, LOCK, manifest_name, not_found, number_in, parse, table_name};
use crate::lsm::manifest::Manifest;
use crate::lsm::manifest::edit::{MAX_NUMBER, StoreState, TableMeta, first_overlap};
use crate::lsm::memtable::Memtable;
use crate::lsm::options::{Options, PrefixChoice};
use crate::lsm::shared::{
    Catalogue, Files, Identity, LogState, MAX_WAITING_BYTES, Reading, Registry, Shared, WriteQueue, Writing, open_table,
};
use crate::lsm::stats::Counters;
use crate::lsm::stats::store_stats::Reports;
use crate::lsm::version::Version;
use crate::lsm::version::read_state::{Published, ReadState};
use crate::lsm::wal::LogWriter;
use crate::sstable::{BlockCache, TableReadOptions};
use crate::storage::Storage;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;
use filterblock::{FilterCache, HashKind, HashSeed, KeyHasher, PrefixExtractor, Reclaimer};

/// Opens or creates the store in `dir`. Returns the store and a guard. Dropping the guard releases
/// the store's lock.
pub(in crate::lsm) fn open(dir: &Path, options: Options) -> Result<(Arc<Shared>, Box<dyn Send + Sync>)> {
    options.check()?;
    if !check_dir(options.storage.as_ref(), dir, options.create_if_missing)? {
        // Report an unusable secret or hash kind before the directory is created.
        new_hasher(&options)?;
        create_dir_durably(options.storage.as_ref(), dir)?;
    }
    let (options, outside) = hold(dir, options)?;
    let storage = Arc::clone(&options.storage);
    // Check again: the path may lead to another directory by now.
    check_dir(storage.as_ref(), dir, options.create_if_missing)?;
    let lock = storage.lock(&dir.join(LOCK))?;
    Ok((open_locked(dir, options, outside)?, lock))
}

/// A store that was opened only to recover its logs. It answers reads and runs no threads.
#[derive(Debug)]
pub(crate) struct Recovered(Arc<Shared>);

impl Recovered {
    /// Opens the store. The caller has the store's lock and passes the results of [`hold`].
    pub(crate) fn open(dir: &Path, options: Options, outside: Arc<dyn Storage>) -> Result<Self> {
        super::recovery::open_locked(dir, options, outside).map(Self)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (state, sequence) = self.0.reading.state.moment();
        self.0.get(&state, key, sequence)
    }

    /// Returns the options for reading a file that claims to be SST `number` of this store.
    pub(crate) fn table_read_options(&self, number: u64) -> TableReadOptions {
        TableReadOptions {
            hasher: Some(self.0.identity.hasher.clone()),
            table_id: Some(self.0.identity.table_id(number)),
            prefix_extractor: self.0.identity.extractor.clone(),
            ..TableReadOptions::default()
        }
    }
}

/// The empty path stands for the working directory.
pub(crate) fn named(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Refuses a directory of another program, so that no lock file is created in it.
fn check_dir(storage: &dyn Storage, dir: &Path, create_if_missing: bool) -> Result<bool> {
    let is_there = storage.exists(&dir.join(CURRENT))?;
    if is_there {
        ownership::check_current(storage, dir)?;
    } else {
        check_may_create(storage, dir, create_if_missing)?;
    }
    Ok(is_there)
}

/// Returns options whose storage holds the directory open, and the original storage. If the
/// original storage never needs to hold a directory open, both storages are the same.
pub(crate) fn hold(dir: &Path, options: Options) -> Result<(Options, Arc<dyn Storage>)> {
    options.check()?;
    let outside = Arc::clone(&options.storage);
    let storage = outside.hold(dir)?.unwrap_or_else(|| Arc::clone(&outside));
    Ok((Options { storage, ..options }, outside))
}

/// Opens or creates a store for a caller that has its lock. `options` and `outside` come from
/// [`hold`].
///
/// In an existing store, this function creates no file before it has read and checked the manifest,
/// the SSTs and the logs. After a later failure it tries to remove the new files again, unless the
/// new manifest may be in force.
fn open_locked(dir: &Path, options: Options, outside: Arc<dyn Storage>) -> Result<Arc<Shared>> {
    let reports = Reports::default();
    let found = if options.storage.exists(&dir.join(CURRENT))? {
        recover_registry(&options, dir, &reports)?
    } else {
        // Check again under the lock. A new store must never replace files of an existing one.
        check_may_create(options.storage.as_ref(), dir, options.create_if_missing)?;
        create_registry(&options, dir)?
    };
    let state = &found.registry.state;
    let Found { hasher, extractor, .. } = found;
    let identity = Identity { dir: dir.to_path_buf(), store_id: state.store_id, hasher, extractor };
    let (closed, reclaimer) = (Arc::default(), Reclaimer::with_limit(MAX_WAITING_BYTES));
    let filter_cache = options.filter_memory_budget.map(FilterCache::new);
    let files = Files { outside, closed, reclaimer, filter_cache };
    let open = |meta: &TableMeta| open_table(&options, &identity, &files, &reports, meta.clone());
    let metas: Vec<&TableMeta> = state.levels.iter().flatten().collect();
    let mut opened = open_tables(&metas, open).map_err(|error| error.with_num_tables(metas.len()))?.into_iter();
    let levels = state.levels.iter().map(|level| opened.by_ref().take(level.len()).collect()).collect();
    let version = Version::new(levels, &identity.hasher, (files.filter_cache.clone(), options.min_mapped()));
    found.doubt.iter().for_each(|doubt| doubt.report(dir, &version, &reports));
    let site = Site { options: &options, dir, store_id: state.store_id, reports: &reports };
    let logs = read_logs(&site, state.log_number)?;
    let replayed = replay(&site, &logs, state.log_number, state.last_sequence)?;
    // All files are checked. In an existing store, this function creates and removes files only
    // from here on.
    sweep(&site);
    let shared = build(options, identity, files, found.registry, version, reports);
    bring_in(&shared, replayed, found.is_torn).inspect_err(|_| undo(&shared))?;
    remove_leftovers(&shared);
    Ok(shared)
}

/// Creates a directory and makes its name and its parents' names durable. The names of existing
/// directories are synced too: an earlier attempt may have created a directory and then failed to
/// sync its name. If the storage refuses to sync the name of an existing directory, the function
/// goes on.
pub(crate) fn create_dir_durably(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let is_path = |path: &&Path| !path.as_os_str().is_empty();
    let (mut created, mut found) = (Vec::new(), Vec::new());
    for path in dir.ancestors().filter(is_path) {
        if storage.exists(path)? { found.push(path) } else { created.push(path) }
    }
    storage.create_dir_all(dir)?;
    let sync_name = |path: &Path| match path.parent() {
        Some(parent) => storage.sync_dir(if is_path(&parent) { parent } else { Path::new(".") }),
        None => Ok(()),
    };
    created.into_iter().try_for_each(sync_name)?;
    found.into_iter().try_for_each(|path| match sync_name(path) {
        // The sync is refused, for example without permission. Then either an earlier attempt
        // created no name in the parent directory, or nothing can make the name durable.
        Err(error) if is_refused(&error) => Ok(()),
        result => result,
    })
}

fn is_refused(error: &Error) -> bool {
    use std::io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(error.root(), Error::Io(error)
        if matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | Unsupported | InvalidInput))
}

/// Checks that a store may be created in `dir`, which has no `CURRENT`: the options allow it, and
/// the directory is missing or holds nothing but leftovers of an interrupted creation.
fn check_may_create(storage: &dyn Storage, dir: &Path, create_if_missing: bool) -> Result<()> {
    let missing = || {
        let reason = "there is no store here; check the path, or set create_if_missing to create one";
        not_found(reason).in_file(dir)
    };
    if !storage.exists(dir)? {
        return if create_if_missing { Ok(()) } else { Err(missing()) };
    }
    // A crash during the creation of a store may leave such files. None of them can hold data.
    let is_ours =
        |name: &String| matches!(parse(name), Some(FileName::Lock | FileName::Manifest(_) | FileName::Temporary));
    let judged = Ownership::judge(storage, dir)?;
    if !storage.list(dir)?.iter().all(is_ours) {
        // If the files belong to a known engine, an error with its name is better than `NotAStore`.
        judged.require_store(dir)?;
        return Err(Error::NotAStore.in_file(dir));
    }
    judged.require_nothing_foreign(dir)?;
    if create_if_missing { Ok(()) } else { Err(missing()) }
}

pub(crate) fn random_u64() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(std::io::Error::from)?;
    Ok(u64_from(&bytes))
}

pub(crate) fn new_hasher(options: &Options) -> Result<KeyHasher> {
    let by_secret = if options.secret.is_some() { HashKind::SipHash13 } else { HashKind::Xxh3 };
    let seed = options.hash_seed.map_or_else(random_u64, Ok)?;
    Ok(KeyHasher::new(options.hash.unwrap_or(by_secret), HashSeed(seed), options.secret.as_ref())?)
}

pub(crate) fn its_hasher(options: &Options, state: &StoreState) -> Result<KeyHasher> {
    match options.hash {
        Some(wanted) if wanted != state.hash.kind => {
            let (found, expected) = (state.hash.kind.to_string(), wanted.to_string());
            Err(filterblock::Error::Unexpected { field: filterblock::Field::HashId, found, expected }.into())
        }
        _ => Ok(state.hash.hasher(options.secret.as_ref())?),
    }
}

struct Found {
    /// The new manifest and the state. For an existing store, the manifest is only planned: its
    /// file does not exist yet.
    registry: Registry,
    hasher: KeyHasher,
    extractor: Option<PrefixExtractor>,
    doubt: Option<PrefixDoubt>,
    /// Whether the last edits of the manifest may be lost.
    is_torn: bool,
}

fn create_registry(options: &Options, dir: &Path) -> Result<Found> {
    let storage = options.storage.as_ref();
    // A crash or an error left these files before the first manifest came into force.
    for name in storage.list(dir)? {
        if matches!(parse(&name), Some(FileName::Manifest(_) | FileName::Temporary)) {
            storage.remove(&dir.join(name))?;
        }
    }
    let mut store_id = [0; 16];
    for half in store_id.chunks_mut(8) {
        half.copy_from_slice(&u64_bytes(random_u64()?));
    }
    let hasher = new_hasher(options)?;
    let (extractor, _) = choose_extractor(&options.prefix_extractor, None);
    let state = StoreState {
        store_id,
        hash: hasher.identity(),
        prefix_extractor: extractor.as_ref().map(|extractor| extractor.name().to_owned()),
        next_file_number: 2,
        ..StoreState::default()
    };
    let manifest = Manifest::create(storage, dir, 1, &state.snapshot())?;
    Ok(Found { registry: Registry { manifest, state }, hasher, extractor, doubt: None, is_torn: false })
}

fn in_range(number: u64, field: Field, path: &Path) -> Result<()> {
    if number <= MAX_NUMBER { Ok(()) } else { Err(Error::Corrupt { field, offset: 0 }.in_file(path)) }
}

pub(crate) fn in_order(state: &StoreState, path: &Path) -> Result<()> {
    in_range(state.next_file_number, Field::FileNumber, path)?;
    in_range(state.last_sequence, Field::LogSequence, path)?;
    // Reads would treat such an SST as newer than future writes.
    if state.levels.iter().flatten().any(|table| table.largest_sequence > state.last_sequence) {
        return Err(Error::Corrupt { field: Field::LogSequence, offset: 0 }.in_file(path));
    }
    if state.levels.iter().skip(1).any(|level| first_overlap(level.iter()).is_some()) {
        return Err(Error::Corrupt { field: Field::Level, offset: 0 }.in_file(path));
    }
    Ok(())
}

fn recover_registry(options: &Options, dir: &Path, reports: &Reports) -> Result<Found> {
    let storage = options.storage.as_ref();
    let names = storage.list(dir)?;
    let tables = names
        .iter()
        .filter_map(|name| if let Some(FileName::Table(number)) = parse(name) { Some(number) } else { None });
    let recovered = Manifest::recover(storage, dir, Some(&tables.collect()))?;
    let path = dir.join(manifest_name(recovered.number));
    let mut state = recovered.state;
    // With another secret, filters would deny present keys. With another hash kind, reads would be
    // slower, or less safe against chosen keys, than the caller expects. Both are errors.
    let hasher = its_hasher(options, &state).map_err(|error| error.in_file(&path))?;
    in_order(&state, &path)?;
    let (extractor, doubt) = choose_extractor(&options.prefix_extractor, state.prefix_extractor.as_deref());
    // Keep the name of an extractor that this program does not have. The program that has it may
    // open the store again.
    if !matches!(doubt, Some(PrefixDoubt::Unknown { .. })) {
        state.prefix_extractor = extractor.as_ref().map(|extractor| extractor.name().to_owned());
    }
    // File numbers assigned after the last edit must not be assigned again.
    for name in names {
        if let Some(number) = number_in(&name) {
            in_range(number, Field::FileNumber, &dir.join(&name))?;
            state.next_file_number = state.next_file_number.max(number + 1);
        }
    }
    if let Some(number) = recovered.missing {
        let reason = "the manifest names this SST, but the file is missing; restore from a backup, or run \
                      \"filterblock db repair\"";
        return Err(not_found(reason).in_file(&dir.join(table_name(number))));
    }
    check_file_numbers(storage, dir, state.next_file_number)?;
    let is_torn = !recovered.end.is_clean();
    if is_torn {
        reports.add_tail(recovered.end.tail(&path));
    }
    // Every open starts a new manifest. The last sync of the old manifest may have failed. Its end
    // may then exist only in the page cache, and later syncs do not write it. A power failure would
    // lose that end and every edit appended after it.
    let manifest = Manifest::planned(state.next_file_number);
    state.next_file_number += 1;
    Ok(Found { registry: Registry { manifest, state }, hasher, extractor, doubt, is_torn })
}

/// Builds the store without a log. [`bring_in`] creates the log.
fn build(
    options: Options,
    identity: Identity,
    files: Files,
    registry: Registry,
    version: Version,
    reports: Reports,
) -> Arc<Shared> {
    let StoreState { last_sequence, next_file_number, .. } = registry.state;
    let memtable = Arc::new(Memtable::new(0, options.write_buffer_bytes));
    let state = ReadState { memtable, immutable: Vec::new(), version: Arc::new(version) };
    let log = LogState { log: LogWriter::none(), last_sequence };
    let cache = (options.block_cache_bytes > 0).then(|| Arc::new(BlockCache::new(options.block_cache_bytes)));
    let state = Published::new(state, last_sequence);
    Arc::new(Shared {
        identity,
        files,
        writing: Writing { queue: WriteQueue::default(), log: Mutex::new(log) },
        catalogue: Catalogue { registry: Mutex::new(registry), next_file_number: AtomicU64::new(next_file_number) },
        background: Background::new(picker(&options)),
        mapper: Mutex::default(),
        reading: Reading { state, cache, counters: Counters::new(), reports },
        options,
    })
}

/// The reason why scans may be unable to skip SSTs by their prefixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PrefixDoubt {
    /// The manifest names an extractor that is not built in, and the options do not set it.
    Unknown { stored: String },
    /// The store was written with another extractor, or with none.
    Changed { stored: Option<String>, now: String },
}

/// Returns the extractor to use, and a doubt to report if there is one. `stored` is the extractor's
/// name in the manifest.
pub(crate) fn choose_extractor(
    choice: &PrefixChoice,
    stored: Option<&str>,
) -> (Option<PrefixExtractor>, Option<PrefixDoubt>) {
    match (choice, stored) {
        (PrefixChoice::None, _) | (PrefixChoice::Keep, None) => (None, None),
        (PrefixChoice::Keep, Some(name)) => match name.parse() {
            Ok(extractor) => (Some(extractor), None),
            Err(_) => (None, Some(PrefixDoubt::Unknown { stored: name.to_owned() })),
        },
        (PrefixChoice::By(extractor), _) => {
            let (stored, now) = (stored.map(str::to_owned), extractor.name().to_owned());
            let is_same = stored.as_ref() == Some(&now);
            (Some(extractor.clone()), (!is_same).then_some(PrefixDoubt::Changed { stored, now }))
        }
    }
}

impl PrefixDoubt {
    /// A changed extractor is reported only if an SST lacks its prefixes.
    fn report(&self, dir: &Path, version: &Version, reports: &Reports) {
        let dir = dir.display();
        let num_tables = version.levels.iter().map(|level| level.slots.len()).sum::<usize>();
        match self {
            Self::Unknown { stored } => reports.add(format!(
                "{dir}: the store has the prefix extractor {stored:?}, which is not built in and was not given; scans \
                 skip no SST by its prefixes, and new filters get no prefixes; open the store with a program that \
                 gives this extractor"
            )),
            Self::Changed { stored, now } => {
                let lacking = version.num_tables_without_prefixes();
                if lacking == 0 {
                    return;
                }
                let before =
                    stored.as_ref().map_or_else(|| "no prefix extractor".to_owned(), |name| format!("{name:?}"));
                reports.add(format!(
                    "{dir}: the prefix extractor is now {now:?}, and the store was written with {before}; scans cannot \
                     skip {lacking} of {num_tables} SSTs by prefix until a compaction writes new filters for them"
                ));
            }
        }
    }
}

/// The minimum total length of the SSTs for more than one thread. In a smaller store, more threads
/// save little time.
const MIN_BYTES: u64 = 256 << 20;

/// The maximum number of threads. Even more threads would save little time.
const MAX_THREADS: usize = 8;

/// Calls `open` for each SST in `metas`, on several threads if the store is large. Returns the
/// results in the order of `metas`.
///
/// # Errors
/// Returns the error of the first SST in that order whose `open` fails.
fn open_tables<T: Send>(metas: &[&TableMeta], open: impl Fn(&TableMeta) -> Result<T> + Sync) -> Result<Vec<T>> {
    let num_bytes = metas.iter().fold(0u64, |sum, meta| sum.saturating_add(meta.len_bytes));
    let num_threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(metas.len());
    if num_bytes < MIN_BYTES || num_threads < 2 {
        return metas.iter().map(|meta| open(meta)).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut opened = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(meta) = metas.get(place) else { return opened };
            opened.push((place, open(meta)));
        }
    };
    let mut all = thread::scope(|scope| {
        // If no thread can be started, the calling thread opens all SSTs.
        let start = |_| thread::Builder::new().name("filterblock-open".into()).spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..num_threads).filter_map(start).collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(opened) => all.extend(opened),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, opened)| opened).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_and_the_manifest_decide_the_extractor() {
        let named = PrefixExtractor::named("tenant", |_| None).unwrap();
        let fixed: PrefixExtractor = "fixed:8".parse().unwrap();
        let unknown = |stored: &str| Some(PrefixDoubt::Unknown { stored: stored.to_owned() });
        let changed = |stored: Option<&str>, now: &str| {
            Some(PrefixDoubt::Changed { stored: stored.map(str::to_owned), now: now.to_owned() })
        };
        let by = |extractor: &PrefixExtractor| PrefixChoice::By(extractor.clone());
        for (choice, stored, extractor, doubt) in [
            (PrefixChoice::Keep, None, None, None),
            (PrefixChoice::Keep, Some("fixed:8"), Some(&fixed), None),
            (PrefixChoice::Keep, Some("tenant"), None, unknown("tenant")),
            (PrefixChoice::None, Some("fixed:8"), None, None),
            (by(&fixed), Some("fixed:8"), Some(&fixed), None),
            (by(&fixed), Some("fixed:4"), Some(&fixed), changed(Some("fixed:4"), "fixed:8")),
            (by(&named), None, Some(&named), changed(None, "tenant")),
        ] {
            assert_eq!(choose_extractor(&choice, stored), (extractor.cloned(), doubt), "{choice} {stored:?}");
        }
    }

    fn metas(len_bytes: u64) -> Vec<TableMeta> {
        (0..100).map(|number| TableMeta { number, len_bytes, ..TableMeta::default() }).collect()
    }

    #[test]
    fn ssts_come_in_order_on_one_or_several_threads() {
        for len_bytes in [1, MIN_BYTES] {
            let metas = metas(len_bytes);
            let metas: Vec<&TableMeta> = metas.iter().collect();
            let opened = open_tables(&metas, |meta| Ok(meta.number)).unwrap();
            assert_eq!(opened, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_error_of_the_first_failing_sst_is_returned() {
        for len_bytes in [1, MIN_BYTES] {
            let metas = metas(len_bytes);
            let metas: Vec<&TableMeta> = metas.iter().collect();
            let fails = |meta: &TableMeta| match meta.number {
                37.. => Err::<(), _>(Error::InvalidArgument { what: "number", reason: meta.number.to_string() }),
                _ => Ok(()),
            };
            let error = open_tables(&metas, fails).unwrap_err();
            assert!(error.to_string().contains("37"), "{error}");
        }
    }
}
