//! What it costs to ask a filter block, per key whose hash is at hand.
//!
//! Kernels are chosen once per process: run this again under `FILTERBLOCK_ISA=portable` to compare. The name of the
//! instruction set is part of each benchmark's.
#![allow(missing_docs, reason = "criterion's macros write undocumented functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use filterblock::{FilterBlock, FilterBuilder, FilterSpec, HashSeed, KeyHash, SelfCheck, Verify, instruction_set};

/// Hashes asked per iteration: few enough to stay in the second-level cache beside the filter's lines.
const ASKED: usize = 16_384;

fn hashes(keys: std::ops::Range<u64>) -> Vec<KeyHash> {
    keys.map(|i| KeyHash::of(&i.to_le_bytes(), HashSeed(1))).collect()
}

fn block(text: &str, n: u64, verify: Verify) -> FilterBlock<Vec<u8>> {
    let spec: FilterSpec = text.parse().expect("a specification of this file");
    let mut builder = FilterBuilder::new(spec, HashSeed(1)).with_self_check(SelfCheck::Off);
    hashes(0..n).into_iter().for_each(|hash| builder.add_hash(hash));
    let bytes = builder.finish().expect("a filter that fits in memory");
    FilterBlock::open_with(bytes, verify).expect("a block that was just written")
}

fn probe(c: &mut Criterion) {
    let mut group = c.benchmark_group(format!("probe/{}", instruction_set()));
    group.throughput(Throughput::Elements(ASKED as u64));
    for n in [10_000u64, 1_000_000] {
        // Present keys in an order that is not that of the lines: hashes of consecutive numbers.
        let queries = [
            ("negative", hashes(n..n + ASKED as u64)),
            ("positive", hashes(0..n).into_iter().cycle().take(ASKED).collect()),
        ];
        for text in ["bloom:10", "blocked-bloom:10"] {
            for (verify_name, verify) in [("", Verify::AtOpen), ("/first-touch", Verify::OnFirstTouch)] {
                let block = block(text, n, verify);
                for (name, queries) in &queries {
                    let id = |how: &str| BenchmarkId::new(format!("{text}/{name}/{how}{verify_name}"), n);
                    group.bench_function(id("single"), |b| {
                        b.iter(|| black_box(&queries).iter().filter(|&&hash| block.may_contain(hash)).count());
                    });
                    let mut answers = vec![false; ASKED];
                    group.bench_function(id("batch"), |b| {
                        b.iter(|| {
                            block.may_contain_batch(black_box(queries), &mut answers);
                            black_box(&answers).len()
                        });
                    });
                }
            }
        }
    }
    group.finish();
}

criterion_group!(benches, probe);
criterion_main!(benches);
