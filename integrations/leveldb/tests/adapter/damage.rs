//! Tests damaged filters in the files of a database: our filters, and those of rusty-leveldb.

use std::path::Path;

use crate::support::{
    Boxed, Recorded, assert_own_filters_lose, compact, damage, key, open, own, places_of, policy, recorded,
};

const KEYS: usize = 1_500;

/// Writes [`KEYS`] keys to a database, and compacts it. Returns the filters of the compaction.
fn write(dir: &Path, Recorded { policy, seen, .. }: &Recorded<Boxed>) -> Vec<Vec<u8>> {
    let mut db = open(dir, policy);
    (0..KEYS).for_each(|i| db.put(&key(i), &[i as u8; 100]).unwrap());
    seen.built.lock().unwrap().clear();
    compact(&mut db);
    db.close().unwrap();
    seen.built.lock().unwrap().clone()
}

/// Returns the number of keys that a database does not find.
fn lost(dir: &Path, policy: &Boxed) -> usize {
    let mut db = open(dir, policy);
    let lost = (0..KEYS).filter(|&i| db.get(&key(i)).is_none()).count();
    db.close().unwrap();
    lost
}

/// Damages one filter after the other of a closed database, in each way of [`damage`]. Asserts that
/// no key is lost after the filters are restored. Returns the number of damaged filters, and the
/// number of lost keys for each way.
fn damage_each(dir: &Path, policy: &Boxed, filters: &[Vec<u8>]) -> (usize, [usize; 3]) {
    let places = places_of(dir, filters);
    let mut sums = [0; 3];
    for (i, (path, at, len)) in places.iter().enumerate() {
        let sound = std::fs::read(path).unwrap();
        for (way, sum) in sums.iter_mut().enumerate() {
            let mut bytes = sound.clone();
            damage(&mut bytes[*at..at + len], i, way);
            std::fs::write(path, &bytes).unwrap();
            *sum += lost(dir, policy);
        }
        std::fs::write(path, &sound).unwrap();
    }
    assert_eq!(lost(dir, policy), 0, "without damage");
    (places.len(), sums)
}

#[test]
fn damaged_filters_lose_no_key_and_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let ours = recorded(policy("bloom:10"));
    let filters = write(dir.path(), &ours);
    assert_eq!(ours.counters.counts().unfiltered(), 0);
    let (damaged, lost) = damage_each(dir.path(), &ours.policy, &filters);
    assert!(damaged >= 30, "only {damaged} filters");
    assert_eq!(lost, [0; 3]);
    // Exactly one filter covers each key. So each of the three ways caused one query of a damaged
    // filter for each key.
    assert_eq!(ours.counters.counts().damaged, 3 * KEYS as u64);
}

#[test]
fn rusty_leveldbs_own_filters_lose_keys() {
    let dir = tempfile::tempdir().unwrap();
    let own = own();
    let filters = write(dir.path(), &own);
    let (damaged, lost) = damage_each(dir.path(), &own.policy, &filters);
    assert_own_filters_lose(damaged, lost, KEYS);
}

#[test]
fn a_cut_filter_loses_no_key() {
    // The offsets after the filters say where each filter begins. If an offset is one byte too
    // large, its filter loses the first byte, and the previous filter ends with that byte.
    let dir = tempfile::tempdir().unwrap();
    let ours = recorded(policy("bloom:10"));
    let (filters, counters) = (write(dir.path(), &ours), &ours.counters);
    let mut cuts = 0;
    for (path, at, len) in places_of(dir.path(), &filters) {
        let sound = std::fs::read(&path).unwrap();
        let others = places_of(dir.path(), &filters);
        let in_file = || others.iter().filter(|(other, ..)| *other == path).map(|(_, at, _)| *at);
        let (first, end) = (in_file().min().unwrap(), others.iter().filter(|place| place.0 == path));
        let offsets_at = end.map(|(_, at, len)| at + len).max().unwrap();
        let offset = ((at - first) as u32).to_le_bytes();
        let count = u32::try_from((sound.len() - offsets_at) / 4).unwrap();
        let found = (0..count as usize).map(|i| offsets_at + 4 * i).find(|&i| sound[i..i + 4] == offset);
        let Some(place) = found.filter(|_| at > first && len > 10) else { continue };
        let mut bytes = sound.clone();
        bytes[place..place + 4].copy_from_slice(&((at - first) as u32 + 1).to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let before = counters.counts().damaged;
        assert_eq!(lost(dir.path(), &ours.policy), 0, "the filter at {at}");
        assert!(counters.counts().damaged > before, "the filter at {at}");
        std::fs::write(&path, &sound).unwrap();
        cuts += 1;
    }
    assert!(cuts >= 20, "only {cuts} filters were cut");
}
