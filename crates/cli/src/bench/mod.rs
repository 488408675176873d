//! `filterblock bench point-miss`: what filters save on real files.

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

/// Measure what filters save
#[derive(Debug, clap::Args)]
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
