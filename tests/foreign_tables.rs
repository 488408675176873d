//! Files of other engines: every answer is the engine's own, and LevelDB's tables are written byte for byte.
#![cfg(feature = "foreign")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod foreign_support;

use filterblock::foreign::KeyForm;
use filterblock::foreign::leveldb;
use foreign_support::{Case, cases_of_type, value};

/// Expects "maybe" for every key of a case, and the engine's answer for every absent one that it asked a filter for.
fn answers_agree(case: &Case, may_contain: impl Fn(&[u8]) -> bool) {
    for key in case.keys() {
        assert!(may_contain(&key), "{} denies {key:?}", case.name());
    }
    for (key, answer) in case.absent_keys().iter().zip(case.answers()) {
        assert!(answer == b'-' || may_contain(key) == (answer == b'1'), "{}: {key:?} is {answer}", case.name());
    }
}

fn leveldb_cases() -> Vec<Case> {
    let cases: Vec<Case> =
        ["table", "db_table"].iter().flat_map(|wanted| cases_of_type("leveldb", wanted)).collect();
    assert_eq!(cases.len(), 11);
    cases
}

/// The length of the value of the key of index `i`.
fn value_len(case: &Case, i: u64) -> usize {
    let of = |field: &str| case.fields["values"][field].as_u64().unwrap();
    let is_long = case.fields["values"]["kind"] == "mix" && i.is_multiple_of(of("m"));
    of(if is_long { "b" } else { "a" }) as usize
}

#[test]
fn leveldb_tables_answer_as_leveldb() {
    for case in leveldb_cases() {
        let table = leveldb::Table::open(case.bytes()).unwrap();
        let form = if case.text("type") == "db_table" { KeyForm::Internal } else { KeyForm::User };
        assert_eq!(table.key_form(), Some(form), "{}", case.name());
        assert_eq!(table.policy(), Some("leveldb.BuiltinBloomFilter2"));
        answers_agree(&case, |key| table.may_contain(key));
        let told = leveldb::Table::open_as(case.bytes(), form).unwrap();
        answers_agree(&case, |key| told.may_contain(key));
        let mut keys = Vec::new();
        table.for_each_key(|key| Ok(keys.push(key.to_vec()))).unwrap();
        assert!(keys == case.keys(), "{}", case.name());
        let verified = table.verify().unwrap();
        assert_eq!(verified.denied_keys, 0);
        assert!(verified.keys >= case.number("n"));
        assert_eq!(verified.blocks, table.num_data_blocks() + 3);
    }
}

#[test]
fn leveldb_tables_are_written_as_by_leveldb() {
    let mut written = 0;
    for case in cases_of_type("leveldb", "table") {
        if case.text("compression") != "none" {
            continue;
        }
        let mut options = leveldb::TableOptions::default();
        options.block_size_bytes = case.number("block_size") as usize;
        options.restart_interval = case.number("restart_interval") as usize;
        options.bits_per_key = Some(u32::try_from(case.number("bits_per_key")).unwrap());
        options.keys = KeyForm::User;
        let mut writer = leveldb::TableWriter::new(Vec::new(), options);
        for (key, i) in case.keys_and_indices() {
            writer.add(&key, &value(i, value_len(&case, i))).unwrap();
        }
        let (table, len) = writer.finish().unwrap();
        assert_eq!(table.len() as u64, len);
        assert!(table == case.bytes(), "{} is written otherwise", case.name());
        written += 1;
    }
    assert_eq!(written, 9);
}
