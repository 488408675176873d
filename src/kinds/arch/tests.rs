//! Every kernel that this processor has, against the portable code.
#![allow(clippy::cast_possible_truncation, clippy::indexing_slicing, reason = "low bits of random numbers are meant")]

use std::num::NonZeroUsize;

use super::*;
use crate::FilterSpec;
use crate::kinds::blocked_bloom::MULTIPLIERS;
use crate::kinds::{Effort, FilterView, LINE_LEN_BYTES, Rounding};

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Bytes from nearly empty to full: and-ing or or-ing random words shifts the density.
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

/// Asks each level alone and in a batch, and expects the portable answers; gives the number of "maybe".
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
fn every_kernel_answers_as_the_portable_one_does_for_lines() {
    let mut state = 1;
    let mut positives = 0;
    for lines in [1usize, 2, 3, 7, RESIDENT_LEN_BYTES / LINE_LEN_BYTES + 1] {
        for payload in payloads(lines * LINE_LEN_BYTES, &mut state) {
            for probes in 1..=16 {
                positives += compare(
                    &format!("{lines} lines, {probes} probes"),
                    &mut state,
                    |isa, hash| line_may_contain(isa, &payload, probes, hash),
                    |isa, hashes, answers| lines_may_contain(isa, &payload, probes, hashes, answers),
                );
            }
        }
    }
    assert!(positives > 5_000, "the comparison must see both answers, saw {positives} positives");
}

#[test]
fn every_kernel_answers_as_the_portable_one_does_for_blocks() {
    let mut state = 2;
    let mut positives = 0;
    for lanes in [Lanes::Narrow, Lanes::Wide] {
        let block_len = lanes.block_len_bytes();
        for blocks in [1usize, 2, 3, 7, RESIDENT_LEN_BYTES / block_len + 1] {
            for payload in payloads(blocks * block_len, &mut state) {
                for _ in 0..8 {
                    positives += compare(
                        &format!("{blocks} blocks of {lanes:?} lanes"),
                        &mut state,
                        |isa, hash| block_may_contain(isa, lanes, &payload, hash),
                        |isa, hashes, answers| blocks_may_contain(isa, lanes, &payload, hashes, answers),
                    );
                }
            }
        }
    }
    assert!(positives > 2_000, "the comparison must see both answers, saw {positives} positives");
}

#[cfg(feature = "foreign")]
#[test]
fn every_kernel_takes_any_multipliers_as_the_portable_one_does() {
    let (mut state, mut positives) = (11, [0; 2]);
    for round in 0..300 {
        for bytes in payloads(LINE_LEN_BYTES, &mut state) {
            let line: &[u8; LINE_LEN_BYTES] = bytes.first_chunk().unwrap();
            let (block, multipliers) = (bytes.first_chunk().unwrap(), [0; 16].map(|_| splitmix(&mut state) as u32));
            let (folded, lanes) = (splitmix(&mut state) as u32, multipliers.first_chunk().unwrap());
            for probes in 1..=16 {
                let expected = products_in_line(Isa::PORTABLE, line, probes, folded, &multipliers);
                let of_block = products_in_block(Isa::PORTABLE, block, folded, lanes);
                for isa in Isa::available() {
                    let name = isa.name();
                    assert_eq!(products_in_line(isa, line, probes, folded, &multipliers), expected, "{name}, {probes}");
                    assert_eq!(products_in_block(isa, block, folded, lanes), of_block, "{name}, {round}");
                }
                positives = [positives[0] + usize::from(expected), positives[1] + usize::from(of_block)];
            }
        }
    }
    let tell_something = positives.iter().all(|positives| (2_000..25_000).contains(positives));
    assert!(tell_something, "{positives:?} of 28,800 each");
}

#[test]
fn every_kernel_gives_the_ribbon_bits_of_the_portable_one() {
    let mut state = 3;
    let mut seen = 0;
    for columns in 1..=32 {
        let blocks = payloads(2 * 16 * columns, &mut state);
        for block in &blocks {
            let (first, second) = block.split_at(16 * columns);
            for shift in [0, 1, 63, 64, 65, 127] {
                let coefficients = u128::from(splitmix(&mut state)) << 64 | u128::from(splitmix(&mut state)) | 1;
                let expected = ribbon::bits_portable(first, second, coefficients, shift);
                seen |= expected;
                for isa in Isa::available() {
                    let found = ribbon_bits(isa, first, second, coefficients, shift);
                    assert_eq!(found, expected, "{columns} columns, {}", isa.name());
                }
            }
        }
    }
    assert_eq!(seen, u32::MAX);
}

#[test]
fn a_payload_shorter_than_a_line_answers_maybe_in_every_kernel() {
    for isa in Isa::available() {
        for len in [0, 1, 32, 63] {
            let (payload, hash) = (vec![0; len], KeyHash::from_raw(u64::MAX));
            assert!(line_may_contain(isa, &payload, 6, hash), "{}", isa.name());
            assert!(block_may_contain(isa, Lanes::Wide, &payload, hash), "{}", isa.name());
            assert!(len >= 32 || block_may_contain(isa, Lanes::Narrow, &payload, hash), "{}", isa.name());
        }
    }
}

#[test]
fn the_constants_are_those_of_the_named_generator() {
    let mut state = 0xf11_7e7b_10c5;
    splitmix(&mut state);
    splitmix(&mut state);
    for multiplier in MULTIPLIERS {
        assert_eq!(multiplier, (splitmix(&mut state) >> 32) as u32 | 1);
    }
}

#[test]
fn a_filters_kernel_pointer_answers_as_the_portable_code_does() {
    let mut state = 9;
    let mut positives = 0;
    for spec in
        ["bloom:9", "blocked-bloom:3", "blocked-bloom:10", "blocked-bloom:30", "split-block:7", "split-block-512:7"]
            .into_iter()
            .chain(["ribbon:5", "bumped-ribbon:3", "bumped-ribbon:8", "bumped-ribbon:9.5", "bumped-ribbon:20"])
            .chain(["binary-fuse:8", "binary-fuse:12", "binary-fuse:16", "full"])
    {
        for num_keys in [0, 1, 60, 1_000, 9_000] {
            let mut hashes: Vec<_> = (0..num_keys).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect();
            hashes.sort_unstable();
            let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };
            let (shape, mut payload) = spec.parse::<FilterSpec>().unwrap().encode(&mut hashes, effort).unwrap();
            let len = payload.len();
            let geometry = Geometry::new(&shape, num_keys, len as u64).unwrap();
            payload.resize(len + 64, 0);
            let absent = (0..500).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect::<Vec<_>>();
            for isa in Isa::available() {
                let (pointer, portable) = (Ask::new(&geometry, isa), Ask::new(&geometry, Isa::PORTABLE));
                for &hash in hashes.iter().chain(&absent) {
                    let answer = pointer.may_contain(&geometry, &payload, len, hash);
                    assert_eq!(answer, portable.may_contain(&geometry, &payload, len, hash), "{spec}, {}", isa.name());
                    positives += usize::from(answer);
                }
                assert!(hashes.iter().all(|&hash| pointer.may_contain(&geometry, &payload, len, hash)), "{spec}");
                // For a geometry of another kind a pointer denies no key either.
                assert!(hashes.iter().all(|&hash| pointer.may_contain(&Geometry::Full, &payload, len, hash)), "{spec}");
                // Where the payload is cut, answers may be wrong, but nothing else.
                for len in [0, len / 2] {
                    hashes.iter().for_each(|&hash| _ = pointer.may_contain(&geometry, &payload[..len], len, hash));
                }
            }
        }
    }
    assert!(positives > 10_000);
}

#[test]
fn every_kernel_takes_bumped_ribbons_as_the_portable_one_does() {
    let mut state = 10;
    let mut positives = 0;
    for spec in ["bumped-ribbon:3", "bumped-ribbon:8", "bumped-ribbon:9.5", "bumped-ribbon:12.3"] {
        for num_keys in [60, 1_000, 9_000] {
            let mut hashes: Vec<_> = (0..num_keys).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect();
            hashes.sort_unstable();
            let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };
            let (shape, mut payload) = spec.parse::<FilterSpec>().unwrap().encode(&mut hashes, effort).unwrap();
            let ribbon = Ribbon::new(&shape, num_keys, payload.len() as u64).unwrap();
            payload.resize(payload.len() + 64, 0);
            for _ in 0..20 {
                positives += compare(
                    &format!("{spec}, {num_keys} keys"),
                    &mut state,
                    |isa, hash| ribbon_may_contain(isa, &ribbon, &payload, hash, ribbon.groups()),
                    |isa, hashes, answers| ribbon_may_contain_batch(isa, &ribbon, &payload, hashes, answers),
                );
            }
            for isa in Isa::available() {
                let mut answers = vec![false; hashes.len()];
                ribbon_may_contain_batch(isa, &ribbon, &payload, &hashes, &mut answers);
                assert!(answers.iter().all(|&answer| answer), "{spec}, {num_keys} keys, {}", isa.name());
                for &hash in &hashes {
                    assert!(
                        ribbon_may_contain(isa, &ribbon, &payload, hash, ribbon.groups()),
                        "{spec}, {}",
                        isa.name()
                    );
                }
            }
        }
    }
    assert!(positives > 100, "the comparison must see both answers, saw {positives} positives");
}

#[test]
fn the_environment_chooses_the_kernels_by_their_names() {
    const WANTED: &str = "FILTERBLOCK_TEST_WANTED";
    if let Ok(wanted) = std::env::var(WANTED) {
        return assert_eq!(Isa::detect().name(), wanted);
    }
    let names: Vec<_> = Isa::available().map(Isa::name).collect();
    let known = ["portable", "avx2", "avx512", "neon"];
    assert!(names[0] == "portable" && names.iter().all(|name| known.contains(name)), "{names:?}");
    let name = "kinds::arch::tests::the_environment_chooses_the_kernels_by_their_names";
    // A name that is not known leaves the best.
    for (wanted, isa) in names.iter().map(|name| (name, *name)).chain([(names.last().unwrap(), "unknown")]) {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let child = child.args(["--exact", name]).env("FILTERBLOCK_ISA", isa).env(WANTED, wanted).output().unwrap();
        assert!(child.status.success(), "{isa}: {}", String::from_utf8_lossy(&child.stdout));
    }
}

#[test]
fn batches_of_filters_beyond_the_cache_answer_as_single_queries() {
    let mut state = 11;
    for (spec, num_keys) in [("binary-fuse:16", 1_000_000), ("bumped-ribbon:16", 1_100_000), ("bloom:10", 0)] {
        let mut hashes: Vec<_> = (0..num_keys).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect();
        hashes.sort_unstable();
        let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };
        let (shape, mut payload) = spec.parse::<FilterSpec>().unwrap().encode(&mut hashes, effort).unwrap();
        let len = payload.len();
        assert!(num_keys == 0 || len > RESIDENT_LEN_BYTES, "{spec}: {len}");
        let geometry = Geometry::new(&shape, num_keys, len as u64).unwrap();
        payload.resize(len + 64, 0);
        let absent = (0..5_000).map(|_| KeyHash::from_raw(splitmix(&mut state)));
        let asked: Vec<_> = hashes.iter().step_by(50).copied().chain(absent).collect();
        for isa in Isa::available() {
            let view = FilterView::new(&geometry, Ask::new(&geometry, isa), isa, &payload, len);
            let mut answers = vec![false; asked.len()];
            view.may_contain_batch(&asked, &mut answers);
            let singly: Vec<_> = asked.iter().map(|&hash| view.may_contain_hash(hash)).collect();
            assert!(answers == singly, "{spec}, {}", isa.name());
            assert!(answers[..hashes.len().div_ceil(50)].iter().all(|&answer| answer), "{spec}, {}", isa.name());
            assert!(answers.iter().filter(|&&answer| !answer).count() > 4_900, "{spec}, {}", isa.name());
        }
    }
}
