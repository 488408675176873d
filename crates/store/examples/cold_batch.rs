//! Measures gets of present keys, one by one and in batches of 32, with a cold and with a warm page
//! cache. The keys of a batch are random or neighbours. The cold numbers are valid only on Linux,
//! where the example drops the SST files from the page cache. They are not valid on tmpfs.
//!
//! `cargo run --release -p filterblock-store --example cold_batch [KEYS]`

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use filterblock_store::{Db, Options, Result};

const BATCH: usize = 32;
const BATCHES: u64 = 64;
const ROUNDS: u64 = 9;

/// Returns the key of a number. Each group of `BATCH` successive numbers gives neighbouring keys,
/// and the groups lie in random order.
fn key(number: u64) -> [u8; 16] {
    let place = (number / BATCH as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = (u128::from(place) << 64 | u128::from(number)).to_le_bytes();
    bytes.reverse();
    bytes
}

/// On Linux, drops the pages of all SST files from the page cache. Does nothing on other systems.
/// The kernel keeps dirty pages, but the store has synced the files.
fn drop_pages(dir: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sst") {
            let file = std::fs::File::open(path)?;
            #[cfg(target_os = "linux")]
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
            drop(file);
        }
    }
    Ok(())
}

/// Gets all keys with `get`, and returns the mean time per key in microseconds. Panics if a key is
/// missing.
fn time(batches: &[Vec<[u8; 16]>], mut get: impl FnMut(&[[u8; 16]]) -> Result<usize>) -> Result<f64> {
    let start = Instant::now();
    let mut found = 0;
    for batch in batches {
        found += black_box(get(batch)?);
    }
    let time = start.elapsed().as_secs_f64() * 1e6;
    assert_eq!(found, batches.len() * BATCH, "present keys were not found");
    Ok(time / found as f64)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() -> Result<()> {
    let count = std::env::args().nth(1).map_or(5_000_000, |text| text.parse().expect("KEYS is a number"));
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), Options::default())?;
    for number in 0..count {
        db.put(&key(number), &[b'v'; 100])?;
    }
    db.flush()?;
    db.wait_idle()?;
    println!("{count} keys with values of 100 bytes, {} SSTs", db.stats().total.tables);
    let ways = [
        ("random, get", false, false),
        ("random, multi_get", false, true),
        ("neighbours, get", true, false),
        ("neighbours, multi_get", true, true),
    ];
    let mut times: [[Vec<f64>; 2]; 4] = Default::default();
    let mut next = 1u64;
    let mut random = |below: u64| {
        next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (next >> 20) % below
    };
    for _ in 0..ROUNDS {
        for ((_, neighbours, is_batch), of_way) in ways.into_iter().zip(&mut times) {
            let mut batch = || -> Vec<_> {
                let first = random(count / BATCH as u64) * BATCH as u64;
                (0..BATCH as u64).map(|i| key(if neighbours { first + i } else { random(count) })).collect()
            };
            let batches: Vec<Vec<_>> = (0..BATCHES).map(|_| batch()).collect();
            drop_pages(dir.path())?;
            // The first pass reads with a cold page cache. The second pass reads the same blocks
            // again.
            for of_heat in of_way {
                of_heat.push(time(&batches, |keys| match is_batch {
                    true => Ok(db.multi_get(keys)?.iter().flatten().count()),
                    false => keys.iter().try_fold(0, |found, key| Ok(found + usize::from(db.get(key)?.is_some()))),
                })?);
            }
        }
    }
    for ((name, ..), [cold, warm]) in ways.into_iter().zip(&mut times) {
        println!("{name:22} cold {:6.2} us per key, warm {:6.2} us per key", median(cold), median(warm));
    }
    db.close()
}
