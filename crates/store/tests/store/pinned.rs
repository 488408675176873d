//! Tests that the values of `get_pinned` stay readable, and that `get_pinned` answers and counts as
//! `get` does.

use std::hint::black_box;
use std::ops::Deref;
use std::time::Instant;

use crate::common::{self, DIR, Random, change, files, key, quiet};
use filterblock_store::lsm::PinnableSlice;
use filterblock_store::sstable::Compression;
use filterblock_store::storage::Memory;
use filterblock_store::{Db, Error, Options};

const KEYS: u64 = 400;

/// Returns the value of a key: empty, short, or longer than a block.
fn value(i: u64) -> Vec<u8> {
    let len = [0, 1, 100, 5_000][i as usize % 4];
    (0..len).map(|byte| (byte as u8).wrapping_mul(31).wrapping_add(i as u8)).collect()
}

/// Gives each key the value of another one. The value is as long, and differs in each generation if
/// it is not empty.
fn fill(db: &Db, generation: u64) {
    (0..KEYS).for_each(|i| db.put(&key(i), &value(i + 4 * generation)).unwrap());
}

fn pin_all(db: &Db) -> Vec<PinnableSlice> {
    (0..KEYS).map(|i| db.get_pinned(&key(i)).unwrap().unwrap()).collect()
}

fn check(pinned: &[PinnableSlice], generation: u64, when: &str) {
    for (i, pinned) in (0..KEYS).zip(pinned) {
        assert_eq!(pinned.as_ref(), value(i + 4 * generation), "key {i} {when}");
    }
}

#[test]
fn pinned_values_stay_readable_whatever_the_store_does() {
    const fn is_static<T: Send + Sync + 'static>() {}
    is_static::<PinnableSlice>();
    for (cache, compression) in [(0, Compression::None), (8_000, Compression::None), (8_000, Compression::Lz4)] {
        let storage = Memory::new();
        let options = Options { block_cache_bytes: cache, compression, ..quiet(&storage) };
        let db = Db::open(DIR, options).unwrap();
        fill(&db, 1);
        let (in_memtable, snapshot) = (pin_all(&db), db.snapshot());
        fill(&db, 2);
        db.flush().unwrap();
        check(&in_memtable, 1, "after the flush of its memtable");
        // The cache is off, or much smaller than all data blocks. Later reads evict most blocks.
        let of_snapshot: Vec<_> = (0..KEYS).map(|i| snapshot.get_pinned(&key(i)).unwrap().unwrap()).collect();
        drop(snapshot);
        let in_blocks = pin_all(&db);
        let all = [(&in_memtable, 1), (&of_snapshot, 1), (&in_blocks, 2)];
        let check_all = |when| all.iter().for_each(|(pinned, generation)| check(pinned, *generation, when));
        check_all("after its block left the cache");
        (0..KEYS).for_each(|i| db.delete(&key(i)).unwrap());
        db.compact_range(..).unwrap();
        assert_eq!((db.stats().total.tables, common::scan_all(&db).len()), (0, 0));
        assert!(db.get_pinned(&key(3)).unwrap().is_none());
        check_all("after its SST was removed");
        db.close().unwrap();
        drop(storage);
        check_all("after the store was closed");
    }
}

/// A value, no value, or the message of an error.
type Outcome = Result<Option<Vec<u8>>, String>;

/// Reads all keys and some absent ones. Returns the answers and errors, and the counters of the
/// reads.
fn outcomes<V: Deref<Target = [u8]>>(
    db: &Db,
    get: impl Fn(&[u8]) -> Result<Option<V>, Error>,
) -> (Vec<Outcome>, String) {
    let outcome = |value: Result<Option<V>, Error>| match value {
        Ok(value) => Ok(value.map(|value| value.to_vec())),
        Err(error) => Err(error.to_string()),
    };
    let all = (0..KEYS + 100).map(|i| outcome(get(&key(i)))).collect();
    let stats = db.stats();
    (all, format!("{} {} {:?} {:?}", stats.gets, stats.memory_hits, stats.total, stats.levels))
}

#[test]
fn get_pinned_answers_counts_and_fails_as_get_does() {
    let storage = Memory::new();
    for n in 0..3u64 {
        let db = Db::open(DIR, quiet(&storage)).unwrap();
        (0..KEYS).filter(|i| i % 3 == n).for_each(|i| db.put(&key(i), &value(i)).unwrap());
        (0..KEYS).filter(|i| i % 7 == n).for_each(|i| db.delete(&key(i)).unwrap());
        db.close().unwrap();
    }
    let tables = files(&storage, DIR.as_ref(), ".sst");
    assert_eq!(tables.len(), 3);
    let mut random = Random(5);
    change(&storage, &tables[0], |bytes| (0..60).for_each(|_| bytes[random.below(150_000) as usize] ^= 4));
    for block_cache_bytes in [0, 1 << 20] {
        let open = || Db::open(DIR, Options { block_cache_bytes, ..quiet(&storage) }).unwrap();
        let db = open();
        let copied = outcomes(&db, |key| db.get(key));
        drop(db);
        let db = open();
        assert_eq!(outcomes(&db, |key| db.get_pinned(key)), copied);
        let count = |is: fn(&Outcome) -> bool| copied.0.iter().filter(|one| is(one)).count();
        let kinds = [count(Result::is_err), count(|one| *one == Ok(None)), count(|one| matches!(one, Ok(Some(_))))];
        assert!(kinds.iter().all(|&count| count > 3), "failed, absent and found: {kinds:?}");
    }
}

/// Measures `get` and `get_pinned`, and prints the times of docs/BENCHMARKS.md.
#[test]
#[ignore = "a measurement"]
fn present_keys_by_get_and_by_get_pinned() {
    const GETS: usize = 200_000;
    const ROUNDS: usize = 9;
    for (place, num_keys, len) in [
        ("block cache", 400_000, 100),
        ("block cache", 20_000, 4096),
        ("memtable", 200_000, 100),
        ("memtable", 10_000, 4096),
    ] {
        let storage = Memory::new();
        let db = Db::open(DIR, Options { block_cache_bytes: 1 << 30, ..quiet(&storage) }).unwrap();
        (0..num_keys).for_each(|i| db.put(&key(i), &vec![i as u8; len]).unwrap());
        if place == "block cache" {
            db.compact_range(..).unwrap();
        }
        let mut random = Random(7);
        let keys: Vec<_> = (0..GETS).map(|_| key(random.below(num_keys))).collect();
        (0..num_keys).for_each(|i| assert_eq!(db.get(&key(i)).unwrap().unwrap().len(), len));
        // Both loops read one byte of each cache line of the value.
        let touch = |value: &[u8]| {
            black_box(value.iter().step_by(64).fold(0, |sum: u8, byte| sum.wrapping_add(*byte)));
        };
        let mut times = [[0; ROUNDS]; 2];
        let [copied, pinned] = &mut times;
        for (copied, pinned) in copied.iter_mut().zip(pinned) {
            let start = Instant::now();
            keys.iter().for_each(|key| touch(&db.get(key).unwrap().unwrap()));
            *copied = start.elapsed().as_nanos();
            let start = Instant::now();
            keys.iter().for_each(|key| touch(&db.get_pinned(key).unwrap().unwrap()));
            *pinned = start.elapsed().as_nanos();
        }
        times.iter_mut().for_each(|times| times.sort_unstable());
        let [copied, pinned] = times.map(|times| times.map(|time| time as f64 / GETS as f64));
        println!(
            "{place}, {num_keys} values of {len} bytes: get {:.0} ns ({:.0} to {:.0}), get_pinned {:.0} ns ({:.0} to {:.0})",
            copied[ROUNDS / 2],
            copied[0],
            copied[ROUNDS - 1],
            pinned[ROUNDS / 2],
            pinned[0],
            pinned[ROUNDS - 1]
        );
    }
}
