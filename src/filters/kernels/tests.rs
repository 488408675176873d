//! Compares every kernel of this processor with the portable code, and batches with single queries.
#![allow(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "the tests use the low bits of random numbers"
)]

use std::num::NonZeroUsize;

use super::*;
use crate::FilterSpec;
use crate::filters::blocked_bloom::{LINE_LEN_BYTES, MULTIPLIERS};
use crate::filters::{Effort, Rounding};
use crate::simd::RESIDENT_LEN_BYTES;

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Makes six payloads, from all ones to all zeros. OR and AND of random words change the density.
fn payloads(len: usize, state: &mut u64) -> Vec<Vec<u8>> {
    let mut payload = |byte: fn(&mut u64) -> u64| (0..len).map(|_| byte(state) as u8).collect();
    vec![
        payload(|_| 0xff),
        payload(|state| splitmix(state) | splitmix(state) | splitmix(state)),
        payload(|state| splitmix(state) | splitmix(state)),
        payload(splitmix),
        payload(|state| splitmix(state) & splitmix(state)),
        payload(|_| 0),
    ]
}

/// Runs the single query of an instruction set.
fn ask(isa: Isa, params: &Params, payload: &[u8], hash: KeyHash) -> bool {
    params.compile::<Kernel>(isa).may_contain(params, payload, payload.len(), hash)
}

/// Runs the batch query of an instruction set.
fn ask_batch(isa: Isa, params: &Params, payload: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
    params.compile::<BatchKernel>(isa).may_contain_batch(params, payload, payload.len(), hashes, answers);
}

/// Asserts that the single query and the batch query of each instruction set give the answers of
/// the portable single query. Returns the number of "maybe" answers.
fn compare(
    what: &str,
    state: &mut u64,
    one: impl Fn(Isa, KeyHash) -> bool,
    many: impl Fn(Isa, &[KeyHash], &mut [bool]),
) -> usize {
    // The last hashes fall at the very end of the payload, where a kernel could read too far.
    let hashes: Vec<_> =
        (0..67).map(|i| KeyHash::from_raw(splitmix(state) | if i > 50 { 0xffff_fff0_0000_0000 } else { 0 })).collect();
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
fn every_kernel_agrees_with_the_portable_one_for_lines() {
    let mut state = 1;
    let mut positives = 0;
    for lines in [1usize, 2, 3, 7, RESIDENT_LEN_BYTES / LINE_LEN_BYTES + 1] {
        for payload in payloads(lines * LINE_LEN_BYTES, &mut state) {
            for probes in 1..=16 {
                let params = Params::BlockedBloom(probes);
                positives += compare(
                    &format!("{lines} lines, {probes} probes"),
                    &mut state,
                    |isa, hash| ask(isa, &params, &payload, hash),
                    |isa, hashes, answers| ask_batch(isa, &params, &payload, hashes, answers),
                );
            }
        }
    }
    assert!(positives > 5_000, "too few positives for the comparison: {positives}");
}

#[test]
fn every_kernel_agrees_with_the_portable_one_for_blocks() {
    let mut state = 2;
    let mut positives = 0;
    for (block_len, params) in [(32, Params::SplitBlock(())), (64, Params::SplitBlock512(()))] {
        for blocks in [1usize, 2, 3, 7, RESIDENT_LEN_BYTES / block_len + 1] {
            for payload in payloads(blocks * block_len, &mut state) {
                for _ in 0..8 {
                    positives += compare(
                        &format!("{blocks} blocks of {block_len} bytes"),
                        &mut state,
                        |isa, hash| ask(isa, &params, &payload, hash),
                        |isa, hashes, answers| ask_batch(isa, &params, &payload, hashes, answers),
                    );
                }
            }
        }
    }
    assert!(positives > 2_000, "too few positives for the comparison: {positives}");
}

#[test]
fn a_payload_shorter_than_a_line_answers_maybe_in_every_kernel() {
    for isa in Isa::available() {
        for len in [0, 1, 32, 63] {
            let (payload, hash) = (vec![0; len], KeyHash::from_raw(u64::MAX));
            let maybe = |params: &Params| {
                let mut answers = [false];
                ask_batch(isa, params, &payload, &[hash], &mut answers);
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
    let mut state = 0xf11_7e7b_10c5;
    splitmix(&mut state);
    splitmix(&mut state);
    for multiplier in MULTIPLIERS {
        assert_eq!(multiplier, (splitmix(&mut state) >> 32) as u32 | 1);
    }
}

#[test]
fn every_kernel_agrees_with_the_portable_one_for_built_filters() {
    let mut state = 9;
    let mut positives = 0;
    for spec in
        ["bloom:9", "blocked-bloom:3", "blocked-bloom:10", "blocked-bloom:30", "split-block:7", "split-block-512:7"]
            .into_iter()
            .chain(["ribbon:5", "bumped-ribbon:3", "bumped-ribbon:8", "bumped-ribbon:9.5", "bumped-ribbon:20"])
            .chain(["binary-fuse:8", "binary-fuse:12", "binary-fuse:16", "always-maybe"])
    {
        for num_keys in [0, 1, 60, 1_000, 9_000] {
            let mut hashes: Vec<_> = (0..num_keys).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect();
            hashes.sort_unstable();
            let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };
            let (header, mut payload) = spec.parse::<FilterSpec>().unwrap().encode(&mut hashes, effort).unwrap();
            let len = payload.len();
            let params = Params::new(&header, num_keys, len as u64).unwrap();
            payload.resize(len + 64, 0);
            let absent = (0..500).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect::<Vec<_>>();
            for isa in Isa::available() {
                let (pointer, portable) = (params.compile::<Kernel>(isa), params.compile::<Kernel>(Isa::PORTABLE));
                for &hash in hashes.iter().chain(&absent) {
                    let answer = pointer.may_contain(&params, &payload, len, hash);
                    assert_eq!(answer, portable.may_contain(&params, &payload, len, hash), "{spec}, {}", isa.name());
                    positives += usize::from(answer);
                }
                assert!(hashes.iter().all(|&hash| pointer.may_contain(&params, &payload, len, hash)), "{spec}");
                // With a params of another kind, a kernel must not deny a present key either.
                assert!(
                    hashes.iter().all(|&hash| pointer.may_contain(&Params::AlwaysMaybe(()), &payload, len, hash)),
                    "{spec}"
                );
                // The same holds for a batch.
                let (batch, mut answers) = (params.compile::<BatchKernel>(isa), vec![false; hashes.len()]);
                batch.may_contain_batch(&Params::AlwaysMaybe(()), &payload, len, &hashes, &mut answers);
                assert!(answers.iter().all(|&answer| answer), "{spec}, {}", isa.name());
                // If the payload is cut, the answers may be wrong, but the queries must not panic.
                for len in [0, len / 2] {
                    hashes.iter().for_each(|&hash| _ = pointer.may_contain(&params, &payload[..len], len, hash));
                    batch.may_contain_batch(&params, &payload[..len], len, &hashes, &mut answers);
                }
            }
        }
    }
    assert!(positives > 10_000);
}

#[test]
fn every_kernel_agrees_with_the_portable_one_for_bumped_ribbons() {
    let mut state = 10;
    let mut positives = 0;
    for spec in ["bumped-ribbon:3", "bumped-ribbon:8", "bumped-ribbon:9.5", "bumped-ribbon:12.3"] {
        for num_keys in [60, 1_000, 9_000] {
            let mut hashes: Vec<_> = (0..num_keys).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect();
            hashes.sort_unstable();
            let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };
            let (header, mut payload) = spec.parse::<FilterSpec>().unwrap().encode(&mut hashes, effort).unwrap();
            let params = Params::new(&header, num_keys, payload.len() as u64).unwrap();
            payload.resize(payload.len() + 64, 0);
            for _ in 0..20 {
                positives += compare(
                    &format!("{spec}, {num_keys} keys"),
                    &mut state,
                    |isa, hash| ask(isa, &params, &payload, hash),
                    |isa, hashes, answers| ask_batch(isa, &params, &payload, hashes, answers),
                );
            }
            for isa in Isa::available() {
                let mut answers = vec![false; hashes.len()];
                ask_batch(isa, &params, &payload, &hashes, &mut answers);
                assert!(answers.iter().all(|&answer| answer), "{spec}, {num_keys} keys, {}", isa.name());
                for &hash in &hashes {
                    assert!(ask(isa, &params, &payload, hash), "{spec}, {}", isa.name());
                }
            }
        }
    }
    assert!(positives > 100, "too few positives for the comparison: {positives}");
}

#[test]
fn batches_of_filters_beyond_the_cache_equal_single_queries() {
    let mut state = 11;
    for (spec, num_keys) in [("binary-fuse:16", 1_000_000), ("bumped-ribbon:16", 1_100_000), ("bloom:10", 0)] {
        let mut hashes: Vec<_> = (0..num_keys).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect();
        hashes.sort_unstable();
        let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };
        let (header, mut payload) = spec.parse::<FilterSpec>().unwrap().encode(&mut hashes, effort).unwrap();
        let len = payload.len();
        assert!(num_keys == 0 || len > RESIDENT_LEN_BYTES, "{spec}: {len}");
        let params = Params::new(&header, num_keys, len as u64).unwrap();
        payload.resize(len + 64, 0);
        let absent = (0..5_000).map(|_| KeyHash::from_raw(splitmix(&mut state)));
        let asked: Vec<_> = hashes.iter().step_by(50).copied().chain(absent).collect();
        for isa in Isa::available() {
            let (kernel, batch) = (params.compile::<Kernel>(isa), params.compile::<BatchKernel>(isa));
            let mut answers = vec![false; asked.len()];
            batch.may_contain_batch(&params, &payload, len, &asked, &mut answers);
            let singly: Vec<_> = asked.iter().map(|&hash| kernel.may_contain(&params, &payload, len, hash)).collect();
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
