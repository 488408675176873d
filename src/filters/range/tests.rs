//! Compares range filters and their parts with sorted sets.
#![allow(clippy::cast_possible_truncation, reason = "the tests use the low bits of random numbers")]
#![allow(
    clippy::type_complexity,
    clippy::big_endian_bytes,
    reason = "bounds come in pairs, and keys sort like integers"
)]

use std::collections::BTreeSet;
use std::ops::Bound;

use super::elias_fano::Bytes;
use super::elias_fano::{EliasFano, needs_wide_ranks};
use super::mapping::Mapping;
use super::*;
use crate::FilterSpec;
use crate::hash::{HashSeed, KeyHasher};
use crate::simd::{Isa, Portable};

struct Filter {
    geometry: Geometry,
    hash: RangeHash,
    padded: Vec<u8>,
    len: usize,
}

impl Filter {
    fn of(spec: &str, keys: &BTreeSet<Vec<u8>>) -> Self {
        let mut collected = RangeKeys::new();
        keys.iter().for_each(|key| collected.add(key).unwrap());
        Self::built(spec, &collected)
    }

    fn built(spec: &str, keys: &RangeKeys) -> Self {
        let spec: FilterSpec = spec.parse().unwrap();
        let hash = RangeHash::of(&KeyHasher::xxh3(HashSeed(keys.len())));
        let (header, mut padded) = build_range(spec.budget(), keys, &hash).unwrap();
        let len = padded.len();
        let geometry = Geometry::parse(header.params, &header.record, keys.len(), len as u64).unwrap();
        assert_eq!(geometry.header(), header);
        padded.resize(len + 64, 0xff);
        Self { geometry, hash, padded, len }
    }

    /// Asserts that every kernel and the guarded query give the same answer, and returns it.
    fn ask(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
        let answer =
            |isa| RangeKernel::on(isa).may_contain(&self.geometry, &self.hash, &self.padded, self.len, lower, upper);
        let answers: Vec<bool> = Isa::available().map(answer).collect();
        assert!(answers.iter().all(|&answer| answer == answers[0]), "{lower:?} {upper:?}: {answers:?}");
        // A query asks only about bytes of the payload.
        let is_valid = |at, len| {
            assert!(at + len <= self.len, "{len} bytes at {at} of {}", self.len);
            true
        };
        let guarded = self.geometry.may_contain_if_valid(&self.hash, &self.padded, self.len, (lower, upper), is_valid);
        assert_eq!(guarded, answers[0], "guarded");
        answers[0]
    }
}

fn mix(z: u64) -> u64 {
    let mut m = z.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    m = (m ^ (m >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    m = (m ^ (m >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    m ^ m >> 31
}

fn holds_key(keys: &BTreeSet<Vec<u8>>, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    !query::is_empty(lower, upper)
        && !query::is_reversed(lower, upper)
        && keys.range::<[u8], _>((lower, upper)).next().is_some()
}

/// Returns the nine pairs of a lower bound at `from` and an upper bound at `to`: each bound is
/// included, excluded or absent.
fn bounds<'a>(from: &'a [u8], to: &'a [u8]) -> Vec<(Bound<&'a [u8]>, Bound<&'a [u8]>)> {
    use Bound::{Excluded, Included, Unbounded};
    let lower = [Included(from), Excluded(from), Unbounded];
    let upper = [Included(to), Excluded(to), Unbounded];
    lower.into_iter().flat_map(|lower| upper.into_iter().map(move |upper| (lower, upper))).collect()
}

/// Asks for the ranges between all pairs of limits. Asserts that no range with a key is denied, and
/// that empty ranges are denied, and that the answer for reversed ranges is "maybe". Returns the
/// share of other ranges without a key for which the answer is "maybe".
fn check_all(spec: &str, keys: &BTreeSet<Vec<u8>>, limits: &[Vec<u8>]) -> f64 {
    let filter = Filter::of(spec, keys);
    let (mut empty, mut wrong) = (0u32, 0u32);
    for from in limits {
        for to in limits {
            for (lower, upper) in bounds(from, to) {
                let answer = filter.ask(lower, upper);
                if holds_key(keys, lower, upper) || query::is_reversed(lower, upper) {
                    assert!(answer, "{spec}, {keys:?}: {lower:?} {upper:?} was denied");
                } else {
                    assert!(!answer || !query::is_empty(lower, upper), "{lower:?} {upper:?}");
                    empty += 1;
                    wrong += u32::from(answer);
                }
            }
        }
    }
    f64::from(wrong) / f64::from(empty.max(1))
}

/// Returns all strings of up to `len` bytes of an alphabet.
fn strings(alphabet: &[u8], len: usize) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..len {
        last = last.iter().flat_map(|s| alphabet.iter().map(move |&b| [s.as_slice(), &[b]].concat())).collect();
        all.extend_from_slice(&last);
    }
    all
}

#[test]
fn sets_of_short_keys_have_no_false_negatives() {
    let all = strings(&[0, 7, 0xff], 2);
    let mut limits = strings(&[0, 3, 7, 0xff], 2);
    limits.extend([vec![7, 7, 0], vec![0xff, 0xff, 0xff], vec![0, 0, 0]]);
    // The 13 strings have 8,191 subsets that are not empty. The test takes every seventh subset.
    for set in (1u32..1 << all.len()).step_by(7) {
        let keys: BTreeSet<Vec<u8>> =
            all.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, key)| key.clone()).collect();
        for spec in ["grafite:L=16:fpr=0.01", "grafite:fpr=0.5"] {
            check_all(spec, &keys, &limits);
        }
    }
}

#[test]
fn whole_keys_in_one_stretch_give_exact_answers() {
    let limits = strings(&[0, 3, 7, 0xff], 3);
    for keys in [strings(&[3, 7], 3), strings(&[0, 0xff], 2), vec![vec![7, 7]], vec![Vec::new(), vec![0]]] {
        let keys: BTreeSet<Vec<u8>> = keys.into_iter().collect();
        let filter = Filter::of("grafite:L=1024:fpr=0.01", &keys);
        assert!(filter.geometry.mapping.is_whole && filter.geometry.expected_fpr() == 0.0);
        for (from, to) in limits.iter().flat_map(|from| limits.iter().map(move |to| (from, to))) {
            for (lower, upper) in bounds(from, to) {
                let expected = holds_key(&keys, lower, upper) || query::is_reversed(lower, upper);
                assert_eq!(filter.ask(lower, upper), expected, "{keys:?} {lower:?} {upper:?}");
            }
        }
    }
}

#[test]
fn exact_cells_of_cut_keys_have_an_fpr_for_scans() {
    let key = |i: u8, last: u8| [&[i][..], &[0; 400], &[last]].concat();
    let keys: BTreeSet<Vec<u8>> = (0..100).map(|i| key(i, 7)).collect();
    let filter = Filter::of("grafite:fpr=0.01", &keys);
    let Geometry { mapping, dropped_bits, .. } = filter.geometry;
    assert!(!mapping.is_whole && dropped_bits == 0, "{}", filter.geometry);
    // No key lies between the bounds, but a key lies in the cell of the lower bound.
    let upper = [50, 1];
    assert!(filter.ask(Bound::Excluded(&key(50, 8)), Bound::Excluded(&upper)));
    assert!(filter.geometry.expected_fpr() > 0.0);
}

#[test]
fn keys_and_bounds_of_all_lengths_have_no_false_negatives() {
    for seed in 0..60 {
        let mut state = seed * 1_000_003;
        let mut next = |below: u64| {
            state += 1;
            mix(state) % below
        };
        let prefix_len = [0, 8, 16, 100, 254, 255, 256, 300, 509, 510, 511, 700][next(12) as usize];
        let alphabet = 1 + next(if seed % 3 == 0 { 256 } else { 12 });
        let mut key = |max: u64| -> Vec<u8> {
            let rest =
                (0..next(max + 1)).map(|_| [0xff - next(alphabet) as u8, next(alphabet) as u8][(seed % 2) as usize]);
            let mut key = vec![0xff; prefix_len];
            key.extend(rest.collect::<Vec<_>>());
            key
        };
        let keys: BTreeSet<Vec<u8>> = (0..1 + seed * 3).map(|_| key(1 + seed % 40)).collect();
        let mut limits: Vec<Vec<u8>> = (0..6).map(|_| key(20)).collect();
        limits.extend(keys.iter().step_by(1 + keys.len() / 6).cloned());
        for limit in limits.clone() {
            limits.push([limit.as_slice(), &[0]].concat());
            limits.push(limit[..limit.len().saturating_sub(1)].to_vec());
        }
        for spec in ["grafite:L=16:fpr=0.01", "grafite:fpr=0.01", "grafite:L=1000000:3", "grafite:1"] {
            check_all(spec, &keys, &limits);
        }
    }
}

#[test]
fn keys_come_back_as_they_were_added() {
    // The two keys have many pairs of lengths, and agree in any number of leading bytes.
    for len in (0usize..20).chain(120..140) {
        for next_len in [len, len + 1, len + 7, len.saturating_sub(1)] {
            for shared in 0..next_len {
                let (one, mut other) = (vec![b'a'; len], vec![b'a'; next_len]);
                other.iter_mut().skip(shared).zip(1..).for_each(|(byte, i)| *byte = b'a' + i % 100);
                let (mut keys, mut found) = (RangeKeys::new(), Vec::new());
                [&one, &other, &one].into_iter().for_each(|key| keys.add(key).unwrap());
                keys.for_each(|key, _| found.push(key.to_vec()));
                let expected: Vec<_> = if one == other { vec![one] } else { vec![one.clone(), other, one] };
                assert_eq!(found, expected, "{len}, {next_len}, {shared}");
            }
        }
    }
}

#[test]
fn keys_may_come_in_any_order_and_repeatedly() {
    let keys: BTreeSet<Vec<u8>> = (0..500u64).map(|i| mix(i).to_string().into_bytes()).collect();
    let mut shuffled = RangeKeys::new();
    for i in 0..1_500u64 {
        shuffled.add(mix(i % 500).to_string().as_bytes()).unwrap();
    }
    let sorted = shuffled.into_sorted().unwrap();
    assert_eq!(sorted.len(), keys.len() as u64);
    let mut found = Vec::new();
    sorted.for_each(|key, _| found.push(key.to_vec()));
    assert!(found.iter().eq(keys.iter()));
    assert_eq!(Filter::built("grafite:12", &sorted).padded, Filter::of("grafite:12", &keys).padded);
}

/// Asserts that the Elias-Fano code of a sorted set gives the right answer for each interval.
fn check_codes(codes: &BTreeSet<u64>, universe: u64, low_bits: u32, is_wide: bool, intervals: &[(u64, u64)]) {
    let parts = EliasFano::new(0, codes.len() as u64, universe, low_bits, is_wide).unwrap();
    let mut payload = vec![0; parts.end];
    parts.write(&mut payload, codes.iter().copied());
    payload.resize(parts.end + 64, 0xff);
    let bytes = Bytes::new(&payload, parts.end, &|_, _| true);
    for &(from, to) in intervals {
        let found = parts.any(Portable, &bytes, from, to);
        assert_eq!(found, Some(codes.range(from..=to).next().is_some()), "{from}..={to}, {low_bits} bits, {universe}");
    }
}

#[test]
fn elias_fano_answers_every_interval_exactly() {
    for universe in [1, 2, 3, 64, 65, 300] {
        let intervals: Vec<(u64, u64)> =
            (0..universe).flat_map(|from| (from..universe).map(move |to| (from, to))).collect();
        for density in [1, 2, 7, 100] {
            let codes: BTreeSet<u64> =
                (0..universe).filter(|&x| mix(x).is_multiple_of(density)).chain([universe - 1]).collect();
            for low_bits in 0..10 {
                check_codes(&codes, universe, low_bits, low_bits % 2 == 0, &intervals);
            }
        }
    }
}

#[test]
fn elias_fano_answers_for_clusters_and_gaps() {
    for (i, count) in [(0, 200_000), (20, 70_000), (40, 3)] {
        // The codes are a cluster at the start, a cluster at a third of the universe, and a single
        // code at the end.
        let universe = 1u64 << (18 + i);
        let start = universe / 3;
        let codes: BTreeSet<u64> = (0..count)
            .chain((0..count).map(|x| start + x / 2 * 3))
            .filter(|&x| x < universe)
            .chain([universe - 1])
            .collect();
        let low_bits = EliasFano::best_low_bits(codes.len() as u64, universe);
        let is_wide = needs_wide_ranks(codes.iter().copied(), low_bits);
        assert!(i == 40 || low_bits == 0 || is_wide, "{i}: {low_bits}");
        let near =
            [0, count - 1, count, count + 1, start - 1, start, start + 1, start + count, universe - 2, universe - 1];
        let mut intervals = Vec::new();
        for from in near.into_iter().filter(|&x| x < universe) {
            intervals.extend(near.into_iter().filter(|&to| to >= from && to < universe).map(|to| (from, to)));
            intervals.extend((0..300).map(|x| from + mix(x) % 700).filter(|&to| to < universe).map(|to| (from, to)));
            let below = (0..300).map(|x| mix(x) % universe);
            intervals.extend(below.map(|from| (from, (from + mix(from) % 2_000).min(universe - 1))));
        }
        check_codes(&codes, universe, low_bits, is_wide, &intervals);
        for low_bits in [0, 1, low_bits + 1, low_bits + 5].into_iter().filter(|&low_bits| low_bits <= 56) {
            let is_wide = needs_wide_ranks(codes.iter().copied(), low_bits);
            if universe >> low_bits < 1 << 24 {
                check_codes(&codes, universe, low_bits, is_wide, &intervals);
            }
        }
    }
}

#[test]
fn payloads_that_contradict_themselves_do_not_panic() {
    let keys: BTreeSet<Vec<u8>> = (0..600u64).map(|i| format!("user:{:07}", mix(i) % 3_000_000).into_bytes()).collect();
    for spec in ["grafite:L=16:fpr=0.01", "grafite:fpr=0.01", "grafite:L=1000:2"] {
        let sound = Filter::of(spec, &keys);
        let record = sound.geometry.header().record.into_owned();
        for seed in 0..4_000u64 {
            let mut record = record.clone();
            let mut padded = sound.padded.clone();
            for change in 0..seed % 4 {
                let at = mix(seed * 7 + change) as usize;
                let len = padded.len();
                padded[at % len] = mix(seed ^ change) as u8;
            }
            if seed % 2 == 0 {
                let at = mix(seed) as usize % record.len();
                record[at] = mix(seed + 1) as u8;
            }
            if seed % 5 == 0 {
                padded.iter_mut().for_each(|byte| *byte = if seed % 10 == 0 { 0xff } else { mix(seed) as u8 });
            }
            let Ok(geometry) = Geometry::parse([0; 3], &record, 600, sound.len as u64) else { continue };
            let hostile = Filter { geometry, hash: sound.hash, padded, len: sound.len };
            for i in 0..20 {
                let from = format!("user:{:07}", mix(seed + i) % 3_000_000).into_bytes();
                let to = format!("user:{:07}", mix(seed + i) % 3_000_000 + (1 << i)).into_bytes();
                let (lower, upper) = (Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice()));
                for isa in Isa::available() {
                    let kernel = RangeKernel::on(isa);
                    let _ = kernel.may_contain(
                        &hostile.geometry,
                        &hostile.hash,
                        &hostile.padded,
                        hostile.len,
                        lower,
                        upper,
                    );
                    // Missing bytes prove nothing. Without a payload, only a range after the last
                    // key may be denied.
                    assert!(
                        kernel.may_contain(&sound.geometry, &sound.hash, &[], sound.len, lower, upper)
                            || from > keys.last().cloned().unwrap()
                    );
                }
            }
        }
    }
}

/// Uses a mapping of 128 bits: one position with all 256 byte values, and 15 plain positions. No
/// builder writes such a mapping, but a record may claim it.
#[test]
fn a_mapping_of_too_many_bits_gives_no_integers() {
    use Bound::{Excluded, Included};
    let mapping = Mapping { prefix_len: 0, num_positions: 1, num_plain: 15, num_sets: 0, is_whole: true };
    let mut padded = vec![0, 0, 0xff];
    let len = padded.len();
    padded.resize(len + 64, 0);
    let bytes = Bytes::new(&padded, len, &|_, _| true);
    let high: &[u8] = &[0xff; 16];
    for (lower, upper) in [
        (Included(high), Included(high)),
        (Excluded(high), Included(&[0xff; 17][..])),
        (Included(&[][..]), Included(high)),
        (Included(high), Bound::Unbounded),
    ] {
        assert_eq!(mapping.between(&bytes, lower, upper), None, "{lower:?} {upper:?}");
    }
}

#[test]
fn unsound_bytes_never_turn_a_maybe_into_a_denial() {
    let keys: BTreeSet<Vec<u8>> = (0..300u64).map(|i| mix(i).to_be_bytes().to_vec()).collect();
    let filter = Filter::of("grafite:L=16:fpr=0.01", &keys);
    let mut denied_with_damage = 0;
    for i in 0..300u64 {
        let (from, to) = (mix(i + 1_000).to_be_bytes(), (mix(i + 1_000) | 15).to_be_bytes());
        let (lower, upper) = (Bound::Included(from.as_slice()), Bound::Included(to.as_slice()));
        let answer = filter.ask(lower, upper);
        for at in 0..filter.len {
            let mut damaged = filter.padded.clone();
            damaged[at] ^= 0xff;
            let bounds = (lower, upper);
            let is_valid = |from, len| at < from || at >= from + len;
            let guarded = filter.geometry.may_contain_if_valid(&filter.hash, &damaged, filter.len, bounds, is_valid);
            assert!(guarded || !answer, "{i}, byte {at}");
            denied_with_damage += u32::from(!guarded);
        }
    }
    assert!(denied_with_damage > 10_000, "{denied_with_damage}");
}
