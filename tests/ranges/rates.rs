//! Tests the FPR and the size of range filters. Let a filter with a range length (`L=`) have `n` keys
//! and codes below `universe`. For queries of `l` integers, its mean FPR over all seeds is at most
//! `l * n / universe`.

use std::ops::Bound::Included;

use filterblock::{FilterOptions, HashSeed, Verify};

use super::key_sets::mix;
use super::support::{TABLE, open};

/// Asks 40 filters with different seeds for ranges of `len` integers without a key. `from` gives
/// the start of each range. Returns the FPR and the number of queries.
fn rate(spec: &str, keys: &[u64], len: u64, from: &dyn Fn(u64) -> u64) -> (f64, f64) {
    let (mut asked, mut wrong) = (0u32, 0u32);
    for seed in 0..40 {
        let hasher = filterblock::KeyHasher::xxh3(HashSeed(mix(seed)));
        let mut builder = FilterOptions::new(spec.parse().unwrap()).table_id(TABLE).builder(&hasher).unwrap();
        keys.iter().for_each(|key| builder.add(builder.hasher().key(&key.to_be_bytes())));
        let bytes = builder.finish().unwrap().bytes;
        let expected = filterblock::Expected::of_table(TABLE, &hasher);
        let block = filterblock::FilterBlock::open(bytes, &expected, Verify::AtOpen).unwrap();
        for i in 0..3_000 {
            let lower = from(i);
            let upper = lower.saturating_add(len - 1);
            let next = keys.partition_point(|&key| key < lower);
            if keys.get(next).is_some_and(|&key| key <= upper) {
                continue;
            }
            asked += 1;
            wrong += u32::from(block.may_contain_range(Included(&lower.to_be_bytes()), Included(&upper.to_be_bytes())));
        }
    }
    (f64::from(wrong) / f64::from(asked), f64::from(asked))
}

/// Asserts that a measured FPR exceeds `bound` by at most five standard deviations, and that enough
/// queries were asked.
fn assert_below(what: &str, (rate, asked): (f64, f64), bound: f64) {
    let sigma = (bound.min(1.0) * (1.0 - bound.min(1.0)) / asked).sqrt();
    assert!(asked > 10_000.0 && rate <= bound + 5.0 * sigma, "{what}: {rate} of {asked}, at most {bound}");
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
    for (name, keys) in key_sets() {
        let keys = {
            let mut keys = keys;
            keys.sort_unstable();
            keys
        };
        for (len, rate_text, expected) in
            [(16, "0.01", 0.01), (1_024, "0.01", 0.01), (16, "0.2", 0.2), (1, "0.05", 0.05)]
        {
            let spec = format!("grafite:L={len}:fpr={rate_text}");
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
                    let found = rate(&spec, &keys, asked_len, from);
                    if found.1 > 10_000.0 {
                        assert_below(&format!("{name}, {query}, {spec}, {asked_len}"), found, bound);
                    }
                }
            }
        }
    }
}

#[test]
fn range_filters_take_the_bits_that_the_paper_states() {
    let mut keys: Vec<u64> = (0..1_000_000).map(|i| mix(i) >> 4).collect();
    keys.sort_unstable();
    for (spec, most) in [("grafite:L=16:fpr=0.01", 12.7), ("grafite:L=1024:fpr=0.01", 18.7), ("grafite:fpr=0.01", 12.7)]
    {
        let mut builder = super::support::builder(spec);
        keys.iter().for_each(|key| builder.add(builder.hasher().key(&key.to_be_bytes())));
        let bytes = builder.finish().unwrap().bytes;
        let bits = bytes.len() as f64 * 8.0 / keys.len() as f64;
        assert!(bits <= most && bits > most - 1.0, "{spec}: {bits} bits per key");
        let found = open(bytes, Verify::AtOpen).unwrap().expected_fpr();
        assert!((0.0099..=0.0101).contains(&found) || spec == "grafite:fpr=0.01" && found < 0.004, "{spec}: {found}");
    }
    for bits in [9.0, 16.0, 25.0] {
        let mut builder = super::support::builder(&format!("grafite:L=16:{bits}"));
        keys.iter().for_each(|key| builder.add(builder.hasher().key(&key.to_be_bytes())));
        let found = builder.finish().unwrap().bytes.len() as f64 * 8.0 / keys.len() as f64;
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
        let keys =
            all.iter().zip(&in_sst).filter(|(_, is_in)| **is_in).map(|(key, _)| key.clone().into_bytes()).collect();
        let bytes = super::support::block("grafite:fpr=0.01", &keys);
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
        let ranges: filterblock::FilterSpec = format!("grafite:fpr={fpr}").parse().unwrap();
        let alone = FilterOptions::new(ranges).builder(HashSeed(1)).unwrap();
        let beside = FilterOptions::new(points.parse().unwrap()).ranges(ranges).builder(HashSeed(1)).unwrap();
        for mut builder in [alone, beside] {
            (0..2_000).for_each(|i| builder.add(builder.hasher().key(&mix(i).to_be_bytes())));
            let block = filterblock::FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap();
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
        let mut none = FilterOptions::new(points.parse().unwrap()).builder(HashSeed(1)).unwrap();
        none.add(none.hasher().key(b"key"));
        let block = filterblock::FilterBlock::open_any(none.finish().unwrap().bytes, Verify::AtOpen).unwrap();
        assert_eq!(block.expected_range_fpr(), None);
    }
}
