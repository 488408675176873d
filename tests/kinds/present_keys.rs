//! Tests the main guarantee: a filter never answers "absent" for a key that was added.

use filterblock::FilterOptions;
use std::num::NonZeroUsize;

use filterblock::{
    Answer, FilterBlock, FilterBuilder, FilterKind, FilterSpec, HashSeed, KeyHash, KeyHasher, Verify, compact,
};
use filterblock_testkit::blocks::{self, kinds_of_keys};
use filterblock_testkit::sparse;
use proptest::prelude::*;

const SPECS: [&str; 33] = [
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
    "ribbon:8",
    "ribbon:32",
    "ribbon:fpr=0.01",
    "ribbon:fpr=0.7",
    "bumped-ribbon:1",
    "bumped-ribbon:7.3",
    "bumped-ribbon:8",
    "bumped-ribbon:12.3",
    "bumped-ribbon:100",
    "bumped-ribbon:fpr=0.01",
    "bumped-ribbon:fpr=0.7",
    "bumped-ribbon:fpr=0.00390625:compact",
    "always-maybe",
];

/// Returns [`SPECS`], and one more for each kind that they leave out.
fn specs() -> Vec<&'static str> {
    let is_left_out = |kind: &FilterKind| !SPECS.iter().any(|spec| spec.starts_with(&format!("{kind}:")));
    let others = kinds_of_keys().filter(is_left_out).map(|kind| &*format!("{kind}:fpr=0.01").leak());
    SPECS.into_iter().chain(others).collect()
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

fn builder(spec: &str, keys: impl IntoIterator<Item = Vec<u8>>) -> FilterBuilder {
    let mut builder = FilterOptions::new(spec.parse::<FilterSpec>().unwrap()).builder(HashSeed(7)).unwrap();
    keys.into_iter().for_each(|key| builder.add(builder.hasher().key(&key)));
    builder
}

/// Asserts that a batch writes as many answers as the shorter of its two slices (hashes and
/// answers) has elements. Asserts that the batch leaves further answers unchanged.
#[test]
fn batches_write_only_the_requested_answers() {
    for spec in specs() {
        let mut builder = builder(spec, []);
        let hashes: Vec<_> = (1..=3_000u64).map(|i| KeyHash::from_raw(i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        hashes.iter().for_each(|&hash| builder.add_hash(hash));
        let block = FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap();
        for len in [0, 1, 7, 8, 9, 20, 31, 32, 33, 50, 63, 64, 65] {
            for (before, spare) in [(false, 40), (true, 40), (false, 0), (true, 0)] {
                let mut answers = vec![before; len + spare];
                block.may_contain_batch(&hashes[..len], &mut answers);
                assert!(answers[..len].iter().all(|&answer| answer), "{spec}, {len} keys");
                assert!(answers[len..].iter().all(|&answer| answer == before), "{spec}, {len} keys");
            }
            let mut answers = vec![false; len];
            block.may_contain_batch(&hashes, &mut answers);
            assert!(answers.iter().all(|&answer| answer), "{spec}, {len} answers");
            // For absent keys, the previous values in `answers` must not affect any answer.
            let absent: Vec<_> =
                (0..len as u64).map(|i| KeyHash::from_raw(!i.wrapping_mul(0xd1b5_4a32_d192_ed03))).collect();
            let mut answers = vec![true; len + 40];
            block.may_contain_batch(&absent, &mut answers);
            assert!(answers[len..].iter().all(|&answer| answer), "{spec}, {len} absent keys");
            assert!(
                absent.iter().zip(&answers).all(|(&hash, &answer)| answer == block.may_contain_hash(hash)),
                "{spec}"
            );
        }
    }
}

/// Returns `n` random hashes. Each value of `filter` gives different hashes.
fn hashes(n: u64, filter: u64) -> Vec<KeyHash> {
    let mut state = (filter + 1).wrapping_mul(0xd134_2543_de82_ef95);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        KeyHash::from_raw((z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb))
    };
    (0..n).map(|_| next()).collect()
}

fn build(spec: FilterSpec, hashes: &[KeyHash], threads: usize) -> Vec<u8> {
    // The self-check is off, because it would detect false negatives before this test does.
    let mut builder = FilterOptions::new(spec)
        .self_check(false)
        .threads(NonZeroUsize::new(threads).unwrap())
        .builder(HashSeed(0))
        .unwrap();
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
/// to 130, then at every 23rd size. `FILTERBLOCK_SPARSE` thins out the sizes above 130.
#[test]
fn present_keys_are_found_at_every_size_up_to_4096() {
    for (i, spec) in (0..).zip(specs()) {
        let parsed: FilterSpec = spec.parse().unwrap();
        for n in 0..=4096u64 {
            let is_unusual = n % 23 != i % 23 && !USUAL.contains(&spec);
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
            let bytes = build(parsed, &hashes, 1);
            holds_all(&bytes, &hashes, spec);
            let block = FilterBlock::open_any(bytes.as_slice(), Verify::OnFirstTouch).unwrap();
            assert!(hashes.iter().all(|&hash| block.may_contain_hash(hash)), "{spec}, {n} keys, on first touch");
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

/// Tests filters of different sizes around each step, and binary fuse filters of sizes for which
/// the published construction often fails.
#[test]
fn present_keys_are_found_around_every_step_of_size() {
    for spec in USUAL.into_iter().chain(["bumped-ribbon:fpr=0.00390625:compact", "bumped-ribbon:12.3"]) {
        let parsed: FilterSpec = spec.parse().unwrap();
        let has_borders = parsed.kind() == FilterKind::BumpedRibbon;
        let borders = [970, 960].into_iter().flat_map(borders).filter(|_| has_borders);
        for step in steps().chain(borders) {
            let seeds = if has_borders || step < 30_000 { 20 } else { 5 };
            for seed in 0..(seeds / sparse()).max(1) {
                // The size differs from the step by at most 64 keys.
                let n = (step + 64).saturating_sub(seed * 27 % 128 + seed % 2).max(1);
                let hashes = hashes(n, step << 32 | seed);
                holds_all(&build(parsed, &hashes, 1), &hashes, spec);
            }
        }
    }
    for n in 11_480..=11_521 {
        for seed in 0..(20 / sparse()).max(1) {
            let hashes = hashes(n, seed);
            let bytes = build("binary-fuse:8".parse().unwrap(), &hashes, 1);
            holds_all(&bytes, &hashes, "binary-fuse:8");
            assert_eq!(FilterBlock::open_any(bytes, Verify::AtOpen).unwrap().metadata().kind, FilterKind::BinaryFuse);
        }
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
            let bytes = build(parsed, &often, 1);
            assert!(bytes == build(parsed, &once, 1), "{spec}, {n} keys");
            holds_all(&bytes, &once, spec);
        }
        let same = [KeyHash::from_raw(0x0123_4567_89ab_cdef); 3_000];
        holds_all(&build(parsed, &same, 1), &same, spec);
        for raw in [0, 1, u64::MAX] {
            let edge = [KeyHash::from_raw(raw)];
            holds_all(&build(parsed, &edge, 1), &edge, spec);
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
fn the_number_of_threads_changes_no_byte() {
    for spec in specs() {
        let parsed: FilterSpec = spec.parse().unwrap();
        let sizes = if spec.starts_with("bumped") { [500, 20_000, 70_000, 300_000].as_slice() } else { &[500, 70_000] };
        for &n in sizes {
            let hashes = hashes(n, 5);
            let one = build(parsed, &hashes, 1);
            for threads in [2, 5] {
                assert!(build(parsed, &hashes, threads) == one, "{spec}, {n} keys, {threads} threads");
            }
            holds_all(&one, &hashes, spec);
        }
    }
}

#[test]
fn keys_of_every_length_and_byte_value_are_found() {
    let keys: Vec<Vec<u8>> = (0..=255).flat_map(|byte| (0..=64).map(move |len| vec![byte; len])).collect();
    for spec in specs() {
        let block = FilterBlock::open_any(builder(spec, keys.clone()).finish().unwrap().bytes, Verify::AtOpen).unwrap();
        assert!(keys.iter().all(|key| block.may_contain(block.hasher().key(key))), "{spec}");
    }
}

#[test]
fn batches_of_every_length_agree_with_single_queries() {
    for spec in specs() {
        let bytes = builder(spec, (0..1000u32).map(|i| i.to_string().into_bytes())).finish().unwrap().bytes;
        let hashes: Vec<_> = (0..70_000u32).map(|i| KeyHash::of(i.to_string().as_bytes(), HashSeed(7))).collect();
        for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
            let block = FilterBlock::open_any(bytes.as_slice(), verify).unwrap();
            let singly: Vec<bool> = hashes.iter().map(|&hash| block.may_contain_hash(hash)).collect();
            for len in (0..100).chain([4_095, 4_096, 4_097, 65_535, 65_536, 65_537, 70_000]) {
                let mut answers = vec![false; len];
                block.may_contain_batch(&hashes[..len], &mut answers);
                assert_eq!(answers, singly[..len], "{spec}, batch of {len}");
            }
        }
    }
}

#[test]
fn a_key_added_a_million_times_counts_once() {
    let bytes = builder("blocked-bloom:10", (0..1_000_000).map(|_| b"same".to_vec())).finish().unwrap().bytes;
    let block = FilterBlock::open_any(bytes, Verify::AtOpen).unwrap();
    assert_eq!(block.metadata().num_keys, 1);
    assert!(block.may_contain(block.hasher().key(b"same")));
}

/// Bytes that become fewer while the block is open, like a file that is truncated.
struct Shrinking<'a>(&'a [u8], &'a std::cell::Cell<usize>);

impl AsRef<[u8]> for Shrinking<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.0[..self.1.get().min(self.0.len())]
    }
}

#[test]
fn bytes_lost_after_open_hide_no_present_key() {
    for spec in specs() {
        let bytes = builder(spec, (0..3000u32).map(|i| i.to_string().into_bytes())).finish().unwrap().bytes;
        let hashes: Vec<_> = (0..3000u32).map(|i| KeyHash::of(i.to_string().as_bytes(), HashSeed(7))).collect();
        for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
            let len = std::cell::Cell::new(usize::MAX);
            let block = FilterBlock::open_any(Shrinking(&bytes, &len), verify).unwrap();
            for left in [0, 1, 63, 64, 128, 1000, bytes.len() / 2, bytes.len().saturating_sub(100)] {
                len.set(left);
                let mut answers = vec![false; hashes.len()];
                block.may_contain_batch(&hashes, &mut answers);
                for (&hash, batched) in hashes.iter().zip(answers) {
                    let what = format!("{spec}, {verify:?}, {left} bytes");
                    assert_eq!([block.may_contain_hash(hash), batched], [true; 2], "{what}");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_order_of_keys_gives_the_same_bytes(
        keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..200),
        spec in prop::sample::select(specs()),
        rotation in any::<prop::sample::Index>(),
    ) {
        let bytes = builder(spec, keys.clone()).finish().unwrap().bytes;
        let block = FilterBlock::open_any(bytes.as_slice(), Verify::AtOpen).unwrap();
        for key in &keys {
            prop_assert!(block.may_contain(block.hasher().key(key)));
        }
        let mut other = keys.clone();
        if !other.is_empty() {
            other.rotate_left(rotation.index(keys.len()));
            other.extend_from_slice(&keys);
        }
        prop_assert_eq!(builder(spec, other).finish().unwrap().bytes, bytes);
    }
}

#[test]
fn builders_leave_the_given_keys_unchanged() {
    // A build sorts, moves and remixes only its own hashes.
    for spec in ["blocked-bloom:10", "bumped-ribbon:8", "bumped-ribbon:fpr=0.01", "binary-fuse:8", "ribbon:8"] {
        let keys: Vec<Vec<u8>> = (0..20_000).map(blocks::key).collect();
        let before = keys.clone();
        let build = |keys: &[Vec<u8>]| {
            let mut builder = FilterOptions::new(spec.parse::<FilterSpec>().unwrap()).builder(HashSeed(7)).unwrap();
            keys.iter().for_each(|key| builder.add(builder.hasher().key(key)));
            builder.finish().unwrap().bytes
        };
        assert!(build(&keys) == build(&keys), "{spec}");
        assert!(keys == before, "{spec}");
    }
}
