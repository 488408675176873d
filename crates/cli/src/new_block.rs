//! Builds and writes the filter block of `build` and `convert`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::failure::{Exit, Failure, Outcome};
use super::new_file::NewFile;
use super::output::{self, message};
use super::refused_value::whole;
use super::secret::{HashArguments, SecretArguments};
use super::text;
use filterblock::FilterSpec;
use filterblock::HashSeed;
use filterblock::{FilterBuilder, FilterOptions, ParsedBlock, Verify};

/// The options that describe the block and its file.
#[derive(Debug, clap::Args)]
pub struct BlockArguments {
    /// The output file, written atomically; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The kind of filter and its budget, such as bloom:10 or bloom:fpr=0.01
    ///
    /// The forms are KIND:BITS with 1 to 100 bits per key, and KIND:fpr=RATE with a false-positive
    /// rate (FPR) between 0 and 1. KIND is bloom, blocked-bloom, split-block, split-block-512,
    /// bumped-ribbon (uses at most about 32 bits), ribbon (at most 32 bits) or binary-fuse (8, 12
    /// or 16 bits). A bumped-ribbon with `:compact` at its end is smaller and slower to build. The
    /// kind always-maybe has no budget. Use grafite (at most 50 bits), such as grafite:fpr=0.01, to
    /// answer range queries.
    #[arg(long, value_name = "SPEC", default_value = "blocked-bloom:10")]
    filter: FilterSpec,
    /// The seed of the key hash; it is stored in the block
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = whole(0..=u64::MAX, 1))]
    seed: u64,
    #[command(flatten)]
    hash: HashArguments,
    #[command(flatten)]
    secret: SecretArguments,
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
    filter: String,
    hash: String,
    seed: u64,
    keys_read: u64,
    distinct_keys: u64,
    block_len_bytes: u64,
    bits_per_key: f64,
    expected_false_positive_rate: f64,
}

impl BlockArguments {
    /// Builds a filter block, writes it, and prints a summary. `add_keys` adds the keys of the file
    /// `input` to the builder and returns how many keys it read. The output is checked before any
    /// key is read.
    pub fn make(&self, input: &Path, add_keys: impl FnOnce(&mut FilterBuilder) -> Outcome<u64>) -> Outcome {
        let hasher = self.secret.hasher(&self.hash, HashSeed(self.seed))?;
        let file = self.new_file(input)?;
        let hash = hasher.identity().kind.to_string();
        let mut builder = FilterOptions::new(self.filter).builder(hasher)?;
        let keys_read = add_keys(&mut builder)?;
        let block = builder.finish()?.bytes;
        let opened = ParsedBlock::open(&block, Verify::AtOpen)?;
        let info = opened.metadata();
        let report = Report {
            file: self.output.display().to_string(),
            filter: self.filter.to_string(),
            hash,
            seed: self.seed,
            keys_read,
            distinct_keys: info.num_keys,
            block_len_bytes: block.len() as u64,
            bits_per_key: info.bits_per_key(),
            expected_false_positive_rate: opened.expected_fpr(),
        };
        if info.num_keys == 0 {
            match &file {
                Some(file) => file.judge_empty("no key was read", self.allow_empty)?,
                None => message("standard output: no key was read; the filter is empty; check the input"),
            }
        }
        match file {
            Some(file) => file.publish(&block)?,
            None => output::print_binary(&block)?,
        }
        match self.json {
            true => output::print_json(&report)?,
            false => message(summary(&report)),
        }
        Ok(Exit::Success)
    }

    /// Checks the output. Returns the output file, or `None` for stdout.
    fn new_file(&self, input: &Path) -> Outcome<Option<NewFile>> {
        if self.output.as_os_str() != "-" {
            if self.json {
                output::check_stdout()?;
            }
            let file = NewFile::create(&self.output, self.force)?;
            file.refuse_inputs(std::iter::once(input).chain(self.secret.path()))?;
            return Ok(Some(file));
        }
        output::check_stdout()?;
        if self.json {
            return Err(Failure::Message(
                "--json needs standard output, and the block goes there too; give --output a file".into(),
            ));
        }
        output::refuse_terminal().map(|()| None)
    }
}

fn summary(report: &Report) -> String {
    format!(
        "{}: {} read, {} distinct; {}, {} bits per key, expected FPR {}",
        report.file,
        text::count(report.keys_read, "key"),
        text::thousands(report.distinct_keys),
        text::count(report.block_len_bytes, "byte"),
        text::significant(report.bits_per_key),
        text::percent(report.expected_false_positive_rate),
    )
}
