//! Repairs a store: keeps the sound parts of its files, sets the rest aside and lists the losses.
//!
//! ```text
//! sound manifest that fits the SSTs ─▶ SSTs and levels of the manifest ──┐
//! anything else ─▶ SSTs in the directory, in the order of `order` ───────┘
//!   ─▶ damaged SSTs are rewritten from their sound blocks
//!   ─▶ damaged files are copied to lost/ ─▶ new manifest ─▶ the store opens and salvages the WALs
//! ```
//! A manifest does not fit if the SSTs show that it lost edits.
//!
//! The repair itself removes only files that have a copy in `lost/`, and SSTs that an open renamed
//! (`unnamed-NNNNNN.sst`) if all their entries are in the store. Until the new manifest is in force, the
//! content of the store is unchanged, so an interrupted repair can be repeated.
//!
//! With a sound manifest that fits, no deleted key comes back unless its tombstone is lost. The
//! report gives the range of the keys whose tombstones may be lost. Without such a manifest, the
//! order of SSTs may be a guess. The report then has a doubt.

mod evidence;
mod logs;
mod order;
mod tables;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::codec::u64_bytes;
use crate::error::{Error, Result};
use crate::lsm::files::{
    CURRENT, FileName, LOCK, log_name, manifest_name, not_found, parse, set_aside_name, table_name,
};
use crate::lsm::manifest::Manifest;
use crate::lsm::manifest::edit::StoreState;
use crate::lsm::recovery::ownership::{OTHER_STORE, Ownership, is_of_another_store, reason_to_keep};
use crate::lsm::recovery::replay::check_file_numbers;
use crate::lsm::recovery::{Recovered, choose_extractor, hold, in_order, its_hasher, named, new_hasher, random_u64};
use crate::lsm::{Db, LogRecovery, Options, Progress};
use crate::sstable::{Loss, Table};
use crate::storage::Storage;
use evidence::{FoundTable, Listing, ManifestEvidence, look_at_tables, missing, split_copies, undo_renames};
use filterblock::KeyHasher;
use logs::{LogEvidence, look_at_logs};
use tables::Tables;

/// The name of the directory for copies of the files that a repair sets aside. It lies in the
/// store's directory.
pub const LOST: &str = "lost";

/// Whether a repair changes the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RepairMode {
    /// The repair changes the store.
    #[default]
    Write,
    /// The repair reports what it would do. It changes no file, but creates `LOCK` if it is
    /// missing.
    DryRun,
}

/// The result of [`Db::repair`]. After a dry run it says what the repair would do.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// The number of SSTs that the store keeps unchanged.
    pub tables_kept: u64,
    /// The number of SSTs that are damaged or differ from the manifest, and whose sound blocks were
    /// written to a new SST.
    pub tables_rewritten: u64,
    /// The number of SSTs that are missing or have no readable entry.
    pub tables_lost: u64,
    /// The number of entries in the kept and rewritten SSTs.
    pub entries: u64,
    /// Whether a new manifest was needed.
    pub new_manifest: bool,
    /// The unreadable parts of files, the missing files, and the gaps in the sequence numbers, with
    /// the range of the keys that may be affected. The range is
    /// [`KeyRange::NONE`](crate::sstable::KeyRange::NONE) for damage that alone affects no key,
    /// such as damage of a filter or a manifest.
    pub losses: Vec<Loss>,
    /// One text for each fact that the repair could not determine, with the possible effect on
    /// keys.
    pub doubts: Vec<String>,
    /// The files that were copied to [`LOST`], each with its path and the path of the copy.
    pub set_aside: Vec<(PathBuf, PathBuf)>,
    /// The removed SSTs that an open had set aside (`unnamed-NNNNNN.sst`). The store holds all
    /// their entries. A dry run does not look for such SSTs.
    pub removed: Vec<PathBuf>,
    /// The files of other programs that have the name of a store's file, and the unneeded logs and
    /// manifests of other stores, each with a description. A repair neither uses nor changes them.
    pub left_alone: Vec<(PathBuf, &'static str)>,
}

impl RepairReport {
    /// Returns whether all keys are unchanged as far as the repair can know: no loss affects keys,
    /// and nothing was guessed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.doubts.is_empty() && !self.losses.iter().any(Loss::holds_keys)
    }

    /// Returns whether the repair found nothing to do.
    #[must_use]
    pub fn was_sound(&self) -> bool {
        self.is_complete()
            && self.losses.is_empty()
            && self.set_aside.is_empty()
            && self.removed.is_empty()
            && !self.new_manifest
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.losses.iter().try_for_each(|loss| writeln!(f, "{loss}"))?;
        self.doubts.iter().try_for_each(|doubt| writeln!(f, "in doubt: {doubt}"))?;
        self.set_aside
            .iter()
            .try_for_each(|(from, to)| writeln!(f, "{}: a copy goes to {}", from.display(), to.display()))?;
        self.removed
            .iter()
            .try_for_each(|path| writeln!(f, "{}: removed, because the store holds all its entries", path.display()))?;
        self.left_alone.iter().try_for_each(|(path, what)| writeln!(f, "{}: {what}; not changed", path.display()))
    }
}

impl Db {
    /// Rebuilds the store in a directory from its sound parts, and reports the losses. The store
    /// must not be open.
    ///
    /// `options` decide how new SSTs are written. They must hold the secret if the store has one.
    ///
    /// # Errors
    /// * [`Error::NotAStore`] if the directory holds files, but no store.
    /// * [`Error::ForeignFile`] if the directory may belong to another program, or if a file of
    ///   another program prevents the repair.
    /// * [`Error::Locked`] if the store is open, or if another engine holds the lock.
    /// * [`Secret`](filterblock::Error::Secret) and the other errors that concern the options, as
    ///   for [`Db::open`].
    /// * [`Error::Unsupported`] for files of a newer version.
    /// * I/O errors, with the kind `NotFound` for a missing or empty directory. If a file
    ///   cannot be read, the repair stops with this error and does not treat the file as lost.
    /// * Other errors if the repaired store would not open.
    ///
    /// Damage of a file is not an error. The report lists it.
    pub fn repair(path: impl AsRef<Path>, options: Options, mode: RepairMode) -> Result<RepairReport> {
        Self::repair_with(path, options, mode, &mut |_| {})
    }

    /// Does the same as [`Self::repair`], and calls `progress` while it reads the SSTs.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::repair`].
    pub fn repair_with(
        path: impl AsRef<Path>,
        options: Options,
        mode: RepairMode,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RepairReport> {
        let dir = named(path.as_ref());
        repair(dir, options, mode, progress).map_err(|error| error.in_file(dir))
    }
}

fn repair(dir: &Path, options: Options, mode: RepairMode, progress: &mut dyn FnMut(Progress)) -> Result<RepairReport> {
    if !options.storage.exists(dir)? {
        return Err(missing(dir));
    }
    let (options, outside) = hold(dir, options)?;
    let storage = options.storage.as_ref();
    // Check before the lock, because the lock creates a file, and a directory without a store must
    // stay unchanged.
    list_store(storage, dir)?;
    let lock = storage.lock(&dir.join(LOCK))?;
    let (listing, judged) = list_store(storage, dir)?;
    let evidence = ManifestEvidence::gather(storage, dir, &listing)?;
    let logs = listing.logs.iter().map(|&number| (log_name(number), FileName::Log(number)));
    let manifests = listing.manifests.iter().map(|&number| (manifest_name(number), FileName::Manifest(number)));
    let numbered: Vec<_> = logs.chain(manifests).collect();
    let mut plan = Plan::make(dir, &options, mode, listing, evidence, progress)?;
    plan.report.left_alone = judged.others.into_iter().map(|(name, what)| (dir.join(name), what)).collect();
    for (path, file) in numbered.into_iter().map(|(name, file)| (dir.join(name), file)) {
        let is_aside = plan.aside.iter().any(|(aside, _)| *aside == path);
        if !is_aside && is_of_another_store(storage, &path, file, &plan.state.store_id)? {
            plan.report.left_alone.push((path, OTHER_STORE));
        }
    }
    let report = plan.carry_out(dir, options, outside, mode)?;
    drop(lock);
    Ok(report)
}

fn list_store(storage: &dyn Storage, dir: &Path) -> Result<(Listing, Ownership)> {
    if storage.list(dir)?.is_empty() {
        let reason = "the directory is empty, so there is no store to repair; check the path";
        return Err(not_found(reason));
    }
    let judged = Ownership::judge(storage, dir)?;
    judged.require_store(dir)?;
    let listing = Listing::of(storage, dir, &judged)?;
    if listing.is_empty() { Err(Error::NotAStore) } else { Ok((listing, judged)) }
}

/// All decisions of a repair. Unless the repair is a dry run, the new SSTs are already written,
/// under numbers that no manifest names.
struct Plan {
    report: RepairReport,
    state: StoreState,
    /// The files to copy to [`LOST`]. `true` means that the file must be removed before the store
    /// is opened.
    aside: Vec<(PathBuf, bool)>,
    next_number: u64,
}

impl Plan {
    fn make(
        dir: &Path,
        options: &Options,
        mode: RepairMode,
        listing: Listing,
        mut evidence: ManifestEvidence,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self> {
        let storage = options.storage.as_ref();
        let named: BTreeSet<u64> = evidence.named().into_keys().collect();
        let is_known = evidence.state.store_id != [0; 16];
        let wanted: BTreeSet<u64> = listing.tables.iter().copied().filter(|n| !evidence.removed.contains(n)).collect();
        let mut found = look_at_tables(storage, dir, &wanted)?;
        undo_renames(&mut found, &evidence.state.store_id, &named);
        let copies = split_copies(&mut found, &named);
        let unnamed: BTreeSet<u64> = found.iter().map(|table| table.number).filter(|n| !named.contains(n)).collect();
        let first_logged = logs::first_sequence(storage, dir, &listing.logs)?;
        let has_gap = first_logged.is_some_and(|first| first > evidence.state.last_sequence.saturating_add(1));
        // `true` if the manifest seems to have lost edits other than those of the last flushes.
        let is_stale = found.iter().filter(|table| unnamed.contains(&table.number)).any(|table| match table.origin() {
            None => evidence.is_torn || has_gap,
            Some(origin) => !evidence.is_before(&origin) && !evidence.is_next(&origin),
        });
        let has_all = named.is_subset(&listing.tables) || unnamed.is_empty();
        let by_manifest = evidence.is_whole && is_known && has_all && !is_stale;
        let hasher = identify(dir, options, &listing, &found, &mut evidence.state, is_known)?;
        let spans = logs::spans(storage, dir, evidence.state.store_id, &listing.logs)?;
        let mut report = RepairReport { losses: std::mem::take(&mut evidence.losses), ..RepairReport::default() };
        let next_number = listing.next_number.max(evidence.state.next_file_number);
        check_file_numbers(storage, dir, next_number)?;
        let total_bytes = found.iter().map(|table| table.len_bytes).sum();
        let done = Progress { done_bytes: 0, total_bytes };
        let mut tables = Tables {
            dir,
            options,
            mode,
            hasher: &hasher,
            extractor: choose_extractor(&options.prefix_extractor, evidence.state.prefix_extractor.as_deref()).0,
            next_number,
            logs: &spans,
            report: &mut report,
            aside: Vec::new(),
            done,
            progress,
        };
        let mut state = match by_manifest {
            true => tables.by_manifest(&evidence, &found)?,
            false => tables.by_themselves(&evidence, &found)?,
        };
        let (next_number, mut aside) = (tables.next_number, std::mem::take(&mut tables.aside));
        if !by_manifest {
            aside.extend(listing.manifests.iter().map(|&number| (dir.join(manifest_name(number)), false)));
        }
        let LogEvidence { losses, damaged, unusable, log_number } =
            look_at_logs(storage, dir, state.store_id, &listing.logs, state.log_number, state.last_sequence)?;
        state.log_number = log_number;
        report.losses.extend(losses);
        aside.extend(copies.into_iter().map(|number| (dir.join(table_name(number)), true)));
        // The next manifest does not say that the store removed these SSTs. So a file that no open
        // recognizes and removes must not stay for the next repair.
        for number in listing.tables.intersection(&evidence.removed) {
            let path = dir.join(table_name(*number));
            if reason_to_keep(storage, &path, FileName::Table(*number), &state.store_id)?.is_some() {
                aside.push((path, true));
            }
        }
        aside.extend(evidence.damaged.into_iter().map(|path| (path, false)));
        aside.extend(damaged.into_iter().map(|path| (path, false)));
        aside.extend(unusable.into_iter().map(|path| (path, true)));
        aside.extend(listing.foreign.into_iter().map(|name| (dir.join(name), true)));
        aside.sort();
        aside.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 |= is_same && next.1;
            is_same
        });
        report.new_manifest = !evidence.is_in_force || evidence.is_torn || state != evidence.state;
        Ok(Self { report, state, aside, next_number })
    }

    fn carry_out(
        mut self,
        dir: &Path,
        options: Options,
        outside: Arc<dyn Storage>,
        mode: RepairMode,
    ) -> Result<RepairReport> {
        let storage = options.storage.as_ref();
        if self.report.new_manifest {
            self.state.next_file_number = self.next_number + 1;
            // Check the state before it is written: a store whose manifest fails this check does
            // not open, and the next repair does not accept that manifest either.
            in_order(&self.state, &dir.join(manifest_name(self.next_number)))?;
        }
        let lost = dir.join(LOST);
        for (path, _) in &self.aside {
            let to = free_name(storage, &lost, path)?;
            self.report.set_aside.push((path.clone(), to));
        }
        if mode == RepairMode::DryRun {
            return Ok(self.report);
        }
        if !self.aside.is_empty() {
            storage.create_dir_all(&lost)?;
            for (from, to) in &self.report.set_aside {
                if !storage.exists(to)? {
                    storage.link_or_copy(from, to)?;
                }
            }
            storage.sync_dir(&lost)?;
            storage.sync_dir(dir)?;
        }
        if self.report.new_manifest {
            drop(Manifest::create(storage, dir, self.next_number, &self.state.snapshot())?);
        }
        for (path, _) in self.aside.iter().filter(|(_, must_go)| *must_go) {
            if storage.exists(path)? {
                storage.remove(path)?;
            }
        }
        let storage = Arc::clone(&options.storage);
        let options = Options { recovery: LogRecovery::Salvage, strict_filters: false, ..options };
        self.report.removed = remove_known(storage.as_ref(), dir, &Recovered::open(dir, options, outside)?)?;
        for (path, _) in &self.aside {
            remove_unknown(storage.as_ref(), path, &self.state.store_id)?;
        }
        Ok(self.report)
    }
}

/// Removes the file at `path` if it is a log or manifest that an open keeps: it is too damaged to
/// be recognized as a file of the store, or it belongs to another store. [`LOST`] holds a copy.
fn remove_unknown(storage: &dyn Storage, path: &Path, store_id: &[u8; 16]) -> Result<()> {
    let Some(file) = path.file_name().and_then(|name| parse(&name.to_string_lossy())) else { return Ok(()) };
    let is_left = matches!(file, FileName::Log(_) | FileName::Manifest(_)) && storage.exists(path)?;
    if is_left && reason_to_keep(storage, path, file, store_id)?.is_some() {
        storage.remove(path)?;
    }
    Ok(())
}

/// Removes each sound SST that an open set aside and whose entries the store holds too. Returns the paths of the
/// removed SSTs. An SST that cannot be checked or removed stays, and a warning is logged.
fn remove_known(storage: &dyn Storage, dir: &Path, store: &Recovered) -> Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    for name in storage.list(dir)? {
        let Some(FileName::Table(number)) = set_aside_name(&name).and_then(parse) else { continue };
        let path = dir.join(&name);
        let result = is_known(storage, store, &path, number)
            .and_then(|is_known| if is_known { storage.remove(&path).map(|()| true) } else { Ok(false) });
        match result {
            Ok(true) => removed.push(path),
            Ok(false) => {}
            // The repair itself is done, and this file is not part of it.
            Err(error) => {
                log::warn!("{}: the set-aside SST could not be checked or removed and stays: {error}", path.display())
            }
        }
    }
    Ok(removed)
}

/// The SST is sound, belongs to this store, and has only entries that the store also has.
fn is_known(storage: &dyn Storage, store: &Recovered, path: &Path, number: u64) -> Result<bool> {
    let table = match Table::open(storage, path, store.table_read_options(number)) {
        Ok(table) => Arc::new(table),
        Err(error) if error.is_damage() || error.is_unsupported() => return Ok(false),
        Err(error) => return Err(error),
    };
    if !table.verify()?.is_sound() {
        return Ok(false);
    }
    for entry in table.iter() {
        let (key, value) = entry?;
        if store.get(&key)? != value {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns a path in `lost` for a copy of the file at `path`. No file exists at the returned path,
/// or the file there already has the same content.
fn free_name(storage: &dyn Storage, lost: &Path, path: &Path) -> Result<PathBuf> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let content = storage.read(path)?;
    for nth in 1u64.. {
        let to = lost.join(if nth == 1 { name.clone() } else { format!("{name}.{nth}") });
        if !storage.exists(&to)? || storage.read(&to)? == content {
            return Ok(to);
        }
    }
    Ok(lost.join(name))
}

/// Returns the hasher of the store's keys. If no manifest gives the store id (`is_known` is false),
/// sets store id, hash identity and prefix extractor in `state`, from the SSTs and the WALs as far
/// as possible. A store id or hash identity that no file gives is new.
fn identify(
    dir: &Path,
    options: &Options,
    listing: &Listing,
    found: &[FoundTable],
    state: &mut StoreState,
    is_known: bool,
) -> Result<KeyHasher> {
    let storage = options.storage.as_ref();
    if is_known {
        let hasher = its_hasher(options, state);
        return hasher.map_err(|error| error.in_file(&dir.join(CURRENT)));
    }
    let halves = found.iter().filter_map(|table| {
        let (half, number) = table.peek.table_id.as_ref()?.split_first_chunk::<8>()?;
        (number == u64_bytes(table.number)).then_some(*half)
    });
    let half = most_frequent(halves);
    let mut id = None;
    for &number in &listing.logs {
        let in_log = logs::header_of(storage, dir, number)?.map(|header| header.store_id);
        id = id.or(in_log.filter(|id| half.is_none_or(|half| id.starts_with(&half))));
    }
    // Only WALs and manifests hold the second half of a store id. Without them, any second half is
    // correct.
    let mut new = [0; 16];
    let (first, second) = new.split_at_mut(8);
    first.copy_from_slice(&half.map_or_else(|| random_u64().map(u64_bytes), Ok)?);
    second.copy_from_slice(&u64_bytes(random_u64()?));
    state.store_id = id.unwrap_or(new);
    let extractors = found.iter().filter_map(|table| table.peek.properties.as_ref()?.prefix_extractor_name());
    state.prefix_extractor = most_frequent(extractors).map(str::to_owned);
    match most_frequent(found.iter().filter_map(|table| table.peek.hash)) {
        Some(hash) => {
            state.hash = hash;
            let from = found.iter().find(|table| table.peek.hash == Some(hash)).map_or(0, |table| table.file);
            its_hasher(options, state).map_err(|error| error.in_file(&dir.join(table_name(from))))
        }
        None => {
            let hasher = new_hasher(options)?;
            state.hash = hasher.identity();
            Ok(hasher)
        }
    }
}

fn most_frequent<T: PartialEq + Copy>(items: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: Vec<(T, usize)> = Vec::new();
    for item in items {
        match counts.iter_mut().find(|(other, _)| *other == item) {
            Some((_, count)) => *count += 1,
            None => counts.push((item, 1)),
        }
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(item, _)| item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Memory;

    const DIR: &str = "/store";

    fn options(storage: &Memory) -> Options {
        Options { storage: Arc::new(storage.clone()), auto_compaction: false, ..Options::default() }
    }

    #[test]
    fn a_repair_ignores_impossible_numbers_in_a_manifest() {
        let storage = Memory::new();
        let db = Db::open(DIR, options(&storage)).unwrap();
        (0..10u8).for_each(|i| db.put(&[i], b"value").unwrap());
        db.close().unwrap();
        let mut state = Manifest::recover(&storage, Path::new(DIR), None).unwrap().state;
        (state.next_file_number, state.last_sequence) = (u64::MAX, u64::MAX - 1);
        Manifest::create(&storage, Path::new(DIR), 100, &state.snapshot()).unwrap();
        assert!(Db::open(DIR, options(&storage)).unwrap_err().is_damage());
        let report = Db::repair(DIR, options(&storage), RepairMode::Write).unwrap();
        assert!(report.new_manifest, "{report}");
        let db = Db::open(DIR, options(&storage)).unwrap();
        db.put(b"more", b"").unwrap();
        assert_eq!(db.scan(..).map(Result::unwrap).count(), 11);
    }
}
