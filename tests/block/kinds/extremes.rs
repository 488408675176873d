//! Tests that no filter announces an FPR below the limit of its hashes.
//!
//! An FPR of one in a billion cannot be measured with random queries. So some tests choose hashes
//! that have the same fold as a key. The fold is a 32-bit number, computed from the hash, that
//! chooses the bits in a line (docs/FORMAT.md, section 7.2).

use filterblock::planning::Plan;
use filterblock::{Error, FilterBlock, FilterKind, FilterOptions, FilterSpec, HashSeed, KeyHash, Verify};
use filterblock_testkit::Random;
use filterblock_testkit::blocks::{kinds_of_keys, spec};

/// The multiplier of the fold: docs/FORMAT.md, section 7.2.
const FOLD: u64 = 0xdd22_899b_0135_a30f;
/// The inverse of [`FOLD`] modulo 2^64.
const UNFOLD: u64 = {
    // The lowest three bits of the start value are right, and each round doubles the number of
    // right bits.
    let (mut inverse, mut round) = (FOLD, 0);
    while round < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(FOLD.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
};
const _: () = assert!(FOLD.wrapping_mul(UNFOLD) == 1);

/// Returns the length of the line or block that has all bits of a key. Returns `None` for kinds
/// that have no such line or block.
fn line_len_bytes(kind: FilterKind) -> Option<u64> {
    match kind {
        FilterKind::BlockedBloom | FilterKind::SplitBlock512 => Some(64),
        FilterKind::SplitBlock => Some(32),
        _ => None,
    }
}

/// Returns approximately the lowest possible FPR of a filter of this kind and size. It follows from
/// the 64 bits of a hash, the 32 bits of a fold in a line, and the maximum number of columns or
/// fingerprint bits.
fn floor(kind: FilterKind, keys: u64, payload_len_bytes: u64) -> f64 {
    let of_hash = keys as f64 * 2f64.powi(-64);
    let of_fold =
        line_len_bytes(kind).map_or(0.0, |len| keys as f64 / (payload_len_bytes / len) as f64 * 2f64.powi(-32));
    let of_columns = match kind {
        FilterKind::Ribbon | FilterKind::BumpedRibbon => 2f64.powi(-32),
        FilterKind::BinaryFuse => 2f64.powi(-16),
        _ => 0.0,
    };
    of_hash.max(of_fold).max(of_columns)
}

/// Returns a random hash that has the same fold as `hash`.
fn of_equal_fold(hash: KeyHash, random: &mut Random) -> KeyHash {
    let folded = hash.raw().wrapping_mul(FOLD) >> 32 << 32;
    KeyHash::from_raw((folded | random.next() >> 32).wrapping_mul(UNFOLD))
}

fn block(text: &str, hashes: &[KeyHash]) -> FilterBlock<Vec<u8>> {
    let mut builder = FilterOptions::new(spec(text)).builder(HashSeed(1)).unwrap();
    hashes.iter().for_each(|&hash| builder.add_hash(hash));
    FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap()
}

#[test]
fn announced_fprs_are_never_below_the_limit_of_the_hashes() {
    for kind in kinds_of_keys() {
        for budget in ["8", "12", "16", "31.7", "32", "33", "50", "75", "99.9", "100", "fpr=0.01", "fpr=0.000001"] {
            let Ok(spec) = format!("{kind}:{budget}").parse::<FilterSpec>() else { continue };
            for keys in (0..36).flat_map(|log2| [1, 3].map(|times| times << log2)).chain([512_000_000, 1 << 50]) {
                let Ok(plan) = Plan::new(spec, keys) else { continue };
                let floor = floor(kind, keys, plan.payload_len_bytes());
                // The floor counts two keys with the same hash or fold twice, so the FPR may be
                // lower by the share `floor`. The last factor allows for rounding.
                let least = floor * (1.0 - floor) * 0.999_999;
                let announced = plan.expected_fpr();
                assert!(announced >= least, "{spec}, {keys} keys: {announced:e} announced, floor {floor:e}");
            }
        }
    }
}

/// Returns the FPR of the textbook formula, averaged over the number of keys in a line.
fn textbook_rate(kind: FilterKind, probes: u32, keys_in_line: f64) -> f64 {
    let lane_bits: f64 = match kind {
        FilterKind::BlockedBloom => 512.0,
        FilterKind::SplitBlock => 32.0,
        _ => 64.0,
    };
    let throws = if kind == FilterKind::BlockedBloom { f64::from(probes) } else { 1.0 };
    let (mut weight, mut sum) = ((-keys_in_line).exp(), 0.0);
    for keys in 0..80 {
        sum += weight * (1.0 - (1.0 - 1.0 / lane_bits).powf(throws * f64::from(keys))).powi(probes as i32);
        weight *= keys_in_line / f64::from(keys + 1);
    }
    sum
}

/// A hash with the fold of a key passes if it falls in the key's line. The test measures how large
/// a share of the hashes with the fold of a key passes. This share times `keys / 2^32` is the part
/// of the FPR that comes from equal folds. The announced FPR must be about the sum of this part and
/// of the part that comes from the bits.
#[test]
fn equal_folds_pass_as_often_as_announced() {
    const ASKED_PER_KEY: u64 = 20_000;
    let mut random = Random(2);
    for kind in [FilterKind::BlockedBloom, FilterKind::SplitBlock, FilterKind::SplitBlock512] {
        for (bits_per_key, keys) in [(100, 1), (100, 2), (100, 10), (100, 37), (100, 300), (64, 100)] {
            let hashes: Vec<_> = (0..keys).map(|_| KeyHash::from_raw(random.next())).collect();
            let block = block(&format!("{kind}:{bits_per_key}"), &hashes);
            let passed: u64 = hashes
                .iter()
                .map(|&key| {
                    (0..ASKED_PER_KEY).filter(|_| block.may_contain_hash(of_equal_fold(key, &mut random))).count()
                })
                .sum::<usize>() as u64;
            let share = passed as f64 / (keys * ASKED_PER_KEY) as f64;
            let deviation = (share / (keys * ASKED_PER_KEY) as f64).sqrt();
            let stratum = keys as f64 * 2f64.powi(-32);
            let (counted, slack) = (stratum * share, 5.0 * stratum * deviation);
            let info = block.metadata();
            let lines = info.payload_len_bytes / line_len_bytes(kind).unwrap();
            let bits = textbook_rate(kind, info.probes, keys as f64 / lines as f64);
            let announced = block.expected_fpr();
            let what = format!("{kind}:{bits_per_key}, {keys} keys: {announced:e} announced, {counted:e} and {bits:e}");
            // With fewer than ten lines, the keys may be spread more evenly than the formula
            // assumes.
            let least = counted - slack + if lines < 10 { 0.0 } else { bits * 0.5 };
            assert!(announced >= least, "{what}");
            assert!(announced <= counted + slack + bits * 1.5, "{what}");
        }
    }
}

#[test]
fn requested_fprs_are_reached_or_rejected_with_the_limit() {
    let mut refused = 0;
    for kind in kinds_of_keys() {
        for rate in
            ["0.01", "0.00001", "1e-7", "1e-8", "3e-9", "1.5e-9", "1e-9", "3e-10", "1e-10", "3e-11", "1e-12", "1e-20"]
        {
            let wanted: f64 = rate.parse().unwrap();
            let spec = match format!("{kind}:fpr={rate}").parse::<FilterSpec>() {
                Ok(spec) => spec,
                Err(error) => {
                    assert!(matches!(&error, Error::Invalid { what: "filter", .. }), "{error}");
                    let text = error.to_string();
                    assert!(text.contains("lowest FPR") && text.contains("use "), "{text}");
                    refused += 1;
                    continue;
                }
            };
            for keys in [1, 2, 5, 6, 41, 300, 1_000, 50_000, 1_000_000, 500_000_000] {
                let plan = Plan::new(spec, keys).unwrap();
                // The expected FPR may exceed the requested FPR for three reasons. The bits of a
                // small standard filter are not independent. In a ribbon, only whole blocks can
                // have one column less than the others. Equal hashes add to the FPR of every kind.
                let slack = match kind {
                    FilterKind::Bloom if keys < 1_000 => 2.5,
                    _ if keys < 10_000 => 1.06,
                    _ => 1.01,
                };
                let most = wanted * slack + keys as f64 * 2f64.powi(-64);
                assert!(plan.expected_fpr() <= most, "{spec}, {keys} keys: {:e}", plan.expected_fpr());
                // A filter of bits wastes no space.
                let sets_bits = kind == FilterKind::Bloom || line_len_bytes(kind).is_some();
                let is_wasteful = sets_bits && keys >= 50_000 && wanted >= 1e-5 && plan.expected_fpr() < wanted * 0.99;
                assert!(!is_wasteful, "{spec}, {keys} keys: {:e}", plan.expected_fpr());
            }
        }
    }
    assert!(refused >= 15, "{refused} were refused");
}

#[test]
fn fprs_below_the_limit_of_64_bit_hashes_are_rejected() {
    // With 2^40 keys, the FPR is at least 2^-24.
    let spec: FilterSpec = "bloom:fpr=0.00000005".parse().unwrap();
    assert!(Plan::new(spec, 1 << 32).is_ok());
    let Err(Error::Invalid { what: "filter", reason, .. }) = Plan::new(spec, 1 << 40) else {
        panic!("2^40 keys at an FPR of 5e-8 must be rejected")
    };
    assert!(reason.contains("64 bits"), "{reason}");
}
