//! Tests that the measured FPR of a filter is the announced FPR, neither higher nor lower.
//!
//! Most tests allow five standard deviations. The deviation is the larger of the binomial deviation
//! and the deviation between the filters, because the FPRs of small filters differ.

use filterblock::planning::Plan;
use filterblock::{FilterBlock, FilterKind, FilterOptions, HashSeed, KeyHash, Verify};
use filterblock_testkit::blocks::{kinds_of_keys, spec};
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

/// Tests 10 to 1,000 filters of each size, with about two million queries per size.
/// `FILTERBLOCK_SPARSE` reduces these numbers.
fn check_sizes(kind: FilterKind, budgets: &[&str]) {
    // Bumped ribbons are a single system, or have layers, or also several shards.
    let more: &[u64] = if kind == FilterKind::BumpedRibbon { &[64, 65, 2_000, 2_561, 4_096, 60_000] } else { &[] };
    let sizes = || [1, 2, 3, 10, 33, 100, 1_000, 10_000, 100_000].iter().chain(more);
    for (spec_text, &n) in budgets.iter().flat_map(|budget| sizes().map(move |n| (format!("{kind}:{budget}"), n))) {
        let filters: u64 = (100_000 / n / sparse()).clamp(10, 1_000);
        let queries = (2_000_000 / sparse() / filters).next_multiple_of(BATCH);
        check(&format!("{spec_text}, {n} keys"), &measure(&spec_text, n, filters, queries, eight_bytes));
    }
}

#[test]
fn bloom_filters_of_every_size_have_their_announced_fpr() {
    check_sizes(FilterKind::Bloom, &["4", "8", "10", "16", "20", "fpr=0.01", "fpr=0.3"]);
}

#[test]
fn blocked_filters_of_every_size_have_their_announced_fpr() {
    check_sizes(FilterKind::BlockedBloom, &["4", "8", "10", "16", "20", "fpr=0.01", "fpr=0.3"]);
}

#[test]
fn ribbons_of_every_size_have_their_announced_fpr() {
    check_sizes(FilterKind::Ribbon, &["2", "7.3", "8.5", "10", "fpr=0.01", "fpr=0.3"]);
}

#[test]
fn bumped_ribbons_with_whole_columns_have_their_announced_fpr() {
    check_sizes(FilterKind::BumpedRibbon, &["8", "fpr=0.00390625", "fpr=0.00390625:compact"]);
}

#[test]
fn bumped_ribbons_with_partial_columns_have_their_announced_fpr() {
    check_sizes(FilterKind::BumpedRibbon, &["2", "7.3", "12.3", "fpr=0.01", "fpr=0.01:compact"]);
}

#[test]
fn other_filters_of_every_size_have_their_announced_fpr() {
    use FilterKind::{BinaryFuse, BlockedBloom, Bloom, BumpedRibbon, Ribbon, SplitBlock, SplitBlock512};
    for kind in kinds_of_keys().filter(|kind| ![Bloom, BlockedBloom, Ribbon, BumpedRibbon].contains(kind)) {
        match kind {
            BinaryFuse => check_sizes(kind, &["8", "12", "16"]),
            SplitBlock | SplitBlock512 => check_sizes(kind, &["4", "8", "10", "16", "fpr=0.01"]),
            _ => check_sizes(kind, &["fpr=0.01"]),
        }
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
        for spec in kinds_of_keys().map(|kind| format!("{kind}:fpr=0.01")) {
            // The keys of the last family are long, so the test uses fewer of them, as it does with
            // `FILTERBLOCK_SPARSE`.
            let is_short = name == "runs of one byte" || sparse() > 1;
            let (n, queries) = if is_short { (2_000, 5_000) } else { (10_000, 50_000) };
            check(&format!("{spec}, {name} keys"), &measure(&spec, n, 20, queries, write_key));
        }
    }
}

#[test]
fn a_larger_budget_never_has_a_higher_fpr() {
    // The tables of probe steps give each budget the number of probes with the lowest FPR.
    for kind in ["bloom", "blocked-bloom"] {
        let announced =
            |tenths: u64| Plan::new(spec(&format!("{kind}:{}", tenths as f64 / 10.0)), 20_000).unwrap().expected_fpr();
        let rates: Vec<f64> = (10..=300).step_by(2).map(announced).collect();
        for (i, pair) in rates.windows(2).enumerate() {
            let ratio = pair[1] / pair[0];
            assert!((0.85..1.0).contains(&ratio), "{kind}, step {i}: {} then {}", pair[0], pair[1]);
        }
    }
}
