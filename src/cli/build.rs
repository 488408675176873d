//! `filterblock build`: keys in, a filter block file out.

use std::path::PathBuf;

use serde::Serialize;

use super::failure::{Exit, Failure, Outcome};
use super::keys::{KeyFormat, KeyReader, MAX_FILTER_KEY_LEN_BYTES};
use super::output::{self, NewFile, message};
use super::secret::{HashArguments, SecretArguments};
use super::{progress, text};
use crate::block::{FilterBuilder, LockedBlock, Verify};
use crate::filter::FilterSpec;
use crate::hash::HashSeed;

const EXAMPLES: &str = "\
Examples:
  filterblock build -o names.filter names.txt
  filterblock build -o names.filter --filter bloom:fpr=0.001 names.txt
  find . -print0 | filterblock build -o paths.filter --delimiter nul -
  sha256sum *.iso | cut -c1-64 | filterblock build -o sums.filter --hex
  (umask 077; openssl rand -hex 16 > key); filterblock build -o names.filter --secret-file key names.txt

The same set of keys, filter, hash function, secret and seed gives the same bytes, in any order and however often a key is repeated. Keys \
may be up to 16 MiB long; memory is 8 bytes a key and the finished block.

A symbolic link as OUT is followed, and stays. What exists and is no regular file (a directory, a device, a pipe) is \
never replaced.

Exit status: 0 written; 2 an error, and nothing was written.";

/// Build a filter block file from keys
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// A file with one key a line, or `-` for standard input
    #[arg(value_name = "KEYFILE", default_value = "-")]
    keys: PathBuf,
    /// The file to write, which appears whole or not at all; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The kind of filter and its budget: KIND:BITS with 1 to 100 bits a key, or KIND:fpr=RATE with a rate of false
    /// positives that 100 bits a key can reach; KIND is bloom, blocked-bloom, split-block, split-block-512, bumped-ribbon,
    /// ribbon (up to 32 bits) or binary-fuse (8, 12 or 16 bits); `:compact` behind a bumped-ribbon makes it smaller and
    /// slower to build. Or `full`, which says maybe to every key
    #[arg(long, value_name = "SPEC", default_value = "blocked-bloom:10")]
    filter: FilterSpec,
    /// The seed under which keys are hashed; it is stored in the block
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    hash: HashArguments,
    #[command(flatten)]
    secret: SecretArguments,
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
    hash: String,
    seed: u64,
    keys_read: u64,
    distinct_keys: u64,
    block_len_bytes: u64,
    bits_per_key: f64,
    expected_false_positive_rate: f64,
}

/// Runs `filterblock build`.
pub fn run(arguments: &Arguments) -> Outcome {
    let hasher = arguments.secret.hasher(&arguments.hash, HashSeed(arguments.seed))?;
    let file = new_file(arguments)?;
    let hash = hasher.identity().kind.to_string();
    let mut builder = FilterBuilder::new(arguments.filter, hasher);
    let keys_read = add_keys(arguments, &mut builder)?;
    let block = builder.finish()?;
    let info = LockedBlock::open(&block, Verify::AtOpen)?.info();
    let report = Report {
        file: arguments.output.display().to_string(),
        filter: arguments.filter.to_string(),
        hash,
        seed: arguments.seed,
        keys_read,
        distinct_keys: info.num_keys,
        block_len_bytes: block.len() as u64,
        bits_per_key: info.bits_per_key,
        expected_false_positive_rate: info.expected_false_positive_rate,
    };
    match file {
        Some(file) => file.publish(&block)?,
        None => output::print_binary(&block)?,
    }
    match arguments.json {
        true => output::print_json(&report)?,
        false => message(summary(&report)),
    }
    Ok(Exit::Success)
}

/// The file to write; none stands for stdout.
fn new_file(arguments: &Arguments) -> Outcome<Option<NewFile>> {
    if arguments.output.as_os_str() != "-" {
        return NewFile::create(&arguments.output, arguments.force).map(Some);
    }
    if arguments.json {
        return Err(Failure::Message("--json: the block itself goes to standard output; give --output a file".into()));
    }
    output::refuse_terminal().map(|()| None)
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
        "{}: {} read, {} distinct; {}, {} bits a key, expected rate of false positives {}",
        report.file,
        text::count(report.keys_read, "key"),
        text::thousands(report.distinct_keys),
        text::count(report.block_len_bytes, "byte"),
        text::significant(report.bits_per_key),
        text::percent(report.expected_false_positive_rate),
    )
}
