//! Measures scans within absent prefixes and gets of absent keys, both with and without filters.
//!
//! `cargo run --release -p filterblock-store --example prefix_miss [KEYS] [RUNS]`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use filterblock::FilterSpec;
use filterblock_store::lsm::{FilterUse, Scan, Stats};
use filterblock_store::{Db, Options, Result};

/// The number of keys in each row.
const KEYS_OF_ROW: u64 = 10;
const ROUNDS: usize = 9;
const EXTRACTOR: &str = "row-column:/";

/// Returns the prefix of a row. Rows with even numbers are present, and rows with odd numbers are
/// absent. Both are spread over the whole key range.
fn row(number: u64) -> Vec<u8> {
    format!("{:016x}/", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes()
}

fn load(db: &Db, keys: u64, runs: u64) -> Result<()> {
    for run in 0..runs {
        for i in (run..keys / KEYS_OF_ROW).step_by(runs.try_into().unwrap_or(usize::MAX)) {
            for column in 0..KEYS_OF_ROW {
                let key = [row(2 * i).as_slice(), format!("{column}/value").as_bytes()].concat();
                db.put(&key, &[b'v'; 100])?;
            }
        }
        db.flush()?;
    }
    Ok(())
}

/// Runs all queries, and returns the mean time of a query in nanoseconds.
fn time(queries: &[Vec<u8>], mut query: impl FnMut(&[u8]) -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    for key in queries {
        query(key)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / queries.len() as f64)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The mean time of one query in nanoseconds for each round, and the statistics of the store in the
/// last round.
#[derive(Default)]
struct Measured(Vec<f64>, Stats);

impl Measured {
    fn add(&mut self, db: &Db, queries: &[Vec<u8>], query: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        db.reset_stats();
        self.0.push(time(queries, query)?);
        self.1 = db.stats();
        Ok(())
    }

    fn report(&self, what: &str) {
        let (total, prefixes) = (&self.1.total, self.1.total.prefixes);
        println!(
            "{what:36} {:>9.0} ns   keys: {} no, {} false   prefixes: {} no, {} false   blocks read: {}",
            median(self.0.clone()),
            total.points.true_negatives,
            total.points.false_positives,
            prefixes.true_negatives,
            prefixes.false_positives,
            total.block_reads + self.1.scan_block_reads,
        );
    }
}

/// Returns the options of a store that flushes only on request.
fn options(extractor: &str, filter_use: FilterUse) -> Result<Options> {
    let filter: FilterSpec = "blocked-bloom:16".parse()?;
    Ok(Options {
        prefix_extractor: extractor.parse()?,
        filter: Some(Arc::new(filter)),
        filter_use,
        auto_compaction: false,
        write_buffer_bytes: 1 << 30,
        ..Options::default()
    })
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|number| number.parse().ok());
    let (keys, runs) = (numbers.next().unwrap_or(1_000_000), numbers.next().unwrap_or(36));
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), options(EXTRACTOR, FilterUse::Consult)?)?;
    load(&db, keys, runs)?;
    db.close()?;
    println!("{keys} keys, {runs} runs");
    for (filter_use, num_queries) in [(FilterUse::Consult, 20_000), (FilterUse::Ignore, 500)] {
        println!("filters: {filter_use:?}");
        let rows: Vec<Vec<u8>> = (0..num_queries).map(|i| row(2 * (i * 7_919 % (keys / KEYS_OF_ROW)) + 1)).collect();
        let points: Vec<Vec<u8>> = rows.iter().map(|row| [row.as_slice(), b"5/value"].concat()).collect();
        let [mut plain, mut gets, mut scans, mut bounded, mut reverse] = std::array::from_fn(|_| Measured::default());
        for _ in 0..ROUNDS {
            let db = Db::open(dir.path(), options("none", filter_use)?)?;
            let get = |db: &Db, key: &[u8]| db.get(key).map(|value| drop(black_box(value)));
            time(&points, |key| get(&db, key))?; // warms the caches
            plain.add(&db, &points, |key| get(&db, key))?;
            db.close()?;
            let db = Db::open(dir.path(), options(EXTRACTOR, filter_use)?)?;
            time(&points, |key| get(&db, key))?;
            gets.add(&db, &points, |key| get(&db, key))?;
            let next = |mut scan: Scan| scan.next().transpose().map(|entry| drop(black_box(entry)));
            time(&rows, |row| next(db.scan_prefix(row)))?;
            scans.add(&db, &rows, |row| next(db.scan_prefix(row)))?;
            bounded.add(&db, &rows, |row| next(db.scan(row..=[row, b"5"].concat().as_slice())))?;
            reverse.add(&db, &rows, |row| {
                db.scan_prefix(row).next_back().transpose().map(|entry| drop(black_box(entry)))
            })?;
            db.close()?;
        }
        plain.report("get of an absent key");
        gets.report("get that asks for its prefixes");
        scans.report("scan_prefix of an absent row");
        bounded.report("scan with bounds in an absent row");
        reverse.report("scan_prefix in reverse");
    }
    Ok(())
}
