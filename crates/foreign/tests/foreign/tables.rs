//! Tests files of other engines: every answer must equal the engine's own.

use filterblock_foreign::{FileKind, KeyForm, leveldb, rocksdb};
use filterblock_parquet as parquet;
use filterblock_testkit::foreign::{self, Case, cases, cases_of_type, value};

use crate::keys_of;

/// Asserts that the answer is "maybe" for every key of a case. For every absent key for which the
/// engine asked a filter, asserts that the answer is the engine's answer.
fn answers_agree(case: &Case, may_contain: impl Fn(&[u8]) -> bool) {
    for key in case.keys() {
        assert!(may_contain(&key), "{} denies {key:?}", case.name());
    }
    answers_of_absent_keys_agree(case, &case.answers(), may_contain);
}

fn answers_of_absent_keys_agree(case: &Case, answers: &[u8], may_contain: impl Fn(&[u8]) -> bool) {
    let keys = case.keys();
    for (key, answer) in case.absent_keys().iter().zip(answers) {
        match answer {
            // The engine skipped the file because of its key range.
            b'-' => assert!(*key < keys[0] || key > keys.last().unwrap(), "{}: {key:?}", case.name()),
            answer => assert_eq!(may_contain(key), *answer == b'1', "{}: {key:?}", case.name()),
        }
    }
}

fn leveldb_cases() -> Vec<Case> {
    let cases: Vec<Case> = ["table", "db_table"].iter().flat_map(|wanted| cases_of_type("leveldb", wanted)).collect();
    assert_eq!(cases.len(), 11);
    cases
}

fn rocksdb_cases() -> impl Iterator<Item = Case> {
    ["rocksdb-7.8.3", "rocksdb-9.8.4", "rocksdb-11.8.1"].into_iter().flat_map(|folder| cases_of_type(folder, "table"))
}

/// Returns the length in bytes of the value of key `i`.
fn value_len(case: &Case, i: u64) -> usize {
    let of = |field: &str| case.fields["values"][field].as_u64().unwrap();
    let is_long = case.fields["values"]["kind"] == "mix" && i.is_multiple_of(of("m"));
    of(if is_long { "b" } else { "a" }) as usize
}

#[test]
fn leveldb_tables_answer_as_in_leveldb() {
    for case in leveldb_cases() {
        let table = leveldb::LevelDbTable::open(case.bytes()).unwrap();
        let form = if case.text("type") == "db_table" { KeyForm::Internal } else { KeyForm::User };
        assert_eq!(table.key_form(), Some(form), "{}", case.name());
        assert_eq!(table.policy(), Some("leveldb.BuiltinBloomFilter2"));
        answers_agree(&case, |key| table.may_contain(key));
        let stated = leveldb::LevelDbTable::open_as(case.bytes(), form).unwrap();
        answers_agree(&case, |key| stated.may_contain(key));
        let keys = keys_of(|push| table.for_each_key(push)).unwrap();
        assert!(keys == case.keys(), "{}", case.name());
        let other = if form == KeyForm::User { KeyForm::Internal } else { KeyForm::User };
        let wrong = leveldb::LevelDbTable::open_as(case.bytes(), other);
        let keys = wrong.and_then(|table| keys_of(|push| table.for_each_key(push)));
        assert!(keys.is_err(), "{}: keys of the wrong form", case.name());
        let verified = table.verify().unwrap();
        assert_eq!(verified.denied_keys, 0);
        assert!(verified.keys >= case.number("n"));
        assert_eq!(verified.blocks, table.num_data_blocks() + 3);
    }
}

#[test]
fn leveldb_tables_are_written_as_leveldb_writes_them() {
    let mut written = 0;
    for case in cases_of_type("leveldb", "table") {
        if case.text("compression") != "none" {
            continue;
        }
        let mut options = leveldb::LevelDbTableOptions::default();
        options.block_size_bytes = case.number("block_size") as usize;
        options.restart_interval = case.number("restart_interval") as usize;
        options.bits_per_key = Some(u32::try_from(case.number("bits_per_key")).unwrap());
        options.keys = KeyForm::User;
        let mut writer = leveldb::LevelDbTableWriter::new(Vec::new(), options);
        for (key, i) in case.keys_and_indices() {
            writer.add(&key, &value(i, value_len(&case, i))).unwrap();
        }
        let (table, len) = writer.finish().unwrap();
        assert_eq!(table.len() as u64, len);
        assert!(table == case.bytes(), "{}: the written bytes differ", case.name());
        written += 1;
    }
    assert_eq!(written, 9);
}

#[test]
fn rocksdb_tables_answer_as_in_rocksdb() {
    for (folder, expected) in [("rocksdb-7.8.3", 32), ("rocksdb-9.8.4", 18), ("rocksdb-11.8.1", 12)] {
        let cases = cases_of_type(folder, "table");
        assert_eq!(cases.len(), expected, "{folder}");
        for case in cases {
            let table = rocksdb::RocksDbTable::open(case.bytes()).unwrap();
            assert_eq!(u64::from(table.format_version()), case.number("format_version"), "{}", case.name());
            answers_agree(&case, |key| table.may_contain(key));
            let keys = keys_of(|push| table.for_each_key(push)).unwrap();
            assert!(keys == case.keys(), "{}", case.name());
            assert!(keys.iter().all(|key| table.prefix_may_match(key)), "{}", case.name());
            let verified = table.verify().unwrap();
            assert_eq!((verified.keys, verified.denied_keys), (case.number("n"), 0));
        }
    }
}

#[test]
fn batches_answer_as_single_queries() {
    for case in ["rocksdb-7.8.3", "rocksdb-9.8.4"].into_iter().flat_map(|folder| cases_of_type(folder, "table")) {
        let table = rocksdb::RocksDbTable::open(case.bytes()).unwrap();
        let keys: Vec<Vec<u8>> = case.keys().into_iter().chain(case.absent_keys()).take(4000).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let one_by_one: Vec<bool> = keys.iter().map(|key| table.may_contain(key)).collect();
        let mut answers = vec![false; keys.len() + 1];
        table.may_contain_batch(&keys, &mut answers);
        assert!(answers[..keys.len()] == one_by_one && !answers[keys.len()], "{}", case.name());
    }
    let file = parquet::ParquetFile::open(foreign::file("parquet", "rs.parquet")).unwrap();
    let numbers: Vec<[u8; 8]> = (0..3000u64).map(u64::to_le_bytes).collect();
    let values: Vec<&[u8]> = numbers.iter().map(<[u8; 8]>::as_slice).collect();
    for chunk in file.column_chunks() {
        let one_by_one: Vec<bool> = values.iter().map(|value| file.may_contain(chunk, value)).collect();
        let mut answers = vec![false; values.len()];
        file.may_contain_batch(chunk, &values, &mut answers);
        assert!(answers == one_by_one, "{}", chunk.path);
    }
}

#[test]
fn seeks_under_a_prefix_answer_as_in_rocksdb() {
    let mut asked = 0;
    for case in cases_of_type("rocksdb-7.8.3", "table") {
        // One case has only answers for gets.
        if !case.text("prefix_extractor").is_empty() && case.text("name") != "fv5-prefix-outofdomain" {
            let table = rocksdb::RocksDbTable::open(case.bytes()).unwrap();
            answers_of_absent_keys_agree(&case, &case.prefix_answers(), |key| table.prefix_may_match(key));
            asked += 1;
        }
    }
    assert_eq!(asked, 8);
}

/// A filter, its location, and the key up to which it answers.
struct Part<'a> {
    offset: u64,
    len_bytes: u64,
    up_to: Option<Vec<u8>>,
    filter: rocksdb::RocksDbFilter<'a>,
}

fn filters_of(table: &rocksdb::RocksDbTable<Vec<u8>>) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    table.for_each_filter(|place| {
        let up_to = place.up_to.map(<[u8]>::to_vec);
        let filter = table.filter(&place).unwrap();
        found.push(Part { offset: place.offset, len_bytes: place.len_bytes, up_to, filter });
        true
    });
    found
}

#[test]
fn the_last_partition_answers_for_keys_after_it() {
    let mut asked = 0;
    for case in rocksdb_cases() {
        let table = rocksdb::RocksDbTable::open(case.bytes()).unwrap();
        let filters = filters_of(&table);
        let Some(last_partition) = filters.last().filter(|part| part.up_to.is_some()) else { continue };
        let last_key = case.keys().pop().unwrap();
        let after = |i: u32| [&last_key[..], format!("~{i}").as_bytes()].concat();
        for key in (0..500).map(after) {
            assert!(last_partition.up_to.as_ref().unwrap() < &key, "{}", case.name());
            // The key has the same prefix as the last key, which is a present key.
            assert!(table.prefix_may_match(&key), "{}: {key:?}", case.name());
            if case.is("whole_key_filtering") {
                let answer = last_partition.filter.may_contain(&key);
                assert_eq!(table.may_contain(&key), answer, "{}: {key:?}", case.name());
            }
        }
        asked += 1;
    }
    assert_eq!(asked, 15);
}

#[test]
fn rocksdb_filters_have_the_locations_that_the_table_lists() {
    for case in rocksdb_cases() {
        let table = rocksdb::RocksDbTable::open(case.bytes()).unwrap();
        let filters = filters_of(&table);
        let is_partitioned =
            matches!(table.filter_layout(), rocksdb::RocksDbFilterLayout::Partitioned(n) if n == filters.len() as u64);
        assert_eq!(is_partitioned, case.is("partition_filters"), "{}", case.name());
        assert!(is_partitioned || table.filter_layout() == rocksdb::RocksDbFilterLayout::Full && filters.len() == 1);
        let kinds = [filters[0].filter.kind().unwrap()];
        let expected = match (case.text("kind"), case.number("n")) {
            ("legacy", _) => rocksdb::RocksDbFilterKind::LegacyBloom,
            // For few keys, here up to 200, RocksDB writes a Bloom filter, because it is smaller
            // than a ribbon filter.
            ("ribbon", n) if n > 200 => rocksdb::RocksDbFilterKind::Ribbon128,
            _ => rocksdb::RocksDbFilterKind::FastLocalBloom,
        };
        assert_eq!(kinds, [expected], "{}", case.name());
        let keys = case.keys();
        for pair in filters.windows(2) {
            assert!(pair[0].offset + pair[0].len_bytes < pair[1].offset && pair[0].up_to < pair[1].up_to);
        }
        if is_partitioned && case.is("whole_key_filtering") {
            assert!(filters.len() > 1 || case.text("name").contains("prefix"), "{}", case.name());
            for key in &keys {
                let part = filters.iter().find(|part| part.up_to.as_ref().unwrap() >= key).unwrap();
                assert!(part.filter.may_contain(key), "{}: {key:?}", case.name());
            }
        }
    }
}

#[test]
fn parquet_columns_answer_as_in_parquet() {
    let mut chunks = 0;
    for case in cases("parquet") {
        let Some(row_group) = case.fields["row_group"].as_u64() else { continue };
        let file = parquet::ParquetFile::open(case.bytes()).unwrap();
        let chunk = file.column_chunk(row_group as usize, case.text("column")).unwrap();
        let place = chunk.filter.unwrap();
        assert_eq!(place.offset, case.number("bloom_filter_offset"));
        assert_eq!(place.len_bytes, case.fields["bloom_filter_length"].as_u64());
        assert_eq!(chunk.num_values, case.number("n"));
        let filter = file.filter(chunk).unwrap().unwrap();
        assert_eq!(filter.bits().len() as u64, case.number("blocks") * 32);
        for value in case.plain_values() {
            assert!(file.may_contain(chunk, &value), "{} denies {value:?}", case.name());
        }
        for (value, answer) in case.absent_plain_values().iter().zip(case.answers()) {
            assert_eq!(file.may_contain(chunk, value), answer == b'1', "{}: {value:?}", case.name());
        }
        chunks += 1;
    }
    assert_eq!(chunks, 20);
}

#[test]
fn files_are_recognised_by_their_magic() {
    let kind = |folder, name| FileKind::of(&foreign::file(folder, name));
    assert_eq!(kind("leveldb", "tbl-n1.ldb"), Some(FileKind::LevelDbTable));
    assert_eq!(kind("rocksdb-7.8.3", "fv2-legacy-n1000.sst"), Some(FileKind::RocksDbTable));
    assert_eq!(kind("rocksdb-11.8.1", "fv7-bloom-n1.sst"), Some(FileKind::RocksDbTable));
    assert_eq!(kind("parquet", "rs.parquet"), Some(FileKind::ParquetFile));
    // Bare filters have no magic.
    assert_eq!(kind("parquet", "raw-var.sbbf"), None);
    assert_eq!(kind("leveldb", "raw-n7-b10.filter"), None);
    assert_eq!(FileKind::of(b""), None);
}
