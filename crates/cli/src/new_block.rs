//! A filter block as a command makes it: its options, its file, and what is told of it.

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
use filterblock::{FilterBuilder, LockedBlock, Verify};

/// Which block is made, and where.
#[derive(Debug, clap::Args)]
pub struct BlockArguments {
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
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = whole(0..=u64::MAX, 1))]
    seed: u64,
    #[command(flatten)]
    hash: HashArguments,
    #[command(flatten)]
    secret: SecretArguments,
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
    /// Adds keys of the file `input` to a block and writes it; `add_keys` gives the number of those that it read. Whether
    /// the block can be written is found out before.
    pub fn make(&self, input: &Path, add_keys: impl FnOnce(&mut FilterBuilder) -> Outcome<u64>) -> Outcome {
        let hasher = self.secret.hasher(&self.hash, HashSeed(self.seed))?;
        let file = self.new_file(input)?;
        let hash = hasher.identity().kind.to_string();
        let mut builder = FilterBuilder::new(self.filter, hasher);
        let keys_read = add_keys(&mut builder)?;
        let block = builder.finish()?;
        let opened = LockedBlock::open(&block, Verify::AtOpen)?;
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
            expected_false_positive_rate: opened.expected_false_positive_rate(),
        };
        if info.num_keys == 0 {
            match &file {
                Some(file) => file.judge_empty("no key was read", self.allow_empty)?,
                None => message("-: no key was read; the filter has no keys to know"),
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

    /// The file to write; none stands for stdout.
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
                "--json: the block itself goes to standard output; give --output a file".into(),
            ));
        }
        output::refuse_terminal().map(|()| None)
    }
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
