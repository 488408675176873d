//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::contender::Mode;
use crate::keys::Mix;

const EXAMPLES: &str = "Examples:
  peers measure --quick                                    the kinds of filterblock and their rivals, half a minute
  peers measure --quick --filters bumped,xorf              only filters whose names contain one of these
  peers measure --sizes 10k --mixes negative --forms hash --modes single,batch --many-mb 0 --passes 15
  peers measure --out ../record/peers.csv                  everything: about an hour, 12 GB of memory
  peers variants --out ../record/variants.csv              filters that change, in memory: a few minutes
  peers report ../record/peers.csv --docs ../../docs       tables and plots from it
  peers report ../record/variants.csv --docs ../../docs    the table of filters that change";

/// Measures filterblock's filters beside those of other crates.
#[derive(Debug, Parser)]
#[command(name = "peers", after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measures, and writes a CSV.
    #[command(after_help = EXAMPLES)]
    Measure(Measure),
    /// Measures filters that take keys one by one, and writes a CSV.
    #[command(after_help = EXAMPLES)]
    Variants(Variants),
    /// Makes the tables and plots of docs/BENCHMARKS.md, or the table of docs/VARIANTS.md, from a CSV.
    Report(Report),
}

/// What to measure.
#[derive(Debug, Args)]
pub struct Measure {
    /// Keys of a filter, as in 1k, 10k, 1M.
    #[arg(long, value_delimiter = ',', default_value = "1k,10k,100k,1M,10M,30M", value_parser = size)]
    pub sizes: Vec<usize>,
    /// Only filters whose names contain one of these.
    #[arg(long, value_delimiter = ',')]
    pub filters: Vec<String>,
    /// Passes; each asks every filter once.
    #[arg(long, default_value_t = 7)]
    pub passes: usize,
    /// Queries of a pass, a multiple of 32; chains ask a quarter.
    #[arg(long, default_value = "1048576", value_parser = size)]
    pub queries: usize,
    /// Absent keys asked for a filter's rate.
    #[arg(long, default_value = "10M", value_parser = size)]
    pub rate_queries: usize,
    /// Whether keys are asked for by their hashes, or hashed in the query.
    #[arg(long, value_delimiter = ',', default_value = "hash,key")]
    pub forms: Vec<Form>,
    /// Which keys are asked for.
    #[arg(long, value_delimiter = ',', default_value = "negative,positive,mixed")]
    pub mixes: Vec<Mix>,
    /// How queries follow each other.
    #[arg(long, value_delimiter = ',', default_value = "single,batch,chain")]
    pub modes: Vec<Mode>,
    /// Megabytes of filters of about 10k keys each, at ten bits a key, of which a random one is asked; 0 for none.
    #[arg(long, default_value_t = 200)]
    pub many_mb: usize,
    /// Measures the many filters alone, without those of --sizes.
    #[arg(long)]
    pub only_many: bool,
    /// Number of keys at which a few filters are also built with a self-check, and asked in unaligned memory; 0 for none.
    #[arg(long, default_value = "1M", value_parser = size_or_none)]
    pub extras_at: usize,
    /// The core to stay on; without it, the last.
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Where the CSV goes.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Appends rows to the CSV, which keeps its first line.
    #[arg(long, requires = "out")]
    pub append: bool,
    /// 10k and 1M keys, ready hashes, absent and present keys, no chains, no many filters, fewer absent keys for the
    /// rate: a first look, instead of the five options that say so.
    #[arg(long)]
    pub quick: bool,
}

impl Measure {
    /// What `--quick` means.
    #[must_use]
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

    /// Whether a filter's name was asked for.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|part| name.contains(part.as_str()))
    }
}

/// In what form keys are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// By a hash that is ready.
    Hash,
    /// By sixteen bytes, which the query hashes.
    Key,
}

impl Form {
    /// Its name in the CSV.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Key => "key",
        }
    }
}

/// What to measure of filters that take keys one by one.
#[derive(Debug, Args)]
pub struct Variants {
    /// Keys that are added, and as many that are asked for.
    #[arg(long, default_value = "1M", value_parser = size)]
    pub keys: usize,
    /// Passes; each fills and asks every filter once.
    #[arg(long, default_value_t = 7)]
    pub passes: usize,
    /// The core to stay on; without it, the last.
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Where the CSV goes; python/variants.py adds its rows to it.
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// What to report.
#[derive(Debug, Args)]
pub struct Report {
    /// What `measure` or `variants` wrote.
    pub csv: PathBuf,
    /// The folder with BENCHMARKS.md and VARIANTS.md, and for the plots.
    #[arg(long, default_value = "../../docs")]
    pub docs: PathBuf,
}

/// A number like those of [`size`], or 0.
fn size_or_none(text: &str) -> Result<usize, String> {
    if text == "0" { Ok(0) } else { size(text) }
}

/// A number with k or M behind it.
fn size(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let number: usize = digits.parse().map_err(|_| format!("{text} is no number like 1000, 10k or 1M"))?;
    if number == 0 { Err("at least 1".into()) } else { Ok(number * unit) }
}
