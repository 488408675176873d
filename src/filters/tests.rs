//! Tests every filter: its bytes, its kernels, and the bytes that an "absent" rests on.
#![allow(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "the tests use the low bits of random numbers"
)]

use std::cell::RefCell;
use std::num::NonZeroUsize;

use filterblock_testkit::Random;

use super::blocked_bloom::{LINE_LEN_BYTES, MULTIPLIERS};
use super::kernels::BatchKernel;
use super::*;
use crate::FilterSpec;
use crate::codec::{Crc32, Cursor};
use crate::hash::HashSeed;
use crate::simd::RESIDENT_LEN_BYTES;

/// The settings of a build for a filter block, in one thread.
pub(super) const EFFORT: Effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };

/// Returns distinct random hashes in ascending order.
pub(super) fn random_hashes(n: usize, seed: u64) -> Vec<KeyHash> {
    let mut random = Random(seed);
    sorted((0..n).map(|_| KeyHash::from_raw(random.next())).collect())
}

/// Returns the hashes of `n` keys in ascending order. Each `set` has other hashes.
pub(super) fn hashes_of_set(n: u64, set: u64) -> Vec<KeyHash> {
    let seed = HashSeed(set.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n);
    sorted((0..n).map(|i| KeyHash::of(&i.to_le_bytes(), seed)).collect())
}

fn sorted(mut hashes: Vec<KeyHash>) -> Vec<KeyHash> {
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// A filter as a reader has it.
pub(super) struct Built {
    pub(super) header: Header<'static>,
    pub(super) params: Params,
    /// The payload and 64 bytes after it.
    pub(super) padded: Vec<u8>,
    pub(super) len: usize,
}

impl Built {
    pub(super) fn new(spec: &str, hashes: &[KeyHash]) -> Self {
        let (header, payload) = encode(spec, hashes);
        Self::of(header, payload, hashes.len())
    }

    pub(super) fn of(header: Header<'static>, mut padded: Vec<u8>, num_keys: usize) -> Self {
        let len = padded.len();
        let params = Params::new(&header, num_keys as u64, len as u64).unwrap();
        padded.resize(len + 64, 0xa5);
        Self { header, params, padded, len }
    }

    pub(super) fn may_contain(&self, isa: Isa, hash: KeyHash) -> bool {
        self.params.compile::<Kernel>(isa).may_contain(&self.params, &self.padded, self.len, hash)
    }

    /// Asks for many keys in one call.
    pub(super) fn answers(&self, isa: Isa, hashes: &[KeyHash]) -> Vec<bool> {
        let mut answers = vec![false; hashes.len()];
        ask_batch(isa, &self.params, &self.padded, self.len, hashes, &mut answers);
        answers
    }

    /// Asserts that each instruction set finds the keys one by one and as a batch.
    pub(super) fn assert_finds(&self, hashes: &[KeyHash], what: &str) {
        for isa in Isa::available() {
            assert!(hashes.iter().all(|&hash| self.may_contain(isa, hash)), "{what}, {}", isa.name());
            assert!(self.answers(isa, hashes).into_iter().all(|answer| answer), "{what}, {}, as a batch", isa.name());
        }
    }
}

/// Builds the filter of distinct hashes in ascending order.
pub(super) fn encode(spec: &str, hashes: &[KeyHash]) -> (Header<'static>, Vec<u8>) {
    let mut given = hashes.to_vec();
    let built = spec.parse::<FilterSpec>().unwrap().encode(&mut given, EFFORT).unwrap();
    assert!(sorted(given) == hashes, "encode must keep the set of hashes");
    built
}

#[test]
fn bumped_ribbon_bytes_of_crowded_hashes_stay_the_same() {
    // Returns random hashes, and a crowd of hashes below `at` that are `distance` apart.
    let crowded = |n: usize, crowd: u64, at: u64, distance: u64| {
        let crowd = (1..=crowd).map(move |i| KeyHash::from_raw(at - i * distance));
        sorted(random_hashes(n, 5).into_iter().chain(crowd).collect())
    };
    let sets = [
        // The crowd lies near the end of the first of two shards.
        crowded(68_500, 1_500, 1 << 63, 1 << 46),
        // All crowded keys have the same start, so most of them are bumped to another layer.
        crowded(4_500, 5_500, 1 << 62, 1 << 20),
        crowded(9_000, 1_000, u64::MAX, 1 << 40),
    ];
    // The crowds lie near the border between the two shards.
    let end = ((263 * 128 + 24u128) << 64) / 67_241;
    let at_the_end = [50, 70, 90, 110, 125].map(|crowd| crowded(69_900, crowd, end as u64, 1 << 46));
    for (text, sets, wanted) in
        [("bumped-ribbon:fpr=0.01", &at_the_end[..], 0xb0d6_b32b), ("bumped-ribbon:8", &sets, 0xa24b_5f30)]
    {
        let mut checksum = Crc32::new();
        for hashes in sets {
            let (header, payload) = encode(text, hashes);
            checksum.update(&header.params);
            checksum.update(&header.record);
            checksum.update(&payload);
        }
        assert_eq!(checksum.finish(), wanted, "{text}");
    }
}

#[test]
fn the_last_4096_keys_are_one_system() {
    // With these numbers of keys, the first layer bumps exactly 4,096 keys. One more bumped key
    // would need another layer.
    for (text, n, slots) in [
        ("bumped-ribbon:8", 99_365, 4_137),
        ("bumped-ribbon:8", 99_813, 4_137),
        ("bumped-ribbon:8:compact", 57_693, 4_137),
    ] {
        let (header, _) = encode(text, &random_hashes(n, n as u64));
        let mut record = Cursor::new(&header.record, 0);
        let numbers: Vec<_> = (0..3).map(|_| record.take_varint(Field::Extension).unwrap()).collect();
        assert_eq!(numbers[1..], [0, slots], "{text}, {n} keys");
    }
}

/// Makes six payloads, from all ones to all zeros. OR and AND of random words change the density.
fn payloads(len: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let mut payload = |byte: fn(&mut Random) -> u64| (0..len).map(|_| byte(random) as u8).collect();
    vec![
        payload(|_| 0xff),
        payload(|random| random.next() | random.next() | random.next()),
        payload(|random| random.next() | random.next()),
        payload(Random::next),
        payload(|random| random.next() & random.next()),
        payload(|_| 0),
    ]
}

/// Runs the single query of an instruction set.
fn ask(isa: Isa, params: &Params, payload: &[u8], hash: KeyHash) -> bool {
    params.compile::<Kernel>(isa).may_contain(params, payload, payload.len(), hash)
}

/// Runs the batch query of an instruction set.
fn ask_batch(isa: Isa, params: &Params, padded: &[u8], len: usize, hashes: &[KeyHash], answers: &mut [bool]) {
    params.compile::<BatchKernel>(isa).may_contain_batch(params, padded, len, hashes, answers);
}

/// Asserts that the single query and the batch query of each instruction set give the answers of
/// the portable single query. Returns the number of "maybe" answers.
fn compare(
    what: &str,
    random: &mut Random,
    one: impl Fn(Isa, KeyHash) -> bool,
    many: impl Fn(Isa, &[KeyHash], &mut [bool]),
) -> usize {
    // The last hashes fall at the very end of the payload, where a kernel could read too far.
    let hashes: Vec<_> =
        (0..67).map(|i| KeyHash::from_raw(random.next() | if i > 50 { 0xffff_fff0_0000_0000 } else { 0 })).collect();
    let expected: Vec<bool> = hashes.iter().map(|&hash| one(Isa::PORTABLE, hash)).collect();
    for isa in Isa::available() {
        let singly: Vec<bool> = hashes.iter().map(|&hash| one(isa, hash)).collect();
        assert_eq!(singly, expected, "{what}, {}", isa.name());
        for len in [hashes.len(), 33, 32, 31, 1, 0] {
            let mut answers = vec![false; len];
            many(isa, &hashes, &mut answers);
            assert_eq!(answers, expected[..len], "{what}, {}, batch of {len}", isa.name());
        }
    }
    expected.iter().filter(|&&answer| answer).count()
}

#[test]
fn every_kernel_agrees_with_the_portable_one_for_lines_and_blocks() {
    let mut random = Random(1);
    let mut positives = 0;
    let lines: Vec<_> = (1..=16).map(Params::BlockedBloom).collect();
    let [blocks, blocks_512] = [Params::SplitBlock(()), Params::SplitBlock512(())].map(|params| vec![params; 8]);
    for (block_len, of_len) in [(LINE_LEN_BYTES, lines), (32, blocks), (64, blocks_512)] {
        for blocks in [1usize, 2, 3, 7, RESIDENT_LEN_BYTES / block_len + 1] {
            for payload in payloads(blocks * block_len, &mut random) {
                for params in &of_len {
                    positives += compare(
                        &format!("{blocks} blocks, {params:?}"),
                        &mut random,
                        |isa, hash| ask(isa, params, &payload, hash),
                        |isa, hashes, answers| ask_batch(isa, params, &payload, payload.len(), hashes, answers),
                    );
                }
            }
        }
    }
    assert!(positives > 7_000, "too few positives for the comparison: {positives}");
}

#[test]
fn a_payload_shorter_than_a_line_answers_maybe_in_every_kernel() {
    for isa in Isa::available() {
        for len in [0, 1, 32, 63] {
            let (payload, hash) = (vec![0; len], KeyHash::from_raw(u64::MAX));
            let maybe = |params: &Params| {
                let mut answers = [false];
                ask_batch(isa, params, &payload, len, &[hash], &mut answers);
                ask(isa, params, &payload, hash) && answers[0]
            };
            assert!(maybe(&Params::BlockedBloom(6)), "{}", isa.name());
            assert!(maybe(&Params::SplitBlock512(())), "{}", isa.name());
            assert!(len >= 32 || maybe(&Params::SplitBlock(())), "{}", isa.name());
        }
    }
}

#[test]
fn multipliers_come_from_the_named_generator() {
    let mut random = Random(0xf11_7e7b_10c5);
    random.next();
    random.next();
    for multiplier in MULTIPLIERS {
        assert_eq!(multiplier, (random.next() >> 32) as u32 | 1);
    }
}

#[test]
fn every_kernel_agrees_with_the_portable_one_for_built_filters() {
    let mut positives = 0;
    for spec in
        ["bloom:9", "blocked-bloom:3", "blocked-bloom:10", "blocked-bloom:30", "split-block:7", "split-block-512:7"]
            .into_iter()
            .chain(["ribbon:5", "bumped-ribbon:3", "bumped-ribbon:8", "bumped-ribbon:9.5", "bumped-ribbon:20"])
            .chain(["binary-fuse:8", "binary-fuse:12", "binary-fuse:16", "always-maybe"])
    {
        for num_keys in [0, 1, 60, 1_000, 9_000] {
            let hashes = random_hashes(num_keys, 9);
            let absent = random_hashes(500, 99);
            let built = Built::new(spec, &hashes);
            let Built { params, padded, len, .. } = &built;
            built.assert_finds(&hashes, spec);
            for isa in Isa::available() {
                for &hash in hashes.iter().chain(&absent) {
                    let answer = built.may_contain(isa, hash);
                    assert_eq!(answer, built.may_contain(Isa::PORTABLE, hash), "{spec}, {}", isa.name());
                    positives += usize::from(answer);
                }
                // With the parameters of another kind, a kernel must not deny a present key either.
                let (kernel, batch) = (params.compile::<Kernel>(isa), params.compile::<BatchKernel>(isa));
                let other = Params::AlwaysMaybe(());
                assert!(hashes.iter().all(|&hash| kernel.may_contain(&other, padded, *len, hash)), "{spec}");
                let mut answers = vec![false; hashes.len()];
                batch.may_contain_batch(&other, padded, *len, &hashes, &mut answers);
                assert!(answers.iter().all(|&answer| answer), "{spec}, {}", isa.name());
                // If the payload is cut, the answers may be wrong, but the queries must not panic.
                for len in [0, len / 2] {
                    hashes.iter().for_each(|&hash| _ = kernel.may_contain(params, &padded[..len], len, hash));
                    batch.may_contain_batch(params, &padded[..len], len, &hashes, &mut answers);
                }
            }
        }
    }
    assert!(positives > 10_000);
}

#[test]
fn batches_of_filters_beyond_the_cache_equal_single_queries() {
    for (spec, num_keys) in [("binary-fuse:16", 1_000_000), ("bumped-ribbon:16", 1_100_000), ("bloom:10", 0)] {
        let hashes = random_hashes(num_keys, 11);
        let built = Built::new(spec, &hashes);
        assert!(num_keys == 0 || built.len > RESIDENT_LEN_BYTES, "{spec}: {}", built.len);
        let asked: Vec<_> = hashes.iter().step_by(50).copied().chain(random_hashes(5_000, 111)).collect();
        for isa in Isa::available() {
            let answers = built.answers(isa, &asked);
            let singly: Vec<_> = asked.iter().map(|&hash| built.may_contain(isa, hash)).collect();
            assert!(answers == singly, "{spec}, {}", isa.name());
            assert!(answers[..hashes.len().div_ceil(50)].iter().all(|&answer| answer), "{spec}, {}", isa.name());
            assert!(answers.iter().filter(|&&answer| !answer).count() > 4_900, "{spec}, {}", isa.name());
        }
    }
}

#[test]
fn filters_without_bits_answer_for_valid_and_other_bytes() {
    for (params, answer) in [(Params::Empty(()), false), (Params::AlwaysMaybe(()), true)] {
        let view = FilterView::new(&params, Kernel::of(&params), &[], 0);
        let hash = KeyHash::from_raw(7);
        // The code of a filter denies nothing for the parameters of another filter.
        let of_other = FilterView::new(&Params::AlwaysMaybe(()), Kernel::of(&params), &[], 0);
        assert!(of_other.may_contain_hash(hash));
        assert_eq!((view.may_contain_hash(hash), view.may_contain_if_valid(hash, |_, _| true)), (answer, answer));
    }
}

/// An "absent" rests on the bytes that the filter names, and on no other byte.
#[test]
fn an_absence_stays_whatever_the_other_bytes_are() {
    let of_hashes = |kind: &FilterKind| kind.takes_budget() && !kind.info().is_of_ranges;
    for kind in FilterKind::ALL.into_iter().filter(of_hashes) {
        let info = kind.info();
        let budgets: Vec<f64> = match info.budgets {
            Budgets::Widths(widths) => widths.iter().copied().map(f64::from).collect(),
            _ => vec![1.0, info.example_bits, 12.3, 20.0, 32.0],
        };
        for (bits, keys) in budgets.iter().flat_map(|&bits| [1, 2, 60, 700, 5_000].map(|keys| (bits, keys))) {
            let what = format!("{kind}:{bits}, {keys} keys");
            let Built { params, padded, len, .. } = Built::new(&format!("{kind}:{bits}"), &random_hashes(keys, 1));
            let kernel = Kernel::of(&params);
            let mut num_absent = 0;
            for hash in random_hashes(4_000, 2) {
                if kernel.may_contain(&params, &padded, len, hash) || num_absent == 40 {
                    continue;
                }
                num_absent += 1;
                let named = RefCell::new(vec![false; len + 64]);
                let name = |at: usize, len: usize| {
                    named.borrow_mut()[at..at + len].fill(true);
                    true
                };
                assert!(params.is_proven(&padded, len, hash, name), "{what}");
                let named = named.into_inner();
                assert!(named.contains(&true), "{what}: no byte is named");
                for other in [0x00, 0xff, 0x5a] {
                    let changed = |(&byte, &is_named): (&u8, &bool)| if is_named { byte } else { byte ^ other };
                    let changed: Vec<u8> = padded.iter().zip(&named).map(changed).collect();
                    assert!(!kernel.may_contain(&params, &changed, len, hash), "{what}, {other:x}");
                }
                assert!(!params.is_proven(&padded, len, hash, |_, _| false), "{what}: no byte is valid");
            }
            assert!(num_absent > 0 || bits < 2.0, "{what}");
        }
    }
}

#[test]
fn parameters_are_printed() {
    for (text, keys, expected) in [
        ("always-maybe", 9, "0 bits tested per query; the other parameters are reserved"),
        ("bloom:1", 9_000, "1 bit tested per query; the other parameters are reserved"),
        ("split-block:9", 9, "8 bits tested per query; the other parameters are reserved"),
        ("binary-fuse:12", 1_000, "segments of 128 slots, 12 bits per slot, seed 0; 1408 slots"),
        ("ribbon:7.3", 1_000, "columns: 8, seed 0; 8 blocks of 128 slots, 7 with one column less"),
        (
            "bumped-ribbon:7.3",
            300,
            "columns: 8; 304 slots in the single system, seed 0, 3 of 4 whole blocks with one column less",
        ),
        (
            "bumped-ribbon:7.3",
            12_000,
            "columns: 8; layer 0: 182 blocks of 64 slots, 137 with one column less; 385 slots in the single \
             system, seed 0, 4 of 6 whole blocks with one column less",
        ),
    ] {
        let Built { params, .. } = Built::new(text, &random_hashes(keys, 1));
        assert_eq!(params.to_string(), expected, "{text}, {keys} keys");
    }
}
