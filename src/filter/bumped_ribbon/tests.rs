//! The filter as a whole: no key denied, sizes, rates, and the same bytes from any number of threads.

use std::num::NonZeroUsize;

use super::read::Geometry as Ribbon;
use super::*;
use crate::filter::guard::Checked;
use crate::filter::{Effort, FilterSpec, Isa, Rounding, Shape};
use crate::hash::KeyHash;

pub(super) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn random_hashes(n: usize, seed: u64) -> Vec<KeyHash> {
    let mut state = seed;
    let mut hashes: Vec<_> = (0..n).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

fn build(spec: &str, hashes: &[KeyHash], threads: usize) -> (Shape, Ribbon, Vec<u8>, usize) {
    let spec: FilterSpec = spec.parse().unwrap();
    let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::new(threads).unwrap() };
    let (shape, mut payload) = encode(spec, hashes, effort).unwrap();
    let ribbon = Ribbon::new(&shape, hashes.len() as u64, payload.len() as u64).unwrap();
    let len = payload.len();
    payload.resize(len + 64, 0);
    (shape, ribbon, payload, len)
}

#[test]
fn speed() {
    let n = 1_000_000;
    let hashes = random_hashes(n, 5);
    let mut best = f64::MAX;
    for _ in 0..15 {
        let now = || {
            let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
        };
        let t = now();
        let _ = build("bumped-ribbon:fpr=0.00390625", &hashes, 1);
        best = best.min((now() - t) / n as f64);
    }
    println!("best {best:.1} ns/key");
}

#[test]
fn sizes() {
    for n in [8191usize, 10_000, 20_000, 64_000, 140_000, 1_000_000] {
        let hashes = random_hashes(n, n as u64);
        let t = std::time::Instant::now();
        let (shape, ribbon, _payload, len) = build("bumped-ribbon:fpr=0.00390625", &hashes, 1);
        let ns = t.elapsed().as_nanos() as f64 / n as f64;
        let bits = (len + shape.layers.len()) as f64 * 8.0 / n as f64;
        let l1 = ribbon
            .layers
            .get(1)
            .map_or(ribbon.last.as_ref().unwrap().slots as f64, |l| l.blocks.count as f64 * 64.0 / 0.96);
        println!("{n}: over {:.3} % bumped {:.3} % {ns:.0} ns", (bits / 8.0 - 1.0) * 100.0, l1 / n as f64 * 100.0);
    }
}

#[test]
fn no_key_is_denied_and_sizes_are_small() {
    for spec in [
        "bumped-ribbon:fpr=0.00390625",
        "bumped-ribbon:fpr=0.01",
        "bumped-ribbon:fpr=0.0001",
        "bumped-ribbon:8",
        "bumped-ribbon:12.3",
        "bumped-ribbon:1",
    ] {
        for n in [
            1usize, 2, 3, 10, 33, 63, 64, 65, 66, 100, 127, 128, 129, 300, 1_000, 2_000, 2_560, 2_561, 3_000, 4_096,
            5_000, 8_191, 10_000, 20_000, 64_000, 70_000, 140_000, 1_000_000,
        ] {
            let hashes = random_hashes(n, n as u64);
            let t = std::time::Instant::now();
            let (shape, ribbon, payload, len) = build(spec, &hashes, 1);
            let ns = t.elapsed().as_nanos() as f64 / n as f64;
            let isa = Isa::detect();
            let denied = hashes.iter().filter(|&&hash| !ribbon.may_contain(isa, &payload, hash, &Checked)).count();
            assert_eq!(denied, 0, "{spec} {n}");
            let mut state = 99;
            let q = 1_000_000;
            let hits = (0..q)
                .filter(|_| ribbon.may_contain(isa, &payload, KeyHash::from_raw(splitmix(&mut state)), &Checked))
                .count();
            let rate = hits as f64 / q as f64;
            let e = ribbon.expected_rate();
            let bits = (len + shape.layers.len()) as f64 * 8.0 / n as f64;
            println!(
                "{spec} {n}: {bits:.3} bits, expected {e:.6} z {:.1} over {:.3} % {:?} layers {} spare {:?} {ns:.0} ns/key",
                (rate - e) / (e * (1.0 - e) / q as f64).sqrt(),
                (bits / -e.log2() - 1.0) * 100.0,
                shape.params,
                shape.layers.len(),
                ribbon.last.as_ref().map(|l| (l.slots, l.seed))
            );
        }
    }
}
