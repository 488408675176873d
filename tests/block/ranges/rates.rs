//! Tests the FPR and the size of range filters. Let a filter with a range length (`L=`) have `n` keys
//! and codes below `universe`. For queries of `l` integers, its mean FPR over all seeds is at most
//! `l * n / universe`.

use std::ops::Bound::Included;

use filterblock::{Expected, FilterBlock, FilterOptions, HashSeed, KeyHasher, Verify};
use filterblock_testkit::blocks::{built, spec};

use super::key_sets::mix;
use super::support::{TABLE, block, open};

/// Builds 40 filters of the same keys with different seeds.
fn filters(spec_text: &str, keys: &[u64]) -> Vec<FilterBlock<Vec<u8>>> {
    let of_seed = |seed| {
        let hasher = KeyHasher::xxh3(HashSeed(mix(seed)));
        let options = FilterOptions::new(spec(spec_text)).table_id(TABLE);
        let bytes = built(&options, &hasher, keys.iter().map(|key| key.to_be_bytes()));
        FilterBlock::open(bytes, &Expected::of_table(TABLE, &hasher), Verify::AtOpen).unwrap()
    };
    (0..40).map(of_seed).collect()
}

/// Asks each filter for the ranges of `len` integers without a key. `from` gives the start of each of 3,000
/// ranges. Returns the FPR and the number of queries.
fn rate(filters: &[FilterBlock<Vec<u8>>], keys: &[u64], len: u64, from: &dyn Fn(u64) -> u64) -> (f64, f64) {
    let ranges = (0..3_000).map(from).map(|lower| (lower, lower.saturating_add(len - 1)));
    let has_no_key = |&(lower, upper): &(u64, u64)| {
        let next = keys.partition_point(|&key| key < lower);
        keys.get(next).is_none_or(|&key| key > upper)
    };
    let ranges: Vec<_> = ranges.filter(has_no_key).map(|(from, to)| (from.to_be_bytes(), to.to_be_bytes())).collect();
    let is_maybe = |filter: &FilterBlock<_>, (lower, upper): &([u8; 8], [u8; 8])| {
        filter.may_contain_range(Included(lower), Included(upper))
    };
    let wrong: usize = filters.iter().map(|filter| ranges.iter().filter(|range| is_maybe(filter, range)).count()).sum();
    let asked = (filters.len() * ranges.len()) as f64;
    (wrong as f64 / asked, asked)
}

fn key_sets() -> Vec<(&'static str, Vec<u64>)> {
    let sorted = |mut keys: Vec<u64>| {
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    vec![
        ("random", sorted((0..2_000).map(mix).collect())),
        ("clusters", sorted((0..2_000).map(|i| (mix(i / 50) & !0xffff) + mix(i) % 5_000).collect())),
        ("every 5,000th", (0..2_000).map(|i| i * 5_000 + 77).collect()),
        ("pairs", (0..2_000).map(|i| mix(7).wrapping_add(((i / 2) << 40) + i % 2)).collect::<Vec<_>>()),
    ]
}

#[test]
fn fprs_of_uniform_and_correlated_ranges_keep_the_bound() {
    let mut checked = 0;
    for (name, mut keys) in key_sets() {
        keys.sort_unstable();
        for (len, rate_text, expected) in
            [(16, "0.01", 0.01), (1_024, "0.01", 0.01), (16, "0.2", 0.2), (1, "0.05", 0.05)]
        {
            let spec = format!("grafite:L={len}:fpr={rate_text}");
            let filters = filters(&spec, &keys);
            let span = keys[keys.len() - 1] - keys[0];
            let uniform = |i: u64| keys[0] + mix(i + 99) % span;
            let beside = |i: u64| keys[mix(i) as usize % keys.len()] + 1;
            let before = |i: u64| keys[mix(i) as usize % keys.len()].saturating_sub(len);
            let near = |i: u64| keys[mix(i) as usize % keys.len()] + 2 + mix(i) % 300;
            for (query, from) in [
                ("uniform", &uniform as &dyn Fn(u64) -> u64),
                ("beside", &beside),
                ("before", &before),
                ("near", &near),
            ] {
                // The bound holds for every length, not only for the range length of the
                // specification.
                for asked_len in [len, len * 3, len.div_ceil(4)] {
                    let bound = expected * asked_len as f64 / len as f64;
                    let (found, asked) = rate(&filters, &keys, asked_len, from);
                    // The bound allows five standard deviations. Fewer queries would show nothing.
                    let sigma = (bound.min(1.0) * (1.0 - bound.min(1.0)) / asked).sqrt();
                    let what = format!("{name}, {query}, {spec}, {asked_len}");
                    assert!(
                        asked <= 10_000.0 || found <= bound + 5.0 * sigma,
                        "{what}: {found} of {asked}, at most {bound}"
                    );
                    checked += u32::from(asked > 10_000.0);
                }
            }
        }
    }
    assert!(checked > 100, "only {checked} cases asked enough queries");
}

#[test]
fn range_filters_take_the_bits_that_the_paper_states() {
    let mut keys: Vec<u64> = (0..1_000_000).map(|i| mix(i) >> 4).collect();
    keys.sort_unstable();
    for (spec, most) in [("grafite:L=16:fpr=0.01", 12.7), ("grafite:L=1024:fpr=0.01", 18.7), ("grafite:fpr=0.01", 12.7)]
    {
        let bytes = block(spec, keys.iter().map(|key| key.to_be_bytes()));
        let bits = bytes.len() as f64 * 8.0 / keys.len() as f64;
        assert!(bits <= most && bits > most - 1.0, "{spec}: {bits} bits per key");
        let found = open(bytes, Verify::AtOpen).unwrap().expected_fpr();
        assert!((0.0099..=0.0101).contains(&found) || spec == "grafite:fpr=0.01" && found < 0.004, "{spec}: {found}");
    }
    for bits in [9.0, 16.0, 25.0] {
        let bytes = block(&format!("grafite:L=16:{bits}"), keys.iter().map(|key| key.to_be_bytes()));
        let found = bytes.len() as f64 * 8.0 / keys.len() as f64;
        assert!(found <= bits * 1.002 && found > bits * 0.98, "{bits}: {found}");
    }
}

/// Tests scans of one or three neighbouring keys of a store. An SST has a tenth of the store's
/// keys. Its filter must deny nearly all scans of keys that are not in the SST.
#[test]
fn scans_of_absent_neighbouring_keys_are_mostly_denied() {
    for (name, most, key) in [
        ("decimal ids", 0.004, &(|i| format!("user:{:012}:x", mix(i) % 10_000_000_000)) as &dyn Fn(u64) -> String),
        ("two parts", 0.004, &|i| format!("order/customer-{:06}/item-{:08}", mix(i) % 5_000, mix(i + 7) % 1_000_000)),
        ("hexadecimal ids", 0.004, &|i| format!("{:016x}{:016x}", mix(i), mix(i + 1))),
        ("integers", 0.004, &|i| format!("{:08}", mix(i) % 100_000_000)),
        ("words", 0.004, &|i| {
            (0..4 + mix(i) % 9).map(|j| char::from(b"aeinorstlu"[(mix(i * 9 + j) % 10) as usize])).collect()
        }),
    ] {
        let mut all: Vec<String> = (0..60_000).map(key).collect();
        all.sort_unstable();
        all.dedup();
        let in_sst: Vec<bool> = (0..all.len()).map(|i| mix(i as u64 + 99).is_multiple_of(10)).collect();
        let keys: Vec<_> = all.iter().zip(&in_sst).filter(|(_, is_in)| **is_in).map(|(key, _)| key).collect();
        let bytes = block("grafite:fpr=0.01", &keys);
        let bits = bytes.len() as f64 * 8.0 / keys.len() as f64;
        let block = open(bytes, Verify::AtOpen).unwrap();
        for count in [1, 3] {
            let (mut asked, mut wrong) = (0u32, 0u32);
            for (range, is_in) in all.windows(count).zip(in_sst.windows(count)) {
                if !is_in.contains(&true) {
                    asked += 1;
                    let (from, to) = (range[0].as_bytes(), range[count - 1].as_bytes());
                    wrong += u32::from(block.may_contain_range(Included(from), Included(to)));
                }
            }
            let found = f64::from(wrong) / f64::from(asked);
            println!("{name}: {bits:.2} bits per key, {:.2} % of {asked} scans of {count} keys", found * 100.0);
            assert!(found <= most, "{name}: {found} of {asked} scans of {count} keys");
        }
    }
}

#[test]
fn the_measured_range_fpr_is_at_most_the_expected_one() {
    for (fpr, points) in [(0.01, "bloom:10"), (0.1, "bloom:fpr=0.0001"), (0.001, "blocked-bloom:10")] {
        let ranges = spec(&format!("grafite:fpr={fpr}"));
        for options in [FilterOptions::new(ranges), FilterOptions::new(spec(points)).ranges(ranges)] {
            let bytes = built(&options, HashSeed(1), (0..2_000).map(|i| mix(i).to_be_bytes()));
            let block = FilterBlock::open_any(bytes, Verify::AtOpen).unwrap();
            let rate = block.expected_range_fpr().unwrap();
            let mut keys: Vec<u64> = (0..2_000).map(mix).collect();
            keys.sort_unstable();
            let is_maybe = |from: u64, to: u64| {
                block.may_contain_range(Included(&from.to_be_bytes()), Included(&to.to_be_bytes()))
            };
            // Returns the middle third of a gap between two keys, far from both keys.
            let third = |pair: &[u64]| (pair[0] + (pair[1] - pair[0]) / 3, pair[1] - (pair[1] - pair[0]) / 3);
            let wrong = keys.windows(2).map(third).filter(|&(from, to)| is_maybe(from, to)).count();
            let asked = keys.len() as f64 - 1.0;
            assert!((0.1 * fpr..=1.01 * fpr).contains(&rate), "{points} {fpr}: {rate}");
            let bound = rate + 5.0 * (rate / asked).sqrt();
            assert!(wrong as f64 / asked <= bound, "{points} {fpr}: {rate}, {wrong} of {asked}");
        }
        assert_eq!(open(block(points, ["key"]), Verify::AtOpen).unwrap().expected_range_fpr(), None);
    }
}
