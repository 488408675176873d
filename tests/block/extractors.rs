//! Tests prefix extractors with partitioned filters and with filters in one piece.

use std::collections::BTreeSet;
use std::ops::Bound;

use filterblock::{
    Error, Expected, FilterBlock, FilterBuilder, KeyHasher, PartitionIndex, PartitionedBuilder, PrefixExtractor, Verify,
};

use crate::support::{SEED, TABLE};
use filterblock::layout::{TRAILER_LEN_BYTES, stated_len_bytes};

fn hasher() -> KeyHasher {
    KeyHasher::xxh3(SEED)
}

/// Returns keys of a row, a column and a number. Each row has 1 to 40 such keys, and one key
/// without a slash, which is outside the domain of some extractors.
fn keys() -> BTreeSet<Vec<u8>> {
    let mut keys = BTreeSet::new();
    for row in 0..60u32 {
        for i in 0..=row * 7 % 40 {
            keys.insert(format!("{row:02}r/{}/{i}", i % 3).into_bytes());
        }
        keys.insert(format!("{row:02}").into_bytes());
    }
    keys
}

fn partitioned(extractor: &PrefixExtractor, keys: &BTreeSet<Vec<u8>>, partition_keys: usize) -> Vec<u8> {
    let builder = PartitionedBuilder::new("blocked-bloom:16".parse().unwrap(), hasher(), partition_keys);
    let mut builder = builder.with_table_id(TABLE).with_extractor(extractor, true).unwrap();
    keys.iter().for_each(|key| builder.add(key).unwrap());
    builder.finish().unwrap()
}

/// Returns the prefixes of `keys`, and of one absent key after the keys of each row.
fn prefixes(extractor: &PrefixExtractor, keys: &BTreeSet<Vec<u8>>) -> BTreeSet<Vec<u8>> {
    let absent = (0..60).map(|row| format!("{row:02}x/1/0").into_bytes());
    let all = keys.iter().cloned().chain(absent).collect::<Vec<_>>();
    all.iter().flat_map(|key| extractor.prefixes(key).map(<[u8]>::to_vec).collect::<Vec<_>>()).collect()
}

#[test]
fn prefixes_of_neighbouring_partitions_are_found() {
    let keys = keys();
    for name in ["fixed:2", "fixed:4", "capped:4", "delimiter:/", "row-column:/"] {
        let extractor: PrefixExtractor = name.parse().unwrap();
        for partition_keys in [1, 2, 7, 40, 10_000] {
            let bytes = partitioned(&extractor, &keys, partition_keys);
            let hasher = hasher();
            let expected = Expected::of_table(TABLE, &hasher).with_prefixes(name);
            let block = FilterBlock::open(&bytes, &expected, Verify::AtOpen).unwrap();
            let index_start =
                bytes.len() - stated_len_bytes(&bytes[bytes.len() - TRAILER_LEN_BYTES..]).unwrap() as usize;
            let index = PartitionIndex::open(&bytes[index_start..], &expected).unwrap();
            let mut num_denied = 0;
            for prefix in prefixes(&extractor, &keys) {
                let end = PrefixExtractor::end_of_prefix(&prefix);
                let range = (Bound::Included(prefix.as_slice()), end.as_ref().map(Vec::as_slice));
                let Some(asked) = extractor.prefix_of_range(range.0, range.1) else { continue };
                let is_there = keys.range::<[u8], _>(range).next().is_some();
                let may_contain = block.may_contain_prefix(name, asked);
                assert!(may_contain || !is_there, "{name}: {prefix:?} with {partition_keys} keys a partition");
                num_denied += u32::from(!may_contain);
                // Opens the only partition that can deny the prefix, and asks it alone.
                let Some(number) = index.find(&prefix) else { continue };
                let range = index.get(number).unwrap().byte_range;
                let bytes = &bytes[range.start as usize..range.end as usize];
                let partition = index.open_partition(number, bytes, Verify::AtOpen).unwrap();
                assert!(partition.may_contain_prefix(name, asked) || !is_there, "{name}: {prefix:?} alone");
            }
            // With `fixed:2`, the absent keys have the prefixes of present keys, so no prefix is
            // denied.
            assert!(num_denied >= if name == "fixed:2" { 0 } else { 50 }, "{name}: {num_denied}");
        }
    }
}

#[test]
fn a_filter_of_another_extractor_never_denies_prefixes() {
    let (hasher, extractor): (_, PrefixExtractor) = (hasher(), "fixed:2".parse().unwrap());
    let builder = FilterBuilder::new("blocked-bloom:16".parse().unwrap(), &hasher).with_table_id(TABLE);
    let mut builder = builder.with_prefixes(extractor.name(), true).unwrap();
    for key in keys() {
        builder.add(&key);
        extractor.prefixes(&key).for_each(|prefix| builder.add(prefix));
    }
    let expected = Expected::of_table(TABLE, &hasher).with_prefixes("fixed:2");
    let block = FilterBlock::open(builder.finish().unwrap(), &expected, Verify::AtOpen).unwrap();
    assert!(!block.may_contain_prefix("fixed:2", b"zz") && block.may_contain_prefix("fixed:3", b"zzz"));
}

/// Returns each built-in extractor and one of the host, each with two builders without keys. The
/// first builder expects prefixes from the host, and the second takes the prefixes itself.
fn builders(whole_keys_too: bool) -> Vec<(PrefixExtractor, FilterBuilder, FilterBuilder)> {
    let named = PrefixExtractor::named("half", |key| Some(key.len() / 2)).unwrap();
    let built_in = ["fixed:2", "capped:4", "delimiter:/", "row-column:/"].map(|name| name.parse().unwrap());
    let all = built_in.into_iter().chain([named]);
    let builder = || FilterBuilder::new("blocked-bloom:16".parse().unwrap(), hasher()).with_table_id(TABLE);
    all.map(|extractor| {
        let by_hand = builder().with_prefixes(extractor.name(), whole_keys_too).unwrap();
        let taking = builder().with_extractor(&extractor, whole_keys_too).unwrap();
        (extractor, by_hand, taking)
    })
    .collect()
}

#[test]
fn builders_take_the_prefixes_of_every_key() {
    let (sorted, hasher) = (keys(), hasher());
    let mixed: Vec<_> = sorted.iter().rev().step_by(2).chain(sorted.iter().step_by(2)).chain(&sorted).collect();
    for whole_keys_too in [true, false] {
        for (extractor, mut by_hand, mut taking) in builders(whole_keys_too) {
            let mut taking_hashed = taking.clone();
            for key in &mixed {
                if whole_keys_too {
                    by_hand.add(key);
                }
                extractor.prefixes(key).for_each(|prefix| by_hand.add(prefix));
                taking.add(key);
                taking_hashed.add_hashed(key, hasher.of(key));
            }
            let bytes = by_hand.finish().unwrap();
            assert!(bytes == taking.finish().unwrap(), "{extractor:?}");
            assert!(bytes == taking_hashed.finish().unwrap(), "{extractor:?}");
        }
    }
}

#[test]
fn partitions_take_the_prefixes_of_every_key() {
    let (keys, hasher) = (keys(), hasher());
    for whole_keys_too in [true, false] {
        for (extractor, ..) in builders(whole_keys_too) {
            for partition_keys in [1, 7, 40, 10_000] {
                let builder = || {
                    let spec = "blocked-bloom:16".parse().unwrap();
                    PartitionedBuilder::new(spec, &hasher, partition_keys).with_table_id(TABLE)
                };
                let mut by_hand = builder().with_prefixes(extractor.name(), whole_keys_too).unwrap();
                let mut taking = builder().with_extractor(&extractor, whole_keys_too).unwrap();
                for key in &keys {
                    by_hand.add(key).unwrap();
                    extractor.prefixes(key).for_each(|prefix| by_hand.add_prefix(prefix).unwrap());
                    taking.add(key).unwrap();
                }
                assert!(taking.num_partitions() > 1 || partition_keys == 10_000);
                // A repetition of the last key changes nothing.
                taking.add(keys.last().unwrap()).unwrap();
                let (taken, by_hand) = (taking.finish().unwrap(), by_hand.finish().unwrap());
                // If the host adds the prefixes, the builder skips only a prefix that equals the
                // prefix before it. `row-column:/` takes two prefixes of a key, so a row that the
                // host repeats counts again. Then `by_hand` may be longer than `taken`.
                assert!(taken == by_hand || extractor.name() == "row-column:/" && taken.len() <= by_hand.len());
                let expected = Expected::of_table(TABLE, &hasher).with_prefixes(extractor.name());
                let block = FilterBlock::open(taken, &expected, Verify::AtOpen).unwrap();
                let is_found = |prefix| block.may_contain_prefix(extractor.name(), prefix);
                assert!(keys.iter().all(|key| extractor.prefixes(key).all(is_found)), "{extractor:?}");
            }
        }
    }
}

#[test]
fn extractors_need_the_bytes_of_keys() {
    let (hash, key) = (hasher().of(b"ann/age"), b"ann/age");
    for (_, by_hand, taking) in builders(true) {
        let is_refused = |made: filterblock::Result<Vec<u8>>| {
            made.is_err_and(|error| matches!(error, Error::Invalid { what: "keys", .. }))
        };
        let (mut alone, mut among) = (taking.clone(), taking.clone());
        alone.add_hash(hash);
        among.add(key);
        among.add_hash(hash);
        assert!(is_refused(alone.finish()) && is_refused(among.finish()));
        assert!(is_refused(taking.clone().finish_with(&[hash])));
        assert!(taking.clone().finish_with(&[]).is_ok() && by_hand.clone().finish_with(&[hash]).is_ok());
        // A later declaration replaces the extractor, and then the host adds the prefixes.
        assert!(taking.with_prefixes("mine", true).unwrap().finish_with(&[hash]).is_ok());
        let mut late = by_hand;
        late.add(key);
        assert!(late.with_extractor(&PrefixExtractor::fixed(2).unwrap(), true).is_err());
    }
    let mut late = PartitionedBuilder::new("bloom:10".parse().unwrap(), hasher(), 10);
    late.add(b"a").unwrap();
    assert!(late.with_extractor(&PrefixExtractor::fixed(2).unwrap(), true).is_err());
}

#[test]
fn no_filter_lacks_prefixes_of_a_panicked_function() {
    let fails = |key: &[u8]| if key == b"b" { panic!("as planned") } else { Some(1) };
    let extractor = PrefixExtractor::named("fails", fails).unwrap();
    let caught = |act: &mut dyn FnMut()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err();

    let mut builder =
        FilterBuilder::new("bloom:10".parse().unwrap(), hasher()).with_extractor(&extractor, true).unwrap();
    builder.add(b"a");
    assert!(builder.clone().finish().is_ok());
    assert!(caught(&mut || builder.add(b"b")));
    builder.add(b"c");
    assert!(matches!(builder.finish().unwrap_err(), Error::Invalid { what: "extractor", .. }));

    let builder = PartitionedBuilder::new("bloom:10".parse().unwrap(), hasher(), 10);
    let mut builder = builder.with_extractor(&extractor, true).unwrap();
    builder.add(b"a").unwrap();
    assert!(caught(&mut || builder.add(b"b").unwrap()));
    assert!(builder.add(b"c").is_err() && builder.finish().is_err());
}
