//! Provides statistics for tests of the filters' constants. The tests check whether values derived
//! from a hash look random.
//!
//! Deviations are absolute. Their unit is the standard deviation that random values would have.
//! Samples are fixed, so the results do not vary.
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "the statistics look at bits of numbers")]

use crate::hash::{HashSeed, KeyHash};

/// The largest deviation that the tests accept, in standard deviations. With a thousand counts of
/// random values, about one run in two thousand exceeds it.
pub(super) const MOST: f64 = 5.0;
/// The largest result of [`ranks`] that the tests accept. Random values exceed it as rarely as they
/// exceed 5 standard deviations: with probability exp(-28.7 / 2).
pub(super) const MOST_OF_RANKS: f64 = 28.7;
/// The number of values in a family.
pub(super) const SAMPLE: usize = 1 << 16;

/// Returns XXH3 hashes of keys on which weak mixing is known to fail.
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

/// Returns numbers that are not hashes: they differ only in low bits, in middle bits, or in high
/// bits.
pub(super) fn raw_families() -> [(&'static str, Vec<u64>); 3] {
    let of = |number: fn(u64) -> u64| (0..SAMPLE as u64).map(number).collect();
    [
        ("sequential numbers", of(|i| i)),
        ("strided numbers", of(|i| i << 23)),
        ("bit-reversed numbers", of(u64::reverse_bits)),
    ]
}

/// Counts the ones in each of the lowest `width` bits of many values, and in the XOR of each pair
/// of these bits. Random values give as many ones as zeros. Returns the largest deviation of a
/// single bit, and of a pair.
pub(super) fn bits(values: impl Iterator<Item = u128>, width: usize) -> (f64, f64) {
    let values: Vec<u128> = values.collect();
    let half = values.len() as f64 / 2.0;
    let off = |ones: u32| (f64::from(ones) - half).abs() / (half / 2.0).sqrt();
    // The bits are transposed: a word holds the same bit of up to 64 values.
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

/// Returns the deviation of chi-square for the lowest four bits of both numbers of many pairs. It
/// tests that the pairs are uniform and that the two numbers are independent.
pub(super) fn independence(pairs: impl Iterator<Item = (u64, u64)>) -> f64 {
    let mut cells = [0u32; 256];
    pairs.for_each(|(a, b)| cells[(a & 15) as usize * 16 + (b & 15) as usize] += 1);
    let expected = f64::from(cells.iter().sum::<u32>()) / 256.0;
    let chi_square: f64 = cells.iter().map(|&cell| (f64::from(cell) - expected).powi(2) / expected).sum();
    (chi_square - 255.0).abs() / (2.0 * 255.0f64).sqrt()
}

/// Returns the smallest and the largest probability that one bit in `outputs` changes if one bit in
/// `inputs` changes.
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

/// Returns the rank of a matrix over GF(2).
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

/// Returns the chi-square statistic (two degrees of freedom) that compares the ranks of square bit
/// matrices with the ranks of random matrices. The classes are full rank, one less, and lower. Each
/// matrix consists of `size` successive values, and one of its columns is all ones.
pub(super) fn ranks(values: impl Iterator<Item = u128>, size: usize) -> f64 {
    let values: Vec<u128> = values.collect();
    let mut found = [0u32; 3];
    let matrices = values.chunks_exact(size);
    let count = matrices.len() as f64;
    matrices.for_each(|rows| found[(size - rank(rows.to_vec())).min(2)] += 1);
    // Elimination of the fixed non-zero column leaves a random square matrix with one row and one
    // column less. The rank of the whole matrix is full with probability (1 - 1/2)(1 - 1/4)..., and
    // one less with twice that probability.
    let full: f64 = (1..size as i32).map(|i| 1.0 - 0.5f64.powi(i)).product();
    let expected = [full, 2.0 * full, 1.0 - 3.0 * full];
    let chi_square: f64 =
        found.iter().zip(expected).map(|(&found, p)| (f64::from(found) - p * count).powi(2) / (p * count)).sum();
    chi_square
}

#[test]
fn ranks_of_small_matrices_are_right() {
    assert_eq!(rank(vec![0b011, 0b101, 0b110]), 2);
    assert_eq!(rank(vec![0b001, 0b011, 0b111]), 3);
    assert_eq!(rank(vec![0, 0]), 0);
}
