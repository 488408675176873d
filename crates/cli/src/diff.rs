//! `filterblock diff`: compares two filter blocks and estimates how many keys they share.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::block_file;
use crate::prelude::*;
use filterblock::{AlignedBytes, ParsedBlock};
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
#[derive(clap::Args)]
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

pub fn run(arguments: &Arguments) -> Outcome {
    let (left, right) = (open(&arguments.left)?, open(&arguments.right)?);
    let found = differences(&left, &right);
    // An error means that the blocks differ in more than their bits, or that they are not Bloom
    // filters. Then the report has neither bits nor keys.
    let compared = compare_blocks(&left, &right).ok();
    let is_equal = found.is_empty() && left.payload() == right.payload();
    let differences = found.iter().map(|found| json!({"what": found.what, "left": found.left, "right": found.right}));
    let report = json!({
        "left": arguments.left.display().to_string(),
        "right": arguments.right.display().to_string(),
        "is_equal": is_equal,
        "differences": differences.collect::<Vec<_>>(),
        "bits": compared.as_ref().map(|found| json!({
            "bits": found.num_bits,
            "left": found.left_ones,
            "right": found.right_ones,
            "common": found.common_ones,
            "similarity": found.bit_similarity(),
        })),
        "keys": compared.as_ref().map(|found| json!({
            "left": estimate(found.left),
            "right": estimate(found.right),
            "union": estimate(found.union),
            "intersection": estimate(found.intersection),
            "similarity": found.key_similarity(),
        })),
    });
    output::report(arguments.json, &report, || describe(arguments, is_equal, &found, compared.as_ref()))?;
    Ok(if is_equal { Exit::Success } else { Exit::Negative })
}

fn open(path: &Path) -> Outcome<ParsedBlock<AlignedBytes>> {
    let block = block_file::open_native(path)?;
    match block.metadata().num_partitions {
        0 => Ok(block),
        _ => refuse(path, "this filter is in partitions, which diff cannot compare; build it without partitions"),
    }
}

/// Returns an estimated number of keys. JSON shows an infinite value as null.
fn estimate(found: Estimate) -> Value {
    let (low, high) = found.interval();
    json!({"keys": found.keys(), "deviation": found.deviation(), "low": low, "high": high})
}

fn describe(arguments: &Arguments, is_equal: bool, found: &[Difference], compared: Option<&Comparison>) -> String {
    let (left, right) = (arguments.left.display(), arguments.right.display());
    let mut out = match is_equal {
        true => format!("{left} and {right} have the same bits\n"),
        false => format!("{left} and {right} differ\n"),
    };
    for Difference { what, left, right } in found {
        out += &format!("  {what}: {left} and {right}\n");
    }
    let Some(found) = compared else { return out };
    let [left, right, common] = [found.left_ones, found.right_ones, found.common_ones].map(thousands);
    let (bits, similarity) = (count(found.num_bits, "bit"), percent(found.bit_similarity()));
    out += &format!(
        "\n{bits}: {left} set in A, {right} in B, {common} in both ({similarity} of the bits set in A or B)\n\n"
    );
    let sets = [("A", found.left), ("B", found.right), ("A or B", found.union), ("A and B", found.intersection)];
    for (what, found) in sets {
        let (low, high) = found.interval();
        let [keys, low, high] = [found.keys(), low, high].map(significant_keys);
        out += &format!("keys of {what:<8} {keys} [{low} to {high}]\n");
    }
    out + &format!("keys in common   {} of the keys in A or B\n", percent(found.key_similarity()))
}

fn significant_keys(keys: f64) -> String {
    if keys.is_finite() && keys >= 100.0 { thousands(text::whole(keys)) } else { significant(keys) }
}
