//! Compares the filters with the numbers in their papers, in docs/VARIANTS.md and in plans.

use crate::support::{assert_agrees, assert_digits, hash, key, measured_rate, seeds};
use filterblock::HashSeed;
use filterblock::planning;
use filterblock_family::plan::{Variant, VariantPlan};
use filterblock_family::{
    Bloom, CounterBits, Counting, DLeft, DynamicCounting, Growth, Membership, Partitioned, Scalable, Spectral,
    SpectralMode, Stable, StableShape,
};

/// Returns the measured FPRs of `count` filters that `make` fills. Each filter is asked for
/// `queries` absent keys.
fn rates<F: Membership>(count: usize, queries: u64, make: impl Fn(HashSeed) -> F) -> Vec<f64> {
    seeds(count).map(|seed| measured_rate(&make(seed), queries)).collect()
}

#[test]
fn standard_filters_have_the_published_fprs() {
    // Bits per key, probes and FPR, from the survey of Broder and Mitzenmacher. The last row is
    // from SPIE, the traceback system of Snoeren et al.
    for (bits, probes, rate) in [
        (2, 1, 0.393),
        (4, 3, 0.147),
        (5, 4, 0.0919),
        (6, 4, 0.0561),
        (7, 5, 0.0347),
        (8, 6, 0.0216),
        (9, 7, 0.0135),
        (9, 1, 0.105),
        (5, 3, 0.0918),
    ] {
        let filled = |seed| {
            let filter = Bloom::with_shape(bits * 10_000, probes, seed).unwrap();
            (0..10_000).for_each(|i| _ = filter.insert_hash(hash(i, seed)));
            filter
        };
        assert_agrees(&format!("{bits} bits, {probes} probes"), &rates(20, 10_000, filled), rate, rate * 0.004);
    }
    // With 16 bits per key and ten probes, the published FPR is just below 0.00047.
    let filled = |seed| {
        let filter = Bloom::with_shape(160_000, 10, seed).unwrap();
        (0..10_000).for_each(|i| _ = filter.insert_hash(hash(i, seed)));
        filter
    };
    assert_agrees("16 bits, 10 probes", &rates(20, 100_000, filled), 0.00047, 0.000005);
}

#[test]
fn the_page_on_variants_lists_the_sizes_of_the_filters() {
    let page = std::fs::read_to_string("../../docs/VARIANTS.md").unwrap();
    let (keys, rate, seed) = (100_000, 0.01, HashSeed(1));
    let mut dynamic = DynamicCounting::with_fpr(keys, rate, 1, seed).unwrap();
    let mut scalable = Scalable::with_fpr(1_000, rate, Growth::default(), seed).unwrap();
    for i in 0..keys {
        dynamic.insert(&key(i)).unwrap();
        scalable.insert(&key(i)).unwrap();
    }
    let spectral = Spectral::with_fpr(keys, rate, SpectralMode::MinimumSelection, seed).unwrap();
    let sizes = [
        ("Bloom", Bloom::with_fpr(keys, rate, seed).unwrap().num_bits()),
        ("Partitioned", Partitioned::with_fpr(keys, rate, seed).unwrap().num_bits()),
        ("Counting", Counting::with_fpr(keys, rate, CounterBits::Four, seed).unwrap().num_counters() * 4),
        ("DLeft", DLeft::with_fpr(keys, rate, seed).unwrap().len_bytes() * 8),
        ("Spectral", spectral.num_counters() * 32),
        ("DynamicCounting", dynamic.len_bytes() * 8),
        ("Scalable", scalable.num_bits()),
    ];
    let on_the_page = sizes.map(|(name, _)| {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
        (name, row.split('|').nth(3).unwrap().trim().to_owned())
    });
    assert_eq!(on_the_page, sizes.map(|(name, bits)| (name, format!("{:.2}", bits as f64 / keys as f64))));
}

#[test]
fn variants_have_their_planned_sizes() {
    for keys in [1, 7, 25, 1_000, 24_000, 100_000] {
        for rate in [0.5, 0.3, 0.1, 0.01, 0.001, 24.0 / 4096.0, 1e-6, 1e-9] {
            let planned = |variant| VariantPlan::new(variant, keys, rate).unwrap();
            let what = format!("{keys} keys at {rate}");
            let made = Partitioned::with_fpr(keys, rate, HashSeed(1)).unwrap();
            assert_eq!(planned(Variant::Partitioned).memory_bits, made.num_bits(), "{what}");
            let made = DLeft::with_fpr(keys, rate, HashSeed(1)).unwrap();
            let cells = made.capacity() / 24 * 32;
            let plan = planned(Variant::DLeft);
            assert_eq!(plan.memory_bits, cells * u64::from(made.remainder_bits() + 2), "{what}");
            // Equal 64-bit hashes add to the planned FPR.
            assert!(plan.expected_fpr <= rate + keys as f64 * 2f64.powi(-64), "{what}: {}", plan.expected_fpr);
            // The number of counters is a multiple of 8. Small filters take more counters than
            // planned, because the formula gives too low an FPR for them.
            let made = Counting::with_fpr(keys, rate, CounterBits::Four, HashSeed(1)).unwrap().num_counters() * 4;
            let plan = planned(Variant::Counting).memory_bits;
            let slack = if keys < 1_000 { plan } else { plan / 200 };
            assert!((plan..=plan + 32 + slack).contains(&made), "{what}: {made} for {plan}");
            let plan = planned(Variant::Compressed);
            let per_key = |bits: u64| bits as f64 / keys as f64;
            let (sent, memory) = (per_key(plan.sent_bits.unwrap()), per_key(plan.memory_bits));
            let made = Bloom::for_transport(keys, sent.min(memory), memory, HashSeed(1)).unwrap();
            let reached = planning::simplified_fpr(keys, made.num_bits(), made.num_probes());
            assert!(made.num_bits() <= plan.memory_bits + 7 && reached <= rate * 1.05, "{what}: {reached}");
        }
    }
    for (keys, rate) in [(500, 0.01), (100_000, 0.01), (50_000, 1e-6), (200_000, 0.3)] {
        let mut made = Scalable::with_fpr(1_024, rate, Growth::default(), HashSeed(1)).unwrap();
        (0..keys).for_each(|i| _ = made.insert(&key(i)).unwrap());
        let plan = VariantPlan::new(Variant::Scalable, keys, rate).unwrap().memory_bits as f64;
        assert!((made.num_bits() as f64 / plan - 1.0).abs() < 0.003, "{keys} keys at {rate}: {}", made.num_bits());
    }
}

#[test]
fn partitioned_filters_match_the_exact_formula() {
    for (slice_bits, slices, keys) in [(50u64, 3u32, 30u64), (1_000, 5, 700), (4_000, 7, 2_600)] {
        let formula = (1.0 - (1.0 - 1.0 / slice_bits as f64).powf(keys as f64)).powi(slices as i32);
        let filled = |seed| {
            let mut filter = Partitioned::with_shape(slice_bits, slices, seed).unwrap();
            (0..keys).for_each(|i| _ = filter.insert_hash(hash(i, seed)));
            assert!(filter.count_ones() <= filter.num_bits());
            filter
        };
        let count = if slice_bits < 100 { 400 } else { 40 };
        assert_agrees(&format!("{slices} slices of {slice_bits}"), &rates(count, 5_000, filled), formula, 0.0);
    }
}

#[test]
fn counters_overflow_within_the_bound_and_match_the_tail() {
    let ln2 = std::f64::consts::LN_2;
    // With 10 probes in a million counters, this number of keys comes closest to the best load,
    // `ln 2`.
    let (cells, probes, keys) = (1_000_000u64, 10u32, 69_315u64);
    let filter = Counting::with_shape(cells, probes, CounterBits::Four, HashSeed(1)).unwrap();
    for (count, share) in [(8, 9.47e-6), (12, 2.25e-10), (16, 1.3677e-15)] {
        let bound = filter.bound_of_reaching(count, keys);
        assert_digits("bound", bound, (share * cells as f64).min(1.0), 0.003);
    }
    assert_eq!(filter.bound_of_reaching(1, u64::MAX), 1.0);
    // Returns the share of counters with a value of at least `count`: the tail of a Poisson
    // distribution.
    let tail = |count: i32| {
        let mut term = (-ln2).exp();
        (1..count + 60).fold(0.0, |sum, i| {
            term *= ln2 / f64::from(i);
            if i >= count { sum + term } else { sum }
        })
    };
    assert_digits("tail at 8", tail(8), 7.15e-7, 0.002);
    assert_digits("tail at 12", tail(12), 1.36e-11, 0.005);
    let saturated: Vec<f64> = seeds(20)
        .map(|seed| {
            let mut filter = Counting::with_shape(cells / 20, probes, CounterBits::Two, seed).unwrap();
            (0..keys / 20).for_each(|i| filter.insert_hash(hash(i, seed)));
            filter.num_saturated_counters() as f64 / filter.num_counters() as f64
        })
        .collect();
    assert_agrees("counters of three and more", &saturated, tail(3), tail(3) * 1e-4);
}

#[test]
fn d_left_filters_have_the_fprs_of_the_paper() {
    let keys = 48_000;
    for (remainder_bits, rate) in [(10, 0.0234), (11, 0.0117), (12, 0.00586), (14, 0.00146), (16, 0.000366)] {
        let made = DLeft::with_fpr(keys, rate * 1.004, HashSeed(1)).unwrap();
        assert_eq!((made.remainder_bits(), made.capacity()), (remainder_bits, keys));
        let filled = |seed| {
            let mut filter = DLeft::with_fpr(keys, rate * 1.004, seed).unwrap();
            (0..keys).for_each(|i| filter.insert_hash(hash(i, seed)).unwrap());
            assert!(filter.expected_fpr() <= 24.0 / f64::from(remainder_bits).exp2());
            filter
        };
        // Keys with the same bucket and remainder share a cell, so the FPR is slightly below the
        // bound of `24 / 2^r`.
        let announced = 1.0 - (-24.0 / f64::from(remainder_bits).exp2()).exp();
        assert_agrees(&format!("r = {remainder_bits}"), &rates(20, 20_000, filled), announced, 0.0);
        assert_digits("published", announced, rate, 0.013);
    }
}

#[test]
fn no_d_left_filter_refuses_a_key_up_to_its_capacity() {
    // At capacity, three quarters of the cells are used. A filter refuses a key only if all four
    // buckets of the key are full.
    for (buckets, filters) in [(1, 50), (2, 50), (10, 50), (100, 50), (1_000, 20), (20_000, 2)] {
        for seed in seeds(filters) {
            let mut filter = DLeft::with_shape(buckets, 14, seed).unwrap();
            for i in 0..filter.capacity() {
                filter.insert_hash(hash(i, seed)).unwrap();
            }
        }
    }
}

#[test]
fn a_scalable_filter_keeps_its_fpr_as_it_grows_a_thousandfold() {
    for (factor, tightening, ratio) in [(2, 0.9, 10.0), (2, 0.5, 2.0), (4, 0.8, 5.0), (2, 0.85, 1.0 / 0.15)] {
        let growth = Growth { factor, tightening };
        let filled: Vec<Scalable> = seeds(20)
            .map(|seed| {
                let mut filter = Scalable::with_fpr(40, 0.02, growth, seed).unwrap();
                for i in 0..40_000 {
                    filter.insert_hash(hash(i, seed)).unwrap();
                }
                assert!(filter.expected_fpr() <= 0.02);
                filter
            })
            .collect();
        // The FPR is at most P0 / (1 - r), where P0 is the FPR of the first stage and r the
        // tightening.
        let first = 0.02 / ratio;
        for filter in &filled {
            let expected = (0..).map(|i| (-(first * tightening.powi(i)).log2()).ceil() as u32);
            assert!(filter.num_slices().eq(expected.take(filter.num_stages())), "{growth:?}");
            assert_digits("bound", filter.fpr_bound(), 0.02, 1e-9);
        }
        let measured: Vec<f64> = filled.iter().map(|filter| measured_rate(filter, 20_000)).collect();
        let announced = filled.iter().map(Scalable::expected_fpr).sum::<f64>() / 20.0;
        assert_agrees(&format!("{growth:?}"), &measured, announced, 0.0);
        assert!(announced <= 0.02);
        let bits = filled[0].num_bits() as f64 / 40_000.0;
        println!("{growth:?}: {} stages, {bits:.1} bits per key", filled[0].num_stages());
    }
}

#[test]
fn a_stable_filter_settles_at_the_formula() {
    let shape = |cells, probes, decrements, cell_bits| StableShape { cells, cell_bits, probes, decrements };
    for (shape, zeros, rate) in [
        (shape(100_000, 3, 10, 1), 0.769225, 0.012290),
        (shape(100_000, 2, 4, 2), 0.296290, 0.495207),
        (shape(1_000_000, 4, 8, 3), 0.058527, 0.785654),
    ] {
        assert!((shape.stable_zeros() - zeros).abs() < 1e-6, "{shape:?}");
        assert!((shape.stable_fpr() - rate).abs() < 1e-6, "{shape:?}");
    }
    assert!((shape(20_000, 3, 10, 2).stable_zeros() - 0.45512).abs() < 1e-5);
    for shape in [shape(20_000, 3, 10, 2), shape(20_000, 3, 10, 1), shape(20_000, 2, 4, 2)] {
        let filters: Vec<Stable> = seeds(20)
            .map(|seed| {
                let mut filter = Stable::with_shape(shape, seed).unwrap();
                (0..30_000).for_each(|i| _ = filter.insert_hash(hash(i, seed)));
                filter
            })
            .collect();
        let zeros: Vec<f64> = filters.iter().map(Stable::zeros).collect();
        // The formula assumes that the decremented cells are chosen independently. In fact they are
        // consecutive and thus distinct, which gives a few more zeros.
        assert_agrees(&format!("zeros of {shape:?}"), &zeros, shape.stable_zeros() + 0.002, 0.002);
        let measured: Vec<f64> = filters.iter().map(|filter| measured_rate(filter, 10_000)).collect();
        assert_agrees(&format!("rate of {shape:?}"), &measured, shape.stable_fpr(), 0.004);
    }
}

#[test]
fn a_stable_filter_forgets_old_keys() {
    let mut filter = Stable::with_fpr(10_000, 1, 0.01, HashSeed(1)).unwrap();
    (0..20_000).for_each(|i| _ = filter.insert(&key(i)));
    let known = |range: std::ops::Range<u64>| {
        let len = (range.end - range.start) as f64;
        range.filter(|&i| filter.may_contain(&key(i))).count() as f64 / len
    };
    assert!(filter.may_contain(&key(19_999)) && known(19_900..20_000) > 0.8);
    // Old keys get "maybe" about as often as keys that were never added.
    assert!(known(0..10_000) < 0.02);
}
