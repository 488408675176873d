//! Defines an open SST of the store, and its file.

use std::path::PathBuf;
use std::sync::Arc;

use super::run_map::Mapped;
use crate::error::{Error, Field, Result};
use crate::lsm::files::Removals;
use crate::lsm::manifest::edit::TableMeta;
use crate::lsm::stats::rate_units;
use crate::lsm::stats::store_stats::Reports;
use crate::sstable::{Table, TableFilter};
use crate::storage::Storage;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, lock};
use filterblock::RunMap;

/// An SST of the store. After a compaction has replaced the SST, its file is removed when the last
/// reference is dropped, unless the store is closed.
#[derive(Debug)]
pub(crate) struct StoredTable {
    file: Arc<TableFile>,
    pub(crate) meta: TableMeta,
    pub(crate) table: Arc<Table>,
    pub(crate) path: PathBuf,
    /// The filter's expected FPR, in the units of
    /// [`ProbeTally::expected`](crate::lsm::stats::ProbeTally).
    pub(crate) expected: u32,
    /// The range filter's expected FPR, in the units of [`Self::expected`].
    pub(crate) expected_of_ranges: u32,
    is_reported: AtomicBool,
    is_failure_reported: AtomicBool,
    mapped: Mutex<Mapped>,
}

/// The file of an SST. It may be open more than once.
#[derive(Debug)]
struct TableFile {
    path: PathBuf,
    storage: Arc<dyn Storage>,
    closed: Arc<Mutex<Removals>>,
    obsolete: AtomicBool,
}

impl StoredTable {
    pub(crate) fn new(
        meta: TableMeta,
        table: Table,
        path: PathBuf,
        storage: Arc<dyn Storage>,
        closed: Arc<Mutex<Removals>>,
    ) -> Self {
        // This arithmetic takes long. Do it once per SST, not once per version.
        let (of_keys, of_ranges) = table.expected_rates();
        let (expected, expected_of_ranges) = (rate_units(of_keys), rate_units(of_ranges));
        let file = TableFile { path: path.clone(), storage, closed, obsolete: AtomicBool::new(false) };
        let (is_reported, is_failure_reported) = (AtomicBool::new(false), AtomicBool::new(false));
        let mapped = Mutex::default();
        let (file, table) = (Arc::new(file), Arc::new(table));
        Self { file, meta, table, path, expected, expected_of_ranges, is_reported, is_failure_reported, mapped }
    }

    pub(crate) fn mapped(&self) -> Mapped {
        lock(&self.mapped).clone()
    }

    pub(crate) fn set_mapped(&self, mapped: Mapped) {
        *lock(&self.mapped) = mapped;
    }

    /// Returns the run of the SST in a map, or `None` if the map does not hold all its keys.
    pub(crate) fn run_in(&self, wanted: &Arc<RunMap>) -> Option<u8> {
        match &*lock(&self.mapped) {
            Mapped::As(map, run) if Arc::ptr_eq(map, wanted) => Some(*run),
            _ => None,
        }
    }

    /// Returns this SST as the replacement of `other`, an earlier opening of the same file. Both
    /// then share the [`TableFile`], so the file stays while one of them is in use.
    pub(crate) fn instead_of(self, other: &Self) -> Self {
        // The damage of this opening has not been reported yet.
        Self { file: Arc::clone(&other.file), is_reported: AtomicBool::new(false), ..self }
    }

    /// The filter could not be loaded, but may be sound: memory was short, or an I/O error occurred.
    pub(crate) fn lacks_filter(&self) -> bool {
        let is_transient = |error: &Error| matches!(error.root(), Error::Io(_) | Error::TooLarge { .. });
        self.table.filter().reason().and_then(|error| error.downcast_ref()).is_some_and(is_transient)
    }

    /// Reports a damaged or unusable filter, at most once.
    ///
    /// # Errors
    /// If `strict` is set, returns an error instead for an unusable filter, and for damaged pages
    /// if a new check finds the damage again.
    pub(crate) fn report_filter(&self, filter: Option<&TableFilter>, reports: &Reports, strict: bool) -> Result<()> {
        match filter {
            Some(TableFilter::Absent) => Ok(()),
            None => {
                // A failed read is no damage, so it is no error of a strict store either.
                if self.is_failure_reported.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let Some(error) = self.table.filter_failure() else { return Ok(()) };
                if !self.is_failure_reported.swap(true, Ordering::Relaxed) {
                    let path = self.path.display();
                    let error = if error.contains(&path.to_string()) { error } else { format!("{path}: {error}") };
                    reports.add(format!("{error}; reads go on without this filter, and later reads load it again"));
                }
                Ok(())
            }
            Some(TableFilter::Ready(filter)) => {
                if let Some(error) = self.table.range_damage_of(filter) {
                    if strict {
                        return Err(error);
                    }
                    self.report_once(reports, || error.to_string());
                }
                let damaged_pages = filter.damaged_pages();
                if damaged_pages == 0 {
                    return Ok(());
                }
                if let (true, Some(error)) = (strict, self.table.filter_damage()) {
                    return Err(error);
                }
                self.report_once(reports, || match self.table.filter_damage() {
                    Some(error) => error.to_string(),
                    None => format!(
                        "{}: damaged pages of the filter: {damaged_pages}; a new check found no damage, so check the \
                         memory and the disk of this machine, and reopen the store",
                        self.path.display()
                    ),
                });
                Ok(())
            }
            Some(TableFilter::Degraded(_)) if strict => {
                Err(Error::Corrupt { field: Field::FilterBlock, offset: 0 }.in_file(&self.path))
            }
            Some(TableFilter::Degraded(error)) => {
                self.report_once(reports, || {
                    let (error, path) = (error.to_string(), self.path.display().to_string());
                    if error.contains(&path) { error } else { format!("{path}: {error}") }
                });
                Ok(())
            }
        }
    }

    fn report_once(&self, reports: &Reports, message: impl FnOnce() -> String) {
        // Reads of an SST with a damaged filter come here. All reads but the first must cost only
        // this load.
        if !self.is_reported.load(Ordering::Relaxed) && !self.is_reported.swap(true, Ordering::Relaxed) {
            reports.add(format!("{}; reads go on, and the unusable part of the filter answers \"maybe\"", message()));
        }
    }

    /// Marks the file as obsolete: the file is removed when the last reference is dropped.
    pub(crate) fn mark_obsolete(&self) {
        self.file.obsolete.store(true, Ordering::Relaxed);
    }

    /// A compaction has replaced the SST, or the store has given it up.
    pub(crate) fn is_obsolete(&self) -> bool {
        self.file.obsolete.load(Ordering::Relaxed)
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if !self.obsolete.load(Ordering::Relaxed) {
            return;
        }
        // Hold the lock until the file is removed, so that the store cannot close in between.
        lock(&self.closed).remove(self.storage.as_ref(), std::mem::take(&mut self.path));
    }
}

/// The SSTs that a merge or an open has written so far. Dropping this guard gives them up. A panic of a filter
/// policy in the caller's thread does not fail the store, so no reopening would remove the SSTs.
#[derive(Default)]
pub(crate) struct Written(pub(crate) Vec<Arc<StoredTable>>);

impl Drop for Written {
    fn drop(&mut self) {
        self.0.iter().for_each(|table| table.mark_obsolete());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::path::Path;

    use loom::sync::Arc as Counted;
    use loom::thread;

    use super::*;
    use crate::sstable::{TableOptions, TableReadOptions, TableWriter};
    use crate::storage::Memory;
    use crate::storage::faulty::{Faulty, Operation};
    use crate::sync::atomic::AtomicU32;

    const PATH: &str = "1.sst";

    /// What the storage of these tests has done. These are loom's atomics, so loom may switch threads
    /// before each access.
    #[derive(Debug)]
    struct Drive {
        removals: AtomicU32,
        /// Whether the directory now belongs to another store, which has a file of the same name.
        is_of_the_next_store: AtomicBool,
    }

    /// Returns a storage that panics if the file is removed twice, or after the directory belongs to
    /// another store.
    fn guarded(drive: Arc<Drive>) -> Arc<dyn Storage> {
        let storage = Faulty::new();
        storage.refuse(Some(Arc::new(move |operation, path| {
            assert_eq!((operation, path), (Operation::Remove, Path::new(PATH)));
            assert!(!drive.is_of_the_next_store.load(Ordering::Acquire), "the file of another store was removed");
            assert_eq!(drive.removals.fetch_add(1, Ordering::AcqRel), 0, "removed twice");
            None
        })));
        Arc::new(storage)
    }

    /// An SST, the file-deletion state of its store, and its storage.
    struct World {
        table: Counted<StoredTable>,
        closed: Arc<Mutex<Removals>>,
        drive: Arc<Drive>,
    }

    fn world(files: &Memory) -> World {
        let drive = Arc::new(Drive { removals: AtomicU32::new(0), is_of_the_next_store: AtomicBool::new(false) });
        let table = Table::open(files, Path::new(PATH), TableReadOptions::default()).unwrap();
        let closed = Arc::new(Mutex::new(Removals::default()));
        let storage = guarded(drive.clone());
        let stored = StoredTable::new(TableMeta::default(), table, PathBuf::from(PATH), storage, closed.clone());
        World { table: Counted::new(stored), closed, drive }
    }

    fn check(model: impl Fn(World) + Send + Sync + 'static) {
        let files = Memory::new();
        let mut writer =
            TableWriter::create(&files, Path::new(PATH), TableOptions { filter: None, ..TableOptions::default() });
        writer.as_mut().unwrap().add(b"key", Some(b"value")).unwrap();
        writer.unwrap().finish().unwrap();
        loom::model(move || model(world(&files)));
    }

    /// Starts a reader that checks that the file exists and then drops its reference.
    fn reader(table: Counted<StoredTable>, drive: Arc<Drive>) -> thread::JoinHandle<()> {
        thread::spawn(move || {
            assert_eq!(drive.removals.load(Ordering::Acquire), 0, "removed while it is read");
            drop(table);
        })
    }

    #[test]
    fn the_file_is_removed_once_by_the_last_reader() {
        check(|World { table, drive, .. }| {
            let readers = [reader(table.clone(), drive.clone()), reader(table.clone(), drive.clone())];
            // `table` stands for the replaced version, which a compaction drops after it marks the SST.
            table.mark_obsolete();
            drop(table);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
            assert_eq!(drive.removals.load(Ordering::Acquire), 1, "the file stays");
        });
    }

    #[test]
    fn the_file_is_never_removed_after_the_store_is_closed() {
        check(|World { table, closed, drive }| {
            let readers = [reader(table.clone(), drive.clone()), reader(table.clone(), drive.clone())];
            table.mark_obsolete();
            drop(table);
            lock(&closed).is_closed = true;
            drive.is_of_the_next_store.store(true, Ordering::Release);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }
}
