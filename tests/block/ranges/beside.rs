//! Tests blocks that have a range filter beside a filter for keys.

use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use filterblock::layout::stated_len_bytes;
use filterblock::{
    Answer, CachedFilter, Error, Expected, Field, FilterCache, FilterKind, FilterOptions, FilterSet, SharedBytes,
    TableFilter, VerifiedFilter, Verify,
};

use filterblock_testkit::blocks::built;

use super::key_sets::mix;
use super::support::{Keys, TABLE, block, both, hasher, open};

fn keys(n: u64) -> Keys {
    (0..n).map(|i| mix(i).to_be_bytes().to_vec()).collect()
}

/// Returns the length of the range filter's block, without and with the padding after it.
fn lengths(bytes: &[u8]) -> (usize, usize) {
    let ranges = open(bytes, Verify::AtOpen).unwrap().metadata().ranges_len_bytes as usize;
    (ranges, ranges.next_multiple_of(64))
}

#[test]
fn each_filter_opens_alone() {
    let keys = keys(2_000);
    for points in ["bloom:10", "blocked-bloom:10", "bumped-ribbon:8", "binary-fuse:8", "always-maybe"] {
        let bytes = both(points, "grafite:fpr=0.01", &keys);
        let (len, start) = lengths(&bytes);
        assert!(bytes[..len] == block("grafite:fpr=0.01", &keys), "{points}: the bytes of the range filter differ");
        let ranges = open(&bytes[..len], Verify::AtOpen).unwrap();
        assert_eq!(ranges.metadata().kind, FilterKind::Grafite);
        assert_eq!(stated_len_bytes(&bytes), Some(stated_len_bytes(&bytes[start..]).unwrap()));
        assert!(stated_len_bytes(&bytes).unwrap() <= (bytes.len() - start) as u64);
        let alone = open(&bytes[start..], Verify::AtOpen).unwrap();
        assert!(!alone.has_ranges() && alone.ranges_error().is_none());
        let whole = open(bytes.as_slice(), Verify::AtOpen).unwrap();
        assert_eq!(whole.metadata().block_len_bytes, bytes.len() as u64);
        for key in &keys {
            assert!(
                whole.may_contain(whole.hasher().key(key)) && alone.may_contain(alone.hasher().key(key)),
                "{points}"
            );
            assert!(whole.may_contain_range(Included(key), Included(key)), "{points}");
            assert!(alone.may_contain_range(Included(key), Included(key)), "{points}");
        }
        let absent = |i: u64| mix(i + 1_000_000).to_be_bytes();
        let answers = |block: &filterblock::FilterBlock<&[u8]>| {
            (0..500).filter(|&i| block.may_contain(block.hasher().key(&absent(i)))).count()
        };
        assert_eq!(answers(&whole), answers(&alone), "{points}");
        let denied =
            |i: u64| !whole.may_contain_range(Included(&absent(i)), Included(&(mix(i + 1_000_000) | 15).to_be_bytes()));
        assert!((0..500).filter(|&i| denied(i)).count() > 450, "{points}");
        assert!(whole.may_contain_range(Included(&[0]), Unbounded));
    }
}

#[test]
fn a_damaged_range_filter_leaves_the_other_usable() {
    let keys = keys(2_000);
    let bytes = both("blocked-bloom:10", "grafite:fpr=0.01", &keys);
    let (len, start) = lengths(&bytes);
    for at in (0..start).step_by(37).chain([len - 1, len.min(start - 1), start - 1]) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let whole = open(damaged.as_slice(), Verify::AtOpen).unwrap();
        assert!(!whole.has_ranges() && whole.ranges_error().is_some(), "byte {at}");
        let lazy = open(damaged.as_slice(), Verify::OnFirstTouch).unwrap();
        let hasher = hasher();
        let expected = Expected::of_table(TABLE, &hasher);
        let verified = VerifiedFilter::open(&damaged, &expected).unwrap();
        let mut set = FilterSet::new(&hasher);
        let shared = open(SharedBytes::from(damaged.clone()), Verify::AtOpen);
        let slot = set.insert(Arc::new(TableFilter::from(shared)));
        for key in keys.iter().step_by(40) {
            let range = (Included(key.as_slice()), Included(key.as_slice()));
            assert!(whole.may_contain(whole.hasher().key(key)) && whole.may_contain_range(range.0, range.1));
            assert!(lazy.may_contain(lazy.hasher().key(key)) && lazy.may_contain_range(range.0, range.1), "byte {at}");
            assert!(verified.may_contain(verified.hasher().key(key)));
            assert_eq!(set.ask_range(slot, range.0, range.1), Answer::Unfiltered);
        }
        assert_eq!(set.counts().unfiltered_answers, 50);
        let found = whole.verify_pages().unwrap_err();
        assert_eq!(found.to_string(), whole.ranges_error().unwrap().to_string(), "byte {at}");
        assert!(lazy.verify_pages().is_err(), "byte {at}");
    }
}

#[test]
fn a_foreign_or_stale_range_filter_is_refused() {
    let (old, new) = (keys(1_000), keys(1_200));
    let bytes = both("bloom:10", "grafite:fpr=0.01", &new);
    let (len, start) = lengths(&bytes);
    // A sound filter of another block, or the end of such a filter, replaces the range filter.
    for (spec, keys) in [("grafite:L=16:fpr=0.01", &old), ("grafite:fpr=0.04", &new), ("bloom:10", &new)] {
        let other = block(spec, keys);
        let mut mixed = bytes.clone();
        let mut front = vec![0; start];
        if other.len() <= len {
            front[len - other.len()..len].copy_from_slice(&other);
        } else {
            front[..len].copy_from_slice(&other[other.len() - len..]);
        }
        mixed[..start].copy_from_slice(&front);
        let opened = open(mixed.as_slice(), Verify::AtOpen).unwrap();
        assert!(!opened.has_ranges(), "{spec}");
        assert!(new.iter().all(|key| opened.may_contain(opened.hasher().key(key))
            && opened.may_contain_range(Included(key), Included(key))));
    }
    // This range filter has the same keys, but another table id.
    let options = FilterOptions::new("grafite:fpr=0.01".parse().unwrap()).table_id(*b"another table id");
    let other = built(&options, hasher(), &new);
    assert_eq!(other.len(), len);
    let mut mixed = bytes.clone();
    mixed[..len].copy_from_slice(&other);
    let opened = open(mixed, Verify::AtOpen).unwrap();
    assert!(matches!(opened.ranges_error(), Some(Error::ChecksumMismatch { field: Field::Ranges, .. })));
}

#[test]
fn damaged_pages_of_both_filters_are_counted() {
    let keys = keys(20_000);
    let mut bytes = both("blocked-bloom:10", "grafite:fpr=0.01", &keys);
    let (len, start) = lengths(&bytes);
    let last = bytes.len();
    for page in (0..len - 4_096).step_by(4_096).chain((start..last - 4_096).step_by(4_096)) {
        bytes[page + 100] ^= 1;
    }
    let block = open(bytes, Verify::OnFirstTouch).unwrap();
    assert!(keys.iter().all(|key| block.may_contain(block.hasher().key(key))));
    let absent = |i: u64| (mix(i + 1_000_000).to_be_bytes(), (mix(i + 1_000_000) | 15).to_be_bytes());
    (0..20_000).for_each(|i| _ = block.may_contain(block.hasher().key(&absent(i).0)));
    let of_keys = block.damaged_pages();
    assert!(keys.iter().all(|key| block.may_contain_range(Included(key), Included(key))));
    (0..20_000).for_each(|i| _ = block.may_contain_range(Included(&absent(i).0), Included(&absent(i).1)));
    assert!(of_keys > 0 && block.damaged_pages() > of_keys, "{of_keys}");
}

#[test]
fn a_copy_keeps_as_many_columns_as_fit_without_the_ranges() {
    let keys = keys(4_000);
    for spec in ["bumped-ribbon:8", "bumped-ribbon:fpr=0.01", "bumped-ribbon:16:compact"] {
        let bytes = both(spec, "grafite:L=1024:fpr=0.01", &keys);
        let whole = open(bytes.as_slice(), Verify::AtOpen).unwrap();
        let alone = block(spec, &keys);
        let points = open(alone.as_slice(), Verify::AtOpen).unwrap();
        let lens = [bytes.len() - 1, alone.len() + 1, alone.len(), alone.len() - 1, alone.len() / 2, 0];
        for max_len in lens.map(|len| len as u64) {
            let copy = whole.shrunk_to(max_len).unwrap().expect("a smaller filter");
            assert!(!copy.has_ranges(), "{spec} {max_len}");
            for key in &keys {
                assert!(copy.may_contain(copy.hasher().key(key)), "{spec} {max_len}");
                assert!(copy.may_contain_range(Included(key), Included(key)), "{spec} {max_len}");
            }
            // The copy equals the filter for keys that was built alone, or a shrunk copy of that
            // filter.
            let shrunk = points.shrunk_to(max_len).unwrap();
            let expected = shrunk.map_or_else(|| alone.clone(), |copy| copy.as_bytes().to_vec());
            assert!(copy.as_bytes() == expected, "{spec} {max_len}");
        }
    }
}

#[test]
fn a_cache_drops_ranges_before_columns() {
    let (keys, hasher) = (keys(2_000), hasher());
    let bytes = both("bumped-ribbon:8", "grafite:L=1024:fpr=0.01", &keys);
    let (len, whole) = (bytes.len() as u64, open(bytes.as_slice(), Verify::AtOpen).unwrap());
    let rates_of = |percent: u64| {
        let cache = FilterCache::new(40 * len * percent / 100);
        let filters = [(); 40].map(|()| {
            let bytes = bytes.clone();
            let read = move |to: &mut [u8]| -> std::io::Result<()> {
                to.copy_from_slice(&bytes);
                Ok(())
            };
            Arc::new(CachedFilter::new(&cache, len, &Expected::of_table(TABLE, &hasher), read))
        });
        for round in 0..5 {
            let mut set = FilterSet::new(&hasher);
            let slots = filters.each_ref().map(|filter| set.insert_cached(filter.clone()));
            for slot in slots {
                keys.iter().for_each(|key| assert_ne!(set.ask(slot, hasher.key(key)), Answer::No));
            }
            assert!(cache.counts().bytes <= cache.counts().max_bytes);
            if round < 4 {
                cache.rebalance();
            }
        }
        let loaded = filters.each_ref().map(|filter| filter.loaded().unwrap());
        let with_ranges = loaded.iter().filter(|filter| filter.ready().unwrap().has_ranges()).count();
        let rate = |filter: &Arc<TableFilter<SharedBytes>>| filter.ready().unwrap().expected_fpr();
        (with_ranges, loaded.iter().map(rate).fold(0.0, f64::max))
    };
    let same = whole.expected_fpr();
    assert_eq!(rates_of(110), (40, same));
    let (with_ranges, rate) = rates_of(80);
    assert!((15..40).contains(&with_ranges) && rate == same, "{with_ranges} {rate}");
    let (with_ranges, rate) = rates_of(30);
    assert!(with_ranges == 0 && rate > same && rate < 5.0 * same, "{with_ranges} {rate}");
}

#[test]
fn a_set_asks_the_filter_beside_a_range_filter() {
    let keys = keys(2_000);
    let hasher = hasher();
    let mut set = FilterSet::new(&hasher);
    let opened = open(SharedBytes::from(both("blocked-bloom:10", "grafite:fpr=0.01", &keys)), Verify::AtOpen);
    let slot = set.insert(Arc::new(TableFilter::from(opened)));
    assert!(keys.iter().all(|key| set.ask_hash(slot, hasher.of(key)) == Answer::Maybe));
    let maybe =
        (0..2_000).filter(|&i| set.ask_hash(slot, hasher.of(&mix(i + 50_000).to_be_bytes())) == Answer::Maybe).count();
    assert!(maybe < 60, "{maybe}");
    assert_eq!(set.counts().unfiltered_answers, 0);
}
