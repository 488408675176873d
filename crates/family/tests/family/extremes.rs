//! Tests that no filter announces an FPR below the limit of its 64-bit hashes.

use filterblock::{Error, HashSeed};
use filterblock_family::plan::{Variant, VariantPlan};
use filterblock_family::{
    Bloom, CounterBits, Counting, DLeft, DynamicCounting, Error as VariantsError, Frequency as _, Growth,
    Membership as _, Partitioned, Scalable, Spectral, SpectralMode,
};

const SEED: HashSeed = HashSeed(1);
const KEYS: u64 = 1_000;

fn keys() -> impl Iterator<Item = [u8; 8]> {
    (0..KEYS).map(u64::to_le_bytes)
}

#[test]
fn variants_announce_no_fpr_below_2_to_the_minus_64_per_key() {
    let (cells, probes) = (200 * KEYS, 30);
    let bloom = Bloom::with_shape(cells, probes, SEED).unwrap();
    let mut counting = Counting::with_shape(cells, probes, CounterBits::Four, SEED).unwrap();
    let mut dynamic = DynamicCounting::with_shape(cells, probes, 2, SEED).unwrap();
    let mut partitioned = Partitioned::with_shape(cells / 64, 64, SEED).unwrap();
    let mut spectral = Spectral::with_shape(cells, probes, 8, SpectralMode::MinimumSelection, SEED).unwrap();
    let mut d_left = DLeft::with_shape(KEYS / 24 + 1, 48, SEED).unwrap();
    for key in keys() {
        bloom.insert(&key);
        counting.insert(&key);
        dynamic.insert(&key).unwrap();
        partitioned.insert(&key);
        spectral.insert(&key).unwrap();
        d_left.insert(&key).unwrap();
        assert!(bloom.may_contain(&key) && spectral.estimate(&key) > 0);
    }
    // Most variants only estimate the number of keys. With a low estimate, the expected FPR is
    // slightly below the limit, which is `KEYS * 2^-64`.
    let floor = KEYS as f64 * 0.9 * 2f64.powi(-64);
    for (what, announced) in [
        ("bloom", bloom.expected_fpr()),
        ("counting", counting.expected_fpr()),
        ("dynamic counting", dynamic.expected_fpr()),
        ("partitioned", partitioned.expected_fpr()),
        ("spectral", spectral.expected_fpr()),
        ("d-left", d_left.expected_fpr()),
    ] {
        assert!(announced >= floor, "{what}: {announced:e} announced, floor {floor:e}");
    }
}

#[test]
fn variants_reject_fprs_below_the_limit_of_64_bit_hashes() {
    // With a million keys, the floor is 5.4e-14.
    let refused = [
        Bloom::with_fpr(1_000_000, 1e-15, SEED).err(),
        Counting::with_fpr(1_000_000, 1e-15, CounterBits::Four, SEED).err(),
        DynamicCounting::with_fpr(1_000_000, 1e-15, 1, SEED).err(),
        Partitioned::with_fpr(1_000_000, 1e-15, SEED).err(),
        Spectral::with_fpr(1_000_000, 1e-15, SpectralMode::MinimumSelection, SEED).err(),
        Scalable::with_fpr(1_000_000, 1e-15, Growth::default(), SEED).err(),
    ];
    for error in refused {
        let Some(VariantsError::Invalid { what: "false-positive rate", reason, .. }) = error else {
            panic!("{error:?}")
        };
        assert!(reason.contains("64-bit hashes"), "{reason}");
    }
    assert!(Bloom::with_fpr(1_000, 1e-15, SEED).is_ok() && Bloom::with_fpr(1_000_000, 1e-12, SEED).is_ok());
}

#[test]
fn variant_plans_announce_no_fpr_below_the_limit() {
    for variant in Variant::ALL {
        for keys in (0..50).map(|log2| 1u64 << log2) {
            let floor = keys as f64 * 2f64.powi(-64);
            for rate in [0.3, 1e-2, 1e-5, 1e-9, 1e-12, 1e-15, 1e-18, 1e-20].into_iter().chain([floor, 1.01 * floor]) {
                match VariantPlan::new(variant, keys, rate) {
                    Ok(plan) => assert!(plan.expected_fpr >= floor && rate >= floor * 0.999, "{plan:?}"),
                    Err(Error::Invalid { what: "filter", reason, .. }) => {
                        let is_d_left = variant == Variant::DLeft && rate < 1e-12;
                        assert!(rate < floor * 1.001 || is_d_left, "{variant}, {keys} keys, {rate:e}: {reason}");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}
