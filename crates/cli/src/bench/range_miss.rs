//! `filterblock bench range-miss`: scans ranges without a key, scans absent rows, and gets keys of
//! absent rows, with filters and without.

use std::path::PathBuf;

use super::super::failure::{Exit, Outcome};
use super::super::refused_value::{prefix_choice, whole};
use super::super::{html, interrupt, output, text};
use super::outputs::OutputArguments;
use super::range_report::RangeSettings;
use super::range_run::{RangePlan, run as run_plan};
use super::{measure, range_plot};
use crate::filter_choice::FilterChoice;
use crate::range_choice::RangeChoice;
use filterblock_store::lsm::PrefixChoice;

const EXAMPLES: &str = "\
Examples:
  filterblock bench range-miss
  filterblock bench range-miss --range-filter grafite:L=16:fpr=0.001 --length 1 --length 16
  filterblock bench range-miss --json ranges.json --svg ranges.svg

For each range filter, the benchmark loads a store of random integers (big-endian keys of 8 bytes) in five \
overlapping runs. It scans ranges that hold no key, with filters and then without:
  uniform       ranges anywhere between the smallest and the largest key
  beside a key  ranges that begin directly after a loaded key
Then it loads a store of rows with ten columns each (keys row/column/value) whose filters hold the prefixes of --prefix, and \
measures gets and scans in rows that are absent.

The table:
  filter       filters of the SST files
  query        where the ranges lie, or what is done in an absent row
  length       integers in each range
  filters      asked: reads ask the filters; ignored: they do not
  mean         ns of CPU time per query in a plain loop; on systems other than Unix, wall time
  p50, p99     percentiles of single queries in a second pass: ns of wall time
  reads        data blocks read per query
  probes       filter queries per query: for keys, ranges or prefixes, depending on the row
  fpr %        measured false-positive rate (FPR) of these filter queries
  expected %   FPR that the parameters predict, for ranges of the length for which the filter was made; without L, it does not \
apply to ranges beside a key
  bits per key bits of all filters, divided by the number of keys

The mean is the median over the rounds (--rounds). Each round measures with filters and without. The benchmark also looks up every \
loaded key: false negatives must be 0. The defaults take about a minute.

Exit status: 0 done; 1 a loaded key was missing or had a wrong value; 2 an error; 128 + N when signal N ends the command (130 for Ctrl-C).";

const COUNT_MAX: u64 = 100_000_000;
const QUERIES_MAX: u64 = 10_000_000;

/// Measure scans and gets that find nothing, with filters and without
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The number of keys to load
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = whole(1_000..=COUNT_MAX, 1_000_000))]
    count: u64,
    /// The size of each value in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = whole(0..=1usize << 20, 100))]
    value_size: usize,
    /// Create the stores in DIR [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The filter of keys, as in `filterblock bench point-miss`
    #[arg(long, value_name = "SPEC", default_value = "blocked-bloom:10")]
    filter: FilterChoice,
    /// A range filter to measure, as in `filterblock db load`; may be repeated
    #[arg(long, value_name = "SPEC", default_values = ["grafite:fpr=0.01", "grafite:L=16:fpr=0.01", "grafite:L=1024:fpr=0.01"])]
    range_filter: Vec<RangeChoice>,
    /// The prefixes in the filters of the store of rows, as in `filterblock db load`
    #[arg(long, value_name = "EXTRACTOR", default_value = "row-column:/", value_parser = prefix_choice)]
    prefix: PrefixChoice,
    /// The length of the ranges in integers; may be repeated
    #[arg(long, value_name = "N", default_values = ["16", "1024"], value_parser = whole(1..=1u64 << 40, 1024))]
    length: Vec<u64>,
    /// The number of queries of each kind with filters; without filters, a twentieth as many are
    /// made
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = whole(1..=QUERIES_MAX, 100_000))]
    queries: u64,
    /// Measure each mean N times; the report shows the median
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole(1..=1_000u32, 3))]
    rounds: u32,
    /// The seed of keys, of random orders and of the filters
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = whole(0..=u64::MAX, 1))]
    seed: u64,
    #[command(flatten)]
    outputs: OutputArguments,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let outputs = arguments.outputs.create(None)?;
    let plan = plan(arguments);
    let stores = plan.range_filters.len() as u64 + 1;
    let megabytes = plan.count as f64 * (plan.value_len_bytes as f64 + 30.0) / 1e6;
    output::message(format!(
        "{} of about {} MB each, one at a time, in {}",
        text::count(stores, "store"),
        text::thousands(text::whole(megabytes.max(1.0))),
        plan.dir.display(),
    ));
    let settings = settings(&plan)?;
    let report = interrupt::gracefully(|| run_plan(&plan, settings))?;
    let page = || html::page("filterblock bench range-miss", &report, |_| Vec::new());
    outputs.publish(&report, || range_plot::draw(&report), page, || report.to_text())?;
    Ok(if report.false_negatives == 0 { Exit::Success } else { Exit::Negative })
}

fn plan(arguments: &Arguments) -> RangePlan {
    RangePlan {
        filter: arguments.filter,
        range_filters: arguments.range_filter.clone(),
        prefix: arguments.prefix.clone(),
        range_lens: arguments.length.clone(),
        count: arguments.count,
        value_len_bytes: arguments.value_size,
        queries: arguments.queries,
        rounds: arguments.rounds,
        seed: arguments.seed,
        dir: arguments.dir.clone().unwrap_or_else(std::env::temp_dir),
    }
}

fn settings(plan: &RangePlan) -> Outcome<RangeSettings> {
    Ok(RangeSettings {
        filter: plan.filter.to_string(),
        range_filters: plan.range_filters.iter().map(ToString::to_string).collect(),
        prefix: plan.prefix.to_string(),
        range_lens: plan.range_lens.clone(),
        keys: plan.count,
        value_len_bytes: plan.value_len_bytes,
        seed: plan.seed,
        queries: plan.queries,
        rounds: plan.rounds,
        clock_cost_ns: measure::clock_cost_ns()?,
    })
}
