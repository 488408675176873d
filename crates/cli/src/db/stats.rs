//! `filterblock db stats` and `db verify`: print the sizes of a store's levels, and check a store
//! for damage.

use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::super::failure::{Exit, Failure, Outcome};
use super::super::output::{self, message};
use super::super::progress;
use super::super::text::{count, significant, thousands};
use super::{StoreArguments, is_missing};
use filterblock_store::Error;
use filterblock_store::lsm::{LevelStats, LogTail};

const EXAMPLES: &str = "\
Examples:
  filterblock db stats store/
  filterblock db stats store/ --json | jq .total.bits_per_key

An open store keeps each of its SST files open, and a few more files. If the limit of open files is lower, the store does not open. \
Raise the limit with \"ulimit -n\".

Exit status: 0 printed; 2 an error.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  filterblock db verify store/
  filterblock db verify store/ --json | jq .damage

A missing SST file, log or manifest is damage too.

The report names the file and offset of a bad record at the end of a log or manifest:
  If bytes seem to be missing, or are zeros, a crash has probably torn a write that was not synced. This does not count as damage.
  If no bytes seem to be missing but the record is not sound, the cause is damage or a crash. The store counts as damaged.
  This command opens the store, which drops that record. A second run does not find it.

With --salvage, the command opens a store whose log is damaged, and drops the damaged records. The report on stderr names them \
(with --json: the field \"reports\"), but the store then counts as sound.

Exit status:
  0  sound, or a log ends in a torn tail
  1  damaged
  2  an error, such as no store, a store that is open in another process, no permission, or a newer format";

/// Print for each level the number of SST files and of entries, and the bytes of the SST files and
/// of their filters
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Read and check every block and filter of a store, and look up each key in the filter of its SST
/// file
#[derive(Debug, clap::Args)]
#[command(after_long_help = VERIFY_EXAMPLES)]
pub struct VerifyArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    levels: Vec<Level>,
    total: Level,
    /// The name of the store's prefix extractor. `None` if the store has none.
    prefix_extractor: Option<String>,
    /// The maximum number of files that this process may have open. An open store has one for each
    /// SST file. `None` if there is no limit, or it is unknown.
    open_files_limit: Option<u64>,
    reports: Vec<String>,
}

/// A level, or all levels together. Counters of gets are left out, because they start at 0 when the
/// store is opened.
#[derive(Debug, Serialize)]
struct Level {
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<usize>,
    tables: u64,
    entries: u64,
    bytes: u64,
    filter_bytes: u64,
    bits_per_key: f64,
    /// The number of SST files without a usable filter of the prefixes of the store's extractor. It
    /// is 0 if the store has no extractor.
    tables_without_prefixes: u64,
    /// The number of SST files with a usable range filter.
    tables_with_ranges: u64,
}

/// Runs `filterblock db stats`.
pub fn run(arguments: &Arguments) -> Outcome {
    let db = arguments.store.open()?;
    let stats = db.stats();
    db.close()?;
    let report = Report {
        levels: stats.levels.iter().map(|level| Level::new(Some(level.level), level)).collect(),
        total: Level::new(None, &stats.total),
        prefix_extractor: stats.prefix_extractor,
        open_files_limit: open_files_limit(),
        reports: stats.reports,
    };
    match arguments.json {
        true => output::print_json(&report)?,
        false => {
            let limit = report.open_files_limit.map_or_else(String::new, |limit| {
                format!("open files: one for each SST file; limit of this process (ulimit -n): {}\n", thousands(limit))
            });
            output::print(&format!("{}\n{limit}{}", table(&report), scan_lines(&report)))?;
            report.reports.iter().for_each(message);
        }
    }
    Ok(Exit::Success)
}

fn open_files_limit() -> Option<u64> {
    #[cfg(unix)]
    return rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(unix))]
    None
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
            tables_without_prefixes: stats.tables_without_prefixes,
            tables_with_ranges: stats.tables_with_ranges,
        }
    }
}

/// Returns the lines about prefixes and ranges. Returns an empty text if the store has no prefix
/// extractor and no range filter.
fn scan_lines(report: &Report) -> String {
    let ranges = match report.total.tables_with_ranges {
        0 => String::new(),
        with => format!("range filters: {} of {}\n", thousands(with), count(report.total.tables, "SST file")),
    };
    let Some(name) = &report.prefix_extractor else { return ranges };
    let lacking = match report.total.tables_without_prefixes {
        0 => String::new(),
        lacking => format!("; without its prefixes: {}", count(lacking, "SST file")),
    };
    format!("{ranges}prefix extractor: {name}{lacking}\n")
}

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["level", "SST files", "entries", "bytes", "filter bytes", "bits per key"]);
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
    /// Whether the SST files were checked.
    #[serde(skip)]
    is_checked: bool,
}

/// The torn tail of a log or manifest.
#[derive(Debug, Serialize)]
struct Warning {
    file: String,
    offset: u64,
    len_bytes: u64,
    /// True if no bytes seem to be missing, but the tail is not a sound record. The cause is then
    /// damage or a crash.
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
    // Opening the store drops the torn tails of the logs and the manifest. A second run could not
    // report them, so stdout is checked first.
    output::check_stdout()?;
    let dir = arguments.store.dir();
    let mut verified = Verified { store: dir.display().to_string(), ..Verified::default() };
    match check(arguments, &mut verified) {
        Err(Failure::Store(error)) if is_damage(&error, dir) => verified.damage.push(error.to_string()),
        // The message about a damaged log or a missing file includes advice.
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
    let bar = progress::bytes("reading SST files", arguments.json);
    let report = db.verify_with(&mut progress::follow(&bar));
    bar.finish_and_clear();
    let report = report?;
    verified.reports = db.stats().reports;
    db.close()?;
    verified.warnings = report.tails.iter().map(Warning::new).collect();
    // The reports of the store contain each warning again.
    verified.reports.retain(|told| verified.warnings.iter().all(|warning| warning.message != *told));
    verified.damage = report.damage.iter().map(ToString::to_string).collect();
    verified.tables = report.tables;
    verified.entries = report.entries;
    verified.data_blocks = report.data_blocks;
    verified.false_negatives = report.filter_false_negatives;
    verified.is_checked = true;
    Ok(())
}

/// Returns whether the error means that the store is damaged, or that a file that the store names
/// is missing. A missing store and a newer format are failures of the command instead.
fn is_damage(error: &Error, dir: &Path) -> bool {
    let is_inside = matches!(error, Error::InFile { path, .. } if path != dir);
    error.is_damage() || (is_missing(error) && is_inside)
}

fn describe(verified: &Verified) -> String {
    let warnings = verified.warnings.iter().map(|warning| &warning.message);
    let mut text: String = verified.damage.iter().chain(warnings).map(|reason| format!("{reason}\n")).collect();
    if !verified.is_checked {
        return text + &format!("{}: damaged; its SST files were not checked\n", verified.store);
    }
    text += &format!(
        "{}: {}; {}, {}, {}, {}\n",
        verified.store,
        if verified.sound { "sound" } else { "damaged" },
        count(verified.tables, "SST file"),
        plural_entries(verified.entries),
        count(verified.data_blocks, "data block"),
        count(verified.false_negatives, "false negative"),
    );
    text
}

fn plural_entries(entries: u64) -> String {
    if entries == 1 { "1 entry".into() } else { format!("{} entries", thousands(entries)) }
}
