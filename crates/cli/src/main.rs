//! The command `filterblock`. Each subcommand has its own file or folder. Data goes to stdout,
//! messages go to stderr.

mod bench;
mod block_file;
mod build;
mod db;
mod demo;
mod diff;
mod export;
mod failure;
mod filter_choice;
mod foreign;
mod format;
mod html;
mod index;
mod inspect;
mod interrupt;
mod kept;
mod keys;
mod machine;
mod man;
mod merge;
mod new_file;
mod output;
mod parquet;
mod plan;
mod prelude;
mod progress;
mod query;
mod refused_value;
mod secret;
mod streams;
mod verify;
mod what_if;

use charts::text;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use failure::Failure;

const EXAMPLES: &str = "\
Examples:
  filterblock build -o names.filter --filter blocked-bloom:10 names.txt
  filterblock query names.filter serde tokio
  filterblock inspect names.filter
  filterblock verify names.filter --against names.txt
  filterblock inspect --what-if 000012.sst
  filterblock convert -o 000012.filter --filter bumped-ribbon:fpr=0.01 000012.sst
  filterblock plan --keys 1000000 --fpr 0.01
  filterblock index build -o ids.index --column id *.parquet && filterblock index query ids.index 42
  filterblock bench point-miss
  filterblock db load store/ pairs.tsv && filterblock db get store/ serde
  filterblock demo

Exit status:
  0  done, or a positive answer
  1  a negative answer: not found, different, or damaged
  2  an error; the message is on stderr
  128 + N when signal N ends the command (130 for Ctrl-C)

Streams and signals:
  If the reader of a pipe closes it, text output stops without an error and the exit status does not change. For a \
binary block (--output -), a closed pipe is an error.
  If the reader of standard output closes it while a command looks up keys from a pipe, the command ends. If the keys \
so far do not decide the exit status, it is 141, as after SIGPIPE.
  A full disk, a closed standard output and a closed standard input are errors. Closed streams are detected \
only on Linux.
  If HUP, INT, QUIT, TERM or XCPU ends the command, the command removes its temporary files first. Other signals, such \
as KILL, may leave some of them, such as .filterblock.*.tmp beside the output file.
  A command locks the file that it replaces. If another command or program has locked or replaced it, the exit \
status is 2 and no version is lost. NAME.displaced-* beside NAME may be its newest version: a command that was \
killed, or that met several other writers, leaves it. docs/PARQUET.md has the details.
  On Linux, signals that the parent process ignores (nohup) stay ignored.

Environment:
  NO_COLOR=1  print without colours";

/// Build, query and check filters for SST files, and measure how many disk reads they save.
#[derive(Parser)]
#[command(name = "filterblock", version, after_long_help = EXAMPLES, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Build(build::Arguments),
    Query(query::Arguments),
    Inspect(inspect::Arguments),
    #[command(subcommand)]
    Index(index::Command),
    Verify(verify::Arguments),
    Convert(build::ConvertArguments),
    Export(export::Arguments),
    Plan(plan::Arguments),
    Merge(merge::Arguments),
    Diff(diff::Arguments),
    #[command(subcommand)]
    Bench(bench::Command),
    #[command(subcommand)]
    Db(db::Command),
    #[command(subcommand)]
    Parquet(parquet::Command),
    Demo(demo::Arguments),
    Completions(man::CompletionsArguments),
    Man(man::Arguments),
}

fn main() -> ExitCode {
    interrupt::outlive_file_size_limit();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(refused) => return explain(&refused),
    };
    if let Err(error) = machine::choose_instruction_set() {
        output::message(format_args!("FILTERBLOCK_ISA: {error}"));
        return ExitCode::from(2);
    }
    let outcome = match &arguments.command {
        Command::Build(arguments) => build::run(arguments),
        Command::Convert(arguments) => build::convert(arguments),
        Command::Export(arguments) => export::run(arguments),
        Command::Plan(arguments) => plan::run(arguments),
        Command::Merge(arguments) => merge::run(arguments),
        Command::Diff(arguments) => diff::run(arguments),
        Command::Query(arguments) => query::run(arguments),
        Command::Inspect(arguments) => inspect::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Index(command) => index::run(command),
        Command::Bench(command) => bench::run(command),
        Command::Db(command) => db::run(command),
        Command::Parquet(command) => parquet::run(command),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Completions(arguments) => man::complete(arguments, Arguments::command()),
        Command::Man(arguments) => man::run(arguments, Arguments::command()),
    };
    block_file::remove_copies();
    match outcome {
        Ok(exit) => exit.into(),
        Err(Failure::Interrupted) => {
            output::message("interrupted");
            ExitCode::from(interrupt::status_after_signal())
        }
        // As if SIGPIPE (13) had ended the command.
        Err(Failure::ReaderGone) => ExitCode::from(128 + 13),
        Err(failure) => {
            output::message(&failure);
            ExitCode::from(2)
        }
    }
}

fn print_help(help: &clap::Error) -> Result<(), Failure> {
    let text = help.render();
    let choice = anstream::AutoStream::choice(&std::io::stdout());
    output::print(&if choice == anstream::ColorChoice::Never { text.to_string() } else { text.ansi().to_string() })
}

/// Prints the help, the version or the error that clap returned, and returns the exit status.
fn explain(refused: &clap::Error) -> ExitCode {
    if let Some(line) = refused_value::line(refused) {
        output::message(line);
    } else if refused.use_stderr() {
        // The subcommand is missing. If stderr fails, the exit status still reports the error.
        let _ = write!(anstream::stderr(), "{}", refused.render().ansi());
    } else if let Err(failure) = print_help(refused) {
        output::message(&failure);
        return ExitCode::from(2);
    }
    ExitCode::from(u8::try_from(refused.exit_code()).unwrap_or(2))
}
