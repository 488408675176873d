//! Tests that the measured FPR of a filter is the announced FPR, neither higher nor lower.
//!
//! Most tests allow five standard deviations. The deviation is the larger of the binomial deviation
//! and the deviation between the filters, because the FPRs of small filters differ.

use filterblock::{FilterBlock, FilterOptions, HashSeed, KeyHash, Verify};
use filterblock_testkit::blocks::{self, kinds_of_keys, spec};
use filterblock_testkit::{Random, sparse};

const SIGMAS: f64 = 5.0;
const BATCH: u64 = 1_000;

/// The measured FPR of each filter, the mean announced FPR, and the number of queries per filter.
struct Measured {
    rates: Vec<f64>,
    announced: f64,
    queries: f64,
}

/// Builds `filters` filters of the keys `0..n` and queries each with `queries` further keys.
fn measure(spec_text: &str, n: u64, filters: u64, queries: u64, write_key: impl Fn(u64, &mut Vec<u8>)) -> Measured {
    let mut key = Vec::new();
    let mut hash = |i: u64, seed| {
        key.clear();
        write_key(i, &mut key);
        KeyHash::of(&key, seed)
    };
    let mut seeds = Random(4);
    let (mut rates, mut announced) = (Vec::new(), 0.0);
    for _ in 0..filters {
        // The seeds must be random in all 64 bits. For keys of 4 to 8 bytes, the seed changes only
        // the number that XXH3 XORs with the key. Seeds that differ in a few bits may give the same
        // hashes in another order, and so the same filters.
        let seed = HashSeed(seeds.next());
        let mut builder = FilterOptions::new(spec(spec_text)).builder(seed).unwrap();
        (0..n).for_each(|i| builder.add_hash(hash(i, seed)));
        let block = FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap();
        announced += block.expected_fpr() / filters as f64;
        let (mut positives, mut answers) = (0, [false; BATCH as usize]);
        for from in (n..n + queries).step_by(BATCH as usize) {
            let hashes: Vec<_> = (from..from + BATCH).map(|i| hash(i, seed)).collect();
            block.may_contain_batch(&hashes, &mut answers);
            positives += answers.iter().filter(|&&answer| answer).count();
        }
        rates.push(positives as f64 / queries as f64);
    }
    Measured { rates, announced, queries: queries as f64 }
}

fn check(what: &str, measured: &Measured) {
    let Measured { rates, announced, queries } = measured;
    let filters = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / filters;
    let between = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (filters - 1.0);
    let binomial = announced * (1.0 - announced) / queries;
    let deviation = (between.max(binomial) / filters).sqrt();
    // If hardly any positive is expected, the deviation is too small a tolerance. So the tolerance
    // always includes five more positives in total.
    let few = 5.0 / (filters * queries);
    assert!(
        (mean - announced).abs() <= SIGMAS * deviation + few,
        "{what}: {mean:.3e} measured, {announced:.3e} announced, {:.1} deviations",
        (mean - announced) / deviation
    );
}

fn eight_bytes(i: u64, key: &mut Vec<u8>) {
    key.extend_from_slice(&i.to_le_bytes());
}

fn check_sizes(spec_text: &str) {
    check_each_size(spec_text, &[1, 2, 3, 10, 33, 100, 1_000, 10_000, 100_000]);
}

#[test]
fn bloom_filters_of_every_size_have_their_announced_fpr() {
    for spec in [
        "bloom:4",
        "bloom:6",
        "bloom:8",
        "bloom:10",
        "bloom:12",
        "bloom:16",
        "bloom:20",
        "bloom:fpr=0.01",
        "bloom:fpr=0.3",
    ] {
        check_sizes(spec);
    }
}

#[test]
fn blocked_filters_of_every_size_have_their_announced_fpr() {
    for budget in ["4", "6", "8", "10", "12", "16", "20", "fpr=0.01", "fpr=0.3"] {
        check_sizes(&format!("blocked-bloom:{budget}"));
    }
}

#[test]
fn split_blocks_of_every_size_have_their_announced_fpr() {
    for kind in ["split-block", "split-block-512"] {
        for budget in ["4", "8", "10", "16", "fpr=0.01"] {
            check_sizes(&format!("{kind}:{budget}"));
        }
    }
}

#[test]
fn binary_fuse_filters_of_every_size_have_their_announced_fpr() {
    for width in ["8", "12", "16"] {
        check_sizes(&format!("binary-fuse:{width}"));
    }
}

#[test]
fn ribbons_of_every_size_have_their_announced_fpr() {
    for budget in ["2", "7.3", "8.5", "10", "fpr=0.01", "fpr=0.3"] {
        check_sizes(&format!("ribbon:{budget}"));
    }
}

#[test]
fn bumped_ribbons_with_whole_columns_have_their_announced_fpr() {
    for budget in ["8", "fpr=0.00390625", "fpr=0.00390625:compact"] {
        check_ribbon_sizes(&format!("bumped-ribbon:{budget}"));
    }
}

#[test]
fn bumped_ribbons_with_partial_columns_have_their_announced_fpr() {
    for budget in ["2", "7.3", "12.3", "fpr=0.01", "fpr=0.01:compact"] {
        check_ribbon_sizes(&format!("bumped-ribbon:{budget}"));
    }
}

/// Tests bumped ribbons with a single system only, with layers, and with several shards.
fn check_ribbon_sizes(spec_text: &str) {
    check_each_size(spec_text, &[1, 2, 3, 10, 33, 64, 65, 100, 1_000, 2_000, 2_561, 4_096, 10_000, 60_000, 100_000]);
}

/// Tests 20 to 1,000 filters of each size, with about two million queries per size.
/// `FILTERBLOCK_SPARSE` reduces these numbers.
fn check_each_size(spec_text: &str, sizes: &[u64]) {
    for &n in sizes.iter().filter(|&&n| n * sparse() <= 1_000_000) {
        let filters: u64 = (100_000 / n / sparse()).clamp(20, 1_000);
        let queries = (2_000_000 / sparse() / filters).next_multiple_of(BATCH);
        check(&format!("{spec_text}, {n} keys"), &measure(spec_text, n, filters, queries, eight_bytes));
    }
}

#[test]
fn every_kind_has_its_announced_fpr() {
    for kind in kinds_of_keys() {
        check_each_size(&format!("{kind}:fpr=0.01"), &[1, 100, 10_000]);
    }
}

#[test]
fn awkward_keys_have_the_announced_fpr() {
    type WriteKey = fn(u64, &mut Vec<u8>);
    let families: [(&str, WriteKey); 6] = [
        ("sequential", |i, key| key.extend_from_slice(&i.swap_bytes().to_le_bytes())),
        ("strided", |i, key| key.extend_from_slice(&(i * 4096).to_le_bytes())),
        ("bit-reversed", |i, key| key.extend_from_slice(&i.reverse_bits().to_le_bytes())),
        ("constant suffix", |i, key| {
            key.extend_from_slice(&i.to_le_bytes());
            key.extend_from_slice(&[b'x'; 300]);
        }),
        ("constant prefix", |i, key| {
            key.extend_from_slice(b"https://example.org/a/rather/long/common/prefix/of/all/keys/");
            key.extend_from_slice(i.to_string().as_bytes());
        }),
        ("runs of one byte", |i, key| key.resize(i as usize % 64 + i as usize / 64, (i % 251) as u8)),
    ];
    for (name, write_key) in families {
        for spec in [
            "bloom:10",
            "blocked-bloom:10",
            "split-block:10",
            "split-block-512:10",
            "binary-fuse:8",
            "binary-fuse:12",
            "ribbon:8",
            "ribbon:fpr=0.01",
            "bumped-ribbon:8",
            "bumped-ribbon:fpr=0.01",
            "bumped-ribbon:fpr=0.01:compact",
        ] {
            // The keys of the last family are long, so the test uses fewer of them, as it does with
            // `FILTERBLOCK_SPARSE`.
            let is_short = name == "runs of one byte" || sparse() > 1;
            let (n, queries) = if is_short { (2_000, 5_000) } else { (10_000, 50_000) };
            check(&format!("{spec}, {name} keys"), &measure(spec, n, 20, queries, write_key));
        }
    }
}

#[test]
fn a_million_keys_at_10_bits_per_key_have_an_fpr_of_1_per_cent() {
    let measured = measure("blocked-bloom:10", 1_000_000, 3, 1_000_000, eight_bytes);
    let mean = measured.rates.iter().sum::<f64>() / 3.0;
    assert!(measured.announced <= 0.0098, "{}", measured.announced);
    assert!(mean <= 0.0098, "{mean}");
    assert!((mean / measured.announced - 1.0).abs() < 0.03, "{mean}");
}

#[test]
fn requested_fprs_are_reached_without_wasted_space() {
    for kind in ["bloom", "blocked-bloom", "split-block", "split-block-512"] {
        for rate in [0.3, 0.1, 0.01, 0.001, 0.0001] {
            let measured = measure(&format!("{kind}:fpr={rate}"), 200_000, 2, 1_000, eight_bytes);
            let announced = measured.announced;
            assert!(announced <= rate * 1.001 && announced >= rate * 0.99, "{kind} asked for {rate}: {announced}");
        }
    }
}

#[test]
fn a_larger_budget_never_has_a_higher_fpr() {
    // The tables of probe steps give each budget the number of probes with the lowest FPR.
    for kind in ["bloom", "blocked-bloom"] {
        let announced = |tenths: u64| {
            let spec = spec(&format!("{kind}:{}", tenths as f64 / 10.0));
            let mut builder = FilterOptions::new(spec).builder(HashSeed(1)).unwrap();
            (0..20_000u64).for_each(|i| builder.add(builder.hasher().key(&i.to_le_bytes())));
            FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap().expected_fpr()
        };
        let rates: Vec<f64> = (10..=300).step_by(2).map(announced).collect();
        for (i, pair) in rates.windows(2).enumerate() {
            let ratio = pair[1] / pair[0];
            assert!((0.85..1.0).contains(&ratio), "{kind}, step {i}: {} then {}", pair[0], pair[1]);
        }
    }
}

#[test]
fn bumped_keys_are_tested_in_all_columns_too() {
    let block = FilterBlock::open_any(blocks::block("bumped-ribbon:16", 60_000), Verify::AtOpen).unwrap();
    let positives = (60_000..460_000).filter(|&i| block.may_contain_hash(blocks::hash(i))).count();
    // Six positives are expected. One key in 25 is bumped. If bumped keys were tested in eight
    // columns only, 62 more positives would be expected.
    assert!(positives <= 22, "{positives} of 400,000");
}
