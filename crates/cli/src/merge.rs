//! `filterblock merge`: merges several filter blocks into one block with the keys of all.

use std::path::PathBuf;

use serde_json::json;

use crate::block_file;
use crate::new_file::NewFile;
use crate::prelude::*;
use filterblock::{FilterKind, ParsedBlock, Verify};
use filterblock_family::{Error, differences, merge_blocks};

const EXAMPLES: &str = "\
Examples:
  filterblock merge -o all.filter shard-0.filter shard-1.filter shard-2.filter

Input:
  The blocks must have the same kind, number of bits, number of probes, hash function, seed, secret, kind of added keys, \
prefix extractor and partition number.
  `filterblock diff` prints the differences of two blocks.
  The kinds bloom, blocked-bloom, split-block, split-block-512 and always-maybe can be merged. An empty block can be \
merged with blocks of any of these kinds and sizes.
  The command does not need the secret.

Result:
  The new block has the same bits as one filter of this shape built from all keys. Its number of keys is the sum of \
the inputs' numbers. The block of a Bloom filter of any layout records at most as many keys as it has bits. Up to \
this limit, the sum and the printed FPR are upper bounds, because some keys may be in several blocks. If the fill \
ratio shows fewer keys, the command also prints the number of keys and the FPR that follow from the fill ratio.
  Range filters beside the filters of keys cannot be merged. The new block has none, and a message says so.

See `filterblock build --help` for --force and --allow-empty.

Exit status: 0 written; 2 an error. After an error nothing is written, unless the message says otherwise or is about \
standard output.";

/// Merge filter blocks of the same shape into one
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The filter block files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The output file, written atomically; it may be one of the inputs
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Allow --force to replace OUT with a filter of no keys
    #[arg(long)]
    allow_empty: bool,
    /// Print the summary as JSON on stdout
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Outcome {
    if arguments.json {
        output::check_stdout()?;
    }
    let file = NewFile::create(&arguments.output, arguments.force)?;
    let blocks = arguments.files.iter().map(|path| block_file::open_native(path)).collect::<Outcome<Vec<_>>>()?;
    let merged = merge_blocks(&blocks).map_err(|error| explain(error, arguments, &blocks))?;
    let block = ParsedBlock::open(&merged, Verify::AtOpen)?;
    let (info, found, fpr) = (block.metadata(), block.statistics(), block.expected_fpr());
    if info.num_keys == 0 {
        file.judge_empty("all blocks are empty", arguments.allow_empty)?;
    }
    file.publish(&merged)?;
    let with_ranges = blocks.iter().filter(|block| block.metadata().ranges_len_bytes > 0).count();
    if with_ranges > 0 {
        let have = if with_ranges == 1 { "block has" } else { "blocks have" };
        let text = format!(
            "{with_ranges} {have} a range filter beside the filter of keys, and the merged block has none; for range \
             queries, build a range filter from all keys"
        );
        note(&arguments.output, text);
    }
    if arguments.json {
        // `keys` is the sum of the inputs' numbers of keys, which the merge may cap. A key in several
        // inputs counts once for each input. The estimates follow from the fill ratio.
        output::print_json(&json!({
            "file": arguments.output.display().to_string(),
            "merged": blocks.len(),
            "kind": info.kind.to_string(),
            "keys": info.num_keys,
            "estimated_keys": found.estimated_keys,
            "fill": found.fill_ratio,
            "block_len_bytes": info.block_len_bytes,
            "expected_false_positive_rate": fpr,
            "estimated_false_positive_rate": found.estimated_fpr,
        }))?;
        return Ok(Exit::Success);
    }
    let (keys, fpr) = (count(info.num_keys, "key"), percent(fpr));
    let sum = blocks.iter().fold(0u64, |sum, block| sum.saturating_add(block.metadata().num_keys));
    let (keys, fpr) = match info.num_keys < sum {
        // The capped number is no upper bound. The sum is one, but it may be far too high, because
        // it counts a key in several inputs several times.
        true => (format!("number of keys unknown ({keys} recorded)"), "unknown".to_owned()),
        false => (format!("at most {keys}"), format!("at most {fpr}")),
    };
    let estimated = match (found.estimated_keys, found.estimated_fpr) {
        (Some(keys), Some(rate)) if text::is_overstated(info.num_keys, found.estimated_keys) => {
            format!("; by the fill ratio, about {} keys and an FPR of {}", significant(keys), percent(rate))
        }
        _ => String::new(),
    };
    let (merged, bytes) = (count(blocks.len() as u64, "block"), count(info.block_len_bytes, "byte"));
    let fill = percent(found.fill_ratio);
    let text = format!("{merged} merged; {bytes}, {keys}, fill ratio {fill}, expected FPR {fpr}{estimated}");
    note(&arguments.output, text);
    Ok(Exit::Success)
}

/// Adds the names of two files to an error about blocks that differ. Adds the name of the first
/// file with keys to an error about a block that cannot be merged.
fn explain<D: AsRef<[u8]>>(error: Error, arguments: &Arguments, blocks: &[ParsedBlock<D>]) -> Failure {
    let Error::Unlike { what, left, right } = &error else {
        let has_keys = |block: &ParsedBlock<D>| block.metadata().kind != FilterKind::Empty;
        let refused = blocks.iter().zip(&arguments.files).find(|(block, _)| has_keys(block));
        return match refused {
            Some((_, path)) if matches!(error, Error::Invalid { .. }) => Failure::about(path, error),
            _ => error.into(),
        };
    };
    // The error does not say which two blocks differ, so the message names the first two files
    // with this difference.
    let named = |block: &ParsedBlock<D>, other: &ParsedBlock<D>| {
        differences(block, other)
            .iter()
            .any(|found| found.what == *what && found.left == *left && found.right == *right)
    };
    let with_path = || blocks.iter().zip(&arguments.files);
    let pair = with_path().find_map(|(a, first)| {
        with_path().find(|(b, _)| named(a, b)).map(|(_, second)| (first.display(), second.display()))
    });
    match pair {
        Some((first, second)) => Failure::Message(format!(
            "{first} and {second} cannot be merged: {what} is {left} in the first and {right} in the second; build one filter from all keys instead"
        )),
        None => error.into(),
    }
}
