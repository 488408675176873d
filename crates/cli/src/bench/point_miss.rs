//! `filterblock bench point-miss`: loads stores and looks up absent and present keys, with and
//! without filters.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::measure::{self, Distribution, Lookups, Mean, Workload, median};
use super::record::OutputArguments;
use super::report::{self, FilterCacheReport, Report, Row, Settings, StoreReport};
use super::source::{KEYS_MIN, Source};
use super::store::{Layout, Setup, Store, announce, ask_every_key, check_droppable, filter_use, new_dir};
use crate::filter_choice::{self, FilterChoice, RangeChoice};
use crate::html;
use crate::interrupt;
use crate::machine::{Machine, Versions};
use crate::prelude::*;
use crate::refused_value::{choice, whole};
use filterblock::Verify;
use filterblock_store::lsm::{Db, Options, PrefixChoice};
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

First, a sentence for each store compares the time and the block reads of a get of an absent key, with and without \
filters. The table:
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
#[derive(clap::Args)]
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
    #[arg(long, default_value = "buffered", value_parser = choice([
        ("buffered", "Through the page cache", IoMode::Buffered),
        ("direct", "Without the page cache (O_DIRECT on Linux)", IoMode::Direct),
    ]))]
    io: IoMode,
    /// When to verify the pages of a filter
    #[arg(long, default_value = "at-open", value_parser = choice([
        ("at-open", "All pages when the filter is opened", Verify::AtOpen),
        ("on-first-touch", "Each page before the first answer \"absent\" that depends on it", Verify::OnFirstTouch),
    ]))]
    verify: Verify,
    /// The memory budget of the filters, such as 64MiB: a filter is read when it is first needed;
    /// under pressure, bumped ribbons lose columns, then cold filters leave memory [default: no limit]
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
#[derive(Clone, Copy)]
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
#[derive(Clone)]
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

pub fn run(arguments: &Arguments) -> Outcome {
    let outputs = arguments.outputs.create(arguments.keys.as_deref())?;
    let source = match &arguments.keys {
        Some(path) => Source::lines(path, arguments.count, arguments.seed)?,
        None => Source::mixed(arguments.count.unwrap_or(1_000_000), arguments.seed),
    };
    let plan = arguments.plan(&source);
    let settings = arguments.settings(&plan)?;
    if arguments.cold {
        check_droppable(&plan.dir)?;
    }
    check_memory(&plan)?;
    let stores = (plan.filters.len() * plan.layouts.len()) as u64;
    announce(stores, plan.setup.store_len_bytes() as f64, &plan.dir, &estimated_time(&plan));
    let mut bench = Bench::new(plan, settings)?;
    interrupt::gracefully(|| bench.run())?;
    let Bench { report, .. } = bench;
    let page = || html::page("filterblock bench point-miss", &report, html::plots::point_miss);
    outputs.publish(&report, || report::draw(&report, &[]), page, || report.to_text())?;
    Ok(if report.false_negatives() == 0 { Exit::Success } else { Exit::Negative })
}

impl Arguments {
    fn plan<'a>(&self, source: &'a Source) -> Plan<'a> {
        let setup = Setup {
            source,
            value_len_bytes: self.value_size,
            seed: self.seed,
            io: self.io,
            verify: self.verify,
            cold: self.cold,
            filter_memory: self.filter_memory,
            run_map_trigger: self.run_map_trigger.0,
        };
        let mut layouts: Vec<Layout> = self.layout.iter().flat_map(|choice| choice.0.clone()).collect();
        layouts.sort_unstable();
        layouts.dedup();
        let mut filters = Vec::new();
        for filter in &self.filter {
            if !filters.contains(filter) {
                filters.push(*filter);
            }
        }
        let lookups = (source.len() * LOOKUPS_PER_KEY_DEFAULT).clamp(LOOKUPS_DEFAULT_MIN, LOOKUPS_DEFAULT);
        Plan {
            setup,
            filters,
            layouts,
            lookups: self.lookups.unwrap_or(lookups),
            rounds: self.rounds,
            dir: self.dir.clone().unwrap_or_else(std::env::temp_dir),
        }
    }

    fn settings(&self, plan: &Plan<'_>) -> Outcome<Settings> {
        let source = plan.setup.source;
        Ok(Settings {
            filters: plan.filters.iter().map(ToString::to_string).collect(),
            layouts: plan.layouts.iter().map(ToString::to_string).collect(),
            keys: source.len(),
            key_len_bytes_mean: source.len_bytes() as f64 / source.len() as f64,
            value_len_bytes: self.value_size,
            seed: self.seed,
            io: if self.io == IoMode::Direct { "direct" } else { "buffered" }.into(),
            verify: if self.verify == Verify::AtOpen { "at-open" } else { "on-first-touch" }.into(),
            cold: self.cold,
            filter_memory: self.filter_memory,
            run_map_trigger: self.run_map_trigger.0,
            lookups: plan.lookups,
            rounds: self.rounds,
            mean_clock: if plan.setup.waits() { "wall" } else { "thread CPU" }.into(),
            clock_cost_ns: measure::clock_cost_ns()?,
        })
    }
}

/// Returns an error if the lookup keys may take too much memory. The estimate is `lookups` keys for
/// the absent workload, and a quarter of that number for each of the other two.
fn check_memory(plan: &Plan<'_>) -> Outcome<()> {
    let source = plan.setup.source;
    let key_len_bytes = source.len_bytes() as f64 / source.len() as f64 + 8.0;
    let len_bytes = plan.lookups as f64 * 1.5 * key_len_bytes;
    if len_bytes > LOOKUPS_LEN_BYTES_MAX {
        let gigabytes = text::significant(len_bytes / 1e9);
        return fail(format!(
            "--lookups {}: the lookup keys may take {gigabytes} GB of memory; give a smaller number",
            plan.lookups
        ));
    }
    Ok(())
}

/// Returns the estimated time of the benchmark, unless reads wait for a device: their time is unknown.
fn estimated_time(plan: &Plan<'_>) -> String {
    let stores = (plan.filters.len() * plan.layouts.len()) as f64;
    let gets = plan.lookups * u64::from(plan.rounds + 1);
    let seconds = stores * (plan.setup.source.len() as f64 * SECONDS_PER_KEY + gets as f64 * SECONDS_PER_GET);
    match seconds {
        _ if plan.setup.cold || plan.setup.io == IoMode::Direct => String::new(),
        seconds if seconds < 60.0 => "; less than a minute".to_owned(),
        seconds => format!("; about {}", count(text::whole(seconds / 60.0), "minute")),
    }
}

/// The stores and workloads to measure.
struct Plan<'a> {
    setup: Setup<'a>,
    filters: Vec<FilterChoice>,
    /// The layouts. [`Layout::Compacted`] follows [`Layout::AsFallen`].
    layouts: Vec<Layout>,
    /// The maximum number of gets in a measurement. Slow measurements make fewer gets.
    lookups: u64,
    rounds: u32,
    /// The parent directory of the stores.
    dir: PathBuf,
}

/// A running benchmark with its results.
struct Bench<'a> {
    plan: Plan<'a>,
    lookups: Vec<Lookups>,
    report: Report,
}

struct Measured {
    workload: Workload,
    consulted: bool,
    lookups: u64,
    means: Vec<Mean>,
    batch_means: Vec<Mean>,
}

impl<'a> Bench<'a> {
    /// Prepares a benchmark and draws its lookup keys.
    fn new(plan: Plan<'a>, settings: Settings) -> Outcome<Self> {
        let (rows, stores) = (Vec::new(), Vec::new());
        let report = Report { rows, stores, machine: Machine::here(), versions: Versions::here(), settings };
        let mut bench = Self { plan, lookups: Vec::new(), report };
        for (workload, seed) in Workload::ALL.into_iter().zip(1..) {
            let len = bench.len_of(workload, true, 1);
            let seed = bench.plan.setup.seed.wrapping_add(seed);
            bench.lookups.push(Lookups::new(bench.plan.setup.source, workload, len, seed)?);
        }
        Ok(bench)
    }

    fn run(&mut self) -> Outcome<()> {
        self.plan.filters.clone().into_iter().try_for_each(|filter| self.measure_filter(filter))
    }

    /// Returns the number of lookups in a measurement of a store with `runs` sorted runs. Slow
    /// measurements make fewer lookups than --lookups, but at least the smaller of --lookups and
    /// 100.
    fn len_of(&self, workload: Workload, consulted: bool, runs: u64) -> u64 {
        let reads_blocks = !consulted || workload != Workload::Absent;
        let divisor = match () {
            () if self.plan.setup.cold => 500,
            () if reads_blocks && self.plan.setup.io == IoMode::Direct => 100,
            () if consulted && reads_blocks => 4,
            () if reads_blocks => 10,
            () => 1,
        };
        let runs = if consulted { 1 } else { runs.max(1) };
        (self.plan.lookups / (divisor * runs)).max(self.plan.lookups.min(100))
    }

    fn measure_filter(&mut self, filter: FilterChoice) -> Outcome<()> {
        let mut fallen = None;
        for layout in self.plan.layouts.clone() {
            // If the as-fallen layout is also measured, the compacted layout is made from the
            // as-fallen store, so that both layouts have the same history.
            let dir = match fallen.take() {
                Some(dir) if layout == Layout::Compacted => dir,
                _ => new_dir(&self.plan.dir)?,
            };
            let place = dir.path().join("store");
            let (range_filter, prefix) = (RangeChoice::None, PrefixChoice::None);
            let store = Store { setup: self.plan.setup, dir: &place, filter, range_filter, prefix };
            let loaded = if place.exists() { store.compact()? } else { store.load(layout)? };
            self.measure_store(&store, &loaded)?;
            fallen = (layout == Layout::AsFallen).then_some(dir);
        }
        Ok(())
    }

    fn measure_store(&mut self, store: &Store<'_>, loaded: &StoreReport) -> Outcome<()> {
        let lost = ask_every_key(store)?;
        let title = format!("measuring {} {}", store.filter, loaded.layout);
        let bar = progress::bar(Some(u64::from(self.plan.rounds) + 1), title);
        let mut all = Vec::new();
        for workload in Workload::ALL {
            for consulted in [true, false] {
                let lookups = self.len_of(workload, consulted, loaded.runs);
                all.push(Measured { workload, consulted, lookups, means: Vec::new(), batch_means: Vec::new() });
            }
        }
        for _ in 0..self.plan.rounds {
            self.take_means(store, &mut all)?;
            bar.inc(1);
        }
        for measured in &all {
            let distribution = self.take_distribution(store, measured)?;
            self.report.rows.push(self.row(loaded, measured, &distribution, lost));
        }
        bar.finish_and_clear();
        self.report.stores.push(loaded.clone());
        Ok(())
    }

    /// Runs one round of the first pass, with filters and without, so that a slow minute of the
    /// machine affects both.
    fn take_means(&self, store: &Store<'_>, all: &mut [Measured]) -> Outcome<()> {
        for consulted in [true, false] {
            let mut db = store.open(filter_use(consulted))?;
            for measured in all.iter_mut().filter(|measured| measured.consulted == consulted) {
                let Some(lookups) = self.lookups_of(measured.workload) else { continue };
                db = self.prepare(store, db, lookups, measured)?;
                measured.means.push(measure::mean(&db, lookups, measured.lookups)?);
                if measured.workload == Workload::Absent {
                    db = self.prepare(store, db, lookups, measured)?;
                    measured.batch_means.push(measure::batch_mean(&db, lookups, measured.lookups)?);
                }
            }
            db.close()?;
        }
        Ok(())
    }

    /// Warms up the store for a measurement. With `--cold`, reopens the store without cached
    /// pages instead.
    fn prepare(&self, store: &Store<'_>, db: Db, lookups: &Lookups, measured: &Measured) -> Outcome<Db> {
        if self.plan.setup.cold {
            db.close()?;
            return store.open(filter_use(measured.consulted));
        }
        measure::mean(&db, lookups, measured.lookups / 10)?;
        Ok(db)
    }

    fn take_distribution(&self, store: &Store<'_>, measured: &Measured) -> Outcome<Distribution> {
        let Some(lookups) = self.lookups_of(measured.workload) else {
            return fail("a workload has no lookups; report this defect");
        };
        let db = store.open(filter_use(measured.consulted))?;
        let db = self.prepare(store, db, lookups, measured)?;
        let distribution = measure::distribution(&db, lookups, measured.lookups)?;
        distribution.stats.reports.iter().for_each(output::message);
        db.close()?;
        Ok(distribution)
    }

    fn lookups_of(&self, workload: Workload) -> Option<&Lookups> {
        self.lookups.iter().find(|lookups| lookups.workload == workload)
    }

    fn row(&self, loaded: &StoreReport, measured: &Measured, distribution: &Distribution, lost: u64) -> Row {
        let Distribution { latencies, stats, device_bytes } = distribution;
        let total = &stats.total;
        let cpu_mean_ns = median(measured.means.iter().map(|mean| mean.cpu_ns).collect());
        let wall_mean_ns = median(measured.means.iter().map(|mean| mean.wall_ns).collect());
        let waits = self.plan.setup.waits();
        let batch_means = measured.batch_means.iter().map(|mean| if waits { mean.wall_ns } else { mean.cpu_ns });
        let per_get = |count: f64| count / measured.lookups.max(1) as f64;
        Row {
            filter: loaded.filter.clone(),
            layout: loaded.layout.clone(),
            workload: measured.workload.name().into(),
            filters_consulted: measured.consulted,
            runs: loaded.runs,
            lookups: measured.lookups,
            mean_ns: if waits { wall_mean_ns } else { cpu_mean_ns },
            cpu_mean_ns,
            wall_mean_ns,
            batch_mean_ns: (!measured.batch_means.is_empty()).then(|| median(batch_means.collect())),
            p50_ns: latencies.value_at_quantile(0.5),
            p99_ns: latencies.value_at_quantile(0.99),
            p999_ns: latencies.value_at_quantile(0.999),
            gets_per_second: 1e9 / wall_mean_ns,
            block_reads_per_get: per_get(total.block_reads as f64),
            expected_false_positives_per_get: measured
                .consulted
                .then(|| per_get(total.points.expected_false_positives)),
            bytes_per_get: per_get(total.block_read_bytes as f64),
            device_bytes_per_get: device_bytes.map(|bytes| per_get(bytes as f64)),
            bits_per_key: loaded.bits_per_key,
            false_positive_rate: total.points.false_positive_rate(),
            expected_false_positive_rate: total.points.expected_fpr(),
            filter_cache: stats.filter_cache.filter(|_| measured.consulted).map(FilterCacheReport::from),
            false_negatives: match measured.consulted {
                true => lost,
                false => measured.means.iter().map(|mean| mean.lost).max().unwrap_or(0),
            },
        }
    }
}
