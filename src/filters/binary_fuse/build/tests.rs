//! Tests the construction and the geometry of binary fuse filters.
#![allow(clippy::cast_possible_truncation, clippy::indexing_slicing)]

use std::num::NonZeroUsize;

use super::*;
use crate::FilterSpec;
use crate::filters::{Effort, FilterKind, Header, Kernel, Params, Rounding};
use crate::hash::HashSeed;

fn hashes(n: u64, set: u64) -> Vec<KeyHash> {
    let seed = HashSeed(set.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n);
    let mut hashes: Vec<_> = (0..n).map(|i| KeyHash::of(&i.to_le_bytes(), seed)).collect();
    hashes.sort_unstable();
    hashes
}

fn may_contain(geometry: Geometry, payload: &[u8], hash: KeyHash) -> bool {
    let geometry = Params::BinaryFuse(geometry);
    Kernel::of(&geometry).may_contain(&geometry, payload, payload.len(), hash)
}

/// Builds a filter and asserts that it finds every key. Returns the seed that succeeded.
fn seed_for(bits: u32, hashes: &[KeyHash]) -> u8 {
    let (geometry, payload) = build(Width::new(bits).unwrap(), hashes).unwrap().unwrap();
    assert!(hashes.iter().all(|&hash| may_contain(geometry, &payload, hash)));
    geometry.seed
}

/// The numbers of keys are from FastFilter/xor_singleheader, issue 77.
#[test]
fn construction_succeeds_where_published_parameters_fail() {
    let seeds: u32 =
        (11_480..=11_521).flat_map(|n| (0..20).map(move |set| u32::from(seed_for(8, &hashes(n, set))))).sum();
    assert!(seeds < 84, "{seeds} second tries in 840 constructions");
}

#[test]
fn construction_succeeds_where_segments_grow() {
    for step in SEGMENT_STEPS.into_iter().take_while(|&step| step < 130_000) {
        for n in step.saturating_sub(2).max(1)..=step + 2 {
            for set in 0..if n < 20_000 { 20 } else { 2 } {
                let seed = seed_for([8, 12, 16][set as usize % 3], &hashes(n, set));
                assert!(seed < MAX_SEEDS / 2, "{n} keys took seed {seed}");
            }
        }
    }
}

#[test]
fn construction_of_few_keys_succeeds() {
    for n in 1..=40 {
        for set in 0..200 {
            assert!(seed_for(8, &hashes(n, set)) < MAX_SEEDS / 2, "{n} keys");
        }
    }
}

#[test]
fn segment_steps_follow_the_published_rule() {
    for (log2, step) in (3..).zip(SEGMENT_STEPS) {
        let rule = |n: u64| ((n as f64).ln() / 3.33f64.ln() + 2.25).floor() as u32;
        assert_eq!((rule(step - 1), rule(step)), (log2 - 1, log2));
    }
    for n in [2u64, 10, 1_000, 50_000, 1_000_000] {
        let published = (0.875 + 0.25 * 1e6f64.ln() / (n as f64).ln()).max(1.125);
        let factor = slots_per_1024_keys(n) as f64 / 1024.0 / published;
        assert!((0.999..1.04).contains(&factor), "{n} keys: {factor}");
    }
}

const EFFORT: Effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };

#[test]
fn hashes_that_crowd_in_one_segment_get_the_fallback() {
    for n in [100u64, 5_000, 100_000] {
        let hashes: Vec<_> = (0..n).map(KeyHash::from_raw).collect();
        for bits in [8, 12, 16] {
            let spec = FilterSpec::bits_per_key(FilterKind::BinaryFuse, f64::from(bits)).unwrap();
            let (header, payload) = spec.encode(&mut hashes.clone(), EFFORT).unwrap();
            // A hundred hashes may fit into their segments, so the filter's kind is not checked.
            if n > 1_000 {
                assert_eq!(header.kind, FilterKind::BlockedBloom);
            }
            assert!(!payload.is_empty());
        }
    }
}

#[test]
fn invalid_shapes_are_rejected() {
    for (bits, len) in [(8u8, 96), (12, 144), (16, 192)] {
        let open = |params, layers: &[u8], n, len| {
            Geometry::new(&Header { kind: FilterKind::BinaryFuse, params, record: layers.into() }, n, len)
        };
        let geometry = open([5, bits, 7], &[], 96, len).unwrap();
        for (n, len) in [(0, len), (97, len), (u64::MAX, len), (1, 0), (1, len - 1), (1, len / 2), (1, len + 3)] {
            assert!(open([5, bits, 7], &[], n, len).is_err(), "{n} keys in {len} bytes of slots of {bits} bits");
        }
        for params in [[0, bits, 0], [19, bits, 0], [6, bits, 0], [255, bits, 0], [5, 0, 0], [5, 9, 0], [5, 255, 0]] {
            assert!(open(params, &[], 1, len).is_err(), "{params:?}");
        }
        assert!(open([5, bits, 7], &[1], 1, len).is_err());
        // If the payload is too short, the answer is "maybe".
        for hash in [0, u64::MAX / 3, u64::MAX].map(KeyHash::from_raw) {
            assert!(may_contain(geometry, &[], hash));
        }
    }
}

#[test]
fn every_try_has_a_new_seed_and_every_second_more_slots() {
    for n in [2_000u64, 100_000, 10_000_000] {
        let first = slots_per_1024_keys(n);
        for (i, geometry) in (0..).zip(geometries(Width::Eight, n)) {
            let segment = geometry.segment();
            let wanted = (n * (first + i / 2 * 24) / 1024).div_ceil(segment) * segment;
            assert_eq!((u64::from(geometry.seed), geometry.slots()), (i, wanted), "{n} keys");
        }
    }
    assert_eq!(geometries(Width::Eight, 100).count(), 32);
}

#[test]
fn short_segments_are_used_for_few_keys_if_they_save_slots() {
    let segments = |n| geometries(Width::Eight, n).map(|geometry| geometry.segment()).collect::<Vec<_>>();
    assert!(segments(999).contains(&64) && segments(999).contains(&128));
    assert_eq!(segments(1_000), [128; 32]);
}

#[test]
fn a_slot_with_too_many_keys_is_detected() {
    let geometry = Geometry::of(Width::Eight, 5, 1 << 10, 0);
    for (n, fits) in [(63, true), (64, false), (200, false), (256, false), (300, false), (512, false)] {
        let hashes: Vec<_> = (0..n).map(KeyHash::from_raw).collect();
        assert_eq!(Peeling::default().count(&geometry, &hashes), fits, "{n} keys");
    }
}
