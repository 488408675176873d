//! Measures filterblock-store and other key-value stores in turn, in one process. All stores get
//! the same keys, values and cache sizes, and every layout that they support. Every answer is
//! checked.
//!
//! `report` makes the tables and the picture of docs/BENCHMARKS.md from the CSV of `measure`.

pub mod args;
pub mod asking;
pub mod engine;
pub mod engines;
pub mod machine_state;
pub mod questions;
pub mod record;
pub mod report;
pub mod run;

/// Runs a command of the command line.
pub fn run(command: &args::Command) -> Result<(), String> {
    match command {
        args::Command::Measure(args) => run::measure(args),
        args::Command::Report(args) => report::write(args),
    }
}

/// Returns the version of a package in the lock file of this benchmark.
fn version_of(package: &str) -> &'static str {
    filterblock_testkit::measure::machine::version_in(include_str!("../Cargo.lock"), package)
}
