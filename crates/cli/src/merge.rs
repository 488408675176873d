//! `filterblock merge`: merges several filter blocks into one block with the keys of all.

use std::path::PathBuf;

use serde::Serialize;

use super::block_file;
use super::failure::{Exit, Failure, Outcome};
use super::foreign::FileArguments;
use super::new_file::NewFile;
use super::{output, text};
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
#[derive(Debug, clap::Args)]
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

#[derive(Debug, Serialize)]
struct Report {
    file: String,
    merged: usize,
    kind: String,
    /// The sum of the inputs' numbers of keys, which the merge may cap. A key in several inputs
    /// counts once for each input.
    keys: u64,
    /// Whether the sum in `keys` was capped. If it was, `keys` and the FPR may be too low.
    #[serde(skip)]
    is_capped: bool,
    estimated_keys: Option<f64>,
    fill: f64,
    block_len_bytes: u64,
    /// The expected FPR of the new block if it has `keys` keys.
    expected_false_positive_rate: f64,
    /// The expected FPR of the new block if it has `estimated_keys` keys.
    estimated_false_positive_rate: Option<f64>,
}

/// Runs `filterblock merge`.
pub fn run(arguments: &Arguments) -> Outcome {
    if arguments.json {
        output::check_stdout()?;
    }
    let file = NewFile::create(&arguments.output, arguments.force)?;
    let open = |path: &PathBuf| block_file::open(path, &FileArguments::default())?.native(path);
    let blocks = arguments.files.iter().map(open).collect::<Outcome<Vec<_>>>()?;
    let merged = merge_blocks(&blocks).map_err(|error| explain(error, arguments, &blocks))?;
    let block = ParsedBlock::open(&merged, Verify::AtOpen)?;
    let (info, found) = (block.metadata(), block.statistics());
    let sum = blocks.iter().fold(0u64, |sum, block| sum.saturating_add(block.metadata().num_keys));
    let report = Report {
        file: arguments.output.display().to_string(),
        merged: blocks.len(),
        kind: info.kind.to_string(),
        keys: info.num_keys,
        is_capped: info.num_keys < sum,
        estimated_keys: found.estimated_keys,
        fill: found.fill_ratio,
        block_len_bytes: info.block_len_bytes,
        expected_false_positive_rate: block.expected_fpr(),
        estimated_false_positive_rate: found.estimated_fpr,
    };
    if info.num_keys == 0 {
        file.judge_empty("all blocks are empty", arguments.allow_empty)?;
    }
    file.publish(&merged)?;
    let with_ranges = blocks.iter().filter(|block| block.metadata().ranges_len_bytes > 0).count();
    if with_ranges > 0 {
        let have = if with_ranges == 1 { "block has" } else { "blocks have" };
        output::message(format_args!(
            "{}: {with_ranges} {have} a range filter beside the filter of keys, and the merged block has none; for range \
             queries, build a range filter from all keys",
            report.file
        ));
    }
    match arguments.json {
        true => output::print_json(&report)?,
        false => output::message(summary(&report)),
    }
    Ok(Exit::Success)
}

/// Adds the names of two files to an error about blocks that differ. Adds the name of the first
/// file with keys to an error about a block that cannot be merged.
fn explain<D: AsRef<[u8]>>(error: Error, arguments: &Arguments, blocks: &[ParsedBlock<D>]) -> Failure {
    let Error::Unlike { what, left, right } = &error else {
        let has_keys = |block: &ParsedBlock<D>| block.metadata().kind != FilterKind::Empty;
        let refused = blocks.iter().zip(&arguments.files).find(|(block, _)| has_keys(block));
        return match refused {
            Some((_, path)) if matches!(error, Error::Invalid { .. }) => {
                Failure::Message(format!("{}: {error}", path.display()))
            }
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

fn summary(report: &Report) -> String {
    let keys = text::count(report.keys, "key");
    let (keys, fpr) = match report.is_capped {
        // The capped number is no upper bound. The sum is one, but it may be far too high, because
        // it counts a key in several inputs several times.
        true => (format!("number of keys unknown ({keys} recorded)"), "unknown".to_owned()),
        false => (format!("at most {keys}"), format!("at most {}", text::percent(report.expected_false_positive_rate))),
    };
    let estimated = match (report.estimated_keys, report.estimated_false_positive_rate) {
        (Some(keys), Some(rate)) if text::is_overstated(report.keys, report.estimated_keys) => {
            format!("; by the fill ratio, about {} keys and an FPR of {}", text::significant(keys), text::percent(rate))
        }
        _ => String::new(),
    };
    format!(
        "{}: {} merged; {}, {keys}, fill ratio {}, expected FPR {fpr}{estimated}",
        report.file,
        text::count(report.merged as u64, "block"),
        text::count(report.block_len_bytes, "byte"),
        text::percent(report.fill),
    )
}
