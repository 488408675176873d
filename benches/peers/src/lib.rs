//! Measures the filters of filterblock and of other crates in turn, in one process on one core.
//! Queries are timed in CPU time of the thread, and builds in CPU time of the process, because some
//! builders start threads.
//!
//! `measure` measures filters that are built once. `variants` measures filters that take keys one
//! by one. `ranges` measures range filters. Each of the three can write a CSV file. `report` makes
//! tables and pictures for docs/ from a CSV file.

pub mod args;
pub mod contender;
pub mod ours;
pub mod peers;
pub mod ranges;
pub mod rate;
pub mod record;
pub mod report;
pub mod rocksdb;
pub mod run;
pub mod variants;

use args::Command;

/// Runs a command of the command line.
pub fn run(command: Command) -> Result<(), String> {
    match command {
        Command::Measure(args) => run::measure(args.resolved()),
        Command::Variants(args) => variants::measure(&args),
        Command::Ranges(args) => ranges::measure(&args),
        Command::Report(args) => report::write(&args),
    }
}

/// Returns the version of a package in the lock file of this benchmark.
fn version_of(package: &str) -> &'static str {
    filterblock_testkit::measure::machine::version_in(include_str!("../Cargo.lock"), package)
}
