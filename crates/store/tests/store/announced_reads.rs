//! Tests that a batch of up to 32 keys announces the reads of its data blocks before the first
//! read, and reads each block once. A single read is not announced.

use std::fmt::Debug;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// A storage in memory that records the announcements and the reads of its files. Files have
/// numbers in the order in which they are opened.
#[derive(Debug, Clone, Default)]
struct Listing {
    inner: Memory,
    num_files: Arc<Mutex<usize>>,
    steps: Arc<Mutex<Vec<Step>>>,
    fails: Arc<AtomicBool>,
}

#[derive(Debug)]
struct ListingFile {
    inner: Arc<dyn ReadAt>,
    number: usize,
    steps: Arc<Mutex<Vec<Step>>>,
    fails: Arc<AtomicBool>,
}

impl ReadAt for ListingFile {
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let len_bytes = buffer.len() as u64;
        self.steps.lock().unwrap().push(Step::Read { file: self.number, offset, len_bytes });
        if self.fails.load(Ordering::Relaxed) {
            return Err(std::io::Error::other("the disk is gone").into());
        }
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
        let (inner, steps, fails) = (self.inner.open(path, io)?, Arc::clone(&self.steps), Arc::clone(&self.fails));
        Ok(Arc::new(ListingFile { inner, number: *number, steps, fails }))
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
    /// Reads the keys in one batch, checks the values, and returns the announcements and reads of
    /// the batch.
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

/// Returns a store with `COUNT` keys in one run of at least `num_tables` SSTs. The indexes of the
/// SSTs are already in memory.
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
        // The keys 700 and 701 are in one block.
        assert_eq!(announced_then_read(&steps).len(), 5, "{num_tables} SSTs");
    }
}

/// Checks that each block is announced once, and then read once, in the order of the SSTs and their
/// blocks. Returns the reads.
fn announced_then_read(steps: &[Step]) -> &[Step] {
    let (announced, read) = steps.split_at(steps.len() / 2);
    let place = |step: &Step| match *step {
        Step::Announced { file, offset, .. } | Step::Read { file, offset, .. } => (file, offset),
    };
    assert!(read.is_sorted_by(|a, b| place(a) < place(b)), "{read:?}");
    let mut announced: Vec<_> = announced
        .iter()
        .map(|step| match *step {
            Step::Announced { file, offset, len_bytes } => Step::Read { file, offset, len_bytes },
            Step::Read { .. } => panic!("a read came early: {steps:?}"),
        })
        .collect();
    announced.sort_by_key(place);
    assert_eq!(announced, read);
    read
}

#[test]
fn keys_of_a_batch_in_one_block_share_its_read() {
    for num_tables in [1, 2, 8] {
        let storage = Listing::default();
        let db = store(&storage, num_tables, |_| ());
        let before = db.stats().total.block_reads;
        // The batch is not in the order of keys, has keys twice, and some keys are absent.
        let mut numbers: Vec<_> = (700..828).chain(COUNT - 20..COUNT + 20).rev().collect();
        numbers.extend(700..710);
        let steps = storage.steps_of(&db, &numbers);
        let read: Vec<_> = steps.iter().filter(|step| matches!(step, Step::Read { .. })).collect();
        // `multi_get` looks up 32 keys at a time. A block with keys of two such groups is read
        // twice.
        assert!((2..30).contains(&read.len()), "{num_tables} SSTs: {} reads", read.len());
        let after = db.stats().total.block_reads;
        assert_eq!(after - before, read.len() as u64);

        let steps = storage.steps_of(&db, &(700..732).rev().collect::<Vec<_>>());
        let num_reads = announced_then_read(&steps).len();
        assert!(num_reads < 10, "{num_tables} SSTs: {num_reads} reads of 32 neighbours");
    }
}

#[test]
fn a_failed_read_of_a_shared_block_is_an_error() {
    for num_tables in [1, 8] {
        let storage = Listing::default();
        let db = store(&storage, num_tables, |_| ());
        let keys: Vec<_> = (700..720).map(key).collect();
        storage.fails.store(true, Ordering::Relaxed);
        let error = db.multi_get(&keys).unwrap_err().to_string();
        assert!(error.contains("the disk is gone"), "{num_tables} SSTs: {error}");
        storage.fails.store(false, Ordering::Relaxed);
        storage.steps_of(&db, &(700..720).collect::<Vec<_>>());
    }
}

#[test]
fn single_reads_and_blocks_in_memory_are_not_announced() {
    for num_tables in [1, 8] {
        let storage = Listing::default();
        let db = store(&storage, num_tables, |_| ());
        // One present key, and absent keys above the key range of the SSTs.
        assert!(matches!(storage.steps_of(&db, &[700, COUNT, COUNT + 1])[..], [Step::Read { .. }]));
        drop(db);

        let storage = Listing::default();
        let db = store(&storage, num_tables, |options| options.block_cache_bytes = 1 << 20);
        assert_eq!(storage.steps_of(&db, &[3, 700, 1_500, 2_900]), []);
    }
}
