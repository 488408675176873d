//! Formats the report of `filterblock parquet check`: a table and remarks for people, and JSON.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::DEFAULT_FPR;
use crate::prelude::*;
use charts::text::{quoted, quoted_path};
use filterblock_parquet::advice::{self, Ranges};
use filterblock_parquet::check::{self, CheckedChunk, CheckedFilter, Size, State};
use filterblock_parquet::engines;
use filterblock_parquet::filters::MAX_LEN_BYTES;
use filterblock_parquet::{Error, Footer, Leaf, PhysicalType};

/// The maximum number of row groups that a finding or a remark names.
const NAMED_MAX: usize = 5;

/// The report of all files.
#[derive(Default, Serialize)]
pub struct Report {
    pub files: Vec<FileReport>,
    /// The number of findings. If there are any and no file failed, the exit status is 1.
    pub findings: u64,
    /// The number of files that could not be checked, or not completely.
    pub failed: u64,
}

#[derive(Serialize)]
pub struct FileReport {
    file: String,
    row_groups: usize,
    columns: Vec<ColumnReport>,
    #[serde(skip)]
    given: Given,
    /// The messages about values that cannot be read.
    #[serde(skip)]
    pub unread: Vec<String>,
}

/// The options of the command that decide which columns have findings, and what the user should do.
#[derive(Clone, Copy)]
pub struct Given {
    /// Whether the user has named the columns, so that a missing filter is a finding.
    pub is_required: bool,
    pub fpr: f64,
}

impl Given {
    /// Returns the option --fpr for `parquet add` and a space, or nothing for the default.
    fn fpr_option(&self) -> String {
        if self.fpr == DEFAULT_FPR { String::new() } else { format!("--fpr {} ", self.fpr) }
    }
}

/// The filters of a column in a file.
#[derive(Serialize)]
struct ColumnReport {
    column: String,
    physical_type: &'static str,
    /// The number of row groups with a filter, damaged ones included.
    filters: u64,
    right: u64,
    oversized: u64,
    undersized: u64,
    damaged: u64,
    /// The number of sound filters because of which an engine loses rows. None of them counts as
    /// right, oversized or undersized.
    r#unsafe: u64,
    missing_lengths: u64,
    /// The number of distinct values that sound filters deny, summed over the row groups. Null
    /// without --values, for a Boolean column, or if no row group has both a sound filter and
    /// readable values.
    false_negatives: Option<u64>,
    /// The sum of the numbers of distinct values in the row groups, or null if one of these numbers
    /// is unknown.
    distinct_values: Option<u64>,
    is_estimate: bool,
    len_bytes: u64,
    /// The highest expected false-positive rate, or null without sound filters.
    fpr: Option<f64>,
    /// The number of reads that fetch all sound filters: 1 if they lie side by side, 0 if there are
    /// none.
    reads: usize,
    /// The engine that loses rows if the column has filters, and the reason, or null if no tested
    /// engine does.
    loses_rows: Option<String>,
    /// Whether `parquet add --force-type` added filters to the column.
    is_forced: bool,
    /// The reason why a filter may not help, or null if no reason is known.
    helps_little: Option<String>,
    /// Whether filters may help for the column.
    #[serde(skip)]
    is_advised: bool,
    /// The engines that use the filters of this column, or null if such a column was not tried.
    engines: Option<Vec<&'static str>>,
    findings: Vec<String>,
    remarks: Vec<String>,
    chunks: Vec<Value>,
}

impl FileReport {
    pub fn new(path: &Path, footer: &Footer, leaves: &[usize], checked: &[CheckedChunk], given: Given) -> Self {
        let file = path.display().to_string();
        let mut by_leaf: BTreeMap<usize, Vec<&CheckedChunk>> = BTreeMap::new();
        checked.iter().for_each(|chunk| by_leaf.entry(chunk.leaf).or_default().push(chunk));
        let ranges = footer.ranges(leaves);
        let mut by_path: BTreeMap<&str, usize> = BTreeMap::new();
        footer.leaves().iter().for_each(|leaf| *by_path.entry(&leaf.path).or_default() += 1);
        let column = |(&number, ranges): (&usize, &Vec<_>)| {
            let leaf = footer.leaves().get(number)?;
            let chunks = by_leaf.get(&number).cloned().unwrap_or_default();
            let is_ambiguous = by_path.get(&*leaf.path).is_some_and(|num| *num > 1);
            Some(Column { file: &file, footer, number, leaf, chunks, ranges, is_ambiguous, given }.report())
        };
        let columns = leaves.iter().zip(&ranges).filter_map(column).collect();
        let unread = checked.iter().filter_map(|chunk| chunk.unread.as_ref());
        let unread = unread.map(|error| format!("{}: {error}", printable(&file))).collect();
        Self { row_groups: footer.num_row_groups(), columns, file, given, unread }
    }

    pub fn num_findings(&self) -> u64 {
        self.columns.iter().map(|column| column.findings.len() as u64).sum()
    }

    pub fn has_filters(&self) -> bool {
        self.columns.iter().any(|column| column.filters > 0)
    }

    /// Returns the columns without filters for which filters may help, except for those with findings.
    pub fn advised(&self) -> Vec<&str> {
        let is_helpful = |column: &&ColumnReport| column.is_advised && column.findings.is_empty();
        self.columns.iter().filter(is_helpful).map(|column| column.column.as_str()).collect()
    }

    /// Returns the columns by their [`ColumnReport::state`], as one text.
    fn state(&self) -> String {
        let mut states: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for column in &self.columns {
            states.entry(column.state(self.row_groups)).or_default().push(printable(&column.column));
        }
        let states = states.iter().map(|(state, columns)| format!("{} {state}", columns.join(", ")));
        states.collect::<Vec<_>>().join("; ")
    }

    /// Returns the table, the findings, the remarks and a hint about columns without filters.
    pub fn text(&self) -> String {
        let header = ["column", "filters", "distinct values (sum)", "bytes", "highest FPR", "used by"];
        let table = output::table(header, self.columns.iter().map(|column| column.row(self.row_groups)), 2..5, &[]);
        let groups = count(self.row_groups as u64, "row group");
        let mut text = format!("{}: {groups}\n{table}\n", printable(&self.file));
        for column in &self.columns {
            for remark in column.findings.iter().chain(&column.remarks) {
                text += &format!("  {}: {remark}\n", printable(&column.column));
            }
        }
        let names = self.advised();
        if !names.is_empty() {
            text += &format!(
                "  Filters may help for columns that queries compare with = or IN: filterblock parquet add {} {} {}-o \
                 OUT\n",
                quoted_path(&printable(&self.file)),
                of_columns(&names),
                self.given.fpr_option()
            );
        }
        text
    }
}

impl Report {
    /// Returns a line for each group of files whose columns are alike, the largest group first. `files` is how
    /// the user named the files.
    pub fn summary(&self, files: &str) -> String {
        let mut groups: BTreeMap<String, Vec<&FileReport>> = BTreeMap::new();
        self.files.iter().for_each(|file| groups.entry(file.state()).or_default().push(file));
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, files)| std::cmp::Reverse(files.len()));
        let line = |(state, files): &(String, Vec<&FileReport>)| {
            let first = files.first().map_or("", |file| &file.file);
            let first = if groups.len() > 1 { format!(" (such as {})", printable(first)) } else { String::new() };
            format!("{}: {state}{first}\n", count(files.len() as u64, "file"))
        };
        let mut text: String = groups.iter().map(line).collect();
        if self.findings > 0 {
            text += &format!("{}; --each names the files, and says what to do\n", count(self.findings, "finding"));
        }
        if let Some(file) = self.files.iter().find(|file| !file.advised().is_empty()) {
            text += &format!(
                "Filters may help for columns without them: filterblock parquet add {files} --advised {}-o OUT\n",
                file.given.fpr_option()
            );
        }
        text
    }
}

impl ColumnReport {
    /// Returns the verdicts about the filters: `none` for example, or `undersized, damaged`.
    fn state(&self, row_groups: usize) -> String {
        let denied = self.false_negatives.unwrap_or(0);
        let lacks_some = self.filters > 0 && self.filters < row_groups as u64;
        let parts = self.verdicts().map(|(_, name)| name).chain((self.filters == 0).then_some("none"));
        let parts = parts.chain(lacks_some.then_some("missing in row groups"));
        let parts = parts.chain((self.missing_lengths > 0).then_some("without length"));
        parts.chain((denied > 0).then_some("denying values")).collect::<Vec<_>>().join(", ")
    }

    /// Returns how many filters are right, oversized and so on, without zeros.
    fn verdicts(&self) -> impl Iterator<Item = (u64, &'static str)> {
        let verdicts = [
            (self.right, "right"),
            (self.oversized, "oversized"),
            (self.undersized, "undersized"),
            (self.damaged, "damaged"),
            (self.r#unsafe, "unsafe"),
        ];
        verdicts.into_iter().filter(|(num, _)| *num > 0)
    }

    fn row(&self, row_groups: usize) -> [String; 6] {
        let verdicts = self.verdicts().map(|(num, name)| format!("{num} {name}"));
        let filters = match (self.filters, &self.helps_little) {
            (0, Some(why)) => format!("none; reason against a filter: {why}"),
            (0, None) => "none".into(),
            (num, _) => {
                format!("in {num} of {row_groups} row groups: {}", verdicts.collect::<Vec<_>>().join(", "))
            }
        };
        let about = if self.is_estimate { "about " } else { "" };
        let used_by = match &self.engines {
            _ if self.r#unsafe > 0 || self.filters == 0 && self.loses_rows.is_some() => "an engine loses rows".into(),
            None => "not tried".into(),
            Some(engines) if engines.is_empty() => "no engine".into(),
            Some(engines) => engines.join(", "),
        };
        [
            printable(&self.column),
            filters,
            self.distinct_values.map_or_else(|| "unknown".into(), |num| format!("{about}{}", thousands(num))),
            thousands(self.len_bytes),
            self.fpr.map_or_else(|| "-".into(), percent),
            used_by,
        ]
    }
}

/// The data from which the report of a column is made.
struct Column<'a> {
    file: &'a str,
    footer: &'a Footer,
    number: usize,
    leaf: &'a Leaf,
    chunks: Vec<&'a CheckedChunk>,
    ranges: &'a Ranges,
    is_ambiguous: bool,
    given: Given,
}

impl Column<'_> {
    fn report(&self) -> ColumnReport {
        let loss = self.footer.loss_of_filters(self.number);
        let with_size = |size| self.sound().filter(|(_, filter)| loss.is_none() && filter.size == size).count() as u64;
        let distinct: Option<Vec<u64>> = self.chunks.iter().map(|chunk| chunk.distinct).collect();
        let without = self.chunks.iter().filter(|chunk| matches!(chunk.state, State::Missing)).count();
        let damaged = self.groups(is_damaged);
        let denied = self.sound().filter_map(|(_, filter)| filter.false_negatives);
        ColumnReport {
            column: self.leaf.path.to_string(),
            physical_type: self.leaf.physical_type.map_or("unknown", PhysicalType::name),
            filters: (self.chunks.len() - without) as u64,
            right: with_size(Size::Right),
            oversized: with_size(Size::Oversized),
            undersized: with_size(Size::Undersized),
            damaged: damaged.len() as u64,
            r#unsafe: loss.map_or(0, |_| self.sound().count() as u64),
            missing_lengths: self.groups(lacks_length).len() as u64,
            false_negatives: denied.reduce(|a, b| a + b),
            distinct_values: distinct.map(|numbers| numbers.iter().sum()),
            is_estimate: self.chunks.iter().any(|chunk| chunk.is_estimate),
            len_bytes: self.sound().map(|(_, filter)| filter.len_bytes).sum(),
            fpr: self.sound().map(|(_, filter)| filter.fpr).reduce(f64::max),
            reads: check::num_reads(&self.chunks),
            loses_rows: self.leaf.loss().map(|loss| format!("{} {}", loss.engine, loss.reason)),
            is_forced: self.footer.is_forced(self.number),
            helps_little: self.advice().helps_little(),
            is_advised: self.advice().is_advised(),
            engines: engines::of(self.leaf),
            findings: self.findings(),
            remarks: self.remarks(),
            chunks: self.chunks.iter().map(|chunk| chunk_report(chunk)).collect(),
        }
    }

    /// Returns the sound filters with their row groups.
    fn sound(&self) -> impl Iterator<Item = (usize, &CheckedFilter)> {
        self.chunks.iter().filter_map(|chunk| match &chunk.state {
            State::Sound(filter) => Some((chunk.row_group, filter)),
            _ => None,
        })
    }

    fn groups(&self, is: fn(&CheckedChunk) -> bool) -> Vec<usize> {
        self.chunks.iter().filter(|chunk| is(chunk)).map(|chunk| chunk.row_group).collect()
    }

    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let replace = self.replace();
        for chunk in &self.chunks {
            match &chunk.state {
                State::Damaged { error, .. } => findings.push(format!(
                    "row group {}: the filter cannot be used: {}; {replace}",
                    chunk.row_group,
                    error.problem()
                )),
                State::Sound(CheckedFilter { false_negatives: Some(num @ 1..), .. }) => findings.push(format!(
                    "row group {}: the filter denies {} of its row group, so readers lose rows; {replace}",
                    chunk.row_group,
                    count(*num, "value")
                )),
                _ => {}
            }
        }
        let (missing, loss) = (self.groups(is_missing), self.footer.loss_of_filters(self.number));
        if let Some(loss) = loss.filter(|_| self.chunks.iter().any(|chunk| !matches!(chunk.state, State::Missing))) {
            let mark = if self.footer.is_forced(self.number) { "added with --force-type: " } else { "" };
            findings.push(format!("{mark}the column has {loss}; {replace}"));
        }
        if self.given.is_required && !missing.is_empty() {
            let next = match self.leaf.loss() {
                Some(loss) => format!("the column has {loss}; omit this column"),
                None => self.command(&self.options("")),
            };
            findings.push(format!("{} without a filter; {next}", named(&missing)));
        }
        let small = self.groups(is_undersized);
        if !small.is_empty() && loss.is_none() {
            // At the limit, `needed_blocks` may be capped. A new filter could be undersized too.
            let needs_limit = |filter: &CheckedFilter| filter.needed_blocks as u64 * 32 >= MAX_LEN_BYTES;
            let mut undersized = self.sound().filter(|(_, filter)| filter.size == Size::Undersized);
            let next = match undersized.all(|(_, filter)| needs_limit(filter)) {
                true => "a filter has at most 128 MiB, so write smaller row groups",
                false => replace.as_str(),
            };
            findings.push(format!("{}: the filter is undersized; {next}", named(&small)));
        }
        let without = self.groups(lacks_length);
        if !without.is_empty() && loss.is_none() {
            let fix = self.command("--fix-lengths ");
            findings.push(format!("{}: the footer lacks the filter's length; {fix}", named(&without)));
        }
        findings
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let long: Vec<_> = self.sound().filter(|(_, filter)| filter.size == Size::Oversized).collect();
        if !long.is_empty() && self.footer.loss_of_filters(self.number).is_none() {
            let groups: Vec<usize> = long.iter().map(|(group, _)| *group).collect();
            let bytes = |blocks: fn(&CheckedFilter) -> usize| {
                thousands(long.iter().map(|(_, filter)| blocks(filter) as u64 * 32).sum::<u64>())
            };
            remarks.push(format!(
                "{}: oversized filters: {} bytes where {} suffice; {}",
                named(&groups),
                bytes(|filter| filter.num_blocks),
                bytes(|filter| filter.needed_blocks),
                self.replace()
            ));
        }
        let is_void = |chunk: &&&CheckedChunk| {
            self.footer.chunk(chunk.row_group, self.number).is_some_and(|chunk| chunk.has_void_filter)
        };
        let void: Vec<usize> = self.chunks.iter().filter(is_void).map(|chunk| chunk.row_group).collect();
        if !void.is_empty() {
            remarks.push(format!(
                "{}: no filter: the footer has a bloom_filter_offset of 0 or below, or a bloom_filter_length alone",
                named(&void)
            ));
        }
        let reads = check::num_reads(&self.chunks);
        if reads > 1 {
            remarks.push(format!(
                "the filters lie in {reads} places, so a reader needs {reads} reads; {}",
                self.replace()
            ));
        }
        remarks
    }

    /// Returns the advice to replace the filters of the column. `parquet add` refuses Boolean columns,
    /// types with which an engine loses rows, and columns that share a path.
    fn replace(&self) -> String {
        if self.leaf.physical_type == Some(PhysicalType::Boolean) || self.leaf.loss().is_some() {
            "write the file again without filters for this column".to_owned()
        } else if self.is_ambiguous {
            "several columns have this path, so write the file again with another name for one of them".to_owned()
        } else {
            self.command(&self.options("--replace "))
        }
    }

    /// Returns the options of `parquet add` for new filters of the column.
    fn options(&self, more: &str) -> String {
        format!("{} {}{more}", of_columns(&[&self.leaf.path]), self.given.fpr_option())
    }

    /// Returns the advice to run `parquet add` with these options.
    fn command(&self, options: &str) -> String {
        format!("run filterblock parquet add {} {options}-o OUT", quoted_path(&printable(self.file)))
    }

    fn advice(&self) -> advice::Column<'_> {
        let Self { footer, number: leaf, is_ambiguous, ranges, .. } = *self;
        advice::Column { footer, leaf, chunks: &self.chunks, is_ambiguous, ranges }
    }
}

/// Returns the options `--column` for these columns. A name that begins with `-` needs the form with `=`, and
/// a name with a comma an option of its own.
fn of_columns(names: &[&str]) -> String {
    let (alone, plain): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| name.starts_with('-') || name.contains(','));
    let plain = (!plain.is_empty()).then(|| format!("--column {}", quoted(&printable(&plain.join(",")))));
    let alone = alone.into_iter().map(|name| format!("--column={}", quoted(&printable(name))));
    plain.into_iter().chain(alone).collect::<Vec<_>>().join(" ")
}

/// Returns whether a filter is missing. An empty row group needs none.
fn is_missing(chunk: &CheckedChunk) -> bool {
    matches!(chunk.state, State::Missing) && chunk.num_values > 0
}

fn is_damaged(chunk: &CheckedChunk) -> bool {
    matches!(chunk.state, State::Damaged { .. })
}

fn is_undersized(chunk: &CheckedChunk) -> bool {
    matches!(chunk.state, State::Sound(CheckedFilter { size: Size::Undersized, .. }))
}

fn lacks_length(chunk: &CheckedChunk) -> bool {
    matches!(chunk.state, State::Sound(CheckedFilter { has_length: false, .. }))
}

/// Returns the row groups as text: `row groups 0, 1, 2, 3, 4 and 2 more`.
fn named(groups: &[usize]) -> String {
    let first: Vec<String> = groups.iter().take(NAMED_MAX).map(usize::to_string).collect();
    let more = groups.len().saturating_sub(NAMED_MAX);
    let plural = if groups.len() == 1 { "" } else { "s" };
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("row group{plural} {}{rest}", first.join(", "))
}

/// Returns the JSON of a column chunk. `filter` is `missing`, `damaged`, `unsafe`, `right`, `oversized` or
/// `undersized`. `unread` is the reason why the values cannot be read, or null if they were read or not
/// needed.
fn chunk_report(chunk: &CheckedChunk) -> Value {
    let (filter, damaged) = match &chunk.state {
        State::Sound(filter) => (Some(filter), None),
        State::Damaged { range, error } => (None, Some((*range, error.problem()))),
        State::Missing => (None, None),
    };
    let verdict = match (filter.map(|filter| filter.size), &damaged) {
        _ if filter.is_some_and(|filter| filter.loss.is_some()) => "unsafe",
        (Some(Size::Right), _) => "right",
        (Some(Size::Oversized), _) => "oversized",
        (Some(Size::Undersized), _) => "undersized",
        (None, Some(_)) => "damaged",
        (None, None) => "missing",
    };
    let range = damaged.as_ref().map(|(range, _)| range);
    json!({
        "row_group": chunk.row_group,
        "filter": verdict,
        "offset": filter.map(|filter| filter.offset).or(range.map(|range| range.offset)),
        "len_bytes": filter.map(|filter| filter.len_bytes).or(range.and_then(|range| range.len_bytes)),
        "blocks": filter.map(|filter| filter.num_blocks),
        "needed_blocks": filter.map(|filter| filter.needed_blocks),
        "has_length": filter.map(|filter| filter.has_length),
        "fpr": filter.map(|filter| filter.fpr),
        "distinct_values": chunk.distinct,
        "is_estimate": chunk.is_estimate,
        "false_negatives": filter.and_then(|filter| filter.false_negatives),
        "damage": damaged.as_ref().map(|(_, reason)| reason),
        "unread": chunk.unread.as_ref().map(Error::to_string),
    })
}
