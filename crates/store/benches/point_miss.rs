//! Measures reads of absent keys through the whole store, with and without the use of its filters,
//! for 1, 5, 36 and 100 runs.
#![allow(clippy::unwrap_used, missing_docs)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use filterblock_store::lsm::FilterUse;
use filterblock_store::{Db, Options};

const KEYS: u64 = 100_000;
const LOOKUPS: usize = 4_096;

/// Returns a key of 16 bytes for a number. Different numbers give different keys.
fn key(i: u64) -> [u8; 16] {
    let mix = |x: u64| (x ^ (x >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = [0; 16];
    for (half, part) in key.chunks_mut(8).zip([mix(mix(i + 1)), mix(mix(!i))]) {
        // The high bits of `part` are mixed best. They come first, so that the keys are spread over
        // the key space.
        for (byte, shift) in half.iter_mut().zip((0..64).step_by(8).rev()) {
            *byte = u8::try_from(part >> shift & 0xff).unwrap();
        }
    }
    key
}

fn options(filter_use: FilterUse) -> Options {
    Options { auto_compaction: false, filter_use, hash_seed: Some(1), ..Options::default() }
}

fn load(dir: &std::path::Path, runs: u64) {
    let db = Db::open(dir, options(FilterUse::Consult)).unwrap();
    for run in 0..runs {
        for i in KEYS * run / runs..KEYS * (run + 1) / runs {
            db.put(&key(i), &[7; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
}

fn absent_keys(c: &mut Criterion) {
    let mut group = c.benchmark_group("absent");
    group.throughput(Throughput::Elements(LOOKUPS as u64));
    let absent: Vec<[u8; 16]> = (KEYS..).take(LOOKUPS).map(key).collect();
    for runs in [1, 5, 36, 100] {
        let dir = tempfile::tempdir().unwrap();
        load(dir.path(), runs);
        for (name, filter_use) in [("asked", FilterUse::Consult), ("ignored", FilterUse::Ignore)] {
            let db = Db::open(dir.path(), options(filter_use)).unwrap();
            // Level 0 has its map from here on.
            db.wait_idle().unwrap();
            group.bench_with_input(BenchmarkId::new(format!("get, filters {name}"), runs), &db, |bencher, db| {
                bencher.iter(|| absent.iter().filter(|key| db.get(*key).unwrap().is_some()).count());
            });
            group.bench_with_input(
                BenchmarkId::new(format!("multi_get of 32, filters {name}"), runs),
                &db,
                |bencher, db| {
                    bencher.iter(|| absent.chunks(32).map(|keys| db.multi_get(keys).unwrap().len()).sum::<usize>());
                },
            );
        }
    }
    group.finish();
}

criterion_group!(benches, absent_keys);
criterion_main!(benches);
