//! Tests the policy alone, through the traits of both engines.

use filterblock::{Error, HashSeed, KeyHasher, Secret};
use filterblock_leveldb::{NAME, Policy};
use proptest::prelude::*;
use rusty_leveldb::FilterPolicy;

use crate::support::{SPECS, key, policy, policy_with};

fn keys(n: usize) -> Vec<Vec<u8>> {
    (0..n).map(key).collect()
}

/// Returns keys and their offsets as an engine passes them.
fn joined(keys: &[Vec<u8>]) -> (Vec<u8>, Vec<usize>) {
    let offsets = keys.iter().scan(0, |at, key| Some(std::mem::replace(at, *at + key.len()))).collect();
    (keys.concat(), offsets)
}

fn build(policy: &Policy, keys: &[Vec<u8>]) -> Vec<u8> {
    let (keys, offsets) = joined(keys);
    let filter = FilterPolicy::create_filter(policy, &keys, &offsets);
    assert!(filter == sstable::filter::FilterPolicy::create_filter(policy, &keys, &offsets));
    filter
}

/// Asks a filter through both traits, and asserts that the answers are equal.
fn may_match(policy: &Policy, key: &[u8], filter: &[u8]) -> bool {
    let answer = FilterPolicy::key_may_match(policy, key, filter);
    assert_eq!(sstable::filter::FilterPolicy::key_may_match(policy, key, filter), answer);
    answer
}

#[test]
fn a_filter_of_33_keys_takes_47_bytes() {
    let policy = policy("bloom:10");
    let filter = build(&policy, &keys(33));
    // 42 bytes of Bloom filter, the shape and the checksum. rusty-leveldb's own filter takes 43.
    assert_eq!(filter.len(), 47);
    let (keys, offsets) = joined(&keys(33));
    assert_eq!(rusty_leveldb::BloomPolicy::new(10).create_filter(&keys, &offsets).len(), 43);
    let passed = (0..100_000).filter(|i| may_match(&policy, format!("absent-{i}").as_bytes(), &filter)).count();
    assert!(passed < 1_500, "{passed} of 100,000 absent keys pass");
}

#[test]
fn damaged_filters_are_counted_and_never_deny_a_key() {
    for spec in SPECS {
        let policy = policy(spec);
        let (counters, keys) = (policy.counters(), keys(33));
        let sound = build(&policy, &keys);
        let mut queries = 0;
        let mut expect_maybe = |filter: &[u8], what: &str| {
            // Each key is asked through both traits.
            queries += 66;
            assert!(keys.iter().all(|key| may_match(&policy, key, filter)), "{spec}: {what}");
            let counts = counters.counts();
            assert_eq!((counts.unfiltered(), counts.damaged), (queries, queries), "{spec}: {what}");
        };
        for bit in 0..sound.len() * 8 {
            let mut damaged = sound.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            expect_maybe(&damaged, &format!("bit {bit}"));
        }
        for cut in 1..sound.len() {
            expect_maybe(&sound[..cut], &format!("the first {cut} bytes"));
            expect_maybe(&sound[cut..], &format!("without the first {cut} bytes"));
            let mut zeroed = sound.clone();
            zeroed[cut..].fill(0);
            expect_maybe(&zeroed, &format!("zeros after {cut} bytes"));
        }
        expect_maybe(&vec![0; sound.len()], "zeros");
        expect_maybe(&[], "nothing");
        expect_maybe(&[&sound[..], &sound].concat(), "two filters");
    }
}

#[test]
fn bloom_filters_of_the_engines_answer_maybe() {
    let policy = policy("bloom:10");
    let keys = keys(33);
    let (joined_keys, offsets) = joined(&keys);
    for bits in [1, 5, 10, 20] {
        let own = rusty_leveldb::BloomPolicy::new(bits).create_filter(&joined_keys, &offsets);
        assert!(keys.iter().all(|key| may_match(&policy, key, &own)), "{bits} bits");
    }
    assert_eq!(policy.counters().counts().damaged, 4 * 66);
    // If a file has no filter with the policy's name, the engines use the filter with the next
    // name. Our name sorts first, so the engines' own policies never get our filters.
    assert!(NAME < rusty_leveldb::BloomPolicy::new(10).name());
    assert!(NAME < sstable::filter::FilterPolicy::name(&sstable::filter::BloomPolicy::new(10)));
}

#[test]
fn filters_of_another_hasher_or_a_newer_version_answer_maybe() {
    let (ours, keys) = (policy("bloom:10"), keys(33));
    let secret = Secret::new(&[7; 16]).unwrap();
    for other in [KeyHasher::xxh3(HashSeed(43)), KeyHasher::sip13(HashSeed(42), &secret)] {
        let filter = build(&policy_with("bloom:10", other), &keys);
        assert!(keys.iter().all(|key| may_match(&ours, key, &filter)));
    }
    assert_eq!(ours.counters().counts().damaged, 2 * 66);
    // A filter of an unknown shape with a correct checksum: FORMAT.md, section 10.
    let bound = (42u64.wrapping_mul(0xe2d3_d19e_fb49_25bb) >> 32) as u32 ^ 1;
    let newer = [&[7, 0xa0][..], &(crc32_of(&[7, 0xa0]) ^ bound).to_le_bytes()].concat();
    assert!(keys.iter().all(|key| may_match(&ours, key, &newer)));
    assert_eq!(ours.counters().counts().unsupported, 66);
}

/// Computes the CRC-32 of IEEE 802.3 bit by bit.
fn crc32_of(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn kinds_without_a_compact_form_are_refused() {
    for spec in ["bumped-ribbon:7", "ribbon:7", "binary-fuse:8", "split-block:10"] {
        let refused = Policy::new(spec.parse().unwrap(), HashSeed(1));
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{spec}: {refused:?}");
    }
}

#[test]
fn offsets_that_do_not_fit_give_an_always_maybe_filter() {
    let policy = policy("bloom:10");
    for offsets in [&[0, 9][..], &[5, 2], &[usize::MAX]] {
        let filter = FilterPolicy::create_filter(&policy, b"abcdef", offsets);
        assert!((0..100).all(|i| may_match(&policy, format!("{i}").as_bytes(), &filter)), "{offsets:?}");
    }
    let counts = policy.counters().counts();
    assert_eq!((counts.failed_builds, counts.built_filters, counts.unfiltered()), (3, 0, 0));
}

proptest! {
    #[test]
    fn no_key_is_denied(
        keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..1_000),
        spec in prop::sample::select(&SPECS[..]),
    ) {
        let policy = policy(spec);
        let filter = build(&policy, &keys);
        prop_assert!(!filter.is_empty());
        prop_assert!(keys.iter().all(|key| may_match(&policy, key, &filter)));
        prop_assert_eq!(policy.counters().counts().unfiltered(), 0);
    }

    #[test]
    fn any_bytes_answer_maybe(filter in prop::collection::vec(any::<u8>(), 0..200)) {
        let policy = policy("bloom:10");
        prop_assert!(may_match(&policy, b"key", &filter));
        prop_assert_eq!(policy.counters().counts().unfiltered(), 2);
    }
}
