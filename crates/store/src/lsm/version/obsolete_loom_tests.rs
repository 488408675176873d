//! Loom tests for the removal of an SST file that a compaction replaced.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loom::sync::Arc as Counted;
use loom::thread;

use super::StoredTable;
use crate::error::Result;
use crate::lsm::files::Removals;
use crate::lsm::manifest::edit::TableMeta;
use crate::sstable::{Table, TableOptions, TableReadOptions, TableWriter};
use crate::storage::{IoMode, Memory, ReadAt, Storage, WriteFile};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::lock;

const PATH: &str = "1.sst";

/// A storage with one file. It panics if the file is removed twice, or after the directory belongs
/// to another store. It uses loom's atomics, so loom may switch threads before each access.
#[derive(Debug)]
struct Drive {
    removals: AtomicU32,
    /// Whether the directory now belongs to another store, which has a file of the same name.
    is_of_the_next_store: AtomicBool,
}

impl Storage for Drive {
    fn remove(&self, path: &Path) -> Result<()> {
        assert_eq!(path, Path::new(PATH));
        assert!(!self.is_of_the_next_store.load(Ordering::Acquire), "the file of another store was removed");
        assert_eq!(self.removals.fetch_add(1, Ordering::AcqRel), 0, "removed twice");
        Ok(())
    }

    fn open(&self, _: &Path, _: IoMode) -> Result<Arc<dyn ReadAt>> {
        unreachable!()
    }

    fn create(&self, _: &Path) -> Result<Box<dyn WriteFile>> {
        unreachable!()
    }

    fn read(&self, _: &Path) -> Result<Vec<u8>> {
        unreachable!()
    }

    fn rename(&self, _: &Path, _: &Path) -> Result<()> {
        unreachable!()
    }

    fn link_or_copy(&self, _: &Path, _: &Path) -> Result<()> {
        unreachable!()
    }

    fn exists(&self, _: &Path) -> Result<bool> {
        unreachable!()
    }

    fn list(&self, _: &Path) -> Result<Vec<String>> {
        unreachable!()
    }

    fn create_dir_all(&self, _: &Path) -> Result<()> {
        unreachable!()
    }

    fn sync_dir(&self, _: &Path) -> Result<()> {
        unreachable!()
    }

    fn lock(&self, _: &Path) -> Result<Box<dyn Send + Sync>> {
        unreachable!()
    }
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
    let storage: Arc<dyn Storage> = drive.clone();
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
