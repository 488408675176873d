//! Tests damaged filters in the files of a store.

use std::path::Path;
use std::sync::Arc;

use surrealkv::FilterPolicy;

use crate::support::{AsPolicy, Recording, Store, key, own_bloom, places_of, policy};

const KEYS: usize = 3_000;

/// Writes a store of [`KEYS`] keys. Returns its policy and its filters.
fn write<P: AsPolicy + 'static>(dir: &Path, policy: P) -> (Arc<dyn FilterPolicy>, Vec<Vec<u8>>) {
    let recording = Arc::new(Recording::new(policy));
    let store = Store::open(dir, Arc::clone(&recording) as _);
    store.put((0..KEYS).map(|i| (key(i), b"value".to_vec())));
    store.flush();
    store.close();
    let built = recording.seen.built.lock().unwrap().clone();
    (recording, built)
}

/// Returns the number of keys that a store does not find. Panics if a get fails.
fn lost(dir: &Path, policy: &Arc<dyn FilterPolicy>) -> usize {
    let store = Store::open(dir, Arc::clone(policy));
    let lost = (0..KEYS).filter(|&i| store.get(&key(i)).is_none()).count();
    store.close();
    lost
}

/// Damages one filter after the other of a closed store, in three ways. Returns the number of
/// damaged filters, and the number of lost keys over all ways.
fn damage_each(dir: &Path, policy: &Arc<dyn FilterPolicy>, filters: &[Vec<u8>]) -> (usize, usize) {
    let places = places_of(dir, filters);
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
            sum += lost(dir, policy);
        }
        std::fs::write(path, &sound).unwrap();
    }
    (places.len(), sum)
}

#[test]
fn damaged_filters_lose_no_key() {
    for spec in ["bumped-ribbon:7", "blocked-bloom:10"] {
        let dir = tempfile::tempdir().unwrap();
        let policy = policy(spec);
        let counters = policy.counters();
        let (policy, filters) = write(dir.path(), policy);
        let (damaged, lost) = damage_each(dir.path(), &policy, &filters);
        assert!(damaged >= 4, "{spec}: only {damaged} filters");
        assert_eq!(lost, 0, "{spec}");
        // SurrealKV dropped the damaged filters because of its own checksum, so the policy never
        // got them.
        assert_eq!(counters.counts().unfiltered(), 0, "{spec}");
    }
}

#[test]
fn surrealkvs_own_filter_loses_no_key_either() {
    let dir = tempfile::tempdir().unwrap();
    let (policy, filters) = write(dir.path(), own_bloom());
    let (damaged, lost) = damage_each(dir.path(), &policy, &filters);
    assert!(damaged >= 4 && lost == 0, "{damaged} damaged filters, {lost} keys lost");
}
