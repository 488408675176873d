//! Measures how many block reads the filters of a store save when half of the requested keys are
//! absent.
//!
//! ```text
//! cargo run --release -p filterblock-store --example lookups_saved -- keys.txt
//! ```
//! Each line of the file is a key. Without a file the example makes the keys. It stores every
//! second key and reads all keys.

use std::process::ExitCode;
use std::sync::Arc;

use filterblock::{FilterSpec, HashSeed, KeyHash};
use filterblock_store::lsm::FilterUse;
use filterblock_store::storage::Memory;
use filterblock_store::{Db, Options};
use filterblock_testkit::example::{self, Arguments, Checks, Failure};

/// The number of SST files that a read may have to search.
const RUNS: usize = 5;

fn main() -> ExitCode {
    example::main("Counts the block reads that filters save when keys are absent.", 200_000, run)
}

/// Stores every second key in `RUNS` SST files and reads all keys. Returns the number of wrong
/// answers, the block reads, and the expected false positives.
fn ask(keys: &[Vec<u8>], filter_use: FilterUse) -> Result<(u64, u64, f64), Failure> {
    let options = Options {
        storage: Arc::new(Memory::default()),
        auto_compaction: false,
        filter: Some(Arc::new("blocked-bloom:10".parse::<FilterSpec>()?)),
        filter_use,
        hash_seed: Some(1),
        ..Options::default()
    };
    let db = Db::open("store", options)?;
    for run in 0..RUNS {
        for key in keys.iter().step_by(2).skip(run).step_by(RUNS) {
            db.put(key, b"value")?;
        }
        db.flush()?;
    }
    db.reset_stats();
    let mut wrong = 0;
    for (i, key) in keys.iter().enumerate() {
        wrong += u64::from(db.get(key)?.is_some() != (i % 2 == 0));
    }
    let total = db.stats().total;
    Ok((wrong, total.block_reads, total.points.expected_false_positives))
}

/// Runs the example. `main` and the test of the example call it.
pub fn run(arguments: &Arguments, checks: &mut Checks) -> Result<(), Failure> {
    let mut keys = arguments.keys(|i| format!("{:016x}", KeyHash::of(&i.to_le_bytes(), HashSeed(0)).raw()))?;
    keys.sort_unstable();
    keys.dedup();
    let (stored, absent) = (keys.len().div_ceil(2) as u64, keys.len() as u64 / 2);
    println!("{stored} keys in {RUNS} SST files and {absent} absent keys between them, each read once");
    let (wrong_without, without, _) = ask(&keys, FilterUse::Ignore)?;
    let (wrong_with, with, expected) = ask(&keys, FilterUse::Consult)?;
    println!(
        "  block reads: {with} with 10 bits per key, {without} without filters: {:.1} times as many",
        without as f64 / with as f64
    );
    checks.holds("all answers are right, with and without filters", wrong_without + wrong_with == 0);
    // Each present key costs one block read. All other block reads are due to false positives.
    let questions = absent * RUNS as u64 + stored * (RUNS as u64 - 1) / 2;
    checks.share("needless reads of files without the key", with - stored, questions, expected / questions as f64);
    Ok(())
}
