//! Runs the command `peers` with its subcommands `measure`, `variants`, `ranges` and `report`.

use std::process::ExitCode;

use clap::Parser;
use filterblock_peers::args::{Cli, Command};
use filterblock_peers::{ranges, report, run, variants};

fn main() -> ExitCode {
    let command = Cli::parse().command;
    filterblock_testkit::measure::run(|| match command {
        Command::Measure(args) => run::measure(args.resolved()),
        Command::Variants(args) => variants::measure(&args),
        Command::Ranges(args) => ranges::measure(&args),
        Command::Report(args) => report::write(&args),
    })
}
