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

use anstream::ColorChoice;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use failure::Failure;
use refused_value::choice;

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

Output:
  On a terminal, tables and sentences fit its width, and damage is red. A pipe or a file gets whole lines.

Environment:
  NO_COLOR=1  print without colours, as --color never does";

/// The width of the help in a pipe, and on a wide terminal.
const HELP_WIDTH_MAX: usize = 110;

/// Build, query and check filters for SST files, and measure how many disk reads they save.
#[derive(Parser)]
#[command(name = "filterblock", version, after_long_help = EXAMPLES, max_term_width = HELP_WIDTH_MAX)]
struct Arguments {
    /// When to print colours: `auto` (on a terminal, unless `NO_COLOR` is set), `always` or `never`
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    #[arg(value_parser = choice(COLOURS), hide_default_value = true, display_order = 1000)]
    color: ColorChoice,
    #[command(subcommand)]
    command: Command,
}

const COLOURS: [(&str, &str, ColorChoice); 3] = [
    ("auto", "Colours on a terminal, unless NO_COLOR is set", ColorChoice::Auto),
    ("always", "Colours in pipes and files, too", ColorChoice::AlwaysAnsi),
    ("never", "No colours", ColorChoice::Never),
];

/// Returns the value of `--color` on a command line that may be invalid or ask for help.
fn colour_choice() -> ColorChoice {
    let arguments: Vec<_> = std::env::args_os().take_while(|argument| argument != "--").collect();
    let given = arguments.iter().enumerate().rev().find_map(|(at, argument)| match argument.to_str()? {
        "--color" => arguments.get(at + 1)?.to_str(),
        text => text.strip_prefix("--color="),
    });
    COLOURS.into_iter().find(|(name, ..)| Some(*name) == given).map_or(ColorChoice::Auto, |(.., choice)| choice)
}

#[derive(Subcommand)]
enum Command {
    Build(build::Arguments),
    Query(query::Arguments),
    Inspect(inspect::Arguments),
    Verify(verify::Arguments),
    Plan(plan::Arguments),
    Merge(merge::Arguments),
    Convert(build::ConvertArguments),
    #[command(subcommand)]
    Parquet(parquet::Command),
    #[command(subcommand)]
    Index(index::Command),
    #[command(subcommand)]
    Db(db::Command),
    #[command(subcommand)]
    Bench(bench::Command),
    Demo(demo::Arguments),
    Completions(man::CompletionsArguments),
    Man(man::Arguments),
    Export(export::Arguments),
    Diff(diff::Arguments),
}

/// The groups in which the help lists the subcommands.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Filters", &["build", "query", "inspect", "verify", "plan", "merge"]),
    ("Files of others", &["convert", "parquet", "index"]),
    ("Store", &["db", "bench", "demo"]),
    ("Shell", &["completions", "man"]),
    ("More", &["export", "diff"]),
];

/// Returns the command, whose help lists the subcommands in groups.
fn command() -> clap::Command {
    let command = Arguments::command();
    debug_assert!(
        command.get_subcommands().map(clap::Command::get_name).eq(GROUPS.iter().flat_map(|(_, names)| *names).copied())
    );
    let list = GROUPS.map(|(heading, names)| {
        let commands = names.iter().filter_map(|name| command.find_subcommand(name));
        let line = |found: &clap::Command| {
            let about = found.get_about().map(ToString::to_string).unwrap_or_default();
            format!("  {:<12} {about}\n", found.get_name())
        };
        format!("\x1b[1m\x1b[4m{heading}:\x1b[0m\n{}", commands.map(line).collect::<String>())
    });
    let width = output::stdout_width().unwrap_or(HELP_WIDTH_MAX).min(HELP_WIDTH_MAX);
    let list = output::fit(&list.join("\n"), Some(width));
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\n\x1b[1m\x1b[4mOptions:\x1b[0m\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

fn main() -> ExitCode {
    interrupt::outlive_file_size_limit();
    let parsed = command().try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(refused) => {
            colour_choice().write_global();
            return explain(&refused);
        }
    };
    arguments.color.write_global();
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
    output::print(&if output::has_colours() { text.ansi().to_string() } else { text.to_string() })
}

/// Prints the help, the version or the error that clap returned, and returns the exit status.
fn explain(refused: &clap::Error) -> ExitCode {
    if let Some(line) = refused_value::line(refused) {
        output::message(line);
    } else if refused.use_stderr() {
        // The subcommand is missing. If stderr fails, the exit status still reports the error.
        let help = refused.render().ansi().to_string();
        let _ = write!(anstream::stderr(), "{}", output::fit(&help, output::stderr_width()));
    } else if let Err(failure) = print_help(refused) {
        output::message(&failure);
        return ExitCode::from(2);
    }
    ExitCode::from(u8::try_from(refused.exit_code()).unwrap_or(2))
}
