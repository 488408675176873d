//! Tests that a store with a memory budget for filters drops columns of ribbons, and still finds
//! every key.

use std::path::Path;
use std::sync::Arc;

use crate::common::DIR;
use filterblock::FilterSpec;
use filterblock_store::storage::{Disk, Memory};
use filterblock_store::{Db, Options};

const TABLES: u32 = 8;
const KEYS_PER_TABLE: u32 = 4_000;

fn key(i: u32) -> [u8; 4] {
    // Keys ascend with `i`.
    i.swap_bytes().to_le_bytes()
}

fn options(budget: Option<u64>) -> Options {
    let filter: FilterSpec = "bumped-ribbon:14".parse().unwrap();
    Options {
        filter: Some(Arc::new(filter)),
        filter_memory_budget: budget,
        auto_compaction: false,
        l0_stall_trigger: 100,
        hash_seed: Some(1),
        ..Options::default()
    }
}

/// Puts every second key. Each SST gets a key range of its own.
fn load(db: &Db) {
    for table in 0..TABLES {
        for i in 0..KEYS_PER_TABLE {
            db.put(&key(2 * (table * KEYS_PER_TABLE + i)), b"value").unwrap();
        }
        db.flush().unwrap();
    }
}

fn assert_finds_all(db: &Db) {
    let keys: Vec<_> = (0..TABLES * KEYS_PER_TABLE).map(|i| key(2 * i)).collect();
    assert!(keys.iter().all(|key| db.get(key).unwrap().is_some()));
    assert!(db.multi_get(&keys).unwrap().iter().all(Option::is_some));
}

/// Returns the share of absent keys within the range of SST `table` for which the filter of the SST
/// answers "maybe". First resets the statistics.
fn rate(db: &Db, table: u32) -> f64 {
    db.reset_stats();
    for i in 0..KEYS_PER_TABLE - 1 {
        assert_eq!(db.get(&key(2 * (table * KEYS_PER_TABLE + i) + 1)).unwrap(), None);
    }
    db.stats().total.points.false_positive_rate().unwrap()
}

#[test]
fn filters_stay_within_the_budget_and_find_all_keys() {
    let temporary = tempfile::tempdir().unwrap();
    let whole = {
        let db = Db::open(temporary.path(), options(None)).unwrap();
        load(&db);
        assert_finds_all(&db);
        let total = db.stats().total;
        assert_eq!(total.filter_memory_bytes, total.filter_bytes);
        total.filter_bytes
    };
    for tenths in [10, 7, 4, 1, 0] {
        let budget = whole * tenths / 10;
        let db = Db::open(temporary.path(), options(Some(budget))).unwrap();
        let total = db.stats().total;
        assert_eq!(total.filter_bytes, whole);
        let one_column = u64::from(TABLES * KEYS_PER_TABLE) / 8 * 3 / 2;
        assert!(total.filter_memory_bytes <= budget.max(one_column), "{tenths}: {total:?}");
        assert!(total.filter_memory_bytes + whole / 10 > budget, "{tenths}: {total:?}");
        assert_finds_all(&db);
        // The expected FPR is the FPR of the remaining columns. The numbers of columns of two
        // filters may differ by one.
        rate(&db, 0);
        let expected = db.stats().total.points.expected_fpr().unwrap();
        let columns = total.filter_memory_bytes as f64 * 8.0 / f64::from(TABLES * KEYS_PER_TABLE);
        assert!((expected.log2() + columns).abs() < 1.6, "{tenths}: {expected}, {columns} columns");
    }
}

#[test]
fn filters_that_are_asked_most_keep_most_columns() {
    for storage in [None, Some(Memory::new())] {
        let temporary = tempfile::tempdir().unwrap();
        let dir = if storage.is_some() { Path::new(DIR) } else { temporary.path() };
        let mut options = options(Some(u64::from(TABLES * KEYS_PER_TABLE) * 7 / 8));
        match &storage {
            Some(memory) => options.storage = Arc::new(memory.clone()),
            None => options.storage = Arc::new(Disk),
        }
        let db = Db::open(dir, options).unwrap();
        load(&db);
        let before = rate(&db, 3);
        for _ in 0..100 {
            rate(&db, 3);
        }
        db.rebalance_filters();
        assert!(db.stats().total.filter_memory_bytes <= u64::from(TABLES * KEYS_PER_TABLE) * 7 / 8);
        let (hot, cold) = (rate(&db, 3), rate(&db, 5));
        assert!(hot < before / 2.0 && hot < cold / 4.0, "{before} before, then {hot} and {cold}");
        assert_finds_all(&db);
        // The most queried filter keeps its columns at the next flush.
        db.put(&key(1_000_000), b"value").unwrap();
        db.flush().unwrap();
        assert!(rate(&db, 3) < before / 2.0);
        assert_finds_all(&db);
    }
}
