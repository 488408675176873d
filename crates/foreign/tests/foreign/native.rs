//! Tests tables that LevelDB and RocksDB wrote with filters of this crate, through the adapters in
//! `integrations`. Each table has 1,000 keys `key-%08d`. The keys are hashed under seed 7, and in
//! `rocksdb-secret.sst` with a secret.

use filterblock::{HashKind, HashSeed, KeyHasher, Secret};
use filterblock_foreign::leveldb::{self, LevelDbTable};
use filterblock_foreign::rocksdb::{self, RocksDbFilterLayout, RocksDbTable};
use filterblock_foreign::{Error, Field};
use filterblock_testkit::foreign::file;
use filterblock_testkit::foreign::forge::seal;

const FOLDER: &str = "filterblock";
const KEYS: u64 = 1_000;

fn key(i: u64) -> Vec<u8> {
    format!("key-{i:08}").into_bytes()
}

fn rocksdb_table(name: &str) -> RocksDbTable<Vec<u8>> {
    RocksDbTable::open(file(FOLDER, name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Asserts that no present key is denied. Returns how many of 10,000 absent keys pass.
fn passing(may_contain: impl Fn(&[u8]) -> bool) -> usize {
    assert!((0..KEYS).all(|i| may_contain(&key(i))), "a present key is denied");
    (0..10_000).filter(|i| may_contain(&[key(i % KEYS), format!("x{i}").into_bytes()].concat())).count()
}

#[test]
fn native_filters_in_rocksdb_tables_answer() {
    for (name, kind, layout) in [
        ("rocksdb-full.sst", "blocked-bloom", RocksDbFilterLayout::Full),
        ("rocksdb-ribbon.sst", "bumped-ribbon", RocksDbFilterLayout::Full),
        ("rocksdb-partitioned.sst", "bumped-ribbon", RocksDbFilterLayout::Partitioned(5)),
        ("rocksdb-prefixes.sst", "bloom", RocksDbFilterLayout::Full),
    ] {
        let table = rocksdb_table(name);
        let passed = passing(|key| table.may_contain(key));
        assert!((1..250).contains(&passed), "{name}: {passed} of 10,000 pass");
        let (asked, mut answers) = ((0..KEYS).map(key).collect::<Vec<_>>(), vec![false; KEYS as usize]);
        let asked: Vec<&[u8]> = asked.iter().map(Vec::as_slice).collect();
        table.may_contain_batch(&asked, &mut answers);
        assert!(answers.iter().all(|&answer| answer), "{name}");

        assert_eq!(table.filter_layout(), layout, "{name}");
        assert_eq!(table.native_hash(), Some(KeyHasher::xxh3(HashSeed(7)).identity()), "{name}");
        let verified = table.verify().unwrap();
        assert_eq!((verified.keys, verified.denied_keys), (KEYS, 0), "{name}");
        let (mut keys, mut filters) = (0.0, 0);
        table.for_each_filter(|place| {
            let info = table.filter_info(table.filter_bytes(&place).unwrap());
            assert_eq!((info.kind, info.len_bytes), (kind, place.len_bytes), "{name}");
            assert!(info.expected_fpr > 0.0 && info.expected_fpr < 0.02, "{name}: {}", info.expected_fpr);
            assert!(table.filter(&place).is_none(), "{name}: the bytes are not a filter of RocksDB");
            (keys, filters) = (keys + info.estimated_keys.unwrap(), filters + 1);
            true
        });
        let prefixes = if name.contains("prefixes") { 10.0 } else { 0.0 };
        assert_eq!(keys, KEYS as f64 + prefixes, "{name}");
        assert_eq!(filters, if let RocksDbFilterLayout::Partitioned(parts) = layout { parts } else { 1 }, "{name}");
    }
}

#[test]
fn native_filters_answer_for_prefixes() {
    let table = rocksdb_table("rocksdb-prefixes.sst");
    assert!((0..KEYS).all(|i| table.prefix_may_match(&key(i))));
    assert!((0..1_000).filter(|i| table.prefix_may_match(&key(1_000_000 + i * 100))).count() < 50);
    // Without an extractor, the filters hold no prefixes.
    assert!(rocksdb_table("rocksdb-full.sst").prefix_may_match(b"other-prefix"));
}

#[test]
fn native_filters_under_a_secret_need_it() {
    let mut table = rocksdb_table("rocksdb-secret.sst");
    assert_eq!(table.native_hash().unwrap().kind, HashKind::SipHash13);
    assert_eq!(passing(|key| table.may_contain(key)), 10_000);
    let error = table.unlock(&Secret::new(&[1; 16]).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Filter(filterblock::Error::Secret { .. })), "{error}");
    assert_eq!(passing(|key| table.may_contain(key)), 10_000);
    table.unlock(&Secret::new(b"0123456789abcdef").unwrap()).unwrap();
    assert!(passing(|key| table.may_contain(key)) < 250);
    // A secret cannot unlock these filters, because their keys were hashed without one.
    for name in ["rocksdb-full.sst", "rocksdb-partitioned.sst"] {
        assert!(rocksdb_table(name).unlock(&Secret::new(&[1; 16]).unwrap()).is_err(), "{name}");
    }
    let builtin = file("rocksdb-9.8.4-layouts", "fv6-data-hash.sst");
    assert!(RocksDbTable::open(builtin).unwrap().unlock(&Secret::new(&[1; 16]).unwrap()).is_err());
}

#[test]
fn a_damaged_native_filter_is_an_error_at_open() {
    for name in ["rocksdb-full.sst", "rocksdb-partitioned.sst"] {
        let sound = file(FOLDER, name);
        let mut places = Vec::new();
        rocksdb_table(name).for_each_filter(|place| {
            places.push(place.offset as usize..(place.offset + place.len_bytes) as usize);
            true
        });
        for place in places {
            for at in place.step_by(7) {
                let mut damaged = sound.clone();
                damaged[at] ^= 1;
                assert!(RocksDbTable::open(damaged).unwrap_err().is_damage(), "{name}: byte {at}");
            }
        }
    }
}

#[test]
fn compact_filters_in_leveldb_tables_answer() {
    let sound = file(FOLDER, "leveldb-compact.ldb");
    let open = |seed| LevelDbTable::open_with(&sound[..], None, &KeyHasher::xxh3(HashSeed(seed))).unwrap();
    let table = open(7);
    assert_eq!(table.policy(), Some(leveldb::NATIVE_POLICY));
    assert!(table.has_native_filters() && table.filter_block().is_none());
    let passed = passing(|key| table.may_contain(key));
    assert!((1..250).contains(&passed), "{passed} of 10,000 pass");
    let (all, unusable) = table.count_unusable_filters();
    assert!(all > 10 && unusable == 0, "{unusable} of {all} filters are unusable");
    let verified = table.verify().unwrap();
    assert_eq!((verified.keys, verified.denied_keys), (KEYS, 0));
    let infos: Vec<_> =
        table.filters().filter(|place| place.len_bytes > 0).map(|place| table.filter_info(&place)).collect();
    assert!(infos.iter().all(|info| info.kind == "bloom" && info.probes == Some(7)), "{infos:?}");
    let keys: f64 = infos.iter().filter_map(|info| info.estimated_keys).sum();
    assert!((900.0..1_100.0).contains(&keys), "{keys} keys estimated");

    // Under another seed, no filter can be used.
    let mut table = open(0);
    assert_eq!(passing(|key| table.may_contain(key)), 10_000);
    assert_eq!(table.count_unusable_filters(), (all, all));
    assert_eq!(table.verify().unwrap().denied_keys, 0);
    table.set_hasher(&KeyHasher::xxh3(HashSeed(7)), None).unwrap();
    assert!(passing(|key| table.may_contain(key)) < 250);
    // All of LevelDB's own filters are usable.
    let own = LevelDbTable::open(file("leveldb", "db-n1500.ldb")).unwrap();
    assert!(!own.has_native_filters() && own.has_known_filters() && own.filter_block().is_some());
    assert_eq!(own.count_unusable_filters().1, 0);
}

#[test]
fn a_damaged_compact_filter_answers_maybe() {
    let sound = file(FOLDER, "leveldb-compact.ldb");
    let hasher = KeyHasher::xxh3(HashSeed(7));
    let table = LevelDbTable::open_with(&sound[..], None, &hasher).unwrap();
    let place = table.filters().filter(|place| place.len_bytes > 0).nth(3).unwrap();
    // The test simulates damage that happens before LevelDB computes the checksum of the filter
    // block. So `seal` writes the checksum again, for the range from the first filter to the end of
    // the block.
    let (first, last) = (table.filters().next().unwrap(), table.filters().last().unwrap());
    let start = first.offset as usize;
    // The offset of each filter, the offset of these offsets, and the base follow the filters.
    let len = (last.offset + last.len_bytes) as usize - start + 4 * (table.filters().count() + 1) + 1;
    for bit in (place.offset * 8..(place.offset + place.len_bytes) * 8).step_by(5) {
        let mut damaged = sound.clone();
        damaged[bit as usize / 8] ^= 1 << (bit % 8);
        seal(&mut damaged, start, len);
        let table = LevelDbTable::open_with(damaged, None, &hasher).unwrap();
        assert_eq!(table.count_unusable_filters().1, 1);
        assert!((0..KEYS).all(|i| table.may_contain(&key(i))), "bit {bit}");
        assert!(matches!(table.verify(), Err(Error::Corrupt { field: Field::FilterBlock, .. })), "bit {bit}");
    }
}

#[test]
fn native_policies_have_stable_names() {
    assert_eq!(rocksdb::NATIVE_POLICY, "filterblock.v1");
    assert_eq!(leveldb::NATIVE_POLICY, "filterblock.compact.v1");
}
