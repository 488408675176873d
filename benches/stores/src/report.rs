//! Makes the tables and the picture of docs/BENCHMARKS.md from a CSV.

use std::fs;

use charts::bars::{Bar, Bars, Group};
use charts::frame::Axis;
use charts::markdown::{self, none, table as markdown, unknown, wrapped};
use charts::text::{distinct, short, thousands, whole};
use charts::theme::Colour;
use filterblock_testkit::measure::csv_file;

use crate::args::Report;
use crate::engine::Outcome;
use crate::record::{BATCH, COLD, DISK, FILES, GET, LOAD, REOPEN, Row, SETTLE};

/// The start of a marker in BENCHMARKS.md.
const BEGIN: &str = "<!-- stores: ";
/// The start of the names of filterblock's stores.
const OURS: &str = "filterblock";
/// The layouts that the picture shows.
const DRAWN: [&str; 2] = ["compacted", "runs-5"];

/// Writes the tables of `stores measure` into BENCHMARKS.md, and the picture to stores.svg in the
/// same folder. With `--table`, prints one table instead.
pub fn write(args: &Report) -> Outcome<()> {
    let (machine, rows) = csv_file::read::<Row>(&args.csv)?;
    if rows.is_empty() {
        return Err(format!("{}: no measurements; `stores measure --out` writes them", args.csv.display()));
    }
    if let Some(what) = &args.table {
        println!("{}", table(what, &machine, &rows)?);
        return Ok(());
    }
    markdown::fill_file(&args.docs.join("BENCHMARKS.md"), BEGIN, |what| table(what, &machine, &rows))?;
    let path = args.docs.join("stores.svg");
    fs::write(&path, drawing(&rows)).map_err(|error| format!("{}: {error}", path.display()))
}

/// The names of the tables. A number of keys follows each name except "machine".
const TABLES: [&str; 9] = [
    "machine",
    "absent",
    "present",
    "cold",
    "loading",
    "absent-in-full",
    "present-in-full",
    "mixed-in-full",
    "loading-in-full",
];

/// Returns the text for `what`, the text of a marker or of `--table`.
fn table(what: &str, machine: &str, rows: &[Row]) -> Outcome<String> {
    let (name, n) = what.split_once(' ').unwrap_or((what, ""));
    let n = n.parse().unwrap_or(0);
    let mean = |row: &Row| Some(row.median);
    match name {
        "machine" => Ok(machine_line(machine, rows)),
        "absent" => Ok(by_layout(rows, n, &[("", GET, "negative", mean)])),
        "present" => Ok(by_layout(rows, n, &[("", GET, "positive", mean)])),
        "cold" => {
            let median = |row: &Row| Some(row.median * 1e-3);
            Ok(by_layout(rows, n, &[("absent", COLD, "negative", median), ("present", COLD, "positive", median)]))
        }
        "loading" => Ok(loading(rows, n, 1)),
        "absent-in-full" => Ok(gets(rows, n, "negative")),
        "present-in-full" => Ok(gets(rows, n, "positive")),
        "mixed-in-full" => Ok(gets(rows, n, "mixed")),
        "loading-in-full" => Ok(loading(rows, n, usize::MAX)),
        _ => unknown(&TABLES),
    }
}

fn machine_line(machine: &str, rows: &[Row]) -> String {
    let most = |measure: &str, value: fn(&Row) -> usize| {
        rows.iter().filter(|row| row.measure == measure).map(value).max().unwrap_or(0)
    };
    let (rounds, queries, cold) =
        (most(GET, |row| row.rounds), most(GET, |row| row.queries), most(COLD, |row| row.queries));
    let version = |row: &Row| format!("{} {}", row.store.split(' ').next().unwrap_or_default(), row.version);
    let versions = distinct(rows.iter().filter(|row| !row.store.starts_with(OURS)).map(version));
    wrapped(&format!(
        "{machine}; {rounds} rounds of {} warm and {} cold queries; {}.",
        thousands(queries),
        thousands(cold),
        versions.join(", ")
    ))
}

fn stores(rows: &[Row], n: usize) -> Vec<&str> {
    distinct(rows.iter().filter(|row| row.n == n).map(|row| row.store.as_str()))
}

fn layouts(rows: &[Row], n: usize) -> Vec<&str> {
    distinct(rows.iter().filter(|row| row.n == n).map(|row| row.layout.as_str()))
}

/// Selects rows of the record.
#[derive(Clone, Copy)]
struct At<'a> {
    store: &'a str,
    n: usize,
    layout: &'a str,
    mix: &'a str,
}

fn find<'a>(rows: &'a [Row], at: At<'_>, measure: &str, spread: &str) -> Option<&'a Row> {
    rows.iter().find(|row| {
        (row.store.as_str(), row.n, row.layout.as_str(), row.mix.as_str()) == (at.store, at.n, at.layout, at.mix)
            && row.measure == measure
            && row.spread == spread
    })
}

fn named(store: &str) -> String {
    if store.starts_with(OURS) { format!("**`{store}`**") } else { store.into() }
}

/// Returns the table of the warm gets of one mix. It has a line for each store and layout.
fn gets(rows: &[Row], n: usize, mix: &str) -> String {
    let mut lines = Vec::new();
    for layout in layouts(rows, n) {
        for store in stores(rows, n) {
            let at = At { store, n, layout, mix };
            let Some(uniform) = find(rows, at, GET, "uniform") else { continue };
            let number = |ns: Option<f64>| ns.map_or(none(), integer);
            let median = |row: Option<&Row>| row.map_or(none(), |row| time(row.median));
            lines.push(vec![
                named(store),
                layout.into(),
                time(uniform.median),
                number(uniform.p50),
                number(uniform.p99),
                number(uniform.p999),
                median(find(rows, at, BATCH, "uniform")),
                median(find(rows, at, GET, "zipf")),
            ]);
        }
    }
    markdown(&["Store", "layout", "mean", "p50", "p99", "p99.9", "batch", "mean, Zipf"], &lines)
}

/// A column of [`by_layout`]: its name, the measure and the mix of its rows, and its value.
type Column<'a> = (&'a str, &'a str, &'a str, fn(&Row) -> Option<f64>);

/// Returns a table with a line for each store. For each layout, it has one column per measure.
fn by_layout(rows: &[Row], n: usize, measures: &[Column<'_>]) -> String {
    let layouts = layouts(rows, n);
    let columns = || layouts.iter().flat_map(|layout| measures.iter().map(move |measure| (*layout, *measure)));
    let line = |store: &&str| {
        let cell = |(layout, (_, measure, mix, value)): (&str, Column<'_>)| {
            find(rows, At { store, n, layout, mix }, measure, "uniform").and_then(value).map_or(none(), time)
        };
        std::iter::once(named(store)).chain(columns().map(cell)).collect::<Vec<_>>()
    };
    let lines: Vec<_> = stores(rows, n).iter().map(line).collect();
    let head = |(layout, (name, ..)): (&str, Column<'_>)| {
        if name.is_empty() { layout.into() } else { format!("{layout}, {name}") }
    };
    let heads: Vec<String> = columns().map(head).collect();
    let heads: Vec<_> = std::iter::once("Store").chain(heads.iter().map(String::as_str)).collect();
    markdown(&heads, &lines)
}

/// Returns the table of loading, in the first `most` layouts of the record.
fn loading(rows: &[Row], n: usize, most: usize) -> String {
    let mut lines = Vec::new();
    for layout in layouts(rows, n).into_iter().take(most) {
        for store in stores(rows, n) {
            let median = |measure| find(rows, At { store, n, layout, mix: "" }, measure, "").map(|row| row.median);
            let Some(puts) = median(LOAD) else { continue };
            lines.push(vec![
                named(store),
                layout.into(),
                integer(puts),
                median(SETTLE).map_or(none(), |seconds| format!("{seconds:.1}")),
                median(DISK).map_or(none(), |bytes| integer(bytes / 1e6)),
                median(FILES).map_or(none(), integer),
                median(REOPEN).map_or(none(), time),
            ]);
        }
    }
    markdown(&["Store", "layout", "puts/s", "settle, s", "disk, MB", "files", "reopen, ms"], &lines)
}

fn integer(value: f64) -> String {
    thousands(whole(value))
}

fn time(value: f64) -> String {
    if value < 999.5 { short(value) } else { integer(value) }
}

/// Draws the warm gets of absent and present keys in the layouts [`DRAWN`], for the smallest number
/// of keys.
fn drawing(rows: &[Row]) -> String {
    let n = rows.iter().map(|row| row.n).min().unwrap_or(0);
    let mut groups = Vec::new();
    for (title, mix) in [("absent keys", "negative"), ("present keys", "positive")] {
        for layout in DRAWN {
            let bar = |store: &&str| {
                let row = find(rows, At { store, n, layout, mix }, GET, "uniform")?;
                let colour = Colour::Series(usize::from(!store.starts_with(OURS)));
                Some(Bar::new(*store, row.median, time(row.median), colour))
            };
            let mut bars: Vec<_> = stores(rows, n).iter().filter_map(bar).collect();
            bars.sort_by(|one, other| one.value.total_cmp(&other.value));
            if !bars.is_empty() {
                groups.push(Group { heading: format!("{title}, {layout}"), bars });
            }
        }
    }
    let values = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value);
    let mut axis = Axis::around("ns of CPU time for a get (logarithmic)", values, true);
    for (value, label) in &mut axis.labels {
        *label = integer(*value);
    }
    Bars {
        title: "Gets of key-value stores".into(),
        subtitle: format!("{} keys of 16 bytes, warm, in random order; farther left is better", thousands(n)),
        description: "Bars of the mean times of gets in filterblock-store and in other stores, for absent and for \
                      present keys, with one run and with five."
            .into(),
        axis,
        legend: vec![("filterblock".into(), Colour::Series(0)), ("other stores".into(), Colour::Series(1))],
        groups,
        caption: "compacted: one run; runs-5: five overlapping runs, for the stores that can keep them.".into(),
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_of_the_record_is_readable() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/stores.csv");
        let svg = drawing(&csv_file::read::<Row>(&path).unwrap().1);
        charts::check::is_readable(&svg);
        assert!(svg.contains("filterblock") && svg.contains("present keys, compacted"), "{svg}");
    }
}
