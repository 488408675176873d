//! Tests that a store with a memory budget for filters reads them when they are needed, keeps them within
//! the budget, and still finds every key.

use std::path::Path;
use std::sync::Arc;

use crate::common::DIR;
use filterblock::FilterSpec;
use filterblock_store::sstable::{Table, TableReadOptions};
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
fn rate(db: &Db, table: u32) -> Option<f64> {
    ask(db, table);
    let points = db.stats().total.points;
    points.false_positive_rate().filter(|_| points.unfiltered == 0)
}

/// Repeats `step` until it returns `true`.
fn until(mut step: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !step() {
        assert!(start.elapsed().as_secs() < 120, "it does not come to rest");
    }
}

fn ask(db: &Db, table: u32) {
    db.reset_stats();
    for i in 0..KEYS_PER_TABLE - 1 {
        assert_eq!(db.get(&key(2 * (table * KEYS_PER_TABLE + i) + 1)).unwrap(), None);
    }
}

#[test]
fn filters_stay_within_the_budget_and_find_all_keys() {
    for spec in ["bumped-ribbon:14", "blocked-bloom:12", "binary-fuse:8"] {
        let temporary = tempfile::tempdir().unwrap();
        let options =
            |budget| Options { filter: Some(Arc::new(spec.parse::<FilterSpec>().unwrap())), ..options(budget) };
        let whole = {
            let db = Db::open(temporary.path(), options(None)).unwrap();
            load(&db);
            assert_finds_all(&db);
            let total = db.stats().total;
            assert_eq!(total.filter_memory_bytes, total.filter_bytes);
            assert!(db.stats().filter_cache.is_none());
            total.filter_bytes + u64::from(TABLES) * 63
        };
        for tenths in [10, 7, 4, 1, 0] {
            let budget = whole * tenths / 10;
            let db = Db::open(temporary.path(), options(Some(budget))).unwrap();
            let opened = db.stats();
            assert_eq!((opened.total.filter_memory_bytes, opened.filter_cache.unwrap().loads), (0, 0));
            let least = if spec == "bumped-ribbon:14" && tenths >= 4 { u64::from(TABLES) } else { 8 * tenths / 10 };
            // The background thread rebalances, too, so the end of a round may come at a bad moment.
            until(|| {
                assert_finds_all(&db);
                let (total, cache) = (db.stats().total, db.stats().filter_cache.unwrap());
                assert!(cache.bytes <= budget && total.filter_memory_bytes <= budget, "{spec} {tenths}: {total:?}");
                assert_eq!((cache.damaged, cache.failed_loads), (0, 0));
                db.rebalance_filters();
                // The measured FPR is the one that the remaining columns promise.
                let rate = rate(&db, 0).zip(db.stats().total.points.expected_fpr());
                let is_promised = |(rate, expected): (f64, f64)| (rate - expected).abs() < expected / 4.0 + 0.001;
                cache.resident >= least && (least < 8 || rate.is_some_and(is_promised))
            });
        }
    }
}

#[test]
fn filters_that_are_asked_most_keep_most_columns() {
    for storage in [None, Some(Memory::new())] {
        let temporary = tempfile::tempdir().unwrap();
        let dir = if storage.is_some() { Path::new(DIR) } else { temporary.path() };
        let budget = u64::from(TABLES * KEYS_PER_TABLE) * 9 / 8;
        let mut options = options(Some(budget));
        match &storage {
            Some(memory) => options.storage = Arc::new(memory.clone()),
            None => options.storage = Arc::new(Disk),
        }
        let db = Db::open(dir, options).unwrap();
        load(&db);
        let mut before = None;
        until(|| {
            assert_finds_all(&db);
            db.rebalance_filters();
            before = rate(&db, 3);
            before.is_some()
        });
        let before = before.unwrap();
        for _ in 0..100 {
            rate(&db, 3);
        }
        until(|| {
            db.rebalance_filters();
            assert_finds_all(&db);
            assert!(db.stats().filter_cache.unwrap().bytes <= budget);
            let (hot, cold) = (rate(&db, 3), rate(&db, 5));
            hot.zip(cold).is_some_and(|(hot, cold)| hot < before / 2.0 && hot < cold / 4.0)
        });
        // The most queried filter keeps its columns at the next flush.
        db.put(&key(1_000_000), b"value").unwrap();
        db.flush().unwrap();
        assert!(rate(&db, 3).unwrap() < before / 2.0);
        assert_finds_all(&db);
    }
}

#[test]
fn reads_that_find_no_room_make_the_background_thread_rebalance() {
    let storage = Memory::new();
    // Two of the eight filters fit.
    let whole = u64::from(KEYS_PER_TABLE) * 14 / 8;
    let filter: FilterSpec = "blocked-bloom:12".parse().unwrap();
    let options = Options { filter: Some(Arc::new(filter)), storage: Arc::new(storage), ..options(Some(2 * whole)) };
    let db = Db::open(Path::new(DIR), options).unwrap();
    load(&db);
    [0, 1].into_iter().for_each(|table| ask(&db, table));
    until(|| rate(&db, 6).is_some());
    assert_finds_all(&db);
    assert!(db.stats().filter_cache.unwrap().evictions > 0);
}

/// A damaged filter is found by the first read that needs it.
#[test]
fn a_damaged_filter_is_reported_at_its_first_use() {
    let temporary = tempfile::tempdir().unwrap();
    load(&Db::open(temporary.path(), options(Some(1 << 30))).unwrap());
    let mut path = None;
    for file in std::fs::read_dir(temporary.path()).unwrap() {
        let found = file.unwrap().path();
        if found.extension().is_some_and(|extension| extension == "sst") && path.as_ref() < Some(&found) {
            path = Some(found);
        }
    }
    let path = path.unwrap();
    let table = Table::open(&Disk, &path, TableReadOptions::default()).unwrap();
    let at = usize::try_from(table.filter_offset() + table.filter_len_bytes() / 2).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let db = Db::open(temporary.path(), options(Some(1 << 30))).unwrap();
    assert!(db.stats().reports.is_empty());
    assert_finds_all(&db);
    let stats = db.stats();
    assert_eq!((stats.filter_cache.unwrap().damaged, stats.total.degraded_tables), (1, 1));
    let file = path.file_name().unwrap().to_str().unwrap();
    assert!(stats.reports.len() == 1 && stats.reports[0].contains(file), "{:?}", stats.reports);
    assert!(stats.total.points.degraded > 0);
    drop(db);
    let strict = Options { strict_filters: true, ..options(Some(1 << 30)) };
    let db = Db::open(temporary.path(), strict).unwrap();
    let found: Vec<_> = (0..TABLES * KEYS_PER_TABLE).map(|i| db.get(&key(2 * i))).collect();
    let errors: Vec<_> = found.iter().filter_map(|found| found.as_ref().err()).collect();
    assert!(!errors.is_empty() && errors[0].to_string().contains(file), "{errors:?}");
    assert!(found.iter().flatten().all(Option::is_some));
}
