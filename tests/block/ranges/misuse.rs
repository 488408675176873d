//! Tests that misuse of range filters gives a typed error or the answer "maybe".

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use filterblock::partitions::PartitionIndex;
use filterblock::planning::Plan;
use filterblock::policy::Monkey;
use filterblock::{
    Answer, Error, Expected, FilterBlock, FilterKind, FilterOptions, FilterSet, FilterSpec, SharedBytes, TableFilter,
    VerifiedFilter, Verify, WholeKeys,
};
use filterblock_testkit::blocks::{SPECS, built_in_partitions, index_of, spec};

use super::support::{Keys, TABLE, block, both, forms, hasher, is_empty, is_reversed, open};

fn keys() -> Keys {
    (0..100u32).map(|i| format!("key{i:05}").into_bytes()).collect()
}

#[test]
fn plans_of_range_filters_have_the_bits_of_their_specification() {
    let spec: FilterSpec = "grafite:L=1024:fpr=0.01".parse().unwrap();
    assert_eq!((spec.kind(), spec.to_string().as_str()), (FilterKind::Grafite, "grafite:L=1024:fpr=0.01"));
    assert!((18.6..18.75).contains(&(spec.millibits_per_key() as f64 / 1000.0)), "{}", spec.millibits_per_key());
    assert!((spec.expected_fpr() / 0.01 - 1.0).abs() < 0.01);
    let plan = Plan::new(spec, 1_000_000).unwrap();
    assert!((18.5..18.75).contains(&plan.bits_per_key()) && (plan.expected_fpr() - 0.01).abs() < 1e-6);
    assert!(Plan::new("grafite:L=1000000:fpr=0.000001".parse().unwrap(), 1 << 30).is_err());
    assert!(Plan::largest(FilterKind::Grafite, 1_000, 2_000).unwrap().unwrap().payload_len_bytes() <= 2_000);
    assert!(Monkey::new(FilterKind::Grafite, 10.0).is_err());
}

#[test]
fn a_short_range_length_allows_a_lower_fpr() {
    let spec: FilterSpec = "grafite:L=1:fpr=0.00000000000001".parse().unwrap();
    assert_eq!(spec.to_string(), "grafite:L=1:fpr=0.00000000000001");
    assert!(spec.expected_fpr() <= 1e-14, "{:e}", spec.expected_fpr());
    let block = open(block(&spec.to_string(), keys()), Verify::AtOpen).unwrap();
    assert!(keys().iter().all(|key| block.may_contain_range(Included(key), Included(key))));
    assert!(block.expected_range_fpr().unwrap() <= 1e-14, "{:?}", block.expected_range_fpr());
    // Ranges of 16 integers need more bits for this FPR than a filter may have. Without L, a range
    // has 16 integers.
    for (text, reason) in [
        ("grafite:fpr=1e-14", "the lowest false-positive rate of a range filter without L is 6.1e-14"),
        ("grafite:L=16:fpr=1e-14", "no filter for ranges of this length has such a low FPR"),
        ("grafite:L=1:fpr=1e-15", "no filter for ranges of this length has such a low FPR"),
        ("grafite:L=1:fpr=0", "the false-positive rate must be a number above 0 and below 1"),
        ("grafite:L=1:fpr=NaN", "the false-positive rate must be a number above 0 and below 1"),
        ("grafite:L=1:fpr=one", "the false-positive rate must be a number above 0 and below 1"),
    ] {
        let error = text.parse::<FilterSpec>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("invalid filter {text:?}: {reason}")), "{error}");
    }
}

#[test]
fn a_key_without_its_bytes_is_an_error_at_finish() {
    let ranges = FilterOptions::new("grafite:fpr=0.01".parse().unwrap());
    let both = FilterOptions::new("bloom:10".parse().unwrap()).ranges("grafite:fpr=0.01".parse().unwrap());
    for options in [ranges, both] {
        let mut by_hash = options.builder(hasher()).unwrap();
        by_hash.add(hasher().key(b"first"));
        by_hash.add_hash(hasher().of(b"key"));
        let error = by_hash.finish().unwrap_err();
        assert!(matches!(error, Error::Invalid { what: "keys", .. }), "{error}");
        assert!(options.builder(hasher()).unwrap().finish_compact().is_err());
    }
}

#[test]
fn a_range_filter_beside_prefixes_has_only_whole_keys() {
    let ranges = || FilterOptions::new("bloom:10".parse().unwrap()).ranges("grafite:fpr=0.001".parse().unwrap());
    let both = || ranges().table_id(TABLE).prefixes_by_host("fixed:4", WholeKeys::Too).builder(hasher()).unwrap();
    let hasher = hasher();
    let mut builder = both();
    for key in &keys() {
        builder.add(hasher.key(key));
        builder.add_prefix(hasher.key(&key[..4]));
    }
    let expected = Expected::of_table(TABLE, &hasher).with_prefixes("fixed:4").with_num_entries(100);
    let block = FilterBlock::open(builder.finish().unwrap().bytes, &expected, Verify::AtOpen).unwrap();
    assert!(block.has_ranges(), "{:?}", block.ranges_error());
    let has_prefix = |prefix: &[u8]| block.may_contain_prefix("fixed:4", hasher.key(prefix));
    for key in &keys() {
        assert!(block.may_contain(hasher.key(key)) && has_prefix(&key[..4]));
        assert!(block.may_contain_range(Included(key), Included(key)));
    }
    assert!(has_prefix(b"key0") && !has_prefix(b"key1"));
    assert!(!block.may_contain_range(Included(b""), Excluded(b"key00000")), "a prefix is not a key");
    // The range filter would deny a key that was added only by `add_prefix`.
    let mut misused = both();
    misused.add(hasher.key(b"one key"));
    misused.add_prefix(hasher.key(b"two"));
    assert!(matches!(misused.finish().unwrap_err(), Error::Invalid { what: "keys", .. }));
    let mut first = both();
    first.add_prefix(hasher.key(b""));
    assert!(first.finish().is_err());
    let mut undeclared = ranges().builder(&hasher).unwrap();
    undeclared.add(hasher.key(b"key"));
    undeclared.add_prefix(hasher.key(b"key"));
    assert!(undeclared.finish().is_err());
}

#[test]
fn blocks_without_ranges_answer_maybe() {
    let bytes = block("bloom:10", keys());
    let block = open(bytes, Verify::AtOpen).unwrap();
    assert!(!block.has_ranges() && block.ranges_error().is_none());
    assert!(block.may_contain_range(Included(b"zzz"), Unbounded));
    assert!(!block.may_contain_range(Excluded(b"a"), Included(b"a")), "no key can lie in an empty range");
    let mut set = FilterSet::new(&hasher());
    let bytes = SharedBytes::from(block.as_bytes().to_vec());
    let filters = [TableFilter::from(open(bytes, Verify::AtOpen)), TableFilter::Absent];
    for filter in filters {
        let slot = set.insert(Arc::new(filter));
        assert_eq!(set.ask_range(slot, Included(b"zzz"), Unbounded), Answer::Unfiltered);
    }
}

/// Returns filters of all forms, of 100 keys and of none.
fn blocks_of_all_forms() -> Vec<(String, Vec<u8>)> {
    let mut blocks = Vec::new();
    for keys in [keys(), Keys::new()] {
        for spec in SPECS.into_iter().chain(["grafite:fpr=0.01"]) {
            blocks.push((format!("{spec}, {} keys", keys.len()), block(spec, &keys)));
        }
        for text in ["grafite:fpr=0.01", "bloom:10"] {
            let bytes = built_in_partitions(&FilterOptions::new(spec(text)).table_id(TABLE), hasher(), 9, &keys);
            blocks.push((format!("{text} in partitions, {} keys", keys.len()), bytes));
        }
        blocks.push((format!("both, {} keys", keys.len()), both("bloom:10", "grafite:fpr=0.01", &keys)));
    }
    blocks
}

#[test]
fn reversed_ranges_are_maybe_and_empty_ranges_are_absent() {
    // Bounds among the keys, beyond the keys, in one cell, and without the common prefix.
    let bounds: [(&[u8], &[u8]); 8] = [
        (b"key00031", b"key00030"),
        (b"key00031", b""),
        (b"zzz", b"key00007"),
        (b"zzz", b"zz"),
        (b"b", b"a"),
        (b"key00030zz", b"key00030z"),
        (b"key00030", b"key0003"),
        (b"\0\0", b"\0"),
    ];
    let hasher = hasher();
    let expected = Expected::of_table(TABLE, &hasher);
    for (name, bytes) in blocks_of_all_forms() {
        let mut damaged = bytes.clone();
        damaged[0] ^= 1;
        let lazy = [bytes.as_slice(), &damaged].map(|bytes| FilterBlock::open(bytes, &expected, Verify::OnFirstTouch));
        let opened = [FilterBlock::open(bytes.as_slice(), &expected, Verify::AtOpen)].into_iter().chain(lazy);
        let mut set = FilterSet::new(&hasher);
        let filter = Arc::new(TableFilter::from(open(SharedBytes::from(bytes.clone()), Verify::AtOpen)));
        let slot = set.insert(Arc::clone(&filter));
        let verified = VerifiedFilter::open(&bytes, &expected);
        let index = PartitionIndex::open(index_of(&bytes), &expected);
        let parts = index.iter().flat_map(|index| {
            index.iter().map(|entry| {
                let part = &bytes[entry.byte_range.start as usize..entry.byte_range.end as usize];
                index.open_partition(entry.number, part, Verify::AtOpen).unwrap()
            })
        });
        let (opened, parts): (Vec<_>, Vec<_>) = (opened.flatten().collect(), parts.collect());
        for (upper, lower) in bounds {
            let (reversed, empty) = (forms(upper, lower), forms(lower, lower));
            for (lower, upper) in reversed.into_iter().filter(|(lower, upper)| is_reversed(*lower, *upper)) {
                assert!(
                    opened.iter().all(|block| block.may_contain_range(lower, upper)),
                    "{name}: {lower:?} {upper:?}"
                );
                assert!(parts.iter().all(|part| part.may_contain_range(lower, upper)), "{name}: {lower:?} {upper:?}");
                assert!(set.ask_range(slot, lower, upper) != Answer::No);
                assert!(verified.iter().all(|filter| filter.may_contain_range(lower, upper)), "{name}");
            }
            for (lower, upper) in empty.into_iter().filter(|(lower, upper)| is_empty(*lower, *upper)) {
                assert!(
                    !opened.iter().any(|block| block.may_contain_range(lower, upper)),
                    "{name}: {lower:?} {upper:?}"
                );
                assert!(!parts.iter().any(|part| part.may_contain_range(lower, upper)), "{name}: {lower:?} {upper:?}");
                assert!(!verified.iter().any(|filter| filter.may_contain_range(lower, upper)), "{name}");
                let answer = if filter.ready().unwrap().has_ranges() { Answer::No } else { Answer::Unfiltered };
                assert_eq!(set.ask_range(slot, lower, upper), answer);
            }
        }
    }
}

#[test]
fn a_range_filter_answers_keys_but_not_hashes() {
    let filter = TableFilter::from(open(block("grafite:L=16:fpr=0.01", keys()), Verify::AtOpen));
    assert_eq!(filter.ask(hasher().key(b"key00007")), Answer::Maybe);
    assert_eq!(filter.ask(hasher().key(b"zzz")), Answer::No);
    let block = filter.ready().unwrap();
    assert!(
        block.may_contain_hash(hasher().of(b"zzz")) && block.may_contain_prefix("fixed:8", block.hasher().key(b"zzz"))
    );
    let mut answers = [false; 2];
    block.may_contain_batch(&[hasher().of(b"a"), hasher().of(b"b")], &mut answers);
    assert_eq!(answers, [true; 2]);
}

#[test]
fn a_range_filter_without_keys_denies_everything() {
    let block = open(block("grafite:fpr=0.01", Keys::new()), Verify::AtOpen).unwrap();
    assert_eq!(block.metadata().kind, FilterKind::Empty);
    assert!(!block.may_contain_range(Unbounded, Unbounded) && !block.may_contain(block.hasher().key(b"")));
}
