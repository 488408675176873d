//! Tests partition indexes, and partitions that are opened one by one.

use filterblock::FilterOptions;
use filterblock::layout::{TRAILER_LEN_BYTES, checksum_of, stated_len_bytes};
use filterblock::{
    Error, Expected, Field, FilterBlock, HashSeed, KeyHasher, ParsedBlock, Verify,
    partitions::{Partition, PartitionIndex},
};
use filterblock_testkit::Random;
use filterblock_testkit::allocation::of_thread::{LIVE, PEAK};
use filterblock_testkit::blocks::{
    self, BOTH, SEED, SPECS, TABLE, built_in_partitions, index_of, key, mutate, partitioned, put_number, repair_pages,
    repair_trailer,
};

static HASHER: KeyHasher = KeyHasher::xxh3(SEED);

fn of_table() -> Expected<'static> {
    Expected::of_table(TABLE, &HASHER)
}

fn index_start(bytes: &[u8]) -> usize {
    bytes.len() - index_of(bytes).len()
}

fn open(bytes: &[u8]) -> PartitionIndex<&[u8]> {
    PartitionIndex::open(&bytes[index_start(bytes)..], &of_table()).unwrap()
}

fn part_of<'a>(bytes: &'a [u8], index: &PartitionIndex<&[u8]>, number: u32) -> &'a [u8] {
    let range = index.get(number).unwrap().byte_range;
    &bytes[range.start as usize..range.end as usize]
}

fn partition(bytes: &[u8], number: u32, verify: Verify) -> Partition<&[u8]> {
    let index = open(bytes);
    index.open_partition(number, part_of(bytes, &index, number), verify).unwrap()
}

#[test]
fn partitions_without_a_table_id_open_if_the_checksum_is_stated() {
    let bytes = built_in_partitions(&FilterOptions::new("bloom:10".parse().unwrap()), SEED, 50, (0..200).map(key));
    let index = &bytes[index_start(&bytes)..];
    let without = Expected::of_table([0; 16], &HASHER);
    assert!(matches!(PartitionIndex::open(index, &without), Err(Error::Invalid { .. })));
    let index = PartitionIndex::open(index, &without.with_checksum(checksum_of(index).unwrap())).unwrap();
    for (number, verify) in (0..4).zip(BOTH.into_iter().cycle()) {
        let partition = index.open_partition(number, part_of(&bytes, &index, number), verify).unwrap();
        let first = 50 * number as usize;
        assert!((first..first + 50).all(|i| partition.may_contain(HASHER.key(&key(i)))));
    }
}

#[test]
fn an_index_lists_and_finds_the_partitions_of_the_block() {
    for n in [0, 1, 15, 16, 17, 31, 32, 33, 100, 1_000] {
        for partition_keys in [1, 2, 3, 50] {
            let bytes = partitioned("bloom:10", n, partition_keys);
            let index = open(&bytes);
            let what = format!("{n} keys by {partition_keys}");
            assert_eq!((index.len(), index.num_keys()), (n.div_ceil(partition_keys), n as u64), "{what}");
            assert_eq!(index.is_empty(), n == 0, "{what}");
            let entries: Vec<_> = index.iter().collect();
            assert_eq!(entries.len(), index.len(), "{what}");
            let mut end = 0;
            for (i, entry) in entries.iter().enumerate() {
                assert_eq!(entry.number as usize, i, "{what}");
                assert_eq!(entry.last_key, key(n.min((i + 1) * partition_keys) - 1), "{what}");
                assert_eq!(entry.after.map(<[u8]>::to_vec), (i > 0).then(|| key(i * partition_keys - 1)), "{what}");
                assert!(entry.byte_range.start % 64 == 0 && entry.byte_range.start - end < 64, "{what}");
                end = entry.byte_range.end;
                assert_eq!(index.get(i as u32).as_ref(), Some(entry), "{what}");
            }
            assert!(index.get(index.len() as u32).is_none() && index.get(u32::MAX).is_none(), "{what}");
            assert!(end <= index_start(&bytes) as u64, "{what}");
            let found: Vec<_> = (0..n).map(|i| index.find(&key(i)).map(|number| number as usize)).collect();
            assert!(found.iter().enumerate().all(|(i, number)| *number == Some(i / partition_keys)), "{what}");
            // The first partition also covers keys before its first key. The last partition also
            // covers keys after its last key.
            assert_eq!(
                (index.find(b"a"), index.find(b"z")),
                match n {
                    0 => (None, None),
                    _ => (Some(0), Some(index.len() as u32 - 1)),
                }
            );
        }
    }
}

#[test]
fn partitions_opened_one_by_one_answer_like_the_whole_block() {
    for text in SPECS {
        let bytes = partitioned(text, 1_000, 90);
        for verify in BOTH {
            let whole = FilterBlock::open(bytes.as_slice(), &of_table(), verify).unwrap();
            let parts: Vec<_> = (0..12).map(|number| partition(&bytes, number, verify)).collect();
            let index = open(&bytes);
            for i in 0..2_000 {
                let asked = [key(i / 2), vec![b'x'; i % 2]].concat();
                let part = &parts[index.find(&asked).unwrap() as usize];
                assert!(part.covers(&asked));
                let hashed = index.hasher().key(&asked);
                assert_eq!(part.may_contain(hashed), whole.may_contain(HASHER.key(&asked)), "{text}, {asked:?}");
            }
        }
    }
}

#[test]
fn a_partition_never_denies_keys_outside_its_range() {
    let bytes = partitioned("blocked-bloom:12", 1_000, 100);
    for verify in BOTH {
        let mut denied = 0;
        for number in 0..10u32 {
            let part = partition(&bytes, number, verify);
            assert_eq!(part.number(), number);
            for i in 0..1_000 {
                assert!(part.may_contain(HASHER.key(&key(i))), "partition {number} denies key {i}");
                assert_eq!(part.covers(&key(i)), i / 100 == number as usize);
                let between = [key(i), b"x".to_vec()].concat();
                let belongs = (i + 1) / 100 == number as usize || number == 9 && i == 999;
                assert_eq!(part.covers(&between), belongs, "partition {number}, after key {i}");
                let answer = part.may_contain(HASHER.key(&between));
                assert!(belongs || answer);
                denied += u32::from(!answer);
            }
            // The first partition also covers keys before its first key. The last partition also
            // covers keys after its last key.
            assert_eq!((part.covers(b"a"), part.covers(b"z")), (number == 0, number == 9));
        }
        assert!(denied > 980, "{denied} of 1,000");
    }
}

#[test]
fn a_partition_without_its_index_always_answers_maybe() {
    let bytes = partitioned("blocked-bloom:12", 1_000, 100);
    let index = open(&bytes);
    for verify in BOTH {
        let alone = ParsedBlock::open_partition(part_of(&bytes, &index, 3), 3, verify).unwrap();
        let alone = alone.bind(&of_table()).unwrap();
        let with_index = partition(&bytes, 3, verify);
        for block in [&alone, with_index.block()] {
            for i in 0..2_000 {
                let (key, hash) = (key(i), blocks::hash(i));
                assert!(block.may_contain(HASHER.key(&key)) && block.may_contain_hash(hash));
                assert!(block.may_contain_prefix("any", HASHER.key(&key)));
                let mut answers = [false; 2];
                block.may_contain_batch(&[hash, hash], &mut answers);
                assert!(answers == [true; 2]);
            }
            assert_eq!((block.metadata().num_keys, block.verify_pages().is_ok()), (100, true));
        }
    }
}

fn field_of<T: std::fmt::Debug>(result: Result<T, Error>) -> Field {
    match result.unwrap_err() {
        Error::Unexpected { field, .. } | Error::Corrupt { field, .. } | Error::ChecksumMismatch { field, .. } => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn foreign_bytes_do_not_open_as_a_partition() {
    let bytes = partitioned("blocked-bloom:10", 400, 100);
    let index = open(&bytes);
    let part = part_of(&bytes, &index, 1);
    for verify in BOTH {
        let open = |number, bytes: &[u8]| index.open_partition(number, bytes.to_vec(), verify);
        assert!(open(1, part).is_ok());
        assert_eq!(field_of(open(2, part)), Field::PartitionNumber);
        assert_eq!(field_of(open(1, part_of(&bytes, &index, 2))), Field::PartitionNumber);
        assert_eq!(field_of(open(1, &bytes[index_start(&bytes)..])), Field::PartitionNumber);
        assert_eq!(field_of(open(1, &blocks::block("blocked-bloom:10", 100))), Field::PartitionNumber);
        for number in [4, u32::MAX] {
            let refused = open(number, part);
            assert!(matches!(refused, Err(Error::Invalid { what: "partition number", .. })), "{refused:?}");
        }
        // Truncated, extended and empty bytes are refused.
        assert!(open(1, &part[1..]).is_err() && open(1, &part[..part.len() - 1]).is_err() && open(1, &[]).is_err());
        assert!(open(1, &[part, &[0]].concat()).is_err() && open(1, &[&[0; 64], part].concat()).is_err());
        // This stale partition is sound, and has the right SST and partition number. But it has
        // fewer keys than partition 1 of the index, so its length is wrong.
        let other = partitioned("blocked-bloom:10", 400, 30);
        let stale = part_of(&other, &self::open(&other), 1);
        assert_eq!(field_of(open(1, stale)), Field::Length);
        // Partitions of another SST and of another seed are refused.
        let mut foreign = part.to_vec();
        put_number(&mut foreign, Field::TableId, 7);
        repair_pages(&mut foreign);
        assert_eq!(field_of(open(1, &foreign)), Field::TableId);
        let mut foreign = part.to_vec();
        put_number(&mut foreign, Field::Seed, 7);
        repair_pages(&mut foreign);
        assert_eq!(field_of(open(1, &foreign)), Field::Seed);
        let prefixed = blocks::with_extension(part.to_vec(), 3, b"\x02\x01a");
        assert!(open(1, &prefixed).is_err());
    }
}

#[test]
fn an_index_of_another_table_or_hasher_does_not_open() {
    let bytes = partitioned("bloom:10", 400, 100);
    let index = &bytes[index_start(&bytes)..];
    let open = |expected: Expected<'_>| PartitionIndex::open(index, &expected);
    assert!(open(of_table().with_num_entries(400).with_checksum(checksum_of(&bytes).unwrap())).is_ok());
    assert_eq!(field_of(open(Expected::of_table([7; 16], &HASHER))), Field::TableId);
    assert_eq!(field_of(open(Expected::of_table(TABLE, &KeyHasher::xxh3(HashSeed(7))))), Field::Seed);
    assert_eq!(field_of(open(of_table().with_checksum(7))), Field::Checksum);
    assert_eq!(field_of(open(of_table().with_num_entries(399))), Field::NumKeys);
    assert_eq!(field_of(open(of_table().with_prefixes("first-4"))), Field::Flags);
    assert!(matches!(open(Expected::of_table([0; 16], &HASHER)), Err(Error::Invalid { .. })));
    // Other blocks, and the whole filter instead of its index, are refused.
    let open = |bytes: &[u8]| PartitionIndex::open(bytes.to_vec(), &of_table());
    assert_eq!(field_of(open(&blocks::block("bloom:10", 100))), Field::Kind);
    assert_eq!(field_of(open(part_of(&bytes, &self::open(&bytes), 0))), Field::Kind);
    assert_eq!(field_of(open(&bytes)), Field::Length);
    for cut in 0..index.len() {
        assert!(open(&index[..cut]).is_err() && open(&index[cut + 1..]).is_err(), "{cut}");
    }
}

#[test]
fn every_flipped_bit_of_an_index_is_detected() {
    let bytes = partitioned("bloom:10", 300, 10);
    let mut index = bytes[index_start(&bytes)..].to_vec();
    for bit in 0..index.len() * 8 {
        index[bit / 8] ^= 1 << (bit % 8);
        assert!(PartitionIndex::open(index.as_slice(), &of_table()).is_err(), "bit {bit}");
        index[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(PartitionIndex::open(index, &of_table()).is_ok());
}

#[test]
fn hostile_indexes_list_ranges_in_order_or_do_not_open() {
    let mut random = Random(5);
    let originals: Vec<Vec<u8>> = [("bloom:10", 300, 10), ("always-maybe", 64, 1), ("bloom:10", 0, 10)]
        .map(|(text, n, by)| partitioned(text, n, by))
        .map(|bytes| bytes[index_start(&bytes)..].to_vec())
        .to_vec();
    let (rounds, mut opened) = (60_000 / filterblock_testkit::sparse() as usize, 0);
    for round in 0..rounds {
        let mut bytes = originals[round % originals.len()].clone();
        if round % 2 == 0 && bytes.len() > TRAILER_LEN_BYTES {
            // Changes one to three bytes of the index, and repairs the checksums.
            for _ in 0..=random.index(3) {
                let at = random.index(blocks::payload_len(&bytes).unwrap());
                bytes[at] = random.next() as u8;
            }
            repair_pages(&mut bytes);
        } else {
            mutate(&mut bytes, &mut random);
        }
        let Ok(index) = PartitionIndex::open(bytes.as_slice(), &of_table()) else { continue };
        opened += 1;
        let entries: Vec<_> = index.iter().collect();
        assert_eq!(entries.len(), index.len());
        assert!(entries.is_sorted_by(|a, b| a.byte_range.end <= b.byte_range.start && a.last_key <= b.last_key));
        for entry in &entries {
            assert_eq!(index.get(entry.number).as_ref(), Some(entry));
            let wanted = entries.iter().position(|other| other.last_key >= entry.last_key);
            assert_eq!(index.find(entry.last_key).map(|number| number as usize), wanted);
            assert!(index.open_partition(entry.number, &[0u8; 100][..], Verify::AtOpen).is_err());
        }
        let _ = (index.find(b""), index.find(&[0xff; 20]), format!("{index:?}"));
    }
    assert!(opened > rounds / 40, "only {opened} of {rounds} indexes passed the checks: repair the mutator");
}

#[test]
fn stated_lengths_match_blocks_and_indexes() {
    for bytes in blocks::corpus() {
        let tail = &bytes[bytes.len() - TRAILER_LEN_BYTES..];
        let stated = stated_len_bytes(tail).unwrap() as usize;
        let is_index = bytes[bytes.len() - TRAILER_LEN_BYTES + filterblock::layout::offset_of(Field::Kind)]
            == filterblock::layout::PARTITION_INDEX_TAG;
        assert!(if is_index { stated <= bytes.len() } else { stated == bytes.len() });
        assert_eq!(stated_len_bytes(&tail[1..]), None);
    }
    let mut hostile = blocks::block("bloom:10", 10);
    put_number(&mut hostile, Field::PayloadLen, u64::MAX);
    assert!(
        stated_len_bytes(&hostile).is_some_and(|len| len > 1 << 48),
        "expected the stated length, which the host compares with its file"
    );
    let mut hostile = blocks::block("bloom:10", 10);
    put_number(&mut hostile, Field::Version, 2);
    repair_trailer(&mut hostile);
    assert_eq!((stated_len_bytes(&hostile), stated_len_bytes(&[0; 60])), (None, None));
}

#[test]
fn partition_errors_count_offsets_in_the_hosts_file() {
    let mut bytes = partitioned("bloom:10", 4_000, 1_000);
    let start = index_start(&bytes);
    let block_offset = 1u64 << 40;
    let at_start = of_table().at_offset(block_offset + start as u64);
    let index = bytes[start..].to_vec();
    let index = PartitionIndex::open(index.as_slice(), &at_start).unwrap();
    let range = index.get(2).unwrap().byte_range;
    bytes[range.start as usize..][..64].fill(0);
    let part = &bytes[range.start as usize..range.end as usize];
    let is_page = |error: &Error| matches!(error, Error::ChecksumMismatch { field: Field::Page, offset, .. } if *offset == block_offset + range.start);
    assert!(is_page(&index.open_partition(2, part, Verify::AtOpen).unwrap_err()));
    let opened = index.open_partition(2, part, Verify::OnFirstTouch).unwrap();
    assert!((0..4_000).all(|i| opened.may_contain(HASHER.key(&key(i)))));
    assert_eq!(opened.block().damaged_pages(), 1);
    assert!(is_page(&opened.block().verify_pages().unwrap_err()));
    // The offset of damage in the index itself also counts from the start of the host's file.
    let mut damaged = bytes[start..].to_vec();
    damaged[0] ^= 1;
    let Err(Error::ChecksumMismatch { offset, .. }) = PartitionIndex::open(damaged, &at_start) else {
        panic!("expected an error about the damaged first entry")
    };
    assert_eq!(offset, block_offset + start as u64);
}

#[test]
fn an_index_opens_with_half_its_bytes_of_memory() {
    let peak_of_opening = |index: &[u8]| {
        let before = LIVE.get();
        PEAK.set(before);
        let opened = PartitionIndex::open(index, &of_table());
        let (peak, len) = (PEAK.get() - before, opened.as_ref().map_or(0, |index| index.iter().count()));
        drop(opened);
        assert_eq!(LIVE.get(), before, "opening and dropping an index leaks memory");
        (usize::try_from(peak).unwrap(), len)
    };
    let sound = partitioned("blocked-bloom:10", 20_000, 20);
    // The shortest valid entry has six bytes: a partition length of 60, a checksum of four bytes,
    // and a key length of 0.
    let hostile = |entry: &[u8]| {
        let mut bytes = entry.repeat(500_000);
        bytes.resize(bytes.len() + bytes.len().div_ceil(4096) * 4, 0);
        bytes.extend_from_slice(&partitioned("bloom:10", 0, 1));
        put_number(&mut bytes, Field::PayloadLen, 500_000 * entry.len() as u64);
        repair_pages(&mut bytes);
        bytes
    };
    let cases = [
        (sound[index_start(&sound)..].to_vec(), 1_000),
        (hostile(&[60, 0, 0, 0, 0, 0]), 500_000),
        (hostile(&[59, 0, 0, 0, 0, 0]), 0),
    ];
    for (index, wanted) in cases {
        let (peak, len) = peak_of_opening(&index);
        assert!(len == wanted && peak <= index.len() / 2 + 4096, "{peak} bytes for {}, {len} entries", index.len());
    }
}
