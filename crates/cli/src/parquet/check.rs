//! `filterblock parquet check`: tells which columns have filters, and checks the filters.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;

use super::check_report::{FileReport, Given, Report};
use super::files;
use super::one_file::{Source, find};
use crate::prelude::*;
use crate::refused_value::rate;
use charts::text::quoted_path;
use filterblock_parquet::check::{self, Request};
use filterblock_parquet::engines;
use filterblock_parquet::filters::{Budget, Sizing};
use filterblock_parquet::folder::EXTENSIONS;

const EXAMPLES: &str = "\
Examples:
  filterblock parquet check events.parquet
  filterblock parquet check lake/ --column id,session --values
  filterblock parquet check 'lake/*/*.parquet' --column id --quiet || echo 'filters to repair'
  filterblock parquet check events.parquet --json | jq '.files[].columns[] | select(.undersized > 0)'

Sizes:
  right       neither of the other two
  undersized  the expected false-positive rate (FPR) is above --max-fpr
  oversized   at least four times the size that the distinct values need at --fpr; a reader loads the rest for nothing
  Without --values, the number of distinct values is estimated from the bits that are set.

With --values:
  The command reads every value, counts the distinct ones, and looks each up in the filter of its row group. If a \
filter denies one of its own values, readers lose rows.

Several files:
  The command prints one line for all files whose columns are alike, such as `998 files: id none`. --each prints the \
report of each file.

Findings:
  These are findings: a missing filter of a --column, an undersized or damaged filter, a missing length in the footer, \
a denied value, and an unsafe filter: an engine loses rows with a filter of this type, whatever its size. Oversized and scattered filters are only remarks.

Exit status:
  0  no findings
  1  findings; the report says what to do
  2  an error, such as an unreadable file or value, or an unknown column
  With several files, the command continues after an error in one of them.";

/// The default of --max-fpr.
const MAX_FPR: f64 = 0.06;
/// The note about queries that make an engine look up other values than the file has.
const DECLARED: &str = "ClickHouse 26.9 and DataFusion 55 can lose rows if a query declares another type for a column with filters \
than the file has, such as UInt16 for UInt32: declare the type of the file.\n";

/// Check the filters of Parquet files: presence, size, false-positive rate and damage
#[derive(Default, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// Parquet files, folders of them, or quoted patterns such as 'lake/*.parquet'
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The columns that must have filters, such as id,session; may be repeated [default: all columns,
    /// and none must have filters]
    #[arg(long = "column", value_name = "NAMES")]
    columns: Vec<String>,
    /// Look up every value in its filter, and count the distinct values
    #[arg(long)]
    values: bool,
    /// The false-positive rate that decides the needed size, above 0 and below 1
    #[arg(long, value_name = "P", value_parser = rate, default_value = "0.01")]
    fpr: f64,
    /// A filter with a higher expected false-positive rate is undersized
    #[arg(long, value_name = "P", value_parser = rate, default_value_t = MAX_FPR)]
    max_fpr: f64,
    /// Print the report of each file, also if there are several
    #[arg(long, conflicts_with = "quiet")]
    each: bool,
    /// Print the report as JSON, with every column chunk
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print nothing but errors; the exit status is the answer
    #[arg(short, long)]
    quiet: bool,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let sizing = Sizing::new(Budget::Fpr(arguments.fpr), false)?;
    if !(arguments.max_fpr >= arguments.fpr && arguments.max_fpr < 1.0) {
        return fail(format!(
            "--max-fpr {}: expected a rate of at least --fpr {} and below 1; try {}",
            arguments.max_fpr,
            arguments.fpr,
            arguments.fpr.max(MAX_FPR)
        ));
    }
    if !arguments.quiet {
        output::check_stdout()?;
    }
    let inputs = files::find(&arguments.files, EXTENSIONS)?;
    let bar = progress::bytes("checking filters", arguments.json || arguments.quiet);
    let mut report = Report::default();
    for input in &inputs.files {
        match arguments.one(&input.path, sizing, &bar) {
            Ok(found) => {
                bar.suspend(|| arguments.tell(&found, inputs.files.len() == 1))?;
                report.failed += u64::from(!found.unread.is_empty());
                report.findings += found.num_findings();
                report.files.push(found);
            }
            Err(failure) if inputs.files.len() == 1 => return Err(failure),
            Err(failure) => {
                bar.suspend(|| message(&failure));
                report.failed += 1;
            }
        }
    }
    bar.finish_and_clear();
    arguments.finish(&report, inputs.files.len())
}

impl Arguments {
    fn one(&self, path: &Path, sizing: Sizing, bar: &ProgressBar) -> Outcome<FileReport> {
        let source = Source::open(path)?;
        let footer = &source.footer;
        let leaves = match self.columns.is_empty() {
            true => (0..footer.leaves().len()).collect(),
            false => find(footer, &self.columns).map_err(|failure| Failure::about(path, failure))?,
        };
        let request = Request { leaves, sizing, max_fpr: self.max_fpr, looks_up_values: self.values };
        let values = match source.values() {
            Ok(values) => Some(values),
            Err(error) if self.values => return Err(error.in_file(path).into()),
            // The check works without values. But the number of distinct values is then unknown if
            // a filter is missing or cannot be used.
            Err(_) => None,
        };
        let places =
            request.leaves.iter().flat_map(|&leaf| (0..footer.num_row_groups()).map(move |group| (group, leaf)));
        let chunks = places.filter_map(|(group, leaf)| footer.chunk(group, leaf));
        bar.set_length(chunks.map(|chunk| chunk.len_bytes).sum());
        bar.set_position(0);
        let mut progress = |len_bytes| bar.inc(len_bytes);
        let checked = check::check(footer, values.as_ref(), &request, &mut &source.file, &mut progress);
        let checked = checked.map_err(|error| error.in_file(path))?;
        let given = Given { is_required: !self.columns.is_empty(), fpr: self.fpr };
        Ok(FileReport::new(path, footer, &request.leaves, &checked, given))
    }

    /// Prints messages about values that cannot be read. Also prints the report of the only file, and with
    /// --each of any file.
    fn tell(&self, found: &FileReport, is_only: bool) -> Outcome<()> {
        found.unread.iter().for_each(message);
        let is_shown = !self.json && !self.quiet && (self.each || is_only);
        if is_shown { output::print(&found.text()) } else { Ok(()) }
    }

    fn finish(&self, report: &Report, num_files: usize) -> Outcome {
        if self.json {
            output::print_json(report)?;
        } else if !self.quiet && !self.each && num_files > 1 {
            let files = self.files.iter().map(|path| quoted_path(&printable(&path.display().to_string())));
            let files = if self.files.len() > 3 { "FILE...".into() } else { files.collect::<Vec<_>>().join(" ") };
            output::print(&report.summary(&files))?;
        } else if !self.quiet && !report.files.is_empty() {
            output::print(&format!("The column \"used by\" is from tests with these engines: {}.\n", engines::TRIED))?;
            if report.files.iter().any(FileReport::has_filters) {
                output::print(DECLARED)?;
            }
        }
        match (report.failed, report.findings) {
            (0, 0) => Ok(Exit::Success),
            (0, _) => Ok(Exit::Negative),
            (failed, _) => {
                let all = count(num_files as u64, "file");
                fail(format!("{failed} of {all} could not be checked completely; the messages above say why"))
            }
        }
    }
}

/// Returns the columns of a file for which the report advises filters of this false-positive rate.
pub fn advised(path: &Path, fpr: f64) -> Outcome<Vec<String>> {
    let (sizing, bar) = (Sizing::new(Budget::Fpr(fpr), false)?, ProgressBar::hidden());
    let arguments = Arguments { fpr, max_fpr: fpr.max(MAX_FPR), ..Arguments::default() };
    Ok(arguments.one(path, sizing, &bar)?.advised().into_iter().map(str::to_owned).collect())
}
