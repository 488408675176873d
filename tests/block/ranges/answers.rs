//! Tests the answers of range filters, and compares them with a sorted set of the same keys.

use std::ops::Bound::{self, Included, Unbounded};
use std::sync::Arc;

use filterblock::{Answer, Expected, FilterSet, SharedBytes, TableFilter, VerifiedFilter, Verify};

use super::key_sets::{all, mix};
use super::support::{Keys, TABLE, block, both, forms, hasher, holds_key, is_empty, is_reversed, near, open};

/// The specifications of the tested range filters. With 3 bits per key, stretches are so short that
/// the number of a stretch may need more than 60 bits.
const SPECS: [&str; 5] =
    ["grafite:fpr=0.01", "grafite:L=16:fpr=0.01", "grafite:L=1024:fpr=0.001", "grafite:4", "grafite:L=1:3"];

/// Returns bounds near some of the keys, and fixed bounds.
fn limits(keys: &Keys, count: usize) -> Vec<Vec<u8>> {
    let step = (keys.len() / count).max(1);
    let mut limits: Vec<Vec<u8>> = keys.iter().step_by(step).flat_map(|key| near(key)).collect();
    limits.extend(keys.last().into_iter().chain(keys.first()).flat_map(|key| near(key)));
    limits.extend([Vec::new(), vec![0], vec![0; 700], vec![0xff; 9], vec![0xff; 700], b"zzz".to_vec()]);
    limits
}

/// Asks a block, a verified filter and a filter set of the same bytes for ranges between the
/// limits. Asserts that the answers are equal, never deny a key, deny empty
/// ranges, and never deny reversed ranges.
fn check(name: &str, bytes: &[u8], keys: &Keys, limits: &[Vec<u8>]) {
    let block = open(bytes, Verify::AtOpen).unwrap();
    let lazy = open(bytes, Verify::OnFirstTouch).unwrap();
    assert!(block.has_ranges() && lazy.has_ranges(), "{name}");
    let hasher = hasher();
    let expected = Expected::of_table(TABLE, &hasher);
    let verified = VerifiedFilter::open(bytes, &expected).unwrap();
    let mut set = FilterSet::new(&hasher);
    let shared = open(SharedBytes::from(bytes.to_vec()), Verify::AtOpen);
    let slot = set.insert(Arc::new(TableFilter::from(shared)));
    for (i, from) in limits.iter().enumerate() {
        // Asks for all pairs of near limits, and for some pairs of distant limits.
        for to in limits.iter().skip(i.saturating_sub(9)).take(18).chain(limits.iter().step_by(41)) {
            for (lower, upper) in forms(from, to) {
                let answer = block.may_contain_range(lower, upper);
                let holds = holds_key(keys, lower, upper);
                assert!(answer || !holds, "{name}: {lower:02x?}, {upper:02x?} was denied");
                assert!(!answer || !is_empty(lower, upper), "{name}: {lower:02x?}, {upper:02x?} is empty");
                assert!(answer || !is_reversed(lower, upper), "{name}: {lower:02x?}, {upper:02x?} is reversed");
                assert_eq!(answer, lazy.may_contain_range(lower, upper), "{name}: {lower:02x?}, {upper:02x?}");
                assert_eq!(answer, verified.may_contain_range(lower, upper), "{name}: {lower:02x?}, {upper:02x?}");
                assert_eq!(Answer::from(answer), set.ask_range(slot, lower, upper), "{name}");
            }
        }
    }
    assert_eq!((lazy.damaged_pages(), set.counts().unfiltered_answers), (0, 0), "{name}");
}

#[test]
fn range_filters_agree_with_a_sorted_set() {
    for n in [40, 500] {
        for (name, keys) in all(n, 3) {
            for spec in SPECS {
                check(&format!("{name}, {spec}"), &block(spec, &keys), &keys, &limits(&keys, 14));
            }
            check(name, &both("bloom:10", SPECS[0], &keys), &keys, &limits(&keys, 10));
        }
    }
}

#[test]
fn queries_for_keys_are_queries_for_ranges_of_one_key() {
    for ((name, keys), spec) in
        all(500, 5).iter().flat_map(|set| [(set, "grafite:L=16:fpr=0.01"), (set, "grafite:L=1:3")])
    {
        let bytes = block(spec, keys);
        let block = open(bytes.as_slice(), Verify::AtOpen).unwrap();
        let hasher = hasher();
        let expected = Expected::of_table(TABLE, &hasher);
        let verified = VerifiedFilter::open(&bytes, &expected).unwrap();
        for key in keys.iter().flat_map(|key| near(key)) {
            let answer = block.may_contain(block.hasher().key(&key));
            assert!(answer || !keys.contains(&key), "{name}: {key:02x?}");
            assert_eq!(answer, block.may_contain_range(Included(&key), Included(&key)), "{name}");
            assert_eq!(answer, verified.may_contain(verified.hasher().key(&key)), "{name}");
            // A hash does not tell the position of a key in the order, so the answer is "maybe".
            assert!(block.may_contain_hash(hasher.of(&key)) || keys.is_empty(), "{name}");
        }
    }
}

#[test]
fn most_absent_keys_of_random_bytes_are_denied() {
    for len in [9, 12, 16] {
        let id = |i: u64| (0..len).map(|j| mix(i * 16 + j) as u8).collect::<Vec<_>>();
        let block = open(block("grafite:L=16:fpr=0.01", (0..1_000).map(id)), Verify::AtOpen).unwrap();
        // The FPR of a single key is about a sixteenth of the FPR of a range of 16 integers.
        let maybe = (1_000..11_000).filter(|&i| block.may_contain(block.hasher().key(&id(i)))).count();
        assert!(maybe < 50, "{maybe} of 10,000 absent keys of {len} bytes");
    }
}

#[test]
fn ranges_beyond_the_ends_are_denied() {
    for (name, keys) in all(300, 9) {
        let bytes = block("grafite:fpr=0.01", &keys);
        let block = open(bytes, Verify::AtOpen).unwrap();
        assert_eq!(block.may_contain_range(Unbounded, Unbounded), !keys.is_empty(), "{name}");
        if let (Some(first), Some(last)) = (keys.first(), keys.last())
            && last.len() < 200
            && name != "a long common prefix"
        {
            // This bound is above all keys, unless the last key begins with 0xff.
            let above = vec![0xff; 300];
            assert!(!block.may_contain_range(Included(&above), Unbounded) || *last >= above[..1].to_vec(), "{name}");
            assert!(!block.may_contain_range(Unbounded, Bound::Excluded(&[])), "{name}");
            assert!(block.may_contain_range(Included(first), Included(first)), "{name}");
            assert!(block.may_contain_range(Included(last), Unbounded), "{name}");
        }
    }
}

#[test]
fn keys_in_any_order_give_the_same_bytes() {
    for (name, keys) in all(100, 11) {
        let mut shuffled = Vec::from_iter(&keys);
        shuffled.sort_by_key(|key| hasher().of(key).raw());
        // Some keys come again much later.
        shuffled.extend(keys.iter().take(50));
        assert!(block("grafite:fpr=0.01", shuffled) == block("grafite:fpr=0.01", &keys), "{name}");
    }
}
