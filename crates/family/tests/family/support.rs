//! Provides the shared code of these tests: random numbers, keys, and comparisons with published
//! numbers.
#![allow(dead_code, unused_imports, reason = "no test file uses all of it")]

use std::path::{Path, PathBuf};

use filterblock::{HashSeed, KeyHash};
use filterblock_family::{FileFilter, Membership};
use tempfile::TempDir;

pub use filterblock_testkit::Random;

/// Returns a directory, and the path of a filter in it.
pub fn dir() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("filter");
    (dir, path)
}

pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub fn created(path: &Path, capacity: u64) -> FileFilter {
    FileFilter::create(path, capacity, 0.01, HashSeed(7)).unwrap()
}

pub fn key(i: u64) -> [u8; 8] {
    i.to_le_bytes()
}

pub fn hash(i: u64, seed: HashSeed) -> KeyHash {
    KeyHash::of(&key(i), seed)
}

/// Returns seeds with 64 random bits. Do not use seeds that differ in few bits: they may give a set
/// of 8-byte keys the same hashes in another order.
pub fn seeds(count: usize) -> impl Iterator<Item = HashSeed> {
    let mut random = Random(6);
    (0..count).map(move |_| HashSeed(random.next()))
}

/// Returns the measured FPR over `queries` absent keys.
pub fn measured_rate(filter: &impl Membership, queries: u64) -> f64 {
    let absent = 1 << 40..(1 << 40) + queries;
    absent.filter(|&i| filter.may_contain_hash(hash(i, filter.seed()))).count() as f64 / queries as f64
}

pub fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// Returns the standard deviation of the mean of the samples, estimated from the samples.
pub fn deviation(samples: &[f64]) -> f64 {
    let (mean, n) = (mean(samples), samples.len() as f64);
    (samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt()
}

/// Prints the mean of at least 20 samples, and asserts that it is `expected`. It may differ by five
/// standard deviations of the mean, plus `rounded_by` for the rounding of `expected`.
pub fn assert_agrees(what: &str, samples: &[f64], expected: f64, rounded_by: f64) {
    assert!(samples.len() >= 20, "at least 20 samples are needed to estimate the deviation");
    let (mean, deviation) = (mean(samples), deviation(samples));
    println!("{what}: {mean:.6} +- {deviation:.6}, expected {expected:.6}");
    assert!((mean - expected).abs() <= 5.0 * deviation + rounded_by, "{what}: {mean} +- {deviation} for {expected}");
}

/// Asserts that `found` differs from the published number by at most the share `relative`.
pub fn assert_digits(what: &str, found: f64, expected: f64, relative: f64) {
    assert!((found / expected - 1.0).abs() <= relative, "{what}: {found} for {expected}");
}
