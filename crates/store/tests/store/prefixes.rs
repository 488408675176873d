//! Tests prefixes in filters: scans, gets, other extractors, damage and repair.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use crate::common::{self, DIR, files, quiet};
use filterblock::{Answer, FilterSpec, HashSeed, KeyHasher, PrefixExtractor, policy::FilterPolicy};
use filterblock_store::Db;
use filterblock_store::lsm::{Options, PrefixChoice, ProbeStats};
use filterblock_store::repair::RepairMode;
use filterblock_store::sstable::{Table, TableOptions, TableReadOptions, TableWriter};
use filterblock_store::storage::Memory;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
/// The writes of one SST: keys, each with `true` for a value or `false` for a tombstone.
type Writes<'a> = &'a [(&'a str, bool)];

fn by(storage: &Memory, extractor: &str) -> Options {
    let spec: FilterSpec = "blocked-bloom:16".parse().unwrap();
    Options { prefix_extractor: extractor.parse().unwrap(), filter: Some(Arc::new(spec)), ..quiet(storage) }
}

/// Writes each element of `tables` to an SST of level 0, oldest first. Returns the content of the
/// store.
fn fill(db: &Db, tables: &[Writes<'_>]) -> Model {
    let mut model = Model::new();
    for (number, table) in tables.iter().enumerate() {
        for (key, is_value) in *table {
            let (key, value) = (key.as_bytes(), number.to_string().into_bytes());
            if *is_value {
                db.put(key, &value).unwrap();
                model.insert(key.to_vec(), value);
            } else {
                db.delete(key).unwrap();
                model.remove(key);
            }
        }
        db.flush().unwrap();
    }
    model
}

fn store(extractor: &str, tables: &[Writes<'_>]) -> (Db, Model) {
    let db = Db::open(DIR, by(&Memory::new(), extractor)).unwrap();
    let model = fill(&db, tables);
    (db, model)
}

/// Scans a range forwards, backwards, and from both ends alternately. Compares each scan with the
/// model.
pub(crate) fn check(db: &Db, model: &Model, from: Bound<&[u8]>, to: Bound<&[u8]>) {
    let is_within = |key: &[u8]| {
        (match from {
            Bound::Included(from) => key >= from,
            Bound::Excluded(from) => key > from,
            Bound::Unbounded => true,
        }) && match to {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        }
    };
    let wanted: Vec<_> = model.iter().filter(|(key, _)| is_within(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let forward: Vec<_> = db.scan((from, to)).map(Result::unwrap).collect();
    assert_eq!(forward, wanted, "forward {from:?} {to:?}");
    let mut backward: Vec<_> = db.scan((from, to)).rev().map(Result::unwrap).collect();
    backward.reverse();
    assert_eq!(backward, wanted, "backward {from:?} {to:?}");
    let (mut scan, mut front, mut back) = (db.scan((from, to)), Vec::new(), Vec::new());
    while let Some(next) = scan.next() {
        front.push(next.unwrap());
        back.extend(scan.next_back().map(Result::unwrap));
    }
    front.extend(back.into_iter().rev());
    assert_eq!(front, wanted, "alternately {from:?} {to:?}");
}

/// Checks all ranges between the given keys, and the scan of each of these keys as a prefix.
fn check_ranges(db: &Db, model: &Model, keys: &[&str]) {
    let ends = keys.iter().flat_map(|key| [Bound::Included(key.as_bytes()), Bound::Excluded(key.as_bytes())]);
    let ends: Vec<_> = ends.chain([Bound::Unbounded]).collect();
    for &from in &ends {
        ends.iter().for_each(|&to| check(db, model, from, to));
    }
    for key in keys {
        let found: Model = db.scan_prefix(key.as_bytes()).map(Result::unwrap).collect();
        let wanted: Model =
            model.iter().filter(|(k, _)| k.starts_with(key.as_bytes())).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(found, wanted, "prefix {key}");
    }
}

#[test]
fn a_scan_of_an_absent_prefix_reads_nothing() {
    let tables: Vec<Vec<(String, bool)>> =
        (0..6).map(|table| (0..50).map(|i| (format!("{i:02}/{table}"), true)).collect()).collect();
    let tables: Vec<Vec<(&str, bool)>> =
        tables.iter().map(|table| table.iter().map(|(key, is)| (key.as_str(), *is)).collect()).collect();
    let (db, _) = store("delimiter:/", &tables.iter().map(Vec::as_slice).collect::<Vec<_>>());
    for i in 0..50 {
        assert_eq!(db.scan_prefix(format!("{i:02}x/").as_bytes()).count(), 0);
        assert_eq!(db.scan_prefix(format!("{i:02}x/").as_bytes()).rev().count(), 0);
    }
    let stats = db.stats();
    let prefixes = stats.total.prefixes;
    // The last prefix lies above the SSTs.
    assert_eq!((prefixes.true_negatives + prefixes.false_positives, prefixes.unfiltered), (49 * 2 * 6, 0));
    assert!(prefixes.false_positives <= 6 && stats.scan_block_reads <= 6, "{stats:?}");
    assert_eq!(
        (stats.total.points.probes, stats.total.points.true_negatives),
        (0, 0),
        "queries of prefixes count as queries of keys"
    );
    db.reset_stats();
    assert_eq!(db.scan_prefix(b"07/").count(), 6);
    assert_eq!(db.stats().total.prefixes.true_positives, 6);
}

#[test]
fn a_wrong_maybe_counts_only_if_the_scan_sees_the_whole_prefix() {
    let table = ["ann/1", "ann/5", "ann0", "zed/1"].map(|key| (key, true));
    // A filter that never denies is wrong about every absent prefix.
    let options = Options { filter: Some(Arc::new(FilterSpec::ALWAYS_MAYBE)), ..by(&Memory::new(), "delimiter:/") };
    let db = Db::open(DIR, options).unwrap();
    fill(&db, &[&table]);
    let counts = |from: &str, to: &str, is_forward: bool| {
        db.reset_stats();
        let scan = db.scan(from.as_bytes()..to.as_bytes());
        if is_forward {
            scan.for_each(drop)
        } else {
            scan.rev().for_each(drop)
        }
        let prefixes = db.stats().total.prefixes;
        (prefixes.true_positives, prefixes.false_positives)
    };
    for is_forward in [true, false] {
        assert_eq!(counts("ann/", "ann0", is_forward), (1, 0));
        assert_eq!(counts("ann/2", "ann0", is_forward), (1, 0));
        assert_eq!(counts("bob/", "bob0", is_forward), (0, 1));
        assert_eq!(counts("bob/3", "bob/4", is_forward), (0, 0), "the scan does not see whether the SST has bob/9");
    }
    assert_eq!(counts("ann/6", "ann0", true), (0, 0));
    assert_eq!(counts("ann/6", "ann0", false), (1, 0));
}

/// A scan must ask for the prefix that the filter holds. Pebble did not strip a synthetic prefix
/// from the query, and missed keys (cockroachdb/pebble#3627).
#[test]
fn a_scan_asks_for_the_prefix_and_not_for_its_bound() {
    let tables: [Writes<'_>; 2] = [
        &[("user0001/p", true), ("user0009/p", true)],
        &[("user0000/p", true), ("user0002/p", true), ("user0009/q", true)],
    ];
    for extractor in ["fixed:8", "capped:8", "delimiter:/", "row-column:/"] {
        let (db, model) = store(extractor, &tables);
        check_ranges(&db, &model, &["user0001/m", "user0001/p", "user0001/z", "user0001", "user0001/", "user0002/a"]);
        assert!(db.stats().total.prefixes.true_negatives > 0, "{extractor} asks nothing");
    }
}

#[test]
fn keys_out_of_the_domain_are_in_every_scan() {
    let tables: [Writes<'_>; 4] = [
        &[("", true), ("a", true), ("ab", true)],
        &[("abc", true), ("abcd", true)],
        &[("abcde", true), ("abd", true), ("ab/", true)],
        &[("a/b", true), ("a/b/c", true), ("b", false)],
    ];
    for extractor in ["fixed:3", "fixed:4", "capped:3", "capped:4", "delimiter:/", "delimiter:b", "row-column:/"] {
        let (db, model) = store(extractor, &tables);
        check_ranges(&db, &model, &["", "a", "ab", "abc", "abcd", "abce", "abd", "ab/", "a/b", "a/b/", "b"]);
        for key in ["", "a", "ab", "abc", "abcd", "abcde", "abd", "ab/", "a/b", "a/b/c", "b", "abx", "a/x"] {
            assert_eq!(db.get(key.as_bytes()).unwrap().as_ref(), model.get(key.as_bytes()), "{extractor}: {key}");
        }
    }
}

#[test]
fn a_scan_without_one_prefix_asks_no_filter() {
    let tables: [Writes<'_>; 3] = [&[("a/1", true), ("d/1", true)], &[("b/1", true)], &[("c/1", true), ("d/2", true)]];
    let (db, model) = store("delimiter:/", &tables);
    let keys: [&[u8]; 3] = [b"a/", b"b/", b"c/"];
    for key in keys {
        check(&db, &model, Bound::Included(key), Bound::Unbounded);
        check(&db, &model, Bound::Unbounded, Bound::Excluded(key));
    }
    // The upper bounds lie beyond the prefix.
    check(&db, &model, Bound::Included(b"a/"), Bound::Excluded(b"c"));
    check(&db, &model, Bound::Included(b"a/"), Bound::Included(b"a0"));
    check(&db, &model, Bound::Excluded(b"a/1"), Bound::Excluded(b"a0\0"));
    let prefixes = db.stats().total.prefixes;
    assert_eq!((prefixes.probes, prefixes.unfiltered), (0, 0));
}

#[test]
fn a_prefix_of_many_ssts_of_a_level_is_found_whole() {
    let storage = Memory::new();
    let options = Options { table_size_bytes: 500, block_size_bytes: 128, ..by(&storage, "delimiter:/") };
    let db = Db::open(DIR, options).unwrap();
    let names: Vec<String> = (0..900).map(|i| format!("{}/{i:04}", ["a", "b", "c"][i / 300])).collect();
    let writes: Vec<(&str, bool)> = names.iter().map(|name| (name.as_str(), true)).collect();
    let model = fill(&db, &[&writes]);
    db.compact_range(..).unwrap();
    assert!(db.stats().levels[1].tables > 5, "{:?}", db.stats().levels);
    check_ranges(&db, &model, &["a/", "a/0150", "b/", "b/0300", "b/0450", "b/0599", "b0", "c/", "c/0899", "c/1"]);
    let prefixes = db.stats().levels[1].prefixes;
    assert!(prefixes.true_positives > 0 && prefixes.unfiltered == 0, "{prefixes:?}");
    // If several SSTs of a level overlap the range of a prefix, each of them holds the prefix. So
    // the scan asks none of their filters.
    db.reset_stats();
    assert_eq!(db.scan_prefix(b"b/").take(3).count(), 3);
    assert_eq!(db.stats().total.prefixes, ProbeStats::default());
}

#[test]
fn an_sst_of_tombstones_alone_hides_older_values() {
    let old: Writes<'_> = &[("a/1", true), ("a/2", true), ("b/1", true)];
    for extractor in ["fixed:2", "capped:2", "delimiter:/", "row-column:/"] {
        let (db, model) = store(extractor, &[old, &[("a/1", false)], &[("b/1", false), ("c/1", false)]]);
        check_ranges(&db, &model, &["a/", "a/1", "a/2", "a0", "b/", "b/1", "b0", "c/"]);
        db.compact_range(..).unwrap();
        check_ranges(&db, &model, &["a/", "a/1", "a/2", "a0", "b/", "b/1", "b0", "c/"]);
    }
}

#[test]
fn a_snapshot_scans_its_own_ssts_and_memtables() {
    let (db, model) = store("delimiter:/", &[&[("a/1", true), ("b/1", true)]]);
    db.put(b"c/1", b"in memory").unwrap();
    let snapshot = db.snapshot();
    db.put(b"c/2", b"later").unwrap();
    for key in [b"a/1", b"b/1", b"c/1"] {
        db.delete(key).unwrap();
    }
    db.compact_range(..).unwrap();
    assert_eq!((db.scan_prefix(b"a/").count(), db.scan_prefix(b"c/").count()), (0, 1));
    let found: Model = snapshot.scan_prefix(b"a/").chain(snapshot.scan_prefix(b"b/")).map(Result::unwrap).collect();
    assert_eq!(found, model);
    assert_eq!(
        snapshot.scan_prefix(b"c/").map(Result::unwrap).collect::<Vec<_>>(),
        [(b"c/1".to_vec(), b"in memory".to_vec())]
    );
    // A scan outlives its snapshot and its store.
    let scan = snapshot.scan_prefix(b"b/");
    drop((snapshot, db));
    assert_eq!(scan.count(), 1);
}

#[test]
fn another_extractor_answers_maybe_and_is_reported() {
    let storage = Memory::new();
    let db = Db::open(DIR, by(&storage, "fixed:2")).unwrap();
    let mut model = fill(&db, &[&[("a/1", true), ("c/1", true)], &[("a/2", true), ("c/2", true)]]);
    db.close().unwrap();
    let open = |choice: &str| {
        Db::open(DIR, Options { prefix_extractor: choice.parse().unwrap(), ..by(&storage, "keep") }).unwrap()
    };
    let keys = ["a/", "a/1", "a/2", "a0", "b/", "c/"];
    let db = open("keep");
    assert_eq!((db.stats().total.tables_without_prefixes, db.stats().reports), (0, Vec::new()));
    assert_eq!((db.scan_prefix(b"b/").count(), db.stats().total.prefixes.true_negatives), (0, 2));
    db.close().unwrap();
    let db = open("delimiter:/");
    let reports = db.stats().reports;
    assert!(
        reports.len() == 1 && reports[0].contains("\"delimiter:/\"") && reports[0].contains("\"fixed:2\""),
        "{reports:?}"
    );
    assert!(reports[0].contains("2 of 2 SSTs"), "{reports:?}");
    check_ranges(&db, &model, &keys);
    let total = db.stats().total;
    assert_eq!((total.tables_without_prefixes, total.prefixes.probes), (2, 0));
    assert!(total.prefixes.unfiltered > 0);
    // Filters under both extractors live side by side, until a compaction rewrites the older ones.
    db.put(b"b/1", b"new").unwrap();
    model.insert(b"b/1".to_vec(), b"new".to_vec());
    db.flush().unwrap();
    check_ranges(&db, &model, &keys);
    assert_eq!(db.stats().total.tables_without_prefixes, 2);
    db.compact_range(..).unwrap();
    assert_eq!(db.stats().total.tables_without_prefixes, 0);
    check_ranges(&db, &model, &keys);
    db.close().unwrap();
    let db = open("keep");
    assert_eq!(db.stats().reports, Vec::<String>::new());
    assert_eq!((db.scan_prefix(b"ab/").count(), db.stats().total.prefixes.true_negatives), (0, 1));
    db.close().unwrap();
    let db = open("none");
    assert_eq!(db.stats().reports, Vec::<String>::new());
    check_ranges(&db, &model, &keys);
    assert_eq!(db.stats().total.prefixes.probes, 0);
}

#[test]
fn a_function_of_a_program_is_kept_by_name() {
    let storage = Memory::new();
    let tenant = || PrefixExtractor::named("tenant", |key: &[u8]| (key.len() >= 2).then_some(2)).unwrap().with_ranges();
    let options = |choice| Options { prefix_extractor: choice, ..by(&storage, "keep") };
    let db = Db::open(DIR, options(PrefixChoice::By(tenant()))).unwrap();
    let model = fill(&db, &[&[("a/1", true), ("c/1", true)]]);
    assert_eq!((db.scan_prefix(b"b/").count(), db.stats().total.prefixes.true_negatives), (0, 1));
    db.close().unwrap();
    let db = Db::open(DIR, options(PrefixChoice::Keep)).unwrap();
    let reports = db.stats().reports;
    assert!(reports.len() == 1 && reports[0].contains("\"tenant\""), "{reports:?}");
    check_ranges(&db, &model, &["a/", "b/", "c/"]);
    db.close().unwrap();
    let db = Db::open(DIR, options(PrefixChoice::By(tenant()))).unwrap();
    assert_eq!((db.stats().reports, db.stats().total.tables_without_prefixes), (Vec::new(), 0));
    assert!(db.verify().unwrap().is_sound());
}

#[test]
fn gets_of_absent_rows_ask_for_the_row() {
    let storage = Memory::new();
    // This filter has an FPR of about 40 %, so that many absent keys pass.
    let spec: FilterSpec = "bloom:2".parse().unwrap();
    for (extractor, saves) in [("none", false), ("row-column:/", true)] {
        let options = Options { filter: Some(Arc::new(spec)), ..by(&storage, extractor) };
        let dir = Path::new("/").join(extractor.replace('/', ""));
        let db = Db::open(&dir, options).unwrap();
        let key = |i: u32| format!("row{:03}/{:02}/x", i / 20, i % 20).into_bytes();
        (0..2_000).for_each(|i| db.put(&key(i), &key(i)).unwrap());
        db.flush().unwrap();
        for i in 0..2_000 {
            assert_eq!(db.get(&key(i)).unwrap(), Some(key(i)));
        }
        db.reset_stats();
        let absent = |i: u32| format!("row{:03}x/{:02}/x", i / 20, i % 20).into_bytes();
        let keys: Vec<_> = (0..1_980).map(absent).collect();
        assert!(keys.iter().all(|key| db.get(key).unwrap().is_none()));
        assert!(db.multi_get(&keys).unwrap().iter().all(Option::is_none));
        let total = db.stats().total;
        assert_eq!((total.points.probes, total.points.true_negatives + total.points.false_positives), (3_960, 3_960));
        let rate = total.points.false_positive_rate().unwrap();
        assert_eq!(total.saved_by_prefixes > 0, saves);
        assert!(if saves { rate < 0.2 } else { rate > 0.3 }, "{extractor}: {rate}");
    }
}

#[test]
fn a_filter_of_keys_rows_and_columns_has_one_hash_for_each() {
    let storage = Memory::new();
    let options = TableOptions {
        filter: Some("blocked-bloom:10".parse().unwrap()),
        prefix_extractor: Some("row-column:/".parse().unwrap()),
        ..TableOptions::default()
    };
    let path = Path::new("table");
    let mut writer = TableWriter::create(&storage, path, options).unwrap();
    for i in 0..10_000u32 {
        writer.add(format!("{:03}/{:02}/{}", i / 100, i / 10 % 10, i % 10).as_bytes(), None).unwrap();
    }
    writer.finish().unwrap();
    let table = Table::open(&storage, path, TableReadOptions::default()).unwrap();
    assert_eq!(table.properties().prefix_extractor, "row-column:/");
    let metadata = table.filter().ready().unwrap().metadata();
    assert_eq!((metadata.num_keys, metadata.extractor), (10_000 + 100 + 1_000, Some("row-column:/")));
    assert!(metadata.payload_len_bytes * 8 <= 11_100 * 10 + 512, "{metadata:?}");
    assert_eq!(table.filter().ask(KeyHasher::xxh3(HashSeed::default()).key(b"050/05/5")), Answer::Maybe);
    let check = table.verify().unwrap();
    assert!(check.is_sound() && !table.has_prefixes(), "{check:?}");
}

#[test]
fn verify_finds_a_prefix_that_the_filter_denies() {
    let storage = Memory::new();
    let taking =
        |len: usize| PrefixExtractor::named("tenant", move |key: &[u8]| (key.len() >= len).then_some(len)).unwrap();
    let path = Path::new("table");
    let options = TableOptions { prefix_extractor: Some(taking(2)), ..TableOptions::default() };
    let mut writer = TableWriter::create(&storage, path, options).unwrap();
    (0..100).for_each(|i| writer.add(&common::key(i), None).unwrap());
    writer.finish().unwrap();
    let denied = |extractor| {
        let options = TableReadOptions { prefix_extractor: extractor, ..TableReadOptions::default() };
        Table::open(&storage, path, options).unwrap().verify().unwrap().filter_false_negatives
    };
    assert_eq!((denied(Some(taking(2))), denied(None)), (0, 0));
    assert!(denied(Some(taking(5))) > 50);
}

#[test]
fn a_repair_keeps_the_extractor_and_writes_range_filters() {
    for forgets in [false, true] {
        let storage = Memory::new();
        let ranges: Arc<dyn FilterPolicy> = Arc::new("grafite:fpr=0.01".parse::<FilterSpec>().unwrap());
        let by = |storage: &Memory, extractor: &str| Options {
            range_filter: Some(ranges.clone()),
            ..by(storage, extractor)
        };
        let db = Db::open(DIR, by(&storage, "row-column:/")).unwrap();
        let names: Vec<String> = (0..2_000).map(|i| format!("{:02}/{i:04}", i % 50)).collect();
        let writes: Vec<(&str, bool)> = names.iter().map(|name| (name.as_str(), true)).collect();
        fill(&db, &[&writes, &writes]);
        db.close().unwrap();
        // Damage the first data block of one SST, which holds the first rows.
        let path = files(&storage, Path::new(DIR), ".sst").remove(0);
        common::change(&storage, &path, |bytes| bytes[10] ^= 1);
        if forgets {
            common::forget_manifest(&storage);
        }
        let report = Db::repair_with(Path::new(DIR), by(&storage, "keep"), RepairMode::Write, &mut |_| {}).unwrap();
        assert_eq!(report.tables_rewritten, 1);
        let db = Db::open(DIR, by(&storage, "keep")).unwrap();
        let total = db.stats().total;
        assert_eq!((total.tables_without_prefixes, total.tables_with_ranges), (0, total.tables));
        assert_eq!((db.scan_prefix(b"30/").count(), db.scan_prefix(b"30x/").count()), (40, 0));
        let prefixes = db.stats().total.prefixes;
        assert_eq!((prefixes.true_negatives, prefixes.unfiltered), (2, 0), "{prefixes:?}");
        assert!(db.verify().unwrap().is_sound());
    }
}

#[test]
fn a_name_that_cannot_be_stored_is_refused() {
    let storage = Memory::new();
    for text in ["fixed:0", "rows", "Keep", ""] {
        let error = text.parse::<PrefixChoice>().unwrap_err();
        assert!(matches!(error, filterblock::Error::Invalid { .. }), "{error}");
    }
    let options = Options { prefix_extractor: PrefixExtractor::delimiter(0).into(), ..by(&storage, "keep") };
    let db = Db::open(DIR, options).unwrap();
    db.put(b"row\0col", b"").unwrap();
    db.close().unwrap();
    let db = Db::open(DIR, by(&storage, "delimiter:0x00")).unwrap();
    assert_eq!((db.stats().reports, db.stats().total.tables_without_prefixes), (Vec::new(), 0));
}
