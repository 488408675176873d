//! Tests of prefix extractors with filters in partitions: no scan may miss a key, for any
//! partitions that its prefix spans.

use std::collections::BTreeSet;
use std::ops::Bound;

use filterblock::{
    Expected, FilterBlock, FilterBuilder, KeyHasher, PartitionIndex, PartitionedBuilder, PrefixExtractor, Verify,
};

use crate::support::{SEED, TABLE};
use filterblock::layout::{TRAILER_LEN_BYTES, stated_len_bytes};

fn hasher() -> KeyHasher {
    KeyHasher::xxh3(SEED)
}

/// Keys of three parts; the rows have 1 to 40 keys, and some keys are out of every domain.
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
    let mut builder = builder.with_table_id(TABLE).with_prefixes(extractor.name(), true).unwrap();
    for key in keys {
        builder.add(key).unwrap();
        extractor.prefixes(key).for_each(|prefix| builder.add_prefix(prefix).unwrap());
    }
    builder.finish().unwrap()
}

/// Returns the prefixes of all keys, and absent prefixes between them.
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
                // The only partition that can deny the prefix, opened alone.
                let Some(number) = index.find(&prefix) else { continue };
                let range = index.get(number).unwrap().byte_range;
                let bytes = &bytes[range.start as usize..range.end as usize];
                let partition = index.open_partition(number, bytes, Verify::AtOpen).unwrap();
                assert!(partition.may_contain_prefix(name, asked) || !is_there, "{name}: {prefix:?} alone");
            }
            // A prefix that begins keys of two partitions cannot be denied.
            assert!(num_denied >= if name == "fixed:2" { 0 } else { 50 }, "{name}: {num_denied}");
        }
    }
}

#[test]
fn a_filter_of_another_extractor_denies_no_prefix() {
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
