//! Tests the policy through SlateDB's traits, without the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use filterblock::{FilterOptions, FilterSpec, HashSeed, KeyHasher, Secret, layout};
use filterblock_slatedb::Filters;
use proptest::prelude::*;
use slatedb::bytes::Bytes;
use slatedb::{BloomFilterPolicy, Filter, FilterPolicy, FilterQuery, PrefixExtractor, PrefixTarget, ValueDeletable};

use crate::common::{First4, absent, entry, key};

const SPECS: [&str; 8] = [
    "bloom:10",
    "blocked-bloom:10",
    "split-block:10",
    "split-block-512:10",
    "ribbon:8",
    "bumped-ribbon:7",
    "binary-fuse:8",
    "always-maybe",
];

fn filters(spec: &str) -> Filters {
    Filters::new(spec.parse().unwrap())
}

fn policy(filters: &Filters) -> Arc<dyn FilterPolicy> {
    filters.policies().remove(0)
}

fn built(policy: &dyn FilterPolicy, keys: impl Iterator<Item = Bytes>) -> Arc<dyn Filter> {
    let mut builder = policy.builder();
    for key in keys {
        builder.add_entry(&entry(key, ValueDeletable::Value(Bytes::from_static(b"value"))));
    }
    builder.build()
}

pub fn encoded(filter: &dyn Filter) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.encode(&mut bytes);
    bytes
}

fn has(filter: &dyn Filter, key: &Bytes) -> bool {
    filter.might_match(&FilterQuery::point(key.clone()))
}

fn has_prefix(filter: &dyn Filter, prefix: &'static [u8]) -> bool {
    filter.might_match(&FilterQuery::prefix(Bytes::from_static(prefix)))
}

/// Returns the number of added keys that a filter denies.
fn lost(filter: &dyn Filter, keys: u64) -> usize {
    (0..keys).filter(|&i| !has(filter, &key(i))).count()
}

#[test]
fn filters_of_every_kind_keep_their_keys() {
    for spec in SPECS {
        let filters = filters(spec);
        let policy = policy(&filters);
        for keys in [0, 1, 2, 63, 1_000, 20_000] {
            let filter = built(&*policy, (0..keys).map(key));
            let bytes = encoded(&*filter);
            let decoded = policy.decode(&bytes);
            for filter in [&filter, &decoded, &decoded.clamp_allocated_size()] {
                assert_eq!(lost(&**filter, keys), 0, "{spec}, {keys} keys");
                assert!(encoded(&**filter) == bytes && filter.size() == bytes.len(), "{spec}, {keys} keys");
                let passed = (0..10_000).filter(|&i| has(&**filter, &absent(i))).count();
                // A small ribbon has a higher FPR than a large one, so the FPR of filters with few
                // keys is not checked.
                assert!(spec == "always-maybe" || keys < 1_000 || passed < 250, "{spec}, {keys} keys: {passed}");
            }
        }
        let counts = filters.counts();
        assert_eq!((counts.built, counts.opened, counts.unusable(), counts.failed_builds), (6, 6, 0, 0), "{spec}");
        assert!(
            counts.probes > 180_000 && (counts.negatives > 100_000 || spec == "always-maybe"),
            "{spec}: {counts:?}"
        );
    }
}

#[test]
fn estimated_sizes_are_close_to_built_sizes() {
    for spec in SPECS {
        let policy = policy(&filters(spec));
        for keys in [1, 100, 5_000, 50_000] {
            let (estimate, len) = (policy.estimate_size(keys as usize), built(&*policy, (0..keys).map(key)).size());
            assert!(estimate.abs_diff(len) <= len / 20 + 20, "{spec}, {keys} keys: {estimate} for {len}");
        }
        // SlateDB may pass 0 keys, and the estimate must not overflow for large numbers.
        assert!(policy.estimate_size(0) < 100, "{spec}");
        policy.estimate_size(usize::MAX);
    }
}

#[test]
fn estimates_are_planned_rarely_and_grow() {
    let plans = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&plans);
    let filters = Filters::by_num_keys(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        "bloom:10".parse().ok()
    });
    let policy = policy(&filters);
    // SlateDB calls `estimate_size` at every write.
    let mut before = 0;
    for keys in 0..100_000 {
        let estimate = policy.estimate_size(keys);
        assert!(estimate + estimate / 16 >= before, "{keys} keys: {before}, {estimate}");
        assert!(keys < 1_000 || estimate.abs_diff(keys * 10 / 8) < keys / 50 + 100, "{keys} keys: {estimate}");
        before = estimate;
    }
    // The policy makes at most 16 plans for each power of two.
    assert!(plans.load(Ordering::Relaxed) < 17 * 16, "{plans:?}");
}

#[test]
fn tombstones_and_merge_operands_are_added_like_values() {
    let policy = policy(&filters("bumped-ribbon:16"));
    let mut builder = policy.builder();
    builder.add_entry(&entry(key(1), ValueDeletable::Tombstone));
    builder.add_entry(&entry(key(2), ValueDeletable::Merge(Bytes::from_static(b"m"))));
    let filter = builder.build();
    assert!(has(&*filter, &key(1)) && has(&*filter, &key(2)));
    assert!((10..100).filter(|&i| has(&*filter, &key(i))).count() < 10);
}

#[test]
fn a_builder_builds_the_same_filter_twice() {
    let policy = policy(&filters("bumped-ribbon:7"));
    let mut builder = policy.builder();
    (0..1_000).for_each(|i| builder.add_entry(&entry(key(i), ValueDeletable::Tombstone)));
    let (first, second) = (builder.build(), builder.build());
    assert_eq!(encoded(&*first), encoded(&*second));
    assert_eq!(lost(&*second, 1_000), 0);
}

#[test]
fn the_number_of_keys_chooses_the_kind() {
    let (small, large): (FilterSpec, FilterSpec) =
        ("blocked-bloom:12".parse().unwrap(), "bumped-ribbon:7".parse().unwrap());
    let filters = Filters::by_num_keys(move |keys| match keys {
        0..100 => None,
        100..5_000 => Some(small),
        _ => Some(large),
    });
    let policy = policy(&filters);
    let per_key = |keys: u64| built(&*policy, (0..keys).map(key)).size() as f64 * 8.0 / keys as f64;
    assert!(built(&*policy, (0..99).map(key)).size() < 100);
    assert!((12.0..13.0).contains(&per_key(4_999)) && (7.0..7.3).contains(&per_key(20_000)));
    let none = built(&*policy, (0..99).map(key));
    assert!((0..1_000).all(|i| has(&*none, &absent(i))), "no choice must deny nothing");
}

#[test]
fn prefixes_answer_prefix_queries_and_points() {
    for whole_keys_too in [true, false] {
        let filters = filters("bumped-ribbon:16").with_prefixes(Arc::new(First4), whole_keys_too).unwrap();
        let policy = policy(&filters);
        assert!(policy.supports_prefix_queries() && !policy.supports_range_queries());
        let filter = policy.decode(&encoded(&*built(&*policy, (0..5_000).map(key))));
        assert_eq!(lost(&*filter, 5_000), 0);
        assert!(has_prefix(&*filter, b"0000") && has_prefix(&*filter, b"00310") && has_prefix(&*filter, b"0"));
        assert!(!has_prefix(&*filter, b"0032") && !has_prefix(&*filter, b"ffff1"));
        // An absent key with the prefix of a present key passes only if the filter has no whole
        // keys.
        assert_eq!(has(&*filter, &absent(7)), !whole_keys_too);
        assert!(!has(&*filter, &key(5_100)));
        assert!(filter.might_match(&FilterQuery::range(
            std::ops::Bound::Unbounded,
            std::ops::Bound::Excluded(Bytes::from_static(b"0"))
        )));
        // Only the query for `0` is unfiltered, because the extractor takes no prefix from it. The
        // policy does not count the query for a range.
        assert!(filters.counts().unfiltered == 1, "{:?}", filters.counts());
    }
    assert!(!policy(&filters("bloom:10")).supports_prefix_queries());
}

/// An extractor that returns a prefix length of one byte more than the key has.
struct TooLong;

impl PrefixExtractor for TooLong {
    fn name(&self) -> &'static str {
        "too-long"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        Some(bytes.len() + 1)
    }
}

#[test]
fn a_wrong_extractor_never_denies_a_key() {
    let reports = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&reports);
    for whole_keys_too in [true, false] {
        let seen = Arc::clone(&seen);
        let filters =
            filters("bloom:10").with_prefixes(Arc::new(TooLong), whole_keys_too).unwrap().on_unusable(move |_| {
                seen.fetch_add(1, Ordering::Relaxed);
            });
        let policy = policy(&filters);
        let mut builder = policy.builder();
        (0..100).for_each(|i| builder.add_entry(&entry(key(i), ValueDeletable::Tombstone)));
        for filter in [builder.build(), builder.build()] {
            let filter = policy.decode(&encoded(&*filter));
            assert!((0..100).all(|i| has(&*filter, &key(i)) && has(&*filter, &absent(i))));
            assert!(has_prefix(&*filter, b"zzzz"));
        }
        let counts = filters.counts();
        assert_eq!((counts.failed_builds, counts.built, counts.unusable()), (2, 0, 0));
    }
    assert_eq!(reports.load(Ordering::Relaxed), 4);
}

/// An extractor that panics for one key.
struct Panics;

impl PrefixExtractor for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        if *bytes == key(50) { std::panic::resume_unwind(Box::new(())) } else { Some(1) }
    }
}

#[test]
fn an_extractor_that_panics_never_denies_a_key() {
    let filters = filters("bloom:10").with_prefixes(Arc::new(Panics), true).unwrap();
    let policy = policy(&filters);
    let mut builder = policy.builder();
    for i in 0..100 {
        let entry = entry(key(i), ValueDeletable::Tombstone);
        let added = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.add_entry(&entry)));
        assert_eq!(added.is_err(), i == 50);
    }
    for filter in [builder.build(), builder.build()] {
        let filter = policy.decode(&encoded(&*filter));
        assert!((0..100).all(|i| has(&*filter, &key(i))));
    }
    assert_eq!((filters.counts().failed_builds, filters.counts().built), (2, 0));
}

#[test]
fn policy_names_state_version_and_prefixes() {
    let name = |filters: &Filters| policy(filters).name().to_owned();
    let plain = filters("bloom:10");
    assert_eq!(name(&plain), format!("filterblock:{}", layout::VERSION));
    assert_eq!(name(&plain), plain.name());
    let both = plain.clone().with_prefixes(Arc::new(First4), true).unwrap();
    let only = plain.clone().with_prefixes(Arc::new(First4), false).unwrap();
    assert_eq!(name(&both), "filterblock:1:keys+prefixes=first-4");
    assert_eq!(name(&only), "filterblock:1:prefixes=first-4");
}

/// Asserts that the filter of these bytes answers "maybe", and keeps the bytes.
fn assert_maybe(policy: &dyn FilterPolicy, bytes: &[u8], what: &str) {
    let filter = policy.decode(bytes);
    for i in [0, 1, 77, 999] {
        assert!(has(&*filter, &key(i)) && has(&*filter, &absent(i)), "{what}");
    }
    assert!(has_prefix(&*filter, b"zzzz"), "{what}");
    assert_eq!(encoded(&*filter), bytes, "{what}: another version may be able to read the bytes");
    assert_eq!(filter.size(), bytes.len(), "{what}");
}

#[test]
fn every_flipped_bit_zeroed_and_cut_filter_is_counted() {
    for spec in SPECS {
        let filters = filters(spec);
        let policy = policy(&filters);
        let sound = encoded(&*built(&*policy, (0..300).map(key)));
        let mut decoded = 0;
        let mut check = |bytes: &[u8], what: &str| {
            assert_maybe(&*policy, bytes, what);
            decoded += 1;
        };
        for bit in 0..sound.len() * 8 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            check(&bytes, &format!("{spec}, bit {bit}"));
        }
        for len in 0..sound.len() {
            check(&sound[..len], &format!("{spec}, cut to {len}"));
            check(&sound[sound.len() - len..], &format!("{spec}, the last {len}"));
        }
        check(&vec![0; sound.len()], &format!("{spec}, zeroed"));
        check(&vec![0xff; sound.len()], &format!("{spec}, all ones"));
        check(&[&sound[..], &[0]].concat(), &format!("{spec}, extended"));
        let counts = filters.counts();
        assert_eq!((counts.damaged, counts.unusable(), counts.opened), (decoded, decoded, 0), "{spec}");
        assert_eq!((counts.unfiltered, counts.negatives), (counts.probes, 0), "{spec}");
    }
}

#[test]
fn sound_filters_of_other_settings_count_as_unexpected() {
    let given = filters("bumped-ribbon:7");
    let secret = |fill| Secret::new(&[fill; 16]).unwrap();
    let seeded = |seed| KeyHasher::xxh3(HashSeed(seed));
    let sip = |fill| KeyHasher::sip13(HashSeed(0), &secret(fill));
    let with_prefixes = |whole| given.clone().with_prefixes(Arc::new(First4), whole).unwrap();
    let bytes = |filters: &Filters| encoded(&*built(&*policy(filters), (0..1_000).map(key)));
    let other = [
        bytes(&given.clone().with_hasher(seeded(1))),
        bytes(&given.clone().with_hasher(sip(1))),
        // SlateDB passes a filter only to the policy of the same name, but a name may be forged.
        bytes(&with_prefixes(false)),
        of_another_program(),
    ];
    for (number, bytes) in other.iter().enumerate() {
        assert_maybe(&*policy(&given), bytes, &format!("filter {number}"));
    }
    let counts = given.counts();
    assert_eq!((counts.unexpected, counts.opened, counts.damaged, counts.unsupported), (4, 0, 0, 0));

    let keyed = filters("bumped-ribbon:7").with_hasher(sip(1));
    assert_maybe(&*policy(&keyed), &bytes(&given.clone().with_hasher(sip(2))), "another secret");
    assert_eq!((keyed.counts().unexpected, keyed.counts().damaged), (1, 0));
    assert_eq!(lost(&*policy(&keyed).decode(&bytes(&given.clone().with_hasher(sip(1)))), 1_000), 0);

    let prefixed = filters("bumped-ribbon:7").with_prefixes(Arc::new(First4), true).unwrap();
    assert_maybe(&*policy(&prefixed), &bytes(&filters("bloom:10")), "without prefixes");
    assert_eq!(prefixed.counts().unexpected, 1);
}

/// Builds a sound block with another table id.
fn of_another_program() -> Vec<u8> {
    let mut builder =
        FilterOptions::new("bloom:10".parse().unwrap()).table_id(*b"table 0000000012").builder(HashSeed(0)).unwrap();
    (0..1_000).for_each(|i| builder.add(builder.hasher().key(&key(i))));
    builder.finish().unwrap().bytes
}

#[test]
fn a_newer_version_is_counted_as_unsupported() {
    let filters = filters("bumped-ribbon:7");
    let policy = policy(&filters);
    let mut bytes = encoded(&*built(&*policy, (0..1_000).map(key)));
    let version = bytes.len() - layout::TRAILER_LEN_BYTES + layout::offset_of(filterblock::Field::Version);
    assert_eq!(bytes[version], layout::VERSION);
    // The checksum must also differ. Otherwise the version byte would count as damaged.
    bytes[version] = layout::VERSION + 1;
    bytes[version + 1] ^= 1;
    assert_maybe(&*policy, &bytes, "a newer version");
    let counts = filters.counts();
    assert_eq!((counts.unsupported, counts.unusable(), counts.probes, counts.unfiltered), (1, 1, 9, 9));
}

#[test]
fn read_only_bloom_uses_old_filters_and_builds_always_maybe() {
    let own: Arc<dyn FilterPolicy> = Arc::new(BloomFilterPolicy::new(10));
    let filters = filters("bumped-ribbon:7").reading_bloom(BloomFilterPolicy::new(10));
    let reading = filters.policies().remove(1);
    assert_eq!((reading.name(), filters.policies().len()), (own.name(), 2));
    let old = reading.decode(&encoded(&*built(&*own, (0..1_000).map(key))));
    assert_eq!((lost(&*old, 1_000), filters.counts().bloom_opened), (0, 1));
    assert!((0..1_000).filter(|&i| has(&*old, &absent(i))).count() < 50);

    let new = built(&*reading, (0..1_000).map(key));
    assert_eq!((new.size(), reading.estimate_size(1_000), encoded(&*new).len()), (3, 3, 3));
    for policy in [&reading, &own] {
        let decoded = policy.decode(&encoded(&*new));
        assert!((0..1_000).all(|i| has(&*decoded, &key(i)) && has(&*decoded, &absent(i))));
    }
    for bytes in [&[][..], &[0], &[0, 7]] {
        assert!(has(&*reading.decode(bytes), &key(1)));
    }
    assert_eq!((filters.counts().bloom_opened, filters.counts().damaged), (1, 3));
}

proptest! {
    #[test]
    fn any_bytes_decode_to_maybe(bytes in proptest::collection::vec(any::<u8>(), 0..400), probe in any::<u64>()) {
        let filters = filters("bumped-ribbon:7");
        let filter = policy(&filters).decode(&bytes);
        prop_assert!(has(&*filter, &key(probe)));
        prop_assert_eq!(filters.counts().unusable(), 1);
        prop_assert_eq!(encoded(&*filter), bytes);
    }

    #[test]
    fn any_keys_are_kept(keys in proptest::collection::btree_set(proptest::collection::vec(any::<u8>(), 0..40), 0..300),
                         spec in 0..SPECS.len(), layout in 0..3) {
        let filters = filters(SPECS[spec]);
        let filters = match layout {
            0 => filters,
            whole => filters.with_prefixes(Arc::new(First4), whole == 1).unwrap(),
        };
        let policy = policy(&filters);
        let keys: Vec<Bytes> = keys.into_iter().map(Bytes::from).collect();
        let filter = policy.decode(&encoded(&*built(&*policy, keys.iter().cloned())));
        for key in &keys {
            prop_assert!(has(&*filter, key));
            for len in 0..=key.len() {
                prop_assert!(filter.might_match(&FilterQuery::prefix(key.slice(..len))));
            }
        }
    }
}
