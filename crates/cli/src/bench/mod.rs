//! `filterblock bench`: measures how many disk reads and how much time filters save.

mod machine;
mod measure;
mod page_cache;
mod plot;
mod point_miss;
mod report;
mod run;
mod source;
mod store;

pub use plot::COLOURS;

use super::failure::Outcome;

/// Measure how many reads and how much time filters save
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    PointMiss(Box<point_miss::Arguments>),
}

/// Runs `filterblock bench`.
pub fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::PointMiss(arguments) => point_miss::run(arguments),
    }
}
