//! Measures the time of a query of a filter block, without the time to hash the key.
//!
//! A process chooses its kernels once. To compare instruction sets, run the benchmark again with
//! `FILTERBLOCK_ISA=portable`. The name of each group contains the instruction set.
#![allow(missing_docs, reason = "criterion's macros write undocumented functions")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use filterblock::{
    AlignedBytes, Error, Expected, FilterBlock, FilterOptions, FilterSet, FilterSpec, HashSeed, KeyHash, KeyHasher,
    RunMap, Runs, TableFilter, VerifiedFilter, Verify, instruction_set,
};

/// The number of queries of one iteration. Their hashes take 128 KiB, which fit in the second-level
/// cache of most processors.
const ASKED: usize = 16_384;

fn hashes(keys: std::ops::Range<u64>) -> Vec<KeyHash> {
    keys.map(|i| KeyHash::of(&i.to_le_bytes(), HashSeed(1))).collect()
}

fn block(text: &str, n: u64, verify: Verify) -> FilterBlock<Vec<u8>> {
    let spec: FilterSpec = text.parse().expect("the specifications of this file are valid");
    let mut builder = FilterOptions::new(spec).self_check(false).builder(HashSeed(1)).expect("the settings are valid");
    hashes(0..n).into_iter().for_each(|hash| builder.add_hash(hash));
    let bytes = builder.finish().expect("the filter fits in memory");
    FilterBlock::open_any(bytes.bytes, verify).expect("a new block is sound")
}

/// Measures queries one by one, and in one batch.
fn single_and_batch<D: AsRef<[u8]>>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: impl Fn(&str) -> BenchmarkId,
    block: &FilterBlock<D>,
    queries: &[KeyHash],
) {
    group.bench_function(id("single"), |b| {
        b.iter(|| black_box(queries).iter().filter(|&&hash| block.may_contain_hash(hash)).count());
    });
    let mut answers = vec![false; ASKED];
    group.bench_function(id("batch"), |b| {
        b.iter(|| {
            block.may_contain_batch(black_box(queries), &mut answers);
            black_box(&answers).len()
        });
    });
}

fn probe(c: &mut Criterion) {
    let mut group = c.benchmark_group(format!("probe/{}", instruction_set()));
    group.throughput(Throughput::Elements(ASKED as u64));
    for n in [10_000u64, 1_000_000] {
        // Consecutive numbers have hashes in random order, so present keys do not come in the order
        // of the cache lines.
        let queries = [
            ("negative", hashes(n..n + ASKED as u64)),
            ("positive", hashes(0..n).into_iter().cycle().take(ASKED).collect()),
        ];
        for text in ["bloom:10", "blocked-bloom:10"] {
            for (verify_name, verify) in [("", Verify::AtOpen), ("/first-touch", Verify::OnFirstTouch)] {
                let block = block(text, n, verify);
                for (name, queries) in &queries {
                    let id = |how: &str| BenchmarkId::new(format!("{text}/{name}/{how}{verify_name}"), n);
                    single_and_batch(&mut group, id, &block, queries);
                }
            }
        }
    }
    group.finish();
}

/// Measures the cost of an unaligned slice: queries of the same filter at several offsets from the
/// start of a cache line. Also measures queries that open the filter each time.
///
/// ```text
/// cargo bench --bench probe -- unaligned --warm-up-time 1 --measurement-time 2
/// ```
fn unaligned(c: &mut Criterion) {
    let mut group = c.benchmark_group(format!("unaligned/{}", instruction_set()));
    group.throughput(Throughput::Elements(ASKED as u64));
    let hasher = KeyHasher::xxh3(HashSeed(1));
    for n in [10_000u64, 10_000_000] {
        let queries = hashes(n..n + ASKED as u64);
        for text in ["blocked-bloom:10", "split-block:10", "bumped-ribbon:8", "bloom:10"] {
            let bytes = block(text, n, Verify::AtOpen).as_bytes().to_vec();
            let mut room = AlignedBytes::copy_of(&vec![0; bytes.len() + 64]).expect("the filter fits in memory");
            for offset in [0, 1, 8, 32, 63] {
                room = AlignedBytes::filled_by::<Error>(bytes.len() + 64, |room| {
                    room.get_mut(offset..offset + bytes.len())
                        .expect("the buffer is 64 bytes longer than the filter")
                        .copy_from_slice(&bytes);
                    Ok(())
                })
                .expect("the filter fits in memory");
                let slice = room
                    .as_ref()
                    .get(offset..offset + bytes.len())
                    .expect("the buffer is 64 bytes longer than the filter");
                let id = |how: &str| BenchmarkId::new(format!("{text}/{how}/offset-{offset}"), n);
                let block = FilterBlock::open_any(slice, Verify::AtOpen).expect("the block is sound");
                single_and_batch(&mut group, id, &block, &queries);
            }
            let expected = Expected::of_any_table(&hasher);
            let raw = black_box(
                room.as_ref().get(63..63 + bytes.len()).expect("the buffer is 64 bytes longer than the filter"),
            );
            group.bench_function(BenchmarkId::new(format!("{text}/verified-each-time/offset-63"), n), |b| {
                b.iter(|| {
                    let open = || VerifiedFilter::open(raw, &expected).expect("the block is sound");
                    black_box(&queries).iter().filter(|&&hash| open().may_contain_hash(hash)).count()
                });
            });
        }
    }
    group.finish();
}

/// Measures the query of an absent key through all runs of a million keys: by their filters, one by one,
/// and by a map of runs. Also measures how long it takes to make the map, per key.
fn runs(c: &mut Criterion) {
    let (n, hasher) = (1_000_000u64, KeyHasher::xxh3(HashSeed(1)));
    let absent = hashes(n..n + ASKED as u64);
    let mut group = c.benchmark_group(format!("probe-runs/{}", instruction_set()));
    group.throughput(Throughput::Elements(ASKED as u64));
    for num_runs in [1, 5, 36, 100, 250] {
        let map = RunMap::new(&hasher, n).expect("the map fits in memory");
        let (mut set, mut slots, mut known) = (FilterSet::new(&hasher), Vec::new(), Runs::NONE);
        let options = FilterOptions::new("blocked-bloom:16".parse().expect("the specification is valid"));
        for run in 0..num_runs {
            let len = n / u64::from(num_runs);
            let mut hashes = hashes(u64::from(run) * len..u64::from(run + 1) * len);
            let mut builder = options.builder(&hasher).expect("the settings are valid");
            builder.add_hashes(&hashes);
            let bytes = AlignedBytes::copy_of(&builder.finish().expect("the filter fits in memory").bytes);
            let bytes = bytes.expect("the copy fits in memory").into();
            let block = FilterBlock::open_any(bytes, Verify::AtOpen).expect("a new block is sound");
            slots.push(set.insert(Arc::new(TableFilter::Ready(block))));
            hashes.sort_unstable();
            assert!(map.add_run(run, &hashes), "the map is large enough");
            known.insert(run);
        }
        group.bench_function(BenchmarkId::new("filters", num_runs), |b| {
            let must_read = |hash: KeyHash| slots.iter().filter(|slot| set.ask_hash(**slot, hash).must_read()).count();
            b.iter(|| black_box(&absent).iter().map(|&hash| must_read(hash)).sum::<usize>());
        });
        group.bench_function(BenchmarkId::new("map", num_runs), |b| {
            b.iter(|| black_box(&absent).iter().filter(|&&hash| !map.ask(hash, &known).is_empty()).count());
        });
        group.bench_function(BenchmarkId::new("map/batch of 32", num_runs), |b| {
            let mut answers = [Runs::NONE; 32];
            b.iter(|| black_box(&absent).chunks(32).for_each(|hashes| map.ask_batch(hashes, &known, &mut answers)));
        });
    }
    let runs: Vec<_> = (0..36).map(|run| hashes(run * (n / 36)..(run + 1) * (n / 36))).collect();
    group.throughput(Throughput::Elements(n)).sample_size(20);
    group.bench_function(BenchmarkId::new("map/make", runs.len()), |b| {
        b.iter(|| {
            let map = RunMap::new(&hasher, n).expect("the map fits in memory");
            (0..).zip(&runs).for_each(|(run, hashes)| assert!(map.add_run(run, hashes), "the map is large enough"));
            map
        });
    });
    group.finish();
}

#[ctor::ctor(unsafe)]
fn choose_instruction_set() {
    filterblock_testkit::choose_instruction_set();
}

criterion_group!(benches, probe, unaligned, runs);
criterion_main!(benches);
