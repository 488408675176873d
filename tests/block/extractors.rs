//! Tests prefix extractors with partitioned filters and with filters in one piece.

use std::collections::BTreeSet;
use std::ops::Bound;

use filterblock::{
    Error, Expected, FilterBlock, FilterBuilder, FilterOptions, KeyHasher, PrefixExtractor, Verify, WholeKeys,
    partitions::{PartitionIndex, PartitionedBuilder},
};

use filterblock_testkit::blocks::{SEED, TABLE, built_in_partitions, index_of};

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
    let options = FilterOptions::new("blocked-bloom:16".parse().unwrap()).table_id(TABLE);
    built_in_partitions(&options.prefixes(extractor, WholeKeys::Too), hasher(), partition_keys, keys)
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
            let index = PartitionIndex::open(index_of(&bytes), &expected).unwrap();
            let mut num_denied = 0;
            for prefix in prefixes(&extractor, &keys) {
                let end = PrefixExtractor::end_of_prefix(&prefix);
                let range = (Bound::Included(prefix.as_slice()), end.as_ref().map(Vec::as_slice));
                let Some(asked) = extractor.prefix_of_range(range.0, range.1) else { continue };
                let is_there = keys.range::<[u8], _>(range).next().is_some();
                let may_contain = block.may_contain_prefix(name, block.hasher().key(asked));
                assert!(may_contain || !is_there, "{name}: {prefix:?} with {partition_keys} keys a partition");
                num_denied += u32::from(!may_contain);
                // Opens the only partition that can deny the prefix, and asks it alone.
                let Some(number) = index.find(&prefix) else { continue };
                let range = index.get(number).unwrap().byte_range;
                let bytes = &bytes[range.start as usize..range.end as usize];
                let partition = index.open_partition(number, bytes, Verify::AtOpen).unwrap();
                assert!(partition.may_contain_prefix(name, hasher.key(asked)) || !is_there, "{name}: {prefix:?} alone");
            }
            // With `fixed:2`, the absent keys have the prefixes of present keys, so no prefix is
            // denied.
            assert!(num_denied >= if name == "fixed:2" { 0 } else { 50 }, "{name}: {num_denied}");
        }
    }
}

/// Returns each built-in extractor and one of the host, each with two options. With the first, the
/// host adds the prefixes, and with the second the builder takes them.
fn options(whole_keys: WholeKeys) -> Vec<(PrefixExtractor, FilterOptions, FilterOptions)> {
    let named = PrefixExtractor::named("half", |key| Some(key.len() / 2)).unwrap();
    let built_in = ["fixed:2", "capped:4", "delimiter:/", "row-column:/"].map(|name| name.parse().unwrap());
    let all = built_in.into_iter().chain([named]);
    let options = || FilterOptions::new("blocked-bloom:16".parse().unwrap()).table_id(TABLE);
    all.map(|extractor| {
        let by_hand = options().prefixes_by_host(extractor.name(), whole_keys);
        let taking = options().prefixes(&extractor, whole_keys);
        (extractor, by_hand, taking)
    })
    .collect()
}

#[test]
fn builders_take_the_prefixes_of_every_key() {
    let (sorted, hasher) = (keys(), hasher());
    let mixed: Vec<_> = sorted.iter().rev().step_by(2).chain(sorted.iter().step_by(2)).chain(&sorted).collect();
    for whole_keys in [WholeKeys::Too, WholeKeys::Not] {
        for (extractor, by_hand, taking) in options(whole_keys) {
            let (mut by_hand, mut taking) = (by_hand.builder(&hasher).unwrap(), taking.builder(&hasher).unwrap());
            for key in &mixed {
                by_hand.add(hasher.key(key));
                extractor.prefixes(key).for_each(|prefix| by_hand.add_prefix(hasher.key(prefix)));
                taking.add(hasher.key(key));
            }
            assert!(by_hand.finish().unwrap() == taking.finish().unwrap(), "{extractor:?}");
        }
    }
}

#[test]
fn partitions_take_the_prefixes_of_every_key() {
    let (keys, hasher) = (keys(), hasher());
    for whole_keys in [WholeKeys::Too, WholeKeys::Not] {
        for (extractor, by_hand, taking) in options(whole_keys) {
            for partition_keys in [1, 7, 40, 10_000] {
                let builder = |options| PartitionedBuilder::new(options, &hasher, partition_keys).unwrap();
                let (mut by_hand, mut taking) = (builder(&by_hand), builder(&taking));
                for key in &keys {
                    by_hand.add(hasher.key(key)).unwrap();
                    extractor.prefixes(key).for_each(|prefix| by_hand.add_prefix(hasher.key(prefix)).unwrap());
                    taking.add(hasher.key(key)).unwrap();
                }
                assert!(taking.num_partitions() > 1 || partition_keys == 10_000);
                // A repetition of the last key changes nothing.
                taking.add(hasher.key(keys.last().unwrap())).unwrap();
                let (taken, by_hand) = (taking.finish().unwrap().bytes, by_hand.finish().unwrap().bytes);
                // If the host adds the prefixes, the builder skips only a prefix that equals the
                // prefix before it. `row-column:/` takes two prefixes of a key, so a row that the
                // host repeats counts again. Then `by_hand` may be longer than `taken`.
                assert!(taken == by_hand || extractor.name() == "row-column:/" && taken.len() <= by_hand.len());
                let expected = Expected::of_table(TABLE, &hasher).with_prefixes(extractor.name());
                let block = FilterBlock::open(taken, &expected, Verify::AtOpen).unwrap();
                let is_found = |prefix| block.may_contain_prefix(extractor.name(), hasher.key(prefix));
                assert!(keys.iter().all(|key| extractor.prefixes(key).all(is_found)), "{extractor:?}");
            }
        }
    }
}

#[test]
fn extractors_need_the_bytes_of_keys() {
    let (hash, key) = (hasher().of(b"ann/age"), b"ann/age");
    for (_, by_hand, taking) in options(WholeKeys::Too) {
        let builder = |options: &FilterOptions| options.builder(hasher()).unwrap();
        let is_refused = |builder: FilterBuilder| matches!(builder.finish(), Err(Error::Invalid { what: "keys", .. }));
        let (mut alone, mut among) = (builder(&taking), builder(&taking));
        alone.add_hash(hash);
        among.add(hasher().key(key));
        among.add_hash(hash);
        assert!(is_refused(alone) && is_refused(among));
        // If the host adds the prefixes, the builder needs no bytes.
        let mut by_hand = builder(&by_hand);
        by_hand.add_hash(hash);
        assert!(by_hand.finish().is_ok());
    }
}
