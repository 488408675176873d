//! Tests filters that are shrunk to fewer columns, and filters that cannot shrink.

use filterblock::partitions::PartitionIndex;
use filterblock::{
    Error, Expected, Field, FilterBlock, FilterKind, FilterOptions, KeyHasher, ParsedBlock, Secret, SharedBytes,
    Verify, WholeKeys,
};

use filterblock_testkit::Random;
use filterblock_testkit::blocks::{BOTH, SEED, TABLE, block, hash, index_of, key, partitioned, spec};

static HASHER: KeyHasher = KeyHasher::xxh3(SEED);

fn expected() -> Expected<'static> {
    Expected::of_table(TABLE, &HASHER)
}

fn opened(bytes: &[u8], verify: Verify) -> FilterBlock<&[u8]> {
    FilterBlock::open(bytes, &expected(), verify).unwrap()
}

fn finds<D: AsRef<[u8]>>(filter: &FilterBlock<D>, n: usize) -> bool {
    let hashes: Vec<_> = (0..n).map(hash).collect();
    let mut answers = vec![false; n];
    filter.may_contain_batch(&hashes, &mut answers);
    answers.iter().all(|&answer| answer) && hashes.iter().all(|&hash| filter.may_contain_hash(hash))
}

#[test]
fn seven_of_ten_columns_take_at_most_seven_point_one_bits() {
    for n in [10_000, 30_000, 100_000] {
        let bytes = block("bumped-ribbon:10", n);
        let whole = opened(&bytes, Verify::AtOpen);
        // The 7.1 bits per key do not include trailer and extension, which have fewer than 100
        // bytes.
        let fixed = 100;
        let max_len_bytes = (n as f64 * 7.1 / 8.0) as u64 + fixed;
        let seven = whole.shrunk_to(max_len_bytes).unwrap().unwrap();
        let found = seven.metadata();
        assert_eq!((found.probes, found.num_keys, found.kind), (7, n as u64, FilterKind::BumpedRibbon));
        let checksums = found.payload_len_bytes.div_ceil(4096) * 4;
        let bits = (found.payload_len_bytes + checksums) as f64 * 8.0 / n as f64;
        println!("{n} keys: {bits:.3} bits per key; whole block: {:.3}", found.bits_per_key());
        assert!(bits <= 7.1, "{n} keys: {bits}");
        assert!(n < 100_000 || found.bits_per_key() <= 7.1);
        assert!(finds(&seven, n));
    }
}

#[test]
fn every_limit_is_obeyed_and_every_key_found() {
    for (text, n) in [
        ("bumped-ribbon:10", 33),
        ("bumped-ribbon:12.3", 300),
        ("bumped-ribbon:fpr=0.01", 5_000),
        ("bumped-ribbon:8:compact", 6_000),
        ("bumped-ribbon:20", 30_000),
    ] {
        let bytes = block(text, n);
        let whole = opened(&bytes, Verify::AtOpen);
        let (all, len) = (whole.metadata().probes, bytes.len() as u64);
        assert!(whole.shrunk_to(len).unwrap().is_none() && whole.shrunk_to(u64::MAX).unwrap().is_none());
        let mut widths = Vec::new();
        for limit in (0..40).rev().map(|i| (len - 1) * i / 39) {
            let shrunk = whole.shrunk_to(limit).unwrap().expect("a smaller filter");
            let found = shrunk.metadata();
            assert_eq!(found.block_len_bytes, shrunk.as_bytes().len() as u64);
            assert!(found.block_len_bytes <= limit || found.probes == 1, "{text} within {limit}");
            let rate = 0.5f64.powi(found.probes.cast_signed());
            assert!((shrunk.expected_fpr() / rate - 1.0).abs() < 1e-6);
            assert!(shrunk.verify_pages().is_ok() && finds(&shrunk, n), "{text} within {limit}");
            assert!((0.4..0.6).contains(&shrunk.statistics().fill_ratio) || n < 1_000);
            widths.push(found.probes);
        }
        widths.dedup();
        assert!(widths.is_sorted_by(|a, b| a > b) && widths[0] < all && widths.last() == Some(&1), "{widths:?}");
        let one = whole.shrunk_to(0).unwrap().unwrap();
        assert!(one.shrunk_to(0).unwrap().is_none());
    }
}

#[test]
fn copies_are_blocks_of_the_same_table_with_another_checksum() {
    let bytes = block("bumped-ribbon:10", 5_000);
    let checksum = filterblock::layout::checksum_of(&bytes).unwrap();
    let copy = opened(&bytes, Verify::AtOpen).shrunk_to(4_000).unwrap().unwrap();
    assert_eq!(copy.metadata().table_id, TABLE);
    let reopened = FilterBlock::open(copy.as_bytes(), &expected().with_num_entries(5_000), Verify::AtOpen).unwrap();
    assert!(finds(&reopened, 5_000));
    let error = FilterBlock::open(copy.as_bytes(), &expected().with_checksum(checksum), Verify::AtOpen).unwrap_err();
    assert!(matches!(error, Error::Unexpected { field: Field::Checksum, .. }), "{error}");
}

#[test]
fn copies_need_only_the_pages_of_their_columns() {
    let n = 20_000;
    let mut bytes = block("bumped-ribbon:20", n);
    // Every page of the second half of the payload is damaged.
    let payload_len = opened(&bytes, Verify::AtOpen).metadata().payload_len_bytes as usize;
    bytes[payload_len / 2..payload_len].fill(0x77);
    assert!(FilterBlock::open(bytes.as_slice(), &expected(), Verify::AtOpen).unwrap_err().is_damage());
    let copied = |bytes: &[u8]| opened(bytes, Verify::OnFirstTouch).shrunk_to((bytes.len() / 4) as u64);
    let copy = copied(&bytes).unwrap().unwrap();
    assert!((1..8).contains(&copy.metadata().probes) && finds(&copy, n));
    // Damage of a kept page is detected.
    bytes[5_000] ^= 1;
    assert!(matches!(copied(&bytes), Err(Error::ChecksumMismatch { field: Field::Page, offset: 4096, .. })));
}

#[test]
fn other_kinds_and_partitions_stay_whole() {
    for text in ["always-maybe", "bloom:10", "blocked-bloom:10", "split-block:10", "ribbon:8", "binary-fuse:8"] {
        let bytes = block(text, 3_000);
        let filter = opened(&bytes, Verify::AtOpen);
        assert!(filter.shrunk_to(10).unwrap().is_none() && filter.shrunk_to(1 << 20).unwrap().is_none(), "{text}");
        assert!(finds(&filter, 3_000));
    }
    let bytes = partitioned("bumped-ribbon:16", 3_000, 1_000);
    for verify in BOTH {
        let filter = opened(&bytes, verify);
        assert!(filter.shrunk_to(10).unwrap().is_none());
        assert!(finds(&filter, 3_000) && filter.metadata().block_len_bytes == bytes.len() as u64);
    }
    // A partition that was opened alone does not shrink either.
    let index = PartitionIndex::open(index_of(&bytes), &expected()).unwrap();
    let part = &bytes[..index.get(0).unwrap().byte_range.end as usize];
    let part = ParsedBlock::open_partition(part, 0, Verify::AtOpen).unwrap().bind_any(None).unwrap();
    assert!(part.shrunk_to(10).unwrap().is_none());
}

#[test]
fn prefixes_and_secrets_survive_shrinking() {
    let hasher = KeyHasher::sip13(SEED, &Secret::new(&[7; 16]).unwrap());
    for whole_keys in [WholeKeys::Too, WholeKeys::Not] {
        let options = FilterOptions::new(spec("bumped-ribbon:12")).table_id(TABLE);
        let mut builder = options.prefixes_by_host("first-11", whole_keys).builder(&hasher).unwrap();
        (0..3_000).for_each(|i| {
            builder.add(hasher.key(&key(i)));
            builder.add_prefix(hasher.key(&key(i)[..11]));
        });
        let bytes = builder.finish().unwrap().bytes;
        let expected = Expected::of_table(TABLE, &hasher).with_prefixes("first-11");
        let whole = FilterBlock::open(bytes.as_slice(), &expected, Verify::AtOpen).unwrap();
        let copy = whole.shrunk_to(bytes.len() as u64 / 2).unwrap().unwrap();
        assert!((3..7).contains(&copy.metadata().probes));
        assert_eq!(copy.metadata().block_len_bytes, copy.as_bytes().len() as u64);
        assert_eq!(copy.metadata().extractor, Some("first-11"));
        for key in (0..3_000).map(key) {
            let prefix = hasher.key(&key[..11]);
            assert!(copy.may_contain(hasher.key(&key)) && copy.may_contain_prefix("first-11", prefix));
            assert!(whole.may_contain(hasher.key(&key)) && whole.may_contain_prefix("first-11", prefix));
        }
        assert_eq!((5_000..9_000).all(|i| copy.may_contain(hasher.key(&key(i)))), whole_keys == WholeKeys::Not);
        let absent = |i| format!("other{i:06}").into_bytes();
        assert!(!(0..100).all(|i| copy.may_contain_prefix("first-11", hasher.key(&absent(i)))));
    }
}

#[test]
fn hostile_blocks_do_not_panic_when_shrunk() {
    let mut random = Random(17);
    let corpus = ["bumped-ribbon:12.3", "bumped-ribbon:20"].map(|text| [100, 3_000].map(|n| block(text, n)));
    let mut shrunk = 0;
    for i in 0..4_000 {
        let mut bytes = corpus[i % 2][i / 2 % 2].clone();
        filterblock_testkit::blocks::mutate(&mut bytes, &mut random);
        let Ok(filter) = FilterBlock::open_any(SharedBytes::from(bytes), Verify::AtOpen) else { continue };
        let copy = filter.shrunk_to(random.next() % 8_000);
        let copy = copy.ok().flatten();
        shrunk += usize::from(copy.is_some());
        for filter in copy.iter().chain([&filter]) {
            let _ = (
                filter.may_contain(filter.hasher().key(&key(i))),
                filter.metadata(),
                filter.statistics(),
                filter.verify_pages(),
            );
        }
    }
    assert!(shrunk > 50, "{shrunk}");
}

/// A copy has its own checksums, which would hide the changed byte.
#[cfg(all(feature = "mmap", target_os = "linux"))]
#[test]
fn a_page_of_a_map_that_changes_after_open_is_not_copied() {
    use filterblock::{Mapped, Populate};
    use std::os::unix::fs::FileExt;
    let bytes = block("bumped-ribbon:12", 20_000);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    std::fs::write(&path, &bytes).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let map = Mapped::region(&file, 0, bytes.len(), Populate::No).unwrap();
    let filter = FilterBlock::open(map, &expected(), Verify::AtOpen).unwrap();
    file.write_all_at(&[!bytes[5_000]], 5_000).unwrap();
    let copied = filter.shrunk_to(bytes.len() as u64 / 2).map(drop);
    assert!(matches!(copied, Err(Error::ChecksumMismatch { .. })), "{copied:?}");
}
