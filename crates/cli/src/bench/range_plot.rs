//! Draws the picture of `bench range-miss`: the mean latency of queries that find nothing, with
//! filters and without.

use super::super::picture::Colour;
use super::super::picture::bars::{Bar, Bars, Group};
use super::super::picture::frame::Axis;
use super::super::text::{count, significant, thousands, whole};
use super::plot::{AXIS_FROM_NS, times_less};
use super::range_report::{RangeReport, RangeRow};

/// Draws the means as an SVG document: a group of bars for each kind of query and length of the
/// ranges. A group has one bar without filters, measured in the first store of the group.
pub fn draw(report: &RangeReport) -> String {
    let groups = groups(report);
    let slowest = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value).fold(AXIS_FROM_NS, f64::max);
    let to = 10f64.powf(slowest.log10().ceil().max(2.0));
    let bar = |bar: &Bar| format!("{} {}", bar.label, bar.value_text);
    let group =
        |group: &Group| format!("{}: {}.", group.heading, group.bars.iter().map(bar).collect::<Vec<_>>().join("; "));
    let described: Vec<String> = groups.iter().map(group).collect();
    Bars {
        title: "Mean latency of queries that find nothing".into(),
        subtitle: format!(
            "{} in five sorted runs; data in the page cache, no block cache",
            count(report.settings.keys, "key")
        ),
        description: format!("Mean latency of a query that finds nothing. {}", described.join(" ")),
        axis: Axis {
            title: "ns per query (logarithmic)".into(),
            from: AXIS_FROM_NS,
            to,
            is_logarithmic: true,
            labels: Axis::powers_of_ten(AXIS_FROM_NS, to, |ns| thousands(whole(ns))),
        },
        caption: report.machine.short(),
        groups,
    }
    .svg()
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
        let without = of_kind(false).next();
        let mut bars: Vec<Bar> = of_kind(true)
            .zip((0..).map(Colour::Series))
            .map(|(row, colour)| {
                let gain = without.map_or_else(String::new, |without| times_less(without.mean_ns / row.mean_ns));
                let label = format!("{}, {:.1} bits per key", row.filter, row.bits_per_key);
                Bar { label, value: row.mean_ns, value_text: format!("{} ns{gain}", significant(row.mean_ns)), colour }
            })
            .collect();
        bars.extend(without.map(|row| Bar {
            label: "no filters".into(),
            value: row.mean_ns,
            value_text: format!("{} ns", significant(row.mean_ns)),
            colour: Colour::Faint,
        }));
        let heading = match range_len {
            Some(len) => format!("Scan of {}, {query}", count(len, "integer")),
            None => format!("{}{}", query.get(..1).unwrap_or("").to_uppercase(), query.get(1..).unwrap_or("")),
        };
        Group { heading, bars }
    };
    kinds.into_iter().map(group).collect()
}
