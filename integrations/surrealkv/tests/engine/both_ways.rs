//! Tests stores that were written with one policy and opened with another.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use filterblock::HashSeed;
use filterblock_surrealkv::Policy;
use surrealkv::{FilterPolicy, RibbonFilter};

use crate::support::{Recording, Store, key, own_bloom, policy, write};

const KEYS: usize = 3_000;

/// Opens a store, and checks each key before and after a compaction. Returns how often a filter was
/// asked in the first check and in the second check.
fn asked_before_and_after(dir: &std::path::Path, policy: Arc<dyn FilterPolicy>) -> [u64; 2] {
    let recording = Recording::new(policy);
    let store = Store::open(dir, Arc::clone(&recording) as _);
    let check = || {
        assert!((0..KEYS).all(|i| store.get(&key(i)).is_some()));
        recording.asked.swap(0, Relaxed)
    };
    let before = check();
    // The flush and the compaction write filters of the new policy.
    store.put([(key(KEYS), b"value".to_vec()), (key(0), b"value".to_vec())]);
    store.flush();
    store.compact();
    let after = check();
    store.close();
    [before, after]
}

#[test]
fn a_store_of_another_policy_opens_both_ways() {
    let ours = || -> Arc<dyn FilterPolicy> { Arc::new(policy("bumped-ribbon:7")) };
    let blocked = || -> Arc<dyn FilterPolicy> { Arc::new(RibbonFilter::new(10)) };
    for (writer, reader) in [(own_bloom(), ours()), (blocked(), ours()), (ours(), own_bloom()), (ours(), blocked())] {
        let dir = tempfile::tempdir().unwrap();
        let names = [writer.name().to_owned(), reader.name().to_owned()];
        write(dir.path(), writer, KEYS);
        // The names differ, so old filters are not used until a compaction replaces them.
        assert_eq!(asked_before_and_after(dir.path(), reader), [0, KEYS as u64], "{names:?}");
    }
}

#[test]
fn filters_of_another_specification_are_used() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), Arc::new(policy("blocked-bloom:10")), KEYS);
    let other = policy("bumped-ribbon:7");
    let counters = other.counters();
    assert_eq!(asked_before_and_after(dir.path(), Arc::new(other)), [KEYS as u64; 2]);
    assert_eq!(counters.counts().unfiltered(), 0);
}

#[test]
fn filters_of_another_seed_answer_maybe_and_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), Arc::new(policy("blocked-bloom:10")), KEYS);
    let other = Policy::new("blocked-bloom:10".parse().unwrap(), HashSeed(7)).unwrap();
    let counters = other.counters();
    let [before, _] = asked_before_and_after(dir.path(), Arc::new(other));
    assert_eq!(before, KEYS as u64);
    let counts = counters.counts();
    assert_eq!((counts.other_hasher, counts.unfiltered()), (KEYS as u64, KEYS as u64), "until the compaction");
}
