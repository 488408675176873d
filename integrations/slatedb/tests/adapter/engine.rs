//! Tests the filters inside SlateDB.

use std::collections::BTreeMap;
use std::sync::Arc;

use filterblock_slatedb::Filters;
use filterblock_slatedb_testkit::Entries;
use slatedb::bytes::Bytes;
use slatedb::db_cache::DbCache;
use slatedb::object_store::local::LocalFileSystem;
use slatedb::object_store::memory::InMemory;
use slatedb::{DbIterator, DbReadOps};

use crate::common::{First4, Store, absent, compact, flush, key, manifest, metadata_cache, ours, reader, writer};

/// The expected content of the database. A deleted key stays, with the value `None`.
type Model = BTreeMap<Bytes, Option<Bytes>>;

const KEYS: u64 = 6_000;

/// Returns named settings of filters: keys, prefixes, ranges, and a choice by size.
fn layouts() -> Vec<(&'static str, Filters)> {
    let (small, large) = ("blocked-bloom:12".parse().unwrap(), "bumped-ribbon:8".parse().unwrap());
    vec![
        ("keys", ours()),
        ("keys and prefixes", ours().with_prefixes(Arc::new(First4), true).unwrap()),
        ("prefixes", ours().with_prefixes(Arc::new(First4), false).unwrap()),
        ("keys and ranges", ours().with_ranges("grafite:fpr=0.01".parse().unwrap()).unwrap()),
        ("by size", Filters::by_num_keys(move |keys| Some(if keys < 2_000 { small } else { large }))),
    ]
}

async fn for_each_store(test: impl AsyncFn(Store, &str, Filters)) {
    for (layout, filters) in layouts() {
        test(Arc::new(InMemory::new()), layout, filters).await;
    }
    for (layout, filters) in layouts() {
        let dir = tempfile::tempdir().unwrap();
        test(Arc::new(LocalFileSystem::new_with_prefix(dir.path()).unwrap()), layout, filters).await;
    }
}

async fn collect(mut rows: DbIterator) -> Vec<(Bytes, Bytes)> {
    let mut found = Vec::new();
    while let Some(row) = rows.next().await.unwrap() {
        found.push((row.key, row.value));
    }
    found
}

/// Asserts that gets and scans return what the model has.
async fn assert_holds(db: &(impl DbReadOps + Sync), model: &Model, when: &str) {
    for (key, value) in model {
        assert_eq!(db.get(key).await.unwrap(), *value, "{when}: {key:?}");
    }
    for i in 0..200 {
        assert_eq!(db.get(absent(i * 31)).await.unwrap(), None, "{when}");
    }
    let live = |from: &Bytes, prefix: &[u8]| -> Vec<(Bytes, Bytes)> {
        let rows = model.range(from.clone()..).filter(|(key, _)| key.starts_with(prefix));
        rows.filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect()
    };
    assert_eq!(collect(db.scan(key(1_234)..).await.unwrap()).await, live(&key(1_234), b""), "{when}");
    for i in 0..300 {
        let (from, to) = (key(i * 37), key(i * 37 + i % 5 + 1));
        let rows = model.range(from.clone()..to.clone());
        let expected: Vec<_> = rows.filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect();
        assert_eq!(collect(db.scan(from..to).await.unwrap()).await, expected, "{when}: range {i}");
    }
    for user in 0..KEYS / 100 + 3 {
        for len in [3, 4, 6] {
            let prefix = key(user * 100).slice(..len);
            let found = collect(db.scan_prefix(&prefix, ..).await.unwrap()).await;
            assert_eq!(found, live(&Bytes::new(), &prefix), "{when}: {prefix:?}");
        }
    }
}

/// Writes a round of values, merges and tombstones over older rounds, and flushes it. Every seventh
/// user has no keys.
async fn write_round(db: &slatedb::Db, model: &mut Model, round: u64) {
    for i in (0..KEYS).filter(|i| (i % 5 == round % 5 || i % 97 == round) && i / 100 % 7 != 3) {
        let (key, value) = (key(i), Bytes::from(format!("value {i} of round {round}")));
        match (i + round) % 4 {
            0 => {
                db.delete(&key).await.unwrap();
                model.insert(key, None);
            }
            1 => {
                db.merge(&key, &value).await.unwrap();
                let old = model.get(&key).cloned().flatten().unwrap_or_default();
                model.insert(key, Some([old, value].concat().into()));
            }
            _ => {
                db.put(&key, &value).await.unwrap();
                model.insert(key, Some(value));
            }
        }
    }
    flush(db).await;
}

/// Returns a cache that also keeps data blocks, because `assert_holds` reads each block many times.
fn all_cached() -> Arc<dyn DbCache> {
    Arc::new(Entries::default())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_lost_after_flush_compaction_and_reopening() {
    for_each_store(async |store, layout, filters| {
        let mut model = Model::new();
        for half in 0..2 {
            let db = writer(&store, filters.policies()).with_db_cache(all_cached(), 0).build().await.unwrap();
            for round in 0..4 {
                write_round(&db, &mut model, half * 4 + round).await;
            }
            assert_holds(&db, &model, &format!("{layout}, half {half}, level 0")).await;
            db.close().await.unwrap();

            compact(&store, &filters.policies(), 64 << 10).await;
            assert!(manifest(&store).await.all_sst_views().count() > 1, "{layout}: one SST tests no choice of SSTs");
            let db = writer(&store, filters.policies()).with_db_cache(all_cached(), 0).build().await.unwrap();
            assert_holds(&db, &model, &format!("{layout}, half {half}, compacted")).await;
            db.close().await.unwrap();
            let reader = reader(&store, filters.policies(), all_cached()).await;
            assert_holds(&reader, &model, &format!("{layout}, half {half}, reader")).await;
            reader.close().await.unwrap();
        }
        let counts = filters.counts();
        assert_eq!((counts.failed_builds, counts.unusable()), (0, 0), "{layout}: {counts:?}");
        // There are eight flushes, and two compactions into several SSTs each.
        assert!(counts.built > 10 && counts.opened > 0 && counts.negatives > 100, "{layout}: {counts:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prefix_scans_skip_ssts() {
    let store: Store = Arc::new(InMemory::new());
    let filters = layouts().remove(1).1;
    // Each SST has every fourth user.
    let db = writer(&store, filters.policies()).with_db_cache(metadata_cache(), 0).build().await.unwrap();
    for part in 0..4 {
        for i in (0..KEYS).filter(|i| i / 100 % 4 == part) {
            db.put(key(i), b"value").await.unwrap();
        }
        flush(&db).await;
    }
    let before = filters.counts();
    for user in 0..40 {
        let prefix = key(user * 100).slice(..4);
        assert_eq!(collect(db.scan_prefix(&prefix, ..).await.unwrap()).await.len(), 100);
    }
    let (after, denied) = (filters.counts(), filters.counts().negatives - before.negatives);
    // Three of four SSTs do not have the user. For a few of these SSTs, SlateDB does not ask the
    // filter, because the scan is outside of the SST's key range.
    assert!((105..=120).contains(&denied), "{denied} of {}", after.probes - before.probes);
    db.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn small_ssts_get_no_filter() {
    let store: Store = Arc::new(InMemory::new());
    let filters = ours();
    let settings = slatedb::config::Settings { min_filter_keys: 1_000, ..crate::common::settings() };
    let db = writer(&store, filters.policies()).with_settings(settings).build().await.unwrap();
    for (keys, built) in [(999, 0), (1_000, 1)] {
        for i in 0..keys {
            db.put(key(i), b"value").await.unwrap();
        }
        flush(&db).await;
        assert_eq!(filters.counts().built, built);
    }
    for i in 0..1_000 {
        assert!(db.get(key(i)).await.unwrap().is_some());
    }
    db.close().await.unwrap();
}
