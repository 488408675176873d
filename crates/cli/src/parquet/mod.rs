//! `filterblock parquet`: adds filters to Parquet files, and checks them.

mod add;
mod check;
mod check_report;
pub mod files;
mod one_file;
mod report;

use crate::prelude::*;

/// The default false-positive rate of new filters.
const DEFAULT_FPR: f64 = 0.01;

const EXAMPLES: &str = "\
Examples:
  filterblock parquet add events.parquet --column user.id -o with-filters.parquet
  filterblock parquet add lake/ --column id,session --in-place
  filterblock parquet check lake/ --column id

See docs/PARQUET.md for the engines that use such filters.";

/// Add filters to Parquet files without rewriting their data, and check the filters of files
#[derive(clap::Subcommand)]
#[command(after_long_help = EXAMPLES)]
pub enum Command {
    Add(add::Arguments),
    Check(check::Arguments),
}

pub fn run(command: &Command) -> Outcome {
    filterblock_parquet::values::quiet_guarded_panics();
    match command {
        Command::Add(arguments) => add::run(arguments),
        Command::Check(arguments) => check::run(arguments),
    }
}
