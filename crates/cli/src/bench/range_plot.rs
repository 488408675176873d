//! Draws the picture of `bench range-miss`: the mean latency of queries that find nothing, with
//! filters and without.

use charts::bars::Group;

use super::super::text::count;
use super::plot::{bars, misses};
use super::range_report::{RangeReport, RangeRow};

/// Draws the means as an SVG document: a group of bars for each kind of query and length of the
/// ranges. A group has one bar without filters, measured in the first store of the group.
pub fn draw(report: &RangeReport) -> String {
    misses(
        ["Mean latency of queries that find nothing", "Mean latency of a query that finds nothing."],
        format!("{} in five sorted runs; data in the page cache, no block cache", count(report.settings.keys, "key")),
        "ns per query (logarithmic)".into(),
        groups(report),
        &report.machine,
    )
}

fn groups(report: &RangeReport) -> Vec<Group> {
    let mut kinds: Vec<(&str, Option<u64>)> = Vec::new();
    for row in &report.rows {
        if !kinds.contains(&(&row.query, row.range_len)) {
            kinds.push((&row.query, row.range_len));
        }
    }
    let group = |(query, range_len): (&str, Option<u64>)| {
        let of_kind = |consulted| {
            let is_kind = move |row: &&RangeRow| {
                row.query == query && row.range_len == range_len && row.filters_consulted == consulted
            };
            report.rows.iter().filter(is_kind)
        };
        let with = of_kind(true).map(|row| (row.filter.as_str(), row.bits_per_key, row.mean_ns));
        let bars = bars(with, of_kind(false).next().map(|row| row.mean_ns));
        let heading = match range_len {
            Some(len) => format!("Scan of {}, {query}", count(len, "integer")),
            None => format!("{}{}", query.get(..1).unwrap_or("").to_uppercase(), query.get(1..).unwrap_or("")),
        };
        Group { heading, bars }
    };
    kinds.into_iter().map(group).collect()
}
