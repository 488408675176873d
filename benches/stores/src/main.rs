//! Runs the command `stores` with its subcommands `measure` and `report`.

use std::process::ExitCode;

use clap::Parser;
use filterblock_stores::args::{Cli, Command};
use filterblock_stores::{machine, report, run};

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let done = machine::choose_instruction_set().and_then(|()| match command {
        Command::Measure(args) => run::measure(&args),
        Command::Report(args) => report::write(&args),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
