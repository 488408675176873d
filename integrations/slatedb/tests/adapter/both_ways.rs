//! Tests databases that were written with one list of policies and opened with another.

use filterblock_slatedb::{Filters, SstFilter};
use slatedb::BloomFilterPolicy;

use crate::common::{Outcome, Policies, Store, compact, database, filled, inspect, ours, own, read_all, ssts};

const KEYS: u64 = 6_000;

/// Asserts that each list of policies loses no key.
async fn assert_complete(store: &Store, lists: impl IntoIterator<Item = Policies>) {
    for policies in lists {
        assert_eq!(read_all(store, policies, KEYS).await, Outcome::default());
    }
}

async fn found(store: &Store, filters: &Filters) -> Vec<SstFilter> {
    inspect(store, filters).await.ssts.into_iter().map(|sst| sst.filter).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_ignores_the_filters_of_slatedb() {
    let store = database(&own(), KEYS).await;
    let filters = ours();
    assert_complete(&store, [filters.policies()]).await;
    // SlateDB does not pass the filters of another policy to our policy.
    let counts = filters.counts();
    assert_eq!((counts.opened, counts.unusable(), counts.bloom_opened, counts.probes), (0, 0, 0, 0));
    assert!(found(&store, &filters).await.iter().all(|filter| *filter == SstFilter::Other));
}

#[tokio::test(flavor = "multi_thread")]
async fn slatedb_ignores_our_filters() {
    let store = database(&ours().policies(), KEYS).await;
    assert_complete(&store, [own(), Vec::new()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_bloom_filters_are_used_until_a_compaction() {
    let store = database(&own(), KEYS).await;
    let num_ssts = ssts(&store).await.len() as u64;
    let filters = ours().reading_bloom(BloomFilterPolicy::new(10));
    assert_complete(&store, [filters.policies()]).await;
    let counts = filters.counts();
    assert_eq!((counts.bloom_opened, counts.opened, counts.unusable()), (num_ssts, 0, 0));
    assert!(found(&store, &filters).await.iter().all(|filter| *filter == SstFilter::Bloom));

    // A new SST gets a filter of this crate, and the old SSTs still have their Bloom filters.
    filled(&store, &filters.policies(), 0..KEYS / 2, 1).await;
    assert_complete(&store, [filters.policies()]).await;
    let mixed = found(&store, &filters).await;
    assert_eq!(mixed.iter().filter(|filter| **filter == SstFilter::Usable).count(), 1);
    assert_eq!(mixed.iter().filter(|filter| **filter == SstFilter::Bloom).count() as u64, num_ssts);

    compact(&store, &filters.policies(), 32 << 10).await;
    assert!(found(&store, &filters).await.iter().all(|filter| *filter == SstFilter::Usable));
    // SlateDB's own policy accepts the always-maybe filters that the compaction wrote under its
    // name.
    assert_complete(&store, [filters.policies(), ours().policies(), own(), Vec::new()]).await;
    let fresh = ours().reading_bloom(BloomFilterPolicy::new(10));
    assert_complete(&store, [fresh.policies()]).await;
    assert_eq!(fresh.counts().bloom_opened, 0);
    assert!(fresh.counts().opened > 0 && fresh.counts().negatives > KEYS * 9 / 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_filters_in_one_sst_work_together() {
    let both: Policies = own().into_iter().chain(ours().policies()).collect();
    let store = database(&both, KEYS).await;
    let filters = ours();
    assert_complete(&store, [both, own(), filters.policies()]).await;
    assert!(filters.counts().negatives > KEYS * 9 / 10 && filters.counts().unusable() == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_specification_needs_no_migration() {
    let store = database(&ours().policies(), KEYS).await;
    let filters = Filters::new("blocked-bloom:12".parse().unwrap());
    assert_complete(&store, [filters.policies()]).await;
    assert!(filters.counts().negatives > KEYS * 9 / 10 && filters.counts().unusable() == 0);
}
