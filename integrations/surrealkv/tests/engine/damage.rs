//! Tests damaged filters in the files of a store.

use std::path::Path;
use std::sync::Arc;

use surrealkv::FilterPolicy;

use crate::support::{Recording, Store, key, own_bloom, places_of, policy, write};

const KEYS: usize = 3_000;

/// Returns the number of keys that a store does not find. Panics if a get fails.
fn lost(dir: &Path, policy: &Arc<Recording>) -> usize {
    let store = Store::open(dir, Arc::clone(policy) as _);
    let lost = (0..KEYS).filter(|&i| store.get(&key(i)).is_none()).count();
    store.close();
    lost
}

/// Writes a store, and damages one of its filters after the other, in three ways. Returns the number
/// of damaged filters, and the number of lost keys over all ways.
fn damage_each(policy: Arc<dyn FilterPolicy>) -> (usize, usize) {
    let (folder, policy) = (tempfile::tempdir().unwrap(), Recording::new(policy));
    let dir = folder.path();
    write(dir, Arc::clone(&policy) as _, KEYS);
    let filters = policy.built.lock().unwrap().clone();
    let places = places_of(dir, &filters);
    assert_eq!(places.len(), filters.len(), "a filter is not in the files");
    let mut sum = 0;
    for (i, (path, at, len)) in places.iter().enumerate() {
        let sound = std::fs::read(path).unwrap();
        for damage in 0..3 {
            let mut bytes = sound.clone();
            let filter = &mut bytes[*at..at + len];
            match damage {
                // Flips a bit at another place in each filter.
                0 => filter[i * 37 % len] ^= 1 << (i % 8),
                1 => filter.fill(0),
                // Overwrites the second half, as if the filter were cut and other bytes followed.
                _ => filter[len / 2..].fill(0xff),
            }
            std::fs::write(path, &bytes).unwrap();
            sum += lost(dir, &policy);
        }
        std::fs::write(path, &sound).unwrap();
    }
    (places.len(), sum)
}

#[test]
fn damaged_filters_lose_no_key() {
    let ours = ["bumped-ribbon:7", "blocked-bloom:10"].map(|spec| (spec, Arc::new(policy(spec))));
    let all = ours.clone().map(|(spec, policy)| (spec, policy as Arc<dyn FilterPolicy>));
    for (name, policy) in all.into_iter().chain([("SurrealKV's own", own_bloom())]) {
        let (damaged, lost) = damage_each(policy);
        assert!(damaged >= 4 && lost == 0, "{name}: {damaged} damaged filters, {lost} keys lost");
    }
    // SurrealKV dropped the damaged filters because of its own checksum, so the policy never got
    // them.
    assert!(ours.iter().all(|(_, policy)| policy.counters().counts().unfiltered() == 0));
}
