//! Makes the plots of a page from the values of its report.

use serde_json::Value;

use super::{flat, is_share, label, shown};
use crate::prelude::*;
use charts::bars::{Bar, Bars, Group};
use charts::frame::{Axis, plain};
use charts::text::{distinct, headline, whole};
use charts::theme::Colour;

/// The colour of measurements with filters, and of filters in general.
const WITH_FILTERS: Colour = Colour::Series(0);
/// The colour of measurements without filters.
const WITHOUT_FILTERS: Colour = Colour::Faint;
/// The colour of the current filters in --what-if, and of classical variants.
const CURRENT: Colour = Colour::Series(1);

/// The end of the label of a measurement without filters.
const OFF: &str = ", filters off";
const LEGEND: [(&str, Colour); 2] = [("with filters", WITH_FILTERS), ("filters off", WITHOUT_FILTERS)];

/// The scale from values to lengths of bars.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    FromZero,
    /// From 0 to 1.
    Share,
    /// From a power of ten to a power of ten, around all positive values.
    Logarithmic,
}

/// A plot of one field of the rows of a report.
struct Plot {
    field: &'static str,
    groups: Vec<Group>,
}

impl Plot {
    fn new(field: &'static str) -> Self {
        Self { field, groups: Vec::new() }
    }

    /// Adds a bar for a row, unless its field is missing or not a number. Successive bars with the
    /// same `heading` form a group.
    fn add(&mut self, heading: &str, label_text: &str, colour: Colour, row: &Value) {
        let fields = flat(row);
        let found = fields.iter().find(|(name, _)| name == self.field);
        let Some((found, value)) = found.and_then(|(_, found)| Some((found, found.as_f64()?))) else { return };
        let details = fields.iter().filter(|(_, value)| !value.is_null());
        let details = details.map(|(name, value)| format!("{}: {}", label(name), shown(name, value))).collect();
        let bar = Bar { details, ..Bar::new(label_text, value, shown(self.field, found), colour) };
        match self.groups.last_mut() {
            Some(group) if group.heading == heading => group.bars.push(bar),
            _ => self.groups.push(Group { heading: heading.into(), bars: vec![bar] }),
        }
    }

    /// Makes the picture. Its legend has the entries of `legend` whose colours occur, if there are several.
    fn bars(self, title: &str, unit: &str, scale: Scale, legend: &[(&str, Colour)]) -> Bars {
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let most = bars().map(|bar| bar.value).fold(0.0, f64::max);
        let is_share = is_share(self.field);
        let axis = match scale {
            Scale::Logarithmic if most > 0.0 => {
                let least = bars().map(|bar| bar.value).filter(|value| *value > 0.0).fold(most, f64::min);
                Axis::decades(String::new(), least, most, |value| tick(value, is_share))
            }
            _ => {
                let to = if scale == Scale::Share || most <= 0.0 { 1.0 } else { most };
                // Rates are drawn as percentages, so the percentages are round numbers.
                let factor = if is_share { 100.0 } else { 1.0 };
                let Axis { labels, .. } = Axis::from_zero(String::new(), to * factor);
                let label = |(value, label): (f64, String)| match (is_share, value >= 1_000.0) {
                    (true, _) => (value / factor, format!("{label} %")),
                    (false, true) => (value, thousands(whole(value))),
                    (false, false) => (value, label),
                };
                let labels = labels.into_iter().map(label).collect();
                Axis { title: String::new(), from: 0.0, to, is_logarithmic: false, labels }
            }
        };
        let is_used = |colour: Colour| bars().any(|bar| bar.colour == colour);
        let legend = legend.iter().filter(|(_, colour)| is_used(*colour));
        let legend: Vec<_> = legend.map(|(name, colour)| ((*name).to_owned(), *colour)).collect();
        Bars {
            title: title.into(),
            subtitle: unit.into(),
            description: String::new(),
            axis,
            legend: if legend.len() > 1 { legend } else { Vec::new() },
            groups: self.groups,
            caption: String::new(),
        }
    }

    /// Returns a sentence with the factors between the bars with filters and those without. Each bar is
    /// compared with the bar of the same filter in its group.
    fn headline(&self) -> String {
        let ratios = self.groups.iter().flat_map(|group| {
            let without = || group.bars.iter().filter(|bar| bar.colour == WITHOUT_FILTERS);
            let with = group.bars.iter().filter(|bar| bar.colour == WITH_FILTERS);
            with.filter_map(move |bar| {
                let other = without().find(|other| other.label == format!("{}{OFF}", bar.label))?;
                Some(other.value / bar.value)
            })
        });
        headline(ratios).map_or(String::new(), |less| format!(": {less} with filters"))
    }
}

/// Formats a power of ten for an axis.
fn tick(value: f64, is_share: bool) -> String {
    match is_share {
        true => format!("{} %", plain(value * 100.0)),
        false if value >= 1_000.0 => thousands(whole(value)),
        false => plain(value),
    }
}

/// Returns the values of the list at `pointer` in the report. Returns nothing if there is no such
/// list.
fn rows<'a>(report: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    report.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether the filters were asked in a measurement, its colour, and the end of its label.
fn series(row: &Value) -> (Colour, &'static str) {
    let is_asked = row.get("filters_consulted").and_then(Value::as_bool) == Some(true);
    if is_asked { (WITH_FILTERS, "") } else { (WITHOUT_FILTERS, OFF) }
}

/// Returns the plots of `bench point-miss`: times and reads in each layout, with filters and
/// without.
pub fn point_miss(report: &Value) -> Vec<Bars> {
    let plot = |title: &str, unit, workload: &str, field| {
        let mut plot = Plot::new(field);
        for layout in rows(report, "/settings/layouts").filter_map(Value::as_str) {
            let of_layout = rows(report, "/rows").filter(|row| text(row, "layout") == layout);
            for row in of_layout.filter(|row| text(row, "workload") == workload) {
                let (colour, off) = series(row);
                plot.add(layout, &format!("{}{off}", text(row, "filter")), colour, row);
            }
        }
        let title = format!("{title}{}", plot.headline());
        plot.bars(&title, unit, Scale::Logarithmic, &LEGEND)
    };
    vec![
        plot("Mean time of a get of an absent key", "ns", "absent", "mean_ns"),
        plot("Mean time of a get of a present key", "ns", "present", "mean_ns"),
        plot("Data blocks read for an absent key", "blocks per get", "absent", "block_reads_per_get"),
    ]
}

/// Returns the plots of `bench range-miss`: times and reads of each kind of query, with filters and
/// without.
pub fn range_miss(report: &Value) -> Vec<Bars> {
    let plot = |title: &str, unit, field| {
        let kind = |row: &Value| match row.get("range_len").and_then(Value::as_u64) {
            Some(len) => format!("scan of {}, {}", count(len, "integer"), text(row, "query")),
            None => text(row, "query").to_owned(),
        };
        let mut plot = Plot::new(field);
        for wanted in distinct(rows(report, "/rows").map(kind)) {
            for row in rows(report, "/rows").filter(|row| kind(row) == wanted) {
                let (colour, off) = series(row);
                plot.add(&wanted, &format!("{}{off}", text(row, "filter")), colour, row);
            }
        }
        let title = format!("{title}{}", plot.headline());
        plot.bars(&title, unit, Scale::Logarithmic, &LEGEND)
    };
    vec![
        plot("Mean time of a query that finds nothing", "ns", "mean_ns"),
        plot("Data blocks read for such a query", "blocks per query", "block_reads_per_query"),
    ]
}

/// Returns the plots of `bench load`: speed and amplification of each load.
pub fn load(record: &Value) -> Vec<Bars> {
    let plot = |title: &str, unit, field| {
        let mut plot = Plot::new(field);
        for (number, row) in (1..).zip(rows(record, "/loads")) {
            let keys = row.pointer("/settings/keys").and_then(Value::as_u64).unwrap_or(0);
            plot.add("", &format!("{number}: {}", count(keys, "key")), WITH_FILTERS, row);
        }
        plot.bars(title, unit, Scale::FromZero, &[])
    };
    vec![
        plot("Speed of the load", "puts per second", "load_puts_per_second"),
        plot("Write amplification", "bytes written per byte of keys and values", "load_write_amplification"),
    ]
}

/// Returns the plots of `inspect`: the sizes of --what-if, the fill ratio of a filter block, and
/// the expected FPR of each filter of another engine's file.
pub fn inspect(report: &Value) -> Vec<Bars> {
    let mut what_if = Plot::new("len_bytes");
    for row in rows(report, "/what_if/filters") {
        let is_present = row.get("is_present").and_then(Value::as_bool) == Some(true);
        let (colour, note) = if is_present { (CURRENT, " (current)") } else { (WITH_FILTERS, "") };
        what_if.add("", &format!("{}{note}", text(row, "filter")), colour, row);
    }
    let mut fill = Plot::new("fill");
    fill.add("", text(report, "kind"), WITH_FILTERS, report);
    let mut rates = Plot::new("expected_false_positive_rate");
    for (number, row) in (1..).zip(rows(report, "/filters")) {
        let chunk = match (row.get("row_group"), text(row, "column")) {
            (Some(group), column) if !column.is_empty() => format!("{column}, row group {group}"),
            _ => format!("filter {number}, {}", text(row, "kind")),
        };
        rates.add("", &chunk, WITH_FILTERS, row);
    }
    vec![
        what_if.bars(
            "Size of each filter for the same keys",
            "bytes",
            Scale::FromZero,
            &[("current", CURRENT), ("other filters", WITH_FILTERS)],
        ),
        fill.bars("Fill ratio", "share of the bits that are set", Scale::Share, &[]),
        rates.bars("Expected false-positive rate of each filter", "in the order of the file", Scale::FromZero, &[]),
    ]
}

/// Returns the plots of `plan`: size, FPR, cache lines and time of each filter.
pub fn plan(report: &Value) -> Vec<Bars> {
    let plot = |title: &str, unit, scale, field| {
        let mut plot = Plot::new(field);
        for row in rows(report, "/filters") {
            let in_memory_only = row.get("in_memory_only").and_then(Value::as_bool) == Some(true);
            let group = if in_memory_only { "Classical variants, in memory only" } else { "Filter blocks" };
            let colour = if in_memory_only { CURRENT } else { WITH_FILTERS };
            plot.add(group, text(row, "filter"), colour, row);
        }
        let legend = [("filter blocks", WITH_FILTERS), ("in memory only", CURRENT)];
        plot.bars(title, unit, scale, &legend)
    };
    vec![
        plot("Size", "bits per key", Scale::FromZero, "bits_per_key"),
        plot(
            "Expected false-positive rate",
            "share of the absent keys",
            Scale::Logarithmic,
            "expected_false_positive_rate",
        ),
        plot("Cache lines to query an absent key", "lines", Scale::FromZero, "lines_if_absent"),
        plot("Measured time to query an absent key", "ns", Scale::FromZero, "measured_ns_if_absent"),
    ]
}
