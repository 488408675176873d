//! Makes the plots of a page from the values of its report.

use serde_json::Value;

use super::{flat, label, shown};
use charts::bars::{Bar, Bars, Group};
use charts::frame::Axis;
use charts::theme::Colour;

/// The colour of measurements with filters, and of filters in general.
const WITH_FILTERS: Colour = Colour::Series(0);
/// The colour of measurements without filters.
const WITHOUT_FILTERS: Colour = Colour::Faint;
/// The colour of the current filters in --what-if, and of classical variants.
const CURRENT: Colour = Colour::Series(1);

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

    fn bars(self, title: &str, unit: &str, scale: Scale) -> Bars {
        let values = || self.groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value);
        let most = values().fold(0.0, f64::max);
        let end = |value: f64| shown(self.field, &Value::from(value));
        let axis = match scale {
            Scale::Logarithmic if most > 0.0 => {
                let least = values().filter(|value| *value > 0.0).fold(most, f64::min);
                Axis::decades(String::new(), least, most, end)
            }
            _ => {
                let to = if scale == Scale::Share || most <= 0.0 { 1.0 } else { most };
                let labels = [0.0, to].map(|value| (value, end(value))).into();
                Axis { title: String::new(), from: 0.0, to, is_logarithmic: false, labels }
            }
        };
        let (title, subtitle, nothing) = (title.into(), unit.into(), String::new());
        Bars { title, subtitle, description: nothing.clone(), axis, groups: self.groups, caption: nothing }
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

/// Returns the plots of `bench point-miss`: times and reads in each layout, with filters and
/// without.
pub fn point_miss(report: &Value) -> Vec<Bars> {
    let plot = |title: &str, unit, workload: &str, field| {
        let mut plot = Plot::new(field);
        for layout in rows(report, "/settings/layouts").filter_map(Value::as_str) {
            let of_layout = rows(report, "/rows").filter(|row| text(row, "layout") == layout);
            for row in of_layout.filter(|row| text(row, "workload") == workload) {
                let is_asked = row.get("filters_consulted").and_then(Value::as_bool) == Some(true);
                let (colour, note) = if is_asked { (WITH_FILTERS, "") } else { (WITHOUT_FILTERS, ", filters off") };
                plot.add(layout, &format!("{}{note}", text(row, "filter")), colour, row);
            }
        }
        plot.bars(title, unit, Scale::Logarithmic)
    };
    vec![
        plot("Mean time of a get of an absent key", "ns", "absent", "mean_ns"),
        plot("Mean time of a get of a present key", "ns", "present", "mean_ns"),
        plot("Data blocks read for an absent key", "blocks per get", "absent", "block_reads_per_get"),
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
        what_if.bars("Size of each filter for the same keys", "bytes", Scale::FromZero),
        fill.bars("Fill ratio", "share of the bits that are set", Scale::Share),
        rates.bars("Expected false-positive rate of each filter", "in the order of the file", Scale::FromZero),
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
        plot.bars(title, unit, scale)
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
