//! Tests how many bits per key a bumped ribbon of whole columns takes above the FPR lower bound
//! `log2(1/FPR)`, and that plans predict this space.

use filterblock::planning::Plan;
use filterblock::{FilterBlock, FilterOptions, HashSeed, KeyHash, Verify};
use filterblock_testkit::Random;
use filterblock_testkit::blocks::spec;

/// Returns the space of the payload, of the block and of the planned payload above the FPR lower bound,
/// in per cent of this bound.
fn overhead(columns: u32, num_keys: usize, seed: u64) -> [f64; 3] {
    let mut random = Random(seed);
    let spec = spec(&format!("bumped-ribbon:fpr={}", 0.5f64.powi(columns.cast_signed())));
    let mut builder = FilterOptions::new(spec).self_check(false).builder(HashSeed(0)).unwrap();
    (0..num_keys).for_each(|_| builder.add_hash(KeyHash::from_raw(random.next())));
    let block = FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap();
    let info = block.metadata();
    let bits_per_key = -block.expected_fpr().log2();
    assert!((bits_per_key - f64::from(columns)).abs() < 1e-3, "{columns} columns, {bits_per_key} bits");
    let planned = Plan::new(spec, num_keys as u64).unwrap().payload_len_bytes();
    [info.payload_len_bytes, info.block_len_bytes, planned]
        .map(|len_bytes| 100.0 * (len_bytes as f64 * 8.0 / (num_keys as f64 * bits_per_key) - 1.0))
}

/// Returns the mean and the maximum of many overheads, for each number separately.
fn mean_and_worst(all: impl Iterator<Item = [f64; 3]>) -> ([f64; 3], [f64; 3]) {
    let all: Vec<_> = all.collect();
    let of = |i: usize| all.iter().map(move |one| one[i]);
    let mean = [0, 1, 2].map(|i| of(i).sum::<f64>() / all.len() as f64);
    (mean, [0, 1, 2].map(|i| of(i).fold(f64::MIN, f64::max)))
}

#[test]
fn bumped_ribbons_of_9000_to_11000_keys_are_near_lower_bound() {
    for (columns, most_in_blocks) in [(8, 1.85), (12, 1.5), (16, 1.35)] {
        let sets = (9_000..=11_000).step_by(64).flat_map(|keys| (0..6).map(move |seed| (keys, seed)));
        let (mean, worst) = mean_and_worst(sets.map(|(keys, seed)| overhead(columns, keys, seed)));
        println!("{columns} columns: mean {mean:.2?}, worst {worst:.2?}");
        assert!(mean[0] < 0.55 && worst[0] <= 1.0, "{columns} columns: {mean:?}, {worst:?}");
        // Page checksums, the record of the layers and the trailer take about 80 bytes or more. They are
        // the largest share of a block of 9,000 keys.
        assert!(worst[1] <= most_in_blocks * 10.0 / 9.0, "{columns} columns: {worst:?}");
    }
}

#[test]
fn bumped_ribbons_have_the_planned_size_on_average() {
    for keys in [9_728, 10_000, 10_240, 12_345, 20_000, 20_480, 30_000, 60_000] {
        let ([payload, _, planned], _) = mean_and_worst((0..20).map(|seed| overhead(8, keys, seed)));
        let off = payload - planned;
        assert!(off.abs() < 0.12, "{keys} keys: the overhead is {off} percentage points above the plan");
    }
}
