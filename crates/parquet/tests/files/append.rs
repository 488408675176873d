//! Tests the module `append` with files and readers of the crate `parquet`.

use std::io::Cursor;

use bytes::Bytes;
use filterblock_parquet::FilterRange;
use filterblock_parquet::ParquetFile;
use filterblock_parquet::append::{self, Added, Request};
use filterblock_parquet::filters::{Budget, Sizing};
use filterblock_parquet::thrift::{Field, Struct};
use filterblock_parquet::values::ParquetValues;
use filterblock_parquet::{Error, Footer};
use parquet::bloom_filter::Sbbf;
use parquet::file::properties::{ReaderProperties, WriterVersion};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use proptest::prelude::*;

use crate::support::{FLAG, HALF, Layout, PATHS, Sample, edited, in_row_groups, layouts, quiet, write, write_with};

fn sizing() -> Sizing {
    Sizing::new(Budget::Fpr(0.01), false).unwrap()
}

pub fn all_leaves() -> Vec<usize> {
    (0..PATHS.len()).filter(|leaf| *leaf != FLAG && *leaf != HALF).collect()
}

fn request() -> Request {
    Request { leaves: all_leaves(), sizing: sizing(), replace: false, forced: vec![] }
}

pub fn add(bytes: &[u8], request: &Request) -> Result<(Vec<u8>, Vec<Added>), Error> {
    let mut out = Cursor::new(bytes.to_vec());
    let footer = Footer::read(&mut out)?;
    let values = ParquetValues::open(Bytes::copy_from_slice(bytes))?;
    let added = append::add(&footer, &values, request, &mut out, &mut |_| {})?;
    Ok((out.into_inner(), added))
}

fn filters_of(bytes: &[u8]) -> Vec<Vec<Option<Sbbf>>> {
    let properties = ReaderProperties::builder().set_read_bloom_filter(true).build();
    let options = ReadOptionsBuilder::new().with_reader_properties(properties).build();
    let file = SerializedFileReader::new_with_options(Bytes::copy_from_slice(bytes), options).unwrap();
    let group = |number| {
        let group = file.get_row_group(number).unwrap();
        (0..PATHS.len()).map(|leaf| group.get_column_bloom_filter(leaf).cloned()).collect()
    };
    (0..file.num_row_groups()).map(group).collect()
}

fn rows_of(bytes: &[u8]) -> Vec<String> {
    let file = SerializedFileReader::new(Bytes::copy_from_slice(bytes)).unwrap();
    file.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
}

/// Asserts that the filters in `bytes`, read by the crate `parquet`, find every value of `leaves`.
fn assert_finds_all(bytes: &[u8], sample: &Sample, leaves: &[usize]) {
    let filters = filters_of(bytes);
    assert_eq!(filters.len(), sample.values.len());
    for (columns, filters) in sample.values.iter().zip(&filters) {
        for &leaf in leaves {
            let filter = filters[leaf].as_ref().unwrap_or_else(|| panic!("{}: no filter", PATHS[leaf]));
            for value in &columns[leaf] {
                assert!(filter.check(&value[..]), "{}: {value:x?}", PATHS[leaf]);
            }
        }
    }
}

#[test]
fn other_readers_find_every_value_of_every_layout() {
    for layout in layouts() {
        let sample = write(&layout);
        let (bytes, added) = add(&sample.bytes, &request()).unwrap();
        assert_eq!(added.len(), 2 * all_leaves().len());
        assert!(bytes.starts_with(&sample.bytes), "{layout:?}");
        assert_finds_all(&bytes, &sample, &all_leaves());
        assert_eq!(rows_of(&bytes), rows_of(&sample.bytes), "{layout:?}");
        let own = ParquetFile::open(&bytes[..]).unwrap();
        assert_eq!(own.verify().unwrap(), added.len() as u64);
    }
}

#[test]
fn the_filters_of_a_column_lie_side_by_side() {
    let sample = write(&Layout { rows: vec![50; 9], ..Layout::default() });
    let (bytes, added) = add(&sample.bytes, &Request { leaves: vec![6, 2], ..request() }).unwrap();
    let mut next = sample.bytes.len() as u64;
    let order: Vec<_> = added.iter().map(|filter| (filter.leaf, filter.row_group)).collect();
    assert_eq!(order, [6, 2].iter().flat_map(|&leaf| (0..9).map(move |group| (leaf, group))).collect::<Vec<_>>());
    for filter in added {
        assert_eq!(filter.range.offset, next);
        next += filter.range.len_bytes.unwrap();
    }
    assert_finds_all(&bytes, &sample, &[2, 6]);
    assert!(filters_of(&bytes).iter().all(|filters| filters.iter().flatten().count() == 2));
}

#[test]
fn sizes_follow_the_number_of_distinct_values() {
    let layout = Layout { dictionary: true, few_values: true, rows: vec![2000], ..Layout::default() };
    let (_, added) = add(&write(&layout).bytes, &Request { leaves: vec![2], ..request() }).unwrap();
    assert_eq!((added[0].distinct, added[0].range.len_bytes), (7, Some(15 + 32)));
    let sample = write(&Layout { rows: vec![2000], ..Layout::default() });
    for (is_exact, budget, blocks) in [
        (false, Budget::Fpr(0.01), 128),
        (true, Budget::BitsPerValue(10.0), 79),
        (false, Budget::BitsPerValue(10.0), 128),
    ] {
        let sizing = Sizing::new(budget, is_exact).unwrap();
        let (bytes, added) =
            add(&sample.bytes, &Request { leaves: vec![2], sizing, replace: false, forced: vec![] }).unwrap();
        assert_eq!((added[0].distinct, added[0].range.len_bytes), (2000, Some(16 + 32 * blocks)));
        assert_finds_all(&bytes, &sample, &[2]);
    }
}

#[test]
fn existing_filters_stay_or_are_replaced() {
    let sample = write_with(&Layout::default(), |builder| builder.set_bloom_filter_enabled(true));
    let before = filters_of(&sample.bytes);
    let (bytes, added) = add(&sample.bytes, &request()).unwrap();
    assert!(added.is_empty() && before[0][2].is_some());
    assert_eq!(bytes[..sample.bytes.len()], sample.bytes[..]);
    assert_finds_all(&bytes, &sample, &all_leaves());
    let (bytes, added) = add(&sample.bytes, &Request { replace: true, ..request() }).unwrap();
    assert_eq!(added.len(), 2 * all_leaves().len());
    assert_finds_all(&bytes, &sample, &all_leaves());
    let ranges = |bytes: &[u8]| {
        let footer = Footer::read(&mut Cursor::new(bytes)).unwrap();
        footer.chunk(0, 2).unwrap().filter.unwrap()
    };
    assert_ne!(ranges(&bytes), ranges(&sample.bytes));
}

#[test]
fn a_missing_length_is_added_and_nothing_else() {
    let sample = write_with(&Layout::default(), |builder| builder.set_bloom_filter_enabled(true));
    let footer = Footer::read(&mut Cursor::new(&sample.bytes)).unwrap();
    let bytes = without_lengths(&sample.bytes);
    let stripped = Footer::read(&mut Cursor::new(&bytes)).unwrap();
    let num = append::without_length(&stripped).count();
    // The crate `parquet` writes filters for Boolean columns, too.
    assert_eq!(num, 2 * PATHS.len());
    let mut out = Cursor::new(bytes.clone());
    let missing = append::fix_lengths(&stripped, &mut out).unwrap();
    assert_eq!((missing.num_known(), missing.damaged.len()), (num as u64, 0));
    let fixed = out.into_inner();
    assert!(fixed.starts_with(&bytes));
    assert_eq!(Footer::read(&mut Cursor::new(&fixed)).unwrap().metadata(), footer.metadata());
}

#[test]
fn a_damaged_filter_stays_without_a_length() {
    let sample = write_with(&Layout::default(), |builder| builder.set_bloom_filter_enabled(true));
    let bytes = without_lengths(&sample.bytes);
    let footer = Footer::read(&mut Cursor::new(&bytes)).unwrap();
    let located = |footer: &Footer| -> Vec<_> {
        append::without_length(footer).map(|chunk| (chunk.row_group, chunk.leaf, chunk.filter.unwrap())).collect()
    };
    let all = located(&footer);
    let fix = |damaged: &[(usize, usize, FilterRange)]| {
        let mut bytes = bytes.clone();
        damaged.iter().for_each(|(.., filter)| bytes[filter.offset as usize] = 0);
        let mut out = Cursor::new(bytes.clone());
        let missing = append::fix_lengths(&footer, &mut out).unwrap();
        let found: Vec<_> = missing.damaged.iter().map(|filter| (filter.row_group, filter.leaf)).collect();
        let expected: Vec<_> = damaged.iter().map(|&(group, leaf, _)| (group, leaf)).collect();
        assert_eq!((found, missing.num_known()), (expected, (all.len() - damaged.len()) as u64));
        assert!(missing.damaged.iter().all(|filter| matches!(filter.error, Error::Corrupt { offset: 1.., .. })));
        (bytes, out.into_inner())
    };
    for damaged in all.chunks(5) {
        let (bytes, fixed) = fix(damaged);
        assert!(fixed.starts_with(&bytes));
        let again = Footer::read(&mut Cursor::new(&fixed)).unwrap();
        assert_eq!(located(&again), damaged);
    }
    let (bytes, fixed) = fix(&all);
    assert!(bytes == fixed, "without a length, a new footer is useless");
}

/// Returns the file with a footer that lacks the lengths of filters, as older writers wrote it.
pub fn without_lengths(bytes: &[u8]) -> Vec<u8> {
    in_row_groups(bytes, |_, group| {
        let columns = edited(group, 1, &mut |_, chunk| {
            let field = chunk.get(3).unwrap();
            let mut column = Struct::parse(&field.value).unwrap().0;
            column.fields.retain(|field| field.id != 15);
            let mut value = Vec::new();
            column.encode(&mut value);
            let field = Field { id: 3, kind: field.kind, value: value.into() };
            chunk.set(field);
        });
        group.set(columns);
    })
}

#[test]
fn a_file_without_rows_gets_no_filters() {
    let sample = write(&Layout { rows: vec![], ..Layout::default() });
    let (bytes, added) = add(&sample.bytes, &request()).unwrap();
    assert!(added.is_empty() && bytes.starts_with(&sample.bytes));
    assert!(rows_of(&bytes).is_empty());
}

#[test]
fn a_column_of_half_floats_is_refused_with_its_reason() {
    let sample = write(&layouts()[0]);
    let error = add(&sample.bytes, &Request { leaves: vec![0, HALF], ..request() }).unwrap_err();
    assert!(error.to_string().contains("half") && error.to_string().contains("DuckDB"), "{error}");
    let (bytes, _) = add(&sample.bytes, &Request { leaves: vec![0], forced: vec![HALF], ..request() }).unwrap();
    assert!(!Footer::read(&mut Cursor::new(bytes)).unwrap().is_forced(HALF));
    let (bytes, _) = add(&sample.bytes, &Request { leaves: vec![0, HALF], forced: vec![HALF], ..request() }).unwrap();
    assert!(Footer::read(&mut Cursor::new(bytes)).unwrap().is_forced(HALF));
}

#[test]
fn a_boolean_column_is_refused_with_its_reason() {
    let sample = write(&Layout::default());
    let error = add(&sample.bytes, &Request { leaves: vec![FLAG], ..request() }).unwrap_err();
    assert!(error.to_string().contains("a Boolean column can have no filter"), "{error}");
}

#[test]
fn a_copy_of_another_length_is_refused() {
    let sample = write(&Layout::default());
    let footer = Footer::read(&mut Cursor::new(&sample.bytes)).unwrap();
    let values = ParquetValues::open(sample.bytes.clone()).unwrap();
    let mut out = Cursor::new([&sample.bytes[..], b"more"].concat());
    let refused = append::add(&footer, &values, &request(), &mut out, &mut |_| {});
    assert!(matches!(refused, Err(Error::Changed)));
    assert!(matches!(append::fix_lengths(&footer, &mut out), Err(Error::Changed)));
}

/// An output that stores a zero at the offset `at`, whatever byte is written there.
struct Faulty {
    inner: Cursor<Vec<u8>>,
    at: u64,
}

impl std::io::Write for Faulty {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let start = self.inner.position();
        let len = self.inner.write(bytes)?;
        if (start..start + len as u64).contains(&self.at) {
            self.inner.get_mut()[self.at as usize] = 0;
        }
        Ok(len)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::io::Read for Faulty {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.inner.read(bytes)
    }
}

impl std::io::Seek for Faulty {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.inner.seek(to)
    }
}

#[test]
fn a_filter_that_is_written_wrong_is_an_error() {
    let sample = write(&Layout { rows: vec![300], ..Layout::default() });
    let footer = Footer::read(&mut Cursor::new(&sample.bytes)).unwrap();
    let values = ParquetValues::open(sample.bytes.clone()).unwrap();
    let request = Request { leaves: vec![2], ..request() };
    let sound = add(&sample.bytes, &request).unwrap().0;
    let mut denied = 0;
    for (at, &byte) in sound.iter().enumerate().skip(sample.bytes.len()) {
        let mut out = Faulty { inner: Cursor::new(sample.bytes.to_vec()), at: at as u64 };
        match append::add(&footer, &values, &request, &mut out, &mut |_| {}) {
            Ok(_) => assert_eq!(out.inner.get_ref()[at], byte, "offset {at}"),
            Err(Error::Denied { values, .. }) => denied += u64::from(values > 0),
            Err(_) => {}
        }
    }
    assert!(denied > 100, "{denied}");
}

#[test]
fn files_of_pyarrow_and_of_the_crate_parquet_get_filters() {
    for name in ["pyarrow.parquet", "rs.parquet"] {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/foreign/parquet/");
        let bytes = std::fs::read(format!("{golden}{name}")).unwrap();
        let footer = Footer::read(&mut Cursor::new(&bytes)).unwrap();
        let leaves: Vec<usize> = (0..footer.leaves().len()).collect();
        let before = ParquetFile::open(&bytes[..]).unwrap();
        let request = Request { leaves, sizing: sizing(), replace: true, forced: vec![] };
        let (after, added) = add(&bytes, &request).unwrap();
        assert!(after.starts_with(&bytes) && added.len() == before.column_chunks().len(), "{name}");
        // The new filter must have every value.
        let values = ParquetValues::open(Bytes::from(bytes.clone())).unwrap();
        let file = ParquetFile::open(&after[..]).unwrap();
        for (number, chunk) in file.column_chunks().iter().enumerate() {
            let filter = file.filter(chunk).unwrap().unwrap();
            let leaf = number % footer.leaves().len();
            let mut num = 0;
            values
                .for_each_hash(chunk.row_group, leaf, &mut |hashes| {
                    num += hashes.len();
                    assert!(hashes.iter().all(|&hash| filter.may_contain_hash(hash)));
                })
                .unwrap();
            assert!(num > 0, "{name} {}", chunk.path);
        }
    }
}

#[test]
fn a_damaged_file_causes_no_panic() {
    let sample = write(&Layout { rows: vec![12], version: WriterVersion::PARQUET_2_0, ..Layout::default() });
    quiet();
    for at in 0..sample.bytes.len() {
        let mut damaged = sample.bytes.to_vec();
        damaged[at] ^= 1 << (at % 8);
        let _ = add(&damaged, &request());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn truncated_and_flipped_files_cause_no_panic(cut in 0_usize..4000, at in 0_usize..20_000, byte: u8) {
        quiet();
        let sample = write(&Layout { rows: vec![20], dictionary: true, ..Layout::default() });
        let mut bytes = sample.bytes.to_vec();
        let _ = add(&bytes[..bytes.len().saturating_sub(cut)], &request());
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = add(&bytes, &request());
    }
}
