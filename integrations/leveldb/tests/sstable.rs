//! Tests the policy in tables of the crate `sstable`.
#![cfg(feature = "sstable")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use filterblock::HashSeed;
use filterblock_leveldb::Policy;
use proptest::prelude::*;
use sstable::filter::{BloomPolicy, FilterPolicy};
use sstable::{Options, Table, TableBuilder};

const KEYS: usize = 1_500;

type Boxed = Arc<Box<dyn FilterPolicy>>;

fn policy() -> Policy {
    Policy::new("bloom:10".parse().unwrap(), HashSeed(42)).unwrap()
}

fn key(i: usize) -> Vec<u8> {
    format!("key-{i:08}").into_bytes()
}

fn options(policy: &Boxed) -> Options {
    Options { filter_policy: Arc::clone(policy), ..Options::default() }
}

fn write(policy: &Boxed, entries: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut builder = TableBuilder::new(options(policy), &mut bytes);
    entries.for_each(|(key, value)| builder.add(&key, &value).unwrap());
    builder.finish().unwrap();
    bytes
}

fn table_of_keys(policy: &Boxed) -> Vec<u8> {
    write(policy, (0..KEYS).map(|i| (key(i), vec![7; 100])))
}

fn open(policy: &Boxed, bytes: &[u8]) -> Table {
    Table::new(options(policy), Box::new(bytes.to_vec()), bytes.len()).unwrap()
}

/// Returns the number of keys that a table does not find.
fn lost(policy: &Boxed, bytes: &[u8]) -> usize {
    let table = open(policy, bytes);
    (0..KEYS).filter(|&i| table.get(&key(i)).unwrap().is_none()).count()
}

/// A policy that keeps a copy of each filter that it builds, and counts its queries.
struct Recording(Box<dyn FilterPolicy>, Seen);

type Seen = Arc<Mutex<(Vec<Vec<u8>>, u64)>>;

fn recording(policy: impl FilterPolicy + 'static) -> (Boxed, Seen) {
    let seen = Seen::default();
    (Arc::new(Box::new(Recording(Box::new(policy), Arc::clone(&seen)))), seen)
}

impl FilterPolicy for Recording {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn create_filter(&self, keys: &[u8], key_offsets: &[usize]) -> Vec<u8> {
        let filter = self.0.create_filter(keys, key_offsets);
        self.1.lock().unwrap().0.push(filter.clone());
        filter
    }

    fn key_may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        self.1.lock().unwrap().1 += 1;
        self.0.key_may_match(key, filter)
    }
}

/// Damages one filter after the other in three ways: clears one bit, zeroes the whole filter, and
/// zeroes its first half. Returns the number of filters, and the number of lost keys for each way.
fn damage_each(policy: &Boxed, sound: &[u8], filters: &[Vec<u8>]) -> (usize, [usize; 3]) {
    let mut sums = [0; 3];
    for (i, filter) in filters.iter().enumerate() {
        let len = filter.len();
        let at = sound.windows(len).position(|window| window == filter).unwrap();
        let byte = (0..len).map(|byte| (byte + i * 7) % len).find(|&byte| filter[byte] != 0).unwrap();
        let mut damaged = sound.to_vec();
        damaged[at + byte] &= filter[byte] - 1;
        sums[0] += lost(policy, &damaged);
        for (sum, zeros) in sums[1..].iter_mut().zip([len, len / 2]) {
            let mut zeroed = sound.to_vec();
            zeroed[at..at + zeros].fill(0);
            *sum += lost(policy, &zeroed);
        }
    }
    (filters.len(), sums)
}

#[test]
fn every_key_is_found_and_the_filters_are_used() {
    let policy = policy();
    let counters = policy.counters();
    let (policy, seen) = recording(policy);
    let bytes = table_of_keys(&policy);
    let table = open(&policy, &bytes);
    assert!((0..KEYS).all(|i| table.get(&key(i)).unwrap().as_deref() == Some(&[7; 100][..])));
    assert!((0..KEYS).all(|i| table.get(&[key(i), b"-".to_vec()].concat()).unwrap().is_none()));
    let counts = counters.counts();
    assert_eq!((counts.built_keys, counts.unfiltered()), (KEYS as u64, 0));
    assert!(seen.lock().unwrap().1 >= 2 * KEYS as u64 - 1);
}

#[test]
fn damaged_filters_lose_no_key_and_are_counted() {
    let policy = policy();
    let counters = policy.counters();
    let (policy, seen) = recording(policy);
    let bytes = table_of_keys(&policy);
    let filters = seen.lock().unwrap().0.clone();
    let (damaged, lost) = damage_each(&policy, &bytes, &filters);
    assert!(damaged >= 30 && lost == [0; 3], "{damaged} filters, {lost:?} lost");
    assert_eq!(counters.counts().damaged, 3 * KEYS as u64);
}

#[test]
fn filters_of_sstable_lose_keys() {
    let (policy, seen) = recording(BloomPolicy::new(10));
    let bytes = table_of_keys(&policy);
    let filters = seen.lock().unwrap().0.clone();
    let (damaged, lost) = damage_each(&policy, &bytes, &filters);
    println!("of {KEYS} keys in {damaged} filters, lost by one cleared bit, zeros, half zeros: {lost:?}");
    assert!(damaged >= 30 && lost[0] > damaged && lost[1] == 0 && lost[2] > KEYS / 2, "{lost:?}");
}

#[test]
fn tables_of_another_policy_open_both_ways() {
    let own = || recording(BloomPolicy::new(10));
    let old = table_of_keys(&own().0);
    let policy = policy();
    let counters = policy.counters();
    let (ours, seen) = recording(policy);
    assert_eq!(lost(&ours, &old), 0);
    // No filter has the policy's name, so `sstable` uses the filter with the next name. The policy
    // answers "maybe" for its bytes.
    assert_eq!((seen.lock().unwrap().1, counters.counts().damaged), (KEYS as u64, KEYS as u64));
    let new = table_of_keys(&ours);
    let (own, seen) = own();
    assert_eq!(lost(&own, &new), 0);
    assert_eq!(seen.lock().unwrap().1, 0, "our name sorts before the engine's own name, so no filter is found");
}

proptest! {
    #[test]
    fn a_table_agrees_with_a_map(
        entries in prop::collection::btree_map(
            prop::collection::vec(any::<u8>(), 1..12),
            prop::collection::vec(any::<u8>(), 0..300),
            1..200,
        ),
        others in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..12), 50),
    ) {
        let policy = policy();
        let counters = policy.counters();
        let policy = policy.for_sstable();
        let bytes = write(&policy, entries.clone().into_iter());
        let table = open(&policy, &bytes);
        let entries: BTreeMap<_, _> = entries;
        for key in entries.keys().chain(&others) {
            prop_assert_eq!(table.get(key).unwrap(), entries.get(key).cloned());
        }
        prop_assert_eq!(counters.counts().unfiltered(), 0);
    }
}
