//! Compares the store with a sorted map, under random operations, reopens, flushes and compactions.

use crate::common;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use filterblock::{
    FilterSpec, PrefixExtractor, Verify,
    policy::{AboveBottom, FilterPolicy},
};
use filterblock_store::lsm::{Durability, FilterUse, PinnableSlice, PrefixChoice, Scan, Snapshot};
use filterblock_store::sstable::Compression;
use filterblock_store::storage::Memory;
use filterblock_store::{Db, Options};
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone)]
enum Op {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Batch(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    Flush,
    Compact(Option<(Vec<u8>, Vec<u8>)>),
    Reopen,
    Abandon,
    Snapshot,
    Scan(Vec<u8>, Vec<u8>, usize, usize),
    /// Opens the store with the extractor and the range filter of this number.
    Extractor(u8),
    /// Scans the keys that begin with a prefix of a key, and all keys from this prefix on.
    ScanPrefix(Vec<u8>, usize),
}

/// Returns the policy of the range filters of a store. The same number chooses the extractor.
fn ranges(number: u8) -> Option<Arc<dyn FilterPolicy>> {
    let spec = |text: &str| text.parse::<FilterSpec>().unwrap();
    match number / 10 % 5 {
        0 | 1 => None,
        2 => Some(Arc::new(spec("grafite:fpr=0.05"))),
        3 => Some(Arc::new(spec("grafite:L=16:fpr=0.01"))),
        _ => Some(Arc::new(AboveBottom(spec("grafite:fpr=0.01")))),
    }
}

/// Returns the extractor of a store. The extractors fit the keys of [`key`].
fn extractor(number: u8) -> PrefixChoice {
    let pairs = |key: &[u8]| (key.len() >= 2).then_some(2);
    match number % 10 {
        0 => PrefixChoice::None,
        1 => PrefixChoice::Keep,
        2 => PrefixExtractor::named("pairs", pairs).unwrap().with_ranges().into(),
        number => ["fixed:1", "fixed:2", "fixed:22", "capped:2", "capped:22", "delimiter:n", "row-column:0x20"]
            [usize::from(number - 3)]
        .parse()
        .unwrap(),
    }
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0u8..40).prop_map(|i| vec![b'k', i]),
        2 => (0u8..40).prop_map(|i| format!("a long common prefix {i}").into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let value = || prop::collection::vec(any::<u8>(), 0..60);
    prop_oneof![
        30 => (key(), value()).prop_map(|(key, value)| Op::Put(key, value)),
        12 => key().prop_map(Op::Delete),
        4 => prop::collection::vec((key(), prop::option::of(value())), 0..12).prop_map(Op::Batch),
        3 => Just(Op::Flush),
        2 => prop::option::of((key(), key())).prop_map(Op::Compact),
        2 => Just(Op::Reopen),
        1 => Just(Op::Abandon),
        2 => Just(Op::Snapshot),
        4 => (key(), key(), 0usize..8, 0usize..8).prop_map(|(a, b, n, m)| Op::Scan(a, b, n, m)),
        1 => any::<u8>().prop_map(Op::Extractor),
        6 => (key(), 0usize..26).prop_map(|(key, len)| Op::ScanPrefix(key, len)),
    ]
}

fn options(storage: &Memory, variant: u8, prefixes: u8) -> Options {
    let spec: FilterSpec = if variant & 1 == 0 { "bloom:3" } else { "blocked-bloom:10" }.parse().unwrap();
    Options {
        storage: Arc::new(storage.clone()),
        filter: if variant & 32 == 0 { Some(Arc::new(spec)) } else { None },
        filter_use: if variant & 64 == 0 { FilterUse::Consult } else { FilterUse::Ignore },
        prefix_extractor: extractor(prefixes),
        range_filter: ranges(prefixes),
        hash_seed: Some(u64::from(variant)),
        durability: if variant & 2 == 0 { Durability::Sync } else { Durability::Buffered },
        verify: if variant & 4 == 0 { Verify::AtOpen } else { Verify::OnFirstTouch },
        compression: if variant & 8 == 0 { Compression::None } else { Compression::Lz4 },
        block_cache_bytes: if variant & 16 == 0 { 0 } else { 4096 },
        block_size_bytes: 128,
        write_buffer_bytes: 2_000,
        table_size_bytes: 1_500,
        level_base_bytes: 4_000,
        l0_compaction_trigger: 2,
        run_map_trigger: Some(2),
        ..Options::default()
    }
}

fn check_all(db: &Db, model: &Model) {
    let entries: Vec<_> = db.scan(..).map(Result::unwrap).collect();
    assert!(entries.iter().map(|(k, v)| (k, v)).eq(model.iter()), "the forward scan differs");
    let mut backward: Vec<_> = db.scan(..).rev().map(Result::unwrap).collect();
    backward.reverse();
    assert_eq!(backward, entries, "the backward scan differs");
}

fn check_keys(db: &Db, model: &Model, keys: &[Vec<u8>]) {
    for key in keys {
        assert_eq!(db.get(key).unwrap().as_ref(), model.get(key), "{key:?}");
        assert_eq!(db.get_pinned(key).unwrap().as_deref(), model.get(key).map(Vec::as_slice), "{key:?}, pinned");
    }
    let values = db.multi_get(keys).unwrap();
    assert!(values.iter().map(Option::as_ref).eq(keys.iter().map(|key| model.get(key))), "multi_get differs");
}

/// Scans the keys that begin with `prefix`, and all keys from `prefix` on, in both directions.
/// Compares each scan with the model.
fn check_prefix(scan: impl Fn(Bound<&[u8]>, Bound<&[u8]>) -> Scan, model: &Model, prefix: &[u8]) {
    let end = PrefixExtractor::end_of_prefix(prefix);
    for end in [end.as_ref().map(Vec::as_slice), Bound::Unbounded] {
        for from in [Bound::Included(prefix), Bound::Excluded(prefix)] {
            let wanted: Vec<_> = match (from, end) {
                (Bound::Excluded(from), Bound::Excluded(end)) if from == end => Vec::new(),
                bounds => model.range::<[u8], _>(bounds).map(|(k, v)| (k.clone(), v.clone())).collect(),
            };
            let forward: Vec<_> = scan(from, end).map(Result::unwrap).collect();
            assert_eq!(forward, wanted, "{prefix:?} forward");
            let mut backward: Vec<_> = scan(from, end).rev().map(Result::unwrap).collect();
            backward.reverse();
            assert_eq!(backward, wanted, "{prefix:?} backward");
        }
    }
}

fn run(ops: Vec<Op>, variant: u8, mut prefixes: u8) {
    let storage = Memory::default();
    let dir = Path::new("/store");
    let open = |prefixes| Db::open(dir, options(&storage, variant, prefixes)).unwrap();
    let mut db = open(prefixes);
    let mut model = Model::new();
    let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
    let mut keys: Vec<Vec<u8>> = Vec::new();
    const fn outlives_the_store<T: Send + Sync + 'static>() {}
    outlives_the_store::<PinnableSlice>();
    let mut pinned: Vec<(PinnableSlice, Vec<u8>)> = Vec::new();
    for op in ops {
        match op {
            Op::Put(key, value) => {
                db.put(&key, &value).unwrap();
                keys.push(key.clone());
                model.insert(key, value);
            }
            Op::Delete(key) => {
                db.delete(&key).unwrap();
                model.remove(&key);
                keys.push(key);
            }
            Op::Batch(writes) => {
                db.write(common::batch_of(writes.clone())).unwrap();
                for (key, value) in writes {
                    keys.push(key.clone());
                    match value {
                        Some(value) => model.insert(key, value),
                        None => model.remove(&key),
                    };
                }
            }
            Op::Flush => db.flush().unwrap(),
            Op::Compact(None) => db.compact_range(..).unwrap(),
            Op::Compact(Some((a, b))) => {
                db.compact_range(a.as_slice().min(b.as_slice())..=a.as_slice().max(b.as_slice())).unwrap();
            }
            Op::Reopen => {
                db.close().unwrap();
                db = open(prefixes);
            }
            // A drop without a close must have the same effect as a close.
            Op::Abandon => {
                drop(db);
                db = open(prefixes);
            }
            Op::Extractor(number) => {
                prefixes = number;
                db.close().unwrap();
                db = open(prefixes);
            }
            Op::ScanPrefix(key, len) => {
                let prefix = &key[..len.min(key.len())];
                check_prefix(|from, to| db.scan((from, to)), &model, prefix);
                for (snapshot, model) in &snapshots {
                    check_prefix(|from, to| snapshot.scan((from, to)), model, prefix);
                }
            }
            Op::Snapshot => snapshots.push((db.snapshot(), model.clone())),
            Op::Scan(a, b, from_front, from_back) => {
                let (a, b) = (a.clone().min(b.clone()), a.max(b));
                let mut scan = db.scan(a.as_slice()..b.as_slice());
                let mut wanted = model.range(a.clone()..b.clone());
                for _ in 0..from_front {
                    let next = scan.next().map(Result::unwrap);
                    assert_eq!(next.as_ref().map(|(k, v)| (k, v)), wanted.next());
                }
                for _ in 0..from_back {
                    let next = scan.next_back().map(Result::unwrap);
                    assert_eq!(next.as_ref().map(|(k, v)| (k, v)), wanted.next_back());
                }
            }
        }
        check_keys(&db, &model, keys.get(keys.len().saturating_sub(3)..).unwrap());
        // Pin the value of an older key. It may be in a memtable or in a block, or the key is
        // absent.
        let key = keys.get(keys.len() * 7 / 11);
        pinned.extend(key.and_then(|key| Some((db.get_pinned(key).unwrap()?, model.get(key)?.clone()))));
    }
    check_all(&db, &model);
    check_keys(&db, &model, &keys);
    for (snapshot, model) in &snapshots {
        let entries: Vec<_> = snapshot.scan(..).map(Result::unwrap).collect();
        assert!(entries.iter().map(|(k, v)| (k, v)).eq(model.iter()), "the snapshot differs");
        for key in &keys {
            assert_eq!(snapshot.get(key).unwrap().as_ref(), model.get(key), "the snapshot differs at {key:?}");
            let value = snapshot.get_pinned(key).unwrap();
            assert_eq!(value.as_deref(), model.get(key).map(Vec::as_slice), "the snapshot differs at {key:?}, pinned");
        }
    }
    let report = db.verify().unwrap();
    assert!(report.is_sound(), "{report:?}");
    let reports = db.stats().reports;
    assert!(reports.iter().all(|report| report.contains("prefix")), "{reports:?}");
    drop((db, snapshots));
    assert!(pinned.iter().all(|(value, wanted)| **value == **wanted), "a pinned value has changed");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_give_the_results_of_a_sorted_map(
        ops in prop::collection::vec(op(), 1..250),
        variant in any::<u8>(),
        prefixes in any::<u8>(),
    ) {
        run(ops, variant, prefixes);
    }
}

#[test]
fn a_full_compaction_leaves_no_tombstone_on_any_level() {
    let storage = filterblock_store::storage::Memory::new();
    let options = || filterblock_store::Options { table_size_bytes: 2_000, ..common::quiet(&storage) };
    let db = Db::open(common::DIR, options()).unwrap();
    for i in 0..200 {
        db.put(&common::key(i), &[b'v'; 50]).unwrap();
    }
    db.compact_range(..).unwrap();
    for i in (0..200).step_by(2) {
        db.delete(&common::key(i)).unwrap();
    }
    db.compact_range(..).unwrap();
    assert_eq!((db.stats().total.keys, common::scan_all(&db).len()), (100, 100));
    // Write tombstones for a range in which no deeper level has entries.
    for i in 1_000..1_100 {
        db.delete(&common::key(i)).unwrap();
    }
    db.compact_range(..).unwrap();
    assert_eq!((db.stats().total.keys, common::scan_all(&db).len()), (100, 100));
    assert!(db.verify().unwrap().is_sound());
}
