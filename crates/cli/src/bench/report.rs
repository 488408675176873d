//! The report of `bench point-miss`: a table and a picture for people, and JSON for programs.

use charts::bars::{Bar, Bars, Group};
use charts::frame::Axis;
use charts::text::{distinct, whole};
use charts::theme::Colour;
use comfy_table::Cell;
use filterblock::FilterCacheCounts;
use serde::{Deserialize, Serialize};

use crate::machine::{Machine, Versions};
use crate::prelude::*;

/// Filter sizes that differ by at most this fraction count as equal.
const SAME_MEMORY: f64 = 0.03;
/// The smallest ratio of block reads for which the conclusions compare two filters.
const WORTH_A_SENTENCE: f64 = 1.5;

/// The whole report; the JSON is this structure, field for field.
#[derive(Serialize, Deserialize)]
pub struct Report {
    /// Two rows for each filter, layout and workload: one with filters and one without.
    pub rows: Vec<Row>,
    /// One store for each filter and layout.
    pub stores: Vec<StoreReport>,
    pub machine: Machine,
    pub versions: Versions,
    pub settings: Settings,
}

/// The settings of a benchmark, and the measured cost of the clock.
#[derive(Serialize, Deserialize)]
pub struct Settings {
    pub filters: Vec<String>,
    pub layouts: Vec<String>,
    pub keys: u64,
    pub key_len_bytes_mean: f64,
    pub value_len_bytes: usize,
    pub seed: u64,
    pub io: String,
    pub verify: String,
    pub cold: bool,
    /// The memory budget of the filters in bytes. `None` without --filter-memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter_memory: Option<u64>,
    /// The number of runs in level 0 from which one map answers for all. `None` means no map.
    #[serde(default)]
    pub run_map_trigger: Option<usize>,
    /// The maximum number of gets in a measurement. Each row records its own number.
    pub lookups: u64,
    pub rounds: u32,
    /// The clock of `mean_ns` and `batch_mean_ns`: "wall" with --cold or --io direct, or on systems
    /// other than Unix. Otherwise "thread CPU".
    pub mean_clock: String,
    /// The time in ns that reading the clock adds to each latency. The percentiles include it.
    pub clock_cost_ns: f64,
}

/// A store as it was loaded and opened.
#[derive(Clone, Serialize, Deserialize)]
pub struct StoreReport {
    pub filter: String,
    pub layout: String,
    /// The speed of loading. `None` if the layout was made from another store by compaction.
    pub puts_per_second: Option<f64>,
    /// The time from the last put until no flush and no compaction is due. For the layout
    /// `compacted`, the time includes the compaction into one run. If the layout was made from
    /// another store, it is the time of that compaction alone.
    pub settle_seconds: f64,
    pub reopen_ms: f64,
    pub runs: u64,
    pub tables: u64,
    pub store_bytes: u64,
    pub filter_bytes: u64,
    pub bits_per_key: f64,
    /// The bytes of the map of level 0 in memory.
    #[serde(default)]
    pub map_bytes: u64,
}

/// One measurement.
#[derive(Clone, Serialize, Deserialize)]
pub struct Row {
    pub filter: String,
    pub layout: String,
    pub workload: String,
    pub filters_consulted: bool,
    pub runs: u64,
    pub lookups: u64,
    pub mean_ns: f64,
    pub cpu_mean_ns: f64,
    pub wall_mean_ns: f64,
    /// The mean time per key of a `multi_get` of 32 absent keys. `None` for other workloads.
    pub batch_mean_ns: Option<f64>,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub gets_per_second: f64,
    pub block_reads_per_get: f64,
    /// The expected number of false positives per get: the sum of the expected FPRs of all filter
    /// queries for absent keys, divided by the number of gets. `None` if the filters are not asked.
    pub expected_false_positives_per_get: Option<f64>,
    pub bytes_per_get: f64,
    /// The bytes per get that the operating system read from the device, including read-ahead and
    /// filter pages. `None` if the system does not report them.
    pub device_bytes_per_get: Option<f64>,
    pub bits_per_key: f64,
    /// The measured FPR of the filters. `None` if no filter was asked about an absent key.
    pub false_positive_rate: Option<f64>,
    pub expected_false_positive_rate: Option<f64>,
    /// The cache of filters after the measurement. `None` without --filter-memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter_cache: Option<FilterCacheReport>,
    /// With filters, the number of all loaded keys whose value is missing or wrong. Without
    /// filters, the number of lookups of loaded keys that found nothing, in the worst round.
    pub false_negatives: u64,
}

/// The state of a cache of filters, and its history since the store was opened.
#[derive(Clone, Serialize, Deserialize)]
pub struct FilterCacheReport {
    /// The bound in bytes.
    pub max_bytes: u64,
    /// The bytes of the filters in memory.
    pub bytes: u64,
    /// The number of filters.
    pub filters: u64,
    /// The number of filters in memory.
    pub resident: u64,
    /// The number of filters that were read, again included.
    pub loads: u64,
    /// The number of filters that left memory or lost columns.
    pub evictions: u64,
    /// The estimated share of queries whose filter was in memory. `None` without queries.
    pub hit_rate: Option<f64>,
}

impl From<FilterCacheCounts> for FilterCacheReport {
    fn from(counts: FilterCacheCounts) -> Self {
        let FilterCacheCounts { max_bytes, bytes, filters, resident, queries, refused, loads, evictions, .. } = counts;
        let hits = |queries: u64| 1.0 - refused.min(queries) as f64 / queries as f64;
        Self { max_bytes, bytes, filters, resident, loads, evictions, hit_rate: (queries > 0).then(|| hits(queries)) }
    }
}

impl FilterCacheReport {
    fn describe(&self) -> String {
        format!(
            "{} of {} filters are in memory, {} of {} MB; {}, {}; a filter answers {} % of the queries",
            thousands(self.resident),
            thousands(self.filters),
            significant(self.bytes as f64 / 1e6),
            significant(self.max_bytes as f64 / 1e6),
            count(self.loads, "load"),
            count(self.evictions, "eviction"),
            self.hit_rate.map_or_else(|| "-".to_owned(), |rate| significant(rate * 100.0)),
        )
    }
}

impl Report {
    /// Returns the number of false negatives, summed over all stores. Several rows of a store may
    /// count the same key, so each store counts with the largest number of its rows.
    pub fn false_negatives(&self) -> u64 {
        self.stores.iter().map(|store| self.lost_in(store)).sum()
    }

    fn lost_in(&self, store: &StoreReport) -> u64 {
        let rows = self.rows.iter().filter(|row| row.filter == store.filter && row.layout == store.layout);
        rows.map(|row| row.false_negatives).max().unwrap_or(0)
    }

    pub fn to_text(&self) -> String {
        let settings = &self.settings;
        let sentences = self.savings().chain(self.comparisons()).chain(self.caches());
        let mut text: String = sentences.map(|sentence| sentence + "\n").collect();
        text += &format!("\n{}\n\n", self.table());
        for store in &self.stores {
            text += &store.describe();
            if self.lost_in(store) > 0 {
                text += &format!("; LOST {}", count(self.lost_in(store), "key"));
            }
            text += "\n";
        }
        text += &format!(
            "\n{}\n{}{}. Times are in ns. Mean and batch are {} time, the median of {}. Percentiles are \
             wall time, and include about {:.0} ns to read the clock.\n{}\n",
            self.machine.describe(),
            self.versions.warning(),
            settings.describe(),
            settings.mean_clock,
            count(settings.rounds.into(), "round"),
            settings.clock_cost_ns,
            self.false_negatives_line(),
        );
        text
    }

    /// Returns a part of the report as Markdown. Returns `None` if no part has this name.
    pub fn markdown(&self, name: &str) -> Option<String> {
        match name {
            "machine" => Some(format!("{}\n\n{}", self.machine_lines(), self.false_negatives_line())),
            "absent" => Some(self.markdown_rows(name, 7)),
            "present" => Some(self.markdown_rows(name, 5)),
            _ => None,
        }
    }

    fn machine_lines(&self) -> String {
        let settings = &self.settings;
        format!(
            "{}.\n{}.\nMedians of {}; reading the clock takes {:.0} ns.",
            self.machine.describe(),
            settings.describe(),
            count(settings.rounds.into(), "round"),
            settings.clock_cost_ns,
        )
    }

    /// Returns a Markdown table with the first `columns` columns of the rows of a workload. Rows
    /// without filters are those of one filter, because those of other filters differ by chance.
    fn markdown_rows(&self, workload: &str, columns: usize) -> String {
        let first = self.rows.first().map_or("", |row| &row.filter);
        let is_shown = |row: &&Row| row.workload == workload && (row.filters_consulted || row.filter == first);
        let header = ["Filter", "Layout", "Mean", "p99", "Reads", "Bits per key", "FPR %"];
        let cells = |row: &Row| row.markdown_cells().into_iter().take(columns).collect();
        markdown(header.into_iter().take(columns), self.rows.iter().filter(is_shown).map(cells), 2)
    }

    fn false_negatives_line(&self) -> String {
        let stores = self.stores.len() as u64;
        format!(
            "False negatives: {} (each of the {} loaded keys looked up in {}).",
            thousands(self.false_negatives()),
            thousands(self.settings.keys),
            count(stores, "store"),
        )
    }

    fn table(&self) -> String {
        let header = "filter|layout|keys|filters|mean|batch|p50|p99|p99.9|reads|FPR %|exp. FPR %".split('|');
        output::table(header, self.rows.iter().map(Row::cells), 4.., &[6, 8, 11, 5, 10, 7])
    }

    /// Compares filters of equal size in the same layout by the blocks that a get of an absent key
    /// reads. Leaves out pairs whose ratio is below [`WORTH_A_SENTENCE`] or not finite.
    fn comparisons(&self) -> Vec<String> {
        let of_store = |store: &StoreReport| {
            let mut rows = self.rows.iter().filter(|row| row.workload == "absent" && row.filters_consulted);
            let row = rows.find(|row| row.filter == store.filter && row.layout == store.layout)?;
            Some((row.block_reads_per_get, store.filter_bytes as f64))
        };
        let mut sentences = Vec::new();
        for (i, first) in self.stores.iter().enumerate() {
            for second in self.stores.iter().skip(i + 1).filter(|second| second.layout == first.layout) {
                let (Some((a, a_bytes)), Some((b, b_bytes))) = (of_store(first), of_store(second)) else { continue };
                let (better, worse, gain, memory) = if a < b {
                    (first, second, b / a, a_bytes / b_bytes)
                } else {
                    (second, first, a / b, b_bytes / a_bytes)
                };
                if (memory - 1.0).abs() > SAME_MEMORY || gain < WORTH_A_SENTENCE || !gain.is_finite() {
                    continue;
                }
                sentences.push(format!(
                    "{}: a get of an absent key reads {gain:.2} times fewer blocks than with {}; the filters take \
                     {memory:.3} times the memory ({}).",
                    better.filter, worse.filter, better.layout
                ));
            }
        }
        sentences
    }

    /// States what the caches of filters hold after gets of absent keys.
    fn caches(&self) -> Vec<String> {
        let rows = self.rows.iter().filter(|row| row.workload == "absent");
        let sentence = |row: &Row| {
            Some(format!("With {}: {} ({}).", row.filter, row.filter_cache.as_ref()?.describe(), row.layout))
        };
        rows.filter(|row| row.filters_consulted).filter_map(sentence).collect()
    }

    /// States the cost of a get of an absent key with and without filters, for each filter and
    /// layout.
    fn savings(&self) -> impl Iterator<Item = String> {
        let absent = |consulted| {
            self.rows.iter().filter(move |row| row.workload == "absent" && row.filters_consulted == consulted)
        };
        let pairs = absent(true).filter_map(move |with| {
            let without = absent(false).find(|row| row.filter == with.filter && row.layout == with.layout)?;
            Some((with, without))
        });
        pairs.map(|(with, without)| {
            let expected = significant(with.expected_false_positives_per_get.unwrap_or(0.0));
            saving(
                &with.filter,
                &format!("a get of an absent key ({})", with.layout),
                (with.mean_ns, with.block_reads_per_get),
                &format!(" ({expected} expected)"),
                (without.mean_ns, without.block_reads_per_get),
            )
        })
    }
}

/// Returns the sentence about a query that finds nothing. A pair is the mean time in ns and the mean number of
/// block reads, with the filters and without.
pub fn saving(filter: &str, query: &str, with: (f64, f64), note: &str, without: (f64, f64)) -> String {
    let [ns, reads, without_ns, without_reads] = [with.0, with.1, without.0, without.1].map(significant);
    format!(
        "With {filter}, {query} costs {ns} ns and {reads} block reads{note}; without filters, {without_ns} ns and \
         {without_reads} block reads."
    )
}

impl Settings {
    fn describe(&self) -> String {
        format!(
            "{} of {} bytes on average, with values of {}; {} reads{}",
            count(self.keys, "key"),
            significant(self.key_len_bytes_mean),
            count(self.value_len_bytes as u64, "byte"),
            self.io,
            if self.cold { ", page cache dropped" } else { "" },
        )
    }
}

impl StoreReport {
    pub fn describe(&self) -> String {
        let puts = match self.puts_per_second {
            Some(rate) => {
                format!("{} puts/s, then {:.1} s of background work", thousands(whole(rate)), self.settle_seconds)
            }
            None => format!("{:.1} s of compaction", self.settle_seconds),
        };
        let map = match self.map_bytes {
            0 => String::new(),
            bytes => format!(" and a map of {} MB", significant(bytes as f64 / 1e6)),
        };
        format!(
            "{} {}: {puts}; {} in {}, {} MB with {} MB of filters ({} bits per key){map}; reopened in {} ms",
            self.filter,
            self.layout,
            count(self.tables, "SST file"),
            count(self.runs, "run"),
            significant(self.store_bytes as f64 / 1e6),
            significant(self.filter_bytes as f64 / 1e6),
            significant(self.bits_per_key),
            significant(self.reopen_ms),
        )
    }
}

impl Row {
    fn markdown_cells(&self) -> [String; 7] {
        let [filter, layout, _, _, mean, _, _, p99, _, reads, fpr, _] = self.cells();
        let (filter, bits) = if self.filters_consulted {
            (format!("`{filter}`"), significant(self.bits_per_key))
        } else {
            ("none".into(), "-".into())
        };
        [filter, layout, mean, p99, reads, bits, fpr]
    }

    fn cells(&self) -> [String; 12] {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let percent = |rate: Option<f64>| or_dash(rate.map(|rate| significant(rate * 100.0)));
        [
            self.filter.clone(),
            self.layout.clone(),
            self.workload.clone(),
            if self.filters_consulted { "on" } else { "off" }.into(),
            time(self.mean_ns),
            or_dash(self.batch_mean_ns.map(time)),
            time(self.p50_ns as f64),
            time(self.p99_ns as f64),
            time(self.p999_ns as f64),
            significant(self.block_reads_per_get),
            percent(self.false_positive_rate),
            percent(self.expected_false_positive_rate),
        ]
    }
}

/// Returns a Markdown table. The columns from number `numbers` on, counted from 0, are aligned to
/// the right.
pub fn markdown(
    header: impl IntoIterator<Item: Into<Cell>>,
    rows: impl Iterator<Item = Vec<String>>,
    numbers: usize,
) -> String {
    let table = output::wide_table(header, rows, numbers..);
    // In Markdown, a colon in the line below the header aligns a column to the right. The style
    // writes no colons.
    let mut lines: Vec<String> = table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    if let Some(rule) = lines.get_mut(1) {
        let columns = rule.trim_matches('|').split('|').enumerate();
        let rules = columns.map(|(column, rule)| match column {
            column if column >= numbers => format!("{}:", rule.get(1..).unwrap_or_default()),
            _ => rule.to_owned(),
        });
        *rule = format!("|{}|", rules.collect::<Vec<_>>().join("|"));
    }
    lines.join("\n")
}

/// Formats nanoseconds. From 100,000 ns on, the unit is thousands (k) or millions (M), to keep
/// tables narrow.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 999_500.0 => format!("{}M", significant(ns / 1e6)),
        ns if ns >= 99_999.5 => format!("{}k", significant(ns / 1e3)),
        ns => significant(ns),
    }
}

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
        "A miss",
        "Mean latency of a get of an absent key.",
        format!("A get of an absent key among {keys}; {reads} reads, {waits}"),
        format!("mean ns per get, {} time (logarithmic)", settings.mean_clock),
        groups(report, filters),
        &report.machine,
    )
}

/// Draws groups of latencies as an SVG document. The title says how much less time `query` takes with
/// filters. Each filter has the same colour in all groups. Screen readers read all bars.
pub fn misses(
    query: &str,
    description: &str,
    subtitle: String,
    axis_title: String,
    mut groups: Vec<Group>,
    machine: &Machine,
) -> String {
    let slowest = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value).fold(100.0, f64::max);
    let bar = |bar: &Bar| format!("{} {}", bar.label, bar.value_text);
    let group =
        |group: &Group| format!(" {}: {}.", group.heading, group.bars.iter().map(bar).collect::<Vec<_>>().join("; "));
    let description = format!("{description}{}", groups.iter().map(group).collect::<String>());
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let names = distinct(bars().filter(|bar| bar.colour != WITHOUT).map(filter_of));
    let mut legend: Vec<(String, Colour)> = names.into_iter().zip((0..).map(Colour::Series)).collect();
    if bars().any(|bar| bar.colour == WITHOUT) {
        legend.push((NO_FILTERS.into(), WITHOUT));
    }
    let ratios = groups.iter().flat_map(|group| {
        let without = group.bars.iter().find(|bar| bar.colour == WITHOUT).map_or(f64::NAN, |bar| bar.value);
        group.bars.iter().filter(|bar| bar.colour != WITHOUT).map(move |bar| without / bar.value)
    });
    let title = match text::headline(ratios) {
        Some(less) => format!("{query} takes {less} time with filters"),
        None => format!("{query} with and without filters"),
    };
    for bar in groups.iter_mut().flat_map(|group| &mut group.bars).filter(|bar| bar.colour != WITHOUT) {
        let name = filter_of(bar);
        bar.colour = legend.iter().find(|(known, _)| *known == name).map_or(bar.colour, |(_, colour)| *colour);
    }
    Bars {
        title,
        subtitle,
        description,
        axis: Axis::decades(axis_title, 10.0, slowest, |ns| thousands(whole(ns))),
        legend,
        caption: machine.short(),
        groups,
    }
    .svg()
}

const NO_FILTERS: &str = "no filters";
/// The colour of measurements without filters.
const WITHOUT: Colour = Colour::Faint;

/// Returns the name of the filter in the label of a bar, which ends with the bits per key.
fn filter_of(bar: &Bar) -> String {
    bar.label.rsplit_once(", ").map_or(&*bar.label, |(name, _)| name).to_owned()
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
    let with = with.map(|(filter, bits, ns)| {
        let gain = without_ns.and_then(|without| text::times(without / ns));
        let gain = gain.map_or(String::new(), |times| format!(", {times} times less"));
        let label = format!("{filter}, {bits:.1} bits per key");
        Bar::new(label, ns, format!("{} ns{gain}", significant(ns)), Colour::Series(0))
    });
    let without = without_ns.map(|ns| Bar::new(NO_FILTERS, ns, format!("{} ns", significant(ns)), WITHOUT));
    with.chain(without).collect()
}
