//! Makes the plots of a page from the values of its report.

use serde_json::Value;

use super::{Bars, Scale};

/// The number of the colour of measurements with filters, and of filters in general.
const WITH_FILTERS: usize = 0;
/// The number of the colour of measurements without filters.
const WITHOUT_FILTERS: usize = 3;
/// The number of the colour of the current filters in --what-if, and of classical variants.
const CURRENT: usize = 1;

/// Returns the values of the list at `pointer` in the report. Returns nothing if there is no such
/// list.
fn rows<'a>(report: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    report.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the text in a field of a row, or an empty text if there is none.
fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the plots of `bench point-miss`: times and reads in each layout, with filters and
/// without.
pub fn point_miss(report: &Value) -> Vec<Bars> {
    let plot = |title: &str, unit, workload: &str, field: &str| {
        let mut bars = Bars::new(title, unit, Scale::Logarithmic);
        for layout in rows(report, "/settings/layouts").filter_map(Value::as_str) {
            let of_layout = rows(report, "/rows").filter(|row| text(row, "layout") == layout);
            for row in of_layout.filter(|row| text(row, "workload") == workload) {
                let is_asked = row.get("filters_consulted").and_then(Value::as_bool) == Some(true);
                let (series, note) = if is_asked { (WITH_FILTERS, "") } else { (WITHOUT_FILTERS, ", filters off") };
                bars.add(layout, &format!("{}{note}", text(row, "filter")), series, row, field);
            }
        }
        bars
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
    let mut what_if = Bars::new("Size of each filter for the same keys", "bytes", Scale::FromZero);
    for row in rows(report, "/what_if/filters") {
        let is_present = row.get("is_present").and_then(Value::as_bool) == Some(true);
        let (series, note) = if is_present { (CURRENT, " (current)") } else { (WITH_FILTERS, "") };
        what_if.add("", &format!("{}{note}", text(row, "filter")), series, row, "len_bytes");
    }
    let mut fill = Bars::new("Fill ratio", "share of the bits that are set", Scale::Share);
    fill.add("", text(report, "kind"), WITH_FILTERS, report, "fill");
    let mut rates =
        Bars::new("Expected false-positive rate of each filter", "in the order of the file", Scale::FromZero);
    for (number, row) in (1..).zip(rows(report, "/filters")) {
        let chunk = match (row.get("row_group"), text(row, "column")) {
            (Some(group), column) if !column.is_empty() => format!("{column}, row group {group}"),
            _ => format!("filter {number}, {}", text(row, "kind")),
        };
        rates.add("", &chunk, WITH_FILTERS, row, "expected_false_positive_rate");
    }
    vec![what_if, fill, rates]
}

/// Returns the plots of `plan`: size, FPR, cache lines and time of each filter.
pub fn plan(report: &Value) -> Vec<Bars> {
    let plot = |title: &str, unit, scale, field: &str| {
        let mut bars = Bars::new(title, unit, scale);
        for row in rows(report, "/filters") {
            let in_memory_only = row.get("in_memory_only").and_then(Value::as_bool) == Some(true);
            let group = if in_memory_only { "Classical variants, in memory only" } else { "Filter blocks" };
            let series = if in_memory_only { CURRENT } else { WITH_FILTERS };
            bars.add(group, text(row, "filter"), series, row, field);
        }
        bars
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
