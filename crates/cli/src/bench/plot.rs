//! Draws the picture of `bench point-miss`: the mean latency of absent keys, with filters and
//! without.

use charts::bars::{Bar, Bars, Group};
use charts::frame::Axis;
use charts::theme::Colour;

use super::super::machine::Machine;
use super::super::text::{count, significant, thousands, whole};
use super::report::{Report, Row};

/// Draws the rows of absent keys of the report as an SVG document. `filters` names the filters to
/// draw; an empty slice means all.
pub fn draw(report: &Report, filters: &[String]) -> String {
    let settings = &report.settings;
    let waits = match (settings.cold, settings.io.as_str()) {
        (true, _) => "page cache dropped",
        (false, "direct") => "page cache bypassed, no block cache",
        (false, _) => "data in the page cache, no block cache",
    };
    let (keys, reads) = (count(settings.keys, "key"), &settings.io);
    misses(
        ["Mean latency of a miss, with and without filters", "Mean latency of a get of an absent key."],
        format!("A get of an absent key among {keys}; {reads} reads, {waits}"),
        format!("ns per get, {} time (logarithmic)", settings.mean_clock),
        groups(report, filters),
        &report.machine,
    )
}

/// Draws groups of latencies as an SVG document. Screen readers read all bars.
pub fn misses(
    [title, description]: [&str; 2],
    subtitle: String,
    axis_title: String,
    groups: Vec<Group>,
    machine: &Machine,
) -> String {
    let slowest = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value).fold(100.0, f64::max);
    let bar = |bar: &Bar| format!("{} {}", bar.label, bar.value_text);
    let group =
        |group: &Group| format!(" {}: {}.", group.heading, group.bars.iter().map(bar).collect::<Vec<_>>().join("; "));
    Bars {
        title: title.into(),
        subtitle,
        description: format!("{description}{}", groups.iter().map(group).collect::<String>()),
        axis: Axis::decades(axis_title, 10.0, slowest, |ns| thousands(whole(ns))),
        caption: machine.short(),
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
        let heading = format!("{}{}", count(runs, "sorted run"), note(layout));
        let with = of_layout(true).map(|row| (row.filter.as_str(), row.bits_per_key, row.mean_ns));
        groups.push((runs, Group { heading, bars: bars(with, of_layout(false).next().map(|row| row.mean_ns)) }));
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

/// Returns a bar for each filter, its bits per key and its mean latency in ns, and a bar for reads
/// without filters.
pub fn bars<'a>(with: impl Iterator<Item = (&'a str, f64, f64)>, without_ns: Option<f64>) -> Vec<Bar> {
    let with = with.zip((0..).map(Colour::Series)).map(|((filter, bits, ns), colour)| {
        let gain = without_ns.map_or(String::new(), |without| times_less(without / ns));
        Bar::new(format!("{filter}, {bits:.1} bits per key"), ns, format!("{} ns{gain}", significant(ns)), colour)
    });
    let without = without_ns.map(|ns| Bar::new("no filters", ns, format!("{} ns", significant(ns)), Colour::Faint));
    with.chain(without).collect()
}

/// Returns a text with the factor by which filters reduce the latency. The text is empty if the
/// factor is below 1.05.
fn times_less(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 1.05 => String::new(),
        ratio if ratio < 9.95 => format!(", {ratio:.1} times less"),
        ratio => format!(", {} times less", thousands(whole(ratio))),
    }
}
