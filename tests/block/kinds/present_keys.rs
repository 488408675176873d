//! Tests the main guarantee: a filter never answers "absent" for a key that was added.

use std::num::NonZeroUsize;

use filterblock::{
    Answer, FilterBlock, FilterKind, FilterOptions, FilterSpec, HashSeed, KeyHash, KeyHasher, Verify, compact,
};
use filterblock_testkit::blocks::{self, BOTH, SPECS, built, kinds_of_keys};
use filterblock_testkit::{Random, sparse};

/// The smallest and largest budgets of each kind, and FPRs.
const BUDGETS: [(&str, &[&str]); 7] = [
    ("bloom", &["1", "23.5", "100", "fpr=0.01"]),
    ("blocked-bloom", &["1", "100"]),
    ("split-block", &["1", "100"]),
    ("split-block-512", &["1", "fpr=0.001"]),
    ("binary-fuse", &["fpr=0.02"]),
    ("ribbon", &["1", "32", "fpr=0.01", "fpr=0.7"]),
    ("bumped-ribbon", &["1", "100", "fpr=0.7", "fpr=0.00390625:compact"]),
];

/// Returns [`SPECS`], [`BUDGETS`], and one more for each kind that both leave out.
fn specs() -> Vec<&'static str> {
    let is_left_out = |kind: &FilterKind| !SPECS.iter().any(|spec| spec.starts_with(&format!("{kind}:")));
    let others = kinds_of_keys().filter(is_left_out).map(|kind| format!("{kind}:fpr=0.01"));
    let budgets =
        BUDGETS.into_iter().flat_map(|(kind, budgets)| budgets.iter().map(move |budget| format!("{kind}:{budget}")));
    SPECS.into_iter().chain(others.chain(budgets).map(|spec| &*spec.leak())).collect()
}

/// The specs that are tested at more sizes than the others.
const USUAL: [&str; 10] = [
    "bloom:10",
    "blocked-bloom:10",
    "split-block:10",
    "split-block-512:10",
    "binary-fuse:8",
    "binary-fuse:12",
    "ribbon:8",
    "ribbon:fpr=0.01",
    "bumped-ribbon:8",
    "bumped-ribbon:fpr=0.01",
];

/// Returns whether [`FilterBuilder::finish_compact`] supports the kind of a specification.
fn is_compact(spec: FilterSpec) -> bool {
    matches!(spec.kind(), FilterKind::Bloom | FilterKind::BlockedBloom | FilterKind::AlwaysMaybe)
}

/// Returns `n` random hashes. Each value of `filter` gives different hashes.
fn hashes(n: u64, filter: u64) -> Vec<KeyHash> {
    let mut random = Random((filter + 1).wrapping_mul(0xd134_2543_de82_ef95));
    (0..n).map(|_| KeyHash::from_raw(random.next())).collect()
}

fn build(spec: FilterSpec, hashes: &[KeyHash]) -> Vec<u8> {
    // The self-check is off, because it would detect false negatives before this test does.
    let mut builder = FilterOptions::new(spec).self_check(false).builder(HashSeed(0)).unwrap();
    hashes.iter().for_each(|&hash| builder.add_hash(hash));
    builder.finish().unwrap().bytes
}

/// Asserts that the filter answers "maybe" for all keys in one batch, and for at most 20,000 evenly
/// spaced keys one by one.
fn holds_all(bytes: &[u8], hashes: &[KeyHash], what: &str) {
    let block = FilterBlock::open_any(bytes, Verify::AtOpen).unwrap();
    let mut answers = vec![false; hashes.len()];
    block.may_contain_batch(hashes, &mut answers);
    assert!(answers.iter().all(|&answer| answer), "{what}, {} keys, batch", hashes.len());
    let step = 1 + hashes.len() / 20_000;
    assert!(hashes.iter().step_by(step).all(|&hash| block.may_contain_hash(hash)), "{what}, {} keys", hashes.len());
}

/// Tests the specs that are also in [`USUAL`] at every size. Tests the other specs at every size up
/// to 130, then at every 61st size. `FILTERBLOCK_SPARSE` thins out the sizes above 130.
#[test]
fn present_keys_are_found_at_every_size_up_to_4096() {
    for (i, spec) in (0..).zip(specs()) {
        let parsed: FilterSpec = spec.parse().unwrap();
        for n in 0..=4096u64 {
            let is_unusual = n % 61 != i % 61 && !USUAL.contains(&spec);
            if n > 130 && (is_unusual || n % sparse() != i % sparse()) {
                continue;
            }
            let hashes = hashes(n, i << 32 | n);
            if is_compact(parsed) {
                let hasher = KeyHasher::xxh3(HashSeed(0));
                let mut builder = FilterOptions::new(parsed).self_check(false).builder(&hasher).unwrap();
                hashes.iter().for_each(|&hash| builder.add_hash(hash));
                let compact = builder.finish_compact().unwrap();
                assert!(!compact.is_empty());
                assert!(
                    hashes.iter().all(|&hash| compact::ask(&compact, &hasher, hash) == Answer::Maybe),
                    "{spec}, {n} keys, compact"
                );
            }
            let bytes = build(parsed, &hashes);
            holds_all(&bytes, &hashes, spec);
            if n <= 130 || n % 8 == i % 8 {
                let block = FilterBlock::open_any(bytes.as_slice(), Verify::OnFirstTouch).unwrap();
                assert!(hashes.iter().all(|&hash| block.may_contain_hash(hash)), "{spec}, {n} keys, on first touch");
            }
        }
    }
}

/// Returns numbers of keys near which the form of a filter may change: powers of two, the
/// thresholds of the builder of bumped ribbons, and the ends of a range where the construction of
/// binary fuse filters often fails.
fn steps() -> impl Iterator<Item = u64> {
    (6..=16).map(|log2| 1 << log2).chain([1_500, 2_560, 9_728, 20_480, 11_480, 11_521, 60_000])
}

/// Returns two numbers of keys. Near the first number, the first layer of a bumped ribbon gets a
/// second shard of up to 65,536 slots. Near the second number, the layer gets a third shard. The
/// layer has `per_mille` slots per thousand keys.
fn borders(per_mille: u64) -> impl Iterator<Item = u64> {
    [65_536, 131_072].into_iter().map(move |slots| slots * 1_000 / per_mille)
}

#[test]
fn present_keys_are_found_around_every_step_of_size() {
    for spec in USUAL.into_iter().chain(["bumped-ribbon:fpr=0.00390625:compact", "bumped-ribbon:12.3"]) {
        let parsed: FilterSpec = spec.parse().unwrap();
        let has_borders = parsed.kind() == FilterKind::BumpedRibbon;
        let borders = [970, 960].into_iter().flat_map(borders).filter(|_| has_borders);
        for step in steps().chain(borders) {
            let seeds = match step {
                ..30_000 => 20,
                _ if has_borders => 8,
                _ => 5,
            };
            for seed in 0..(seeds / sparse()).max(1) {
                // The size differs from the step by at most 64 keys.
                let n = (step + 64).saturating_sub(seed * 37 % 128 + seed % 2).max(1);
                let hashes = hashes(n, step << 32 | seed);
                holds_all(&build(parsed, &hashes), &hashes, spec);
            }
        }
    }
}

/// Tests the sizes for which the published construction of binary fuse filters often fails.
#[test]
fn binary_fuse_filters_of_unfavourable_sizes_hold_all_keys() {
    for n in 11_480..=11_521 {
        for seed in 0..(20 / sparse()).max(1) {
            let hashes = hashes(n, seed);
            let bytes = build(blocks::spec("binary-fuse:8"), &hashes);
            holds_all(&bytes, &hashes, "binary-fuse:8");
            assert_eq!(FilterBlock::open_any(bytes, Verify::AtOpen).unwrap().metadata().kind, FilterKind::BinaryFuse);
        }
    }
}

/// A bumped ribbon of this many keys has several shards, which threads build.
#[test]
fn the_number_of_threads_changes_no_byte() {
    let hashes = hashes(200_000, 5);
    for kind in kinds_of_keys() {
        let options = FilterOptions::new(blocks::spec(&format!("{kind}:fpr=0.01"))).self_check(false);
        let [one, others @ ..] = [1, 2, 3, 8].map(|threads| {
            let options = options.clone().threads(NonZeroUsize::new(threads).unwrap());
            let mut builder = options.builder(HashSeed(0)).unwrap();
            hashes.iter().for_each(|&hash| builder.add_hash(hash));
            builder.finish().unwrap().bytes
        });
        assert!(others.iter().all(|other| *other == one), "{kind}");
        holds_all(&one, &hashes, &kind.to_string());
    }
}

#[test]
fn equal_hashes_count_once_and_are_found() {
    for spec in specs() {
        let parsed: FilterSpec = spec.parse().unwrap();
        for n in [1, 2, 64, 1_000, 5_000, 70_000] {
            let once = hashes(n, 3);
            // Each hash occurs twice, and the first ten occur a hundred more times in a row.
            let mut often = once.clone();
            often.extend_from_slice(&once);
            often.extend(once.iter().take(10).flat_map(|&hash| [hash; 100]));
            let bytes = build(parsed, &often);
            assert!(bytes == build(parsed, &once), "{spec}, {n} keys");
            holds_all(&bytes, &once, spec);
        }
        for raw in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let same = [KeyHash::from_raw(raw); 3_000];
            holds_all(&build(parsed, &same), &same, spec);
            assert!(build(parsed, &same) == build(parsed, &same[..1]), "{spec}");
        }
    }
}

/// Adds keys in order, backwards, with repeated neighbours, and with late repetitions.
#[test]
fn the_way_of_adding_keys_changes_no_byte() {
    for spec in specs() {
        let spec: FilterSpec = spec.parse().unwrap();
        for n in [1, 40, 1_000, 20_000, 70_000] {
            let keys: Vec<Vec<u8>> = (0..n).map(blocks::key).collect();
            let hashes: Vec<_> = keys.iter().map(|key| KeyHash::of(key, HashSeed(7))).collect();
            let options = FilterOptions::new(spec).self_check(false);
            let new = || options.builder(HashSeed(7)).unwrap();
            let threads = options.clone().threads(NonZeroUsize::new(3).unwrap());
            let mut by_key = new();
            keys.iter().for_each(|key| by_key.add(by_key.hasher().key(key)));
            let expected = by_key.finish().unwrap().bytes;
            holds_all(&expected, &hashes, &spec.to_string());
            let added = |hashes: &[KeyHash]| {
                let mut builder = threads.builder(HashSeed(7)).unwrap();
                builder.reserve(hashes.len());
                hashes.iter().for_each(|&hash| builder.add_hash(hash));
                builder
            };
            let versions: Vec<_> = hashes.iter().flat_map(|&hash| [hash; 3]).collect();
            let backwards: Vec<_> = hashes.iter().rev().copied().collect();
            // One key in 70 comes again much later.
            let late: Vec<_> = hashes.iter().chain(hashes.iter().step_by(70)).copied().collect();
            let mut checked = options.clone().self_check(true).builder(HashSeed(7)).unwrap();
            late.iter().for_each(|&hash| checked.add_hash(hash));
            for (what, builder) in [
                ("add_hash", added(&hashes)),
                ("versions", added(&versions)),
                ("backwards", added(&backwards)),
                ("late", added(&late)),
                ("self-check", checked),
            ] {
                assert!(builder.finish().unwrap().bytes == expected, "{spec}, {n} keys, {what}");
            }
            if is_compact(spec) {
                let compact = added(&hashes).finish_compact().unwrap();
                assert!(added(&late).finish_compact().unwrap() == compact, "{spec}, {n} keys, compact");
            }
        }
    }
}

#[test]
fn keys_of_every_length_and_byte_value_are_found() {
    let keys: Vec<Vec<u8>> = (0..=255).flat_map(|byte| (0..=64).map(move |len| vec![byte; len])).collect();
    for spec in specs() {
        let bytes = built(&FilterOptions::new(blocks::spec(spec)), HashSeed(7), &keys);
        let block = FilterBlock::open_any(bytes, Verify::AtOpen).unwrap();
        assert!(keys.iter().all(|key| block.may_contain(block.hasher().key(key))), "{spec}");
    }
}

#[test]
fn batches_of_every_length_agree_with_single_queries() {
    for spec in specs() {
        let bytes = blocks::block(spec, 1_000);
        let hashes: Vec<_> = (0..65_600).map(blocks::hash).collect();
        for verify in BOTH {
            let block = FilterBlock::open_any(bytes.as_slice(), verify).unwrap();
            let singly: Vec<bool> = hashes.iter().map(|&hash| block.may_contain_hash(hash)).collect();
            for len in (0..100).chain([4_095, 4_096, 4_097, 65_536, 65_537]) {
                // Earlier values in the slice affect no answer, and values without a hash stay.
                for before in [false, true] {
                    let mut answers = vec![before; len + 40];
                    block.may_contain_batch(&hashes[..len], &mut answers);
                    assert!(answers[..len] == singly[..len], "{spec}, batch of {len}");
                    assert_eq!(answers[len..], [before; 40], "{spec}, batch of {len}");
                }
                let mut answers = vec![false; len];
                block.may_contain_batch(&hashes, &mut answers);
                assert!(answers == singly[..len], "{spec}, {len} answers");
            }
        }
    }
}
