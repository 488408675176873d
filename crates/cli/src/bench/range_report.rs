//! The report of `bench range-miss`: a table and a picture for people, and JSON for programs.

use charts::bars::Group;
use serde::{Deserialize, Serialize};

use super::report::{StoreReport, bars, markdown, misses, saving, time};
use crate::machine::{Machine, Versions};
use crate::prelude::*;

/// The whole report; the JSON is this structure, field for field.
#[derive(Serialize, Deserialize)]
pub struct RangeReport {
    /// Two rows for each store, kind of query and length: one with filters and one without.
    pub rows: Vec<RangeRow>,
    /// One store for each range filter, and one store of rows.
    pub stores: Vec<StoreReport>,
    /// The number of loaded keys whose value is missing or wrong in a read with filters, summed
    /// over all stores.
    pub false_negatives: u64,
    pub machine: Machine,
    pub versions: Versions,
    pub settings: RangeSettings,
}

/// The settings of a benchmark.
#[derive(Serialize, Deserialize)]
pub struct RangeSettings {
    pub filter: String,
    pub range_filters: Vec<String>,
    pub prefix: String,
    pub range_lens: Vec<u64>,
    pub keys: u64,
    pub value_len_bytes: usize,
    pub seed: u64,
    /// The number of queries of each kind with filters. Each row records its own number.
    pub queries: u64,
    pub rounds: u32,
    /// The time in ns that reading the clock adds to each latency. The percentiles include it.
    pub clock_cost_ns: f64,
}

/// One measurement.
#[derive(Clone, Serialize, Deserialize)]
pub struct RangeRow {
    pub filter: String,
    pub query: String,
    /// The number of integers in each range. `None` for queries of rows.
    pub range_len: Option<u64>,
    pub filters_consulted: bool,
    pub runs: u64,
    pub queries: u64,
    pub mean_ns: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub block_reads_per_query: f64,
    /// The mean number of filter queries per query. The filter queries are for keys, prefixes or
    /// ranges, depending on the kind of query.
    pub probes_per_query: f64,
    pub expected_false_positives_per_query: f64,
    /// The measured FPR of the filter queries. `None` if no filter was asked about an absent key,
    /// prefix or range.
    pub false_positive_rate: Option<f64>,
    pub expected_false_positive_rate: Option<f64>,
    /// The bits of all filters of the store, per key.
    pub bits_per_key: f64,
}

impl RangeReport {
    pub fn to_text(&self) -> String {
        let header = "filter|query|length|filters|mean|p50|p99|reads|probes|FPR %|exp. FPR %|bits per key".split('|');
        let mut text: String = self.conclusions().map(|sentence| sentence + "\n").collect();
        text += &format!(
            "\n{}\n\n",
            output::table(header, self.rows.iter().map(RangeRow::cells), 4.., &[10, 5, 8, 11, 6, 9])
        );
        self.stores.iter().for_each(|store| text += &format!("{}\n", store.describe()));
        text += &format!("\n{}\n{}{}\n", self.machine.describe(), self.versions.warning(), self.settings());
        text
    }

    pub fn markdown(&self, name: &str) -> Option<String> {
        match name {
            "ranges" => Some(self.markdown_rows()),
            "range-settings" => Some(format!("{}.\n{}", self.machine.describe(), self.settings().replace(". ", ".\n"))),
            _ => None,
        }
    }

    /// Returns a table with a line for each query with filters, and its mean without filters.
    fn markdown_rows(&self) -> String {
        let rows = self.pairs().map(|(with, without)| {
            let [filter, query, len, _, mean, _, p99, reads, _, fpr, expected, bits] = with.cells();
            vec![format!("`{filter}`"), query, len, mean, time(without.mean_ns), p99, reads, fpr, expected, bits]
        });
        let header = "Filter|Query|Length|Mean|Mean, no filters|p99|Reads|FPR %|Expected %|Bits per key".split('|');
        markdown(header, rows, 3)
    }

    /// Returns each row with filters, and the row of the same query without filters.
    fn pairs(&self) -> impl Iterator<Item = (&RangeRow, &RangeRow)> {
        self.rows.iter().filter(|row| row.filters_consulted).filter_map(|with| {
            let is_same = |row: &&RangeRow| {
                !row.filters_consulted
                    && (&row.filter, &row.query, row.range_len) == (&with.filter, &with.query, with.range_len)
            };
            Some((with, self.rows.iter().find(is_same)?))
        })
    }

    fn settings(&self) -> String {
        let settings = &self.settings;
        format!(
            "{} in 5 overlapping runs, values of {}, data in the page cache, no block cache. Times are in ns. The mean is \
             {} time, the median of {}. Percentiles are wall time, and include about {:.0} ns to read the clock. False \
             negatives: {} (each key looked up in each store).",
            count(settings.keys, "key"),
            count(settings.value_len_bytes as u64, "byte"),
            if cfg!(unix) { "thread CPU" } else { "wall" },
            count(settings.rounds.into(), "round"),
            settings.clock_cost_ns,
            thousands(self.false_negatives),
        )
    }

    /// Compares the cost of each kind of query with and without filters. Also compares a scan of an
    /// absent row to a get, both with filters.
    fn conclusions(&self) -> impl Iterator<Item = String> {
        let savings = self.pairs().map(|(with, without)| {
            let query = match with.range_len {
                Some(len) => format!("a scan of {} ({})", count(len, "integer"), with.query),
                None => format!("a {}", with.query),
            };
            let costs = |row: &RangeRow| (row.mean_ns, row.block_reads_per_query);
            saving(&with.filter, &query, costs(with), "", costs(without))
        });
        let mut of_rows = self.rows.iter().filter(|row| row.filters_consulted && row.range_len.is_none());
        let compared = of_rows.next().zip(of_rows.next()).map(|(get, scan)| {
            format!(
                "A {} takes {} times as long as a {}.",
                scan.query,
                significant(scan.mean_ns / get.mean_ns),
                get.query
            )
        });
        savings.chain(compared)
    }

    /// Draws the means as an SVG document: a group of bars for each kind of query and length of the
    /// ranges. A group has one bar without filters, measured in the first store of the group.
    pub fn svg(&self) -> String {
        let keys = count(self.settings.keys, "key");
        misses(
            "A query without result",
            "Mean latency of a query that finds nothing.",
            format!(
                "{keys} in five sorted runs, each with {}; data in the page cache, no block cache",
                self.settings.filter
            ),
            "mean ns per query (logarithmic)".into(),
            self.groups(),
            &self.machine,
        )
    }

    fn groups(&self) -> Vec<Group> {
        let mut kinds: Vec<(&str, Option<u64>)> = Vec::new();
        for row in &self.rows {
            if !kinds.contains(&(&row.query, row.range_len)) {
                kinds.push((&row.query, row.range_len));
            }
        }
        let group = |(query, range_len): (&str, Option<u64>)| {
            let of_kind = |consulted| {
                let is_kind = move |row: &&RangeRow| {
                    row.query == query && row.range_len == range_len && row.filters_consulted == consulted
                };
                self.rows.iter().filter(is_kind)
            };
            // The subtitle names the filter that all stores have.
            let shared = format!("{} + ", self.settings.filter);
            let with = of_kind(true).map(|row| {
                let name = row.filter.strip_prefix(&shared).unwrap_or(&row.filter);
                (name, row.bits_per_key, row.mean_ns)
            });
            let bars = bars(with, of_kind(false).next().map(|row| row.mean_ns));
            let heading = match range_len {
                Some(len) => format!("Scan of {}, {query}", count(len, "integer")),
                None => format!("{}{}", query.get(..1).unwrap_or("").to_uppercase(), query.get(1..).unwrap_or("")),
            };
            Group { heading, bars }
        };
        kinds.into_iter().map(group).collect()
    }
}

impl RangeRow {
    fn cells(&self) -> [String; 12] {
        let percent = |rate: Option<f64>| rate.map_or_else(|| "-".into(), |rate| significant(rate * 100.0));
        [
            self.filter.clone(),
            self.query.clone(),
            self.range_len.map_or_else(|| "-".into(), thousands),
            if self.filters_consulted { "on" } else { "off" }.into(),
            time(self.mean_ns),
            time(self.p50_ns as f64),
            time(self.p99_ns as f64),
            significant(self.block_reads_per_query),
            significant(self.probes_per_query),
            percent(self.false_positive_rate),
            percent(self.expected_false_positive_rate),
            significant(self.bits_per_key),
        ]
    }
}
