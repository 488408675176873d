//! A store of sorted files asks the filter of each before it reads a block: what that saves when most of the keys that are
//! asked for are not there.
//!
//! ```text
//! cargo run --release -p filterblock-store --example lookups_saved -- keys.txt
//! ```
//! A line of the file is a key; every other one is stored, and all are asked for.

#[path = "../../../examples/support/mod.rs"]
pub mod support;

use std::process::ExitCode;
use std::sync::Arc;

use filterblock::{FilterSpec, HashSeed, KeyHash};
use filterblock_store::lsm::FilterUse;
use filterblock_store::storage::Memory;
use filterblock_store::{Db, Options};
use support::{Arguments, Checks, Failure};

/// Sorted files that a read may have to ask.
const RUNS: usize = 5;

fn main() -> ExitCode {
    support::main("Block reads that filters save a store when absent keys are asked for.", 200_000, run)
}

/// Stores every other key, in `RUNS` files, and asks for all; wrong answers, block reads, and false positives predicted.
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
    Ok((wrong, total.block_reads, total.expected_false_positives))
}

/// The example, for `main` and for its test.
pub fn run(arguments: &Arguments, checks: &mut Checks) -> Result<(), Failure> {
    let mut keys = arguments.keys(|i| format!("{:016x}", KeyHash::of(&i.to_le_bytes(), HashSeed(0)).raw()))?;
    keys.sort_unstable();
    keys.dedup();
    let (stored, absent) = (keys.len().div_ceil(2) as u64, keys.len() as u64 / 2);
    println!("{stored} keys in {RUNS} sorted files, {absent} absent keys between them, all asked for");
    let (wrong_without, without, _) = ask(&keys, FilterUse::Ignore)?;
    let (wrong_with, with, expected) = ask(&keys, FilterUse::Consult)?;
    println!(
        "  block reads: {with} with ten bits a key, {without} without: {:.1} times as many",
        without as f64 / with as f64
    );
    checks.holds("every answer is right, with filters and without", wrong_without + wrong_with == 0);
    // Each present key costs a block; all else that is read, a filter's false positive does.
    let questions = absent * RUNS as u64 + stored * (RUNS as u64 - 1) / 2;
    checks.share(
        "reads in vain of files asked for a key that they do not hold",
        with - stored,
        questions,
        expected / questions as f64,
    );
    Ok(())
}
