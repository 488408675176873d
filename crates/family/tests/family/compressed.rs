//! Compares compressed Bloom filters with the numbers that Mitzenmacher published: bits in memory,
//! probes, FPR and bits sent.

use filterblock::HashSeed;
use filterblock_family::{Bloom, Membership};

const KEYS: u32 = 20_000;

/// Bits per key in memory, probes, FPR and bits per key sent, as published (Mitzenmacher 2002,
/// tables I to III).
const POINTS: [(f64, u32, f64, f64); 12] = [
    (8.0, 6, 0.0216, 7.98),
    (14.0, 2, 0.0177, 7.923),
    (92.0, 1, 0.0108, 7.923),
    (16.0, 11, 4.59e-4, 16.0),
    (28.0, 4, 3.14e-4, 15.846),
    (48.0, 3, 2.22e-4, 15.829),
    (4.0, 3, 0.147, 3.99),
    (7.0, 1, 0.133, 3.962),
    (12.6, 2, 0.0215, 7.582),
    (46.0, 1, 0.0215, 6.891),
    (37.5, 3, 4.54e-4, 14.666),
    (93.0, 2, 4.53e-4, 13.815),
];

fn entropy(share: f64) -> f64 {
    let part = |share: f64| if share > 0.0 { -share * share.log2() } else { 0.0 };
    part(share) + part(1.0 - share)
}

fn filled(bits_per_key: f64, probes: u32) -> Bloom {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few million")]
    let bits = (bits_per_key * f64::from(KEYS)).round() as u64;
    let bloom = Bloom::with_shape(bits, probes, HashSeed(4)).unwrap();
    (0..KEYS).for_each(|i| _ = bloom.insert(&i.to_le_bytes()));
    bloom
}

#[test]
fn the_formulas_give_the_published_points() {
    for (bits, probes, rate, sent) in POINTS {
        let zeros = (-f64::from(probes) / bits).exp();
        let found = ((1.0 - zeros).powi(probes.cast_signed()), bits * entropy(zeros));
        assert!((found.0 / rate - 1.0).abs() < 0.005, "{bits} {probes}: {found:?}");
        assert!((found.1 - sent).abs() < 0.006, "{bits} {probes}: {found:?}");
    }
}

/// With `n` keys, `k` probes, `m` bits and `x = kn/m`, the number of ones has a standard deviation of
/// `sqrt(m e^-x (1 - (1 + x) e^-x))`. A deviation of this size changes the entropy by less than
/// 0.5 % here.
#[test]
fn real_filters_and_the_coder_reach_the_published_points() {
    for (bits, probes, rate, sent) in POINTS {
        let bloom = filled(bits, probes);
        let packed = bloom.compress().unwrap();
        let len_bits = packed.len() as f64 * 8.0;
        let entropy_bits = bloom.num_bits() as f64 * entropy(bloom.count_ones() as f64 / bloom.num_bits() as f64);
        // The header and checksum take at most 23 bytes, because the two varints in the header are
        // short here. The arithmetic code may take a few bytes more than the entropy.
        assert!(len_bits < entropy_bits * 1.001 + 27.0 * 8.0, "{bits} {probes}: {len_bits} for {entropy_bits}");
        assert!(len_bits > entropy_bits * 0.999, "{bits} {probes}: {len_bits} for {entropy_bits}");
        let sent_now = len_bits / f64::from(KEYS);
        assert!((sent_now / sent - 1.0).abs() < 0.005, "{bits} {probes}: {sent_now} for {sent}");
        let rate_now = bloom.expected_fpr();
        assert!((rate_now / rate - 1.0).abs() < 0.05, "{bits} {probes}: {rate_now} for {rate}");
        let back = Bloom::decompress(&packed, bloom.num_bits()).unwrap();
        assert!(back.compare(&bloom).unwrap().is_equal() && back.may_contain(&7u32.to_le_bytes()));
    }
}

/// At 14 bits per key in memory and 8 bits per key sent, the published filter has two probes. With
/// four probes, it would send 11.33 bits per key.
#[test]
fn four_probes_at_fourteen_bits_exceed_eight_bits_sent() {
    let sent = |probes| filled(14.0, probes).compress().unwrap().len() as f64 * 8.0 / f64::from(KEYS);
    assert!((sent(2) - 7.92).abs() < 0.05 && (sent(4) - 11.33).abs() < 0.05, "{} {}", sent(2), sent(4));
}
