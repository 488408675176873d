//! Tests that many ranges with a key are never denied.

use std::ops::Bound::{Excluded, Included};

use filterblock::Verify;

use super::key_sets::mix;
use super::support::{block, open};

/// Builds a filter of up to 200,000 keys, and asks for `count` ranges with at least one of the
/// keys. Returns the number of denied ranges.
fn denied(spec: &str, count: u64, key: &dyn Fn(u64) -> u64) -> u64 {
    let mut keys: Vec<u64> = (0..200_000).map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    let block = open(block(spec, keys.iter().map(|key| key.to_be_bytes())), Verify::AtOpen).unwrap();
    let denied = (0..count).filter(|&i| {
        let random = mix(i);
        let key = keys[random as usize % keys.len()];
        // A range has from one to about 2^31 integers. The key may lie anywhere in the range.
        let len = (random >> 32) >> ((random >> 58) % 33);
        let before = if len == 0 { 0 } else { mix(random) % (len + 1) };
        let (from, to) = (key.saturating_sub(before), key.saturating_add(len - before));
        let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
        let upper = if i % 2 == 0 || to == key.to_be_bytes() { Included(&to[..]) } else { Excluded(&to[..]) };
        !block.may_contain_range(Included(&from), upper)
    });
    denied.count() as u64
}

fn check(count: u64) {
    let sets: [(&str, &dyn Fn(u64) -> u64); 5] = [
        ("random", &mix),
        ("sequential", &|i| i + 1_000),
        ("every 1,000th", &|i| i * 1_000),
        ("clusters", &|i| (mix(i / 100) & !0xfff) + mix(i) % 3_000),
        ("an outlier", &|i| if i == 0 { 1 << 33 } else { i * 2 }),
    ];
    for (name, key) in sets {
        for spec in ["grafite:L=16:fpr=0.01", "grafite:fpr=0.01"] {
            assert_eq!(denied(spec, count / 10, key), 0, "{name}, {spec}");
        }
    }
}

#[test]
fn a_million_ranges_that_hold_a_key_are_never_denied() {
    check(1_000_000);
}

#[test]
#[ignore = "asks for 10^8 ranges, which takes about a minute"]
fn a_hundred_million_ranges_that_hold_a_key_are_never_denied() {
    check(100_000_000);
}

/// Tests a filter with larger positions of bits than the filters of the other tests.
#[test]
fn keys_of_a_filter_of_two_million_keys_are_never_denied() {
    let mut keys: Vec<u64> = (0..2_000_000).map(mix).collect();
    keys.sort_unstable();
    let keys = || keys.iter().map(|key| key.to_be_bytes());
    let block = open(block("grafite:L=16:fpr=0.01", keys()), Verify::AtOpen).unwrap();
    for key in keys() {
        assert!(block.may_contain_range(Included(&key), Included(&key)), "{key:02x?}");
    }
}
