//! Runs the command `peers` with its subcommands `measure`, `variants`, `ranges` and `report`.

use std::process::ExitCode;

use clap::Parser;
use filterblock_peers::args::Cli;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    filterblock_testkit::measure::run(|| filterblock_peers::run(command))
}
