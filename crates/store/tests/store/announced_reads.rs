//! Tests that a batch announces the reads of its data blocks before it reads the first one.

use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::{DIR, key};
use filterblock::FilterSpec;
use filterblock_store::storage::{IoMode, Memory, ReadAt, Storage, WriteFile};
use filterblock_store::{Db, Options, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Announced { file: usize, offset: u64, len_bytes: u64 },
    Read { file: usize, offset: u64, len_bytes: u64 },
}

/// A storage in memory that lists the steps of its files. The number of a file is its place in the
/// order of opening.
#[derive(Debug, Clone, Default)]
struct Listing {
    inner: Memory,
    num_files: Arc<Mutex<usize>>,
    steps: Arc<Mutex<Vec<Step>>>,
}

#[derive(Debug)]
struct ListingFile {
    inner: Arc<dyn ReadAt>,
    number: usize,
    steps: Arc<Mutex<Vec<Step>>>,
}

impl ReadAt for ListingFile {
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let len_bytes = buffer.len() as u64;
        self.steps.lock().unwrap().push(Step::Read { file: self.number, offset, len_bytes });
        self.inner.read_exact_at(buffer, offset)
    }
    fn will_read(&self, offset: u64, len_bytes: u64) {
        self.steps.lock().unwrap().push(Step::Announced { file: self.number, offset, len_bytes });
    }
    fn as_file(&self) -> Option<&std::fs::File> {
        None
    }
}

impl Storage for Listing {
    fn open(&self, path: &Path, io: IoMode) -> Result<Arc<dyn ReadAt>> {
        let mut number = self.num_files.lock().unwrap();
        *number += 1;
        let (inner, steps) = (self.inner.open(path, io)?, Arc::clone(&self.steps));
        Ok(Arc::new(ListingFile { inner, number: *number, steps }))
    }
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.inner.create(path)
    }
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        self.inner.read(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn link_or_copy(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.link_or_copy(from, to)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.inner.create_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.inner.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        self.inner.lock(path)
    }
}

impl Listing {
    /// Reads the keys in one batch, checks the values, and returns the steps of the SSTs' files.
    fn steps_of(&self, db: &Db, numbers: &[u64]) -> Vec<Step> {
        let keys: Vec<_> = numbers.iter().map(|&number| key(number)).collect();
        self.steps.lock().unwrap().clear();
        let values = db.multi_get(&keys).unwrap();
        for (number, value) in numbers.iter().zip(values) {
            assert_eq!(value, (*number < COUNT).then(|| key(*number)), "{number}");
        }
        std::mem::take(&mut *self.steps.lock().unwrap())
    }
}

const COUNT: u64 = 4_000;

/// Opens a store of one run with the number of SSTs at least, and reads each index once.
fn store(storage: &Listing, num_tables: u64, change: impl FnOnce(&mut Options)) -> Db {
    let mut options = Options {
        storage: Arc::new(storage.clone()),
        auto_compaction: false,
        hash_seed: Some(7),
        filter: Some(Arc::new("bloom:20".parse::<FilterSpec>().unwrap())),
        ..Options::default()
    };
    if num_tables > 1 {
        options.table_size_bytes = 2_000;
    }
    change(&mut options);
    let db = Db::open(DIR, options).unwrap();
    let num_flushes = if num_tables > 1 { 2 } else { 1 };
    for start in 0..num_flushes {
        (start..COUNT).step_by(num_flushes as usize).for_each(|i| db.put(&key(i), &key(i)).unwrap());
        db.flush().unwrap();
    }
    if num_tables > 1 {
        db.compact_range(..).unwrap();
    }
    assert!(db.stats().levels.iter().map(|level| level.tables).sum::<u64>() >= num_tables);
    (0..COUNT).step_by(10).for_each(|i| assert!(db.get(&key(i)).unwrap().is_some()));
    db
}

#[test]
fn a_batch_announces_each_block_before_the_first_read() {
    for num_tables in [1, 8] {
        let storage = Listing::default();
        let db = store(&storage, num_tables, |_| ());
        let steps = storage.steps_of(&db, &[3, 700, 701, 1_500, 2_900, 3_999]);
        let (announced, read) = steps.split_at(steps.len() / 2);
        let announced: Vec<_> = announced
            .iter()
            .map(|step| match *step {
                Step::Announced { file, offset, len_bytes } => Step::Read { file, offset, len_bytes },
                Step::Read { .. } => panic!("a read came early: {steps:?}"),
            })
            .collect();
        assert_eq!((announced.len(), announced.as_slice()), (6, read), "{num_tables} SSTs");
    }
}

#[test]
fn single_reads_and_blocks_in_memory_are_not_announced() {
    for num_tables in [1, 8] {
        let storage = Listing::default();
        let db = store(&storage, num_tables, |_| ());
        // One present key, and absent keys that the filters deny.
        assert!(matches!(storage.steps_of(&db, &[700, COUNT, COUNT + 1])[..], [Step::Read { .. }]));
        drop(db);

        let storage = Listing::default();
        let db = store(&storage, num_tables, |options| options.block_cache_bytes = 1 << 20);
        assert_eq!(storage.steps_of(&db, &[3, 700, 1_500, 2_900]), []);
    }
}
