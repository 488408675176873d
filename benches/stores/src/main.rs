//! Runs the command `stores` with its subcommands `measure` and `report`.

use std::process::ExitCode;

use clap::Parser;
use filterblock_stores::args::{Cli, Command};
use filterblock_stores::{report, run};

fn main() -> ExitCode {
    let command = Cli::parse().command;
    filterblock_testkit::measure::run(|| match command {
        Command::Measure(args) => run::measure(&args),
        Command::Report(args) => report::write(&args),
    })
}
