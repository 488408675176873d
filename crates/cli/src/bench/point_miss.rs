//! `filterblock bench point-miss`: loads stores and asks for keys that are not there, with filters and without.

use std::path::PathBuf;

use clap::ValueEnum;

use super::super::failure::{Exit, Failure, Outcome};
use super::super::keys::KeyFormat;
use super::super::new_file::NewFile;
use super::super::refused_value::whole;
use super::super::{interrupt, output, text};
use super::report::Settings;
use super::run::{Bench, Plan};
use super::source::{KEYS_MIN, Source};
use super::store::{Layout, Setup};
use super::{measure, page_cache, plot};
use crate::filter_choice::FilterChoice;
use filterblock::Verify;
use filterblock_store::storage::IoMode;

const EXAMPLES: &str = "\
Examples:
  filterblock bench point-miss
  filterblock bench point-miss --keys names.txt --filter blocked-bloom:10
  filterblock bench point-miss --layout all --json result.json --svg latency.svg
  filterblock bench point-miss --layout levels-4 --count 300000 --filter blocked-bloom:10 --filter monkey:10
  filterblock bench point-miss --cold --io direct --dir /mnt/disk --verify on-first-touch

For each filter and layout a store is loaded in random order; then absent keys between the smallest and the largest \
key, present keys and a mix of both are asked on the same files, with filters consulted and ignored.

With the defaults this takes about two minutes, and 130 MB of disk for a store (twice that while it is compacted), \
one store at a time. Stores are made in a temporary directory that is removed afterwards, also after Ctrl-C.

The table:
  filter    the filters of the store: one for all tables, or a policy
  layout    how its tables lie, see --layout
  keys      what is asked for: absent, present or mixed
  asked     whether reads ask the filters: yes, or no (they are ignored)
  mean      ns (k: thousands, M: millions) of the thread's CPU time for a get in a plain loop
  batch     ns for a key's share of a multi_get of 32 absent keys
  p50 ..    ns of wall time of single gets, in a pass of its own; reading the clock is in it
  reads     data blocks read for one get, counted by the store (there is no block cache)
  fpr %     false positives among the filters asked about keys that their tables do not hold
  exp %     the rate to expect of these filters

The mean is the median of --rounds, taken by turns with and without filters; with --cold or --io direct it is wall \
time, as a read may then wait for the device. What reading the clock costs is printed.

Below the table, a line for each store tells what it took to make, its size and that of its filters. Every loaded key is \
asked too: false negatives must be 0.

Runs that would take long are shorter than --lookups: a quarter where blocks are read, and less without filters, on \
many runs, with --io direct and with --cold. The JSON has the number in each row, and more: gets per second, bytes \
read for a get, bits per key. Rates are null where no filter was asked about an absent key, batch means where keys are \
not all absent, puts per second where a store was made from another by compaction.

--json and --svg replace an existing file only with --force; it keeps its mode and owner.

Exit status: 0 done; 1 a loaded key was not found; 2 an error; 128 and the number of the signal that ended it (130 for Ctrl-C).";

/// Some 13 GB a store with the default values.
const COUNT_MAX: u64 = 100_000_000;
/// Of each value.
const VALUE_LEN_BYTES_MAX: usize = 1 << 20;
/// Keys to ask for are drawn before any clock runs and lie in memory.
const LOOKUPS_MAX: u64 = 100_000_000;
/// Bytes of keys to ask for.
const LOOKUPS_LEN_BYTES_MAX: f64 = 4e9;
/// As measured where loading, settling and asking every key took longest; only to tell one minute from ten.
const SECONDS_PER_KEY: f64 = 1.2e-5;
const SECONDS_PER_GET: f64 = 1e-6;
const LOOKUPS_DEFAULT: u64 = 1_000_000;
/// More lookups of few keys would only ask for the same ones again.
const LOOKUPS_PER_KEY_DEFAULT: u64 = 10;
const LOOKUPS_DEFAULT_MIN: u64 = 20_000;

/// Measure reads of absent keys, with filters and without
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// Take the lines of FILE as keys [default: generated keys of 16 bytes]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// How many keys to load [default: 1000000, or all lines of --keys]
    #[arg(long, value_name = "N", value_parser = whole(KEYS_MIN..=COUNT_MAX, 1_000_000))]
    count: Option<u64>,
    /// Bytes of each value
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = whole(0..=VALUE_LEN_BYTES_MAX, 100))]
    value_size: usize,
    /// Make the stores in DIR [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// A filter to measure: by-level (the store's default), KIND:BITS with 1 to 100 bits a key, KIND:fpr=RATE, with
    /// KIND bloom, blocked-bloom, split-block, split-block-512, bumped-ribbon, ribbon or binary-fuse, full, which says
    /// maybe to every key, monkey:BITS, which spends so many bits a key where they save most reads, or budget:BYTES for all filters together (64MiB); may be repeated
    #[arg(long, value_name = "SPEC", default_values = ["by-level", "blocked-bloom:10", "bloom:10"])]
    filter: Vec<FilterChoice>,
    /// How the tables lie; may be repeated
    #[arg(long, value_enum, value_name = "LAYOUT", default_values = ["as-fallen", "runs-5"])]
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
    /// Gets in the longest runs [default: 1000000, but at most 10 for each key loaded, and at least 20000]
    #[arg(long, value_name = "N", value_parser = whole(1..=LOOKUPS_MAX, 1_000_000))]
    lookups: Option<u64>,
    /// How often each mean is taken
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole(1..=1_000u32, 3))]
    rounds: u32,
    /// Decides keys, values and orders; the same seed repeats a run
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = whole(0..=u64::MAX, 1))]
    seed: u64,
    /// Write the results as JSON; `-` prints them instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the mean latencies of absent keys, with filters and without
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Replace the files of --json and --svg if they exist
    #[arg(long)]
    force: bool,
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
    /// Four full levels, each ten times as large as the one above it, of small tables; takes the longest to load
    #[value(name = "levels-4")]
    Levels4,
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

/// Runs `filterblock bench point-miss`.
pub fn run(arguments: &Arguments) -> Outcome {
    // Unwritable places are found before the work, not after it.
    output::check_stdout()?;
    let to_stdout = arguments.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let json = arguments.json.as_deref().filter(|_| !to_stdout);
    let json = json.map(|path| NewFile::create(path, arguments.force)).transpose()?;
    let svg = arguments.svg.as_deref().map(|path| NewFile::create(path, arguments.force)).transpose()?;
    if let (Some(json), Some(svg)) = (&json, &svg) {
        json.refuse_same("--json", svg, "--svg")?;
    }
    for file in json.iter().chain(&svg) {
        file.refuse_inputs(arguments.keys.as_deref())?;
    }
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
    if let Some(file) = svg {
        file.publish(plot::draw(&report, &[]).as_bytes())?;
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

fn plan<'a>(arguments: &Arguments, source: &'a Source) -> Plan<'a> {
    let setup = Setup {
        source,
        value_len_bytes: arguments.value_size,
        seed: arguments.seed,
        io: arguments.io.into(),
        verify: arguments.verify.into(),
        cold: arguments.cold,
    };
    let chosen = |layout: &Layout| arguments.layout.iter().any(|choice| choice.includes(*layout));
    Plan {
        setup,
        filters: distinct(&arguments.filter),
        layouts: Layout::ALL.into_iter().filter(chosen).collect(),
        lookups: arguments.lookups.unwrap_or_else(|| lookups_for(source.len())),
        rounds: arguments.rounds,
        dir: arguments.dir.clone().unwrap_or_else(std::env::temp_dir),
    }
}

/// A filter named twice is measured once.
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

/// The keys to ask for, with the place of each, lie in memory: those of the absent workload, and a quarter as many for
/// each of the others.
fn check_memory(plan: &Plan<'_>) -> Outcome<()> {
    let source = plan.setup.source;
    let key_len_bytes = source.len_bytes() as f64 / source.len() as f64 + 8.0;
    let len_bytes = plan.lookups as f64 * 1.5 * key_len_bytes;
    if len_bytes > LOOKUPS_LEN_BYTES_MAX {
        let gigabytes = text::significant(len_bytes / 1e9);
        return Err(Failure::Message(format!(
            "--lookups {}: the keys to ask for would take {gigabytes} GB of memory; ask for fewer",
            plan.lookups
        )));
    }
    Ok(())
}

/// What the user is in for.
fn announcement(plan: &Plan<'_>) -> String {
    let stores = (plan.filters.len() * plan.layouts.len()) as u64;
    let megabytes = (plan.setup.store_len_bytes() as f64 / 1e6).max(1.0);
    let gets = plan.lookups * u64::from(plan.rounds + 1);
    let seconds = stores as f64 * (plan.setup.source.len() as f64 * SECONDS_PER_KEY + gets as f64 * SECONDS_PER_GET);
    let time = match seconds {
        seconds if seconds < 60.0 => "less than a minute".to_owned(),
        seconds => format!("about {}", text::count(text::whole(seconds / 60.0), "minute")),
    };
    format!(
        "{} of about {} MB each, one at a time, in {}; {time}",
        text::count(stores, "store"),
        text::thousands(text::whole(megabytes)),
        plan.dir.display(),
    )
}

fn settings(arguments: &Arguments, plan: &Plan<'_>) -> Outcome<Settings> {
    let source = plan.setup.source;
    Ok(Settings {
        filters: plan.filters.iter().map(ToString::to_string).collect(),
        layouts: plan.layouts.iter().map(|layout| layout.name().to_owned()).collect(),
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
        lookups: plan.lookups,
        rounds: arguments.rounds,
        mean_clock: if plan.setup.waits() { "wall" } else { "thread CPU" }.into(),
        clock_cost_ns: measure::clock_cost_ns()?,
    })
}

impl LayoutChoice {
    fn includes(self, layout: Layout) -> bool {
        match self {
            Self::AsFallen => layout == Layout::AsFallen,
            Self::Compacted => layout == Layout::Compacted,
            Self::Runs5 => layout == Layout::Runs5,
            Self::Runs36 => layout == Layout::Runs36,
            Self::Levels4 => layout == Layout::Levels4,
            Self::All => layout != Layout::Levels4,
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
