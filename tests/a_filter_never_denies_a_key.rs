//! The one promise: whatever was added is never answered "absent".
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

use filterblock::{FilterBlock, FilterBuilder, FilterKind, FilterSpec, HashSeed, KeyHash, Verify, compact};
use proptest::prelude::*;

const SPECS: [&str; 27] = [
    "bloom:1",
    "bloom:10",
    "bloom:23.5",
    "bloom:100",
    "bloom:fpr=0.01",
    "blocked-bloom:1",
    "blocked-bloom:10",
    "blocked-bloom:100",
    "split-block:1",
    "split-block:10",
    "split-block:100",
    "split-block-512:1",
    "split-block-512:10",
    "split-block-512:fpr=0.001",
    "binary-fuse:8",
    "binary-fuse:12",
    "binary-fuse:16",
    "binary-fuse:fpr=0.02",
    "ribbon:1",
    "ribbon:7.3",
    "ribbon:32",
    "ribbon:fpr=0.01",
    "ribbon:fpr=0.7",
    "bumped-ribbon:1",
    "bumped-ribbon:9.3",
    "bumped-ribbon:fpr=0.01:compact",
    "full",
];

/// Whether the compact form takes the kind.
fn is_compact(spec: FilterSpec) -> bool {
    matches!(spec.kind(), FilterKind::Bloom | FilterKind::BlockedBloom | FilterKind::Full)
}

fn builder(spec: &str, keys: impl IntoIterator<Item = Vec<u8>>) -> FilterBuilder {
    let mut builder = FilterBuilder::new(spec.parse::<FilterSpec>().unwrap(), HashSeed(7));
    keys.into_iter().for_each(|key| builder.add(&key));
    builder
}

/// As many answers are given as there are keys and places, and the others are left as they are.
#[test]
fn a_batch_writes_no_answer_that_was_not_asked_for() {
    for spec in SPECS {
        let mut builder = builder(spec, []);
        let hashes: Vec<_> = (1..=3_000u64).map(|i| KeyHash::from_raw(i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        hashes.iter().for_each(|&hash| builder.add_hash(hash));
        let block = FilterBlock::open(builder.finish().unwrap()).unwrap();
        for len in [0, 1, 7, 8, 9, 20, 31, 32, 33, 50, 63, 64, 65] {
            for (before, spare) in [(false, 40), (true, 40), (false, 0), (true, 0)] {
                let mut answers = vec![before; len + spare];
                block.may_contain_batch(&hashes[..len], &mut answers);
                assert!(answers[..len].iter().all(|&answer| answer), "{spec}, {len} keys");
                assert!(answers[len..].iter().all(|&answer| answer == before), "{spec}, {len} keys");
            }
            let mut answers = vec![false; len];
            block.may_contain_batch(&hashes, &mut answers);
            assert!(answers.iter().all(|&answer| answer), "{spec}, {len} places");
            // Absent keys: what stood there before must neither stay nor spread.
            let absent: Vec<_> =
                (0..len as u64).map(|i| KeyHash::from_raw(!i.wrapping_mul(0xd1b5_4a32_d192_ed03))).collect();
            let mut answers = vec![true; len + 40];
            block.may_contain_batch(&absent, &mut answers);
            assert!(answers[len..].iter().all(|&answer| answer), "{spec}, {len} absent keys");
            assert!(absent.iter().zip(&answers).all(|(&hash, &answer)| answer == block.may_contain(hash)), "{spec}");
        }
    }
}

/// Every size up to 4,096, by hashes that are cheap to make: consecutive numbers through an odd multiplication.
#[test]
fn every_number_of_keys_up_to_4096_with_every_kind_and_budget() {
    let hash = |i: u64| KeyHash::from_raw((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for spec in SPECS {
        let spec: FilterSpec = spec.parse().unwrap();
        for n in 0..=4096u64 {
            let mut builder = FilterBuilder::new(spec, HashSeed(0));
            (0..n).for_each(|i| builder.add_hash(hash(i)));
            if is_compact(spec) {
                let compact = builder.clone().finish_compact().unwrap();
                assert!(!compact.is_empty());
                assert!((0..n).all(|i| compact::may_contain(&compact, hash(i))), "{spec}, {n} keys, compact");
            }
            let bytes = builder.finish().unwrap();
            for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
                let block = FilterBlock::open_with(bytes.as_slice(), verify).unwrap();
                assert!((0..n).all(|i| block.may_contain(hash(i))), "{spec}, {n} keys, {verify:?}");
            }
        }
    }
}

#[test]
fn keys_of_every_length_and_byte_value() {
    let keys: Vec<Vec<u8>> = (0..=255).flat_map(|byte| (0..=64).map(move |len| vec![byte; len])).collect();
    for spec in SPECS {
        let block = FilterBlock::open(builder(spec, keys.clone()).finish().unwrap()).unwrap();
        assert!(keys.iter().all(|key| block.may_contain_key(key)), "{spec}");
    }
}

#[test]
fn batches_of_every_length_agree_with_single_queries() {
    for spec in SPECS {
        let bytes = builder(spec, (0..1000u32).map(|i| i.to_string().into_bytes())).finish().unwrap();
        let hashes: Vec<_> = (0..70_000u32).map(|i| KeyHash::of(i.to_string().as_bytes(), HashSeed(7))).collect();
        for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
            let block = FilterBlock::open_with(bytes.as_slice(), verify).unwrap();
            let singly: Vec<bool> = hashes.iter().map(|&hash| block.may_contain(hash)).collect();
            for len in (0..100).chain([4_095, 4_096, 4_097, 65_535, 65_536, 65_537, 70_000]) {
                let mut answers = vec![false; len];
                block.may_contain_batch(&hashes[..len], &mut answers);
                assert_eq!(answers, singly[..len], "{spec}, batch of {len}");
            }
        }
    }
}

#[test]
fn equal_keys_a_million_times_count_once() {
    let bytes = builder("blocked-bloom:10", (0..1_000_000).map(|_| b"same".to_vec())).finish().unwrap();
    let block = FilterBlock::open(bytes).unwrap();
    assert_eq!(block.info().num_keys, 1);
    assert!(block.may_contain_key(b"same"));
}

proptest! {
    #[test]
    fn any_set_of_keys_in_any_order_gives_the_same_bytes_and_denies_none(
        keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..200),
        spec in prop::sample::select(SPECS.to_vec()),
        rotation in any::<prop::sample::Index>(),
    ) {
        let bytes = builder(spec, keys.clone()).finish().unwrap();
        let block = FilterBlock::open(bytes.as_slice()).unwrap();
        for key in &keys {
            prop_assert!(block.may_contain_key(key));
        }
        let mut other = keys.clone();
        if !other.is_empty() {
            other.rotate_left(rotation.index(keys.len()));
            other.extend_from_slice(&keys);
        }
        prop_assert_eq!(builder(spec, other).finish().unwrap(), bytes);
    }
}
