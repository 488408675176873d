//! `filterblock merge`: one filter block of the keys of several.

use std::path::PathBuf;

use serde::Serialize;

use super::block_file::{self, FilterFile};
use super::failure::{Exit, Failure, Outcome};
use super::foreign::FileArguments;
use super::new_file::NewFile;
use super::{output, text};
use filterblock::variants::{Error, differences, merge_blocks};
use filterblock::{LockedBlock, Verify};

const EXAMPLES: &str = "\
Examples:
  filterblock merge -o all.filter shard-0.filter shard-1.filter shard-2.filter

The blocks must have one shape (kind, number of bits, probes) and have been made by one hash function under one seed and secret; \
`filterblock diff` tells what differs. Kinds: bloom, blocked-bloom, split-block, split-block-512. Blocks without keys \
add nothing, whatever their shape. No secret is needed.

The new block has the bits that a filter of that shape would have of all keys together. Its number of keys is the sum: an upper \
bound, since nobody knows which keys were in more than one; so is the rate that is told.

With --force a file keeps its mode, owner and access list; see `filterblock build --help`. The command refuses to replace \
a file by a filter without keys, unless --allow-empty is given.

Exit status: 0 written; 2 an error, and nothing was written (unless the message is about standard output or says so).";

/// Make one filter block of several of the same shape
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The filter block files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The file to write, which appears whole or not at all; it may be one of those read
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Replace OUT also by a filter without keys, which denies every key
    #[arg(long)]
    allow_empty: bool,
    /// Describe what was written as JSON on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    file: String,
    merged: usize,
    kind: String,
    /// An upper bound.
    keys: u64,
    estimated_keys: Option<f64>,
    fill: f64,
    block_len_bytes: u64,
    /// Of as many keys.
    expected_false_positive_rate: f64,
}

/// Runs `filterblock merge`.
pub fn run(arguments: &Arguments) -> Outcome {
    if arguments.json {
        output::check_stdout()?;
    }
    let file = NewFile::create(&arguments.output, arguments.force)?;
    let open = |path: &PathBuf| match block_file::open(path, &FileArguments::default())? {
        FilterFile::Native(block) => Ok(block),
        FilterFile::Foreign(_) => Err(Failure::Message(format!("{}: not a filter block", path.display()))),
    };
    let blocks = arguments.files.iter().map(open).collect::<Outcome<Vec<_>>>()?;
    let merged = merge_blocks(&blocks).map_err(|error| explain(error, arguments, &blocks))?;
    let block = LockedBlock::open(&merged, Verify::AtOpen)?;
    let (info, found) = (block.metadata(), block.statistics());
    let report = Report {
        file: arguments.output.display().to_string(),
        merged: blocks.len(),
        kind: info.kind.to_string(),
        keys: info.num_keys,
        estimated_keys: found.estimated_keys,
        fill: found.fill_ratio,
        block_len_bytes: info.block_len_bytes,
        expected_false_positive_rate: block.expected_false_positive_rate(),
    };
    if info.num_keys == 0 {
        file.judge_empty("the blocks have no keys", arguments.allow_empty)?;
    }
    file.publish(&merged)?;
    match arguments.json {
        true => output::print_json(&report)?,
        false => output::message(summary(&report)),
    }
    Ok(Exit::Success)
}

/// Names the files that do not go together.
fn explain<D: AsRef<[u8]>>(error: Error, arguments: &Arguments, blocks: &[LockedBlock<D>]) -> Failure {
    let Error::Unlike { what, left, right } = &error else { return error.into() };
    // Which of the blocks gave the shape is the library's affair; here any two that differ will do.
    let named = |block: &LockedBlock<D>, other: &LockedBlock<D>| {
        differences(block, other)
            .iter()
            .any(|found| found.what == *what && found.left == *left && found.right == *right)
    };
    let with_path = || blocks.iter().zip(&arguments.files);
    let pair = with_path().find_map(|(a, first)| {
        with_path().find(|(b, _)| named(a, b)).map(|(_, second)| (first.display(), second.display()))
    });
    match pair {
        Some((first, second)) => {
            Failure::Message(format!("{first} and {second} cannot be merged: {what} {left} and {right}"))
        }
        None => error.into(),
    }
}

fn summary(report: &Report) -> String {
    format!(
        "{}: {} merged; {}, {} keys at most, {} full, expected rate of false positives {} at most",
        report.file,
        text::count(report.merged as u64, "block"),
        text::count(report.block_len_bytes, "byte"),
        text::thousands(report.keys),
        text::percent(report.fill),
        text::percent(report.expected_false_positive_rate),
    )
}
