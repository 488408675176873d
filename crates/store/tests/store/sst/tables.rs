//! Compares SST files with a `BTreeMap`.

use super::denies;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use filterblock::{HashSeed, KeyHasher, Secret};
use filterblock_store::sstable::{
    BlockCache, BlockReads, Compression, Lookup, Table, TableCursor, TableFilter, TableOptions, TableReadOptions,
    TableWriter,
};
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Error, Field};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn write(storage: &dyn Storage, path: &Path, options: TableOptions, model: &Model) {
    let lz4 = options.compression == Compression::Lz4;
    let mut writer = TableWriter::create(storage, path, options).unwrap();
    for (key, value) in model {
        writer.add(key, value.as_deref()).unwrap();
    }
    let bound = writer.len_bytes();
    let summary = writer.finish().unwrap();
    assert!(summary.len_bytes >= bound || lz4);
    assert_eq!(summary.num_entries, model.len() as u64);
    assert_eq!(summary.num_tombstones, model.values().filter(|value| value.is_none()).count() as u64);
    assert_eq!(Some(&summary.smallest), model.keys().next().or(Some(&Vec::new())));
    assert_eq!(Some(&summary.largest), model.keys().next_back().or(Some(&Vec::new())));
}

fn expected(model: &Model, key: &[u8]) -> Lookup {
    match model.get(key) {
        None => Lookup::NotFound,
        Some(None) => Lookup::Tombstone,
        Some(Some(value)) => Lookup::Value(value.clone()),
    }
}

fn at(cursor: &TableCursor) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().map(<[u8]>::to_vec)))
}

fn owned(entry: Option<(&Vec<u8>, &Option<Vec<u8>>)>) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    entry.map(|(key, value)| (key.clone(), value.clone()))
}

/// Generates keys of several shapes: short keys close together, random keys, keys with a long
/// common prefix, and keys of the lowest and highest bytes. Some keys are empty.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(0u8..3, 0..6),
        vec(any::<u8>(), 0..20),
        vec(0u8..2, 1..4).prop_map(|tail| [vec![b'p'; 300], tail].concat()),
        vec(prop_oneof![Just(0u8), Just(0xff)], 0..12),
    ]
}

fn values() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        Just(None),
        Just(Some(Vec::new())),
        vec(any::<u8>(), 0..40).prop_map(Some),
        (any::<u8>(), 0usize..700).prop_map(|(byte, len)| Some(vec![byte; len])),
    ]
}

/// Returns a hasher with a hash function that `seed` chooses.
fn hasher(seed: u64) -> KeyHasher {
    let secret = Secret::new(&[3; 16]).unwrap();
    match seed % 3 {
        0 => KeyHasher::xxh3(HashSeed(seed)),
        1 => KeyHasher::xxh3_with_secret(HashSeed(seed), &secret),
        _ => KeyHasher::sip13(HashSeed(seed), &secret),
    }
}

fn options() -> impl Strategy<Value = TableOptions> {
    let compression = prop_oneof![Just(Compression::None), Just(Compression::Lz4)];
    let filter = prop_oneof![Just(None), Just(Some("bloom:10")), Just(Some("blocked-bloom:4"))];
    let sizes =
        (prop_oneof![Just(1usize), Just(64), Just(300), Just(4096)], prop_oneof![Just(1usize), Just(3), Just(16)]);
    (compression, filter, sizes, any::<u64>(), any::<[u8; 16]>()).prop_map(|(compression, filter, sizes, seed, id)| {
        TableOptions {
            block_size_bytes: sizes.0,
            restart_interval: sizes.1,
            compression,
            filter: filter.map(|spec| spec.parse().unwrap()),
            hasher: hasher(seed),
            table_id: id,
            ..TableOptions::default()
        }
    })
}

fn check_gets(table: &Arc<Table>, model: &Model, probes: &[Vec<u8>]) {
    let cache = BlockCache::new(64 << 20);
    for key in model.keys().chain(probes) {
        let wanted = expected(model, key);
        assert_eq!(table.get(key).unwrap(), wanted);
        let mut reads = BlockReads::default();
        assert_eq!(table.find(key, None, &mut reads).unwrap(), wanted);
        assert!(reads.blocks <= 1 && (reads.blocks == 1 || wanted == Lookup::NotFound));
        for _ in 0..2 {
            assert_eq!(table.find(key, Some(&cache), &mut reads).unwrap(), wanted);
        }
        assert!(reads.blocks <= 2, "the second read of a block must come from the cache");
        if model.contains_key(key) {
            assert!(!denies(table, key));
        }
    }
}

fn check_cursors(table: &Arc<Table>, model: &Model, probes: &[Vec<u8>]) {
    let entries: Vec<_> = table.iter().collect::<Result<_, _>>().unwrap();
    assert!(entries.iter().map(|(key, value)| (key, value)).eq(model.iter()));
    let mut cursor = table.cursor(Some(Arc::new(BlockCache::new(1 << 20))));
    assert_eq!(at(&cursor), None);
    cursor.seek_to_last().unwrap();
    for entry in model.iter().rev() {
        assert_eq!(at(&cursor), owned(Some(entry)));
        cursor.prev().unwrap();
    }
    assert_eq!(at(&cursor), None);
    cursor.seek_to_first().unwrap();
    assert_eq!(at(&cursor), owned(model.iter().next()));
    for key in model.keys().chain(probes) {
        let from = (Bound::Included(key.clone()), Bound::Unbounded);
        cursor.seek(key).unwrap();
        assert_eq!(at(&cursor), owned(model.range(from.clone()).next()));
        cursor.next().unwrap();
        assert_eq!(at(&cursor), owned(model.range(from.clone()).nth(1)));
        cursor.seek(key).unwrap();
        cursor.prev().unwrap();
        let before = if model.range(from).next().is_none() { None } else { model.range(..key.clone()).next_back() };
        assert_eq!(at(&cursor), owned(before));
        cursor.seek_for_prev(key).unwrap();
        assert_eq!(at(&cursor), owned(model.range(..=key.clone()).next_back()));
        cursor.prev().unwrap();
        assert_eq!(at(&cursor), owned(model.range(..=key.clone()).rev().nth(1)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_table_finds_all_written_entries_and_no_others(
        model in btree_map(keys(), values(), 0..120),
        probes in vec(keys(), 0..30),
        options in options(),
    ) {
        let storage = Memory::new();
        let path = Path::new("t.sst");
        write(&storage, path, options.clone(), &model);
        let read_options = TableReadOptions {
            strict: true, hasher: Some(options.hasher), table_id: Some(options.table_id), ..TableReadOptions::default()
        };
        let table = Arc::new(Table::open(&storage, path, read_options).unwrap());
        assert_eq!(matches!(table.filter(), TableFilter::Absent), options.filter.is_none());
        check_gets(&table, &model, &probes);
        check_cursors(&table, &model, &probes);
        let check = table.verify().unwrap();
        prop_assert!(check.is_sound(), "{check:?}");
        prop_assert_eq!(check.entries, model.len() as u64);
        prop_assert_eq!(check.data_blocks, table.properties().num_data_blocks);
    }
}

fn numbers(count: u32) -> Model {
    (0..count).map(|i| (format!("key{i:08}").into_bytes(), Some(format!("value {i}").into_bytes()))).collect()
}

#[test]
fn an_entry_above_the_block_size_gets_a_block_of_its_own() {
    let storage = Memory::new();
    let path = Path::new("t.sst");
    let model: Model = (0..5u8).map(|i| (vec![i], Some(vec![i; if i == 2 { 1 << 20 } else { 10 }]))).collect();
    write(&storage, path, TableOptions::default(), &model);
    let table = Arc::new(Table::open(&storage, path, TableReadOptions::default()).unwrap());
    assert_eq!(table.properties().num_data_blocks, 3);
    check_gets(&table, &model, &[]);
}

#[test]
fn keys_out_of_order_or_repeated_are_refused_without_loss() {
    let storage = Memory::new();
    let path = Path::new("t.sst");
    let options = TableOptions { block_size_bytes: 1, ..TableOptions::default() };
    let mut writer = TableWriter::create(&storage, path, options).unwrap();
    writer.add(b"", None).unwrap();
    assert!(matches!(writer.add(b"", None), Err(Error::OutOfOrder)));
    writer.add(b"m", Some(b"1")).unwrap();
    assert!(matches!(writer.add(b"m", Some(b"2")), Err(Error::OutOfOrder)));
    assert!(matches!(writer.add(b"a", Some(b"2")), Err(Error::OutOfOrder)));
    writer.add(b"n", Some(b"3")).unwrap();
    assert_eq!(writer.finish().unwrap().num_entries, 3);
    let table = Table::open(&storage, path, TableReadOptions::default()).unwrap();
    assert_eq!(table.get(b"m").unwrap(), Lookup::Value(b"1".to_vec()));
    assert_eq!(table.get(b"").unwrap(), Lookup::Tombstone);
    assert!(table.verify().unwrap().is_sound());
}

#[test]
fn an_unfinished_file_has_no_name_and_a_finished_one_replaces() {
    let storage = Memory::new();
    storage.create_dir_all(Path::new("/d")).unwrap();
    let path = Path::new("/d/t.sst");
    write(&storage, path, TableOptions::default(), &numbers(10));
    let mut writer = TableWriter::create(&storage, path, TableOptions::default()).unwrap();
    assert!(
        TableWriter::create(&storage, path, TableOptions::default()).is_err(),
        "a second writer got the temporary file of the first"
    );
    writer.add(b"k", None).unwrap();
    let old = Table::open(&storage, path, TableReadOptions::default()).unwrap();
    drop(writer);
    assert_eq!(storage.list(Path::new("/d")).unwrap(), ["t.sst"]);
    write(&storage, path, TableOptions::default(), &numbers(20));
    let new = Table::open(&storage, path, TableReadOptions::default()).unwrap();
    assert_eq!((old.properties().num_entries, new.properties().num_entries), (10, 20));
    assert!(old.verify().unwrap().is_sound(), "an open handle must keep the old file");
}

#[test]
fn another_table_id_is_refused_and_another_seed_degrades() {
    let storage = Memory::new();
    let path = Path::new("t.sst");
    let model = numbers(10);
    write(&storage, path, TableOptions { hasher: HashSeed(7).into(), ..TableOptions::default() }, &model);
    let other_id = TableReadOptions { table_id: Some([1; 16]), ..TableReadOptions::default() };
    let error = Table::open(&storage, path, other_id).unwrap_err();
    assert!(matches!(error.root(), Error::Corrupt { field: Field::TableId, .. }), "{error}");
    let other_seed = TableReadOptions { hasher: Some(HashSeed(8).into()), ..TableReadOptions::default() };
    let table = Arc::new(Table::open(&storage, path, other_seed.clone()).unwrap());
    assert!(matches!(table.filter(), TableFilter::Degraded(error) if error.to_string().contains("hash seed")));
    check_gets(&table, &model, &[b"absent".to_vec()]);
    assert!(Table::open(&storage, path, TableReadOptions { strict: true, ..other_seed }).is_err());
}

#[test]
fn a_filter_without_the_right_secret_answers_maybe() {
    let storage = Memory::new();
    let path = Path::new("t.sst");
    let model = numbers(100);
    let [secret, other] = [[1; 16], [2; 16]].map(|bytes| Secret::new(&bytes).unwrap());
    for of in [KeyHasher::xxh3_with_secret, KeyHasher::sip13] {
        if storage.exists(path).unwrap() {
            storage.remove(path).unwrap();
        }
        let hasher = of(HashSeed(7), &secret);
        write(&storage, path, TableOptions { hasher: hasher.clone(), ..TableOptions::default() }, &model);
        let open = |hasher, strict| {
            let options = TableReadOptions { hasher, strict, ..TableReadOptions::default() };
            Table::open(&storage, path, options)
        };
        let right = open(Some(hasher.clone()), true).unwrap();
        assert!(matches!(right.filter(), TableFilter::Ready(_)) && right.verify().unwrap().is_sound());
        for wrong in [None, Some(of(HashSeed(7), &other)), Some(of(HashSeed(8), &secret)), Some(HashSeed(7).into())] {
            let table = Arc::new(open(wrong.clone(), false).unwrap());
            assert!(matches!(table.filter(), TableFilter::Degraded(_)), "{wrong:?}");
            check_gets(&table, &model, &[b"absent".to_vec()]);
            // Without a hasher, `verify` returns an error that asks for the secret. With a hasher,
            // a filter of another hasher is damage.
            match wrong {
                Some(_) => assert_eq!(table.verify().unwrap().damage.len(), 1, "{wrong:?}"),
                None => assert!(table.verify().unwrap_err().is_secret_mismatch()),
            }
            let error = open(wrong, true).unwrap_err();
            assert!(error.to_string().starts_with("t.sst: "), "{error}");
        }
        let error = open(None, true).unwrap_err();
        assert!(
            matches!(error.root(), Error::Filter(filterblock::Error::Secret { hash, given: None, .. }) if *hash == hasher.identity().kind),
            "{error}"
        );
        let error = open(Some(of(HashSeed(7), &other)), true).unwrap_err();
        assert!(matches!(error.root(), Error::Filter(filterblock::Error::Secret { given: Some(_), .. })), "{error}");
    }
}
