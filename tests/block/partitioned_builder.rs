//! Tests the builder of partitioned filters.

use std::num::NonZeroUsize;

use filterblock::{
    Added, Error, Expected, FilterBlock, FilterOptions, HashSeed, KeyHasher, Verify, WholeKeys,
    partitions::{Partition, PartitionIndex, PartitionedBuilder},
};
use filterblock_testkit::blocks::{self, BOTH, SEED, TABLE, built_in_partitions, key, spec};

static HASHER: KeyHasher = KeyHasher::xxh3(SEED);

fn options() -> FilterOptions {
    FilterOptions::new(spec("blocked-bloom:14")).table_id(TABLE)
}

fn builder(partition_keys: usize) -> PartitionedBuilder {
    PartitionedBuilder::new(&options(), SEED, partition_keys).unwrap()
}

/// Returns a builder of a filter whose prefixes the host adds.
fn of_prefixes(extractor: &str, partition_keys: usize, whole_keys: WholeKeys) -> PartitionedBuilder {
    PartitionedBuilder::new(&options().prefixes_by_host(extractor, whole_keys), SEED, partition_keys).unwrap()
}

/// Returns the eight prefixes of a key that have 0 to 7 bytes.
fn prefixes(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    (0..=7).map(move |len| &key[..len])
}

fn with_prefixes(n: usize, partition_keys: usize, whole_keys: WholeKeys) -> Vec<u8> {
    let mut builder = of_prefixes("first-7", partition_keys, whole_keys);
    for key in (0..n).map(short_key) {
        builder.add(HASHER.key(&key)).unwrap();
        prefixes(&key).for_each(|prefix| builder.add_prefix(HASHER.key(prefix)).unwrap());
    }
    builder.finish().unwrap().bytes
}

/// Returns the i-th key. Keys with equal `i / 10` share their first seven bytes.
fn short_key(i: usize) -> Vec<u8> {
    format!("key-{i:04}").into_bytes()
}

fn index_of(bytes: &[u8], extractor: Option<&str>) -> PartitionIndex<Vec<u8>> {
    let expected = Expected::of_table(TABLE, &HASHER);
    let expected = extractor.map_or(expected, |extractor| expected.with_prefixes(extractor));
    PartitionIndex::open(blocks::index_of(bytes).to_vec(), &expected).unwrap()
}

fn partition<'a>(index: &PartitionIndex<Vec<u8>>, bytes: &'a [u8], number: u32, verify: Verify) -> Partition<&'a [u8]> {
    let range = index.get(number).unwrap().byte_range;
    index.open_partition(number, &bytes[range.start as usize..range.end as usize], verify).unwrap()
}

#[test]
fn prefixes_are_found_at_every_partition_size() {
    for whole_keys in [WholeKeys::Not, WholeKeys::Too] {
        for partition_keys in [1, 2, 7, 10, 11, 64, 10_000] {
            let n = 300;
            let bytes = with_prefixes(n, partition_keys, whole_keys);
            let index = index_of(&bytes, Some("first-7"));
            for verify in BOTH {
                let expected = Expected::of_table(TABLE, &HASHER).with_prefixes("first-7");
                let block = FilterBlock::open(bytes.as_slice(), &expected, verify).unwrap();
                let what = format!("by {partition_keys}, {whole_keys:?}, {verify:?}");
                assert_eq!(
                    block.metadata().added,
                    if whole_keys == WholeKeys::Too { Added::Both } else { Added::Prefixes }
                );
                for key in (0..n).map(short_key) {
                    assert!(block.may_contain(HASHER.key(&key)), "{what}");
                    for prefix in prefixes(&key) {
                        assert!(block.may_contain_prefix("first-7", HASHER.key(prefix)), "{what}: {prefix:?}");
                    }
                }
                // No partition denies a present key or its prefixes, not even a key of another
                // partition.
                for number in 0..index.len() as u32 {
                    let part = partition(&index, &bytes, number, verify);
                    for key in (0..n).step_by(7).map(short_key) {
                        assert!(part.may_contain(HASHER.key(&key)), "{what}, partition {number}");
                        for prefix in prefixes(&key) {
                            assert!(
                                part.may_contain_prefix("first-7", HASHER.key(prefix)),
                                "{what}, {number}: {prefix:?}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// An extractor may take a prefix from one key and none from another key that begins with the same
/// bytes.
#[test]
fn prefixes_shared_with_a_last_key_are_found() {
    for i in 0..200 {
        let name = format!("name-{i:03}");
        let mut builder = of_prefixes("up-to-slash", 1, WholeKeys::Too);
        let [before, last, after] = ["+", "+x", "/x"].map(|end| format!("{name}{end}").into_bytes());
        builder.add(HASHER.key(&before)).unwrap();
        builder.add(HASHER.key(&last)).unwrap();
        builder.add(HASHER.key(&after)).unwrap();
        builder.add_prefix(HASHER.key(name.as_bytes())).unwrap();
        let bytes = builder.finish().unwrap().bytes;
        let expected = Expected::of_table(TABLE, &HASHER).with_prefixes("up-to-slash");
        let block = FilterBlock::open(&bytes, &expected, Verify::AtOpen).unwrap();
        assert_eq!(block.metadata().num_partitions, 3);
        assert!(block.may_contain_prefix("up-to-slash", HASHER.key(name.as_bytes())), "{name}");
        let index = index_of(&bytes, Some("up-to-slash"));
        for number in 0..3 {
            let part = partition(&index, &bytes, number, Verify::AtOpen);
            assert!(part.may_contain_prefix("up-to-slash", HASHER.key(name.as_bytes())), "{name}, partition {number}");
        }
    }
}

#[test]
fn absent_prefixes_are_denied_by_one_partition() {
    let bytes = with_prefixes(3_000, 500, WholeKeys::Too);
    let expected = Expected::of_table(TABLE, &HASHER).with_prefixes("first-7");
    let block = FilterBlock::open(bytes.as_slice(), &expected, Verify::AtOpen).unwrap();
    let index = index_of(&bytes, Some("first-7"));
    assert!(index.len() > 6);
    let (mut by_block, mut by_partition, mut of_others) = (0, 0, 0);
    for i in 0..300 {
        // No key has this prefix.
        let absent = format!("key-{i:03}x").into_bytes();
        by_block += u32::from(!block.may_contain_prefix("first-7", HASHER.key(&absent)));
        let number = index.find(&absent).unwrap();
        for other in 0..index.len() as u32 {
            let part = partition(&index, &bytes, other, Verify::AtOpen);
            let denied = u32::from(!part.may_contain_prefix("first-7", HASHER.key(&absent)));
            if other == number {
                by_partition += denied
            } else {
                of_others += denied
            }
            assert!(part.may_contain_prefix("first-6", HASHER.key(&absent)), "another extractor");
        }
    }
    assert!(by_block > 280 && by_partition == by_block && of_others == 0, "{by_block}, {by_partition}, {of_others}");
}

#[test]
fn prefixes_without_their_key_are_refused() {
    let mut plain = builder(10);
    plain.add(plain.hasher().key(b"key")).unwrap();
    assert!(matches!(plain.add_prefix(plain.hasher().key(b"ke")), Err(Error::Invalid { what: "prefix", .. })));
    let mut builder = of_prefixes("first-2", 10, WholeKeys::Too);
    // Before the first key, no prefix is accepted, not even the empty prefix.
    assert!(matches!(builder.add_prefix(HASHER.key(b"")), Err(Error::Invalid { what: "prefix", .. })));
    builder.add(HASHER.key(b"apple")).unwrap();
    builder.add_prefix(HASHER.key(b"ap")).unwrap();
    builder.add(HASHER.key(b"banana")).unwrap();
    for wrong in [&b"ap"[..], b"bananas", b"anana"] {
        assert!(
            matches!(builder.add_prefix(HASHER.key(wrong)), Err(Error::Invalid { what: "prefix", .. })),
            "{wrong:?}"
        );
    }
    builder.add_prefix(HASHER.key(b"ba")).unwrap();
    assert_eq!(builder.len(), 4);
    let bytes = builder.finish().unwrap().bytes;
    let block = FilterBlock::open_any(bytes, Verify::AtOpen).unwrap();
    assert!([&b"ap"[..], b"ba"].iter().all(|prefix| block.may_contain_prefix("first-2", HASHER.key(prefix))));
}

#[test]
fn a_key_without_a_prefix_counts_as_a_key() {
    let mut prefixed = of_prefixes("first-2", 1, WholeKeys::Not);
    prefixed.add(HASHER.key(b"key")).unwrap();
    assert_eq!((prefixed.is_empty(), prefixed.len(), prefixed.num_partitions()), (false, 0, 1));
}

#[test]
fn repeated_keys_and_prefixes_change_no_byte() {
    for partition_keys in [1, 2, 3, 20] {
        let build = |repeat: usize, threads: usize| {
            let options =
                options().prefixes_by_host("first-7", WholeKeys::Too).threads(NonZeroUsize::new(threads).unwrap());
            let mut builder = PartitionedBuilder::new(&options, SEED, partition_keys).unwrap();
            builder.reserve(if repeat == 1 { 0 } else { 1_000 });
            for key in (0..200).map(short_key) {
                for _ in 0..repeat {
                    builder.add(HASHER.key(&key)).unwrap();
                    (0..repeat).for_each(|_| builder.add_prefix(HASHER.key(&key[..7])).unwrap());
                }
            }
            builder.finish().unwrap()
        };
        let built = build(1, 1);
        for (repeat, threads) in [(3, 1), (2, 2), (1, 3)] {
            assert!(build(repeat, threads) == built, "{partition_keys} keys, {repeat} times, {threads} threads");
        }
    }
}

#[test]
fn a_builder_counts_its_keys_and_partitions() {
    let mut builder = builder(10);
    assert_eq!((builder.is_empty(), builder.len(), builder.num_partitions()), (true, 0, 0));
    for i in 0..95 {
        builder.add(builder.hasher().key(&key(i))).unwrap();
        assert_eq!((builder.len(), builder.num_partitions()), (i + 1, i / 10 + 1));
    }
    assert!(!builder.is_empty());
    let bytes = builder.finish().unwrap().bytes;
    assert_eq!(FilterBlock::open_any(bytes, Verify::AtOpen).unwrap().metadata().num_partitions, 10);
    // The empty key is a key, too.
    let block = FilterBlock::open_any(built_in_partitions(&options(), SEED, 10, [""]), Verify::AtOpen).unwrap();
    assert!(block.may_contain(HASHER.key(b"")) && block.metadata().num_keys == 1);
}

#[test]
fn partitions_sized_in_bytes_use_their_size_fully() {
    for (text, slack) in [("bloom:10", 64), ("blocked-bloom:10", 128), ("bumped-ribbon:8", 400), ("ribbon:8", 400)] {
        for max_len_bytes in [1, 256, 1_000, 4_096, 16_384] {
            let options = FilterOptions::new(spec(text)).table_id(TABLE).prefixes_by_host("first-4", WholeKeys::Too);
            let builder = PartitionedBuilder::new(&options, SEED, 3).unwrap();
            let mut builder = builder.with_partition_len_bytes(max_len_bytes);
            builder.reserve(50_000);
            for key in (0..50_000).map(key) {
                builder.add(HASHER.key(&key)).unwrap();
                builder.add_prefix(HASHER.key(&key[..4])).unwrap();
            }
            let bytes = builder.finish().unwrap().bytes;
            let index = index_of(&bytes, Some("first-4"));
            let lens: Vec<u64> = index.iter().map(|entry| entry.byte_range.end - entry.byte_range.start).collect();
            let (all, full) = (lens.len(), &lens[..lens.len() - 1]);
            if max_len_bytes == 1 {
                assert_eq!(all, 50_000, "{text}: each partition must have one key and its prefix");
                continue;
            }
            // A partition takes all prefixes of its last key, so it may exceed the limit slightly.
            let (least, most) = (full.iter().min().unwrap(), full.iter().max().unwrap());
            let what = format!("{text}, {max_len_bytes} bytes: {all} partitions of {least} to {most}");
            assert!(*most <= max_len_bytes + 64 && *least + slack >= max_len_bytes, "{what}");
            assert_eq!(index.num_keys(), 50_000 + all as u64, "{what}: each partition must have the prefix");
        }
    }
    // An always-maybe filter has no payload, so one partition takes all keys.
    let full = PartitionedBuilder::new(&FilterOptions::new(spec("always-maybe")), SEED, 3).unwrap();
    let mut full = full.with_partition_len_bytes(256);
    (0..1_000).for_each(|i| full.add(full.hasher().key(&key(i))).unwrap());
    assert_eq!(full.num_partitions(), 1);
}

#[cfg(debug_assertions)]
#[test]
fn keys_of_another_hasher_panic_in_debug_builds() {
    let other = KeyHasher::xxh3(HashSeed(SEED.0 + 1));
    let asks: [&dyn Fn(); 2] = [&|| drop(builder(1).add(other.key(b"key"))), &|| {
        let mut builder = of_prefixes("all", 1, WholeKeys::Too);
        builder.add(HASHER.key(b"key")).unwrap();
        drop(builder.add_prefix(other.key(b"key")));
    }];
    for ask in asks {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(ask));
        let caught = caught.expect_err("a key of another hasher must panic");
        assert!(caught.downcast_ref::<String>().unwrap().contains("another hasher"));
    }
}
