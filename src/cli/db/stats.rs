//! `filterblock db stats` and `db verify`: what a store holds, and whether it is sound.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::super::failure::{Exit, Failure, Outcome};
use super::super::output::{self, message};
use super::super::text::{significant, thousands};
use super::{StoreArguments, report_doubts};
use crate::error::Error;
use crate::lsm::LevelStats;

/// Print what a store holds, level by level
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Read every byte of a store and check it: blocks, filters, and that no filter denies a key of its table
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 sound; 1 damaged; 2 could not run.")]
pub struct VerifyArguments {
    #[command(flatten)]
    store: StoreArguments,
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

/// Runs `filterblock db verify`.
pub fn verify(arguments: &VerifyArguments) -> Outcome {
    let is_newer = |error: &Error| matches!(error.root(), Error::Unsupported { .. });
    let db = match arguments.store.open() {
        // A store too damaged to open is an answer; one in a newer format is not.
        Err(Failure::Library(error)) if error.is_damage() && !is_newer(&error) => {
            output::print(&format!("{error}\n"))?;
            return Ok(Exit::Negative);
        }
        opened => opened?,
    };
    let report = db.verify()?;
    report_doubts(&db);
    db.close()?;
    let mut text: String = report.damage.iter().map(|error| format!("{error}\n")).collect();
    text += &format!(
        "{}: {}; {} tables, {} entries, {} data blocks, {} false negatives\n",
        arguments.store.dir().display(),
        if report.is_sound() { "sound" } else { "damaged" },
        thousands(report.tables),
        thousands(report.entries),
        thousands(report.data_blocks),
        thousands(report.filter_false_negatives),
    );
    output::print(&text)?;
    Ok(if report.is_sound() { Exit::Success } else { Exit::Negative })
}
