//! Tests every instruction set of this processor, and how one is selected.
#![allow(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "the tests use the low bits of random numbers"
)]

use super::*;

kernels! {
    /// One function for each primitive.
    struct Primitives[];
    |simd|

    fn line(line: &[u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool {
        simd.all_set_in_line(line, factor, multipliers, count)
    }

    fn lanes_of_32(block: &[u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool {
        simd.all_set_in_lanes_of_32(block, factor, multipliers)
    }

    fn lanes_of_64(block: &[u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool {
        simd.all_set_in_lanes_of_64(block, factor, multipliers)
    }

    fn set_line(line: &mut [u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool {
        simd.set_in_line(line, factor, multipliers, count)
    }

    fn set_lanes_of_32(block: &mut [u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool {
        simd.set_in_lanes_of_32(block, factor, multipliers)
    }

    fn set_lanes_of_64(block: &mut [u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool {
        simd.set_in_lanes_of_64(block, factor, multipliers)
    }

    fn parities_of_64(a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
        simd.parities_of_64(a, b, low, high)
    }

    fn substitute(state: &mut [u64; 8], steps: &[(u64, u8)]) {
        simd.substitute(state, steps.iter().copied());
    }

    fn select_zero_in_line(line: &[u8; 64], rank: u32) -> u32 {
        simd.select_zero_in_line(line, rank)
    }

    fn select(word: u64, rank: u32) -> u32 {
        simd.select(word, rank)
    }

    fn parities_of_128(a: &[[u8; 16]], b: &[[u8; 16]], masks: [u128; 2]) -> u32 {
        simd.parities_of_128(a, b, masks)
    }
}

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

#[test]
fn bit_tests_agree_on_every_instruction_set() {
    let (mut state, mut positives) = (11, [0; 3]);
    let portable = Primitives::new(Isa::PORTABLE);
    for round in 0..300 {
        for bytes in payloads(64, &mut state) {
            let line: &[u8; 64] = bytes.first_chunk().unwrap();
            let (block, multipliers) = (bytes.first_chunk().unwrap(), [0; 16].map(|_| splitmix(&mut state) as u32));
            let (factor, lanes) = (splitmix(&mut state) as u32, multipliers.first_chunk().unwrap());
            for count in 1..=16 {
                let expected = portable.line(line, factor, &multipliers, count);
                let of_32 = portable.lanes_of_32(block, factor, lanes);
                let of_64 = portable.lanes_of_64(line, factor, lanes);
                for isa in Isa::available() {
                    let (name, simd) = (isa.name(), Primitives::new(isa));
                    assert_eq!(simd.line(line, factor, &multipliers, count), expected, "{name}, {count}");
                    assert_eq!(simd.lanes_of_32(block, factor, lanes), of_32, "{name}, {round}");
                    assert_eq!(simd.lanes_of_64(line, factor, lanes), of_64, "{name}, {round}");
                }
                let found = [expected, of_32, of_64];
                positives.iter_mut().zip(found).for_each(|(positives, found)| *positives += usize::from(found));
            }
        }
    }
    let both_answers_occur = positives.iter().all(|positives| (2_000..25_000).contains(positives));
    assert!(both_answers_occur, "{positives:?} of 28,800 each");
}

#[test]
fn set_bits_are_the_tested_bits_on_every_instruction_set() {
    let (mut state, mut positives) = (13, [0; 3]);
    let portable = Primitives::new(Isa::PORTABLE);
    for _ in 0..100 {
        for bytes in payloads(64, &mut state) {
            let line: &[u8; 64] = bytes.first_chunk().unwrap();
            let block: &[u8; 32] = bytes.first_chunk().unwrap();
            let multipliers = [0; 16].map(|_| splitmix(&mut state) as u32);
            let (factor, lanes) = (splitmix(&mut state) as u32, multipliers.first_chunk().unwrap());
            let is_changed = |old: &[u8], new: &[u8], most: u32| {
                let changed: u32 = old.iter().zip(new).map(|(old, new)| (new ^ old).count_ones()).sum();
                assert!(
                    old.iter().zip(new).all(|(old, new)| old & !new == 0) && changed <= most,
                    "{changed} of {most}"
                );
                changed > 0
            };
            for isa in Isa::available() {
                let (name, simd) = (isa.name(), Primitives::new(isa));
                for count in 1..=16 {
                    let mut new = *line;
                    let before = simd.set_line(&mut new, factor, &multipliers, count);
                    assert_eq!(before, portable.line(line, factor, &multipliers, count), "{name}, {count}");
                    assert!(portable.line(&new, factor, &multipliers, count), "{name}, {count}");
                    assert_eq!(is_changed(line, &new, count), !before, "{name}, {count}");
                    positives[0] += usize::from(before);
                }
                let mut new = *block;
                let before = simd.set_lanes_of_32(&mut new, factor, lanes);
                assert_eq!(before, portable.lanes_of_32(block, factor, lanes), "{name}");
                assert!(portable.lanes_of_32(&new, factor, lanes), "{name}");
                assert_eq!(is_changed(block, &new, 8), !before, "{name}");
                positives[1] += usize::from(before);
                let mut new = *line;
                let before = simd.set_lanes_of_64(&mut new, factor, lanes);
                assert_eq!(before, portable.lanes_of_64(line, factor, lanes), "{name}");
                assert!(portable.lanes_of_64(&new, factor, lanes), "{name}");
                assert_eq!(is_changed(line, &new, 8), !before, "{name}");
                positives[2] += usize::from(before);
            }
        }
    }
    assert!(positives.iter().all(|&positives| positives >= 100), "{positives:?}");
}

#[test]
fn parities_of_64_bits_agree_on_every_instruction_set() {
    let (mut state, mut ones) = (5, 0);
    for _ in 0..300 {
        for bytes in payloads(128, &mut state) {
            let (a, b) = (bytes.first_chunk().unwrap(), bytes.last_chunk().unwrap());
            for masks in [[0, u64::MAX], [u64::MAX, 0], [splitmix(&mut state), splitmix(&mut state)]] {
                let [low, high] = masks;
                // The expected value is counted, so that the test also checks the portable code.
                let word = |bytes: &[u8; 64], j: usize| u64::from_le_bytes(*bytes[8 * j..].first_chunk().unwrap());
                let expected = (0..8).fold(0, |bits, j| {
                    let ones = (word(a, j) & low).count_ones() + (word(b, j) & high).count_ones();
                    bits | (ones & 1) << j
                });
                ones += expected.count_ones();
                for isa in Isa::available() {
                    let found = Primitives::new(isa).parities_of_64(a, b, low, high);
                    assert_eq!(found, expected, "{}", isa.name());
                }
            }
        }
    }
    assert!((5_000..30_000).contains(&ones), "{ones} of 43,200");
}

#[test]
fn substitution_agrees_on_every_instruction_set() {
    let mut state = 7;
    let steps: Vec<_> = (0..300).map(|_| (splitmix(&mut state) | 1, splitmix(&mut state) as u8)).collect();
    let start: [u64; 8] = std::array::from_fn(|_| splitmix(&mut state));
    for len in [0, 1, 2, 63, 64, 65, 300] {
        // The expected words are computed bit by bit, so that the test also checks the portable
        // code.
        let mut expected = start;
        for &(coefficients, bits) in &steps[..len] {
            for (j, word) in expected.iter_mut().enumerate() {
                *word <<= 1;
                *word |= u64::from(((*word & coefficients).count_ones() ^ u32::from(bits) >> j) & 1);
            }
        }
        for isa in Isa::available() {
            let mut found = start;
            Primitives::new(isa).substitute(&mut found, &steps[..len]);
            assert_eq!(found, expected, "{}, {len} steps", isa.name());
        }
    }
}

#[test]
fn parities_of_128_bits_agree_on_every_instruction_set() {
    let mut state = 3;
    let mut seen = 0;
    for words in 1..=32 {
        for bytes in payloads(2 * 16 * words, &mut state) {
            let (a, b) = bytes.as_chunks().0.split_at(words);
            for shift in [0, 1, 63, 64, 65, 127] {
                let coefficients = u128::from(splitmix(&mut state)) << 64 | u128::from(splitmix(&mut state)) | 1;
                let masks = [coefficients << shift, (coefficients >> 1) >> (127 - shift)];
                let expected = Primitives::new(Isa::PORTABLE).parities_of_128(a, b, masks);
                seen |= expected;
                for isa in Isa::available() {
                    let simd = Primitives::new(isa);
                    assert_eq!(simd.parities_of_128(a, b, masks), expected, "{words} words, {}", isa.name());
                    // Words that only one of the two slices has do not count.
                    let shorter = expected & !(1 << (words - 1));
                    assert_eq!(simd.parities_of_128(&a[1..], &b[1..], masks), expected >> 1, "{}", isa.name());
                    assert_eq!(simd.parities_of_128(a, &b[..words - 1], masks), shorter, "{}", isa.name());
                    assert_eq!(simd.parities_of_128(&a[..words - 1], b, masks), shorter, "{}", isa.name());
                }
            }
        }
    }
    assert_eq!(seen, u32::MAX);
}

#[test]
fn only_instruction_sets_of_the_processor_can_be_chosen() {
    const CHILD: &str = "FILTERBLOCK_TEST_WANTED";
    if let Ok(wanted) = std::env::var(CHILD) {
        // A second choice is refused, unless it is the same.
        let chosen = Isa::choose(&wanted).is_ok();
        assert!(chosen && Isa::choose(&wanted).is_ok() && Isa::detect().name() == wanted);
        let mut others = Isa::available().filter(|isa| isa.name() != wanted);
        return assert!(others.all(|isa| Isa::choose(isa.name()).is_err()));
    }
    let names: Vec<_> = Isa::available().map(Isa::name).collect();
    let known = ["portable", "avx2", "avx512", "neon"];
    assert!(names[0] == "portable" && names.iter().all(|name| known.contains(name)), "{names:?}");
    let name = "tests::only_instruction_sets_of_the_processor_can_be_chosen";
    for isa in names.iter().chain(&["unknown"]) {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let child = child.args(["--exact", name]).env_remove("FILTERBLOCK_ISA").env(CHILD, isa).output().unwrap();
        let printed = String::from_utf8_lossy(&child.stdout);
        assert_eq!(child.status.success(), names.contains(isa), "{isa}: {printed}");
    }
}

#[test]
fn select_finds_every_one_of_a_word() {
    let mut state = 5;
    let words = [0, 1, 1 << 63, u64::MAX, 0x8000_0000_0000_0001, 0xff00_ff00_ff00_ff00];
    let random = (0..2_000).map(|i| {
        let (one, other) = (splitmix(&mut state), splitmix(&mut state));
        [one, one & other, one | other][i % 3]
    });
    for word in words.into_iter().chain(random.collect::<Vec<_>>()) {
        let ones: Vec<u32> = (0..64).filter(|bit| word >> bit & 1 == 1).collect();
        for isa in Isa::available() {
            let kernel = Primitives::new(isa);
            for rank in 0..64 {
                let expected = ones.get(rank as usize).copied().unwrap_or(64);
                assert_eq!(kernel.select(word, rank), expected, "{}: {word:#x}, {rank}", isa.name());
            }
        }
    }
}

#[test]
fn select_finds_every_zero_of_a_line() {
    let mut state = 9;
    for round in 0..120 {
        let mut line = [0u8; 64];
        for byte in &mut line {
            let (one, other) = (splitmix(&mut state) as u8, splitmix(&mut state) as u8);
            *byte = [one, one & other, one | other, if round % 8 == 3 { 0xff } else { 0 }][round % 4];
        }
        let zeros: Vec<u32> = (0..512).filter(|bit| line[*bit as usize / 8] >> (bit % 8) & 1 == 0).collect();
        for isa in Isa::available() {
            let kernel = Primitives::new(isa);
            for rank in 0..513 {
                let expected = zeros.get(rank as usize).copied().unwrap_or(512);
                assert_eq!(kernel.select_zero_in_line(&line, rank), expected, "{}: {line:02x?}, {rank}", isa.name());
            }
        }
    }
}
