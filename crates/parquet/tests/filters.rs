//! Tests of the sizes and FPRs of filters, and of building filters in bounded memory.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

use filterblock_parquet::filters::{Budget, Collector, Sizing, estimated_distinct, expected_fpr};
use filterblock_parquet::{ParquetBloom, ParquetBloomBuilder, ParquetFile};
use filterblock_testkit::foreign::forge;

fn hash(number: u64) -> u64 {
    ParquetBloom::hash(&number.to_le_bytes())
}

fn sizing(rate: f64, is_exact: bool) -> Sizing {
    Sizing::new(Budget::Fpr(rate), is_exact).unwrap()
}

#[test]
fn a_rate_of_one_percent_takes_at_most_10_6_bits() {
    let blocks = sizing(0.01, true).num_blocks(1_000_000);
    let bits = blocks as f64 * 256.0 / 1e6;
    assert!((10.0..=10.6).contains(&bits), "{bits}");
    assert!(sizing(0.01, false).num_blocks(1_000_000).is_power_of_two());
}

#[test]
fn the_expected_rate_is_the_measured_one() {
    for (distinct, blocks) in [(100_000, 4096), (100_000, 3000), (100_000, 8192)] {
        let mut builder = ParquetBloomBuilder::with_blocks(blocks).unwrap();
        (0..distinct).for_each(|number| builder.add_hash(hash(number)));
        let filter = ParquetBloom::new(builder.bits());
        let passed = (0..1_000_000_u64).filter(|number| filter.may_contain_hash(hash(number + (1 << 40)))).count();
        let (found, expected) = (passed as f64 / 1e6, expected_fpr(distinct, blocks as u64));
        assert!((found / expected - 1.0).abs() < 0.1, "{blocks}: {found} {expected}");
        let estimate = estimated_distinct(builder.bits()) as f64;
        assert!((estimate / distinct as f64 - 1.0).abs() < 0.01, "{estimate}");
    }
}

#[test]
fn budgets_out_of_range_are_refused() {
    for budget in
        [Budget::Fpr(0.0), Budget::Fpr(1.0), Budget::Fpr(f64::NAN), Budget::Fpr(1e-12), Budget::BitsPerValue(0.9)]
    {
        let error = Sizing::new(budget, false).unwrap_err();
        assert!(error.to_string().contains("try"), "{error}");
    }
}

#[test]
fn sizes_stay_within_one_block_and_128_mib() {
    for is_exact in [false, true] {
        assert_eq!(sizing(0.5, is_exact).num_blocks(0), 1);
        assert_eq!(sizing(1e-6, is_exact).num_blocks(u64::MAX) * 32, 128 << 20);
    }
}

#[test]
fn a_chunk_above_the_limit_gets_a_filter_of_equal_size() {
    for is_exact in [false, true] {
        for distinct in [10_u64, 5_000, 40_000] {
            let rule = sizing(0.01, is_exact);
            let collect = |max_hashes| {
                let mut collector = Collector::with_max_hashes(rule, 60_000, max_hashes);
                let all: Vec<u64> = (0..60_000).map(|number| hash(number % distinct)).collect();
                all.chunks(1000).for_each(|hashes| collector.add(hashes).unwrap());
                collector.finish().unwrap()
            };
            let (whole, mut bounded) = (collect(1 << 20), collect(8_000));
            assert_eq!(whole.distinct, distinct);
            assert_eq!(bounded.hashes.is_none(), distinct > 6_000);
            let error = bounded.distinct as f64 / distinct as f64 - 1.0;
            assert!(error.abs() < 0.02, "{error}");
            if let Some(blocks) = bounded.exact_blocks(&rule) {
                assert!(is_exact && bounded.hashes.is_none());
                bounded.builder = ParquetBloomBuilder::with_blocks(blocks).unwrap();
                (0..distinct).for_each(|number| bounded.builder.add_hash(hash(number)));
                let ratio = blocks as f64 / whole.builder.num_blocks() as f64;
                assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
            } else {
                assert_eq!(bounded.builder.bits(), whole.builder.bits());
            }
            let filter = ParquetBloom::new(bounded.builder.bits());
            assert!((0..distinct).all(|number| filter.may_contain_hash(hash(number))));
        }
    }
}

/// Returns a file with two columns and their filters. `edit` gets the metadata, and the encoded fields
/// of both filter offsets.
fn edited(edit: impl FnOnce(Vec<u8>, [Vec<u8>; 2]) -> Vec<u8>) -> Vec<u8> {
    let filter = |value: &[u8]| {
        let mut builder = ParquetBloomBuilder::with_blocks(1).unwrap();
        builder.add(value);
        builder.finish()
    };
    let (a, b) = (filter(b"a"), filter(b"b"));
    let offsets = [4, 4 + a.len() as u64].map(|offset| forge::varint(offset * 2));
    let mut file = forge::parquet_file(&[(&["a"], a, false), (&["b"], b, false)]);
    let end = file.len() - 8;
    let len = u32::from_le_bytes(*file[end..].first_chunk().unwrap()) as usize;
    let metadata = edit(file.split_off(end - len)[..len].to_vec(), offsets);
    file.extend(&metadata);
    file.extend((metadata.len() as u32).to_le_bytes());
    file.extend(b"PAR1");
    file
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}

/// Returns whether the filter of a column denies a value that its file does not have.
fn denies(file: &[u8], column: &str) -> bool {
    let file = ParquetFile::open(file).unwrap();
    !file.may_contain(file.column_chunk(0, column).unwrap(), b"absent")
}

#[test]
fn a_filter_that_a_second_offset_of_another_chunk_names_denies_nothing() {
    let sound = edited(|metadata, _| metadata);
    assert!(denies(&sound, "a") && denies(&sound, "b"));
    // Field 14 twice: one offset means "no filter", the other one is the offset of the filter of b.
    for is_first in [false, true] {
        let file = edited(|metadata, [a, b]| {
            let [one, other] = if is_first { [&b[..], &[0]] } else { [&[0][..], &b] };
            replaced(&metadata, &[&[0x56], &a[..]].concat(), &[&[0x56], one, &[0x06, 0x1c], other].concat())
        });
        assert!(!denies(&file, "a") && !denies(&file, "b"), "{is_first}");
    }
}

#[test]
fn a_filter_in_pages_of_a_chunk_without_values_denies_nothing() {
    // The chunk of a has no values, a negative dictionary offset, and pages where the filter of b begins.
    let file = edited(|metadata, [a, b]| {
        let from = [&[0x16, 2, 0x16, 2, 0x16, 2, 0x26, 8, 0x56], &a[..]].concat();
        let to = [&[0x16, 0, 0x16, 2, 0x16, 100, 0x26], &b[..], &[0x26, 1, 0x36], &a[..]].concat();
        replaced(&metadata, &from, &to)
    });
    assert!(!denies(&file, "b"));
}
