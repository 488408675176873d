//! Tests how many bits per key a bumped ribbon of whole columns takes above the FPR lower bound
//! `log2(1/FPR)`, and that plans predict this space.

use filterblock::planning::Plan;
use filterblock::{FilterBlock, FilterOptions, HashSeed, KeyHash, Verify};
use filterblock_testkit::Random;
use filterblock_testkit::blocks::spec;

/// The space above the FPR lower bound, in per cent of this bound.
#[derive(Debug, Clone, Copy, Default)]
struct Overhead {
    payload: f64,
    block: f64,
    /// The space of the planned payload.
    planned: f64,
}

impl Overhead {
    fn of(columns: u32, num_keys: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let spec = spec(&format!("bumped-ribbon:fpr={}", 0.5f64.powi(columns.cast_signed())));
        let mut builder = FilterOptions::new(spec).self_check(false).builder(HashSeed(0)).unwrap();
        (0..num_keys).for_each(|_| builder.add_hash(KeyHash::from_raw(random.next())));
        let block = FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap();
        let info = block.metadata();
        assert_eq!(info.num_keys, num_keys as u64);
        let bits_per_key = -block.expected_fpr().log2();
        assert!((bits_per_key - f64::from(columns)).abs() < 1e-3, "{columns} columns, {bits_per_key} bits");
        let planned = Plan::new(spec, num_keys as u64).unwrap().payload_len_bytes();
        let [payload, block, planned] = [info.payload_len_bytes, info.block_len_bytes, planned]
            .map(|len_bytes| 100.0 * (len_bytes as f64 * 8.0 / (num_keys as f64 * bits_per_key) - 1.0));
        Self { payload, block, planned }
    }
}

/// Returns the mean and the maximum of many overheads, for each field separately.
fn mean_and_worst(all: impl Iterator<Item = Overhead>) -> (Overhead, Overhead) {
    let (mut sum, mut worst, mut count) = (Overhead::default(), Overhead::default(), 0.0);
    for one in all {
        count += 1.0;
        for (sum, worst, one) in [
            (&mut sum.payload, &mut worst.payload, one.payload),
            (&mut sum.block, &mut worst.block, one.block),
            (&mut sum.planned, &mut worst.planned, one.planned),
        ] {
            *sum += one;
            *worst = worst.max(one);
        }
    }
    let mean = Overhead { payload: sum.payload / count, block: sum.block / count, planned: sum.planned / count };
    (mean, worst)
}

#[test]
fn bumped_ribbons_of_10000_keys_are_near_the_fpr_lower_bound() {
    for (columns, most_in_blocks) in [(8, 1.85), (12, 1.5), (16, 1.35)] {
        let (mean, worst) = mean_and_worst((0..200).map(|seed| Overhead::of(columns, 10_000, seed)));
        println!("{columns} columns: mean {mean:.2?}, worst {worst:.2?}");
        assert!(mean.payload < 0.62 && worst.payload <= 1.0, "{columns} columns: {mean:?}, {worst:?}");
        // Page checksums, the record of the layers and the trailer take about 80 bytes or more.
        assert!(worst.block <= most_in_blocks, "{columns} columns: {worst:?}");
    }
}

#[test]
fn bumped_ribbons_of_9000_to_11000_keys_are_near_lower_bound() {
    let sets = (9_000..=11_000).step_by(64).flat_map(|keys| (0..10).map(move |seed| (keys, seed)));
    let (mean, worst) = mean_and_worst(sets.map(|(keys, seed)| Overhead::of(8, keys, seed)));
    println!("mean {mean:.2?}, worst {worst:.2?}");
    assert!(mean.payload < 0.52 && worst.payload <= 1.0, "{mean:?}, {worst:?}");
}

#[test]
fn bumped_ribbons_have_the_planned_size_on_average() {
    for keys in [9_728, 10_000, 10_240, 12_345, 20_000, 20_480, 30_000, 60_000] {
        let (mean, _) = mean_and_worst((0..20).map(|seed| Overhead::of(8, keys, seed)));
        let off = mean.payload - mean.planned;
        assert!(off.abs() < 0.12, "{keys} keys: the overhead is {off} percentage points above the plan");
    }
}

/// Prints the space of many numbers of keys: `cargo test --test kinds space:: -- --ignored
/// --nocapture`.
#[test]
#[ignore = "prints a table"]
fn print_bumped_ribbon_space_from_1000_to_40000_keys() {
    for columns in [4, 8, 12, 16] {
        for (from, to, step) in [(1_000, 40_000, 250), (9_000, 11_000, 64), (9_000, 11_000, 1)] {
            let found = (from..=to).step_by(step).map(|keys| Overhead::of(columns, keys, keys as u64));
            let (mean, worst) = mean_and_worst(found);
            println!("{columns} columns, {from}..={to} by {step}: mean {mean:.3?}, worst {worst:.3?}");
        }
        for keys in [9_000, 9_727, 9_728, 10_000, 10_239, 10_240, 11_000, 12_000, 15_000, 20_000, 30_000, 40_000] {
            let (mean, worst) = mean_and_worst((0..100).map(|seed| Overhead::of(columns, keys, seed)));
            println!("{columns} columns, 100 sets of {keys} keys: mean {mean:.3?}, worst {worst:.3?}");
        }
    }
}
