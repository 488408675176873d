//! `filterblock diff`: compares two filter blocks and estimates how many keys they share.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::block_file;
use super::failure::{Exit, Failure, Outcome};
use super::foreign::FileArguments;
use super::output;
use super::text::{self, percent, significant, thousands};
use filterblock::AlignedBytes;
use filterblock::ParsedBlock;
use filterblock_family::{Comparison, Difference, Estimate, compare_blocks, differences};

const EXAMPLES: &str = "\
Examples:
  filterblock diff monday.filter tuesday.filter
  filterblock diff --json monday.filter tuesday.filter | jq .keys.intersection

The command compares hash function, seed, secret, kind of added keys, prefix extractor, partition number, \
filter kind, number of bits and filter parameters. It prints every difference, but compares parameters only of blocks \
of the same filter kind. If there is no difference, it compares the bits. For Bloom filters of any layout it also estimates the number of keys in each \
block, in their union and in their intersection. Brackets hold the 95 % confidence interval of an estimate.

Recorded key counts, table ids and range filters beside the filters of keys are not compared. The command does not need the secret.

Exit status: 0 same bits, so every answer for a key is the same; 1 the blocks differ; 2 an error.";

/// Compare two filter blocks and estimate how many keys they share
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The first filter block file
    #[arg(value_name = "A")]
    left: PathBuf,
    /// The second filter block file
    #[arg(value_name = "B")]
    right: PathBuf,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    left: String,
    right: String,
    is_equal: bool,
    differences: Vec<DifferenceReport>,
    /// The numbers of bits. `None` if the blocks differ in more than their bits, or if they are not
    /// Bloom filters.
    bits: Option<BitReport>,
    keys: Option<KeyReport>,
}

#[derive(Debug, Serialize)]
struct DifferenceReport {
    what: &'static str,
    left: String,
    right: String,
}

#[derive(Debug, Serialize)]
struct BitReport {
    bits: u64,
    left: u64,
    right: u64,
    common: u64,
    similarity: f64,
}

#[derive(Debug, Serialize)]
struct KeyReport {
    left: EstimateReport,
    right: EstimateReport,
    union: EstimateReport,
    intersection: EstimateReport,
    similarity: f64,
}

/// An estimated number of keys. JSON shows an infinite value as null.
#[derive(Debug, Serialize)]
struct EstimateReport {
    keys: f64,
    deviation: f64,
    low: f64,
    high: f64,
}

/// Runs `filterblock diff`.
pub fn run(arguments: &Arguments) -> Outcome {
    let (left, right) = (open(&arguments.left)?, open(&arguments.right)?);
    let found = differences(&left, &right);
    // An error means that the blocks differ in more than their bits, or that they are not Bloom
    // filters. Then the report has neither bits nor keys.
    let compared = compare_blocks(&left, &right).ok();
    let report = Report {
        left: arguments.left.display().to_string(),
        right: arguments.right.display().to_string(),
        is_equal: found.is_empty() && left.payload() == right.payload(),
        differences: found.into_iter().map(DifferenceReport::from).collect(),
        bits: compared.as_ref().map(BitReport::from),
        keys: compared.as_ref().map(KeyReport::from),
    };
    match arguments.json {
        true => output::print_json(&report)?,
        false => output::print(&describe(&report))?,
    }
    Ok(if report.is_equal { Exit::Success } else { Exit::Negative })
}

fn open(path: &Path) -> Outcome<ParsedBlock<AlignedBytes>> {
    let block = block_file::open(path, &FileArguments::default())?.native(path)?;
    if block.metadata().num_partitions > 0 {
        let why = "this filter is in partitions, which diff cannot compare; build it without partitions";
        return Err(Failure::Message(format!("{}: {why}", path.display())));
    }
    Ok(block)
}

impl From<Difference> for DifferenceReport {
    fn from(Difference { what, left, right }: Difference) -> Self {
        Self { what, left, right }
    }
}

impl From<&Comparison> for BitReport {
    fn from(found: &Comparison) -> Self {
        Self {
            bits: found.num_bits,
            left: found.left_ones,
            right: found.right_ones,
            common: found.common_ones,
            similarity: found.bit_similarity(),
        }
    }
}

impl From<&Comparison> for KeyReport {
    fn from(found: &Comparison) -> Self {
        Self {
            left: found.left.into(),
            right: found.right.into(),
            union: found.union.into(),
            intersection: found.intersection.into(),
            similarity: found.key_similarity(),
        }
    }
}

impl From<Estimate> for EstimateReport {
    fn from(found: Estimate) -> Self {
        let (low, high) = found.interval();
        Self { keys: found.keys(), deviation: found.deviation(), low, high }
    }
}

fn describe(report: &Report) -> String {
    let Report { left, right, is_equal, differences, bits, keys } = report;
    let mut out = match is_equal {
        true => format!("{left} and {right} have the same bits\n"),
        false => format!("{left} and {right} differ\n"),
    };
    // Writing to a String cannot fail.
    for DifferenceReport { what, left, right } in differences {
        let _ = writeln!(out, "  {what}: {left} and {right}");
    }
    if let Some(found) = bits {
        let [left, right, common] = [found.left, found.right, found.common].map(thousands);
        let (bits, similarity) = (text::count(found.bits, "bit"), percent(found.similarity));
        let _ = writeln!(
            out,
            "\n{bits}: {left} set in A, {right} in B, {common} in both ({similarity} of the bits set in A or B)\n"
        );
    }
    if let Some(KeyReport { left, right, union, intersection, similarity }) = keys {
        for (what, found) in [("A", left), ("B", right), ("A or B", union), ("A and B", intersection)] {
            let [keys, low, high] = [found.keys, found.low, found.high].map(significant_keys);
            let _ = writeln!(out, "keys of {what:<8} {keys} [{low} to {high}]");
        }
        let _ = writeln!(out, "keys in common   {} of the keys in A or B", percent(*similarity));
    }
    out
}

fn significant_keys(keys: f64) -> String {
    if keys.is_finite() && keys >= 100.0 { thousands(text::whole(keys)) } else { significant(keys) }
}
