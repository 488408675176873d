//! `filterblock bench`: measures how many block reads and how much time filters save, and how fast
//! a store loads.

mod load;
mod load_report;
mod measure;
mod point_miss;
mod range_miss;
mod range_report;
mod record;
mod report;
mod source;
mod store;

use crate::prelude::*;

const EXAMPLES: &str = "\
Examples:
  filterblock bench point-miss
  filterblock bench point-miss --keys names.txt --filter blocked-bloom:10
  filterblock bench range-miss
  filterblock bench load --count 20000000";

/// Measure how many reads filters save, and how fast a store loads
#[derive(clap::Subcommand)]
#[command(after_long_help = EXAMPLES)]
pub enum Command {
    PointMiss(Box<point_miss::Arguments>),
    RangeMiss(Box<range_miss::Arguments>),
    Load(load::Arguments),
    Report(record::Arguments),
}

pub fn run(command: &Command) -> Outcome {
    match command {
        Command::PointMiss(arguments) => point_miss::run(arguments),
        Command::RangeMiss(arguments) => range_miss::run(arguments),
        Command::Load(arguments) => load::run(arguments),
        Command::Report(arguments) => record::run(arguments),
    }
}
