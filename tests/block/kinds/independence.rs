//! Tests that filters of different keys answer independently about absent keys. A store asks the
//! filters of many SSTs for one absent key. If all of them answered "maybe" for the same keys,
//! these keys would always be slow.

use filterblock::{FilterBlock, FilterOptions, HashSeed, Verify};
use filterblock_testkit::Random;
use filterblock_testkit::blocks::spec;

const FILTERS: usize = 200;
const ABSENT: usize = 20_000;

/// Builds 200 filters of `n` different keys each, and asks them for 20,000 absent keys. Counts for
/// each absent key the answers "maybe". Returns the variance of the counts, divided by the variance
/// of independent answers, and the highest count.
fn measure(spec_text: &str, n: usize) -> (f64, u32) {
    let mut random = Random(n as u64);
    let mut key = || random.next().to_le_bytes();
    let absent: Vec<[u8; 8]> = (0..ABSENT).map(|_| key()).collect();
    let mut counts = vec![0u32; ABSENT];
    for _ in 0..FILTERS {
        let mut builder = FilterOptions::new(spec(spec_text)).builder(HashSeed(1)).unwrap();
        (0..n).for_each(|_| builder.add(builder.hasher().key(&key())));
        let block = FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap();
        counts
            .iter_mut()
            .zip(&absent)
            .for_each(|(count, key)| *count += u32::from(block.may_contain(block.hasher().key(key))));
    }
    let mean = counts.iter().sum::<u32>() as f64 / ABSENT as f64;
    let variance = counts.iter().map(|&count| (f64::from(count) - mean).powi(2)).sum::<f64>() / (ABSENT as f64 - 1.0);
    let independent = mean * (1.0 - mean / FILTERS as f64);
    (variance / independent, counts.into_iter().max().unwrap())
}

/// Tests each filter with an upper bound for the variance and for the highest count. With
/// independent answers, the variance is within 5 % of 1.
fn check(cases: &[(&str, usize, f64, u32)]) {
    let found: Vec<_> = cases.iter().map(|&(spec, n, ..)| (spec, n, measure(spec, n))).collect();
    for (&(spec, n, max_variance, max), (.., (variance, highest))) in cases.iter().zip(&found) {
        assert!(*variance <= max_variance && *highest <= max, "{spec}, {n} keys: {found:.3?}");
    }
}

#[test]
fn binary_fuse_filters_of_every_size_answer_independently() {
    check(&[
        ("binary-fuse:8", 1, 1.05, 9),
        ("binary-fuse:8", 10, 1.05, 9),
        ("binary-fuse:8", 1_000, 1.05, 9),
        ("binary-fuse:8", 10_000, 1.05, 9),
        ("binary-fuse:12", 1, 1.05, 5),
        ("binary-fuse:12", 1_000, 1.05, 5),
        ("binary-fuse:16", 1, 1.05, 2),
        ("binary-fuse:16", 1_000, 1.05, 2),
    ]);
}

#[test]
fn bloom_filters_answer_independently() {
    check(&[
        ("bloom:10", 1_000, 1.05, 14),
        ("blocked-bloom:10", 1_000, 1.15, 16),
        ("split-block:10", 1_000, 1.05, 16),
        ("split-block-512:10", 1_000, 1.05, 16),
    ]);
}

#[test]
fn range_filters_answer_independently_about_keys() {
    check(&[("grafite:fpr=0.01", 1_000, 1.05, 14), ("grafite:10", 1_000, 1.05, 14)]);
}

/// Some blocks of a ribbon have one column less. They are the first blocks of every filter, so
/// their keys have twice the FPR in every filter. Only a ribbon whose FPR is a power of 1/2 has no
/// such blocks. The spare slots of `ribbon` are 0 in every filter.
#[test]
fn ribbons_answer_independently_but_for_their_narrow_blocks() {
    check(&[
        ("ribbon:8", 1_000, 1.20, 9),
        ("bumped-ribbon:8", 1_000, 1.10, 9),
        ("bumped-ribbon:fpr=0.00390625", 1_000, 1.05, 9),
        ("ribbon:fpr=0.01", 1_000, 1.30, 17),
        ("bumped-ribbon:fpr=0.01", 1_000, 1.30, 17),
        ("bumped-ribbon:fpr=0.01:compact", 1_000, 1.30, 17),
    ]);
}
