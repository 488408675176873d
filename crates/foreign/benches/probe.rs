//! Measures the time of a query of the filters of LevelDB, RocksDB and Parquet, and of filterblock's own filters.
//! The time includes hashing, because each engine has its own hash function.
//!
//! A process chooses its kernels once. To compare instruction sets, run the benchmark again with
//! `FILTERBLOCK_ISA=portable`. The name of the group contains the instruction set.
#![allow(missing_docs, reason = "criterion's macros write undocumented functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use filterblock::{FilterBlock, FilterOptions, HashSeed, KeyHash, Verify, instruction_set};
use filterblock_foreign::leveldb;
use filterblock_foreign::rocksdb::{self, RocksDbFilterKind, RocksDbFilterOptions};
use filterblock_parquet::{ParquetBloom, ParquetBloomBuilder};

/// The number of queries of one iteration.
const ASKED: usize = 1 << 14;

type Batch<'a> = &'a dyn Fn(&[&[u8]], &mut [bool]);

/// Measures queries for absent keys.
fn foreign(c: &mut Criterion) {
    let n = 1_000_000u64;
    let keys: Vec<[u8; 8]> =
        (0..n + ASKED as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
    let (present, absent) = keys.split_at(keys.len() - ASKED);
    let absent: Vec<&[u8]> = absent.iter().map(<[u8; 8]>::as_slice).collect();
    let mut group = c.benchmark_group(format!("probe-foreign/{}", instruction_set()));
    group.throughput(Throughput::Elements(ASKED as u64));
    let mut answers = vec![false; ASKED];
    let mut measure = |name: &str, one: &dyn Fn(&[u8]) -> bool, batch: Batch<'_>| {
        group.bench_function(BenchmarkId::new(format!("{name}/negative/single"), n), |b| {
            b.iter(|| black_box(&absent).iter().filter(|key| one(key)).count());
        });
        group.bench_function(BenchmarkId::new(format!("{name}/negative/batch"), n), |b| {
            b.iter(|| batch(black_box(&absent), &mut answers));
        });
    };
    let mut builder = leveldb::LevelDbBloomBuilder::new(10);
    present.iter().for_each(|key| builder.add(key));
    let bytes = builder.finish();
    let filter = leveldb::LevelDbBloom::new(&bytes);
    measure("leveldb-bloom", &|key| filter.may_contain(key), &|keys, answers| filter.may_contain_batch(keys, answers));
    for kind in [RocksDbFilterKind::LegacyBloom, RocksDbFilterKind::FastLocalBloom, RocksDbFilterKind::Ribbon128] {
        let mut builder =
            rocksdb::RocksDbFilterBuilder::new(RocksDbFilterOptions { kind, ..RocksDbFilterOptions::default() });
        present.iter().for_each(|key| builder.add(key));
        let bytes = builder.finish();
        let filter = rocksdb::RocksDbFilter::new(&bytes);
        measure(kind.name(), &|key| filter.may_contain(key), &|keys, answers| filter.may_contain_batch(keys, answers));
    }
    let mut builder = ParquetBloomBuilder::for_values(n, 0.01).expect("0.01 is a valid rate");
    present.iter().for_each(|key| builder.add(key));
    let bytes = builder.finish();
    let filter = ParquetBloom::parse(&bytes).expect("a new filter is sound");
    measure("parquet-sbbf", &|key| filter.may_contain(key), &|keys, answers| filter.may_contain_batch(keys, answers));
    for text in ["blocked-bloom:10", "bumped-ribbon:fpr=0.01"] {
        let mut builder = FilterOptions::new(text.parse().expect("the specification is valid"))
            .builder(HashSeed(1))
            .expect("the settings are valid");
        present.iter().for_each(|key| builder.add(builder.hasher().key(key)));
        let block = FilterBlock::open_any(builder.finish().expect("the filter fits in memory").bytes, Verify::AtOpen)
            .expect("the block is sound");
        measure(text, &|key| block.may_contain(block.hasher().key(key)), &|keys, answers| {
            let hashes: Vec<KeyHash> = keys.iter().map(|key| KeyHash::of(key, HashSeed(1))).collect();
            block.may_contain_batch(&hashes, answers);
        });
    }
    group.finish();
}

#[ctor::ctor(unsafe)]
fn choose_instruction_set() {
    filterblock_testkit::choose_instruction_set();
}

criterion_group!(benches, foreign);
criterion_main!(benches);
