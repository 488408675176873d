//! Tests range filters in the store.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::path::Path;
use std::sync::Arc;

use crate::common::{self, DIR, Random, files, quiet};
use crate::prefixes::check;
use filterblock::policy::{AboveBottom, FilterPolicy};
use filterblock::{FilterSpec, Verify};
use filterblock_store::lsm::{FilterUse, Options, ProbeStats};
use filterblock_store::sstable::{Table, TableReadOptions};
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Db, Error};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn policy(spec: &str) -> Option<Arc<dyn FilterPolicy>> {
    match spec {
        "none" => None,
        _ => Some(Arc::new(spec.parse::<FilterSpec>().unwrap())),
    }
}

fn with(storage: &Memory, filter: &str, ranges: &str, extractor: &str) -> Options {
    Options {
        filter: policy(filter),
        range_filter: policy(ranges),
        prefix_extractor: extractor.parse().unwrap(),
        ..quiet(storage)
    }
}

fn by(storage: &Memory, ranges: &str) -> Options {
    with(storage, "blocked-bloom:16", ranges, "none")
}

/// Returns the key of an integer: its eight bytes, big endian.
#[allow(clippy::big_endian_bytes, reason = "the order of such keys is that of the integers")]
fn integer(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Returns number `i` of SST `table`. The numbers look random.
fn number(i: u64, table: u64) -> u64 {
    Random(i * 8 + table).next()
}

/// Returns key `i` of SST `table`. A key has 16 hexadecimal digits.
fn id(i: u64, table: u64) -> Vec<u8> {
    format!("{:016x}", number(i, table)).into_bytes()
}

/// Returns a store with `tables` SSTs in level 0, each with keys over the whole key space, and the
/// content of the store.
fn ids(options: Options, tables: u64, keys: u64) -> (Db, Model) {
    let (db, mut model) = (Db::open(DIR, options).unwrap(), Model::new());
    for table in 0..tables {
        for i in 0..keys {
            db.put(&id(i, table), &table.to_le_bytes()).unwrap();
            model.insert(id(i, table), table.to_le_bytes().to_vec());
        }
        db.flush().unwrap();
    }
    (db, model)
}

/// Returns the bounds of empty ranges, each in the middle between two keys. A range filter often
/// cannot distinguish a bound right beside a key from this key.
fn empty_ranges(model: &Model) -> Vec<(Vec<u8>, Vec<u8>)> {
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    let number = |key: &[u8]| u64::from_str_radix(std::str::from_utf8(key).unwrap(), 16).unwrap();
    let text = |number: u64| format!("{number:016x}").into_bytes();
    let ranges = keys.windows(2).map(|pair| {
        let (low, high) = (number(pair[0]), number(pair[1]));
        (low + (high - low) / 2, low + (high - low) / 2 + (high - low) / 64)
    });
    ranges.map(|(from, to)| (text(from), text(to))).collect()
}

#[test]
fn scans_of_empty_ranges_read_hardly_a_block() {
    let (db, model) = ids(by(&Memory::new(), "grafite:fpr=0.01"), 5, 400);
    let ranges = empty_ranges(&model);
    for (from, to) in &ranges {
        assert_eq!(db.scan(from.as_slice()..to.as_slice()).count(), 0);
    }
    assert_eq!(db.stats().total.ranges.false_positives, db.stats().scan_block_reads);
    for (from, to) in &ranges {
        assert_eq!(db.scan(from.as_slice()..to.as_slice()).rev().count(), 0);
    }
    let stats = db.stats();
    let (total, asked) = (stats.total.ranges, ranges.len() as u64 * 2 * 5);
    // At the ends of the key space, a range may lie outside of an SST.
    assert!((asked - 200..=asked).contains(&total.probes), "{total:?} of {asked}");
    assert_eq!((total.true_positives, total.unfiltered, total.degraded), (0, 0, 0));
    // A filter sizes its cells by the distances of keys in its own SST. In the whole store, keys
    // are five times as close. Bounds lie in cells of keys more often, so the FPR may exceed 1 %.
    assert!(total.false_positive_rate().unwrap() < 0.03, "{total:?}");
    assert!((0.005..0.011).contains(&total.expected_fpr().unwrap()), "{total:?}");
    // Points, prefixes and ranges are counted separately.
    assert_eq!((stats.total.points, stats.total.prefixes), (ProbeStats::default(), ProbeStats::default()));
    assert_eq!((stats.scans, stats.total.tables_with_ranges), (ranges.len() as u64 * 2, 5));
    db.reset_stats();
    assert_eq!(db.stats().total.ranges, ProbeStats::default());
    let key = model.keys().nth(1_000).unwrap();
    assert_eq!(db.scan(key.as_slice()..=key.as_slice()).count(), 1);
    let (points, ranges) = (db.stats().total.points, db.stats().total.ranges);
    assert_eq!((points.probes, ranges.true_positives, ranges.true_negatives + ranges.false_positives), (0, 1, 4));
}

#[test]
fn filters_that_reads_ignore_skip_nothing() {
    let storage = Memory::new();
    let (db, model) = ids(by(&storage, "grafite:fpr=0.01"), 3, 100);
    db.close().unwrap();
    let db = Db::open(DIR, Options { filter_use: FilterUse::Ignore, ..by(&storage, "none") }).unwrap();
    for (from, to) in empty_ranges(&model) {
        assert_eq!(db.scan(from.as_slice()..to.as_slice()).count(), 0);
    }
    assert_eq!(db.stats().total.ranges, ProbeStats::default());
    assert!(db.stats().scan_block_reads > 500);
}

/// Returns up to `max_len` random bytes.
fn bytes(random: &mut Random, max_len: u64) -> Vec<u8> {
    let len = random.below(max_len + 1);
    (0..len).map(|_| random.next() as u8).collect()
}

/// A function that draws a random key of one family.
type Family = fn(&mut Random) -> Vec<u8>;

const FAMILIES: [(&str, Family); 8] = [
    ("random", |random| bytes(random, 20)),
    ("short", |random| bytes(random, 3)),
    ("sequential", |random| integer(random.below(400) << 8).to_vec()),
    ("clustered", |random| integer((random.below(8) << 40) + random.below(60)).to_vec()),
    ("the highest bytes", |random| vec![0xff; random.below(30) as usize]),
    ("equal in 8 bytes", |random| [&[7; 8], bytes(random, 4).as_slice()].concat()),
    ("equal in 100 bytes", |random| [&[b'x'; 100], bytes(random, 3).as_slice()].concat()),
    ("equal in 600 bytes", |random| [&[b'y'; 600], bytes(random, 2).as_slice()].concat()),
];

/// Returns a bound at, below or above a key.
fn near(random: &mut Random, key: &[u8]) -> Vec<u8> {
    let mut key = key.to_vec();
    match random.below(7) {
        0 => {}
        1 => key.push(0),
        2 => key.push(0xff),
        3 => drop(key.pop()),
        4 => key.extend_from_slice(&bytes(random, 12)),
        other => {
            if let Some(last) = key.last_mut() {
                *last = if other == 5 { last.wrapping_add(1) } else { last.wrapping_sub(1) };
            }
        }
    }
    key
}

fn bound<'a>(random: &mut Random, key: &'a [u8]) -> Bound<&'a [u8]> {
    match random.below(9) {
        0 => Unbounded,
        number if number % 2 == 0 => Included(key),
        _ => Excluded(key),
    }
}

/// Checks scans whose bounds lie near the keys, in both directions.
fn check_near(db: &Db, model: &Model, family: Family, seed: u64) {
    let mut random = Random(seed);
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    for _ in 0..120 {
        let pick = |random: &mut Random| match (random.below(4), keys.is_empty()) {
            (0, _) | (_, true) => family(random),
            _ => keys[random.below(keys.len() as u64) as usize].clone(),
        };
        let low = pick(&mut random);
        let high = if random.below(2) == 0 { low.clone() } else { pick(&mut random) };
        let (low, high) = (near(&mut random, &low), near(&mut random, &high));
        let (from, to) = (bound(&mut random, &low), bound(&mut random, &high));
        check(db, model, from, to);
    }
}

/// Writes `count` random puts and deletions of a family.
fn write(db: &Db, model: &mut Model, family: Family, random: &mut Random, count: u64) {
    for i in 0..count {
        let key = family(random);
        if random.below(4) == 0 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            db.put(&key, &i.to_le_bytes()).unwrap();
            model.insert(key, i.to_le_bytes().to_vec());
        }
    }
}

#[test]
fn scans_agree_with_a_sorted_map_for_all_keys_and_bounds() {
    let choices = [
        ("blocked-bloom:10", "grafite:fpr=0.01", "none"),
        ("bloom:10", "grafite:L=16:fpr=0.01", "fixed:1"),
        ("none", "grafite:L=1024:fpr=0.001", "capped:9"),
        ("ribbon:7", "grafite:2", "fixed:8"),
        ("grafite:12", "none", "none"),
    ];
    let mut skipped = 0;
    for (number, (family, key)) in FAMILIES.into_iter().enumerate() {
        for (choice, (filter, ranges, extractor)) in choices.into_iter().enumerate() {
            let seed = (number * choices.len() + choice) as u64;
            let (storage, mut random, mut model) = (Memory::new(), Random(seed), Model::new());
            let options = || Options {
                table_size_bytes: 3_000,
                block_size_bytes: 200,
                ..with(&storage, filter, ranges, extractor)
            };
            let db = Db::open(DIR, options()).unwrap();
            for _ in 0..4 {
                write(&db, &mut model, key, &mut random, 60);
                db.flush().unwrap();
            }
            // These entries stay in the memtable, where they hide entries of the SSTs.
            write(&db, &mut model, key, &mut random, 15);
            check_near(&db, &model, key, seed + 1);
            let (snapshot, old) = (db.snapshot(), model.clone());
            write(&db, &mut model, key, &mut random, 60);
            db.compact_range(..).unwrap();
            check_near(&db, &model, key, seed + 2);
            for (low, _) in old.iter().step_by(7) {
                let found: Model =
                    snapshot.scan((Included(low.as_slice()), Unbounded)).take(3).map(Result::unwrap).collect();
                assert!(found.iter().eq(old.range(low.clone()..).take(3)), "{family} {filter} {ranges}: a snapshot");
            }
            drop(snapshot);
            skipped += db.stats().total.ranges.true_negatives;
            db.close().unwrap();
            let db = Db::open(DIR, options()).unwrap();
            check_near(&db, &model, key, seed + 3);
            write(&db, &mut model, key, &mut random, 60);
            db.flush().unwrap();
            check_near(&db, &model, key, seed + 4);
            let report = db.verify().unwrap();
            assert!(report.is_sound(), "{family} {filter} {ranges}: {report:?}");
            skipped += db.stats().total.ranges.true_negatives;
        }
    }
    assert!(skipped > 10_000, "range filters skipped only {skipped} SSTs");
}

#[test]
fn policies_decide_which_ssts_get_range_filters() {
    let storage = Memory::new();
    let above = || Some(Arc::new(AboveBottom("grafite:fpr=0.01".parse().unwrap())) as Arc<dyn FilterPolicy>);
    let (db, model) = ids(Options { range_filter: above(), ..by(&storage, "none") }, 3, 200);
    assert_eq!(db.stats().total.tables_with_ranges, 3);
    db.compact_range(..).unwrap();
    assert_eq!((db.stats().total.tables, db.stats().total.tables_with_ranges), (1, 0));
    db.put(&id(7, 7), b"above").unwrap();
    db.flush().unwrap();
    assert_eq!(db.stats().total.tables_with_ranges, 1);
    // The options ask for range filters. The bottommost SST has none, so its scan is unfiltered.
    let (from, to) = empty_ranges(&model).remove(300);
    assert_eq!(db.scan(from.as_slice()..to.as_slice()).count(), 0);
    assert!(db.stats().total.ranges.unfiltered == 1, "{:?}", db.stats().total.ranges);
    db.close().unwrap();
    // A compaction rewrites an SST once if the policy now chooses another range filter for it. If
    // the policy chooses none, the SST keeps its range filter.
    for (ranges, tables) in [("grafite:fpr=0.01", 1), ("grafite:L=16:fpr=0.01", 1), ("none", 1), ("grafite:9", 1)] {
        let db = Db::open(DIR, by(&storage, ranges)).unwrap();
        db.compact_range(..).unwrap();
        let (compactions, stats) = (db.stats().compactions, db.stats().total);
        assert_eq!((stats.tables_with_ranges, compactions), (tables, u64::from(ranges != "none")), "{ranges}");
        db.compact_range(..).unwrap();
        assert_eq!(db.stats().compactions, compactions, "{ranges}: rewritten again");
        let path = files(&storage, Path::new(DIR), ".sst").remove(0);
        let table = Table::open(&storage, &path, TableReadOptions::default()).unwrap();
        let wanted = if ranges == "none" { "grafite:L=16:fpr=0.01" } else { ranges };
        assert_eq!(table.properties().range_filter, wanted);
        assert!(table.has_ranges() && table.range_damage().is_none());
        db.close().unwrap();
    }
}

#[test]
fn another_kind_is_refused_before_anything_is_written() {
    let storage = Memory::new();
    let error = Db::open(DIR, by(&storage, "bloom:10")).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("range filter") && text.contains("bloom:10") && text.contains("try grafite"), "{text}");
    assert!(!storage.exists(Path::new(DIR)).unwrap());
    // A policy that returns a range filter at open and a Bloom filter for an SST of five keys or
    // more makes flushes fail, and loses no write.
    let fickle = |table: &filterblock::policy::TableShape| {
        let spec = if table.num_keys < 5 { "grafite:9" } else { "bloom:10" };
        spec.parse::<FilterSpec>().ok()
    };
    let db = Db::open(DIR, Options { range_filter: Some(Arc::new(fickle)), ..by(&storage, "none") }).unwrap();
    (0..10u8).for_each(|i| db.put(&[i], b"v").unwrap());
    let error = db.flush().unwrap_err();
    assert!(matches!(error, Error::BackgroundFails { .. }), "{error}");
    drop(db);
    assert_eq!(common::scan_all(&Db::open(DIR, by(&storage, "none")).unwrap()).len(), 10);
}

#[test]
fn a_range_filter_alone_serves_gets_and_scans() {
    for (filter, ranges) in
        [("none", "grafite:fpr=0.01"), ("grafite:fpr=0.01", "none"), ("grafite:fpr=0.01", "grafite:9")]
    {
        let storage = Memory::new();
        let (db, model) = ids(with(&storage, filter, ranges, "fixed:4"), 3, 300);
        for (key, value) in &model {
            assert_eq!(db.get(key).unwrap().as_ref(), Some(value));
        }
        let absent: Vec<Vec<u8>> = empty_ranges(&model).into_iter().map(|(from, _)| from).collect();
        db.reset_stats();
        absent.iter().for_each(|key| assert_eq!(db.get(key).unwrap(), None));
        assert!(db.multi_get(&absent).unwrap().iter().all(Option::is_none));
        let stats = db.stats();
        assert!(stats.total.points.false_positive_rate().unwrap() < 0.04, "{:?}", stats.total.points);
        assert_eq!((stats.total.points.unfiltered, stats.total.block_reads), (0, stats.total.points.false_positives));
        // These filters hold no prefixes. A compaction does not rewrite the SSTs to add prefixes.
        assert_eq!(stats.total.tables_without_prefixes, 3);
        db.compact_range(..).unwrap();
        db.reset_stats();
        db.compact_range(..).unwrap();
        assert_eq!(db.stats().compactions, 0);
        assert!(db.verify().unwrap().is_sound());
    }
}

#[test]
fn a_scan_asks_for_its_prefix_before_its_range() {
    let options = with(&Memory::new(), "blocked-bloom:16", "grafite:fpr=0.01", "fixed:3");
    let (db, model) = ids(options, 3, 60);
    for digits in 0..4_096u32 {
        let prefix = format!("{digits:03x}").into_bytes();
        let wanted = model.keys().filter(|key| key.starts_with(&prefix)).count();
        assert_eq!(db.scan_prefix(&prefix).count(), wanted);
    }
    let stats = db.stats().total;
    assert_eq!(stats.prefixes.true_positives, stats.ranges.true_positives);
    assert!(stats.prefixes.true_negatives > 11_000, "{stats:?}");
    assert!(stats.ranges.probes < 300, "a denied prefix asks no range: {stats:?}");
}

#[test]
fn a_denied_range_within_a_prefix_says_nothing_of_the_prefix() {
    let db = Db::open(DIR, with(&Memory::new(), "always-maybe", "grafite:fpr=0.01", "delimiter:/")).unwrap();
    for key in ["a/1000", "a/9000", "c/1000"] {
        db.put(key.as_bytes(), b"v").unwrap();
    }
    db.flush().unwrap();
    let counts = || {
        let stats = db.stats().total;
        (stats.prefixes.probes, stats.prefixes.false_positives, stats.ranges.true_negatives)
    };
    assert_eq!(db.scan(b"a/4".as_slice()..b"a/5".as_slice()).count(), 0);
    assert_eq!(counts(), (0, 0, 1));
    // The denied range covers all keys of the prefix, so the "maybe" for the prefix was wrong.
    assert_eq!(db.scan_prefix(b"b/").count(), 0);
    assert_eq!(counts(), (1, 1, 2));
}

#[test]
fn a_range_filter_for_another_length_is_replaced() {
    for filter in ["none", "bloom:10"] {
        let storage = Memory::new();
        let db = Db::open(DIR, with(&storage, filter, "grafite:L=16:14", "none")).unwrap();
        (0..100).for_each(|i| db.put(&integer(number(i, 0)), b"v").unwrap());
        db.compact_range(..).unwrap();
        db.close().unwrap();
        let compactions = |ranges: &str| {
            let db = Db::open(DIR, with(&storage, filter, ranges, "none")).unwrap();
            db.compact_range(..).unwrap();
            db.stats().compactions
        };
        assert_eq!(compactions("grafite:L=16:14"), 0, "{filter}");
        assert_eq!(compactions("grafite:L=1024:14"), 1, "{filter}");
    }
}

#[test]
fn a_memory_budget_spares_the_columns_beside_range_filters() {
    let filled = |budget: Option<u64>| {
        let options = with(&Memory::new(), "bumped-ribbon:8", "grafite:L=1024:fpr=0.01", "none");
        ids(Options { filter_memory_budget: budget, ..options }, 4, 4_000)
    };
    let whole = filled(None).0.stats().total.filter_memory_bytes;
    for (percent, has_ranges) in [(110, true), (60, false)] {
        let budget = whole * percent / 100;
        let (db, model) = filled(Some(budget));
        for round in 0..3 {
            if round == 2 {
                db.reset_stats();
            }
            for key in model.keys() {
                assert!(db.get(key).unwrap().is_some());
                let beside = [key.as_slice(), b"!"].concat();
                assert!(db.get(&beside).unwrap().is_none());
                assert_eq!(db.scan(key.as_slice()..=key.as_slice()).count(), 1);
            }
            assert!(db.stats().filter_cache.unwrap().bytes <= budget);
            if round == 0 {
                db.rebalance_filters();
            }
        }
        let total = db.stats().total;
        let rate = total.points.false_positive_rate().unwrap();
        assert!(rate < 0.006 && total.points.unfiltered == 0, "{percent} %: {rate} {total:?}");
        assert_eq!(total.ranges.unfiltered == 0, has_ranges, "{total:?}");
    }
}

#[test]
fn counts_of_scans_stay_when_a_level_becomes_empty() {
    let db = Db::open(DIR, with(&Memory::new(), "none", "grafite:fpr=0.01", "none")).unwrap();
    (0..100).for_each(|i| db.put(&integer(i << 40), b"v").unwrap());
    db.compact_range(..).unwrap();
    for i in 0..50 {
        let from = (i << 40) + (1 << 39);
        assert_eq!(db.scan(integer(from).as_slice()..integer(from + 5).as_slice()).count(), 0);
    }
    assert_eq!(db.stats().total.ranges.probes, 50);
    (0..100).for_each(|i| db.delete(&integer(i << 40)).unwrap());
    db.compact_range(..).unwrap();
    let total = db.stats().total;
    assert_eq!((total.tables, total.ranges.probes), (0, 50));
}

#[test]
fn ranges_right_beside_integers_keep_the_rate() {
    let db = Db::open(DIR, by(&Memory::new(), "grafite:L=1024:fpr=0.01")).unwrap();
    for table in 0..5 {
        (0..2_000).for_each(|i| db.put(&integer(number(i, table)), b"v").unwrap());
        db.flush().unwrap();
    }
    for i in 0..10_000 {
        let key = number(i / 5, i % 5);
        let (from, to) = (integer(key + 1), integer(key + 1_024));
        assert_eq!(db.scan(from.as_slice()..=to.as_slice()).count(), 0);
    }
    let ranges = db.stats().total.ranges;
    let (rate, expected) = (ranges.false_positive_rate().unwrap(), ranges.expected_fpr().unwrap());
    assert!((expected - 0.01).abs() < 0.001 && rate < 1.1 * expected && rate > 0.5 * expected, "{rate} {ranges:?}");
}

#[test]
fn a_damaged_range_filter_hides_no_key() {
    for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
        let storage = Memory::new();
        let options = |strict_filters| Options { verify, strict_filters, ..by(&storage, "grafite:fpr=0.01") };
        let (db, model) = ids(options(false), 1, 6_000);
        db.close().unwrap();
        let path = files(&storage, Path::new(DIR), ".sst").remove(0);
        // The range filter comes first. Without checksums, its zeros would deny every range.
        common::change(&storage, &path, |bytes| {
            let start = common::filter_range(bytes).start;
            bytes[start + 600..start + 4_000].fill(0);
        });
        let db = Db::open(DIR, options(false)).unwrap();
        for (key, value) in model.iter().step_by(11) {
            let found: Vec<_> = db.scan(key.as_slice()..=key.as_slice()).map(Result::unwrap).collect();
            assert_eq!(found, [(key.clone(), value.clone())], "{verify:?}");
        }
        for (from, to) in empty_ranges(&model).iter().step_by(5) {
            assert_eq!(db.scan(from.as_slice()..to.as_slice()).count(), 0);
        }
        let stats = db.stats();
        assert!(stats.total.ranges.degraded > 100, "{verify:?} {:?}", stats.total.ranges);
        assert_eq!((stats.total.degraded_tables, stats.reports.len()), (1, 1), "{verify:?} {:?}", stats.reports);
        common::assert_names(&db.verify().unwrap().damage[0], &path);
        // The filter of the keys is sound.
        model.keys().step_by(50).for_each(|key| assert!(db.get(key).unwrap().is_some()));
        assert_eq!(db.get(&id(1, 3)).unwrap(), None);
        assert_eq!(db.stats().total.points.degraded, 0);
        db.close().unwrap();
        let error = match Db::open(DIR, options(true)) {
            Err(error) => error,
            Ok(db) => {
                let scan = |key: &Vec<u8>| db.scan(key.as_slice()..=key.as_slice()).find_map(Result::err);
                model.keys().find_map(scan).unwrap()
            }
        };
        assert!(error.is_damage(), "{error}");
        common::assert_names(&error, &path);
    }
}

#[test]
fn any_damage_of_the_filter_block_hides_no_key() {
    let storage = Memory::new();
    // The scans ask for prefixes, too.
    let options = |verify| Options { verify, ..with(&storage, "blocked-bloom:16", "grafite:fpr=0.01", "fixed:4") };
    let (db, model) = ids(options(Verify::AtOpen), 1, 120);
    db.close().unwrap();
    let path = files(&storage, Path::new(DIR), ".sst").remove(0);
    let sound = storage.read(&path).unwrap();
    let filter = common::filter_range(&sound);
    for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
        for at in filter.clone().step_by(3) {
            common::change(&storage, &path, |bytes| bytes[at] ^= 0x55);
            let db = Db::open(DIR, options(verify)).unwrap();
            for key in model.keys() {
                assert_eq!(db.scan(key.as_slice()..=key.as_slice()).count(), 1, "byte {at}, {verify:?}");
            }
            drop(db);
            common::replace(&storage, &path, &sound);
        }
    }
}
