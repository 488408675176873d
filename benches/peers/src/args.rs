//! Defines the command line of `peers`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use filterblock_testkit::measure::csv_file::Recorder;
use filterblock_testkit::measure::keys::Mix;
use filterblock_testkit::measure::{clock, machine, size};
use serde::de::DeserializeOwned;

use crate::contender::Mode;

const EXAMPLES: &str = "Examples:
  peers measure --quick                                    all filters at two sizes: half a minute
  peers measure --quick --filters bumped,xorf              only filters whose names contain bumped or xorf
  peers measure --sizes 10k --mixes negative --forms hash --modes single,batch --many-mb 0 --passes 15
  peers measure --out ../record/peers.csv                  everything: about an hour, 12 GB of memory
  peers variants --out ../record/variants.csv              filters that take keys one by one: a few minutes
  peers ranges --out ../record/ranges.csv                  range filters: less than a minute
  peers report ../record/peers.csv --docs ../../docs       tables and pictures of BENCHMARKS.md
  peers report ../record/peers.csv --table 'queries 30000000'   a table that the page leaves out
  peers report ../record/variants.csv --docs ../../docs    the table of VARIANTS.md

docs/BENCHMARKS.md has the commands of the record.";

/// Measures the filters of filterblock and of other crates.
#[derive(Debug, Parser)]
#[command(name = "peers", after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measures filters that are built once. `--out` writes a CSV.
    #[command(after_help = EXAMPLES)]
    Measure(Measure),
    /// Measures filters that take keys one by one. `--out` writes a CSV, to which
    /// python/variants.py can append its rows.
    #[command(after_help = EXAMPLES)]
    Variants(Variants),
    /// Measures range filters. `--out` writes a CSV.
    #[command(after_help = EXAMPLES)]
    Ranges(Ranges),
    /// Makes the tables and pictures of docs/BENCHMARKS.md, or the table of docs/VARIANTS.md, from
    /// a CSV.
    Report(Report),
}

/// Options of all measurements.
#[derive(Debug, Args)]
pub struct Record {
    /// The core to run on. By default, the last one that the process may use.
    #[arg(long)]
    pub cpu: Option<usize>,
    /// The CSV to write. Without `--out`, the results are only printed.
    #[arg(long)]
    pub out: Option<PathBuf>,
}

impl Record {
    /// Pins the thread, and opens the record for rows of the type `R`. The record describes the
    /// machine, and with `tells_load` its load.
    pub fn open<R: DeserializeOwned>(&self, append: bool, tells_load: bool) -> Result<Recorder, String> {
        let mut machine = machine::describe(clock::pin(self.cpu)?);
        if tells_load {
            machine += &format!("; load average {} at the start", machine::load());
        }
        Recorder::open::<R>(self.out.as_deref(), append, &machine)
    }
}

/// Options of `measure`.
#[derive(Debug, Args)]
pub struct Measure {
    /// Numbers of keys in a filter, like 1k, 10k, 1M.
    #[arg(long, value_delimiter = ',', default_value = "1k,10k,100k,1M,10M,30M", value_parser = size)]
    pub sizes: Vec<usize>,
    /// Measures only filters whose names contain one of these parts, the fastbloom filters that
    /// they are compared with, and the empty loop.
    #[arg(long, value_delimiter = ',')]
    pub filters: Vec<String>,
    /// Number of passes of each setting. Each pass measures the queries of every filter once.
    #[arg(long, default_value = "7", value_parser = size)]
    pub passes: usize,
    /// Number of queries in a pass, rounded up to a multiple of 32. Passes of the mode `chain` have
    /// a quarter of them.
    #[arg(long, default_value = "1048576", value_parser = size)]
    pub queries: usize,
    /// Number of absent keys that are asked to measure the false-positive rate of a filter. Filters
    /// that hash keys themselves get only the first 131,072 of each 1,048,576 keys.
    #[arg(long, default_value = "10M", value_parser = size)]
    pub rate_queries: usize,
    /// Whether queries get hashes, or keys that they hash.
    #[arg(long, value_delimiter = ',', default_value = "hash,key")]
    pub forms: Vec<Form>,
    /// Which keys the queries ask for.
    #[arg(long, value_delimiter = ',', default_value = "negative,positive,mixed")]
    pub mixes: Vec<Mix>,
    /// How queries follow each other.
    #[arg(long, value_delimiter = ',', default_value = "single,batch,chain")]
    pub modes: Vec<Mode>,
    /// Number of megabytes that a set of many filters takes at ten bits per key. A filter has 10k
    /// keys on average, and each query asks a random filter of the set. 0 measures no set.
    #[arg(long, default_value_t = 200)]
    pub many_mb: usize,
    /// Measures only the set of --many-mb, without the filters of --sizes.
    #[arg(long)]
    pub only_many: bool,
    /// One of --sizes: the number of keys at which a few filters are also built with a self-check
    /// and asked in unaligned memory. 0 measures neither.
    #[arg(long, default_value = "1M", value_parser = size_or_none)]
    pub extras_at: usize,
    #[command(flatten)]
    pub record: Record,
    /// Appends rows to a CSV that already has rows. Its first line, about the machine, stays.
    #[arg(long, requires = "out")]
    pub append: bool,
    /// A quick measurement: 10k and 1M keys, queries by hash, absent and present keys, no chains,
    /// no set of many filters. The FPR is measured with at most 2M absent keys. Overrides the
    /// options of these settings.
    #[arg(long)]
    pub quick: bool,
}

impl Measure {
    /// Applies `--quick`, and rounds up the number of queries.
    pub fn resolved(mut self) -> Self {
        if self.quick {
            self.sizes = vec![10_000, 1_000_000];
            self.forms = vec![Form::Hash];
            self.mixes = vec![Mix::Negative, Mix::Positive];
            self.modes = vec![Mode::Single, Mode::Batch];
            self.many_mb = 0;
            self.rate_queries = self.rate_queries.min(2_000_000);
        }
        self.queries = self.queries.next_multiple_of(32);
        self
    }

    /// Returns whether `--filters` selects the filter `name`. Without `--filters`, every filter is
    /// selected.
    pub fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|part| name.contains(part.as_str()))
    }
}

/// The form of the keys in queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// The hash of a key. The time does not include the hash function.
    Hash,
    /// Sixteen bytes, which the query hashes.
    Key,
}

impl Form {
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Key => "key",
        }
    }
}

/// Options of `variants`.
#[derive(Debug, Args)]
pub struct Variants {
    /// Number of keys to add, of present keys to ask for, and of absent keys to ask for.
    #[arg(long, default_value = "1M", value_parser = size)]
    pub keys: usize,
    /// Number of passes. Each pass fills a new filter of each kind, and measures insertions,
    /// queries and, if the kind can remove keys, removals.
    #[arg(long, default_value = "7", value_parser = size)]
    pub passes: usize,
    #[command(flatten)]
    pub record: Record,
}

/// Options of `ranges`.
#[derive(Debug, Args)]
pub struct Ranges {
    /// Numbers of keys in a filter, like 10k, 1M.
    #[arg(long, value_delimiter = ',', default_value = "10k,1M", value_parser = size)]
    pub sizes: Vec<usize>,
    /// Number of passes. Each pass builds every filter, and measures the build and the queries.
    #[arg(long, default_value = "11", value_parser = size)]
    pub passes: usize,
    /// Maximum number of ranges of each sort that a pass asks: uniform ranges, ranges beside a key,
    /// and ranges that hold a key.
    #[arg(long, default_value = "200k", value_parser = size)]
    pub queries: usize,
    #[command(flatten)]
    pub record: Record,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// The CSV that `measure`, `variants` or `ranges` wrote.
    pub csv: PathBuf,
    /// The folder that has BENCHMARKS.md and VARIANTS.md, and gets the pictures.
    #[arg(long, default_value = "../../docs")]
    pub docs: PathBuf,
    /// Prints one table of a record of `measure`, and writes no file: `queries N`, `queries N key`,
    /// `same-rate`, `many`, `sizes N...`, `build N...` or `extras`. N is a number of keys.
    #[arg(long)]
    pub table: Option<String>,
}

/// Parses 0, or a number as [`size`] does.
fn size_or_none(text: &str) -> Result<usize, String> {
    if text == "0" { Ok(0) } else { size(text) }
}
