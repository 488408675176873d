//! Statistics for tests of the filters' constants: whether what is made of a hash looks drawn at random.
//!
//! Where nothing else is said they give how far the worst of many counts is from what chance would give, in standard
//! deviations, to either side. Samples are fixed.
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "bits of numbers are meant")]

use crate::hash::{HashSeed, KeyHash};

/// What chance may be off by, in standard deviations: among a thousand counts one is, once in two thousand times.
pub(super) const MOST: f64 = 5.0;
/// The same for [`ranks`]: chance is off by more as seldom as by 5 standard deviations, exp(-28.7 / 2).
pub(super) const MOST_OF_RANKS: f64 = 28.7;
/// Hashes of a family.
pub(super) const SAMPLE: usize = 1 << 17;

/// XXH3 hashes of keys that weak mixing is known to fail on.
pub(super) fn hash_families() -> [(&'static str, Vec<u64>); 4] {
    let of = |key: fn(u64) -> Vec<u8>| -> Vec<u64> {
        (0..SAMPLE as u64).map(|i| KeyHash::of(&key(i), HashSeed(0x5eed)).raw()).collect()
    };
    [
        ("sequential keys", of(|i| i.swap_bytes().to_le_bytes().to_vec())),
        ("strided keys", of(|i| (i * 4096).to_le_bytes().to_vec())),
        ("bit-reversed keys", of(|i| i.reverse_bits().to_le_bytes().to_vec())),
        ("decimal keys", of(|i| i.to_string().into_bytes())),
    ]
}

/// Numbers that are no hashes at all: all that they differ in are low bits, bits in the middle, or high ones.
pub(super) fn raw_families() -> [(&'static str, Vec<u64>); 3] {
    let of = |number: fn(u64) -> u64| (0..SAMPLE as u64).map(number).collect();
    [
        ("sequential numbers", of(|i| i)),
        ("strided numbers", of(|i| i << 23)),
        ("bit-reversed numbers", of(u64::reverse_bits)),
    ]
}

/// Of `width` bits of many values, how far the number of ones is off a half, and how far that of any two bits' differences.
pub(super) fn bits(values: impl Iterator<Item = u128>, width: usize) -> (f64, f64) {
    let values: Vec<u128> = values.collect();
    let half = values.len() as f64 / 2.0;
    let off = |ones: u32| (f64::from(ones) - half).abs() / (half / 2.0).sqrt();
    // Bit by bit, 64 values a word.
    let columns: Vec<Vec<u64>> = (0..width)
        .map(|bit| {
            values.chunks(64).map(|chunk| chunk.iter().fold(0, |word, &v| word << 1 | (v >> bit) as u64 & 1)).collect()
        })
        .collect();
    let ones = |words: &mut dyn Iterator<Item = u64>| off(words.map(u64::count_ones).sum());
    let balance = columns.iter().map(|column| ones(&mut column.iter().copied())).fold(0.0, f64::max);
    let mut correlation: f64 = 0.0;
    for (i, a) in columns.iter().enumerate() {
        for b in columns.iter().skip(i + 1) {
            correlation = correlation.max(ones(&mut a.iter().zip(b).map(|(a, b)| a ^ b)));
        }
    }
    (balance, correlation)
}

/// How far chi-square is off for pairs of numbers below 16: whether they are uniform, and one says nothing of the other.
pub(super) fn independence(pairs: impl Iterator<Item = (u64, u64)>) -> f64 {
    let mut cells = [0u32; 256];
    pairs.for_each(|(a, b)| cells[(a & 15) as usize * 16 + (b & 15) as usize] += 1);
    let expected = f64::from(cells.iter().sum::<u32>()) / 256.0;
    let chi_square: f64 = cells.iter().map(|&cell| (f64::from(cell) - expected).powi(2) / expected).sum();
    (chi_square - 255.0).abs() / (2.0 * 255.0f64).sqrt()
}

/// The least and the greatest share of values of which a bit in `outputs` of what is made of it changes with one in `inputs`.
pub(super) fn avalanche(
    values: &[u64],
    inputs: std::ops::Range<u32>,
    outputs: std::ops::Range<u32>,
    made: impl Fn(u64) -> u128,
) -> (f64, f64) {
    let (mut least, mut most): (f64, f64) = (1.0, 0.0);
    for input in inputs {
        let mut changed = [0u32; 128];
        for &value in values {
            let differ = made(value) ^ made(value ^ 1 << input);
            outputs.clone().for_each(|bit| changed[bit as usize] += (differ >> bit) as u32 & 1);
        }
        for bit in outputs.clone() {
            let share = f64::from(changed[bit as usize]) / values.len() as f64;
            (least, most) = (least.min(share), most.max(share));
        }
    }
    (least, most)
}

/// The rank of a matrix over GF(2).
pub(super) fn rank(mut rows: Vec<u128>) -> usize {
    let mut rank = 0;
    while let Some(row) = rows.pop() {
        if row != 0 {
            rank += 1;
            let lowest = row & row.wrapping_neg();
            rows.iter_mut().filter(|other| **other & lowest != 0).for_each(|other| *other ^= row);
        }
    }
    rank
}

/// Chi-square, of two degrees of freedom, of the numbers of square matrices of full rank, of one less, and of less. Each is of `size` values that follow one another, and has a column of ones.
pub(super) fn ranks(values: impl Iterator<Item = u128>, size: usize) -> f64 {
    let values: Vec<u128> = values.collect();
    let mut found = [0u32; 3];
    let matrices = values.chunks_exact(size);
    let count = matrices.len() as f64;
    matrices.for_each(|rows| found[(size - rank(rows.to_vec())).min(2)] += 1);
    // Beside a column that is not 0, the others are a random matrix of one less: full with probability (1 - 1/2)(1 - 1/4) ..,
    // one short with twice that.
    let full: f64 = (1..size as i32).map(|i| 1.0 - 0.5f64.powi(i)).product();
    let expected = [full, 2.0 * full, 1.0 - 3.0 * full];
    let chi_square: f64 =
        found.iter().zip(expected).map(|(&found, p)| (f64::from(found) - p * count).powi(2) / (p * count)).sum();
    chi_square
}

#[test]
fn ranks_are_those_of_elimination_by_hand() {
    assert_eq!(rank(vec![0b011, 0b101, 0b110]), 2);
    assert_eq!(rank(vec![0b001, 0b011, 0b111]), 3);
    assert_eq!(rank(vec![0, 0]), 0);
}
