//! Tests builders with range filters, and queries for ranges, through the ABI.

use std::ops::Bound::{Excluded, Included, Unbounded};

use super::*;
use filterblock::{Expected, FilterBlock, FilterOptions, HashSeed, KeyHasher, Verify};

const N: u32 = 500;
/// The specification of each builder, and of the range filter that is added to the builder, if any.
const SPECS: [(&str, Option<&str>); 2] = [("grafite:L=64:fpr=0.01", None), ("bloom:10", Some("grafite:L=64:fpr=0.01"))];

fn key(number: u32) -> Vec<u8> {
    format!("key {:08}", number * 1_000).into_bytes()
}

fn builder_with_ranges((spec, ranges): (&str, Option<&str>), hasher: &Hasher) -> Box<Builder> {
    builder_with(spec, hasher, Options { ranges, ..OF_TABLE }).unwrap()
}

/// Builds a filter of [`N`] keys through the ABI.
fn block(specs: (&str, Option<&str>), hasher: &Hasher) -> Vec<u8> {
    let mut builder = builder_with_ranges(specs, hasher);
    (0..N).for_each(|i| add(&mut builder, &key(i)));
    finish(&mut builder).unwrap()
}

/// Asks for a range through an open filter, verified bytes and a set. Returns the answer, and
/// asserts that all three agree. If `has_ranges` is `false`, the set must answer "unfiltered" in
/// place of "maybe".
fn ask(filter: &Open, bytes: &[u8], hasher: &Hasher, lower: &[u8], upper: &[u8], has_ranges: bool) -> bool {
    let expected = expected(hasher);
    let mut set = filterblock_set_new(Some(hasher)).unwrap();
    let (from, to) = ((pointer(lower), lower.len()), (pointer(upper), upper.len()));
    // SAFETY: the pointers are valid.
    let (verified, answer) = unsafe {
        let slot = filterblock_set_insert(Some(&mut set), filter.0);
        (
            filterblock_verified_ask_range(pointer(bytes), bytes.len(), Some(&expected), from.0, from.1, to.0, to.1),
            filterblock_set_ask_range(Some(&set), slot, from.0, from.1, to.0, to.1),
        )
    };
    filterblock_set_free(Some(set));
    let maybe = filter.may_contain_range(lower, upper);
    assert_eq!(maybe, verified != AnswerCode::No);
    let unfiltered = if has_ranges { AnswerCode::Maybe } else { AnswerCode::Unfiltered };
    assert_eq!(answer, if maybe { unfiltered } else { AnswerCode::No });
    maybe
}

#[test]
fn ranges_are_built_and_answered_as_in_rust() {
    let hasher = hasher();
    for specs in SPECS {
        let bytes = block(specs, &hasher);
        let own = KeyHasher::xxh3(HashSeed(SEED));
        let mut options = FilterOptions::new(specs.0.parse().unwrap()).table_id(TABLE);
        if let Some(ranges) = specs.1 {
            options = options.ranges(ranges.parse().unwrap());
        }
        let mut builder = options.builder(&own).unwrap();
        (0..N).for_each(|i| builder.add(builder.hasher().key(&key(i))));
        assert!(bytes == builder.finish().unwrap().bytes, "{specs:?}");

        let in_rust = FilterBlock::open(bytes.as_slice(), &Expected::of_table(TABLE, &own), Verify::AtOpen).unwrap();
        let filter = Open::copied(&bytes, &expected(&hasher), FILTERBLOCK_VERIFY_AT_OPEN).unwrap();
        let mut denied = 0;
        for i in 0..N {
            let (at, inside) = (key(i), [&key(i)[..], b"\0"].concat());
            assert!(filter.may_contain(&at));
            // The lower bound is included, and the upper bound is not.
            assert!(ask(&filter, &bytes, &hasher, &at, &inside, true), "{specs:?}, key {i}");
            assert!(ask(&filter, &bytes, &hasher, &at[..5], &inside, true));
            assert!(ask(&filter, &bytes, &hasher, &at, b"", true));
            for (lower, upper) in [(i * 1_000 + 1, i * 1_000 + 40), (i * 1_000 + 400, i * 1_000 + 1_000)] {
                let (lower, upper) = (format!("key {lower:08}"), format!("key {upper:08}"));
                let (lower, upper) = (lower.as_bytes(), upper.as_bytes());
                let maybe = ask(&filter, &bytes, &hasher, lower, upper, true);
                assert_eq!(maybe, in_rust.may_contain_range(Included(lower), Excluded(upper)));
                denied += u32::from(!maybe);
            }
        }
        assert!(denied > N, "{specs:?}: {denied}");
        assert!(ask(&filter, &bytes, &hasher, b"", b"", true) && in_rust.may_contain_range(Unbounded, Unbounded));
        assert!(!ask(&filter, &bytes, &hasher, b"l", b"", true) && !ask(&filter, &bytes, &hasher, b"", b"k", true));
    }
}

#[test]
fn ranges_are_answered_by_partitions() {
    let hasher = hasher();
    // SAFETY: the pointers are valid.
    let bytes = unsafe {
        let spec = c"grafite:L=64:fpr=0.01".as_ptr();
        let new = |options: &_| filterblock_partitioned_new(spec, Some(&hasher), Some(options), 100, ptr::null_mut());
        let mut builder = OF_TABLE.with(new).unwrap();
        for key in (0..N).map(key) {
            filterblock_partitioned_add(Some(&mut builder), pointer(&key), key.len());
        }
        let bytes = take(filterblock_partitioned_finish(Some(&mut builder), ptr::null_mut()).unwrap());
        filterblock_partitioned_free(Some(builder));
        bytes
    };
    let filter = Open::copied(&bytes, &expected(&hasher), FILTERBLOCK_VERIFY_AT_OPEN).unwrap();
    let may_contain = |lower: &[u8], upper: &[u8]| filter.may_contain_range(lower, upper);
    let mut denied = 0;
    for i in 0..N {
        assert!(filter.may_contain(&key(i)) && may_contain(&key(i), &[&key(i)[..], b"\0"].concat()));
        assert!(may_contain(&key(i), b"") && may_contain(b"", &key(i + 1)));
        let (lower, upper) = (format!("key {:08}", i * 1_000 + 1), format!("key {:08}", i * 1_000 + 40));
        denied += u32::from(!may_contain(lower.as_bytes(), upper.as_bytes()));
    }
    assert!(denied > N / 2 && !may_contain(b"l", b""), "{denied}");
}

#[test]
fn misused_ranges_answer_maybe() {
    let hasher = hasher();
    let bytes = block(SPECS[1], &hasher);
    let filter = Open::copied(&bytes, &expected(&hasher), FILTERBLOCK_VERIFY_AT_OPEN).unwrap();
    let mut set = filterblock_set_new(Some(&hasher)).unwrap();
    let data = (pointer(&bytes), bytes.len());
    let wanted = expected(&hasher);
    // SAFETY: the pointers are NULL or valid, or the lengths are impossible.
    unsafe {
        let slot = filterblock_set_insert(Some(&mut set), filter.0);
        let (l, m, none) = (pointer(b"l"), pointer(b"m"), ptr::null());
        assert!(!filterblock_filter_may_contain_range(filter.get(), l, 1, m, 1));
        // Bounds that are NULL, impossibly long, swapped, or equal.
        let misused = [(none, 1, m, 1), (l, 1, none, 1), (l, usize::MAX, m, 1), (l, 1, m, usize::MAX), (m, 1, l, 1)];
        for (lower, lower_len, upper, upper_len) in misused.into_iter().chain([(l, 1, l, 1)]) {
            assert!(filterblock_filter_may_contain_range(filter.get(), lower, lower_len, upper, upper_len));
            let answer = filterblock_set_ask_range(Some(&set), slot, lower, lower_len, upper, upper_len);
            assert_eq!(answer, AnswerCode::Unfiltered);
            let (data, len, wanted) = (data.0, data.1, Some(&wanted));
            let answer = filterblock_verified_ask_range(data, len, wanted, lower, lower_len, upper, upper_len);
            assert_eq!(answer, AnswerCode::Unfiltered);
        }
        // An empty bound has no bytes, so its pointer may be NULL.
        assert!(filterblock_filter_may_contain_range(filter.get(), none, 0, none, 0));
        assert!(!filterblock_filter_may_contain_range(filter.get(), l, 1, none, 0));
        assert!(filterblock_filter_may_contain_range(None, l, 1, m, 1));
        assert_eq!(filterblock_verified_ask_range(data.0, data.1, None, l, 1, m, 1), AnswerCode::Unfiltered);
        assert_eq!(filterblock_verified_ask_range(none, 9, Some(&wanted), l, 1, m, 1), AnswerCode::Unfiltered);
        assert_eq!(filterblock_set_ask_range(None, slot, l, 1, m, 1), AnswerCode::Unfiltered);
        let no_slot = Slot { set: 0, index: 0 };
        assert_eq!(filterblock_set_ask_range(Some(&set), no_slot, l, 1, m, 1), AnswerCode::Unfiltered);
    }
    filterblock_set_free(Some(set));

    let mut without_ranges = builder_of_table("bloom:10", &hasher);
    add(&mut without_ranges, b"apple");
    let bytes = finish(&mut without_ranges).unwrap();
    let filter = Open::copied(&bytes, &expected(&hasher), FILTERBLOCK_VERIFY_AT_OPEN).unwrap();
    assert!(ask(&filter, &bytes, &hasher, b"l", b"m", false));
}

#[test]
fn range_builders_with_a_key_hash_do_not_finish() {
    let hasher = hasher();
    for specs in SPECS {
        let mut builder = builder_with_ranges(specs, &hasher);
        add(&mut builder, b"apple");
        filterblock_builder_add_hash(Some(&mut builder), hash(&hasher, b"pear"));
        assert_eq!(finish(&mut builder).unwrap_err().code, Code::Invalid);
        filterblock_builder_clear(Some(&mut builder));
        add(&mut builder, b"apple");
        assert!(finish(&mut builder).is_ok());
    }
}

#[test]
fn range_filters_work_beside_whole_keys_and_prefixes() {
    let hasher = hasher();
    let builder = || {
        let options = Options { extractor: Some("first-5"), ranges: Some("grafite:fpr=0.001"), ..OF_TABLE };
        builder_with("bloom:20", &hasher, options).unwrap()
    };
    let mut sound = builder();
    for key in (0..N).map(key) {
        add(&mut sound, &key);
        add_prefix(&mut sound, &key[..5]);
    }
    let bytes = finish(&mut sound).unwrap();
    let filter = Open::copied(&bytes, &expected(&hasher), FILTERBLOCK_VERIFY_AT_OPEN).unwrap();
    for i in 0..N {
        assert!(filter.may_contain(&key(i)) && filter.may_contain_prefix("first-5", &key(i)[..5]));
        assert!(ask(&filter, &bytes, &hasher, &key(i), b"", true));
    }
    assert!(!filter.may_contain_prefix("first-5", b"other"));
    assert!(!ask(&filter, &bytes, &hasher, b"", b"key 0", true), "the range filter has the prefix as a key");
    // With a range filter, finishing fails if the last added key does not begin with the prefix.
    // The range filter holds only added keys, so it would deny other keys with this prefix.
    let mut misused = builder();
    add(&mut misused, b"apple");
    add_prefix(&mut misused, b"pear");
    assert_eq!(finish(&mut misused).unwrap_err().code, Code::Invalid);
}

#[test]
fn damaged_range_filters_never_deny_a_key() {
    let hasher = hasher();
    for specs in SPECS {
        let sound = block(specs, &hasher);
        let mut opened = 0;
        for at in (0..sound.len()).step_by(7) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            for verify in [FILTERBLOCK_VERIFY_AT_OPEN, FILTERBLOCK_VERIFY_ON_FIRST_TOUCH] {
                let Ok(filter) = Open::copied(&bytes, &expected(&hasher), verify) else { continue };
                opened += 1;
                for i in (0..N).step_by(10) {
                    let maybe = filter.may_contain_range(&key(i), &key(i + 1));
                    assert!(maybe && filter.may_contain(&key(i)), "{specs:?}, byte {at}, key {i}");
                }
            }
        }
        assert!(opened > 0, "{specs:?}");
    }
}
