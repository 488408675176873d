//! Tests that shrunk filters never deny a present key, have the FPR of their columns, and read no
//! dropped bytes.
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "tests")]

use std::num::NonZeroUsize;

use super::tests::{random_hashes, splitmix};
use crate::FilterSpec;
use crate::filters::kernels::{BatchKernel, Kernel};
use crate::filters::{Effort, Header, Params, Rounding};
use crate::hash::KeyHash;
use crate::simd::Isa;

struct Filter {
    header: Header<'static>,
    geometry: Params,
    /// The payload and 64 bytes after it.
    padded: Vec<u8>,
    len: usize,
}

impl Filter {
    fn new(header: Header<'static>, num_keys: usize, mut payload: Vec<u8>) -> Self {
        let geometry = Params::new(&header, num_keys as u64, payload.len() as u64).unwrap();
        let len = payload.len();
        payload.resize(len + 64, 0xa5);
        Self { header, geometry, padded: payload, len }
    }

    fn built(spec: &str, hashes: &[KeyHash]) -> Self {
        let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };
        let spec: FilterSpec = format!("bumped-ribbon:{spec}").parse().unwrap();
        let (header, payload) = spec.encode(&mut hashes.to_vec(), effort).unwrap();
        Self::new(header, hashes.len(), payload)
    }

    fn copied(&self, columns: u32, num_keys: usize) -> Self {
        let to = self.geometry.with_columns(columns).unwrap();
        let (header, payload) = self.geometry.copy_columns(&self.header, &self.padded[..self.len], &to).unwrap();
        let copy = Self::new(header, num_keys, payload);
        assert_eq!(copy.geometry, to, "the header gives the same geometry");
        copy
    }

    fn may_contain(&self, isa: Isa, hash: KeyHash) -> bool {
        self.geometry.compile::<Kernel>(isa).may_contain(&self.geometry, &self.padded, self.len, hash)
    }

    fn assert_finds(&self, hashes: &[KeyHash], name: &str) {
        for isa in Isa::available() {
            assert!(hashes.iter().all(|&hash| self.may_contain(isa, hash)), "{name}, {}", isa.name());
            let mut answers = vec![false; hashes.len()];
            let kernel = self.geometry.compile::<BatchKernel>(isa);
            kernel.may_contain_batch(&self.geometry, &self.padded, self.len, hashes, &mut answers);
            assert!(answers.iter().all(|&answer| answer), "{name}, {}, as a batch", isa.name());
        }
    }
}

const SPECS: [&str; 12] =
    ["1.3", "2", "fpr=0.01", "8", "8:compact", "9", "10", "12.3", "16", "16.5", "fpr=0.0000001", "32"];

#[test]
fn present_keys_are_found_at_each_width() {
    let sizes = [33, 63, 64, 65, 100, 127, 128, 129, 300, 1_500, 2_561, 4_097, 9_728, 20_480, 100_000];
    for n in sizes {
        let hashes = random_hashes(n, n as u64);
        for spec in SPECS {
            if n == 100_000 && !["fpr=0.01", "10", "12.3", "8:compact"].contains(&spec) {
                continue;
            }
            let whole = Filter::built(spec, &hashes);
            let all = whole.geometry.columns().unwrap();
            assert_eq!(whole.geometry.with_columns(all), None);
            assert_eq!(whole.geometry.with_columns(0), None);
            for columns in 1..all {
                whole.copied(columns, n).assert_finds(&hashes, &format!("{n} keys, {spec}, {columns} columns"));
            }
        }
    }
}

#[test]
fn a_shrunk_filter_denies_only_what_the_whole_filter_denies() {
    let mut state = 5;
    let absent: Vec<_> = (0..20_000).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect();
    for (n, spec) in [(40, "12"), (300, "12.3"), (5_000, "10"), (30_000, "17.5")] {
        let mut last = Filter::built(spec, &random_hashes(n, 3));
        for columns in (1..last.geometry.columns().unwrap()).rev() {
            // Shrinking step by step gives the same bytes as shrinking at once.
            let shrunk = last.copied(columns, n);
            let worse = absent.iter().filter(|&&hash| {
                let isa = Isa::detect();
                last.may_contain(isa, hash) && !shrunk.may_contain(isa, hash)
            });
            assert_eq!(worse.count(), 0, "{n} keys, {spec}, {columns} columns");
            let at_once = Filter::built(spec, &random_hashes(n, 3)).copied(columns, n);
            assert!(at_once.padded == shrunk.padded && at_once.header == shrunk.header);
            last = shrunk;
        }
    }
}

/// Compares the measured FPR with the FPR of the columns. The test asks many filters, because the
/// FPR of one small filter depends on its bits.
#[test]
fn the_rate_of_each_width_is_within_5_sigma() {
    for (n, spec, filters) in
        [(33, "10", 2_000), (100, "6.5", 1_000), (1_000, "10", 200), (10_000, "10", 20), (100_000, "12.3", 2)]
    {
        let wholes: Vec<_> = (0..filters).map(|i| Filter::built(spec, &random_hashes(n, 1_000 + i))).collect();
        for columns in 1..wholes[0].geometry.columns().unwrap() {
            // The aim is 400 false positives: 5 sigma are then a deviation of 25 %.
            let per_filter = ((400u64 << columns) / filters).clamp(200, 200_000);
            let (mut asked, mut maybe, mut state) = (0.0, 0.0, u64::from(columns) << 32);
            let mut expected = 0.0;
            for whole in &wholes {
                let shrunk = whole.copied(columns, n);
                expected += shrunk.geometry.expected_fpr(n as u64, shrunk.len as u64) / filters as f64;
                for _ in 0..per_filter {
                    asked += 1.0;
                    maybe +=
                        f64::from(u8::from(shrunk.may_contain(Isa::detect(), KeyHash::from_raw(splitmix(&mut state)))));
                }
            }
            let rate = 0.5f64.powi(columns.cast_signed());
            assert!((expected / rate - 1.0).abs() < 1e-9, "{n} keys, {columns} columns: {expected}");
            let sigma = (rate * (1.0 - rate) * asked).sqrt();
            let off = (maybe - rate * asked) / sigma;
            println!("{n} keys, {spec} shrunk to {columns}: {:.5} of {rate:.5}, {off:.1} sigma", maybe / asked);
            assert!(off.abs() < 5.0, "{n} keys, {spec}, {columns} columns: {off} sigma");
        }
    }
}

#[test]
fn whole_groups_stay_in_place_and_dropped_bytes_do_not_matter() {
    let mut state = 8;
    let absent: Vec<_> = (0..50_000).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect();
    for n in [33, 64, 100, 128, 1_500, 9_728, 20_480, 100_000] {
        let hashes = random_hashes(n, n as u64);
        for spec in ["9", "12.3", "16", "24.5", "32"] {
            let whole = Filter::built(spec, &hashes);
            let all = whole.geometry.columns().unwrap();
            for columns in (8..all).step_by(8) {
                let copy = whole.copied(columns, n);
                assert!(copy.padded[..copy.len] == whole.padded[..copy.len], "the first groups are a prefix");
                let geometry = whole.geometry.with_columns(columns).unwrap();
                assert_eq!(geometry.asked_len(whole.len), copy.len);
                let mut in_place = Filter { geometry, padded: whole.padded.clone(), ..copy };
                in_place.assert_finds(&hashes, &format!("{n} keys, {spec}, {columns} columns in place"));
                let kept = in_place.len;
                let asked = |filter: &Filter| -> Vec<_> {
                    absent.iter().map(|&hash| filter.may_contain(Isa::detect(), hash)).collect()
                };
                let before = asked(&in_place);
                assert!(before == asked(&whole.copied(columns, n)));
                in_place.padded[kept..].fill(0x5a);
                assert!(before == asked(&in_place), "dropped bytes change an answer");
            }
        }
    }
}

#[test]
fn a_payload_that_is_too_short_is_not_copied() {
    for n in [100, 20_480] {
        let whole = Filter::built("12.3", &random_hashes(n, 1));
        let to = whole.geometry.with_columns(9).unwrap();
        for len in [0, 1, whole.len / 4, whole.len / 2] {
            assert!(whole.geometry.copy_columns(&whole.header, &whole.padded[..len], &to).is_err(), "{len} bytes");
        }
    }
}
