//! Tests that a batch of up to 32 keys announces the reads of its data blocks before the first
//! read, and reads each block once. A single read is not announced.

use std::sync::Arc;

use crate::common::{DIR, key, quiet};
use filterblock::FilterSpec;
use filterblock_store::storage::faulty::{Fault, FaultKind, Faulty, FileRead};
use filterblock_store::{Db, Options};

const COUNT: u64 = 4_000;

/// Reads the keys in one batch, checks the values, and returns the announcements and reads of the
/// batch.
fn reads_of(storage: &Faulty, db: &Db, numbers: &[u64]) -> Vec<FileRead> {
    let keys: Vec<_> = numbers.iter().map(|&number| key(number)).collect();
    storage.record();
    let values = db.multi_get(&keys).unwrap();
    for (number, value) in numbers.iter().zip(values) {
        assert_eq!(value, (*number < COUNT).then(|| key(*number)), "{number}");
    }
    storage.reads()
}

/// Returns a store with `COUNT` keys in one run of at least `num_tables` SSTs. The indexes of the
/// SSTs are already in memory.
fn store(storage: &Faulty, num_tables: u64, block_cache_bytes: u64) -> Db {
    let mut options = Options {
        filter: Some(Arc::new("bloom:20".parse::<FilterSpec>().unwrap())),
        block_cache_bytes,
        ..quiet(storage)
    };
    if num_tables > 1 {
        options.table_size_bytes = 2_000;
    }
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
        let storage = Faulty::new();
        let db = store(&storage, num_tables, 0);
        let steps = reads_of(&storage, &db, &[3, 700, 701, 1_500, 2_900, 3_999]);
        // The keys 700 and 701 are in one block.
        assert_eq!(announced_then_read(&steps).len(), 5, "{num_tables} SSTs");
    }
}

/// Checks that each block is announced once, and then read once, in the order of the SSTs and their
/// blocks. Returns the reads.
fn announced_then_read(reads: &[FileRead]) -> &[FileRead] {
    let (announced, read) = reads.split_at(reads.len() / 2);
    assert!(read.is_sorted_by(|a, b| a < b), "{read:?}");
    let mut announced = announced.to_vec();
    announced.sort();
    assert!(announced.iter_mut().all(|read| std::mem::take(&mut read.is_announcement)), "a read came early: {reads:?}");
    assert_eq!(announced, read);
    read
}

#[test]
fn keys_of_a_batch_in_one_block_share_its_read() {
    for num_tables in [1, 2, 8] {
        let storage = Faulty::new();
        let db = store(&storage, num_tables, 0);
        let before = db.stats().total.block_reads;
        // The batch is not in the order of keys, has keys twice, and some keys are absent.
        let mut numbers: Vec<_> = (700..828).chain(COUNT - 20..COUNT + 20).rev().collect();
        numbers.extend(700..710);
        let steps = reads_of(&storage, &db, &numbers);
        let read: Vec<_> = steps.iter().filter(|read| !read.is_announcement).collect();
        // `multi_get` looks up 32 keys at a time. A block with keys of two such groups is read
        // twice.
        assert!((2..30).contains(&read.len()), "{num_tables} SSTs: {} reads", read.len());
        let after = db.stats().total.block_reads;
        assert_eq!(after - before, read.len() as u64);

        let steps = reads_of(&storage, &db, &(700..732).rev().collect::<Vec<_>>());
        let num_reads = announced_then_read(&steps).len();
        assert!(num_reads < 10, "{num_tables} SSTs: {num_reads} reads of 32 neighbours");
    }
}

#[test]
fn a_failed_read_of_a_shared_block_is_an_error() {
    for num_tables in [1, 8] {
        let storage = Faulty::new();
        let db = store(&storage, num_tables, 0);
        let keys: Vec<_> = (700..720).map(key).collect();
        storage.fail(Fault { from: 0, kind: FaultKind::Io, is_lasting: true });
        let error = db.multi_get(&keys).unwrap_err().to_string();
        assert!(error.contains("a fault injected by the test"), "{num_tables} SSTs: {error}");
        storage.heal();
        reads_of(&storage, &db, &(700..720).collect::<Vec<_>>());
    }
}

#[test]
fn single_reads_and_blocks_in_memory_are_not_announced() {
    for num_tables in [1, 8] {
        let storage = Faulty::new();
        let db = store(&storage, num_tables, 0);
        // One present key, and absent keys above the key range of the SSTs.
        let reads = reads_of(&storage, &db, &[700, COUNT, COUNT + 1]);
        assert!(reads.len() == 1 && !reads[0].is_announcement, "{reads:?}");
        drop(db);

        let storage = Faulty::new();
        let db = store(&storage, num_tables, 1 << 20);
        assert_eq!(reads_of(&storage, &db, &[3, 700, 1_500, 2_900]), []);
    }
}
