//! Measures the time per key to build a filter block from hashes, and the time to hash a key.
#![allow(missing_docs, reason = "criterion's macros write undocumented functions")]

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use filterblock::{FilterOptions, FilterSpec, HashSeed, KeyHash, KeyHasher, Secret};

fn spec(text: &str) -> FilterSpec {
    text.parse().expect("the specifications of this file are valid")
}

fn hashes(n: u64) -> Vec<KeyHash> {
    (0..n).map(|i| KeyHash::of(&i.to_le_bytes(), HashSeed(1))).collect()
}

fn build(c: &mut Criterion) {
    let mut group = c.benchmark_group("build");
    group.sample_size(10);
    for n in [10_000u64, 1_000_000] {
        let hashes = hashes(n);
        group.throughput(Throughput::Elements(n));
        for text in ["bloom:10", "blocked-bloom:10"] {
            for (name, check) in [("checked", true), ("unchecked", false)] {
                let mut full = FilterOptions::new(spec(text))
                    .self_check(check)
                    .builder(HashSeed(1))
                    .expect("the settings are valid");
                hashes.iter().for_each(|&hash| full.add_hash(hash));
                group.bench_function(BenchmarkId::new(format!("{text}/{name}"), n), |b| {
                    b.iter_batched(|| full.clone(), |full| black_box(full.finish()), BatchSize::LargeInput);
                });
            }
        }
    }
    group.finish();
}

fn hash(c: &mut Criterion) {
    let mut group = c.benchmark_group("hash");
    let secret = Secret::new(&[7; 16]).expect("a secret of 16 bytes is valid");
    let hashers = [
        KeyHasher::xxh3(HashSeed(1)),
        KeyHasher::xxh3_with_secret(HashSeed(1), &secret),
        KeyHasher::sip13(HashSeed(1), &secret),
    ];
    for len in [8usize, 16, 32, 100, 300] {
        let key = vec![7; len];
        group.throughput(Throughput::Elements(1));
        // Calls XXH3 directly. The difference from `xxh3` is the cost of choosing among the hash
        // functions.
        group.bench_function(BenchmarkId::new("xxh3-alone", len), |b| {
            b.iter(|| KeyHash::of(black_box(&key), HashSeed(1)));
        });
        for hasher in &hashers {
            group.bench_function(BenchmarkId::new(hasher.identity().kind.to_string(), len), |b| {
                b.iter(|| black_box(hasher).of(black_box(&key)));
            });
        }
    }
    group.finish();
}

#[ctor::ctor(unsafe)]
fn choose_instruction_set() {
    filterblock_testkit::choose_instruction_set();
}

criterion_group!(benches, build, hash);
criterion_main!(benches);
