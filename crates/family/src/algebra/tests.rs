//! Tests unions, intersections, comparisons and estimates of filters.

use super::*;
use crate::error::Error;
use filterblock::HashSeed;
use filterblock::internals::codec::u64_bytes;

fn filter(keys: std::ops::Range<u64>, bits: u64, probes: u32, seed: u64) -> Bloom {
    let bloom = Bloom::with_shape(bits, probes, HashSeed(seed)).unwrap();
    keys.for_each(|i| _ = bloom.insert(&u64_bytes(i)));
    bloom
}

#[test]
fn unions_are_exact_and_intersections_have_all_their_bits() {
    let (a, b) = (filter(0..700, 10_000, 7, 1), filter(400..1_200, 10_000, 7, 1));
    let union = a.union(&b).unwrap();
    assert!(union.words().eq(filter(0..1_200, 10_000, 7, 1).words()));
    let both = a.intersection(&b).unwrap();
    let least = filter(400..700, 10_000, 7, 1);
    assert!(both.words().zip(least.words()).all(|(both, least)| both & least == least));
    assert!((400..700).all(|i| both.may_contain(&u64_bytes(i))));
    assert!(both.count_ones() < a.count_ones() && both.expected_fpr() < a.expected_fpr());
    let in_place = a.clone();
    in_place.union_with(&b).unwrap();
    assert!(in_place.words().eq(union.words()));
    let mut in_place = a.clone();
    in_place.intersect_with(&b).unwrap();
    assert!(in_place.words().eq(both.words()));
}

#[test]
fn filters_of_different_shape_or_seed_are_refused() {
    let a = filter(0..10, 800, 7, 1);
    for (other, text) in [
        (filter(0..10, 808, 7, 1), "number of bits is 800 in one filter and 808 in the other"),
        (filter(0..10, 800, 6, 1), "number of probes is 7 in one filter and 6 in the other"),
        (filter(0..10, 800, 7, 2), "hash seed is 1 in one filter and 2 in the other"),
    ] {
        for error in [
            a.union(&other).unwrap_err(),
            a.intersection(&other).unwrap_err(),
            a.union_with(&other).unwrap_err(),
            a.clone().intersect_with(&other).unwrap_err(),
            a.compare(&other).unwrap_err(),
        ] {
            assert!(matches!(error, Error::Unlike { .. }) && error.to_string().contains(text), "{error}");
        }
        assert!(a.words().eq(filter(0..10, 800, 7, 1).words()));
    }
}

#[test]
fn the_intersection_follows_papapetrous_formula() {
    let (m, k) = (10_000u32, 7);
    let (a, b) = (filter(0..500, m.into(), k, 3), filter(300..900, m.into(), k, 3));
    let found = a.compare(&b).unwrap();
    let [t1, t2, t12] = [found.left_ones, found.right_ones, found.common_ones].map(|ones| ones as f64);
    let (m, k) = (f64::from(m), f64::from(k));
    let papapetrou = ((m - (t12 * m - t1 * t2) / (m - t1 - t2 + t12)).ln() - m.ln()) / (k * (1.0 - 1.0 / m).ln());
    let baldi = |ones: f64| -(m / k) * (1.0 - ones / m).ln();
    let by_baldi = baldi(t1) + baldi(t2) - baldi(t1 + t2 - t12);
    assert!((papapetrou - by_baldi).abs() < 0.05, "{papapetrou} {by_baldi}");
    // Papapetrou's formula does not correct the bias of the three estimates.
    assert!((found.intersection.raw - papapetrou).abs() < 0.15, "{:?} {papapetrou}", found.intersection);
    assert!((found.left.keys() - a.estimated_keys()).abs() < 0.2);
    assert_eq!(a.estimate(), found.left);
}

/// The numbers of set bits were measured in filters of 10,000 bits and 7 probes.
#[test]
fn the_number_of_keys_follows_from_the_fill_ratio() {
    for (keys, ones, estimate) in
        [(100, 670, 99.1), (500, 2_911, 491.5), (1_000, 5_018, 995.4), (2_000, 7_535, 2_000.6)]
    {
        let shape = BlockShape { bits: 10_000, probes: 7, choice: 10_000 };
        let found = compare(shape, std::iter::once([ones; 3])).left;
        let by_formula = filterblock::internals::math::estimated_keys(ones, 10_000, 7);
        assert!((by_formula - estimate).abs() < 0.051, "{keys}: {by_formula}");
        // The margin covers the exact logarithm and the bias correction.
        assert!((found.raw - estimate).abs() < 0.3, "{keys}: {found:?}");
        let real = filter(0..keys, 10_000, 7, 5).estimate();
        assert!((real.raw - keys as f64).abs() < 5.0 * real.deviation(), "{keys}: {real:?}");
        assert!(((estimate - keys as f64) / found.deviation()).abs() < 5.0, "{keys}: {found:?}");
    }
}

#[test]
fn equal_disjoint_and_empty_sets_compare_correctly() {
    let (a, none) = (filter(0..500, 10_000, 7, 3), filter(0..0, 10_000, 7, 3));
    let same = a.compare(&a).unwrap();
    assert!(same.is_equal() && same.bit_similarity() == 1.0 && same.key_similarity() == 1.0);
    assert!((same.intersection.deviation - same.left.deviation).abs() < 1e-9);
    let empty = none.compare(&none).unwrap();
    assert!(empty.is_equal() && empty.bit_similarity() == 1.0 && empty.key_similarity() == 1.0);
    assert_eq!(empty.union.interval(), (0.0, 0.0));
    let apart = a.compare(&none).unwrap();
    assert!(!apart.is_equal() && apart.bit_similarity() == 0.0 && apart.key_similarity() == 0.0);
    let full = filter(0..1_000, 8, 7, 3).estimate();
    assert_eq!((full.deviation(), full.interval().1), (f64::INFINITY, f64::INFINITY));
}

#[test]
fn confidence_intervals_contain_the_truth_in_95_percent() {
    const TRIALS: u64 = 400;
    for (own_left, own_right, common) in [(400, 300, 0), (200, 300, 200), (20, 30, 500), (0, 800, 300)] {
        let mut held = [0u32; 4];
        let mut sums = [0.0; 4];
        for seed in 0..TRIALS {
            let a = filter(0..own_left + common, 8_000, 5, seed);
            let b = filter(own_left..own_left + common + own_right, 8_000, 5, seed);
            let found = a.compare(&b).unwrap();
            let truths = [own_left + common, common + own_right, own_left + common + own_right, common];
            let estimates = [found.left, found.right, found.union, found.intersection];
            for (i, (estimate, truth)) in estimates.into_iter().zip(truths).enumerate() {
                let (low, high) = estimate.interval();
                held[i] += u32::from(low <= truth as f64 && truth as f64 <= high);
                sums[i] += (estimate.raw - truth as f64) / estimate.deviation.max(1e-9);
            }
        }
        let deviation = (TRIALS as f64 * 0.95 * 0.05).sqrt();
        for (held, sum) in held.into_iter().zip(sums) {
            let off = f64::from(held) - 0.95 * TRIALS as f64;
            // No end of an interval is below zero, so the interval of an empty intersection
            // contains the true number in more than 95 % of the trials.
            assert!(off > -5.0 * deviation && (off < 5.0 * deviation || common == 0), "{common}: {held}");
            assert!((sum / (TRIALS as f64).sqrt()).abs() < 5.0, "{common}: off by {sum} deviations in {TRIALS}");
        }
    }
}
