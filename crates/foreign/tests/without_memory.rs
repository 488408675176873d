//! Tests that calls without enough memory do not abort the process.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

use std::sync::Mutex;

use filterblock_testkit::allocation::failing::{Failing, refuse, refuse_none};

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// The lock that lets only one test run at a time, because all tests share the allocator's state.
static TURN: Mutex<()> = Mutex::new(());

/// Like RocksDB, the builder writes a Bloom filter if it cannot build a ribbon.
#[test]
fn a_rocksdb_ribbon_build_without_memory_gives_a_bloom_filter() {
    use filterblock_foreign::rocksdb;

    let _turn = TURN.lock();
    let make = || {
        let options =
            rocksdb::RocksDbFilterOptions { kind: rocksdb::RocksDbFilterKind::Ribbon128, ..Default::default() };
        let mut builder = rocksdb::RocksDbFilterBuilder::new(options);
        (0..20_000u64).for_each(|i| builder.add(&i.to_le_bytes()));
        builder
    };
    let mut builder = make();
    let sound = builder.finish();
    let kind_of = |filter: &[u8]| rocksdb::RocksDbFilter::new(filter).kind();
    for number in 0.. {
        let mut builder = make();
        refuse(number, false);
        let made = builder.finish();
        let counted = refuse_none();
        if counted <= number {
            assert!(number > 1 && made == sound);
            break;
        }
        assert!(kind_of(&made) != kind_of(&sound), "allocation {number}: expected a Bloom filter, not a ribbon");
        let found = rocksdb::RocksDbFilter::new(&made);
        assert!((0..20_000u64).all(|i| found.may_contain(&i.to_le_bytes())), "allocation {number}");
    }
}
