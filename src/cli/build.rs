//! `filterblock build`: keys in, a filter block file out.

use std::path::PathBuf;

use serde::Serialize;

use super::failure::{Exit, Outcome};
use super::keys::{KeyFormat, KeyReader, MAX_FILTER_KEY_LEN_BYTES};
use super::output::{self, NewFile, message};
use super::{progress, text};
use crate::block::{FilterBlock, FilterBuilder};
use crate::filter::FilterSpec;
use crate::hash::HashSeed;

const EXAMPLES: &str = "\
Examples:
  filterblock build -o names.filter names.txt
  filterblock build -o names.filter --filter bloom:fpr=0.001 names.txt
  find . -print0 | filterblock build -o paths.filter --delimiter nul -
  sha256sum *.iso | cut -c1-64 | filterblock build -o sums.filter --hex

The same set of keys, filter and seed gives the same bytes, in any order and however often a key is repeated.
Keys may be up to 16 MiB long; memory is 8 bytes a key and the finished block.

Exit status: 0 written; 2 an error, and nothing was written.";

/// Build a filter block file from keys
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A file with one key a line, or `-` for standard input
    #[arg(value_name = "KEYFILE", default_value = "-")]
    keys: PathBuf,
    /// The file to write; it appears whole, or not at all
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The kind of filter and its budget, in bits a key or as a rate of false positives:
    /// bloom:10, blocked-bloom:10, blocked-bloom:fpr=0.01
    #[arg(long, value_name = "SPEC", default_value = "blocked-bloom:10")]
    filter: FilterSpec,
    /// The seed under which keys are hashed; it is stored in the block
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Describe what was written as JSON on stdout
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    format: KeyFormat,
}

#[derive(Debug, Serialize)]
struct Report {
    file: String,
    filter: String,
    seed: u64,
    keys_read: u64,
    distinct_keys: u64,
    block_len_bytes: u64,
    bits_per_key: f64,
    expected_false_positive_rate: f64,
}

/// Runs `filterblock build`.
pub fn run(arguments: &Arguments) -> Outcome {
    let file = NewFile::create(&arguments.output, arguments.force)?;
    let mut builder = FilterBuilder::new(arguments.filter, HashSeed(arguments.seed));
    let keys_read = add_keys(arguments, &mut builder)?;
    let block = builder.finish()?;
    let info = FilterBlock::open(&block)?.info();
    let report = Report {
        file: arguments.output.display().to_string(),
        filter: arguments.filter.to_string(),
        seed: arguments.seed,
        keys_read,
        distinct_keys: info.num_keys,
        block_len_bytes: block.len() as u64,
        bits_per_key: info.bits_per_key,
        expected_false_positive_rate: info.expected_false_positive_rate,
    };
    file.publish(&block)?;
    match arguments.json {
        true => output::print_json(&report)?,
        false => message(summary(&report)),
    }
    Ok(Exit::Success)
}

fn add_keys(arguments: &Arguments, builder: &mut FilterBuilder) -> Outcome<u64> {
    let mut reader = KeyReader::open(&arguments.keys, arguments.format, MAX_FILTER_KEY_LEN_BYTES)?;
    let bar = progress::bar(None, "reading keys");
    let mut keys_read = 0;
    while let Some(next) = reader.next_key()? {
        builder.add(next.key);
        keys_read += 1;
        progress::tick(&bar, keys_read);
    }
    bar.finish_and_clear();
    Ok(keys_read)
}

fn summary(report: &Report) -> String {
    format!(
        "{}: {} keys read, {} distinct; {} bytes, {} bits a key, expected rate of false positives {}",
        report.file,
        text::thousands(report.keys_read),
        text::thousands(report.distinct_keys),
        text::thousands(report.block_len_bytes),
        text::significant(report.bits_per_key),
        text::percent(report.expected_false_positive_rate),
    )
}
