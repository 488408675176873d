//! Tests the answers of partitioned filters, and the detection of their damage.

use filterblock::layout::{PARTITION_INDEX_TAG, TRAILER_LEN_BYTES, checksum_of, offset_of};
use filterblock::{
    Error, Expected, Field, FilterBlock, FilterKind, FilterOptions, KeyHasher, ParsedBlock, Verify,
    partitions::{PartitionIndex, PartitionedBuilder},
};
use filterblock_testkit::blocks::{
    self, BOTH, SEED, TABLE, index_of, key, partitioned, put_number, repair_pages, repair_trailer, spec, with_extension,
};

/// Returns the byte ranges of the partitions.
fn ranges(block: &[u8]) -> Vec<std::ops::Range<usize>> {
    let hasher = KeyHasher::xxh3(SEED);
    let index = PartitionIndex::open(index_of(block), &Expected::of_table(TABLE, &hasher)).unwrap();
    let ranges = index.iter().map(|entry| entry.byte_range.start as usize..entry.byte_range.end as usize);
    ranges.collect()
}

#[test]
fn every_key_is_found_at_every_partition_size() {
    for spec_text in ["bloom:10", "blocked-bloom:10", "always-maybe"] {
        for n in [1, 2, 3, 99, 100, 101, 300] {
            for partition_keys in [1, 2, 3, 50, 99, 100, 101, 1_000] {
                let bytes = partitioned(spec_text, n, partition_keys);
                for verify in BOTH {
                    let block = FilterBlock::open_any(bytes.as_slice(), verify).unwrap();
                    let what = format!("{spec_text}, {n} keys by {partition_keys}, {verify:?}");
                    assert!((0..n).all(|i| block.may_contain(block.hasher().key(&key(i)))), "{what}");
                    assert!((0..n).all(|i| block.may_contain_hash(blocks::hash(i))), "{what}, without the key");
                    assert_eq!(block.metadata().num_partitions, n.div_ceil(partition_keys), "{what}");
                    assert_eq!(block.metadata().num_keys, n as u64, "{what}");
                }
            }
        }
    }
}

#[test]
fn absent_keys_near_partition_bounds_have_the_expected_fpr() {
    let bytes = partitioned("blocked-bloom:12", 10_000, 100);
    let block = FilterBlock::open_any(bytes, Verify::AtOpen).unwrap();
    // These keys lie between neighbours, before the first key or beyond the last key.
    let absent = (0..10_000).map(|i| [key(i), b"x".to_vec()].concat());
    let outside = (0..1_000).flat_map(|i| [format!("a{i}").into_bytes(), format!("z{i}").into_bytes()]);
    let (mut asked, mut maybe) = (0u32, 0u32);
    for key in absent.chain(outside) {
        asked += 1;
        maybe += u32::from(block.may_contain(block.hasher().key(&key)));
    }
    let expected = f64::from(asked) * block.expected_fpr();
    assert!((f64::from(maybe) - expected).abs() < 5.0 * expected.sqrt(), "{maybe} of {asked}, expected {expected}");
    // A query without the key denies a hash only if all hundred partitions deny this hash.
    let denied = (10_000..11_000).filter(|&i| !block.may_contain_hash(blocks::hash(i))).count() as f64 / 1_000.0;
    let expected = (1.0 - block.expected_fpr()).powi(100);
    assert!((denied - expected).abs() < 0.1, "{denied}, expected {expected}");
}

#[test]
fn partitions_of_different_kinds_answer_together() {
    let [mut bytes, other] = ["bloom:10", "blocked-bloom:10"].map(|text| partitioned(text, 102, 51));
    let second = ranges(&bytes)[1].clone();
    assert_eq!(ranges(&other)[1], second);
    // The index has the checksum of the old partition. The test replaces it with the checksum of
    // the new partition.
    let [old, new] = [&bytes, &other].map(|filter| checksum_of(&filter[second.clone()]).unwrap().to_le_bytes());
    let at = (second.end..bytes.len()).find(|&at| bytes[at..].starts_with(&old)).unwrap();
    bytes[at..at + 4].copy_from_slice(&new);
    bytes[second.clone()].copy_from_slice(&other[second]);
    repair_pages(&mut bytes);
    let block = FilterBlock::open_any(bytes, Verify::AtOpen).unwrap();
    assert!((0..102).all(|i| block.may_contain(block.hasher().key(&key(i)))));
    let info = block.metadata();
    assert_eq!((info.kind, info.num_partitions, info.num_keys), (FilterKind::Bloom, 2, 102));
    // The fill ratio over several kinds does not determine the number of keys.
    assert_eq!(block.statistics().estimated_keys, None);
    assert!(FilterBlock::open_any(other, Verify::AtOpen).unwrap().statistics().estimated_keys.is_some());
}

#[test]
fn unordered_keys_are_refused_across_partitions_too() {
    let mut builder = PartitionedBuilder::new(&FilterOptions::new(spec("bloom:10")), SEED, 2).unwrap();
    for key in [b"b", b"c"] {
        builder.add(builder.hasher().key(key)).unwrap();
    }
    assert!(matches!(builder.add(builder.hasher().key(b"a")), Err(Error::Invalid { what: "order of keys", .. })));
    builder.add(builder.hasher().key(b"d")).unwrap();
    assert!(matches!(builder.add(builder.hasher().key(b"c")), Err(Error::Invalid { what: "order of keys", .. })));
}

#[test]
fn a_filter_without_keys_has_an_empty_index_and_denies_all() {
    let bytes = partitioned("blocked-bloom:10", 0, 10);
    assert_eq!(bytes.len(), TRAILER_LEN_BYTES);
    for verify in BOTH {
        let block = FilterBlock::open_any(bytes.as_slice(), verify).unwrap();
        assert!(!block.may_contain(block.hasher().key(b"")));
        assert!(!block.may_contain(block.hasher().key(b"a")));
        assert_eq!(block.metadata().num_keys, 0);
    }
}

#[test]
fn a_partition_opens_neither_as_the_filter_nor_as_another() {
    let bytes = partitioned("blocked-bloom:10", 1_000, 300);
    let first = &bytes[ranges(&bytes)[0].clone()];
    for verify in BOTH {
        let is_number =
            |result: Result<_, _>| matches!(result, Err(Error::Corrupt { field: Field::PartitionNumber, .. }));
        assert!(
            is_number(FilterBlock::open_any(first, verify)),
            "a partition opened as the whole filter would deny the keys of all other partitions"
        );
        assert!(is_number(ParsedBlock::open_partition(first, 1, verify).and_then(|block| block.bind_any(None))));
        assert!(is_number(ParsedBlock::open_partition(first, u32::MAX, verify).and_then(|block| block.bind_any(None))));
        assert!(is_number(
            ParsedBlock::open_partition(bytes.as_slice(), 0, verify).and_then(|block| block.bind_any(None))
        ));
        let error = FilterBlock::open_any(first, verify).unwrap_err();
        let expected = (first.len() - TRAILER_LEN_BYTES + offset_of(Field::PartitionNumber)) as u64;
        assert!(matches!(error, Error::Corrupt { offset, .. } if offset == expected), "{error:?}");
    }
}

#[test]
fn swapped_partitions_are_refused() {
    let bytes = partitioned("blocked-bloom:10", 400, 100);
    let ranges = ranges(&bytes);
    let [first, second] = [ranges[1].clone(), ranges[2].clone()];
    assert_eq!(first.len(), second.len());
    let mut swapped = bytes.clone();
    swapped[first.clone()].copy_from_slice(&bytes[second.clone()]);
    swapped[second].copy_from_slice(&bytes[first]);
    for verify in BOTH {
        let error = FilterBlock::open_any(swapped.as_slice(), verify).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field: Field::Partition, .. }), "{error}");
    }
}

#[test]
fn damage_affects_one_partition_and_is_located_by_offset() {
    let bytes = partitioned("bloom:10", 4_000, 1_000);
    let ranges = ranges(&bytes);
    let mut damaged = bytes.clone();
    damaged[ranges[2].start..ranges[2].start + 500].fill(0);
    let error = FilterBlock::open_any(damaged.as_slice(), Verify::AtOpen).unwrap_err();
    let wanted = ranges[2].start as u64;
    assert!(
        matches!(error, Error::ChecksumMismatch { field: Field::Page, offset, .. } if offset == wanted),
        "{error:?}, wanted offset {wanted}"
    );

    let block = FilterBlock::open_any(damaged.as_slice(), Verify::OnFirstTouch).unwrap();
    assert!((0..4_000).all(|i| block.may_contain(block.hasher().key(&key(i)))));
    assert_eq!(block.damaged_pages(), 1);
    let error = block.verify_pages().unwrap_err();
    assert!(matches!(error, Error::ChecksumMismatch { offset, .. } if offset == wanted), "{error:?}");
    // The other partitions still deny absent keys.
    let denied =
        (0..1_000).filter(|&i| !block.may_contain(block.hasher().key(&[key(i), b"x".to_vec()].concat()))).count();
    assert!(denied > 900, "{denied}");

    let mut damaged = bytes;
    let trailer = ranges[1].end - TRAILER_LEN_BYTES;
    damaged[trailer] ^= 1;
    for verify in BOTH {
        let error = FilterBlock::open_any(damaged.as_slice(), verify).unwrap_err();
        let at = (trailer + offset_of(Field::Checksum)) as u64;
        assert!(
            matches!(error, Error::ChecksumMismatch { field: Field::Checksum, offset, .. } if offset == at),
            "{error:?}"
        );
    }
}

#[test]
fn an_index_with_filter_params_or_a_number_is_refused() {
    for (field, wanted) in [(Field::Params, Field::Params), (Field::PartitionNumber, Field::PartitionNumber)] {
        let mut bytes = partitioned("bloom:10", 10, 4);
        assert_eq!(blocks::get_number(&bytes, Field::Kind), u64::from(PARTITION_INDEX_TAG));
        put_number(&mut bytes, field, 1);
        repair_pages(&mut bytes);
        // An index with a partition number does not open as that partition either.
        for result in [
            FilterBlock::open_any(bytes.as_slice(), Verify::AtOpen),
            ParsedBlock::open_partition(bytes.as_slice(), 0, Verify::AtOpen).and_then(|block| block.bind_any(None)),
        ] {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Corrupt { field, .. } if field == wanted), "{error}");
        }
    }
    let layers = with_extension(partitioned("bloom:10", 10, 4), 1, &[3, 1, 1]);
    let error = FilterBlock::open_any(layers, Verify::AtOpen).unwrap_err();
    assert!(matches!(error, Error::Corrupt { field: Field::Extension, .. }), "{error}");
}

#[test]
fn an_index_that_omits_bytes_or_keys_is_refused() {
    let bytes = partitioned("bloom:10", 10, 4);
    let longer = [&[0; 64], bytes.as_slice()].concat();
    assert!(FilterBlock::open_any(longer, Verify::AtOpen).is_err());
    let mut miscounted = bytes;
    put_number(&mut miscounted, Field::NumKeys, 11);
    repair_trailer(&mut miscounted);
    assert!(FilterBlock::open_any(miscounted, Verify::AtOpen).is_err());
}
