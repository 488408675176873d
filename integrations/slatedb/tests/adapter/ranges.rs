//! Tests range filters.

use std::collections::BTreeSet;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::sync::Arc;

use filterblock_slatedb::{Filters, SstFilter};
use proptest::prelude::*;
use slatedb::bytes::Bytes;
use slatedb::object_store::memory::InMemory;
use slatedb::{Filter, FilterPolicy, FilterQuery, RowEntry, ValueDeletable};

use crate::common::{Policies, Store, compact, filled, inspect, key, metadata_cache, ours, reader, ssts};
use crate::policy::encoded;
use crate::reads::counted;

fn filters(ranges: &str) -> Filters {
    ours().with_ranges(ranges.parse().unwrap()).unwrap()
}

/// Returns the policy for ranges, which comes after the policy for keys.
fn policy(filters: &Filters) -> Arc<dyn FilterPolicy> {
    filters.policies().remove(1)
}

fn entry(key: &Bytes) -> RowEntry {
    crate::common::entry(key.clone(), ValueDeletable::Tombstone)
}

/// Builds the filter of keys in ascending order, and decodes it as a reader does.
fn decoded<'k>(policy: &dyn FilterPolicy, keys: impl IntoIterator<Item = &'k Bytes>) -> Arc<dyn Filter> {
    let mut builder = policy.builder();
    keys.into_iter().for_each(|key| builder.add_entry(&entry(key)));
    policy.decode(&encoded(&*builder.build()))
}

fn may_match(filter: &dyn Filter, lower: Bound<Bytes>, upper: Bound<Bytes>) -> bool {
    filter.might_match(&FilterQuery::range(lower, upper))
}

/// Returns a key of eight hexadecimal digits.
fn number(i: u64) -> Bytes {
    Bytes::from(format!("{i:08x}"))
}

#[test]
fn empty_ranges_are_denied_and_others_are_not() {
    let filters = filters("grafite:L=16:fpr=0.01");
    let policy = policy(&filters);
    assert!(policy.supports_range_queries() && !policy.supports_prefix_queries());
    let keys: Vec<Bytes> = (0..20_000).map(|i| number(i * 1_000)).collect();
    let filter = decoded(&*policy, &keys);
    assert!((filter.size() as f64) < 20_000.0 / 8.0 * 13.0, "{} bytes", filter.size());
    let mut denied = 0;
    for i in 0..20_000 {
        let (from, next) = (i * 1_000 + 984, i * 1_000 + 1_000);
        denied += u64::from(!may_match(&*filter, Included(number(from)), Excluded(number(next))));
        assert!(may_match(&*filter, Included(number(from)), Included(number(next))) || i == 19_999);
        assert!(may_match(&*filter, Included(number(i * 1_000)), Unbounded));
        assert!(may_match(&*filter, Unbounded, Included(number(i * 1_000))));
    }
    assert!(denied >= 19_700, "{denied}");
    let counts = filters.counts();
    assert_eq!((counts.built, counts.opened, counts.unusable(), counts.unfiltered), (1, 1, 0, 0));
    assert!(counts.negatives >= denied && counts.probes == 80_000, "{counts:?}");
}

#[test]
fn each_policy_answers_its_own_queries_only() {
    let filters = filters("grafite:fpr=0.01");
    let (keys, ranges) = (filters.policies().remove(0), policy(&filters));
    let (of_keys, of_ranges) = (decoded(&*keys, [&number(7)]), decoded(&*ranges, [&number(7)]));
    assert!(!of_keys.might_match(&FilterQuery::point(number(8))));
    assert!(of_ranges.might_match(&FilterQuery::point(number(8))));
    assert!(of_ranges.might_match(&FilterQuery::prefix(number(8))));
    assert!(may_match(&*of_keys, Included(number(8)), Included(number(9))));
    assert!(!may_match(&*of_ranges, Included(number(8)), Included(number(9))));
    assert_eq!(filters.counts().probes, 2);
    // Each policy answers "maybe" for a filter of the other policy.
    let swapped = ranges.decode(&encoded(&*of_keys));
    assert!(may_match(&*swapped, Included(number(8)), Included(number(9))));
    assert!(keys.decode(&encoded(&*of_ranges)).might_match(&FilterQuery::point(number(8))));
    assert_eq!(filters.counts().unusable(), 2);
}

#[test]
fn damaged_filters_and_filters_without_keys_answer_maybe() {
    let filters = filters("grafite:fpr=0.01");
    let policy = policy(&filters);
    let asked = |filter: &dyn Filter| may_match(filter, Included(number(500)), Included(number(501)));
    assert!(asked(&*policy.builder().build()) && asked(&*decoded(&*policy, [])));
    let sound = encoded(&*decoded(&*policy, &(0..100).map(|i| number(i * 1_000)).collect::<Vec<_>>()));
    assert!(!asked(&*policy.decode(&sound)));
    let (before, mut damages) = (filters.counts(), 0);
    for at in 0..sound.len() {
        let mut flipped = sound.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(asked(&*policy.decode(&flipped)) && asked(&*policy.decode(&sound[..at])), "byte {at}");
        damages += 2;
    }
    let after = filters.counts();
    assert_eq!((after.unusable() - before.unusable(), after.unfiltered - before.unfiltered), (damages, damages));
}

#[test]
fn a_builder_builds_the_same_range_filter_twice() {
    let filters = filters("grafite:fpr=0.01");
    let mut builder = policy(&filters).builder();
    builder.add_entry(&entry(&number(7)));
    let first = encoded(&*builder.build());
    assert_eq!(encoded(&*builder.build()), first);
    // A key that is added after a build must not be denied.
    builder.add_entry(&entry(&number(9)));
    assert!(may_match(&*builder.build(), Included(number(9)), Included(number(9))));
}

#[test]
fn only_range_filters_are_accepted() {
    let error = ours().with_ranges("bloom:10".parse().unwrap()).unwrap_err();
    assert!(error.to_string().contains("grafite"), "{error}");
}

proptest! {
    #[test]
    fn no_range_with_a_key_is_denied(
        keys in prop::collection::btree_set(prop::collection::vec(prop::sample::select(&[0u8, 1, 97, 255][..]), 0..12), 1..200),
        ranges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3, 0..3), 100),
        spec in prop::sample::select(&["grafite:fpr=0.01", "grafite:L=16:fpr=0.01", "grafite:12"][..]),
    ) {
        let keys: BTreeSet<Bytes> = keys.into_iter().map(Bytes::from).collect();
        let sorted: Vec<Bytes> = keys.iter().cloned().collect();
        let filters = filters(spec);
        let filter = decoded(&*policy(&filters), &sorted);
        let bound = |index: prop::sample::Index, form| match form {
            0 => Included(index.get(&sorted).clone()),
            1 => Excluded(index.get(&sorted).clone()),
            _ => Unbounded,
        };
        for (from, to, from_form, to_form) in ranges {
            let (lower, upper) = (bound(from, from_form), bound(to, to_form));
            let holds = |key: &Bytes| {
                let above = match &lower { Included(from) => key >= from, Excluded(from) => key > from, Unbounded => true };
                above && match &upper { Included(to) => key <= to, Excluded(to) => key < to, Unbounded => true }
            };
            if keys.iter().any(holds) {
                prop_assert!(may_match(&*filter, lower, upper));
            }
        }
    }
}

/// Returns the number of GETs of data blocks for `scans` scans of empty ranges, over 24 overlapping
/// SSTs. Filters and indexes are in the cache.
async fn data_gets(policies: Policies, scans: u64) -> u64 {
    const KEYS: u64 = 48_000;
    let store: Store = Arc::new(InMemory::new());
    filled(&store, &policies, 0..KEYS, 24).await;
    assert_eq!(ssts(&store).await.len(), 24);
    let counted = counted(store).await;
    let reader = reader(&(Arc::clone(&counted) as Store), policies, metadata_cache()).await;
    // Fills the cache, and asserts that every key is found.
    for i in (0..KEYS).step_by(100) {
        let mut rows = reader.scan(key(i)..=key(i + 99)).await.unwrap();
        for expected in i..i + 100 {
            assert_eq!(rows.next().await.unwrap().unwrap().key, key(expected));
        }
        assert!(rows.next().await.unwrap().is_none());
    }
    counted.take();
    for i in 0..scans {
        // The range lies between two neighbouring keys.
        let at = i * 7 % (KEYS - 1);
        let (from, to) = ([&key(at)[..], b"a"].concat(), [&key(at)[..], b"c"].concat());
        assert!(reader.scan(from..to).await.unwrap().next().await.unwrap().is_none());
    }
    let [data, _] = counted.take();
    reader.close().await.unwrap();
    data
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_of_empty_ranges_read_a_tenth_of_the_blocks() {
    let scans = 2_000;
    let without = ours();
    let with = filters("grafite:fpr=0.01");
    let (without, ours) = tokio::join!(data_gets(without.policies(), scans), data_gets(with.policies(), scans));
    println!("{scans} empty ranges in 24 SSTs: {without} data GETs without range filters, {ours} with");
    assert!(without > 20 * scans, "without range filters, nearly every SST is read");
    assert!(ours * 10 <= without, "{ours} of {without}");
    assert_eq!((with.counts().unusable(), with.counts().failed_builds), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inspection_finds_ssts_without_range_filters() {
    let store: Store = Arc::new(InMemory::new());
    let (old, new) = (ours(), filters("grafite:fpr=0.01"));
    filled(&store, &old.policies(), 0..2_000, 1).await;
    let found = inspect(&store, &new).await;
    assert_eq!((&found.ssts[0].filter, &found.ssts[0].ranges), (&SstFilter::Usable, &Some(SstFilter::Other)));
    let error = found.check(1).unwrap_err().to_string();
    assert!(error.contains("and for ranges only filters of other policies"), "{error}");
    filled(&store, &new.policies(), 2_000..4_000, 1).await;
    compact(&store, &new.policies(), 1 << 20).await;
    inspect(&store, &new).await.check(1).unwrap();
}
