//! Tests the module `check`, and the annotations of leaf columns.

use std::collections::BTreeSet;
use std::io::Cursor;

use bytes::Bytes;
use filterblock_parquet::ParquetBloom;
use filterblock_parquet::append::Request as AddRequest;
use filterblock_parquet::check::{self, CheckedChunk, CheckedFilter, Request, Size, State};
use filterblock_parquet::error::Field;
use filterblock_parquet::filters::{Budget, Sizing};
use filterblock_parquet::values::ParquetValues;
use filterblock_parquet::{Error, Footer};
use filterblock_parquet::{FilterRange, PhysicalType};
use proptest::prelude::*;

use crate::append::{add, all_leaves, without_lengths};
use crate::support::{FLAG, HALF, Layout, PATHS, Sample, layouts, quiet, write, write_with};

fn checked_with(bytes: &[u8], looks_up_values: bool) -> Result<Vec<CheckedChunk>, Error> {
    let mut file = Cursor::new(bytes);
    let footer = Footer::read(&mut file)?;
    let values = ParquetValues::open(Bytes::copy_from_slice(bytes))?;
    let leaves = (0..footer.leaves().len()).collect();
    let sizing = Sizing::new(Budget::Fpr(0.01), false)?;
    let request = Request { leaves, sizing, max_fpr: 0.05, looks_up_values };
    check::check(&footer, Some(&values), &request, &mut file, &mut |_| {})
}

fn checked(bytes: &[u8]) -> Vec<CheckedChunk> {
    checked_with(bytes, true).unwrap()
}

/// Returns a file with filters of this budget for all columns that can have one.
fn with_filters(sample: &Sample, budget: Budget) -> Vec<u8> {
    let sizing = Sizing::new(budget, false).unwrap();
    add(&sample.bytes, &AddRequest { leaves: all_leaves(), sizing, replace: true, forced: vec![] }).unwrap().0
}

fn sound(chunk: &CheckedChunk) -> CheckedFilter {
    match &chunk.state {
        State::Sound(filter) => *filter,
        other => panic!("{}: {other:?}", PATHS[chunk.leaf]),
    }
}

fn distinct<'a>(sample: &'a Sample, chunk: &CheckedChunk) -> BTreeSet<&'a Vec<u8>> {
    sample.values[chunk.row_group][chunk.leaf].iter().collect()
}

#[test]
fn filters_of_the_command_and_of_the_crate_parquet_are_right() {
    for layout in layouts() {
        let by_crate = write_with(&layout, |builder| builder.set_bloom_filter_enabled(true).set_bloom_filter_fpp(0.01));
        let sample = write(&layout);
        for bytes in [by_crate.bytes.to_vec(), with_filters(&sample, Budget::Fpr(0.01))] {
            let chunks = checked(&bytes);
            assert_eq!(chunks.len(), 2 * PATHS.len());
            for chunk in chunks.iter().filter(|chunk| all_leaves().contains(&chunk.leaf)) {
                let (filter, values) = (sound(chunk), distinct(&sample, chunk));
                assert_eq!(filter.false_negatives, Some(0), "{layout:?} {}", PATHS[chunk.leaf]);
                assert_eq!((chunk.distinct, chunk.is_estimate), (Some(values.len() as u64), false));
                assert_eq!(filter.size, Size::Right, "{layout:?} {}: {filter:?}", PATHS[chunk.leaf]);
                assert!(filter.has_length && chunk.unread.is_none());
            }
        }
    }
}

#[test]
fn an_estimate_of_distinct_values_is_near_their_number() {
    let sample = write(&Layout::default());
    for chunk in checked_with(&with_filters(&sample, Budget::Fpr(0.01)), false).unwrap() {
        if !all_leaves().contains(&chunk.leaf) {
            continue;
        }
        let (estimate, exact) = (chunk.distinct.unwrap() as f64, distinct(&sample, &chunk).len() as f64);
        assert!(chunk.is_estimate && sound(&chunk).false_negatives.is_none());
        // For zeros and NaNs, a filter has at most four hashes more than distinct values.
        assert!((estimate - exact).abs() < 5.0 + exact * 0.1, "{}: {estimate} {exact}", PATHS[chunk.leaf]);
    }
}

#[test]
fn sizes_are_judged_by_rate_and_by_need() {
    let sample = write(&Layout::default());
    for (budget, size) in
        [(Budget::BitsPerValue(100.0), Size::Oversized), (Budget::BitsPerValue(2.0), Size::Undersized)]
    {
        let chunks = checked(&with_filters(&sample, budget));
        let ids = chunks.iter().filter(|chunk| PATHS[chunk.leaf] == "id").map(sound);
        for filter in ids {
            assert_eq!(filter.size, size, "{filter:?}");
            assert_eq!(filter.fpr > 0.05, size == Size::Undersized, "{filter:?}");
        }
    }
}

#[test]
fn cleared_bits_are_counted_as_false_negatives() {
    let sample = write(&Layout::default());
    let mut bytes = with_filters(&sample, Budget::Fpr(0.01));
    let before = checked(&bytes);
    let (mut seen, mut ids) = (0, 0);
    for chunk in before.iter().filter(|chunk| chunk.leaf % 3 == 2 && all_leaves().contains(&chunk.leaf)) {
        let end = (sound(chunk).offset + sound(chunk).len_bytes) as usize;
        bytes[end - 40..end].fill(0);
    }
    for chunk in checked(&bytes).iter().filter(|chunk| all_leaves().contains(&chunk.leaf)) {
        let filter = sound(chunk);
        let stored = &bytes[filter.offset as usize..][..filter.len_bytes as usize];
        let bloom = ParquetBloom::parse(stored).unwrap();
        let denied = distinct(&sample, chunk).into_iter().filter(|value| !bloom.may_contain(value)).count() as u64;
        assert_eq!(filter.false_negatives, Some(denied), "{}", PATHS[chunk.leaf]);
        seen += denied;
        ids += u64::from(PATHS[chunk.leaf] == "number") * denied;
    }
    assert!(seen > 20 && ids == 0, "{seen} {ids}");
}

#[test]
fn damaged_filters_are_named_and_the_others_are_checked() {
    let sample = write(&Layout::default());
    let good = with_filters(&sample, Budget::Fpr(0.01));
    let footer = Footer::read(&mut Cursor::new(&good)).unwrap();
    let old = footer.chunk(1, 2).unwrap().filter.unwrap();
    let pages = footer.chunk(0, 4).unwrap();
    let at = |offset, len_bytes| Some(FilterRange { offset, len_bytes });
    let copy = [&good[old.offset as usize..][..old.len_bytes.unwrap() as usize]].concat();
    let cases = [
        (at(1 << 40, old.len_bytes), Field::FilterLocation),
        (at(u64::MAX >> 1, Some(u64::from(i32::MAX.cast_unsigned()))), Field::FilterLocation),
        (at(old.offset, Some(20)), Field::FilterLen),
        (at(old.offset, old.len_bytes.map(|len| len - 32)), Field::FilterLen),
        (at(2, old.len_bytes), Field::FilterLocation),
        (at(footer.metadata_offset(), None), Field::FilterLocation),
        (at(old.offset + 1, old.len_bytes.map(|len| len - 1)), Field::FilterHeader),
        (at(pages.offset, Some(copy.len() as u64)), Field::FilterLocation),
    ];
    for (range, part) in cases {
        let new = footer.rewrite(|group, leaf, old| if (group, leaf) == (1, 2) { range } else { old }).unwrap();
        let mut bytes = [&good[..footer.metadata_offset() as usize], &new].concat();
        if range.is_some_and(|range| range.offset == pages.offset) {
            bytes[pages.offset as usize..][..copy.len()].copy_from_slice(&copy);
        }
        for chunk in checked_with(&bytes, false).unwrap() {
            match (chunk.row_group, chunk.leaf, &chunk.state) {
                (1, 2, State::Damaged { error: Error::Corrupt { field: found, offset }, .. }) => {
                    assert_eq!((*found, *offset), (part, range.unwrap().offset));
                }
                (_, FLAG | HALF, State::Missing) => {}
                (group, leaf, State::Sound(_)) => assert_ne!((group, leaf), (1, 2), "{part:?}"),
                (group, leaf, other) => panic!("{group} {leaf}: {other:?}, expected {part:?}"),
            }
        }
    }
}

#[test]
fn a_missing_length_is_told() {
    let sample = write(&Layout::default());
    let good = with_filters(&sample, Budget::Fpr(0.01));
    let (with, without) = (checked(&good), checked(&without_lengths(&good)));
    for (with, without) in with.iter().zip(&without).filter(|(chunk, _)| all_leaves().contains(&chunk.leaf)) {
        let mut expected = sound(with);
        expected.has_length = false;
        assert_eq!(sound(without), expected);
    }
}

#[test]
fn reads_are_counted_by_the_gaps_between_filters() {
    let layout = Layout { rows: vec![50, 60, 70], ..Layout::default() };
    let own = checked(&with_filters(&write(&layout), Budget::Fpr(0.01)));
    let by_crate = checked(&write_with(&layout, |builder| builder.set_bloom_filter_enabled(true)).bytes);
    for leaf in all_leaves() {
        let reads = |chunks: &[CheckedChunk]| {
            check::num_reads(&chunks.iter().filter(|chunk| chunk.leaf == leaf).collect::<Vec<_>>())
        };
        assert_eq!((reads(&own), reads(&by_crate)), (1, 3), "{}", PATHS[leaf]);
    }
    assert_eq!(check::num_reads(&[]), 0);
}

#[test]
fn dictionaries_give_the_number_of_values_without_filters() {
    let layout = Layout { dictionary: true, few_values: true, ..Layout::default() };
    let sample = write(&layout);
    for chunk in checked_with(&sample.bytes, false).unwrap().iter().filter(|chunk| chunk.leaf != FLAG) {
        assert!(matches!(chunk.state, State::Missing));
        let exact = distinct(&sample, chunk).len() as u64;
        assert_eq!(chunk.distinct, Some(exact), "{chunk:?}");
    }
    // `plain` has no dictionaries. In `full`, the column `id` has plain pages after a full
    // dictionary, so the dictionary does not hold all values of `id`.
    let plain = write(&Layout::default());
    assert!(checked_with(&plain.bytes, false).unwrap().iter().all(|chunk| chunk.distinct.is_none()));
    let full = write_with(&Layout { dictionary: true, ..Layout::default() }, |builder| {
        builder.set_dictionary_page_size_limit(64).set_data_page_row_count_limit(50)
    });
    let chunks = checked_with(&full.bytes, false).unwrap();
    assert!(chunks.iter().filter(|chunk| PATHS[chunk.leaf] == "id").all(|chunk| chunk.distinct.is_none()));
}

#[test]
fn damaged_values_are_told_and_the_filter_is_judged() {
    quiet();
    let sample = write(&Layout::default());
    let mut bytes = with_filters(&sample, Budget::Fpr(0.01));
    let footer = Footer::read(&mut Cursor::new(&bytes)).unwrap();
    let offset = footer.chunk(0, 2).unwrap().offset as usize;
    bytes[offset..][..8].fill(0xff);
    for chunk in checked(&bytes) {
        assert_eq!(chunk.unread.is_some(), (chunk.row_group, chunk.leaf) == (0, 2), "{chunk:?}");
        if chunk.unread.is_some() {
            assert_eq!((sound(&chunk).size, sound(&chunk).false_negatives), (Size::Right, None));
        }
    }
}

#[test]
fn leaves_have_their_annotations() {
    let sample = write(&Layout::default());
    let footer = Footer::read(&mut Cursor::new(&sample.bytes)).unwrap();
    let leaf = |path: &str| footer.leaves().iter().find(|leaf| *leaf.path == *path).unwrap();
    assert_eq!((leaf("small").integer_bits, leaf("small").physical_type), (Some(8), Some(PhysicalType::Int32)));
    assert_eq!((leaf("name").converted_type, leaf("number").converted_type), (Some(0), None));
    let shape = |path| (leaf(path).is_nested, leaf(path).is_repeated);
    assert_eq!([shape("id"), shape("place.x")], [(false, false), (true, false)]);
    assert_eq!(shape("tags.list.element"), (true, true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_check_of_any_damage_causes_no_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), near in any::<bool>()) {
        quiet();
        let mut bytes = with_filters(&write(&Layout { rows: vec![40], ..Layout::default() }), Budget::Fpr(0.01));
        let start = if near { Footer::read(&mut Cursor::new(&bytes)).unwrap().metadata_offset() as usize } else { 0 };
        let at = start + at.index(bytes.len() - start);
        bytes[at] = byte;
        if let Ok(chunks) = checked_with(&bytes, true) {
            prop_assert_eq!(chunks.len(), PATHS.len());
        }
    }
}
