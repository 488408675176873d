//! The output files of the benchmarks of misses, and `filterblock bench report`, which prints a record of
//! a benchmark. It can also draw the record, write it as an HTML page, and insert its tables into a
//! Markdown page.

use std::fs;
use std::path::{Path, PathBuf};

use charts::markdown;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::load_report::LoadRecord;
use super::range_report::RangeReport;
use super::report::{self, Report};
use crate::html;
use crate::new_file::{NewFile, refuse_same};
use crate::prelude::*;

const EXAMPLES: &str = "\
Examples:
  filterblock bench report result.json
  filterblock bench report result.json --html report.html
  filterblock bench report result.json --filter by-level --svg point-miss.svg
  filterblock bench report benches/record/point-miss.json --markdown docs/BENCHMARKS.md

--markdown replaces the lines between `<!-- bench report: NAME -->` and `<!-- end -->`. NAME is one of:
  machine   the machine, the settings and the false negatives
  absent    times of gets of absent keys
  present   times of gets of present keys
and of a record of range-miss:
  range-settings  the machine, the settings and the false negatives
  ranges          times of scans of ranges without a key, and of gets and scans in absent rows
and of a record of load:
  load-settings   the machine, the settings and the wrong answers
  loads           rates, amplification, stalls, longest put and get: median or maximum of the loads with equal \
settings (--seed may differ)
The rest of the file stays as it is. Without --markdown the command prints the whole report.

Exit status: 0 done; 2 an error.";

const BEGIN: &str = "<!-- bench report: ";

/// The options for the output files.
#[derive(clap::Args)]
pub struct OutputArguments {
    /// Write the results as JSON to FILE; `-` prints them instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the mean latencies of misses, with and without filters, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also write the results as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the files of --json, --svg and --html if they exist
    #[arg(long)]
    force: bool,
}

/// The output files. The command has checked that it can write them.
pub struct Outputs {
    json_to_stdout: bool,
    json: Option<NewFile>,
    svg: Option<NewFile>,
    page: Option<NewFile>,
}

impl OutputArguments {
    /// Checks, before a benchmark that may take minutes, that stdout and the files can be written.
    /// Returns an error if two of the files are the same, or if a file is among `inputs`.
    pub fn create(&self, inputs: Option<&Path>) -> Outcome<Outputs> {
        output::check_stdout()?;
        let json_to_stdout = self.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
        let json_path = self.json.as_deref().filter(|_| !json_to_stdout);
        let files = [("--json", json_path), ("--svg", self.svg.as_deref()), ("--html", self.html.as_deref())];
        let files: Vec<_> = files.into_iter().filter_map(|(option, path)| Some((option, path?))).collect();
        refuse_same(&files)?;
        let create = |path: Option<&Path>| path.map(|path| NewFile::create(path, self.force)).transpose();
        let json = create(json_path)?;
        let (svg, page) = (create(self.svg.as_deref())?, create(self.html.as_deref())?);
        [&json, &svg, &page].into_iter().flatten().try_for_each(|file| file.refuse_inputs(inputs))?;
        Ok(Outputs { json_to_stdout, json, svg, page })
    }
}

impl Outputs {
    /// Writes the files, and prints the report as text or as JSON.
    pub fn publish(
        self,
        report: &impl Serialize,
        svg: impl FnOnce() -> String,
        page: impl FnOnce() -> Outcome<String>,
        text: impl FnOnce() -> String,
    ) -> Outcome<()> {
        if let Some(file) = self.svg {
            file.publish(svg().as_bytes())?;
        }
        if let Some(file) = self.page {
            file.publish(page()?.as_bytes())?;
        }
        if let Some(file) = self.json {
            file.publish(output::json(report)?.as_bytes())?;
        }
        output::report(self.json_to_stdout, report, text)
    }
}

/// Print or draw the results in a JSON file of point-miss, range-miss or load
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The file that --json of `bench point-miss`, `bench range-miss` or `bench load` wrote
    record: PathBuf,
    /// Draw the mean latencies of misses, with filters and without, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw this filter of the record only; may be repeated [default: all]
    #[arg(long, value_name = "SPEC", requires = "svg")]
    filter: Vec<String>,
    /// Write the whole record as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the files of --svg and --html if they exist
    #[arg(long)]
    force: bool,
    /// Write the tables into this Markdown file, between their markers
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Outcome {
    output::check_stdout()?;
    let report = read(&arguments.record)?;
    if let Some(unknown) = arguments.filter.iter().find(|filter| !report.filters().contains(filter)) {
        let why = match report.filters() {
            [] => "only records of point-miss have a choice of filters; omit --filter".to_owned(),
            known => format!("the record has no such filter; choose one of {}", known.join(", ")),
        };
        return fail(format!("--filter {unknown}: {why}"));
    }
    let files = [("--svg", &arguments.svg), ("--html", &arguments.html), ("--markdown", &arguments.markdown)];
    let files: Vec<_> = files.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?))).collect();
    refuse_same(&files)?;
    let mut files = Vec::new();
    if let Some(path) = &arguments.svg {
        files.push((NewFile::create(path, arguments.force)?, report.svg(&arguments.filter)?));
    }
    if let Some(path) = &arguments.html {
        files.push((NewFile::create(path, arguments.force)?, report.page()?));
    }
    if let Some(path) = &arguments.markdown {
        let file = NewFile::create(path, true)?;
        let page = fs::read_to_string(path).map_err(|error| Failure::file(path, error))?;
        let filled = filled(&page, &report).map_err(|why| Failure::about(path, why))?;
        files.push((file, filled));
    }
    files.iter().try_for_each(|(file, _)| file.refuse_inputs([arguments.record.as_path()]))?;
    for (file, content) in files {
        file.publish(content.as_bytes())?;
    }
    if arguments.markdown.is_none() {
        output::print(&report.to_text())?;
    }
    Ok(Exit::Success)
}

enum Record {
    Points(Box<Report>),
    Ranges(Box<RangeReport>),
    Loads(LoadRecord),
}

const TABLES: [&str; 7] = ["machine", "absent", "present", "range-settings", "ranges", "load-settings", "loads"];

impl Record {
    fn filters(&self) -> &[String] {
        match self {
            Self::Points(report) => &report.settings.filters,
            Self::Ranges(_) | Self::Loads(_) => &[],
        }
    }

    fn svg(&self, filters: &[String]) -> Outcome<String> {
        match self {
            Self::Points(report) => Ok(report::draw(report, filters)),
            Self::Ranges(report) => Ok(report.svg()),
            Self::Loads(_) => fail("--svg: a record of loads has no picture; use --html"),
        }
    }

    fn page(&self) -> Outcome<String> {
        match self {
            Self::Points(report) => html::page("filterblock bench point-miss", report, html::plots::point_miss),
            Self::Ranges(report) => html::page("filterblock bench range-miss", report, html::plots::range_miss),
            Self::Loads(record) => html::page("filterblock bench load", record, html::plots::load),
        }
    }

    fn to_text(&self) -> String {
        match self {
            Self::Points(report) => report.to_text(),
            Self::Ranges(report) => report.to_text(),
            Self::Loads(record) => record.to_text(),
        }
    }

    fn markdown(&self, name: &str) -> Option<String> {
        match self {
            Self::Points(report) => report.markdown(name),
            Self::Ranges(report) => report.markdown(name),
            Self::Loads(record) => record.markdown(name),
        }
    }
}

/// The fields that tell the records of the benchmarks apart.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    loads: Option<IgnoredAny>,
    settings: SettingsFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SettingsFields {
    range_filters: Option<IgnoredAny>,
}

fn read(path: &Path) -> Outcome<Record> {
    let text = fs::read_to_string(path).map_err(|error| Failure::file(path, error))?;
    let fields = serde_json::from_str(&text).unwrap_or_default();
    let (bench, record) = match fields {
        Fields { loads: Some(_), .. } => (Some("load"), serde_json::from_str(&text).map(Record::Loads)),
        Fields { settings: SettingsFields { range_filters: Some(_) }, .. } => {
            (Some("range-miss"), serde_json::from_str(&text).map(Record::Ranges))
        }
        // A file without these fields is a record of point-miss, or no record at all.
        _ => (None, serde_json::from_str(&text).map(Record::Points)),
    };
    record.map_err(|error| {
        let path = path.display();
        Failure::Message(match bench {
            Some(bench) => format!(
                "{path}: not a record of bench {bench} ({error}); write one with \"filterblock bench {bench} --json FILE\""
            ),
            None => format!(
                "{path}: not a record of a benchmark; write one with --json of bench point-miss, range-miss or \
                 load"
            ),
        })
    })
}

/// Returns the page with the tables of the record between their markers. The text between the
/// markers of other kinds of record stays. Returns an error with the reason if the page has a wrong
/// marker, or no marker for this record.
fn filled(page: &str, report: &Record) -> Result<String, String> {
    let mut num_filled = 0;
    let filled = markdown::fill(page, BEGIN, |name| match report.markdown(name) {
        None if !TABLES.contains(&name) => markdown::unknown(&TABLES),
        table => {
            num_filled += usize::from(table.is_some());
            Ok(table)
        }
    })?;
    let name = match report {
        Record::Points(_) => "absent",
        Record::Ranges(_) => "ranges",
        Record::Loads(_) => "loads",
    };
    match num_filled {
        0 => Err(format!(
            "no marker for a table of this record; write the lines \"{BEGIN}{name} -->\" and \"<!-- end -->\" where the \
             table belongs"
        )),
        _ => Ok(filled),
    }
}
