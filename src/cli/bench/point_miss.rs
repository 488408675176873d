//! `filterblock bench point-miss`: loads stores and asks for keys that are not there, with filters and without.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::super::failure::{Exit, Failure, Outcome};
use super::super::keys::KeyFormat;
use super::super::output::{self, NewFile};
use super::super::progress;
use super::machine::{Machine, Versions};
use super::measure::{self, Distribution, Lookups, Mean, Workload, median};
use super::plot::{self, Curve};
use super::report::{Report, Row, Settings, StoreReport};
use super::source::{KEYS_MIN, Source};
use super::store::{Layout, Setup, Store};
use crate::block::Verify;
use crate::filter::FilterSpec;
use crate::lsm::FilterUse;
use crate::storage::IoMode;

const EXAMPLES: &str = "\
Examples:
  filterblock bench point-miss
  filterblock bench point-miss --keys names.txt --filter blocked-bloom:10
  filterblock bench point-miss --layout all --json result.json --svg latency.svg
  filterblock bench point-miss --cold --io direct --dir /mnt/disk --verify on-first-touch

For each filter and layout a store is loaded in random order; then absent keys between the smallest and the largest
key, present keys and a mix of both are asked on the same files, with filters consulted and ignored.

  mean      CPU time of the thread over a plain loop; the median of --rounds, taken by turns with and without
            filters. With --cold or --io direct it is wall time, as a read may then wait for the device.
  batch     a key's share of a multi_get of 32 absent keys
  p50..     wall time of single gets, in a pass of its own; the cost of reading the clock is in it and is printed
  reads     data blocks read a get, counted by the store (there is no block cache)
  fpr       false positives among the filters asked about keys that their tables do not hold; beside it, expected
  lost      loaded keys that were not found: every key is asked. It must be 0

Runs that would take long are shorter than --lookups: a quarter where blocks are read, and less without filters, on
many runs, with --io direct and with --cold; the JSON has the number in each row. Stores are made in a temporary
directory that is removed afterwards. --json and --svg replace an existing file.

Exit status: 0 done; 1 a loaded key was not found; 2 an error.";

/// Measure reads of absent keys, with filters and without
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Take the lines of FILE as keys [default: generated keys of 16 bytes]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// How many keys to load [default: 1000000, or all lines of --keys]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(KEYS_MIN..=1 << 36))]
    count: Option<u64>,
    /// Bytes of each value
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = value_size)]
    value_size: usize,
    /// Make the stores in DIR [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// A filter to measure; may be repeated
    #[arg(long, value_name = "SPEC", default_values = ["blocked-bloom:10", "bloom:10"])]
    filter: Vec<FilterSpec>,
    /// How the tables lie; may be repeated
    #[arg(long, value_enum, value_name = "LAYOUT", default_values = ["as-fallen", "compacted"])]
    layout: Vec<LayoutChoice>,
    /// How data blocks are read
    #[arg(long, value_enum, default_value = "buffered")]
    io: IoChoice,
    /// When the pages of a filter are verified
    #[arg(long, value_enum, default_value = "at-open")]
    verify: VerifyChoice,
    /// Drop the store's own files from the page cache before each measurement (Linux, no root needed)
    #[arg(long)]
    cold: bool,
    /// Gets in the longest runs
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    lookups: u64,
    /// How often each mean is taken
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Decides keys, values and orders; the same seed repeats a run
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Write the results as JSON; `-` prints them instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the latencies of absent keys, with and without filters, in the first layout
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LayoutChoice {
    /// As loading and automatic compaction left it
    AsFallen,
    /// Everything in one sorted run
    Compacted,
    /// Five overlapping runs, compaction off
    #[value(name = "runs-5")]
    Runs5,
    /// Thirty-six overlapping runs, compaction off
    #[value(name = "runs-36")]
    Runs36,
    /// Each of these
    All,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum IoChoice {
    /// Through the page cache
    Buffered,
    /// Past it (O_DIRECT on Linux)
    Direct,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum VerifyChoice {
    /// All of them
    AtOpen,
    /// Each when a key first needs it
    OnFirstTouch,
}

fn value_size(text: &str) -> Result<usize, String> {
    const MAX: usize = 1 << 20;
    text.parse().ok().filter(|size| *size <= MAX).ok_or_else(|| format!("a number of bytes from 0 to {MAX}"))
}

/// Runs `filterblock bench point-miss`.
pub fn run(arguments: &Arguments) -> Outcome {
    // Unwritable places are found before the work, not after it.
    let to_stdout = arguments.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let json = arguments.json.as_deref().filter(|_| !to_stdout);
    let json = json.map(|path| NewFile::create(path, true)).transpose()?;
    let svg = arguments.svg.as_deref().map(|path| NewFile::create(path, true)).transpose()?;
    let source = source(arguments)?;
    let mut bench = Bench::new(arguments, &source)?;
    for &filter in &arguments.filter {
        bench.measure_filter(filter)?;
    }
    let Bench { report, curves, .. } = bench;
    if let Some(file) = svg {
        let layout = curves.first().map_or("", |(layout, _)| layout);
        let title = format!("Reading a key that is not there: {}, {layout}", source.describe());
        let curves: Vec<Curve> = curves.into_iter().map(|(_, curve)| curve).collect();
        file.publish(plot::draw(&title, &curves)?.as_bytes())?;
    }
    if let Some(file) = json {
        file.publish(output::json(&report)?.as_bytes())?;
    }
    match to_stdout {
        true => output::print_json(&report)?,
        false => output::print(&report.to_text())?,
    }
    Ok(if report.false_negatives() == 0 { Exit::Success } else { Exit::Negative })
}

fn source(arguments: &Arguments) -> Outcome<Source> {
    match &arguments.keys {
        Some(path) => Source::lines(path, KeyFormat::default(), arguments.count, arguments.seed),
        None => Ok(Source::mixed(arguments.count.unwrap_or(1_000_000), arguments.seed)),
    }
}

/// A benchmark under way.
struct Bench<'a> {
    arguments: &'a Arguments,
    setup: Setup<'a>,
    layouts: Vec<Layout>,
    lookups: Vec<Lookups>,
    report: Report,
    /// With the layout they were seen in.
    curves: Vec<(&'static str, Curve)>,
}

/// What one row is made of.
struct Measured {
    workload: Workload,
    consulted: bool,
    lookups: u64,
    means: Vec<Mean>,
    batch_means: Vec<Mean>,
}

impl<'a> Bench<'a> {
    fn new(arguments: &'a Arguments, source: &'a Source) -> Outcome<Self> {
        let setup = Setup {
            source,
            value_len_bytes: arguments.value_size,
            seed: arguments.seed,
            io: arguments.io.into(),
            verify: arguments.verify.into(),
            cold: arguments.cold,
        };
        let chosen = |layout: &Layout| {
            arguments.layout.iter().any(|choice| choice.layout().is_none_or(|chosen| chosen == *layout))
        };
        let layouts = Layout::ALL.into_iter().filter(chosen).collect();
        let mut bench = Self {
            arguments,
            setup,
            layouts,
            lookups: Vec::new(),
            report: Report {
                rows: Vec::new(),
                stores: Vec::new(),
                machine: Machine::here(),
                versions: Versions::here(),
                settings: settings(arguments, source)?,
            },
            curves: Vec::new(),
        };
        for (workload, seed) in Workload::ALL.into_iter().zip(arguments.seed..) {
            let len = bench.len_of(workload, true, 1);
            bench.lookups.push(Lookups::new(source, workload, len, seed)?);
        }
        Ok(bench)
    }

    /// How many lookups a run has: as many as asked for, unless it would take long.
    fn len_of(&self, workload: Workload, consulted: bool, runs: u64) -> u64 {
        let reads_blocks = !consulted || workload != Workload::Absent;
        let divisor = match () {
            () if self.arguments.cold => 500,
            () if reads_blocks && self.setup.io == IoMode::Direct => 100,
            () if consulted && reads_blocks => 4,
            () if reads_blocks => 10,
            () => 1,
        };
        let runs = if consulted { 1 } else { runs.max(1) };
        (self.arguments.lookups / (divisor * runs)).max(self.arguments.lookups.min(100))
    }

    /// Loads and measures every layout of one filter.
    fn measure_filter(&mut self, filter: FilterSpec) -> Outcome<()> {
        let mut fallen = None;
        for layout in self.layouts.clone() {
            // Compaction continues from the store that fell, so that both hold the same history.
            let dir = match fallen.take() {
                Some(dir) if layout == Layout::Compacted => dir,
                _ => self.new_dir()?,
            };
            let place = dir.path().join("store");
            let store = Store { setup: self.setup, dir: &place, filter };
            let loaded = if place.exists() { store.compact()? } else { store.load(layout)? };
            self.measure_store(&store, &loaded)?;
            fallen = (layout == Layout::AsFallen).then_some(dir);
        }
        Ok(())
    }

    fn new_dir(&self) -> Outcome<tempfile::TempDir> {
        let parent = self.arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
        let mut builder = tempfile::Builder::new();
        builder.prefix("filterblock-bench-").tempdir_in(&parent).map_err(|error| Failure::file(&parent, error))
    }

    fn measure_store(&mut self, store: &Store<'_>, loaded: &StoreReport) -> Outcome<()> {
        let lost = ask_every_key(store)?;
        let title = format!("measuring {} {}", store.filter, loaded.layout);
        let bar = progress::bar(Some(u64::from(self.arguments.rounds) + 1), title);
        let mut all = Vec::new();
        for workload in Workload::ALL {
            for consulted in [true, false] {
                let lookups = self.len_of(workload, consulted, loaded.runs);
                all.push(Measured { workload, consulted, lookups, means: Vec::new(), batch_means: Vec::new() });
            }
        }
        for _ in 0..self.arguments.rounds {
            self.take_means(store, &mut all)?;
            bar.inc(1);
        }
        for measured in &all {
            let distribution = self.take_distribution(store, measured)?;
            self.report.rows.push(self.row(loaded, measured, &distribution, lost));
            self.keep_curve(loaded, measured, distribution);
        }
        bar.finish_and_clear();
        self.report.stores.push(loaded.clone());
        Ok(())
    }

    /// One round of the first pass: by turns with filters and without, so that a slow minute of the machine hits both.
    fn take_means(&self, store: &Store<'_>, all: &mut [Measured]) -> Outcome<()> {
        for consulted in [true, false] {
            let mut db = store.open(filter_use(consulted))?;
            for measured in all.iter_mut().filter(|measured| measured.consulted == consulted) {
                let Some(lookups) = self.lookups_of(measured.workload) else { continue };
                if self.arguments.cold {
                    db.close()?;
                    db = store.open(filter_use(consulted))?;
                } else {
                    measure::mean(&db, lookups, measured.lookups / 10)?;
                }
                measured.means.push(measure::mean(&db, lookups, measured.lookups)?);
                if measured.workload == Workload::Absent {
                    measured.batch_means.push(measure::batch_mean(&db, lookups, measured.lookups)?);
                }
            }
            db.close()?;
        }
        Ok(())
    }

    /// The second pass.
    fn take_distribution(&self, store: &Store<'_>, measured: &Measured) -> Outcome<Distribution> {
        let Some(lookups) = self.lookups_of(measured.workload) else {
            return Err(Failure::Message("a workload without lookups".into()));
        };
        let db = store.open(filter_use(measured.consulted))?;
        if !self.arguments.cold {
            measure::mean(&db, lookups, measured.lookups / 10)?;
        }
        let distribution = measure::distribution(&db, lookups, measured.lookups)?;
        db.close()?;
        Ok(distribution)
    }

    fn lookups_of(&self, workload: Workload) -> Option<&Lookups> {
        self.lookups.iter().find(|lookups| lookups.workload == workload)
    }

    fn row(&self, loaded: &StoreReport, measured: &Measured, distribution: &Distribution, lost: u64) -> Row {
        let Distribution { latencies, stats } = distribution;
        let total = &stats.total;
        let cpu_mean_ns = median(measured.means.iter().map(|mean| mean.cpu_ns).collect());
        let wall_mean_ns = median(measured.means.iter().map(|mean| mean.wall_ns).collect());
        let waits = waits(self.arguments);
        let batch_means = measured.batch_means.iter().map(|mean| if waits { mean.wall_ns } else { mean.cpu_ns });
        let per_get = |count: f64| count / measured.lookups.max(1) as f64;
        let negatives = total.true_negatives + total.false_positives;
        let of_negatives = |count: f64| (negatives > 0).then(|| count / negatives as f64);
        Row {
            filter: loaded.filter.clone(),
            layout: loaded.layout,
            workload: measured.workload.name(),
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
            expected_false_positives_per_get: measured.consulted.then(|| per_get(total.expected_false_positives)),
            bytes_per_get: per_get(total.block_read_bytes as f64),
            bits_per_key: loaded.bits_per_key,
            false_positive_rate: of_negatives(total.false_positives as f64),
            expected_false_positive_rate: of_negatives(total.expected_false_positives),
            false_negatives: match measured.consulted {
                true => lost,
                false => measured.means.iter().map(|mean| mean.lost).max().unwrap_or(0),
            },
        }
    }

    /// The plot shows absent keys in the first layout: each filter, and once what it is without.
    fn keep_curve(&mut self, loaded: &StoreReport, measured: &Measured, distribution: Distribution) {
        let first_layout = self.layouts.first().is_some_and(|layout| layout.name() == loaded.layout);
        let first_filter = self.report.stores.is_empty();
        if measured.workload != Workload::Absent || !first_layout || !(measured.consulted || first_filter) {
            return;
        }
        let label = if measured.consulted { loaded.filter.clone() } else { "filters not consulted".into() };
        let curve = Curve { label, filters_consulted: measured.consulted, latencies: distribution.latencies };
        self.curves.push((loaded.layout, curve));
    }
}

/// Asks each loaded key once, with filters consulted; how many are lost.
fn ask_every_key(store: &Store<'_>) -> Outcome<u64> {
    let title = format!("asking every key of {}", store.filter);
    let bar = progress::bar(Some(store.setup.source.len()), title);
    let db = store.open(FilterUse::Consult)?;
    let mut asked = 0;
    let lost = measure::false_negatives(&db, store.setup.source, store.setup.value_len_bytes, || {
        asked += 1;
        progress::tick(&bar, asked);
    })?;
    bar.finish_and_clear();
    db.close()?;
    Ok(lost)
}

fn settings(arguments: &Arguments, source: &Source) -> Outcome<Settings> {
    Ok(Settings {
        command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
        keys: source.len(),
        key_len_bytes_mean: source.len_bytes() as f64 / source.len() as f64,
        value_len_bytes: arguments.value_size,
        seed: arguments.seed,
        io: match arguments.io {
            IoChoice::Buffered => "buffered",
            IoChoice::Direct => "direct",
        },
        verify: match arguments.verify {
            VerifyChoice::AtOpen => "at-open",
            VerifyChoice::OnFirstTouch => "on-first-touch",
        },
        cold: arguments.cold,
        rounds: arguments.rounds,
        mean_clock: if waits(arguments) { "wall" } else { "thread CPU" },
        clock_cost_ns: measure::clock_cost_ns()?,
    })
}

/// Whether a read may wait for a device, which CPU time does not show.
fn waits(arguments: &Arguments) -> bool {
    arguments.cold || matches!(arguments.io, IoChoice::Direct)
}

fn filter_use(consulted: bool) -> FilterUse {
    if consulted { FilterUse::Consult } else { FilterUse::Ignore }
}

impl LayoutChoice {
    /// The layout chosen; none stands for all of them.
    fn layout(self) -> Option<Layout> {
        match self {
            Self::AsFallen => Some(Layout::AsFallen),
            Self::Compacted => Some(Layout::Compacted),
            Self::Runs5 => Some(Layout::Runs5),
            Self::Runs36 => Some(Layout::Runs36),
            Self::All => None,
        }
    }
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
