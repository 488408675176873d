//! Measures gets of present keys, one by one and in batches of 32, with a cold and a warm page
//! cache. Linux only, because it drops the page cache of the files.
//!
//! `cargo run --release -p filterblock-store --example cold_batch [KEYS]`

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use filterblock_store::{Db, Options, Result};

const BATCH: usize = 32;
const BATCHES: u64 = 64;
const ROUNDS: u64 = 9;

fn key(number: u64) -> [u8; 16] {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (u128::from(number) << 64 | u128::from(mixed)).to_le_bytes()
}

/// Drops the pages of all files from the page cache. The store has synced them.
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

/// Returns the microseconds per key.
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
    let mut times: [[Vec<f64>; 2]; 2] = Default::default();
    let mut next = 1u64;
    for _ in 0..ROUNDS {
        for (is_batch, of_way) in [false, true].into_iter().zip(&mut times) {
            let mut random = || {
                next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                key((next >> 20) % count)
            };
            let batches: Vec<Vec<_>> = (0..BATCHES).map(|_| (0..BATCH).map(|_| random()).collect()).collect();
            drop_pages(dir.path())?;
            // The first round is cold, the second one asks for the same blocks again.
            for of_heat in of_way {
                of_heat.push(time(&batches, |keys| match is_batch {
                    true => Ok(db.multi_get(keys)?.iter().flatten().count()),
                    false => keys.iter().try_fold(0, |found, key| Ok(found + usize::from(db.get(key)?.is_some()))),
                })?);
            }
        }
    }
    for (name, of_way) in ["get", "multi_get of 32"].into_iter().zip(&mut times) {
        let [cold, warm] = of_way;
        println!("{name:16} cold {:6.2} us a key, warm {:6.2} us a key", median(cold), median(warm));
    }
    db.close()
}
