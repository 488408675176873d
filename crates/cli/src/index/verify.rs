//! `filterblock index verify`: checks an index for damage, and its files for changes.

use std::path::PathBuf;

use serde::Serialize;

use super::super::failure::{Exit, Outcome};
use super::super::output::{self, message};
use super::super::{progress, text};
use super::failure;
use super::opened::{self, CheckArguments};

/// The maximum number of damaged or unreadable rows that are named. All others are only counted.
const NAMED_MAX: usize = 10;

const EXAMPLES: &str = "\
Examples:
  filterblock index verify ids.index
  filterblock index verify ids.index --json --check no

The command verifies the checksums of header, file table and every row, and compares each file with its recorded state as --check says. \
It also computes the FPR of each file from the bits of its filters.
A damaged row makes all files candidates for the keys of this row. Build the index again.
With --json, `sound` says whether the index itself is undamaged and readable. If the length, the header or the file table is \
damaged, the report has only `index`, `sound` and `damage`.

Exit status: 0 sound; 1 damaged, or files have changed, are missing or unreadable; 2 an error, such as an unreadable index or a \
newer format.";

/// Check an index for damage, and its files for changes
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The index
    #[arg(value_name = "INDEX")]
    pub index: PathBuf,
    #[command(flatten)]
    pub files: CheckArguments,
    /// Print the report as JSON, with every file
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    index: String,
    /// Whether no row is damaged or unreadable.
    sound: bool,
    column: String,
    key_type: String,
    logical_type: String,
    fpr: f64,
    generation: u64,
    rows: u32,
    cells: u32,
    index_len_bytes: u64,
    damaged_rows: u64,
    changed_files: u64,
    keys: u64,
    files: Vec<FileReport>,
}

/// The report about an index whose header or file table is damaged, so that nothing else is known.
#[derive(Debug, Serialize)]
struct DamagedReport {
    index: String,
    sound: bool,
    damage: String,
}

#[derive(Debug, Serialize)]
struct FileReport {
    path: String,
    source: &'static str,
    keys: u64,
    fpr: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<String>,
}

/// Runs `filterblock index verify`.
pub fn run(arguments: &Arguments) -> Outcome {
    let path = &arguments.index;
    if arguments.json {
        output::check_stdout()?;
    }
    let index = match opened::try_open(path)? {
        Ok(index) => index,
        Err(error) if error.is_damage() => {
            let damage = failure(path, error).to_string();
            message(&damage);
            if arguments.json {
                output::print_json(&DamagedReport { index: path.display().to_string(), sound: false, damage })?;
            }
            return Ok(Exit::Negative);
        }
        Err(error) => return Err(failure(path, error)),
    };
    let mut damaged = 0;
    let bar = progress::bar(Some(index.rows().into()), "verifying rows");
    index.verify(|row, error| {
        bar.set_position(row.into());
        if let Some(error) = error {
            damaged += 1;
            if damaged <= NAMED_MAX as u64 {
                message(failure(path, error));
            }
        }
    });
    bar.finish_and_clear();
    let differences = arguments.files.differences(&index);
    opened::report_differences(path, &index, &differences);
    let rates = index.measure();
    let files = index.files().iter().zip(&rates).enumerate().map(|(number, (file, &fpr))| FileReport {
        path: file.identity.path.display().to_string(),
        source: file.identity.source.name(),
        keys: file.num_keys,
        fpr,
        changed: differences.iter().find(|(changed, _)| *changed == number).map(|(_, how)| how.to_string()),
    });
    let report = Report {
        index: path.display().to_string(),
        sound: damaged == 0,
        column: index.settings().column.clone(),
        key_type: index.settings().key_type.to_string(),
        logical_type: index.settings().logical_type.clone(),
        fpr: index.settings().fpr,
        generation: index.generation(),
        rows: index.rows(),
        cells: index.cells(),
        index_len_bytes: index.len_bytes(),
        damaged_rows: damaged,
        changed_files: differences.len() as u64,
        keys: index.files().iter().map(|file| file.num_keys).sum(),
        files: files.collect(),
    };
    let is_sound = damaged == 0 && differences.is_empty();
    match arguments.json {
        true => output::print_json(&report)?,
        false => output::print(&summary(&report))?,
    }
    Ok(if is_sound { Exit::Success } else { Exit::Negative })
}

fn summary(report: &Report) -> String {
    // `Iterator::sum` of no numbers is -0.0.
    let mean =
        report.files.iter().map(|file| file.fpr).fold(0.0, |sum, fpr| sum + fpr) / report.files.len().max(1) as f64;
    let state = match (report.damaged_rows, report.changed_files) {
        (0, 0) => "sound".to_owned(),
        (0, changed) => format!("sound, but {} changed, missing or unreadable", text::count(changed, "file")),
        (damaged, changed) => {
            format!(
                "{} damaged or unreadable; {} changed, missing or unreadable",
                text::count(damaged, "row"),
                text::count(changed, "file")
            )
        }
    };
    format!(
        "{}: {state}; {}, {}, {}, mean FPR of a file {}\n",
        report.index,
        text::count(report.files.len() as u64, "file"),
        text::count(report.keys, "key"),
        text::count(report.index_len_bytes, "byte"),
        text::percent(mean),
    )
}
