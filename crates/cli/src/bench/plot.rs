//! Draws the picture of `bench point-miss`: the mean latency of absent keys, with filters and
//! without.

use super::super::picture::Colour;
use super::super::picture::bars::{Bar, Bars, Group};
use super::super::picture::frame::Axis;
use super::super::text::{count, significant, thousands, whole};
use super::report::{Report, Row};

/// The latency at the left end of the axis.
pub const AXIS_FROM_NS: f64 = 10.0;

/// Draws the rows of absent keys of the report as an SVG document. `filters` names the filters to
/// draw; an empty slice means all.
pub fn draw(report: &Report, filters: &[String]) -> String {
    let groups = groups(report, filters);
    let slowest = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value).fold(AXIS_FROM_NS, f64::max);
    let to = 10f64.powf(slowest.log10().ceil().max(2.0));
    let settings = &report.settings;
    let waits = match (settings.cold, settings.io.as_str()) {
        (true, _) => "page cache dropped",
        (false, "direct") => "page cache bypassed, no block cache",
        (false, _) => "data in the page cache, no block cache",
    };
    let (keys, reads) = (count(settings.keys, "key"), &settings.io);
    Bars {
        title: "Mean latency of a miss, with and without filters".into(),
        subtitle: format!("A get of an absent key among {keys}; {reads} reads, {waits}"),
        description: description(&groups),
        axis: Axis {
            title: format!("ns per get, {} time (logarithmic)", settings.mean_clock),
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

/// Returns a group of bars for each layout: a bar for each filter, and one for reads without
/// filters. Leaves out a layout that has no row with filters, and a layout with as many runs as an
/// earlier layout.
fn groups(report: &Report, filters: &[String]) -> Vec<Group> {
    let is_shown = |row: &&Row| filters.is_empty() || filters.contains(&row.filter);
    let absent: Vec<&Row> = report.rows.iter().filter(|row| row.workload == "absent").filter(is_shown).collect();
    let mut groups: Vec<(u64, Group)> = Vec::new();
    for layout in &report.settings.layouts {
        let of_layout = |consulted| {
            absent.iter().copied().filter(move |row| row.layout == *layout && row.filters_consulted == consulted)
        };
        let Some(runs) = of_layout(true).next().map(|row| row.runs) else { continue };
        // The layouts `compacted` and `as-fallen` may both have one run.
        if groups.iter().any(|&(shown, _)| shown == runs) {
            continue;
        }
        let without = of_layout(false).next();
        let with = of_layout(true).zip((0..).map(Colour::Series)).map(|(row, colour)| {
            let gain = without.map_or(String::new(), |without| times_less(without.mean_ns / row.mean_ns));
            let value_text = format!("{} ns{gain}", significant(row.mean_ns));
            Bar {
                label: format!("{}, {:.1} bits per key", row.filter, row.bits_per_key),
                value: row.mean_ns,
                value_text,
                colour,
            }
        });
        let without = without.map(|row| Bar {
            label: "no filters".into(),
            value: row.mean_ns,
            value_text: format!("{} ns", significant(row.mean_ns)),
            colour: Colour::Faint,
        });
        let heading = format!("{}{}", count(runs, "sorted run"), note(layout));
        groups.push((runs, Group { heading, bars: with.chain(without).collect() }));
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Returns the text that follows the number of runs in the heading of a layout.
fn note(layout: &str) -> &'static str {
    match layout {
        "levels-4" => " on four full levels",
        _ => "",
    }
}

/// Returns a text with the factor by which filters reduce the latency. The text is empty if the
/// factor is below 1.05.
pub fn times_less(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 1.05 => String::new(),
        ratio if ratio < 9.95 => format!(", {ratio:.1} times less"),
        ratio => format!(", {} times less", thousands(whole(ratio))),
    }
}

fn description(groups: &[Group]) -> String {
    let bar = |bar: &Bar| format!("{} {}", bar.label, bar.value_text);
    let group = |group: &Group| {
        let bars: Vec<String> = group.bars.iter().map(bar).collect();
        format!("{}: {}.", group.heading, bars.join("; "))
    };
    let groups: Vec<String> = groups.iter().map(group).collect();
    format!("Mean latency of a get of an absent key. {}", groups.join(" "))
}
