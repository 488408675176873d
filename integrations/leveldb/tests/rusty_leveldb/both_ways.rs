//! Tests databases that were written with one policy and opened with another.

use std::path::Path;

use filterblock::HashSeed;
use filterblock_leveldb::Policy;
use rusty_leveldb::{BloomPolicy, FilterPolicy};

use crate::support::{compact, key, open, policy, recording};

const KEYS: usize = 3_000;

fn write(dir: &Path, policy: impl FilterPolicy + 'static) {
    let (policy, _) = recording(policy);
    let mut db = open(dir, &policy);
    (0..KEYS).for_each(|i| db.put(&key(i), &[7; 100]).unwrap());
    compact(&mut db);
    db.close().unwrap();
}

/// Opens a database, and checks each key before and after all keys are rewritten and compacted.
/// Returns how often a filter was asked in the first check and in the second check.
fn asked_before_and_after(dir: &Path, policy: impl FilterPolicy + 'static) -> [u64; 2] {
    let (policy, seen) = recording(policy);
    let mut db = open(dir, &policy);
    let check = |db: &mut rusty_leveldb::DB| {
        assert!((0..KEYS).all(|i| db.get(&key(i)).as_deref() == Some(&[7; 100][..])));
        seen.asked.take()
    };
    let before = check(&mut db);
    // New versions of all keys make the compaction replace the old files.
    (0..KEYS).for_each(|i| db.put(&key(i), &[7; 100]).unwrap());
    compact(&mut db);
    let after = check(&mut db);
    db.close().unwrap();
    [before, after]
}

#[test]
fn a_database_with_own_filters_opens_with_ours() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), BloomPolicy::new(10));
    let policy = policy("bloom:10");
    let counters = policy.counters();
    let [before, after] = asked_before_and_after(dir.path(), policy);
    // If no filter has the policy's name, rusty-leveldb uses the filter with the next name. The
    // policy answers "maybe" for these bytes, and counts each query.
    assert_eq!(before, KEYS as u64);
    assert!(after >= KEYS as u64);
    assert_eq!(counters.counts().damaged, KEYS as u64, "only before the compaction");
}

#[test]
fn a_database_with_our_filters_opens_with_own_filters() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), policy("bloom:10"));
    let [before, after] = asked_before_and_after(dir.path(), BloomPolicy::new(10));
    // Our name sorts before the name of the engine's own filter, so rusty-leveldb finds no filter.
    assert!(before == 0 && after >= KEYS as u64, "{before}, {after}");
}

#[test]
fn filters_of_another_specification_are_used() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), policy("bloom:16"));
    let other = policy("blocked-bloom:10");
    let counters = other.counters();
    assert_eq!(asked_before_and_after(dir.path(), other)[0], KEYS as u64);
    assert_eq!(counters.counts().unfiltered(), 0);
}

#[test]
fn filters_of_another_seed_answer_maybe_and_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), policy("bloom:10"));
    let other = Policy::new("bloom:10".parse().unwrap(), HashSeed(7)).unwrap();
    let counters = other.counters();
    assert_eq!(asked_before_and_after(dir.path(), other)[0], KEYS as u64);
    assert_eq!(counters.counts().damaged, KEYS as u64, "only before the compaction");
}
