//! Runs the commands `measure`, `merge` and `report`. The script `run` calls them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use charts::markdown;
use clap::{Parser, Subcommand, ValueEnum};
use filterblock_integrations_bench::{Row, redb, report, rusty_leveldb, slatedb, surrealkv};

/// Measures storage engines with their own filters and with filterblock in one run.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Measures engines, and appends one JSON object per line to a file
    Measure(Measure),
    /// Adds new rows to a record. They replace all old rows of the same engine and number of keys
    Merge(Merge),
    /// Prints the rows of a record as tables
    Report(Report),
}

#[derive(clap::Args)]
struct Measure {
    /// Engines in Rust to measure
    #[arg(long, value_delimiter = ',', value_enum)]
    engines: Vec<Engine>,
    /// A program in C or C++ to run with `--keys N --rounds N`; it prints one JSON object per line
    #[arg(long = "program")]
    programs: Vec<PathBuf>,
    /// Number of present keys
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    /// Number of rounds; in each round, every configuration of an engine is measured once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// File that the rows are appended to
    #[arg(long)]
    json: PathBuf,
}

#[derive(clap::Args)]
struct Merge {
    /// File of rows that `measure` wrote
    rows: PathBuf,
    /// File that keeps the rows. It is created if it is missing
    record: PathBuf,
}

#[derive(clap::Args)]
struct Report {
    /// File of rows that `measure` or `merge` wrote
    rows: PathBuf,
    /// Page with the marker `engines: summary`. The short table replaces the lines below it
    #[arg(long)]
    page: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Engine {
    Redb,
    RustyLeveldb,
    Slatedb,
    #[value(name = "surrealkv")]
    SurrealKv,
}

impl Engine {
    fn run(self, keys: usize, rounds: usize, sink: &mut dyn FnMut(Row)) {
        match self {
            Self::Redb => redb::run(keys, rounds, sink),
            Self::RustyLeveldb => rusty_leveldb::run(keys, rounds, sink),
            Self::Slatedb => slatedb::run(keys, rounds, sink),
            Self::SurrealKv => surrealkv::run(keys, rounds, sink),
        }
    }
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Action::Measure(args) => measure(&args),
        Action::Merge(args) => merge(&args),
        Action::Report(args) => write_report(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &Measure) -> Result<(), String> {
    let file = fs::File::options().create(true).append(true).open(&args.json);
    let mut file = file.map_err(|error| format!("{}: {error}", args.json.display()))?;
    let mut failed = Vec::new();
    let mut sink = |row: Row| {
        let place = format!("{}, {}, {}", row.engine, row.layout, row.filter);
        eprintln!("{place}: {:.0} ns per miss, {:.2} bits per key", row.miss_mean_ns, row.bits_per_key);
        if row.false_negatives != 0 {
            failed.push(format!("{place}: {} present keys were not found", row.false_negatives));
        }
        let line = serde_json::to_string(&row).expect("a row is plain data");
        if let Err(error) = writeln!(file, "{line}") {
            failed.push(format!("{}: {error}", args.json.display()));
        }
    };
    for engine in &args.engines {
        engine.run(args.keys, args.rounds, &mut sink);
    }
    for program in &args.programs {
        run_program(program, args, &mut sink)?;
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Runs a program in C or C++ and passes its rows to `sink`.
fn run_program(program: &Path, args: &Measure, sink: &mut dyn FnMut(Row)) -> Result<(), String> {
    let name = program.display();
    let mut child = Command::new(program)
        .args(["--keys", &args.keys.to_string(), "--rounds", &args.rounds.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name}: {error}; build it with integrations/bench/run"))?;
    let stdout = child.stdout.take().ok_or("the program has no output")?;
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|error| format!("{name}: {error}"))?;
        sink(serde_json::from_str(&line).map_err(|error| format!("{name} printed {line:?}: {error}"))?);
    }
    let status = child.wait().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}")) }
}

fn merge(args: &Merge) -> Result<(), String> {
    let old = if args.record.exists() { read_rows(&args.record)? } else { Vec::new() };
    let rows = report::merge(old, read_rows(&args.rows)?);
    let lines = rows.iter().map(|row| serde_json::to_string(row).expect("a row is plain data") + "\n");
    fs::write(&args.record, lines.collect::<String>()).map_err(|error| format!("{}: {error}", args.record.display()))
}

fn write_report(args: &Report) -> Result<(), String> {
    let rows = read_rows(&args.rows)?;
    print!("{}", report::markdown(&rows));
    let Some(path) = &args.page else { return Ok(()) };
    markdown::fill_file(path, "<!-- engines: ", |table| match table {
        "summary" => Ok(report::summary(&rows).trim_end().to_owned()),
        _ => markdown::unknown(&["summary"]),
    })
}

fn read_rows(path: &Path) -> Result<Vec<Row>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let rows: Result<Vec<Row>, _> = text.lines().map(serde_json::from_str).collect();
    rows.map_err(|error| format!("{}: {error}", path.display()))
}
