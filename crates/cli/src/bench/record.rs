//! `filterblock bench report`: prints a record of `bench point-miss`, `bench range-miss` or `bench
//! load`. It can also draw the record, write it as an HTML page, and insert its tables into a
//! Markdown page.

use std::path::{Path, PathBuf};

use charts::markdown;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::super::failure::{Exit, Failure, Outcome};
use super::super::new_file::{NewFile, refuse_same};
use super::super::{html, output};
use super::load_record::LoadRecord;
use super::range_report::RangeReport;
use super::report::Report;
use super::{plot, range_plot};

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

/// Print or draw the results in a JSON file of point-miss, range-miss or load
#[derive(Debug, clap::Args)]
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
        return Err(Failure::Message(format!("--filter {unknown}: {why}")));
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
        let page = std::fs::read_to_string(path).map_err(|error| Failure::file(path, error))?;
        let filled = filled(&page, &report).map_err(|why| Failure::Message(format!("{}: {why}", path.display())))?;
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

/// The content of a record file.
#[derive(Debug)]
enum Record {
    Points(Box<Report>),
    Ranges(Box<RangeReport>),
    Loads(LoadRecord),
}

/// The names of the tables of a record of `bench point-miss`.
const POINT_TABLES: [&str; 3] = ["machine", "absent", "present"];
/// The names of the tables of a record of `bench range-miss`.
const RANGE_TABLES: [&str; 2] = ["range-settings", "ranges"];
/// The names of the tables of a record of `bench load`.
const LOAD_TABLES: [&str; 2] = ["load-settings", "loads"];

impl Record {
    /// Returns the filters that can be drawn alone.
    fn filters(&self) -> &[String] {
        match self {
            Self::Points(report) => &report.settings.filters,
            Self::Ranges(_) | Self::Loads(_) => &[],
        }
    }

    fn svg(&self, filters: &[String]) -> Outcome<String> {
        match self {
            Self::Points(report) => Ok(plot::draw(report, filters)),
            Self::Ranges(report) => Ok(range_plot::draw(report)),
            Self::Loads(_) => Err(Failure::Message("--svg: a record of loads has no picture; use --html".into())),
        }
    }

    fn page(&self) -> Outcome<String> {
        match self {
            Self::Points(report) => html::page("filterblock bench point-miss", report, html::plots::point_miss),
            Self::Ranges(report) => html::page("filterblock bench range-miss", report, |_| Vec::new()),
            Self::Loads(record) => html::page("filterblock bench load", record, |_| Vec::new()),
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
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Fields {
    loads: Option<IgnoredAny>,
    settings: SettingsFields,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SettingsFields {
    range_filters: Option<IgnoredAny>,
}

fn read(path: &Path) -> Outcome<Record> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, error))?;
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
                "{path}: not a record of a benchmark ({error}); write one with --json of bench point-miss, range-miss or \
                 load"
            ),
        })
    })
}

/// Returns the page with the tables of the record between their markers. The text between the
/// markers of other kinds of record stays. Returns an error with the reason if the page has a wrong
/// marker, or no marker for this record.
fn filled(page: &str, report: &Record) -> Result<String, String> {
    let known = [&POINT_TABLES[..], &RANGE_TABLES, &LOAD_TABLES].concat();
    let mut num_filled = 0;
    let filled = markdown::fill(page, BEGIN, |name| match report.markdown(name) {
        None if !known.contains(&name) => markdown::unknown(&known),
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

#[cfg(test)]
mod tests {
    use charts::check;

    use super::*;

    fn recorded() -> Box<Report> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/record/point-miss.json");
        match read(&path).unwrap() {
            Record::Points(report) => report,
            other => panic!("another record: {other:?}"),
        }
    }

    fn recorded_ranges() -> Box<RangeReport> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/record/range-miss.json");
        match read(&path).unwrap() {
            Record::Ranges(report) => report,
            other => panic!("another record: {other:?}"),
        }
    }

    #[test]
    fn each_record_fills_its_own_markers() {
        let page =
            "<!-- bench report: absent -->\nold\n<!-- end -->\n<!-- bench report: ranges -->\nold\n<!-- end -->\n";
        let points = filled(page, &Record::Points(recorded())).unwrap();
        assert!(
            points.starts_with("<!-- bench report: absent -->\n| ")
                && points.ends_with("ranges -->\nold\n<!-- end -->\n")
        );
        let ranges = filled(page, &Record::Ranges(recorded_ranges())).unwrap();
        assert!(
            ranges.starts_with("<!-- bench report: absent -->\nold\n") && ranges.contains("ranges -->\n| "),
            "{ranges}"
        );
        let only_points = "<!-- bench report: absent -->\n<!-- end -->\n";
        assert!(filled(only_points, &Record::Ranges(recorded_ranges())).unwrap_err().contains("ranges -->"));
    }

    #[test]
    fn the_error_of_a_damaged_record_names_its_benchmark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json");
        for (text, bench, fault) in [
            ("{\"loads\": [{}]}", "bench load", "missing field"),
            ("{\"settings\": {\"range_filters\": []}}", "bench range-miss", "missing field"),
            ("{\"settings\": 1}", "a benchmark", "invalid type"),
            ("", "a benchmark", "EOF"),
        ] {
            std::fs::write(&path, text).unwrap();
            let message = read(&path).unwrap_err().to_string();
            assert!(message.contains(&format!("record of {bench} ({fault}")), "{message}");
        }
    }

    #[test]
    fn the_picture_of_ranges_is_readable() {
        let mut report = recorded_ranges();
        check::is_readable(&range_plot::draw(&report));
        report.rows.iter_mut().for_each(|row| row.mean_ns *= 1e4);
        check::is_readable(&range_plot::draw(&report));
        report.rows.clear();
        assert!(range_plot::draw(&report).ends_with("</svg>\n"));
    }

    #[test]
    fn only_lines_between_markers_are_replaced() {
        let report = Record::Points(recorded());
        let page = "a\n<!-- bench report: absent -->\nold\n<!-- end -->\nb\n<!-- generated: x -->\nc\n<!-- end -->\n";
        let once = filled(page, &report).unwrap();
        assert!(once.starts_with("a\n<!-- bench report: absent -->\n| "), "{once}");
        assert!(once.ends_with("\n<!-- end -->\nb\n<!-- generated: x -->\nc\n<!-- end -->\n"), "{once}");
        assert_eq!(filled(&once, &report).unwrap(), once);
        for (page, why) in [
            ("nothing", "no marker"),
            ("a\n<!-- bench report: other -->\n<!-- end -->", "line 2: the marker <!-- bench report: other --> names"),
        ] {
            assert!(filled(page, &report).unwrap_err().contains(why), "{page}");
        }
    }

    #[test]
    fn the_table_of_absent_keys_has_every_store_and_every_layout_without_filters() {
        let report = recorded();
        let rows = report.markdown("absent").unwrap().lines().count() - 2;
        assert_eq!(rows, report.stores.len() + report.settings.layouts.len());
        assert!(report.markdown("machine").unwrap().contains(&report.settings.rounds.to_string()));
        for name in ["absent", "present"] {
            let table = report.markdown(name).unwrap();
            assert!(table.lines().all(|line| line.split('|').all(|cell| cell.len() <= 120)), "{table}");
        }
    }

    #[test]
    fn pictures_of_any_report_are_readable() {
        let mut report = recorded();
        let some = report.settings.filters.get(..1).unwrap().to_vec();
        for filters in [&[][..], &some] {
            let svg = plot::draw(&report, filters);
            check::is_readable(&svg);
            for text in ["1 sorted run", "no filters", "by-level", "times less"] {
                assert!(svg.contains(text), "{text}");
            }
        }
        for row in &mut report.rows {
            row.mean_ns *= 1e4;
            row.filter = format!("budget:{}:1073741824", row.filter);
        }
        check::is_readable(&plot::draw(&report, &[]));
        report.rows.clear();
        assert!(plot::draw(&report, &[]).ends_with("</svg>\n"));
    }
}
