//! Tests of the sizes and FPRs of filters, and of building filters in bounded memory.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use filterblock_parquet::filters::{Budget, Collector, Sizing, estimated_distinct, expected_fpr};
use filterblock_parquet::{ParquetBloom, ParquetBloomBuilder};

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
    for budget in [Budget::Fpr(0.0), Budget::Fpr(1.0), Budget::Fpr(f64::NAN), Budget::BitsPerValue(0.9)] {
        let error = Sizing::new(budget, false).unwrap_err();
        assert!(error.to_string().contains("try"), "{error}");
    }
}

#[test]
fn sizes_stay_within_one_block_and_128_mib() {
    for is_exact in [false, true] {
        assert_eq!(sizing(0.5, is_exact).num_blocks(0), 1);
        assert_eq!(sizing(1e-9, is_exact).num_blocks(u64::MAX) * 32, 128 << 20);
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
