//! Tests RocksDB tables of many layouts.

use filterblock_foreign::rocksdb::{RocksDbFilterLayout, RocksDbIndexKind, RocksDbPrefixExtractor, RocksDbTable};
use filterblock_foreign::{Error, Field};
use filterblock_testkit::foreign::file;

use crate::keys_of;

const FOLDER: &str = "rocksdb-9.8.4-layouts";

fn key(i: u64) -> Vec<u8> {
    format!("key-{:08}", i * 7).into_bytes()
}

fn partitions(table: &RocksDbTable<Vec<u8>>) -> u64 {
    if let RocksDbFilterLayout::Partitioned(partitions) = table.filter_layout() { partitions } else { 0 }
}

/// Opens a table with keys 0 to `n - 1`, and checks that it denies none of them. Then asks for
/// absent keys: a table with a filter must deny most of them, and a table without a filter none.
fn open(name: &str, n: u64) -> RocksDbTable<Vec<u8>> {
    let table = RocksDbTable::open(file(FOLDER, name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    for i in 0..n {
        assert!(table.may_contain(&key(i)), "{name} denies key {i}");
    }
    let passing = (n..n + 10_000).filter(|&i| table.may_contain(&key(i))).count();
    let has_filter = table.filter_layout() == RocksDbFilterLayout::Full || partitions(&table) > 0;
    // In a table with reverse key order, a query asks all partitions, so more absent keys pass.
    let most = if name.contains("reverse") { 1_500 } else { 200 };
    assert!(
        if has_filter { passing < most } else { passing == 10_000 },
        "{name}: {passing} of 10,000 absent keys pass"
    );
    table
}

#[test]
fn every_layout_of_index_and_data_blocks_is_read() {
    let layouts = [
        ("fv2-lz4.sst", 600, RocksDbIndexKind::Binary, false),
        ("fv3-first-key.sst", 600, RocksDbIndexKind::BinaryWithFirstKey, false),
        ("fv3-zstd.sst", 600, RocksDbIndexKind::Binary, false),
        ("fv4-snappy-partitions.sst", 600, RocksDbIndexKind::TwoLevel, true),
        ("fv5-first-key-restarts.sst", 600, RocksDbIndexKind::BinaryWithFirstKey, false),
        ("fv5-lz4hc.sst", 600, RocksDbIndexKind::Binary, false),
        ("fv6-data-hash.sst", 600, RocksDbIndexKind::Binary, false),
        ("fv6-first-key.sst", 600, RocksDbIndexKind::BinaryWithFirstKey, false),
        ("fv6-index-hash.sst", 600, RocksDbIndexKind::Hash, false),
        ("fv6-lz4-index-restarts.sst", 600, RocksDbIndexKind::Binary, false),
        ("fv6-no-filter.sst", 50, RocksDbIndexKind::Binary, false),
        ("fv6-partitions-index-restarts.sst", 600, RocksDbIndexKind::TwoLevel, true),
        ("fv6-prefix-only-none-in-domain.sst", 50, RocksDbIndexKind::Binary, false),
        ("fv6-zstd.sst", 600, RocksDbIndexKind::Binary, false),
    ];
    for (name, n, index, is_partitioned) in layouts {
        let table = open(name, n);
        assert_eq!(table.properties().index_kind, index, "{name}");
        assert_eq!(matches!(table.filter_layout(), RocksDbFilterLayout::Partitioned(2..)), is_partitioned, "{name}");
        assert!(keys_of(|push| table.for_each_key(push)).unwrap() == (0..n).map(key).collect::<Vec<_>>(), "{name}");
        let verified = table.verify().unwrap();
        assert_eq!((verified.keys, verified.denied_keys), (n, 0), "{name}");
        assert!(verified.blocks > table.properties().num_data_blocks, "{name}: {verified:?}");
    }
}

#[test]
fn a_table_without_filter_answers_maybe() {
    let table = open("fv6-prefix-only-none-in-domain.sst", 50);
    assert!(!table.properties().whole_key_filtering);
    assert_eq!(table.properties().extractor(), Some(RocksDbPrefixExtractor::Fixed(100)));
    assert!(table.may_contain(&[b'x'; 200]) && table.prefix_may_match(&[b'x'; 200]));
    assert_eq!(open("fv6-no-filter.sst", 50).filter_layout(), RocksDbFilterLayout::None);
}

#[test]
fn versions_and_tombstones_of_a_key_count_once() {
    for name in ["db-versions.sst", "db-versions-partitions.sst"] {
        let table = open(name, 400);
        assert!(keys_of(|push| table.for_each_key(push)).unwrap() == (0..400).map(key).collect::<Vec<_>>(), "{name}");
        let verified = table.verify().unwrap();
        assert_eq!(verified.denied_keys, 0);
        assert!(verified.keys > 600, "{name}: {verified:?}");
    }
}

#[test]
fn partitions_in_another_key_order_are_all_asked() {
    let table = open("fv6-reverse-partitions.sst", 600);
    assert_eq!(table.properties().comparator, "rocksdb.ReverseBytewiseComparator");
    assert!(partitions(&table) > 2);
    assert!(keys_of(|push| table.for_each_key(push)).unwrap() == (0..600).rev().map(key).collect::<Vec<_>>());
    assert_eq!(table.verify().unwrap().denied_keys, 0);
}

#[test]
fn unsupported_data_blocks_are_errors_and_filters_still_answer() {
    for (name, n, compression) in [("fv6-bz2.sst", 200, 3), ("fv6-zstd-dictionary.sst", 600, 7)] {
        let table = open(name, n);
        let is_named = |error: &Error| matches!(error, Error::Unsupported { field: Field::Compression, found } if *found == compression);
        assert!(keys_of(|push| table.for_each_key(push)).is_err_and(|error| is_named(&error)), "{name}");
        assert!(table.verify().is_err_and(|error| is_named(&error)), "{name}");
    }
}

#[test]
fn an_ingested_table_is_sound_with_its_sequence_number() {
    let name = "fv5-lz4hc.sst";
    let mut bytes = file(FOLDER, name);
    // The key of the sequence number shares a prefix with the previous key, so the properties store
    // only the end of the key. The value is eight zeros.
    let wanted = b"external_sst_file.global_seqno";
    let place = bytes.windows(wanted.len()).position(|window| window == wanted).unwrap() + wanted.len();
    assert_eq!(bytes[place..place + 8], [0; 8]);
    bytes[place..place + 8].copy_from_slice(&77u64.to_le_bytes());
    let table = RocksDbTable::open(bytes.clone()).unwrap();
    assert_eq!(table.verify().unwrap().denied_keys, 0);
    // A change of another byte of the properties is damage.
    bytes[place + 9] ^= 1;
    assert!(matches!(RocksDbTable::open(bytes), Err(Error::ChecksumMismatch { field: Field::Properties, .. })));
}
