//! `filterblock bench point-miss`: loads stores and looks up absent and present keys, with and
//! without filters.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;

use super::super::failure::{Exit, Failure, Outcome};
use super::super::refused_value::whole;
use super::super::{html, interrupt, output, text};
use super::outputs::OutputArguments;
use super::report::Settings;
use super::run::{Bench, Plan};
use super::source::{KEYS_MIN, Source};
use super::store::{Layout, Setup};
use super::{measure, page_cache, plot};
use crate::filter_choice::{self, FilterChoice};
use filterblock::Verify;
use filterblock_store::lsm::Options;
use filterblock_store::storage::IoMode;

const EXAMPLES: &str = "\
Examples:
  filterblock bench point-miss
  filterblock bench point-miss --keys names.txt --filter blocked-bloom:10
  filterblock bench point-miss --layout all --json result.json --svg latency.svg --html report.html
  filterblock bench point-miss --layout levels-4 --count 300000 --filter monkey:10
  filterblock bench point-miss --cold --io direct --dir /mnt/disk --verify on-first-touch
  filterblock bench point-miss --filter bumped-ribbon:16 --filter-memory 1MiB

For each filter and layout, the benchmark loads a store in random order. If the layouts as-fallen and compacted are \
both measured, it compacts the as-fallen store to make the compacted one. On the same files it then looks up \
absent keys, present keys and a mix of both, with filters and without. Absent keys lie between the smallest and \
the largest loaded key.

The defaults take about a minute. One store exists at a time. With the defaults it needs 130 MB of disk, and twice that during compaction. \
Stores lie in a temporary directory, which is removed at the end and after Ctrl-C.

The table:
  filter      filter of all SST files, or policy
  layout      layout of the SST files, see --layout
  keys        keys that are looked up: absent, present or mixed
  filters     on: reads ask the filters; off: reads ignore them
  mean        ns of CPU time per get in a plain loop (k: thousands, M: millions)
  batch       ns per key of a multi_get of 32 absent keys
  p50 ..      percentiles of single gets in a second pass: ns of wall time
  reads       data blocks read per get, counted by the store (there is no block cache)
  FPR %       measured false-positive rate (FPR) of the filters asked about absent keys
  exp. FPR %  FPR that the formulas predict

Each mean and batch time is the median over the rounds (--rounds). Each round measures with filters and without. With --cold or --io direct \
these times are wall time, because a read may wait for the device. They are also wall time on systems other than Unix. The percentiles \
include the time to read the clock, which is printed.

Below the table, each store has a line with its load time, its size and the size of its filters. The benchmark also looks up \
every loaded key: false negatives must be 0.

Measurements that read blocks make a quarter of --lookups gets, and even fewer with --io direct or without filters. With --cold all measurements \
make fewer. Without filters, the number also falls with the number of runs. At least 100 gets are made, if --lookups is not smaller. Each row of the JSON has its number of gets, gets per second, bytes read per get and \
bits per key. In the JSON, null means: no filter was asked about an absent key (rates), not all keys are absent (batch \
means), the filters are off (expected false positives), the store was made from another one by compaction (puts per \
second), or the system does not report the value (memory, device bytes).

See `filterblock build --help` for --force, which applies to --json, --svg and --html. --html writes one page with plots and \
sortable tables. The page loads nothing from elsewhere.

Exit status: 0 done; 1 a loaded key was missing or had a wrong value; 2 an error; 128 + N when signal N ends the command (130 for Ctrl-C).";

/// The maximum number of keys. A store of so many generated keys with values of the default size
/// takes about 13 GB.
const COUNT_MAX: u64 = 100_000_000;
const VALUE_LEN_BYTES_MAX: usize = 1 << 20;
/// The maximum number of lookups. Their keys stay in memory.
const LOOKUPS_MAX: u64 = 100_000_000;
const LOOKUPS_LEN_BYTES_MAX: f64 = 4e9;
/// The time in seconds to load, settle and look up one key, for a rough estimate.
const SECONDS_PER_KEY: f64 = 6.5e-6;
/// The time in seconds of one get.
const SECONDS_PER_GET: f64 = 1e-6;
const LOOKUPS_DEFAULT: u64 = 1_000_000;
/// The default number of lookups per loaded key. It keeps benchmarks with few keys short.
const LOOKUPS_PER_KEY_DEFAULT: u64 = 10;
const LOOKUPS_DEFAULT_MIN: u64 = 20_000;

/// Measure reads of absent keys, with filters and without
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// Use the lines of FILE as keys [default: generated keys of 16 bytes]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// The number of keys to load [default: 1000000, or all lines of --keys]
    #[arg(long, value_name = "N", value_parser = whole(KEYS_MIN..=COUNT_MAX, 1_000_000))]
    count: Option<u64>,
    /// The size of each value in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = whole(0..=VALUE_LEN_BYTES_MAX, 100))]
    value_size: usize,
    /// Create the stores in DIR [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// A filter or policy to measure, such as blocked-bloom:10; may be repeated
    ///
    /// KIND:BITS and KIND:fpr=RATE give all SST files the same filter, see `filterblock build
    /// --help`. by-level is the store's default policy. monkey:BITS spends a mean of BITS bits per
    /// key where they save the most reads. budget:BYTES, such as budget:64MiB, is an approximate
    /// limit for all filters together. always-maybe is a filter that answers "maybe" to every key.
    #[arg(long, value_name = "SPEC", default_values = ["by-level", "blocked-bloom:10", "bloom:10"])]
    filter: Vec<FilterChoice>,
    /// The layout of the SST files; may be repeated
    ///
    /// as-fallen is the result of loading with automatic compaction. compacted is everything in one
    /// sorted run. runs-N has N overlapping runs, such as runs-36, compaction off. levels-4 has four
    /// full levels, each ten times as large as the level above, with small SST files; it is slowest
    /// to load. all stands for as-fallen, compacted, runs-1, runs-5, runs-36 and runs-100.
    #[arg(long, value_name = "LAYOUT", default_values = ["as-fallen", "runs-36"])]
    layout: Vec<LayoutChoice>,
    /// The number of overlapping runs from which one map answers for all of them; "off": the filter
    /// of each run answers
    #[arg(long, value_name = "N", default_value_t = MapTrigger(Options::default().run_map_trigger))]
    run_map_trigger: MapTrigger,
    /// How to read data blocks
    #[arg(long, value_enum, default_value = "buffered")]
    io: IoChoice,
    /// When to verify the pages of a filter
    #[arg(long, value_enum, default_value = "at-open")]
    verify: VerifyChoice,
    /// The memory budget of the filters, such as 64MiB: above it, bumped ribbons lose columns;
    /// filters of other kinds stay whole, even above the budget [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = filter_choice::memory)]
    filter_memory: Option<u64>,
    /// Drop the files of the store from the page cache before each measurement (Linux, no root
    /// needed)
    #[arg(long)]
    cold: bool,
    /// The maximum number of gets in a measurement; slow measurements make fewer [default: 10
    /// per loaded key, from 20000 to 1000000]
    #[arg(long, value_name = "N", value_parser = whole(1..=LOOKUPS_MAX, 1_000_000))]
    lookups: Option<u64>,
    /// Measure each mean N times; the report shows the median
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole(1..=1_000u32, 3))]
    rounds: u32,
    /// The seed of generated keys, of random orders and of the filters
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = whole(0..=u64::MAX, 1))]
    seed: u64,
    #[command(flatten)]
    outputs: OutputArguments,
}

/// The value of `--run-map-trigger`. `None` means that there is no map.
#[derive(Debug, Clone, Copy)]
struct MapTrigger(Option<usize>);

impl FromStr for MapTrigger {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.parse()) {
            ("off", _) => Ok(Self(None)),
            (_, Ok(trigger @ 2..=128)) => Ok(Self(Some(trigger))),
            _ => Err("expected a whole number from 2 to 128, or off; try 12"),
        }
    }
}

impl fmt::Display for MapTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.pad("off"),
            Some(trigger) => write!(f, "{trigger}"),
        }
    }
}

/// The layouts that a value of `--layout` stands for.
#[derive(Debug, Clone)]
struct LayoutChoice(Vec<Layout>);

/// The layouts of `--layout all`: all except levels-4, which is slow to load.
const ALL_LAYOUTS: [Layout; 6] =
    [Layout::AsFallen, Layout::Compacted, Layout::Runs(1), Layout::Runs(5), Layout::Runs(36), Layout::Runs(100)];

impl FromStr for LayoutChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" { Ok(Self(ALL_LAYOUTS.into())) } else { text.parse().map(|layout| Self(vec![layout])) }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum IoChoice {
    /// Through the page cache
    Buffered,
    /// Without the page cache (O_DIRECT on Linux)
    Direct,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum VerifyChoice {
    /// All pages when the filter is opened
    AtOpen,
    /// Each page before the first answer "absent" that depends on it
    OnFirstTouch,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let outputs = arguments.outputs.create(arguments.keys.as_deref())?;
    let source = source(arguments)?;
    let plan = plan(arguments, &source);
    let settings = settings(arguments, &plan)?;
    if arguments.cold {
        page_cache::check_droppable(&plan.dir)?;
    }
    check_memory(&plan)?;
    output::message(announcement(&plan));
    let mut bench = Bench::new(plan, settings)?;
    interrupt::gracefully(|| bench.run())?;
    let Bench { report, .. } = bench;
    let page = || html::page("filterblock bench point-miss", &report, html::plots::point_miss);
    outputs.publish(&report, || plot::draw(&report, &[]), page, || report.to_text())?;
    Ok(if report.false_negatives() == 0 { Exit::Success } else { Exit::Negative })
}

fn source(arguments: &Arguments) -> Outcome<Source> {
    match &arguments.keys {
        Some(path) => Source::lines(path, arguments.count, arguments.seed),
        None => Ok(Source::mixed(arguments.count.unwrap_or(1_000_000), arguments.seed)),
    }
}

fn plan<'a>(arguments: &Arguments, source: &'a Source) -> Plan<'a> {
    let setup = Setup {
        source,
        value_len_bytes: arguments.value_size,
        seed: arguments.seed,
        io: arguments.io.into(),
        verify: arguments.verify.into(),
        cold: arguments.cold,
        filter_memory: arguments.filter_memory,
        run_map_trigger: arguments.run_map_trigger.0,
    };
    let mut layouts: Vec<Layout> = arguments.layout.iter().flat_map(|choice| choice.0.clone()).collect();
    layouts.sort_unstable();
    layouts.dedup();
    Plan {
        setup,
        filters: distinct(&arguments.filter),
        layouts,
        lookups: arguments.lookups.unwrap_or_else(|| lookups_for(source.len())),
        rounds: arguments.rounds,
        dir: arguments.dir.clone().unwrap_or_else(std::env::temp_dir),
    }
}

/// Removes repeated filters, so that each is measured once.
fn distinct(filters: &[FilterChoice]) -> Vec<FilterChoice> {
    let mut distinct = Vec::new();
    for filter in filters {
        if !distinct.contains(filter) {
            distinct.push(*filter);
        }
    }
    distinct
}

fn lookups_for(keys: u64) -> u64 {
    (keys * LOOKUPS_PER_KEY_DEFAULT).clamp(LOOKUPS_DEFAULT_MIN, LOOKUPS_DEFAULT)
}

/// Returns an error if the lookup keys may take too much memory. The estimate is `lookups` keys for
/// the absent workload, and a quarter of that number for each of the other two.
fn check_memory(plan: &Plan<'_>) -> Outcome<()> {
    let source = plan.setup.source;
    let key_len_bytes = source.len_bytes() as f64 / source.len() as f64 + 8.0;
    let len_bytes = plan.lookups as f64 * 1.5 * key_len_bytes;
    if len_bytes > LOOKUPS_LEN_BYTES_MAX {
        let gigabytes = text::significant(len_bytes / 1e9);
        return Err(Failure::Message(format!(
            "--lookups {}: the lookup keys may take {gigabytes} GB of memory; give a smaller number",
            plan.lookups
        )));
    }
    Ok(())
}

/// Describes the size and, unless reads wait for a device, the estimated time of the benchmark.
fn announcement(plan: &Plan<'_>) -> String {
    let stores = (plan.filters.len() * plan.layouts.len()) as u64;
    let megabytes = (plan.setup.store_len_bytes() as f64 / 1e6).max(1.0);
    let gets = plan.lookups * u64::from(plan.rounds + 1);
    let seconds = stores as f64 * (plan.setup.source.len() as f64 * SECONDS_PER_KEY + gets as f64 * SECONDS_PER_GET);
    let time = match seconds {
        // The time of a read from the device is unknown.
        _ if plan.setup.cold || plan.setup.io == IoMode::Direct => String::new(),
        seconds if seconds < 60.0 => "; less than a minute".to_owned(),
        seconds => format!("; about {}", text::count(text::whole(seconds / 60.0), "minute")),
    };
    format!(
        "{} of about {} MB each, one at a time, in {}{time}",
        text::count(stores, "store"),
        text::thousands(text::whole(megabytes)),
        plan.dir.display(),
    )
}

fn settings(arguments: &Arguments, plan: &Plan<'_>) -> Outcome<Settings> {
    let source = plan.setup.source;
    Ok(Settings {
        filters: plan.filters.iter().map(ToString::to_string).collect(),
        layouts: plan.layouts.iter().map(ToString::to_string).collect(),
        keys: source.len(),
        key_len_bytes_mean: source.len_bytes() as f64 / source.len() as f64,
        value_len_bytes: arguments.value_size,
        seed: arguments.seed,
        io: match arguments.io {
            IoChoice::Buffered => "buffered",
            IoChoice::Direct => "direct",
        }
        .into(),
        verify: match arguments.verify {
            VerifyChoice::AtOpen => "at-open",
            VerifyChoice::OnFirstTouch => "on-first-touch",
        }
        .into(),
        cold: arguments.cold,
        filter_memory: arguments.filter_memory,
        run_map_trigger: arguments.run_map_trigger.0,
        lookups: plan.lookups,
        rounds: arguments.rounds,
        mean_clock: if plan.setup.waits() { "wall" } else { "thread CPU" }.into(),
        clock_cost_ns: measure::clock_cost_ns()?,
    })
}

impl From<IoChoice> for IoMode {
    fn from(choice: IoChoice) -> Self {
        match choice {
            IoChoice::Buffered => Self::Buffered,
            IoChoice::Direct => Self::Direct,
        }
    }
}

impl From<VerifyChoice> for Verify {
    fn from(choice: VerifyChoice) -> Self {
        match choice {
            VerifyChoice::AtOpen => Self::AtOpen,
            VerifyChoice::OnFirstTouch => Self::OnFirstTouch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn the_defaults_are_announced_as_about_one_minute() {
        let Command { arguments } = Command::parse_from(["point-miss"]);
        let source = source(&arguments).unwrap();
        let text = announcement(&plan(&arguments, &source));
        assert!(text.starts_with("6 stores of about 1") && text.ends_with("; about 1 minute"), "{text}");
    }
}
