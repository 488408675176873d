//! Tests the hashes that the values of a column chunk give.

use std::collections::BTreeSet;

use filterblock_parquet::Error;
use filterblock_parquet::ParquetBloom;
use filterblock_parquet::values::ParquetValues;

use crate::support::{FLAG, Layout, PATHS, layouts, quiet, write, write_with};

fn hashes_of(file: &ParquetValues<bytes::Bytes>, row_group: usize, leaf: usize) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    file.for_each_hash(row_group, leaf, &mut |batch| found.extend(batch)).unwrap();
    found
}

/// Returns the hashes that a filter of the values must have. A zero adds the zero of the other
/// sign, and a NaN adds the two default NaNs.
fn expected(leaf: usize, values: &[Vec<u8>]) -> BTreeSet<u64> {
    let mut all: BTreeSet<Vec<u8>> = values.iter().cloned().collect();
    for value in values {
        match (PATHS[leaf], value.as_slice()) {
            ("ratio", &[_, _, _, sign]) if f32::from_le_bytes(value[..].try_into().unwrap()) == 0.0 => {
                all.insert(vec![0, 0, 0, sign ^ 0x80]);
            }
            ("ratio", _) if f32::from_le_bytes(value[..].try_into().unwrap()).is_nan() => {
                all.extend([vec![0, 0, 0xc0, 0x7f], vec![0, 0, 0xc0, 0xff]]);
            }
            ("score", _) if f64::from_le_bytes(value[..].try_into().unwrap()) == 0.0 => {
                all.extend([0.0_f64, -0.0].map(|zero| zero.to_le_bytes().to_vec()));
            }
            ("score", _) if f64::from_le_bytes(value[..].try_into().unwrap()).is_nan() => {
                all.extend([[0x7f_u8, 0xf8], [0xff, 0xf8]].map(|[a, b]| vec![0, 0, 0, 0, 0, 0, b, a]));
            }
            ("half", &[0, 0 | 0x80]) => all.extend([vec![0, 0], vec![0, 0x80]]),
            ("half", &[_, high]) if high & 0x7f > 0x7c => all.extend([vec![0, 0x7e], vec![0, 0xfe]]),
            _ => {}
        }
    }
    all.iter().map(|value| ParquetBloom::hash(value)).collect()
}

#[test]
fn every_value_of_every_layout_is_hashed() {
    for layout in layouts() {
        let sample = write(&layout);
        let file = ParquetValues::open(sample.bytes).unwrap();
        for (row_group, columns) in sample.values.iter().enumerate() {
            for (leaf, values) in columns.iter().enumerate().filter(|(leaf, _)| *leaf != FLAG) {
                let found = hashes_of(&file, row_group, leaf);
                assert!(!values.is_empty());
                assert_eq!(found, expected(leaf, values), "{layout:?} {row_group} {}", PATHS[leaf]);
            }
        }
    }
}

#[test]
fn a_dictionary_is_hashed_in_place_of_its_values() {
    let layout = Layout { dictionary: true, few_values: true, ..Layout::default() };
    let file = ParquetValues::open(write(&layout).bytes).unwrap();
    let pages = file.for_each_hash(0, 2, &mut |_| {}).unwrap();
    assert_eq!((pages.num_values, pages.num_hashed, pages.is_all_dictionary), (700, 7, true));
}

#[test]
fn a_dictionary_that_gets_too_long_ends_in_plain_pages() {
    let layout = Layout { dictionary: true, rows: vec![3000], ..Layout::default() };
    let sample = write_with(&layout, |builder| builder.set_dictionary_page_size_limit(1000));
    let file = ParquetValues::open(sample.bytes).unwrap();
    for leaf in [2, 6, 7] {
        let pages = file.for_each_hash(0, leaf, &mut |_| {}).unwrap();
        assert!(!pages.is_all_dictionary && pages.num_hashed < 3000 + 3, "{pages:?}");
        assert_eq!(hashes_of(&file, 0, leaf), expected(leaf, &sample.values[0][leaf]));
    }
}

#[test]
fn a_boolean_column_is_refused() {
    let file = ParquetValues::open(write(&Layout::default()).bytes).unwrap();
    let error = file.for_each_hash(0, FLAG, &mut |_| {}).unwrap_err();
    assert!(matches!(&error, Error::Values { column, .. } if column == "flag"), "{error}");
    assert!(error.to_string().contains("Boolean"), "{error}");
}

#[test]
fn a_chunk_that_does_not_exist_is_an_error() {
    let file = ParquetValues::open(write(&Layout::default()).bytes).unwrap();
    for (row_group, leaf) in [(2, 0), (0, 14)] {
        assert!(matches!(file.for_each_hash(row_group, leaf, &mut |_| {}), Err(Error::Values { .. })));
    }
}

#[test]
fn damaged_pages_are_an_error_or_give_hashes() {
    quiet();
    let sample = write(&Layout { rows: vec![40], ..Layout::default() });
    for at in 4..sample.bytes.len() - 8 {
        let mut damaged = sample.bytes.to_vec();
        damaged[at] ^= 1 << (at % 8);
        // If the damage is in the footer, `open` may fail. Damage must never cause a panic.
        let Ok(file) = ParquetValues::open(bytes::Bytes::from(damaged)) else { continue };
        for leaf in 0..PATHS.len() {
            let _ = file.for_each_hash(0, leaf, &mut |_| {});
        }
    }
}
