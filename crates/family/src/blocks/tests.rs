//! Tests merging and comparing blocks.

use super::*;
use filterblock::HashKind;
use filterblock::internals::codec::u64_bytes;
use filterblock::partitions::PartitionedBuilder;
use filterblock::{FilterBlock, FilterOptions, Verify};
use filterblock::{HashSeed, KeyHasher, Secret};

const KINDS: [&str; 4] = ["bloom:10", "blocked-bloom:10", "split-block:10", "split-block-512:10"];

fn build(spec: &str, keys: std::ops::Range<u64>, seed: u64) -> Vec<u8> {
    let mut builder = FilterOptions::new(spec.parse().unwrap()).builder(HashSeed(seed)).unwrap();
    keys.for_each(|i| builder.add(builder.hasher().key(&u64_bytes(i))));
    builder.finish().unwrap().bytes
}

fn open(bytes: &[u8]) -> ParsedBlock<&[u8]> {
    ParsedBlock::open(bytes, Verify::AtOpen).unwrap()
}

#[test]
fn a_merged_block_has_its_kind_and_exactly_the_united_bits() {
    for spec in KINDS {
        let (a, b) = (build(spec, 0..5_000, 1), build(spec, 3_000..8_000, 1));
        let merged = merge_blocks(&[open(&a), open(&b), open(&build("bloom:10", 0..0, 1))]).unwrap();
        let block = FilterBlock::open_any(merged.as_slice(), Verify::AtOpen).unwrap();
        assert!((0..8_000u64).all(|i| block.may_contain(block.hasher().key(&u64_bytes(i)))), "{spec}");
        let info = block.metadata();
        assert_eq!((info.kind.name(), info.num_keys), (spec.split_once(':').unwrap().0, 10_000), "{spec}");
        assert_eq!(merged.len(), a.len());
        let payload = usize::try_from(info.payload_len_bytes).unwrap();
        let either = (0..payload).map(|i| a[i] | b[i]);
        assert!(either.eq(merged[..payload].iter().copied()), "{spec}");
    }
}

#[test]
fn a_block_with_a_new_payload_has_its_length_and_no_table_id() {
    let mut builder = FilterOptions::new("bloom:10".parse().unwrap()).table_id([7; 16]).builder(HashSeed(1)).unwrap();
    (0..9u64).for_each(|i| builder.add(builder.hasher().key(&u64_bytes(i))));
    let first = builder.finish().unwrap().bytes;
    let merged = merge_blocks(&[open(&first), open(&first)]).unwrap();
    assert_eq!((open(&first).metadata().table_id, open(&merged).metadata().table_id), ([7; 16], [0; 16]));
    let first = open(&first);
    let longer = first.with_payload(9, vec![1; 256]).unwrap();
    let longer = FilterBlock::open_any(longer, Verify::AtOpen).unwrap();
    let info = longer.metadata();
    assert_eq!((info.num_keys, info.payload_len_bytes), (9, 256));
}

#[test]
fn blocks_without_bits_merge_and_key_counts_are_capped() {
    let none = build("bloom:10", 0..0, 1);
    let merged = merge_blocks(&[open(&none), open(&none)]).unwrap();
    assert_eq!(FilterBlock::open_any(merged, Verify::AtOpen).unwrap().metadata().kind, FilterKind::Empty);
    let always_maybe = build("always-maybe", 0..9, 1);
    let merged =
        FilterBlock::open_any(merge_blocks(&[open(&always_maybe), open(&none)]).unwrap(), Verify::AtOpen).unwrap();
    assert!(merged.may_contain(merged.hasher().key(b"anything")));
    let small = build("bloom:1", 0..64, 1);
    let merged = merge_blocks(&[open(&small), open(&small), open(&small)]).unwrap();
    assert_eq!(FilterBlock::open_any(merged, Verify::AtOpen).unwrap().metadata().num_keys, 64);
}

#[test]
fn blocks_that_do_not_match_are_refused_with_the_difference() {
    let first = build("bloom:10", 0..1_000, 1);
    for (other, what) in [
        (build("bloom:10", 0..1_000, 2), "hash seed"),
        (build("blocked-bloom:10", 0..1_000, 1), "filter kind"),
        (build("bloom:10", 0..2_000, 1), "number of bits"),
        (build("bloom:20", 0..500, 1), "filter parameters"),
        (build("always-maybe", 0..500, 1), "filter kind"),
        (build("bloom:20", 0..0, 2), "hash seed"),
    ] {
        let Error::Unlike { what: found, .. } = merge_blocks(&[open(&first), open(&other)]).unwrap_err() else {
            panic!("{what}: expected Error::Unlike")
        };
        assert_eq!(found, what);
        assert!(matches!(compare_blocks(&open(&first), &open(&other)), Err(Error::Unlike { .. })), "{what}");
    }
    let ribbon = build("ribbon:8", 0..1_000, 1);
    assert!(matches!(merge_blocks(&[open(&ribbon), open(&ribbon)]), Err(Error::Invalid { .. })));
    assert!(matches!(compare_blocks(&open(&ribbon), &open(&ribbon)), Err(Error::Invalid { .. })));
    assert!(matches!(merge_blocks::<&[u8]>(&[]), Err(Error::Invalid { .. })));
}

#[test]
fn blocks_under_different_secrets_do_not_merge() {
    let secret = |fill| Secret::new(&[fill; 32]).unwrap();
    let keyed = |kind, fill, keys: std::ops::Range<u64>| {
        let hasher = KeyHasher::new(kind, HashSeed(1), Some(&secret(fill))).unwrap();
        let mut builder = FilterOptions::new("blocked-bloom:10".parse().unwrap()).builder(hasher).unwrap();
        keys.for_each(|i| builder.add(builder.hasher().key(&u64_bytes(i))));
        builder.finish().unwrap().bytes
    };
    let first = keyed(HashKind::SipHash13, 1, 0..1_000);
    for (other, what) in [
        (keyed(HashKind::SipHash13, 2, 0..1_000), "fingerprint of the secret"),
        (keyed(HashKind::Xxh3Secret, 1, 0..1_000), "hash function"),
        (build("blocked-bloom:10", 0..1_000, 1), "hash function"),
        // A block without keys has the fingerprint of its secret, too.
        (keyed(HashKind::SipHash13, 2, 0..0), "fingerprint of the secret"),
    ] {
        for blocks in [[open(&first), open(&other)], [open(&other), open(&first)]] {
            let Error::Unlike { what: found, .. } = merge_blocks(&blocks).unwrap_err() else {
                panic!("{what}: expected Error::Unlike")
            };
            assert_eq!(found, what);
        }
    }
    let other = keyed(HashKind::SipHash13, 1, 1_000..2_000);
    let merged = merge_blocks(&[open(&first), open(&other)]).unwrap();
    let merged = open(&merged).bind_any(Some(&secret(1))).unwrap();
    assert!((0..2_000u64).all(|i| merged.may_contain(merged.hasher().key(&u64_bytes(i)))));
}

/// A partition denies the keys of the other partitions. A merge with a whole filter could give a
/// block that looks like a whole filter but denies these keys.
#[test]
fn a_partition_merges_only_with_partitions_of_its_number() {
    let key = |i: u8| [i];
    let mut builder =
        PartitionedBuilder::new(&FilterOptions::new("blocked-bloom:10".parse().unwrap()), HashSeed(1), 40).unwrap();
    (0..80).for_each(|i| builder.add(builder.hasher().key(&key(i))).unwrap());
    let bytes = builder.finish().unwrap().bytes;
    let whole = open(&bytes);
    for refused in
        [merge_blocks(&[whole, open(&bytes)]).map(drop), compare_blocks(&open(&bytes), &open(&bytes)).map(drop)]
    {
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    let partition = |number, from: usize| {
        let ends = (from + 1..bytes.len()).filter(|&end| end - from < bytes.len() / 2);
        let mut opened =
            ends.filter_map(|end| ParsedBlock::open_partition(&bytes[from..end], number, Verify::AtOpen).ok());
        opened.next().unwrap()
    };
    let first = || partition(0, 0);
    let second = partition(1, first().as_bytes().len().next_multiple_of(64));
    let whole = build("blocked-bloom:10", 0..40, 1);
    for blocks in [[open(&whole), first()], [first(), open(&whole)], [first(), second]] {
        let found = merge_blocks(&blocks).map(|_| ());
        assert!(matches!(found, Err(Error::Unlike { what: "partition", .. })), "{found:?}");
        assert!(matches!(compare_blocks(&blocks[0], &blocks[1]), Err(Error::Unlike { what: "partition", .. })));
    }
    let merged = merge_blocks(&[first(), first()]).unwrap();
    assert!(FilterBlock::open_any(merged.as_slice(), Verify::AtOpen).is_err());
    let merged = ParsedBlock::open_partition(merged.as_slice(), 0, Verify::AtOpen)
        .and_then(|block| block.bind_any(None))
        .unwrap();
    assert!((0..40).all(|i| merged.may_contain(merged.hasher().key(&key(i)))));
}

#[test]
fn unverified_blocks_are_verified_before_a_merge() {
    let mut bytes = build("blocked-bloom:10", 0..20_000, 1);
    bytes[5_000] ^= 1;
    let unchecked = ParsedBlock::open(bytes.as_slice(), Verify::OnFirstTouch).unwrap();
    assert!(merge_blocks(std::slice::from_ref(&unchecked)).unwrap_err().is_damage());
    assert!(compare_blocks(&unchecked, &unchecked).unwrap_err().is_damage());
}

#[test]
fn estimates_of_every_kind_are_within_their_deviations() {
    for spec in KINDS {
        for seed in 0..4 {
            let (a, b) = (build(spec, 0..100_000, seed), build(spec, 60_000..160_000, seed));
            let found = compare_blocks(&open(&a), &open(&b)).unwrap();
            for (estimate, truth) in [
                (found.left, 100_000.0),
                (found.right, 100_000.0),
                (found.union, 160_000.0),
                (found.intersection, 40_000.0),
            ] {
                let off = (estimate.keys() - truth) / estimate.deviation();
                assert!(off.abs() < 5.0, "{spec}: {estimate:?} for {truth}, {off} deviations off");
                assert!(estimate.deviation() < 600.0, "{spec}: {estimate:?}");
            }
            assert!((found.key_similarity() - 0.25).abs() < 0.01, "{spec}: {}", found.key_similarity());
        }
    }
}

/// The mean of the logarithm of a small number of zeros is too low. Without the correction of this
/// bias, the mean error of the estimate for the left filter would be 0.4 deviations here.
#[test]
fn estimates_of_many_small_blocks_have_no_bias() {
    const TRIALS: u32 = 400;
    let mut sums = [0.0; 3];
    for seed in 0..TRIALS {
        let build = |keys| build("split-block:10", keys, seed.into());
        let found = compare_blocks(&open(&build(0..10_000)), &open(&build(2_000..12_000))).unwrap();
        let estimates = [(found.left, 10_000.0), (found.union, 12_000.0), (found.intersection, 8_000.0)];
        for (sum, (estimate, truth)) in sums.iter_mut().zip(estimates) {
            *sum += (estimate.keys() - truth) / estimate.deviation();
        }
    }
    let worst = sums.map(|sum| (sum / f64::from(TRIALS).sqrt()).abs());
    assert!(worst.iter().all(|&off| off < 5.0), "{worst:?}");
}
