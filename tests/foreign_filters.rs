//! Filters of other engines: every answer is the engine's own, and so is every byte that is written.
#![cfg(feature = "foreign")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod foreign_support;

use filterblock::foreign::leveldb::{BloomBuilder, BloomFilter};
use foreign_support::{Case, cases_of_type, from_hex, rows};

/// Asks a filter for all keys of a case, one by one and in batches, and expects the engine's answers.
fn answers_agree(case: &Case, may_contain: impl Fn(&[u8]) -> bool, batch: impl Fn(&[&[u8]], &mut [bool])) {
    let (present, absent, expected) = (case.keys(), case.absent_keys(), case.answers());
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
fn leveldb_filters_answer_and_are_written_as_by_leveldb() {
    let cases = cases_of_type("leveldb", "raw_filter");
    assert_eq!(cases.len(), 13);
    for case in cases {
        let bytes = case.bytes();
        let filter = BloomFilter::new(&bytes);
        answers_agree(&case, |key| filter.may_contain(key), |keys, answers| filter.may_contain_batch(keys, answers));
        let mut builder = BloomBuilder::new(u32::try_from(case.number("bits_per_key")).unwrap());
        case.keys().iter().for_each(|key| builder.add(key));
        assert!(builder.finish() == bytes, "{} is written otherwise", case.name());
    }
}

/// Asks the odd filters of a folder for `key-%08d`.
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
fn odd_leveldb_filters_are_answered_as_by_leveldb() {
    odd_filters_agree("leveldb", 15, |filter, key| BloomFilter::new(filter).may_contain(key));
}
