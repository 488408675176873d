//! Tests the ribbon's construction and layout.
#![allow(clippy::cast_possible_truncation)]

use std::num::NonZeroUsize;

use super::*;
use crate::FilterSpec;
use crate::filters::build::Rounding;
use crate::hash::HashSeed;
use crate::simd::Portable;

fn hashes(n: u64, set: u64) -> Vec<KeyHash> {
    let seed = HashSeed(set.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n);
    let mut hashes: Vec<_> = (0..n).map(|i| KeyHash::of(&i.to_le_bytes(), seed)).collect();
    hashes.sort_unstable();
    hashes
}

fn encode(spec: FilterSpec, hashes: &[KeyHash]) -> crate::Result<(Header<'static>, Vec<u8>)> {
    let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };
    spec.encode(&mut hashes.to_vec(), effort)
}

#[test]
fn first_tries_mostly_succeed_within_five_per_cent_of_space() {
    let spec: FilterSpec = "ribbon:fpr=0.00390625".parse().unwrap();
    for (n, sets) in [(300, 60), (1_000, 60), (5_000, 30), (20_000, 10), (100_000, 4)] {
        let mut tries = 0;
        for set in 0..sets {
            let (header, payload) = encode(spec, &hashes(n, set)).unwrap();
            assert_eq!(header.kind, FilterKind::Ribbon);
            tries += u64::from(header.params[1]) + 1;
            // An FPR of 1/256 takes 8 bits per key, and rounding up takes at most one block of 128
            // slots.
            let least = (n * 8) as f64;
            assert!(payload.len() as f64 * 8.0 <= least * 1.05 + 1024.0, "{n} keys: {} bytes", payload.len());
        }
        assert!(tries <= sets + sets.div_ceil(4), "{n} keys: {tries} tries for {sets} sets");
    }
}

#[test]
fn crowded_hashes_get_the_fallback() {
    for text in ["ribbon:8", "ribbon:fpr=0.001", "ribbon:32", "ribbon:fpr=0.0000000003"] {
        let hashes: Vec<_> = (0..5_000).map(KeyHash::from_raw).collect();
        let spec: FilterSpec = text.parse().unwrap();
        let (header, payload) = encode(spec, &hashes).unwrap();
        // Blocked Bloom filters cannot reach an FPR of 0.0000000003.
        let is_too_low = spec.budget().rate.is_some_and(|rate| rate < 1e-9);
        assert_eq!(header.kind, if is_too_low { FilterKind::Bloom } else { FilterKind::BlockedBloom }, "{text}");
        // The fallback has the ribbon's expected FPR if it can reach this FPR. Otherwise it has the
        // ribbon's 32 bits per key.
        let layout = crate::filters::Params::new(&header, 5_000, payload.len() as u64).unwrap();
        let (rate, wanted) = (layout.expected_fpr(5_000, payload.len() as u64), spec.expected_fpr());
        let bits = payload.len() as f64 * 8.0 / 5_000.0;
        assert!(
            (0.9..1.01).contains(&(rate / wanted)) || (bits - 32.0).abs() < 0.1,
            "{text}: {rate} for {wanted}, {bits} bits"
        );
    }
}

#[test]
fn invalid_shapes_are_rejected() {
    let (header, payload) = encode("ribbon:7.5".parse().unwrap(), &hashes(1_000, 0)).unwrap();
    let (len, open) = (payload.len() as u64, |header: &Header<'_>, n, len| Ribbon::parse(header, n, len));
    assert!(open(&header, 1_000, len).is_ok());
    for (n, len) in [(0, len), (u64::MAX, len), (1_000, 0), (1_000, len - 1), (1_000, len - 16 * 9), (1_000, len * 2)] {
        assert!(open(&header, n, len).is_err(), "{n} keys in {len} bytes");
    }
    for params in [[0, 0, 0], [33, 0, 0], [8, 0, 1], [255, 255, 255], [1, 0, 0]] {
        assert!(open(&Header { params, ..header.clone() }, 1_000, len).is_err(), "{params:?}");
    }
    let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    for layers in [&[][..], &[0], &[9, 0], &[0x80], &most] {
        assert!(open(&Header { record: layers.into(), ..header.clone() }, 1_000, len).is_err(), "{layers:?}");
    }
}

#[test]
fn a_payload_too_short_for_its_layout_answers_maybe() {
    let (header, payload) = encode("ribbon:8".parse().unwrap(), &hashes(1_000, 0)).unwrap();
    let layout = Ribbon::parse(&header, 1_000, payload.len() as u64).unwrap();
    for hash in [0, 1 << 40, u64::MAX / 2, u64::MAX].map(KeyHash::from_raw) {
        assert!(Ribbon::may_contain(Portable, &layout, &[], 0, hash));
    }
}

#[test]
fn every_try_has_a_new_seed_and_every_second_more_slots() {
    for n in [1, 20_000, 1_000_000] {
        let tries: Vec<_> = layouts(Budget::of_millibits(8_000), n).collect();
        assert_eq!(tries.len(), 64);
        for (i, layout) in (0..).zip(&tries) {
            // The first try has 2.4 % spare slots, and 0.38 percentage points more for each full
            // doubling beyond 8,192 keys. Every second try adds 5/1024 of the number of keys.
            let spare = n * (240 + 38 * u64::from(n.ilog2()).saturating_sub(13)) / 10_000;
            let wanted = n + spare + n * (i / 2 * 5) / 1024;
            assert_eq!((u64::from(layout.seed), layout.blocks), (i, wanted.div_ceil(128)), "{n} keys");
        }
    }
}

#[test]
fn keys_of_the_last_start_are_distinguished() {
    let last = |i: u64| KeyHash::from_raw(u64::MAX - i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 48));
    let mut keys = hashes(3_000, 0);
    keys.extend((0..20).map(last));
    keys.sort_unstable();
    let (header, payload) = encode("ribbon:fpr=0.00390625".parse().unwrap(), &keys).unwrap();
    let layout = Ribbon::parse(&header, keys.len() as u64, payload.len() as u64).unwrap();
    let ask = |hash| Ribbon::may_contain(Portable, &layout, &payload, payload.len(), hash);
    assert!(keys.iter().all(|&hash| ask(hash)));
    let maybe = (20..10_000).map(last).filter(|&hash| ask(hash)).count();
    assert!((10..80).contains(&maybe), "{maybe} of 9,980");
}
