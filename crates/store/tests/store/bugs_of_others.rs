//! Tests this store for known defects of other stores that no other test looks for.
//! docs/TESTING.md lists the defects of other projects and the tests for them.

use crate::common::{DIR, key, quiet};
use filterblock_store::storage::Memory;
use filterblock_store::{Db, Options};

#[test]
fn tombstones_are_in_the_filter_so_deleted_keys_stay_deleted() {
    let storage = Memory::new();
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    (0..500).for_each(|i| db.put(&key(i), b"value").unwrap());
    db.flush().unwrap();
    // This SST has only tombstones and is newer than the SST with the values.
    (0..500).for_each(|i| db.delete(&key(i)).unwrap());
    db.flush().unwrap();
    db.reset_stats();
    assert!((0..500).all(|i| db.get(&key(i)).unwrap().is_none()));
    let stats = db.stats();
    assert_eq!(
        (stats.total.points.true_positives, stats.total.points.probes),
        (500, 500),
        "the filter of the newer SST must answer \"maybe\" for each key"
    );
    // After the next calls, values lie in a deeper level and tombstones in level 0.
    db.compact_range(..).unwrap();
    (0..500).step_by(3).for_each(|i| db.put(&key(i), b"again").unwrap());
    db.compact_range(..).unwrap();
    (0..500).step_by(6).for_each(|i| db.delete(&key(i)).unwrap());
    db.flush().unwrap();
    for i in 0..500 {
        assert_eq!(db.get(&key(i)).unwrap().is_some(), i % 3 == 0 && i % 6 != 0, "{i}");
    }
}

#[test]
fn an_sst_that_only_changes_level_keeps_its_filter_and_keys() {
    let storage = Memory::new();
    let options =
        || Options { table_size_bytes: 4_000, level_base_bytes: 1, l0_compaction_trigger: 1, ..quiet(&storage) };
    let db = Db::open(DIR, Options { auto_compaction: true, ..options() }).unwrap();
    for i in 0..2_000 {
        db.put(&key(i), &[7; 40]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let stats = db.stats();
    assert!(stats.levels.iter().skip(2).any(|level| level.tables > 0), "no SST moved down: {stats:?}");
    db.reset_stats();
    assert!((0..2_000).all(|i| db.get(&key(i)).unwrap().is_some()));
    let total = db.stats().total;
    assert_eq!(
        (total.points.true_positives, total.points.unfiltered, total.points.degraded),
        (2_000, 0, 0),
        "{total:?}"
    );
}
