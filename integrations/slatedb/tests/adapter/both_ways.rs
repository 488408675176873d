//! Tests databases that were written with one list of policies and opened with another.

use std::sync::Arc;

use filterblock_slatedb::{Filters, SstFilter};
use slatedb::object_store::memory::InMemory;
use slatedb::{BloomFilterPolicy, DbReader, SstReader};

use crate::common::{Policies, ROOT, Store, absent, compact, filled, key, metadata_cache, ssts};

const KEYS: u64 = 6_000;

fn ours() -> Filters {
    Filters::new("bumped-ribbon:7".parse().unwrap())
}

fn own() -> Policies {
    vec![Arc::new(BloomFilterPolicy::new(10))]
}

async fn database(policies: &Policies) -> Store {
    let store: Store = Arc::new(InMemory::new());
    filled(&store, policies, 0..KEYS, 3).await;
    compact(&store, policies, 32 << 10).await;
    store
}

/// Gets every key, and as many absent keys. Asserts that every key is found, and no absent key.
async fn read_all(store: &Store, policies: Policies) {
    let reader = DbReader::builder(ROOT, Arc::clone(store)).with_db_cache(metadata_cache(), 0);
    let reader = reader.with_filter_policies(policies).build().await.unwrap();
    for i in 0..KEYS {
        assert!(reader.get(key(i)).await.unwrap().is_some(), "{i}");
        assert_eq!(reader.get(absent(i)).await.unwrap(), None);
    }
    reader.close().await.unwrap();
}

async fn found(store: &Store, filters: &Filters) -> Vec<SstFilter> {
    let ssts = SstReader::new(ROOT, Arc::clone(store), None, None);
    let inspection = filters.inspect(DbReader::builder(ROOT, Arc::clone(store)), &ssts).await.unwrap();
    inspection.ssts.into_iter().map(|sst| sst.filter).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_ignores_the_filters_of_slatedb() {
    let store = database(&own()).await;
    let filters = ours();
    read_all(&store, filters.policies()).await;
    // SlateDB does not pass the filters of another policy to our policy.
    let counts = filters.counts();
    assert_eq!((counts.opened, counts.unusable(), counts.bloom_opened, counts.probes), (0, 0, 0, 0));
    assert!(found(&store, &filters).await.iter().all(|filter| *filter == SstFilter::Other));
}

#[tokio::test(flavor = "multi_thread")]
async fn slatedb_ignores_our_filters() {
    let store = database(&ours().policies()).await;
    read_all(&store, own()).await;
    read_all(&store, Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_bloom_filters_are_used_until_a_compaction() {
    let store = database(&own()).await;
    let num_ssts = ssts(&store).await.len() as u64;
    let filters = ours().reading_bloom(BloomFilterPolicy::new(10));
    read_all(&store, filters.policies()).await;
    let counts = filters.counts();
    assert_eq!((counts.bloom_opened, counts.opened, counts.unusable()), (num_ssts, 0, 0));
    assert!(found(&store, &filters).await.iter().all(|filter| *filter == SstFilter::Bloom));

    // A new SST gets a filter of this crate, and the old SSTs still have their Bloom filters.
    let db = crate::common::writer(&store, filters.policies()).build().await.unwrap();
    for i in 0..KEYS / 2 {
        db.put(key(i), b"new").await.unwrap();
    }
    crate::common::flush(&db).await;
    db.close().await.unwrap();
    read_all(&store, filters.policies()).await;
    let mixed = found(&store, &filters).await;
    assert_eq!(mixed.iter().filter(|filter| **filter == SstFilter::Usable).count(), 1);
    assert_eq!(mixed.iter().filter(|filter| **filter == SstFilter::Bloom).count() as u64, num_ssts);

    compact(&store, &filters.policies(), 32 << 10).await;
    assert!(found(&store, &filters).await.iter().all(|filter| *filter == SstFilter::Usable));
    // SlateDB's own policy accepts the always-maybe filters that the compaction wrote under its
    // name.
    for policies in [filters.policies(), ours().policies(), own(), Vec::new()] {
        read_all(&store, policies).await;
    }
    let fresh = ours().reading_bloom(BloomFilterPolicy::new(10));
    read_all(&store, fresh.policies()).await;
    assert_eq!(fresh.counts().bloom_opened, 0);
    assert!(fresh.counts().opened > 0 && fresh.counts().negatives > KEYS * 9 / 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_filters_in_one_sst_work_together() {
    let both: Policies = own().into_iter().chain(ours().policies()).collect();
    let store = database(&both).await;
    let filters = ours();
    for policies in [both, own(), filters.policies()] {
        read_all(&store, policies).await;
    }
    assert!(filters.counts().negatives > KEYS * 9 / 10 && filters.counts().unusable() == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_specification_needs_no_migration() {
    let store = database(&ours().policies()).await;
    let filters = Filters::new("blocked-bloom:12".parse().unwrap());
    read_all(&store, filters.policies()).await;
    assert!(filters.counts().negatives > KEYS * 9 / 10 && filters.counts().unusable() == 0);
}
