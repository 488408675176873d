//! Tests that plans agree with the papers and with stored plans.

use std::fmt::Write as _;

use filterblock::planning::{Goal, MAX_KEYS};
use filterblock_family::plan::{Variant, VariantPlan};
use filterblock_testkit::agrees;

const KEYS: u64 = 1_000_000;

#[test]
fn impossible_plans_are_refused() {
    for variant in Variant::ALL {
        assert!(VariantPlan::new(variant, MAX_KEYS + 1, 0.01).is_err());
        for rate in [0.0, 1.0, f64::NAN, -1.0] {
            assert!(VariantPlan::new(variant, 100, rate).is_err(), "{variant} {rate}");
        }
    }
    let error = VariantPlan::for_goal(Variant::DLeft, 1000, Goal::LenBytes(99)).unwrap_err().to_string();
    assert!(error.contains("even the smallest filter of this kind needs more space"), "{error}");
}

#[test]
fn variant_plans_agree_with_their_papers() {
    let plan = |variant, rate| VariantPlan::new(variant, 24 * KEYS, rate).unwrap();
    let per_key = |bits: u64| bits as f64 / (24 * KEYS) as f64;
    // d-left: each row has the bits of the remainder, the FPR in per cent, the bits per element,
    // and the bits per element of a filter of 4-bit counters.
    for (bits, percent, per_element, counters) in [
        (10, "2.34", 16.0, 31.2),
        (11, "1.17", 17.333, 37.0),
        (12, ".586", 18.667, 42.8),
        (14, ".146", 21.333, 54.3),
        (16, ".0366", 24.0, 65.9),
    ] {
        let rate = 24.0 / f64::from(1 << bits);
        let d_left = plan(Variant::DLeft, rate);
        assert!(agrees(d_left.expected_fpr * 100.0, percent), "{bits}: {}", d_left.expected_fpr);
        assert!((per_key(d_left.memory_bits) - per_element).abs() < 0.001, "{bits}");
        // The paper computes the bits of the counters for a fractional number of probes, and the
        // plan for a whole number. So the two results differ by up to 1 %.
        let counting = per_key(plan(Variant::Counting, rate).memory_bits);
        assert!((counting / counters - 1.0).abs() < 0.01, "{bits}: {counting} for {counters}");
    }
    // Partitioned: the plan takes the same space as a standard filter with seven probes.
    let found = plan(Variant::Partitioned, 0.01);
    assert!((per_key(found.memory_bits) - 9.593).abs() < 0.001, "{found:?}");
    assert!((found.expected_fpr / 0.01 - 1.0).abs() < 1e-6, "{found:?}");
    // Compressed: the plan has two probes. One probe, with 46 bits in memory and 6.891 bits sent,
    // would take more memory than a plan allows.
    let found = plan(Variant::Compressed, 0.0216);
    assert!((per_key(found.memory_bits) - 12.6).abs() < 0.05, "{found:?}");
    assert!((per_key(found.sent_bits.unwrap()) - 7.582).abs() < 0.01 && found.lines_if_present > 1.99, "{found:?}");
    // The paper has 37.5 bits in memory with three probes, and 14.666 bits sent. A filter that is
    // not compressed sends 16 bits.
    let found = plan(Variant::Compressed, 4.54e-4);
    assert!((per_key(found.memory_bits) - 37.5).abs() < 0.05, "{found:?}");
    assert!((per_key(found.sent_bits.unwrap()) - 14.666).abs() < 0.01, "{found:?}");
    // Scalable: the FPRs of the stages add up to at most the requested FPR. Here, the filter takes
    // more memory than a partitioned filter of a tenth of the FPR.
    let found = plan(Variant::Scalable, 0.01);
    assert!(per_key(found.memory_bits) > per_key(plan(Variant::Partitioned, 0.001).memory_bits), "{found:?}");
    assert!(per_key(found.memory_bits) < 40.0, "{found:?}");
}

#[test]
fn the_best_variant_plan_stays_within_its_budget() {
    for variant in Variant::ALL {
        for bits_per_key in [4, 10, 16, 40] {
            let max_bits = bits_per_key * KEYS;
            let found = VariantPlan::largest(variant, KEYS, max_bits).unwrap();
            let Some(found) = found else {
                assert!(matches!(variant, Variant::DLeft | Variant::Scalable) && bits_per_key == 4, "{variant}");
                continue;
            };
            assert!(found.bits() <= max_bits, "{found:?}");
            assert!(
                VariantPlan::new(variant, KEYS, found.expected_fpr * 0.45).is_ok_and(|plan| plan.bits() > max_bits)
            );
        }
        assert!(VariantPlan::largest(variant, KEYS, 10).unwrap().is_none());
    }
}

/// Returns one line of text for each of many plans, with nine digits for each FPR and each number
/// of cache lines.
fn plans() -> String {
    let mut text = String::new();
    let numbers = [
        1, 31, 65, 199, 1_000, 1_024, 1_500, 1_501, 2_560, 2_561, 3_073, 4_097, 9_727, 9_728, 10_239, 10_240, 59_999,
        60_000, 123_457, 100_000, 99_999_989,
    ];
    for variant in Variant::ALL {
        for (keys, rate) in
            numbers.into_iter().chain([1 << 40]).flat_map(|keys| [0.3, 0.01, 1e-5].map(|rate| (keys, rate)))
        {
            let plan = VariantPlan::new(variant, keys, rate).unwrap();
            let whole = format!("{} bits, {:?} sent", plan.memory_bits, plan.sent_bits.unwrap_or(0));
            let (rate, absent, present) = (plan.expected_fpr, plan.lines_if_absent, plan.lines_if_present);
            writeln!(text, "{variant} {keys}: {whole}, rate {rate:.8e}, lines {absent:.8e} {present:.8e}").unwrap();
        }
    }
    text
}

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/plans.txt");

#[test]
fn plans_equal_the_stored_plans() {
    assert_eq!(plans(), std::fs::read_to_string(KEPT).unwrap());
}

#[test]
#[ignore = "writes tests/golden/plans.txt"]
fn write_plans() {
    std::fs::write(KEPT, plans()).unwrap();
}
