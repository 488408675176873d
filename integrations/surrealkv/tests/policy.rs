//! Tests the policy alone, without a store.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

use std::sync::Arc;

use filterblock::layout::{PAGE_CHECKSUM_LEN_BYTES, PAGE_LEN_BYTES, TRAILER_LEN_BYTES};
use filterblock::{FilterOptions, HashSeed, KeyHasher, Secret, WholeKeys};
use filterblock_surrealkv::Policy;
use proptest::prelude::*;
use surrealkv::FilterPolicy;

const SPECS: [&str; 7] = [
    "bumped-ribbon:7",
    "bumped-ribbon:fpr=0.01",
    "blocked-bloom:10",
    "bloom:10",
    "split-block:10",
    "binary-fuse:8",
    "always-maybe",
];

fn policy(spec: &str) -> Policy {
    Policy::new(spec.parse().unwrap(), HashSeed(42)).unwrap()
}

fn keys(n: usize) -> Vec<Vec<u8>> {
    (0..n).map(|i| format!("key-{i:08}").into_bytes()).collect()
}

/// Returns the length of payload and page checksums together. The policy does not verify these
/// bytes.
fn host_verified_len(keys: usize, spec: &str) -> usize {
    let plan = filterblock::planning::Plan::new(spec.parse().unwrap(), keys as u64).unwrap();
    let payload_len = plan.payload_len_bytes() as usize;
    payload_len + payload_len.div_ceil(PAGE_LEN_BYTES) * PAGE_CHECKSUM_LEN_BYTES
}

#[test]
fn filters_from_keys_and_from_hashes_are_equal() {
    for spec in SPECS {
        let policy = policy(spec);
        for n in [0, 1, 33, 1_000, 20_000] {
            let keys = keys(n);
            let hashes: Vec<u64> = keys.iter().map(|key| policy.key_hash(key)).collect();
            let filter = policy.create_filter(&keys);
            assert!(filter == policy.create_filter_from_hashes(&hashes), "{spec}, {n} keys");
            assert!(keys.iter().all(|key| policy.may_contain(&filter, key)), "{spec}, {n} keys");
        }
        assert_eq!(policy.counters().counts().failed_builds, 0);
    }
}

#[test]
fn partitions_have_the_requested_size() {
    for spec in SPECS.into_iter().filter(|&spec| spec != "always-maybe") {
        let policy = policy(spec);
        let n = policy.filter_keys_per_partition(16_384);
        let len = policy.create_filter(&keys(n)).len();
        assert!((16_000..=16_600).contains(&len), "{spec}: {n} keys take {len} bytes");
        assert!(policy.filter_keys_per_partition(0) >= 1);
        assert!(policy.filter_keys_per_partition(usize::MAX) >= 1);
    }
}

#[test]
fn damaged_trailers_are_counted_and_never_deny_a_key() {
    for spec in SPECS.into_iter().filter(|&spec| spec != "always-maybe") {
        let policy = policy(spec);
        let (counters, keys) = (policy.counters(), keys(500));
        let sound = policy.create_filter(&keys);
        // After this query, the thread keeps the sound trailer. Queries of damaged filters must
        // still detect the damage.
        assert!(policy.may_contain(&sound, &keys[0]));
        let mut queries = 0;
        let mut expect_maybe = |filter: &[u8], what: &str| {
            queries += 20;
            assert!(keys[..20].iter().all(|key| policy.may_contain(filter, key)), "{spec}: {what}");
            assert_eq!(counters.counts().unfiltered(), queries, "{spec}: {what}");
        };
        for bit in (sound.len() - TRAILER_LEN_BYTES) * 8..sound.len() * 8 {
            let mut damaged = sound.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            expect_maybe(&damaged, &format!("bit {bit}"));
        }
        for cut in 1..sound.len() {
            expect_maybe(&sound[..cut], &format!("the first {cut} bytes"));
            expect_maybe(&sound[cut..], &format!("without the first {cut} bytes"));
        }
        expect_maybe(&vec![0; sound.len()], "zeros");
        expect_maybe(&[], "nothing");
        expect_maybe(&[&sound[..], &[0]].concat(), "one byte more");
        let at = sound.len() - TRAILER_LEN_BYTES + 51;
        let mut newer = sound.clone();
        newer[at] = 2;
        // Only the version changes. The checksum is still that of version 1, so the trailer counts
        // as damaged.
        expect_maybe(&newer, "version 2");
        assert_eq!(counters.counts().damaged, counters.counts().unfiltered());
    }
}

#[test]
fn damage_of_the_payload_is_left_to_surrealkv() {
    // The policy does not verify the checksums of the pages. So SurrealKV's own checksum must
    // detect this damage: see tests/engine/damage.rs.
    let (policy, keys) = (policy("blocked-bloom:10"), keys(500));
    let mut filter = policy.create_filter(&keys);
    let payload = host_verified_len(500, "blocked-bloom:10");
    filter[..payload].fill(0);
    assert!(keys.iter().any(|key| !policy.may_contain(&filter, key)));
    assert_eq!(policy.counters().counts().unfiltered(), 0);
}

#[test]
fn kinds_that_need_the_bytes_of_keys_are_errors() {
    let error = Policy::new("grafite:9".parse().unwrap(), HashSeed(42)).unwrap_err();
    assert!(error.to_string().contains("bytes of each key"), "{error}");
}

#[test]
fn filters_with_an_unexpected_trailer_answer_maybe() {
    let (ours, keys) = (policy("bloom:10"), keys(100));
    let counters = ours.counters();
    let refused = |filter: &[u8]| keys.iter().all(|key| ours.may_contain(filter, key));
    let secret = Secret::new(&[7; 16]).unwrap();
    let others = [
        Policy::new("bloom:10".parse().unwrap(), HashSeed(43)).unwrap(),
        Policy::new("bloom:10".parse().unwrap(), KeyHasher::sip13(HashSeed(42), &secret)).unwrap(),
        Policy::new("bloom:10".parse().unwrap(), KeyHasher::xxh3_with_secret(HashSeed(42), &secret)).unwrap(),
    ];
    for (i, other) in others.iter().enumerate() {
        let filter = other.create_filter(&keys);
        // This thread now keeps the trailer for the other policy. Our policy must not use it.
        assert!(keys.iter().all(|key| other.may_contain(&filter, key)));
        assert!(refused(&filter) && counters.counts().other_hasher == (i as u64 + 1) * 100);
    }
    // A filter without keys. SurrealKV never writes one.
    assert!(refused(&ours.create_filter(&[])));
    // A filter of prefixes only.
    let mut builder = FilterOptions::new("bloom:10".parse().unwrap())
        .prefixes_by_host("first-4", WholeKeys::Not)
        .builder(HashSeed(42))
        .unwrap();
    builder.add_prefix(builder.hasher().key(b"key-"));
    assert!(refused(&builder.finish().unwrap().bytes));
    assert_eq!(counters.counts().unfiltered(), 500);
}

#[test]
fn many_threads_and_filters_agree() {
    // There are more filters than trailers that a thread keeps.
    let policy = Arc::new(policy("bumped-ribbon:7"));
    let keys = keys(1_500);
    let filters: Vec<Vec<u8>> = keys.iter().map(|key| policy.create_filter(std::slice::from_ref(key))).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (policy, keys, filters) = (&policy, &keys, &filters);
            scope.spawn(move || {
                for round in 0..3 {
                    for i in 0..filters.len() {
                        let i = (i * (2 * thread + 1) + round) % filters.len();
                        assert!(policy.may_contain(&filters[i], &keys[i]), "thread {thread}, filter {i}");
                    }
                }
            });
        }
    });
    assert_eq!(policy.counters().counts().unfiltered(), 0);
}

proptest! {
    #[test]
    fn no_key_is_denied(
        keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..300),
        spec in prop::sample::select(&SPECS[..]),
        shift in 0..16usize,
    ) {
        let policy = policy(spec);
        let filter = [&vec![0; shift], &policy.create_filter(&keys)[..]].concat();
        prop_assert!(keys.iter().all(|key| policy.may_contain(&filter[shift..], key)));
        prop_assert_eq!(policy.counters().counts().unfiltered(), 0);
    }

    #[test]
    fn any_bytes_answer_maybe(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let policy = policy("bloom:10");
        prop_assert!(policy.may_contain(&bytes, b"key"));
        prop_assert_eq!(policy.counters().counts().unfiltered(), 1);
    }
}
