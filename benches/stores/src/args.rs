//! Defines the command line of `stores`.

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};
use filterblock_testkit::measure::size;

const EXAMPLES: &str = "Examples:
  stores measure --keys 100k --rounds 1                          all stores, a first look: half a minute
  stores measure --stores filterblock,fjall --layouts compacted  two stores, one layout
  stores measure --out ../record/stores.csv                      the record at 1M keys
  stores report ../record/stores.csv --docs ../../docs           tables and picture of BENCHMARKS.md
  stores report ../record/stores.csv --table 'cold 10000000'     a table that the page leaves out

Debian's LevelDB and RocksDB need the cargo features `leveldb` and `rocksdb`.
docs/BENCHMARKS.md has the commands of the record.";

/// Measures filterblock-store and other key-value stores.
#[derive(Debug, Parser)]
#[command(name = "stores", after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Loads the stores in every layout, and measures them in turn. `--out` writes a CSV.
    #[command(after_help = EXAMPLES)]
    Measure(Measure),
    /// Makes the tables and the picture of docs/BENCHMARKS.md from a CSV.
    Report(Report),
}

/// Options of `measure`.
#[derive(Debug, Args)]
pub struct Measure {
    /// Number of keys in a store, like 100k, 1M.
    #[arg(long, default_value = "1M", value_parser = size)]
    pub keys: usize,
    /// Length of a value in bytes, at least 8.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(8..))]
    pub value_len: u16,
    /// Measures only stores with these names. Any other text selects all stores whose names contain
    /// the text.
    #[arg(long, value_delimiter = ',')]
    pub stores: Vec<String>,
    /// The layouts: as-fallen, compacted, and runs-N with N overlapping runs.
    #[arg(long, value_delimiter = ',', default_value = "as-fallen,compacted,runs-5,runs-16,runs-36,runs-100")]
    pub layouts: Vec<Layout>,
    /// Number of rounds. Each round measures every store once in each setting.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Number of times that each store is loaded.
    #[arg(long, default_value_t = 3)]
    pub loads: usize,
    /// Number of warm queries in a round.
    #[arg(long, default_value = "200k", value_parser = size)]
    pub queries: usize,
    /// Number of cold queries in a round.
    #[arg(long, default_value = "2k", value_parser = size)]
    pub cold_queries: usize,
    /// Size of the block cache of each store in MiB.
    #[arg(long, default_value_t = 256)]
    pub cache_mb: usize,
    /// The folder for the stores. It must be on a disk.
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,
    /// The core that warm queries run on. By default, the last one that the process may use.
    #[arg(long)]
    pub cpu: Option<usize>,
    /// The CSV to write. Without `--out`, the results are only printed.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Appends rows to a CSV that already has rows. Its first line, about the machine, stays.
    #[arg(long, requires = "out")]
    pub append: bool,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// The CSV that `measure` wrote.
    pub csv: PathBuf,
    /// The folder that has BENCHMARKS.md and gets the picture.
    #[arg(long, default_value = "../../docs")]
    pub docs: PathBuf,
    /// Prints one table, and writes no file: `absent`, `present`, `cold`, `loading`,
    /// `absent-in-full`, `present-in-full`, `mixed-in-full` or `loading-in-full`, with a number of
    /// keys.
    #[arg(long)]
    pub table: Option<String>,
}

/// The arrangement of the entries of a store on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Automatic compaction placed the entries. No manual compaction follows.
    AsFallen,
    /// A manual compaction made one run of all entries.
    Compacted,
    /// The store has this number of overlapping runs, and compaction is off.
    Runs(usize),
}

impl Display for Layout {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsFallen => out.write_str("as-fallen"),
            Self::Compacted => out.write_str("compacted"),
            Self::Runs(runs) => write!(out, "runs-{runs}"),
        }
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let runs = text.strip_prefix("runs-").and_then(|runs| runs.parse().ok()).filter(|runs| *runs > 0);
        match (text, runs) {
            ("as-fallen", _) => Ok(Self::AsFallen),
            ("compacted", _) => Ok(Self::Compacted),
            (_, Some(runs)) => Ok(Self::Runs(runs)),
            _ => Err(format!("{text}: expected as-fallen, compacted, or runs-N like runs-5")),
        }
    }
}
