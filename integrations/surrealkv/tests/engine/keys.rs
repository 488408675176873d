//! Tests that stores find what was written to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;

use crate::support::{Recording, Store, key, policy};

const SPECS: [&str; 5] = ["bumped-ribbon:7", "blocked-bloom:10", "bloom:10", "binary-fuse:8", "always-maybe"];

#[test]
fn every_key_is_found_in_runs_after_compaction_and_reopening() {
    for spec in SPECS {
        let dir = tempfile::tempdir().unwrap();
        let policy = policy(spec);
        let counters = policy.counters();
        let recording = Recording::new(Arc::new(policy));
        let store = Store::open(dir.path(), Arc::clone(&recording) as _);
        for run in 0..4 {
            store.put((0..2_000).map(|i| (key(4 * i + run), vec![run as u8; 20])));
            store.flush();
        }
        let check = |store: &Store| {
            assert!((0..8_000).all(|i| store.get(&key(i)) == Some(vec![i as u8 % 4; 20])), "{spec}");
            assert!((8_000..9_000).all(|i| store.get(&key(i)).is_none()), "{spec}");
        };
        check(&store);
        let flushed = counters.counts();
        assert!(flushed.built_filters > 8 && flushed.built_keys == 8_000, "{spec}: {flushed:?}");
        store.compact();
        check(&store);
        store.close();
        let store = Store::open(dir.path(), Arc::clone(&recording) as _);
        check(&store);
        store.close();
        let counts = counters.counts();
        assert_eq!((counts.unfiltered(), counts.failed_builds), (0, 0), "{spec}");
        assert!(counts.built_keys >= 16_000 && counts.built_bytes > 0, "{spec}: {counts:?}");
        // The filters were in use.
        let (asked, denied) = (recording.asked.load(Relaxed), recording.denied.load(Relaxed));
        let is_used = asked > 24_000 && (denied > 1_000) == (spec != "always-maybe");
        assert!(is_used, "{spec}: {asked} asked, {denied} denied");
    }
}

#[test]
fn a_tombstone_hides_its_key_in_every_run() {
    let dir = tempfile::tempdir().unwrap();
    let policy = Arc::new(policy("bumped-ribbon:7"));
    let store = Store::open(dir.path(), Arc::clone(&policy) as _);
    store.put((0..3_000).map(|i| (key(i), b"old".to_vec())));
    store.flush();
    store.delete((0..3_000).step_by(3).map(key));
    store.flush();
    store.put((0..3_000).step_by(6).map(|i| (key(i), b"new".to_vec())));
    store.flush();
    let expected = |i: usize| match i % 6 {
        0 => Some(b"new".to_vec()),
        3 => None,
        _ => Some(b"old".to_vec()),
    };
    for round in 0..3 {
        assert!((0..3_000).all(|i| store.get(&key(i)) == expected(i)), "round {round}");
        if round == 0 {
            store.compact();
        }
    }
    store.close();
    let store = Store::open(dir.path(), policy as _);
    assert!((0..3_000).all(|i| store.get(&key(i)) == expected(i)), "reopened");
}

#[derive(Debug, Clone)]
enum Step {
    Put(Vec<u8>, u8),
    Delete(Vec<u8>),
    Flush,
    Compact,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // SurrealKV does not accept empty keys.
    let key = prop::collection::vec(prop::sample::select(b"ab\0\xff".to_vec()), 1..5);
    let step = prop_oneof![
        20 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        8 => key.prop_map(Step::Delete),
        3 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_store_agrees_with_a_map(steps in steps(), spec in prop::sample::select(&SPECS[..])) {
        let dir = tempfile::tempdir().unwrap();
        let policy = policy(spec);
        let counters = policy.counters();
        let policy: Arc<dyn surrealkv::FilterPolicy> = Arc::new(policy);
        let mut store = Store::open(dir.path(), Arc::clone(&policy));
        let mut model = BTreeMap::new();
        for step in steps {
            match step {
                Step::Put(key, value) => {
                    store.put([(key.clone(), vec![value])]);
                    model.insert(key, vec![value]);
                }
                Step::Delete(key) => {
                    store.delete([key.clone()]);
                    model.remove(&key);
                }
                Step::Flush => store.flush(),
                Step::Compact => store.compact(),
                Step::Reopen => {
                    store.close();
                    store = Store::open(dir.path(), Arc::clone(&policy));
                }
            }
        }
        for a in b"ab\0\xff" {
            for b in b"ab\0\xff" {
                for key in [vec![*a], vec![*a, *b], vec![*a, *b, *a], vec![*a, *b, *b, *a]] {
                    prop_assert_eq!(store.get(&key), model.get(&key).cloned());
                }
            }
        }
        for (key, value) in &model {
            prop_assert_eq!(store.get(key), Some(value.clone()));
        }
        prop_assert_eq!(counters.counts().unfiltered(), 0);
        store.close();
    }
}
