//! `filterblock db stats` and `db verify`: what a store holds, and whether it is sound.

use std::io;
use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::super::failure::{Exit, Failure, Outcome};
use super::super::output::{self, message};
use super::super::progress;
use super::super::text::{count, significant, thousands};
use super::StoreArguments;
use filterblock_store::Error;
use filterblock_store::lsm::{LevelStats, LogTail};

const EXAMPLES: &str = "\
Examples:
  filterblock db stats store/
  filterblock db stats store/ --json | jq .total.bits_per_key";

const VERIFY_EXAMPLES: &str = "\
Examples:
  filterblock db verify store/
  filterblock db verify store/ --json | jq .damage

A table or manifest that is missing is damage too.

The end of a log that is no whole record is told with its file and offset. Where bytes are missing, a crash has cut a \
write, and the store is sound. Where a record is there in its full length and does not hold, that is damage, or a write \
that a crash left half done: nothing tells which, and the store counts as damaged. Opening the store, which this does, \
leaves such an end out for good; a second run does not find it.

Exit status: 0 sound, or a log ends in a write that a crash cut; 1 damaged; 2 could not run (no store there, \
another program's directory, open elsewhere, no permission, newer format).";

/// Print what a store holds, level by level
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Read every byte of a store and check it: blocks, filters, and that no filter denies a key of its table
#[derive(Debug, clap::Args)]
#[command(after_long_help = VERIFY_EXAMPLES)]
pub struct VerifyArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Report as JSON on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    levels: Vec<Level>,
    total: Level,
    reports: Vec<String>,
}

/// The counters of gets are left out: they begin at 0 with each command.
#[derive(Debug, Serialize)]
struct Level {
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<usize>,
    tables: u64,
    entries: u64,
    bytes: u64,
    filter_bytes: u64,
    bits_per_key: f64,
}

/// Runs `filterblock db stats`.
pub fn run(arguments: &Arguments) -> Outcome {
    let db = arguments.store.open()?;
    let stats = db.stats();
    db.close()?;
    let report = Report {
        levels: stats.levels.iter().map(|level| Level::new(Some(level.level), level)).collect(),
        total: Level::new(None, &stats.total),
        reports: stats.reports,
    };
    match arguments.json {
        true => output::print_json(&report)?,
        false => {
            output::print(&format!("{}\n", table(&report)))?;
            report.reports.iter().for_each(message);
        }
    }
    Ok(Exit::Success)
}

impl Level {
    fn new(level: Option<usize>, stats: &LevelStats) -> Self {
        Self {
            level,
            tables: stats.tables,
            entries: stats.keys,
            bytes: stats.bytes,
            filter_bytes: stats.filter_bytes,
            bits_per_key: stats.filter_bytes as f64 * 8.0 / stats.keys.max(1) as f64,
        }
    }
}

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["level", "tables", "entries", "bytes", "filter bytes", "bits/key"]);
    for level in report.levels.iter().filter(|level| level.tables > 0).chain([&report.total]) {
        table.add_row([
            level.level.map_or_else(|| "all".into(), |level| level.to_string()),
            thousands(level.tables),
            thousands(level.entries),
            thousands(level.bytes),
            thousands(level.filter_bytes),
            significant(level.bits_per_key),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[derive(Debug, Default, Serialize)]
struct Verified {
    store: String,
    sound: bool,
    damage: Vec<String>,
    tables: u64,
    entries: u64,
    data_blocks: u64,
    false_negatives: u64,
    warnings: Vec<Warning>,
    reports: Vec<String>,
}

/// An end of a log or manifest that is no record.
#[derive(Debug, Serialize)]
struct Warning {
    file: String,
    offset: u64,
    len_bytes: u64,
    /// Whether nothing is missing, so that it may be damage.
    suspect: bool,
    message: String,
}

impl Warning {
    fn new(tail: &LogTail) -> Self {
        let (offset, len_bytes, suspect) = (tail.offset, tail.len_bytes, !tail.is_cut);
        Self { file: tail.path.display().to_string(), offset, len_bytes, suspect, message: tail.to_string() }
    }
}

/// Runs `filterblock db verify`.
pub fn verify(arguments: &VerifyArguments) -> Outcome {
    // Opening the store replays its log: only the first command that opens it sees a torn end.
    output::check_stdout()?;
    let dir = arguments.store.dir();
    let mut verified = Verified { store: dir.display().to_string(), ..Verified::default() };
    match check(arguments, &mut verified) {
        Err(Failure::Store(error)) if is_damage(&error, dir) => verified.damage.push(error.to_string()),
        // The log's damage, with what helps.
        Err(Failure::Damage(reason)) => verified.damage.push(reason),
        Err(failure) => return Err(failure),
        Ok(()) => {}
    }
    let is_suspect = verified.warnings.iter().any(|warning| warning.suspect);
    verified.sound = verified.damage.is_empty() && verified.false_negatives == 0 && !is_suspect;
    let printed = if arguments.json { output::print_json(&verified) } else { output::print(&describe(&verified)) };
    if printed.is_err() || !arguments.json {
        verified.reports.iter().for_each(message);
    }
    output::print_or_say(printed, || describe(&verified))?;
    Ok(if verified.sound { Exit::Success } else { Exit::Negative })
}

fn check(arguments: &VerifyArguments, verified: &mut Verified) -> Outcome<()> {
    let db = arguments.store.open()?;
    let bar = progress::bytes("reading tables", arguments.json);
    let report = db.verify_with(&mut progress::follow(&bar));
    bar.finish_and_clear();
    let report = report?;
    verified.reports = db.stats().reports;
    db.close()?;
    verified.warnings = report.tails.iter().map(Warning::new).collect();
    // Each is among the reports, too.
    verified.reports.retain(|told| verified.warnings.iter().all(|warning| warning.message != *told));
    verified.damage = report.damage.iter().map(ToString::to_string).collect();
    verified.tables = report.tables;
    verified.entries = report.entries;
    verified.data_blocks = report.data_blocks;
    verified.false_negatives = report.filter_false_negatives;
    Ok(())
}

/// Whether an error is an answer: damage, or a file missing that the store names. That there is no store at `dir` is
/// none, nor is a newer format.
fn is_damage(error: &Error, dir: &Path) -> bool {
    let is_missing = matches!(error.root(), Error::Io(reason) if reason.kind() == io::ErrorKind::NotFound);
    let is_inside = matches!(error, Error::InFile { path, .. } if path != dir);
    error.is_damage() || (is_missing && is_inside)
}

fn describe(verified: &Verified) -> String {
    let warnings = verified.warnings.iter().map(|warning| &warning.message);
    let mut text: String = verified.damage.iter().chain(warnings).map(|reason| format!("{reason}\n")).collect();
    text += &format!(
        "{}: {}; {}, {}, {}, {}\n",
        verified.store,
        if verified.sound { "sound" } else { "damaged" },
        count(verified.tables, "table"),
        plural_entries(verified.entries),
        count(verified.data_blocks, "data block"),
        count(verified.false_negatives, "false negative"),
    );
    text
}

fn plural_entries(entries: u64) -> String {
    if entries == 1 { "1 entry".into() } else { format!("{} entries", thousands(entries)) }
}
