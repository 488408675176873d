//! Tests the writer and the reader of logs.

use super::*;
use crate::lsm::wal::{LogKind, LogWriter};
use crate::storage::Memory;

const ID: LogId = LogId { kind: LogKind::WriteAhead, store_id: [7; 16], number: 12 };
const FIRST: u64 = 1000;

fn path() -> &'static Path {
    Path::new("000012.log")
}

/// Returns a log whose records have one sequence number each, and the byte range of each record.
fn log_of(id: LogId, payloads: &[&[u8]], sync_each: bool) -> (Vec<u8>, Vec<Range<usize>>) {
    let memory = Memory::new();
    let mut writer = LogWriter::create(&memory, path(), id, FIRST).unwrap();
    let mut ranges = Vec::new();
    for (payload, sequence) in payloads.iter().zip(FIRST..) {
        let start = usize::try_from(writer.len_bytes()).unwrap();
        writer.append(sequence, &[payload]).unwrap();
        ranges.push(start..usize::try_from(writer.len_bytes()).unwrap());
        if sync_each {
            writer.sync().unwrap();
        }
    }
    writer.flush().unwrap();
    (memory.read(path()).unwrap(), ranges)
}

type Read = (Result<LogEnd>, Vec<(u64, Vec<u8>)>);

fn read_with(bytes: &[u8], recovery: LogRecovery) -> Read {
    let memory = Memory::new();
    memory.create(path()).unwrap().write_all(bytes).unwrap();
    let mut delivered = Vec::new();
    let end = read_log(&memory, path(), ID, recovery, &mut |record| {
        let start = usize::try_from(record.payload_offset).unwrap();
        assert_eq!(bytes[start..start + record.payload.len()], *record.payload);
        delivered.push((record.sequence, record.payload.to_vec()));
        Ok(record.sequence + 1)
    });
    if let Ok(end) = &end {
        assert_eq!(end.valid_len_bytes + end.torn_tail_bytes, bytes.len() as u64);
        assert_eq!(end.num_records, delivered.len() as u64);
    }
    (end, delivered)
}

fn strict(bytes: &[u8]) -> Read {
    read_with(bytes, LogRecovery::Strict)
}

fn salvage(bytes: &[u8]) -> Read {
    read_with(bytes, LogRecovery::Salvage)
}

fn numbered(payloads: &[&[u8]]) -> Vec<(u64, Vec<u8>)> {
    (FIRST..).zip(payloads.iter().map(|payload| payload.to_vec())).collect()
}

#[track_caller]
fn assert_damage_at(read: &Read, expected_offset: u64) {
    let error = read.0.as_ref().unwrap_err();
    assert!(error.to_string().starts_with("000012.log: damaged"), "{error}");
    let (Error::Corrupt { offset, .. } | Error::ChecksumMismatch { offset, .. }) = error.root() else {
        panic!("{error}")
    };
    assert_eq!(*offset, expected_offset, "{error}");
}

const PAYLOADS: [&[u8]; 4] = [b"first", b"\0\0\0\0\0\0\0\0", b"third record", b"4"];

#[test]
fn records_come_back_in_order_and_whole() {
    for sync_each in [false, true] {
        let (bytes, _) = log_of(ID, &PAYLOADS, sync_each);
        for read in [strict(&bytes), salvage(&bytes)] {
            assert_eq!(read.1, numbered(&PAYLOADS));
            let end = read.0.unwrap();
            assert!(end.is_clean());
            assert_eq!((end.valid_len_bytes, end.next_sequence), (bytes.len() as u64, Some(FIRST + 4)));
        }
    }
}

#[test]
fn records_longer_than_the_buffer_come_back_whole() {
    let large: Vec<u8> = (0..200_000u32).map(|i| (i % 251).to_le_bytes()[0]).collect();
    for len in [65_400, 65_488, 65_512, 65_513, 65_536, 65_537, 131_072, 200_000] {
        let payloads = [b"a".as_slice(), &large[..len], b"b", &large[..len], &large[..len], b"c"];
        let (bytes, _) = log_of(ID, &payloads, false);
        assert!(strict(&bytes).1 == numbered(&payloads));
        let memory = Memory::new();
        let mut writer = LogWriter::create(&memory, path(), ID, FIRST).unwrap();
        writer.append(FIRST, &[b"a"]).unwrap();
        writer.append(FIRST + 1, &[&large[..100], &[], &large[100..len]]).unwrap();
        let len_bytes = writer.len_bytes();
        writer.flush().unwrap();
        assert_eq!(writer.len_bytes(), len_bytes);
        let whole = memory.read(path()).unwrap();
        assert_eq!(whole.len() as u64, len_bytes);
        assert!(whole == bytes[..whole.len()]);
    }
}

#[test]
fn a_truncated_log_gives_the_records_before_the_cut() {
    let (bytes, ranges) = log_of(ID, &PAYLOADS, true);
    for len in 0..bytes.len() {
        let whole = ranges.iter().filter(|range| range.end <= len).count();
        for read in [strict(&bytes[..len]), salvage(&bytes[..len])] {
            let end = read.0.unwrap();
            assert_eq!(read.1, numbered(&PAYLOADS[..whole]), "{len}");
            let cut_clean = len == HEADER_LEN_BYTES || ranges.iter().any(|range| range.end == len);
            assert_eq!(end.is_clean(), cut_clean, "{len}");
            assert!(end.skipped.is_empty());
        }
    }
}

#[test]
fn a_flipped_bit_costs_salvage_at_most_one_record() {
    for sync_each in [false, true] {
        let (sound, ranges) = log_of(ID, &PAYLOADS, sync_each);
        for bit in 0..sound.len() * 8 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let hit = ranges.iter().position(|range| range.contains(&(bit / 8)));
            let (read, saved) = (strict(&bytes), salvage(&bytes));
            let mut left = numbered(&PAYLOADS);
            let Some(hit) = hit else {
                assert_damage_at(&read, 0);
                assert_eq!((&saved.1, saved.0.unwrap().skipped), (&left, vec![(0, 48)]), "bit {bit}");
                continue;
            };
            assert_eq!(read.1, left[..hit], "bit {bit}");
            left.remove(hit);
            assert_eq!(saved.1, left, "bit {bit}");
            let (start, len) = (ranges[hit].start as u64, ranges[hit].len() as u64);
            let end = saved.0.unwrap();
            if hit == PAYLOADS.len() - 1 {
                assert_eq!((end.torn_tail_bytes, read.0.unwrap().torn_tail_bytes), (len, len));
            } else {
                assert_damage_at(&read, start);
                assert_eq!((end.skipped, end.torn_tail_bytes), (vec![(start, len)], 0), "bit {bit}");
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_a_header_without_records_is_an_error() {
    let (sound, _) = log_of(ID, &[], false);
    for bit in 0..sound.len() * 8 {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_damage_at(&strict(&bytes), 0);
        assert_eq!(salvage(&bytes).0.unwrap().torn_tail_bytes, 48);
    }
}

#[test]
fn another_log_is_refused_and_its_records_are_not_accepted() {
    let (own, ranges) = log_of(ID, &PAYLOADS, true);
    let others = [
        (LogId { number: 13, ..ID }, Field::FileNumber),
        (LogId { store_id: [8; 16], ..ID }, Field::StoreId),
        (LogId { kind: LogKind::Manifest, ..ID }, Field::Magic),
    ];
    for (id, field) in others {
        let (other, _) = log_of(id, &PAYLOADS, true);
        for read in [strict(&other), salvage(&other)] {
            let error = read.0.unwrap_err();
            assert!(matches!(error.root(), Error::Corrupt { field: found, .. } if *found == field), "{error}");
        }
        let mut mixed = own.clone();
        mixed[ranges[1].clone()].copy_from_slice(&other[ranges[1].clone()]);
        assert_damage_at(&strict(&mixed), ranges[1].start as u64);
        // `reused` is a new log in blocks that the file system reused. The later blocks still hold
        // an older log.
        let reused = [&own[..ranges[2].start], &other[ranges[2].start..]].concat();
        let read = strict(&reused);
        assert_eq!(read.1, numbered(&PAYLOADS[..2]));
        assert_eq!(read.0.unwrap().valid_len_bytes, ranges[1].end as u64);
    }
}

#[test]
fn a_newer_format_is_unsupported_and_not_damaged() {
    let (mut bytes, _) = log_of(ID, &PAYLOADS, false);
    bytes[8] = 2;
    let mut checksum = Vec::new();
    crate::codec::put_u32(&mut checksum, Crc32::new().with(&bytes[..44]).finish());
    bytes[44..48].copy_from_slice(&checksum);
    for read in [strict(&bytes), salvage(&bytes)] {
        let error = read.0.unwrap_err();
        assert!(matches!(error.root(), Error::Unsupported { field: Field::Version, found: 2 }), "{error}");
    }
}

#[test]
fn a_tail_of_zeros_or_noise_is_cut_off() {
    let (sound, _) = log_of(ID, &PAYLOADS, true);
    let noise: Vec<u8> =
        (1..=5000u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).to_le_bytes()[0]).collect();
    for tail in [&[0; 1][..], &[0; 24], &[0; 10_000], &[0xff; 10_000], &noise] {
        let bytes = [&sound, tail].concat();
        for read in [strict(&bytes), salvage(&bytes)] {
            assert_eq!(read.1, numbered(&PAYLOADS));
            assert_eq!(read.0.unwrap().torn_tail_bytes, tail.len() as u64);
        }
    }
    for zeros in [0, 1, 48, 4096] {
        let end = strict(&vec![0; zeros]).0.unwrap();
        assert_eq!((end.valid_len_bytes, end.torn_tail_bytes), (0, zeros as u64));
        assert!(!end.is_clean());
    }
    assert_damage_at(&strict(&noise), 0);
}

#[test]
fn a_complete_tail_is_distinguished_from_a_cut_one() {
    let payloads: [&[u8]; 3] = [b"first", &[b'x'; 1_500], &[b'y'; 1_500]];
    let (sound, ranges) = log_of(ID, &payloads, true);
    let is_cut = |bytes: &[u8]| {
        let end = strict(bytes).0.unwrap();
        assert!(end.torn_tail_bytes > 0 && end.tail(path()).unwrap().is_cut == end.is_tail_cut);
        end.is_tail_cut
    };
    // Cut the file at each length that is not the end of the header or of a record.
    for len in (1..sound.len()).filter(|len| *len != HEADER_LEN_BYTES && ranges.iter().all(|range| range.end != *len)) {
        assert!(is_cut(&sound[..len]), "{len}");
    }
    // Flip each bit of the last record. A bit that enlarges the payload length may make the tail
    // look cut.
    let last = ranges[2].clone();
    for bit in last.start * 8..last.end * 8 {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let claims_more =
            bit / 8 < last.start + 4 && bytes[last.start..last.start + 4] > sound[last.start..last.start + 4];
        assert!(!is_cut(&bytes) || claims_more, "bit {bit}");
    }
    for byte in [0, 0xff, b'z'] {
        let mut bytes = sound.clone();
        bytes[last.start + 100..last.start + 110].fill(byte);
        assert!(!is_cut(&bytes));
        // A sector of zeros looks like one that was never written before a crash.
        bytes[last.start..].fill(byte);
        assert_eq!(is_cut(&bytes), byte == 0);
        assert_eq!(is_cut(&[sound.as_slice(), &[byte; 300]].concat()), byte == 0);
    }
    let mut bytes = sound.clone();
    let sector = last.start.next_multiple_of(SECTOR_LEN_BYTES);
    bytes[sector..sector + SECTOR_LEN_BYTES].fill(0);
    assert!(is_cut(&bytes));
}

#[test]
fn blank_sectors_count_as_a_crash_unless_they_were_synced() {
    let payloads: Vec<Vec<u8>> = (1..=40u8).map(|i| vec![i; 100]).collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    for sync_each in [false, true] {
        let (sound, ranges) = log_of(ID, &payloads, sync_each);
        for sector in 0..sound.len() / 512 {
            let mut bytes = sound.clone();
            bytes[sector * 512..(sector + 1) * 512].fill(0);
            let whole = if sector == 0 { 0 } else { ranges.iter().filter(|range| range.end <= sector * 512).count() };
            let read = strict(&bytes);
            assert_eq!(read.1, numbered(&payloads[..whole]), "sector {sector}");
            let last_records_are_hit = ranges[payloads.len() - 1].start < (sector + 1) * 512;
            if sync_each && !last_records_are_hit {
                assert!(read.0.unwrap_err().is_damage(), "sector {sector}");
            } else {
                assert!(!read.0.unwrap().is_clean(), "sector {sector}");
            }
            let saved = salvage(&bytes).1;
            let hit = |range: &Range<usize>| range.start < (sector + 1) * 512 && sector * 512 < range.end;
            assert_eq!(saved.len(), ranges.iter().filter(|range| !hit(range)).count(), "sector {sector}");
        }
    }
}

#[test]
fn a_damaged_header_before_a_blank_sector_is_damage() {
    let (mut bytes, _) = log_of(ID, &[&[1; 1_500], b"second"], false);
    bytes[512..1024].fill(0);
    assert_eq!(strict(&bytes).0.unwrap().valid_len_bytes, HEADER_LEN_BYTES as u64);
    bytes[13] ^= 1;
    assert_damage_at(&strict(&bytes), 0);
    assert_eq!(salvage(&bytes).1, [(FIRST + 1, b"second".to_vec())]);
}

#[test]
fn a_synced_length_is_found_after_records_and_damage() {
    let memory = Memory::new();
    let mut writer = LogWriter::create(&memory, path(), ID, FIRST).unwrap();
    let mut starts = Vec::new();
    for sequence in FIRST..FIRST + 8 {
        if sequence == FIRST + 7 {
            writer.sync().unwrap();
        }
        starts.push(usize::try_from(writer.len_bytes()).unwrap());
        writer.append(sequence, &[&[1; 600]]).unwrap();
    }
    writer.flush().unwrap();
    let sound = memory.read(path()).unwrap();
    // Only the last record says that the blank sector had been synced. Five records, sound or
    // damaged, lie between that sector and the last record.
    for more_damage in [None, Some(3), Some(6)] {
        let mut bytes = sound.clone();
        bytes[512..1024].fill(0);
        more_damage.into_iter().for_each(|record: usize| bytes[starts[record] + 100] ^= 1);
        let read = strict(&bytes);
        assert!(read.0.unwrap_err().is_damage(), "{more_damage:?}");
        let read = strict(&bytes[..starts[7]]);
        assert_eq!(read.0.unwrap().valid_len_bytes, HEADER_LEN_BYTES as u64, "{more_damage:?}");
    }
}

#[test]
fn a_missing_or_repeated_record_is_damage() {
    let (sound, ranges) = log_of(ID, &PAYLOADS, false);
    let without = [&sound[..ranges[1].start], &sound[ranges[1].end..]].concat();
    let twice = [&sound[..ranges[1].end], &sound[ranges[1].start..]].concat();
    for (bytes, offset) in [(&without, ranges[1].start), (&twice, ranges[1].end)] {
        let read = strict(bytes);
        assert!(matches!(read.0.as_ref().unwrap_err().root(), Error::Corrupt { field: Field::LogSequence, .. }));
        assert_damage_at(&read, offset as u64);
    }
    let (end, saved) = salvage(&without);
    assert_eq!((end.unwrap().skipped, saved.len()), (vec![(ranges[1].start as u64, 0)], 3));
    let (end, saved) = salvage(&twice);
    assert_eq!(
        (end.unwrap().skipped, saved),
        (vec![(ranges[1].end as u64, ranges[1].len() as u64)], numbered(&PAYLOADS))
    );
}

#[test]
fn an_empty_payload_with_a_right_checksum_is_not_a_record() {
    let (mut bytes, _) = log_of(ID, &PAYLOADS, false);
    let len = bytes.len();
    crate::codec::put_u32(&mut bytes, 0);
    crate::codec::put_u64(&mut bytes, FIRST + 4);
    crate::codec::put_u64(&mut bytes, 0);
    let checksum = ID.checksum().with(&bytes[len..]).finish();
    crate::codec::put_u32(&mut bytes, checksum);
    assert_eq!(strict(&bytes).0.unwrap().torn_tail_bytes, 24);
}

#[test]
fn a_search_that_exceeds_its_budget_is_given_up() {
    let (mut bytes, _) = log_of(ID, &[b"sound"], false);
    bytes.extend_from_slice(&[1; 24]);
    for i in 0..100_000u32 {
        crate::codec::put_u32(&mut bytes, (100_000 - i) * 12);
        crate::codec::put_u64(&mut bytes, FIRST + 2);
        bytes.extend_from_slice(&[0; 12]);
    }
    bytes.extend_from_slice(&[0; 2000]);
    let started = std::time::Instant::now();
    assert_damage_at(&strict(&bytes), 48 + 24 + 5);
    let (end, saved) = salvage(&bytes);
    assert_eq!((saved.len(), end.unwrap().valid_len_bytes), (1, 77));
    assert!(started.elapsed().as_secs() < 20);
}

#[test]
fn a_used_sequence_number_is_refused_before_any_write() {
    let memory = Memory::new();
    let mut writer = LogWriter::create(&memory, path(), ID, FIRST).unwrap();
    writer.append(FIRST, &[b"one"]).unwrap();
    let error = writer.append(FIRST, &[b"again"]).unwrap_err();
    assert!(matches!(error.root(), Error::InvalidArgument { .. }), "{error}");
    assert!(writer.append(FIRST + 1, &[b"", b""]).is_err());
    writer.append(FIRST + 1, &[b"t", b"wo"]).unwrap();
    writer.sync().unwrap();
    assert_eq!(strict(&memory.read(path()).unwrap()).1, numbered(&[b"one", b"two"]));
}

#[test]
fn an_error_of_the_visitor_names_the_file() {
    let (bytes, _) = log_of(ID, &PAYLOADS, false);
    let memory = Memory::new();
    memory.create(path()).unwrap().write_all(&bytes).unwrap();
    let error = read_log(&memory, path(), ID, LogRecovery::Salvage, &mut |record| {
        Err(Error::Corrupt { field: Field::Batch, offset: record.payload_offset })
    });
    assert_eq!(
        error.unwrap_err().to_string(),
        "000012.log: damaged: invalid write batch at offset 72; run \"filterblock db repair\" on the store, or restore \
         from a backup"
    );
}

#[test]
fn a_crash_that_keeps_any_unsynced_sectors_leaves_a_prefix() {
    let (mut cut_before_kept_records, mut delivered_unsynced) = (0, 0);
    for seed in 1..=3000u64 {
        let mut random = filterblock_testkit::Random(seed);
        let memory = Memory::new();
        let mut writer = LogWriter::create(&memory, path(), ID, FIRST).unwrap();
        let (mut payloads, mut synced) = (Vec::new(), (Vec::new(), 0));
        for sequence in FIRST..FIRST + random.index(40) as u64 {
            // Zeros are the hardest payload, because they look like a sector that was never
            // written.
            let byte = random.index(3).to_le_bytes()[0];
            payloads.push(vec![byte; 1 + random.index(400)]);
            writer.append(sequence, &[payloads.last().unwrap()]).unwrap();
            if random.index(8) == 0 {
                writer.sync().unwrap();
                synced = (memory.read(path()).unwrap(), payloads.len());
            }
        }
        writer.flush().unwrap();
        let after = memory.read(path()).unwrap();
        let (mut before, num_synced) = synced;
        let len = before.len() + random.index(after.len() - before.len() + 1);
        before.resize(after.len(), 0);
        let kept_share = 1 + random.index(8);
        let sectors = before.chunks(512).zip(after.chunks(512));
        let mut image: Vec<u8> =
            sectors.flat_map(|(old, new)| if random.index(8) < kept_share { new } else { old }).copied().collect();
        image.truncate(if random.index(2) == 0 { len } else { after.len() });
        let (end, delivered) = strict(&image);
        let end = end.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        assert!(
            delivered.len() >= num_synced,
            "seed {seed}: only {} of {num_synced} synced records were delivered",
            delivered.len()
        );
        assert_eq!(delivered, numbered(&payloads[..delivered.len()]), "seed {seed}");
        delivered_unsynced += u32::from(delivered.len() > num_synced);
        cut_before_kept_records += u32::from(salvage(&image).1.len() > delivered.len());
        assert!(end.skipped.is_empty());
    }
    assert!(
        cut_before_kept_records > 100 && delivered_unsynced > 100,
        "too few cases: {cut_before_kept_records} cuts before kept records, {delivered_unsynced} with unsynced records"
    );
}
