//! Tests filters of other engines: every answer and every written byte equals the engine's own.

use filterblock_foreign::leveldb::LevelDbBloom;
use filterblock_foreign::rocksdb::{RocksDbFilter, RocksDbFilterBuilder, RocksDbFilterKind, RocksDbFilterOptions};
use filterblock_parquet::{ParquetBloom, ParquetBloomBuilder};
use filterblock_testkit::foreign::{Case, cases, cases_of_type, from_hex, rows};

use crate::{ROCKSDB_KINDS, leveldb_filter, parquet_filter, rocksdb_filter};

/// Asks a filter for all keys of a case, one by one and in batches. Asserts that the answers are
/// the engine's answers.
fn answers_agree(
    case: &Case,
    [present, absent]: [Vec<Vec<u8>>; 2],
    may_contain: impl Fn(&[u8]) -> bool,
    batch: impl Fn(&[&[u8]], &mut [bool]),
) {
    let expected = case.answers();
    for key in &present {
        assert!(may_contain(key), "{} denies {key:?}", case.name());
    }
    for (key, &answer) in absent.iter().zip(&expected) {
        assert_eq!(may_contain(key), answer == b'1', "{}: {key:?}", case.name());
    }
    for (keys, expected) in [(&present, vec![b'1'; present.len()]), (&absent, expected)] {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut answers = vec![false; keys.len()];
        batch(&keys, &mut answers);
        assert!(answers.iter().zip(expected).all(|(&a, b)| a == (b == b'1')), "{}, in batches", case.name());
    }
}

#[test]
fn leveldb_filters_match_leveldb_in_answers_and_bytes() {
    let cases = cases_of_type("leveldb", "raw_filter");
    assert_eq!(cases.len(), 13);
    for case in cases {
        let bytes = case.bytes();
        let filter = LevelDbBloom::new(&bytes);
        answers_agree(
            &case,
            [case.keys(), case.absent_keys()],
            |key| filter.may_contain(key),
            |keys, answers| filter.may_contain_batch(keys, answers),
        );
        let built = leveldb_filter(u32::try_from(case.number("bits_per_key")).unwrap(), &case.keys());
        assert!(built == bytes, "{}: the written bytes differ", case.name());
    }
}

/// Asserts that the filters in the folder's `edge_filters.txt` answer for the keys `key-%08d` as
/// the engine did.
fn odd_filters_agree(folder: &str, expected_rows: usize, may_contain: impl Fn(&[u8], &[u8]) -> bool) {
    let rows = rows(folder, "edge_filters.txt");
    assert_eq!(rows.len(), expected_rows, "{folder}");
    for row in rows {
        let [name, hex, answers] = &row[..] else { panic!("{row:?}") };
        let filter = from_hex(hex);
        let found: String = (0..answers.len())
            .map(|i| if may_contain(&filter, format!("key-{i:08}").as_bytes()) { '1' } else { '0' })
            .collect();
        assert_eq!(&found, answers, "{folder}, {name}");
    }
}

#[test]
fn odd_leveldb_filters_answer_as_in_leveldb() {
    odd_filters_agree("leveldb", 15, |filter, key| LevelDbBloom::new(filter).may_contain(key));
}

fn rocksdb_options(case: &Case) -> RocksDbFilterOptions {
    RocksDbFilterOptions {
        kind: match case.text("kind") {
            "legacy" => RocksDbFilterKind::LegacyBloom,
            "bloom" => RocksDbFilterKind::FastLocalBloom,
            _ => RocksDbFilterKind::Ribbon128,
        },
        bits_per_key: case.float("bits_per_key"),
        optimize_for_memory: case.is("optimize_filters_for_memory"),
        trailer_without_keys: case.folder == "rocksdb-7.8.3",
    }
}

#[test]
fn rocksdb_filters_match_rocksdb_in_answers_and_bytes() {
    for (folder, expected_cases) in [("rocksdb-7.8.3", 64), ("rocksdb-11.8.1", 9)] {
        let cases = cases_of_type(folder, "raw_filter");
        assert_eq!(cases.len(), expected_cases, "{folder}");
        for case in cases {
            let bytes = case.bytes();
            let filter = RocksDbFilter::new(&bytes);
            answers_agree(
                &case,
                [case.keys(), case.absent_keys()],
                |key| filter.may_contain(key),
                |keys, answers| filter.may_contain_batch(keys, answers),
            );
            let mut builder = RocksDbFilterBuilder::new(rocksdb_options(&case));
            case.keys().iter().for_each(|key| builder.add(key));
            assert!(builder.finish() == bytes, "{}: the written bytes differ", case.name());
        }
    }
}

#[test]
fn odd_rocksdb_filters_answer_as_in_rocksdb() {
    for folder in ["rocksdb-7.8.3", "rocksdb-11.8.1"] {
        odd_filters_agree(folder, 41, |filter, key| RocksDbFilter::new(filter).may_contain(key));
    }
}

#[test]
fn parquet_filters_match_other_writers_in_answers_and_bytes() {
    let cases = cases("parquet");
    assert_eq!(cases.len(), 27);
    for case in cases {
        let file = case.bytes();
        let part = match case.fields["bloom_filter_offset"].as_u64() {
            Some(offset) => &file[offset as usize..][..case.number("bloom_filter_length") as usize],
            None => &file,
        };
        let filter = ParquetBloom::parse(part).unwrap();
        assert_eq!(filter.bits().len() as u64, case.number("blocks") * 32, "{}", case.name());
        assert_eq!(filter.info().len_bytes, part.len() as u64, "{}", case.name());
        let values = [case.plain_values(), case.absent_plain_values()];
        let builder = ParquetBloomBuilder::with_blocks(case.number("blocks") as usize).unwrap();
        assert!(parquet_filter(builder, &values[0]) == part, "{}: the written bytes differ", case.name());
        answers_agree(
            &case,
            values,
            |key| filter.may_contain(key),
            |keys, answers| filter.may_contain_batch(keys, answers),
        );
    }
}

#[test]
fn parquet_filters_match_other_writers_in_size_and_folding() {
    let mut folded = 0;
    for case in cases("parquet").into_iter().filter(|case| case.text("file").starts_with("raw-n")) {
        // Names are like raw-n10000-fpp0.01 or raw-n10000-fpp0.01-folded0.2.
        let parts: Vec<&str> = case.text("name").split('-').collect();
        let rate = parts[2].strip_prefix("fpp").unwrap().parse().unwrap();
        let mut builder = ParquetBloomBuilder::for_values(case.number("n"), rate).unwrap();
        case.plain_values().iter().for_each(|value| builder.add(value));
        if let Some(fold) = parts.get(3) {
            builder.fold(fold.strip_prefix("folded").unwrap().parse().unwrap());
            folded += 1;
        }
        assert_eq!(builder.num_blocks() as u64, case.number("blocks"), "{}", case.name());
        assert!(builder.finish() == case.bytes(), "{}", case.name());
    }
    assert_eq!(folded, 2);
}

#[test]
fn foreign_filters_announce_the_limit_of_32_bit_hashes() {
    // Each filter gets one key, or four keys that share a block if the kind has blocks. A filter
    // cannot distinguish hashes that agree in the 32 bits that it uses.
    for num_keys in [1u32, 4] {
        let keys: Vec<[u8; 4]> = (0..num_keys).map(u32::to_le_bytes).collect();
        let floor = f64::from(num_keys) * 0.9 * 2f64.powi(-32);
        let parquet = parquet_filter(ParquetBloomBuilder::with_blocks(1).unwrap(), &keys);
        let leveldb = leveldb_filter(60, &keys);
        let [legacy, fast_local, _] = ROCKSDB_KINDS.map(|kind| rocksdb_filter(kind, 100.0, &keys));
        for info in [
            ParquetBloom::parse(&parquet).unwrap().info(),
            LevelDbBloom::new(&leveldb).info(),
            RocksDbFilter::new(&legacy).info(),
            RocksDbFilter::new(&fast_local).info(),
        ] {
            assert!(info.expected_fpr >= floor, "{num_keys} keys, floor {floor:e}: {info:?}");
        }
    }
}
