//! `filterblock bench`: measures how many disk reads and how much time filters save.

mod machine;
mod measure;
mod page_cache;
mod plot;
mod point_miss;
mod record;
mod report;
mod run;
mod source;
mod store;

use super::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  filterblock bench point-miss
  filterblock bench point-miss --keys names.txt --filter blocked-bloom:10";

/// Measure how many reads and how much time filters save
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    PointMiss(Box<point_miss::Arguments>),
    Report(record::Arguments),
}

/// Runs `filterblock bench`.
pub fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::PointMiss(arguments) => point_miss::run(arguments),
        Command::Report(arguments) => record::run(arguments),
    }
}
