//! Tests filters inside SlateDB that are damaged, swapped or foreign.

use std::sync::Arc;

use filterblock_slatedb_testkit::Entries;
use slatedb::bytes::Bytes;
use slatedb::db_cache::CachedEntry;
use slatedb::manifest::SsTableHandle;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use slatedb::{BloomFilterPolicy, FilterPolicy, ValueDeletable};

use crate::common::{
    NamedBytes, Outcome, Policies, Store, absent, compact, entry, filled, filters_of, key, ours, own, reader,
    sst_bytes, ssts, with_filters,
};

const KEYS: u64 = 4_000;

async fn database(policies: &Policies) -> Store {
    crate::common::database(policies, KEYS).await
}

async fn read_all(store: &Store, policies: Policies) -> Outcome {
    crate::common::read_all(store, policies, KEYS).await
}

/// A way to damage a filter.
#[derive(Debug, Clone, Copy)]
enum Damage {
    /// Flips the bit at this share of the filter, in thousandths.
    Bit(usize),
    Zeroed,
    /// Zeroes all but the first two bytes, where SlateDB's own filter has its number of probes.
    BitsZeroed,
    /// Keeps this share of the filter, in thousandths.
    Cut(usize),
}

const DAMAGES: [Damage; 10] = [
    Damage::Bit(0),
    Damage::Bit(130),
    Damage::Bit(500),
    Damage::Bit(870),
    Damage::Bit(999),
    Damage::Zeroed,
    Damage::BitsZeroed,
    Damage::Cut(990),
    Damage::Cut(500),
    Damage::Cut(100),
];

impl Damage {
    fn of(self, filter: &NamedBytes) -> NamedBytes {
        let mut bytes = filter.bytes.clone();
        match self {
            Self::Bit(share) => {
                let bit = share * bytes.len() * 8 / 1_000;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            Self::Zeroed => bytes.fill(0),
            Self::BitsZeroed => bytes[2..].fill(0),
            Self::Cut(share) => bytes.truncate(bytes.len() * share / 1_000),
        }
        NamedBytes { name: filter.name.clone(), bytes }
    }
}

/// Returns a copy of the store in which `change` replaced the file of every SST.
async fn changed(store: &Store, change: impl Fn(&[u8], &SsTableHandle) -> Vec<u8>) -> Store {
    let changed = InMemory::new();
    let mut objects = store.list(None);
    while let Some(object) = futures::StreamExt::next(&mut objects).await {
        let path = object.unwrap().location;
        let bytes = store.get(&path).await.unwrap().bytes().await.unwrap();
        changed.put(&path, PutPayload::from(bytes)).await.unwrap();
    }
    for sst in ssts(store).await {
        let (path, file) = sst_bytes(store, &sst).await;
        changed.put(&path, PutPayload::from(change(&file, &sst))).await.unwrap();
    }
    Arc::new(changed)
}

/// Returns a copy of the store in which the filters of every SST are damaged. SlateDB's own
/// checksums are computed again, so that the damage reaches the policy.
async fn damaged(store: &Store, damage: Damage) -> Store {
    changed(store, |file, sst| {
        let filters: Vec<_> = filters_of(file, sst).iter().map(|filter| damage.of(filter)).collect();
        with_filters(file, sst, &filters)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_that_reaches_the_policy_loses_no_key() {
    let store = database(&ours().policies()).await;
    let num_ssts = ssts(&store).await.len() as u64;
    assert_eq!(read_all(&store, ours().policies()).await, Outcome::default());
    for damage in DAMAGES {
        let filters = ours();
        let outcome = read_all(&damaged(&store, damage).await, filters.policies()).await;
        assert_eq!(outcome, Outcome::default(), "{damage:?}");
        let counts = filters.counts();
        assert_eq!((counts.damaged, counts.unusable(), counts.opened), (num_ssts, num_ssts, 0), "{damage:?}");
        assert_eq!((counts.negatives, counts.unfiltered), (0, counts.probes), "{damage:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slatedb_bloom_loses_keys_by_the_same_damage() {
    let store = database(&own()).await;
    assert_eq!(read_all(&store, own()).await, Outcome::default());
    let mut lost = Vec::new();
    for damage in DAMAGES {
        let outcome = read_all(&damaged(&store, damage).await, own()).await;
        assert_eq!(outcome.failed, 0, "{damage:?}");
        println!("SlateDB's own Bloom, {damage:?}: {} of {KEYS} keys lost", outcome.lost);
        lost.push(outcome.lost);
    }
    // A flip from 0 to 1 loses no key. A zeroed filter has no probes, so it answers "maybe".
    assert!(lost[1..5].iter().any(|&lost| lost > 0), "{lost:?}");
    assert!(lost[6..].iter().all(|&lost| lost > KEYS / 2), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slatedb_fails_gets_if_its_own_checksum_fails() {
    for (policies, name) in [(ours().policies(), "ours"), (own(), "own")] {
        let store = database(&policies).await;
        let flipped = changed(&store, |file, sst| {
            let mut file = file.to_vec();
            file[(sst.info.filter_offset + sst.info.filter_len / 2) as usize] ^= 4;
            file
        })
        .await;
        let filters = ours();
        let policies = if name == "ours" { filters.policies() } else { policies };
        let outcome = read_all(&flipped, policies).await;
        // The damage never reaches a policy.
        assert_eq!(outcome, Outcome { lost: 0, failed: KEYS }, "{name}");
        assert_eq!(filters.counts().unusable() + filters.counts().opened, 0);

        // Without policies, SlateDB does not read filter blocks.
        assert_eq!(read_all(&flipped, Vec::new()).await, Outcome::default(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewrite_by_compaction_repairs_damaged_filters() {
    let store = damaged(&database(&ours().policies()).await, Damage::Zeroed).await;
    // A new SST in level 0 makes the compactor rewrite all SSTs.
    filled(&store, &ours().policies(), KEYS..KEYS + 1, 1).await;
    compact(&store, &ours().policies(), 32 << 10).await;
    let filters = ours();
    assert_eq!(read_all(&store, filters.policies()).await, Outcome::default());
    assert!(filters.counts().unusable() == 0 && filters.counts().opened >= 4, "{:?}", filters.counts());
}

/// Shows a limit: the trait does not tell the policy which SST a filter belongs to. If SlateDB or
/// its store swaps filters, a filter denies present keys. SlateDB's own filter does the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_swapped_filter_goes_unnoticed() {
    for (policies, own_filter) in [(ours().policies(), false), (own(), true)] {
        let store = database(&policies).await;
        let all = ssts(&store).await;
        let (first, second) = (&all[0], &all[1]);
        let (_, other) = sst_bytes(&store, second).await;
        let other = filters_of(&other, second);
        let swapped = changed(&store, |file, sst| {
            let fits = other[0].bytes.len() <= filters_of(file, sst)[0].bytes.len();
            if sst.id == first.id && fits { with_filters(file, sst, &other) } else { file.to_vec() }
        })
        .await;
        let filters = ours();
        let used = if own_filter { policies } else { filters.policies() };
        let outcome = read_all(&swapped, used).await;
        assert!(outcome.lost > 100 && outcome.failed == 0, "{outcome:?}");
        assert_eq!(filters.counts().unusable(), 0);
    }
}

/// Serializes and deserializes a filter, as a disk cache does. Damages the filter if `flip` is
/// `true`.
fn through_bytes(entry: &CachedEntry, flip: bool) -> CachedEntry {
    let mut json = serde_json::to_value(entry).unwrap();
    let bytes = json.pointer_mut("/V2/Filters/0/1");
    if let (true, Some(serde_json::Value::Array(bytes))) = (flip, bytes) {
        let middle = bytes.len() / 2;
        bytes[middle] = (bytes[middle].as_u64().unwrap() ^ 16).into();
    }
    serde_json::from_value(json).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_in_a_disk_cache_reaches_the_policy() {
    let store = database(&ours().policies()).await;
    for flip in [false, true] {
        let filters = ours();
        let disk = Entries::changing_filters(move |entry| through_bytes(entry, flip)).of_metadata();
        let reader = reader(&store, filters.policies(), disk).await;
        for i in 0..KEYS - 1 {
            assert!(reader.get(key(i)).await.unwrap().is_some(), "flip {flip}: {i}");
            assert_eq!(reader.get(absent(i)).await.unwrap(), None);
        }
        reader.close().await.unwrap();
        let counts = filters.counts();
        assert_eq!(counts.damaged > 0, flip, "{counts:?}");
        assert!(counts.opened > 0, "{counts:?}");
        assert!(flip || counts.negatives > KEYS * 9 / 10, "{counts:?}");
    }
}

/// The filter block may have bytes under our policy's name that this crate did not write.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_bytes_under_our_name_lose_no_key() {
    let store = database(&ours().policies()).await;
    let bloom = BloomFilterPolicy::new(6);
    let foreign = changed(&store, |file, sst| {
        let mut builder = bloom.builder();
        builder.add_entry(&entry(Bytes::from_static(b"other"), ValueDeletable::Tombstone));
        let bytes = crate::policy::encoded(&*builder.build());
        with_filters(file, sst, &[NamedBytes { name: filters_of(file, sst)[0].name.clone(), bytes }])
    })
    .await;
    let filters = ours();
    assert_eq!(read_all(&foreign, filters.policies()).await, Outcome::default());
    assert_eq!((filters.counts().damaged, filters.counts().opened), (ssts(&store).await.len() as u64, 0));
}
