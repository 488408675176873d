//! Tests filters that are shrunk to fewer columns, and filters that cannot shrink.

use filterblock::{
    Error, Expected, Field, FilterBlock, FilterBuilder, FilterKind, KeyHasher, LockedBlock, Secret, SharedBytes,
    Shrunk, Verify,
};

use crate::support::{SEED, SplitMix, TABLE, block, hash, key, partitioned, spec};

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
        let seven = whole.shrunk_to(max_len_bytes).unwrap().smaller().unwrap();
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
        assert_eq!(whole.shrunk_to(len).unwrap().smaller().map(|_| ()), None);
        assert!(matches!(whole.shrunk_to(u64::MAX).unwrap(), Shrunk::Fits));
        let mut widths = Vec::new();
        for limit in (0..40).rev().map(|i| (len - 1) * i / 39) {
            let Shrunk::Smaller(shrunk) = whole.shrunk_to(limit).unwrap() else { panic!("{text} within {limit}") };
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
        let one = whole.shrunk_to(0).unwrap().smaller().unwrap();
        assert!(matches!(one.shrunk_to(0).unwrap(), Shrunk::Smallest));
    }
}

#[test]
fn copies_are_blocks_of_the_same_table_with_another_checksum() {
    let bytes = block("bumped-ribbon:10", 5_000);
    let checksum = filterblock::layout::checksum_of(&bytes).unwrap();
    let copy = opened(&bytes, Verify::AtOpen).shrunk_to(4_000).unwrap().smaller().unwrap();
    assert_eq!(copy.metadata().table_id, TABLE);
    let reopened = FilterBlock::open(copy.as_bytes(), &expected().with_num_entries(5_000), Verify::AtOpen).unwrap();
    assert!(finds(&reopened, 5_000));
    let error = FilterBlock::open(copy.as_bytes(), &expected().with_checksum(checksum), Verify::AtOpen).unwrap_err();
    assert!(matches!(error, Error::Unexpected { field: Field::Checksum, .. }), "{error}");
}

#[test]
fn groups_of_columns_are_dropped_in_place() {
    let n = 20_000;
    let bytes = block("bumped-ribbon:20.5", n);
    for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
        let mut last_len = bytes.len() as u64;
        let mut filter = opened(&bytes, verify);
        assert_eq!(filter.shrink_in_place(last_len), Shrunk::Fits);
        for columns in [16, 8] {
            assert_eq!(filter.shrink_in_place(last_len - 1), Shrunk::Smaller(()));
            let found = filter.metadata();
            assert_eq!(found.probes, columns);
            let bits = found.bits_per_key();
            assert!((f64::from(columns)..f64::from(columns) * 1.02).contains(&bits), "{bits}");
            let rate = 0.5f64.powi(columns.cast_signed());
            assert!((filter.expected_fpr() / rate - 1.0).abs() < 1e-6);
            assert!((0.49..0.51).contains(&filter.statistics().fill_ratio));
            let (copy, max) = (opened(&bytes, verify), found.block_len_bytes);
            let copy = copy.shrunk_to(max).unwrap().smaller().unwrap();
            assert_eq!((copy.metadata().probes, copy.metadata().block_len_bytes), (columns, max));
            assert!(finds(&filter, n) && finds(&copy, n));
            let answers_differ = (n..4 * n).any(|i| filter.may_contain_hash(hash(i)) != copy.may_contain_hash(hash(i)));
            assert!(!answers_differ);
            // A filter that was shrunk in place can be copied with fewer columns.
            let copy = filter.shrunk_to(max - 1).unwrap().smaller().unwrap();
            assert!(copy.metadata().probes == columns - 1 && finds(&copy, n));
            last_len = max;
        }
        assert_eq!(filter.shrink_in_place(0), Shrunk::Smallest);
        assert_eq!(filter.as_bytes().len(), bytes.len());
    }
}

#[test]
fn opening_within_a_limit_reads_no_dropped_page() {
    let n = 20_000;
    let mut bytes = block("bumped-ribbon:20", n);
    let max_len_bytes = (bytes.len() / 2) as u64;
    // Every page of the second half of the payload is damaged.
    let payload_len = opened(&bytes, Verify::AtOpen).metadata().payload_len_bytes as usize;
    bytes[payload_len / 2..payload_len].fill(0x77);
    assert!(FilterBlock::open(bytes.as_slice(), &expected(), Verify::AtOpen).unwrap_err().is_damage());
    for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
        let filter = FilterBlock::open_within(bytes.as_slice(), &expected(), verify, max_len_bytes).unwrap();
        assert_eq!(filter.metadata().probes, 8);
        assert!(filter.metadata().block_len_bytes <= max_len_bytes);
        assert!(finds(&filter, n) && filter.verify_pages().is_ok());
        let denied = (n..4 * n).filter(|&i| !filter.may_contain_hash(hash(i))).count();
        assert!(denied > 3 * n * 98 / 100, "{denied}");
        assert_eq!(filter.damaged_pages(), 0);
        assert_eq!(filter.view().is_some(), verify == Verify::AtOpen);
    }
    // Columns in sound pages can be copied even if other pages are damaged.
    let copy = opened(&bytes, Verify::OnFirstTouch).shrunk_to(max_len_bytes / 2).unwrap().smaller().unwrap();
    assert!((1..8).contains(&copy.metadata().probes) && finds(&copy, n));
    // Damage of a kept page is detected.
    bytes[5_000] ^= 1;
    let opened_within = FilterBlock::open_within(bytes.as_slice(), &expected(), Verify::AtOpen, max_len_bytes);
    assert!(matches!(opened_within, Err(Error::ChecksumMismatch { field: Field::Page, offset: 4096, .. })));
    let filter = FilterBlock::open_within(bytes.as_slice(), &expected(), Verify::OnFirstTouch, max_len_bytes).unwrap();
    assert!(finds(&filter, n) && filter.verify_pages().is_err());
    assert!(matches!(filter.shrunk_to(0), Err(Error::ChecksumMismatch { offset: 4096, .. })));
    assert_eq!(filter.damaged_pages(), 1);
}

#[test]
fn other_kinds_and_partitions_stay_whole_and_say_why() {
    for text in ["always-maybe", "bloom:10", "blocked-bloom:10", "split-block:10", "ribbon:8", "binary-fuse:8"] {
        let bytes = block(text, 3_000);
        let mut filter = FilterBlock::open_within(bytes.as_slice(), &expected(), Verify::AtOpen, 10).unwrap();
        assert_eq!(filter.shrink_in_place(10), Shrunk::NoColumns, "{text}");
        assert!(matches!(filter.shrunk_to(10).unwrap(), Shrunk::NoColumns));
        assert!(matches!(filter.shrunk_to(1 << 20).unwrap(), Shrunk::Fits));
        assert!(finds(&filter, 3_000) && filter.view().is_some());
    }
    let bytes = partitioned("bumped-ribbon:16", 3_000, 1_000);
    for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
        let mut filter = FilterBlock::open_within(bytes.as_slice(), &expected(), verify, 10).unwrap();
        assert_eq!(filter.shrink_in_place(10), Shrunk::Partitioned);
        assert!(matches!(filter.shrunk_to(10).unwrap(), Shrunk::Partitioned));
        assert!(finds(&filter, 3_000) && filter.metadata().block_len_bytes == bytes.len() as u64);
    }
    let mut damaged = bytes.clone();
    damaged[100] ^= 1;
    assert!(FilterBlock::open_within(damaged.as_slice(), &expected(), Verify::AtOpen, 10).unwrap_err().is_damage());
    // A partition that was opened alone does not shrink either.
    let len = filterblock::layout::stated_len_bytes(&bytes[..]).map(|_| {
        let index = filterblock::PartitionIndex::open(&bytes[index_start(&bytes)..], &expected()).unwrap();
        index.get(0).unwrap().byte_range.end as usize
    });
    let part = LockedBlock::open_partition(&bytes[..len.unwrap()], 0, Verify::AtOpen).unwrap().unlock(None).unwrap();
    assert!(matches!(part.shrunk_to(10).unwrap(), Shrunk::Partitioned));
}

fn index_start(bytes: &[u8]) -> usize {
    let partitions = opened(bytes, Verify::AtOpen);
    let index_len = filterblock::layout::stated_len_bytes(bytes).unwrap() as usize;
    assert!(partitions.metadata().num_partitions == 3 && index_len < bytes.len());
    bytes.len() - index_len
}

#[test]
fn prefixes_and_secrets_survive_shrinking() {
    let hasher = KeyHasher::sip13(SEED, &Secret::new(&[7; 16]).unwrap());
    for whole_keys in [true, false] {
        let mut builder = FilterBuilder::new(spec("bumped-ribbon:12"), &hasher)
            .with_table_id(TABLE)
            .with_prefixes("first-11", whole_keys)
            .unwrap();
        (0..3_000).for_each(|i| builder.add(if whole_keys { key(i) } else { key(i)[..11].to_vec() }.as_slice()));
        (0..3_000).for_each(|i| builder.add(&key(i)[..11]));
        let bytes = builder.finish().unwrap();
        let expected = Expected::of_table(TABLE, &hasher).with_prefixes("first-11");
        let mut whole = FilterBlock::open(bytes.as_slice(), &expected, Verify::AtOpen).unwrap();
        let copy = whole.shrunk_to(bytes.len() as u64 / 2).unwrap().smaller().unwrap();
        assert!((3..7).contains(&copy.metadata().probes));
        assert_eq!(copy.metadata().block_len_bytes, copy.as_bytes().len() as u64);
        assert_eq!(whole.shrink_in_place(bytes.len() as u64 - 1), Shrunk::Smaller(()));
        let in_place_len = whole.metadata().block_len_bytes;
        let eight = FilterBlock::open(bytes.as_slice(), &expected, Verify::AtOpen).unwrap();
        let eight = eight.shrunk_to(in_place_len).unwrap().smaller().unwrap();
        assert_eq!(eight.as_bytes().len() as u64, in_place_len);
        for filter in [&copy, &eight] {
            assert_eq!(filter.metadata().extractor, Some("first-11"));
            for i in 0..3_000 {
                assert!(filter.may_contain(&key(i)) && filter.may_contain_prefix("first-11", &key(i)[..11]));
                assert!(whole.may_contain(&key(i)) && whole.may_contain_prefix("first-11", &key(i)[..11]));
            }
            assert_eq!((5_000..9_000).all(|i| filter.may_contain(&key(i))), !whole_keys);
            assert!(!(0..100).all(|i| filter.may_contain_prefix("first-11", format!("other{i:06}").as_bytes())));
        }
    }
}

#[test]
fn hostile_blocks_do_not_panic_when_shrunk() {
    let mut random = SplitMix(17);
    let corpus = ["bumped-ribbon:12.3", "bumped-ribbon:20"].map(|text| [100, 3_000].map(|n| block(text, n)));
    let mut shrunk = 0;
    for i in 0..4_000 {
        let mut bytes = corpus[i % 2][i / 2 % 2].clone();
        crate::support::mutate(&mut bytes, &mut random);
        let Ok(mut filter) = FilterBlock::open_any(SharedBytes::from(bytes), Verify::AtOpen) else { continue };
        let copy = filter.shrunk_to(random.next() % 8_000);
        let _ = filter.shrink_in_place(random.next() % 8_000);
        for filter in copy.ok().and_then(Shrunk::smaller).iter().chain([&filter]) {
            let _ = (filter.may_contain(&key(i)), filter.metadata(), filter.statistics(), filter.verify_pages());
            shrunk += usize::from(filter.metadata().probes == 8);
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

/// The test truncates the file after the pages of the kept columns. Reading a page of the map
/// beyond the end of the file raises a signal, which would end the test.
#[cfg(all(feature = "mmap", target_os = "linux"))]
#[test]
fn queries_of_a_mapped_filter_touch_no_dropped_page() {
    use filterblock::{Mapped, Populate};
    let n = 20_000;
    let bytes = block("bumped-ribbon:16", n);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    std::fs::write(&path, &bytes).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let map = Mapped::region(&file, 0, bytes.len(), Populate::No).unwrap();
    let max_len_bytes = bytes.len() as u64 - 1;
    let filter = FilterBlock::open_within(map, &expected(), Verify::AtOpen, max_len_bytes).unwrap();
    assert_eq!(filter.metadata().probes, 8);
    let kept = filter.metadata().payload_len_bytes;
    let pages_len = kept.next_multiple_of(4096);
    // A query may read 64 bytes after the kept columns. In this test, these bytes must not reach
    // the next page.
    assert!(pages_len - kept > 64 && pages_len + 3 * 4096 < bytes.len() as u64);
    file.set_len(pages_len).unwrap();
    assert!(finds(&filter, n));
    let mut answers = vec![false; 3 * n];
    filter.may_contain_batch(&(n..4 * n).map(hash).collect::<Vec<_>>(), &mut answers);
    assert!(answers.iter().filter(|&&answer| answer).count() < 3 * n / 100);
    assert!(finds(&filter.shrunk_to(kept / 2).unwrap().smaller().unwrap(), n));
}
