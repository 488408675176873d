//! Pins the bytes of ribbon, bumped ribbon and binary fuse filters by checksums.
#![allow(clippy::cast_possible_truncation, reason = "the tests use the low bits of random numbers")]

use std::num::NonZeroUsize;

use super::build::{Effort, Header, Rounding};
use crate::FilterSpec;
use crate::codec::Crc32;
use crate::hash::KeyHash;

fn random_hashes(n: usize, seed: u64) -> Vec<KeyHash> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        KeyHash::from_raw(z ^ (z >> 31))
    };
    std::iter::repeat_with(next).take(n).collect()
}

fn written(text: &str, mut hashes: Vec<KeyHash>) -> (Header<'static>, Vec<u8>) {
    hashes.sort_unstable();
    hashes.dedup();
    let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };
    text.parse::<FilterSpec>().unwrap().encode(&mut hashes, effort).unwrap()
}

fn assert_written(text: &str, sets: impl Iterator<Item = Vec<KeyHash>>, wanted: u32) {
    assert_eq!(checksum(text, sets), format!("{wanted:08x}"), "{text}");
}

fn checksum(text: &str, sets: impl Iterator<Item = Vec<KeyHash>>) -> String {
    let mut checksum = Crc32::new();
    for hashes in sets {
        let (header, payload) = written(text, hashes);
        checksum.update(&header.params);
        checksum.update(&header.record);
        checksum.update(&payload);
    }
    format!("{:08x}", checksum.finish())
}

#[test]
fn ribbon_bytes_stay_the_same() {
    for (text, wanted) in [
        ("ribbon:1", 0x9b95_c92b),
        ("ribbon:8", 0x6854_07ba),
        ("ribbon:7.3", 0x81dd_c6b7),
        ("ribbon:32", 0x33e0_5def),
        ("ribbon:fpr=0.00390625", 0x45ea_25dd),
        ("ribbon:fpr=0.003", 0x0beb_3cb8),
        ("ribbon:fpr=0.49", 0x4f21_ebc4),
        ("ribbon:fpr=0.9", 0x9b95_c92b),
    ] {
        let sizes = [1, 2, 100, 128, 129, 300, 3_000, 17_000, 40_000];
        assert_written(text, sizes.into_iter().map(|n| random_hashes(n, n as u64)), wanted);
    }
}

#[test]
fn binary_fuse_bytes_stay_the_same() {
    // The first seeds often fail for few keys, so every number of keys below 200 is tested.
    let sizes = || (1..200).chain([999, 1_000, 1_001, 5_000, 11_500, 40_000]);
    let of = |text| checksum(text, sizes().map(|n| random_hashes(n, n as u64)));
    assert_eq!(["binary-fuse:8", "binary-fuse:12", "binary-fuse:16"].map(of), ["4c7bc881", "796eb9b7", "cd509853"]);
}

#[test]
fn bumped_ribbon_bytes_stay_the_same() {
    let few = (1..70).chain([150, 1_000, 1_500]);
    let near_the_border = [
        1_501, 1_600, 2_000, 2_400, 2_560, 2_561, 2_700, 3_000, 3_333, 3_700, 4_096, 4_097, 4_500, 5_000, 6_000, 7_000,
        8_000, 9_000, 9_727,
    ];
    let many = [9_728, 10_000, 20_479, 20_480, 30_000, 59_999, 60_000, 140_000];
    let sizes = || few.clone().chain(near_the_border).chain(many);
    for (text, wanted) in [
        ("bumped-ribbon:1", 0x1045_167f),
        ("bumped-ribbon:8", 0x1e68_2641),
        ("bumped-ribbon:12.3", 0x82d5_0434),
        ("bumped-ribbon:fpr=0.00390625", 0xbf4b_b6fd),
        ("bumped-ribbon:fpr=0.003", 0x7968_866f),
        ("bumped-ribbon:8:compact", 0x0b60_24c8),
    ] {
        assert_written(text, sizes().map(|n| random_hashes(n, n as u64)), wanted);
    }
}

/// Covers builds that try several numbers of blocks.
#[test]
fn bumped_ribbon_bytes_of_a_few_thousand_keys_stay_the_same() {
    let sets = (2_561..4_096).step_by(47).map(|n| random_hashes(n, n as u64));
    assert_written("bumped-ribbon:8", sets, 0x130f_afc1);
}

#[test]
fn bumped_ribbon_bytes_of_crowded_hashes_stay_the_same() {
    // Returns random hashes, and a crowd of hashes below `at` that are `distance` apart.
    let crowded = |n: usize, crowd: u64, at: u64, distance: u64| {
        let crowd = (1..=crowd).map(move |i| KeyHash::from_raw(at - i * distance));
        random_hashes(n, 5).into_iter().chain(crowd).collect::<Vec<_>>()
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
    assert_written("bumped-ribbon:fpr=0.01", at_the_end.into_iter(), 0xb0d6_b32b);
    assert_written("bumped-ribbon:8", sets.into_iter(), 0xa24b_5f30);
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
        let (header, _) = written(text, random_hashes(n, n as u64));
        let mut record = crate::codec::Cursor::new(&header.record, 0);
        let numbers: Vec<_> = (0..3).map(|_| record.take_varint(crate::error::Field::Extension).unwrap()).collect();
        assert_eq!(numbers[1..], [0, slots], "{text}, {n} keys");
    }
}
