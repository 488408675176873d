//! Runs the command `stores` with its subcommands `measure` and `report`.

use std::process::ExitCode;

use clap::Parser;
use filterblock_stores::args::Cli;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    filterblock_testkit::measure::run(|| filterblock_stores::run(&command))
}
