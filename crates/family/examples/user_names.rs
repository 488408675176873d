//! A registration form in a browser asks a Bloom filter of all taken names. It asks the database
//! only if the filter answers "maybe".
//!
//! ```text
//! cargo run --release -p filterblock-family --example user_names -- names.txt
//! ```
//! Each line of the file is a name. Every second name is taken, and all names are tried.

use std::collections::BTreeSet;
use std::process::ExitCode;

use filterblock::{FilterBlock, HashSeed, Verify};
use filterblock_family::{Bloom, Membership};
use filterblock_testkit::Random;
use filterblock_testkit::example::{self, Arguments, Checks, Failure};

const RATE: f64 = 0.001;

fn main() -> ExitCode {
    example::main("Counts the database lookups that a filter of taken user names saves.", 500_000, run)
}

/// Runs the example, for `main` and for its test.
pub fn run(arguments: &Arguments, checks: &mut Checks) -> Result<(), Failure> {
    let names = arguments.keys(|i| format!("{:x}", Random(i).next() >> 24))?;
    // Sort the names, so that taken and free names alternate and neighbours differ little.
    let names: BTreeSet<Vec<u8>> = names.into_iter().collect();
    let taken: BTreeSet<&[u8]> = names.iter().step_by(2).map(Vec::as_slice).collect();
    let filter = Bloom::with_fpr(taken.len() as u64, RATE, HashSeed(1))?;
    taken.iter().for_each(|name| _ = filter.insert(name));

    let (mut free_at_once, mut asked_in_vain, mut taken_said_free) = (0u64, 0, 0);
    for name in &names {
        match (filter.may_contain(name), taken.contains(name.as_slice())) {
            (false, false) => free_at_once += 1,
            (true, false) => asked_in_vain += 1,
            (false, true) => taken_said_free += 1,
            (true, true) => {}
        }
    }
    println!("{} names taken, {} tried", taken.len(), names.len());
    example::compare_memory(filter.num_bits(), taken.iter().copied());
    println!("  lookups: {} with the filter, {} without", names.len() as u64 - free_at_once, names.len());
    checks.share("free names that needed a lookup", asked_in_vain, free_at_once + asked_in_vain, RATE);
    checks.holds("no taken name was reported free", taken_said_free == 0);
    // The browser receives a checksummed block.
    let bytes = filter.freeze()?;
    let block = FilterBlock::open_any(bytes.as_slice(), Verify::AtOpen)?;
    let agree = names.iter().all(|name| block.may_contain(block.hasher().key(name)) == filter.may_contain(name));
    checks.holds(&format!("the block of {} bytes gives the same answer for every name", bytes.len()), agree);
    Ok(())
}
