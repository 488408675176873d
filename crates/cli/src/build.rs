//! `filterblock build` and `filterblock convert`: build a filter block from keys, or from the keys of
//! another engine's SST file.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::block_file::{self, FilterFile};
use crate::foreign::file::{table_message, unknown_form};
use crate::foreign::{FileArguments, Foreign, key_form};
use crate::keys::{KeyFormat, KeyReader, MAX_FILTER_KEY_LEN_BYTES};
use crate::new_file::NewFile;
use crate::prelude::*;
use crate::refused_value::whole;
use crate::secret::{HashArguments, SecretArguments};
use filterblock::{FilterBuilder, FilterOptions, FilterSpec, HashSeed, ParsedBlock, Verify};
use filterblock_foreign::{KeyForm, Result};

const EXAMPLES: &str = "\
Examples:
  filterblock build -o names.filter names.txt
  filterblock build -o names.filter --filter bloom:fpr=0.001 names.txt
  find . -print0 | filterblock build -o paths.filter --delimiter nul -
  sha256sum *.iso | cut -c1-64 | filterblock build -o iso.filter --hex
  (umask 077; openssl rand -hex 16 > secret)
  filterblock build -o names.filter --secret-file secret names.txt

Keys:
  The order and the repetition of keys do not change the block. A key has at most 16 MiB.
  The build keeps a hash of 8 bytes per key in memory, and needs room for the finished block. Ribbons and binary fuse \
filters need more. A range filter keeps the keys themselves.

Replacing a file (--force):
  The new file replaces OUT in one step. On Unix it keeps the mode and the owner of OUT, and on Linux also the access \
list (ACL), but no other extended attributes. A symbolic link is followed and stays.
  The command does not replace a directory, a device, a pipe, an input file, a file with several names (hard links), or \
a file whose owner it cannot keep.
  It replaces OUT with an empty filter only if --allow-empty is given, because an input that failed often looks empty.

Exit status: 0 written; 2 an error. After an error nothing is written, unless the message says otherwise or is about \
standard output.";

const CONVERT_EXAMPLES: &str = "\
Examples:
  filterblock convert -o 000012.filter 000012.sst
  filterblock convert -o 000005.filter --filter bumped-ribbon:fpr=0.01 000005.ldb

TABLE is an SST file of LevelDB or RocksDB. Its data blocks may be uncompressed, or compressed with Snappy, Zstd, LZ4 or \
LZ4HC. Parquet files cannot be converted.

The block holds the user key of every entry, including tombstones, like the table's own filter. It holds no prefixes and no \
timestamps.

See `filterblock build --help` for --force and --allow-empty.

Exit status: 0 written; 2 an error. After an error nothing is written, unless the message says otherwise or is about \
standard output.";

/// Build a filter block file from keys
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// A file with one key per line, or `-` for standard input
    #[arg(value_name = "KEYFILE", default_value = "-")]
    keys: PathBuf,
    #[command(flatten)]
    block: BlockArguments,
    #[command(flatten)]
    format: KeyFormat,
}

/// Build a filter block from the keys of an SST file of LevelDB or RocksDB
#[derive(clap::Args)]
#[command(after_long_help = CONVERT_EXAMPLES)]
pub struct ConvertArguments {
    /// The SST file of LevelDB or RocksDB
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    #[command(flatten)]
    block: BlockArguments,
    /// The form of LevelDB keys: `user` for plain keys, `internal` for keys with 8 bytes of
    /// sequence number and type [default: the form that fits the table]
    #[arg(long, value_parser = key_form(), value_name = "FORM", hide_possible_values = true)]
    key_form: Option<KeyForm>,
}

/// The options that describe the block and its file.
#[derive(clap::Args)]
struct BlockArguments {
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

pub fn run(arguments: &Arguments) -> Outcome {
    arguments.block.make(&arguments.keys, |builder| {
        let mut reader = KeyReader::open(&arguments.keys, arguments.format, MAX_FILTER_KEY_LEN_BYTES)?;
        let bar = progress::bar(None, "reading keys");
        let mut keys_read = 0;
        while let Some(next) = reader.next_key()? {
            builder.add(builder.hasher().key(next.key));
            keys_read += 1;
            progress::tick(&bar, keys_read);
        }
        bar.finish_and_clear();
        Ok(keys_read)
    })
}

pub fn convert(arguments: &ConvertArguments) -> Outcome {
    let path = &arguments.table;
    let foreign = FileArguments { key_form: arguments.key_form, ..FileArguments::default() };
    let why = match block_file::open(path, &foreign)? {
        FilterFile::Foreign(table @ (Foreign::LevelDb(_) | Foreign::RocksDb(_))) => {
            return arguments.block.make(path, |builder| {
                add_keys_of(&table, builder).map_err(|error| {
                    unknown_form(&error, path)
                        .unwrap_or_else(|| Failure::Message(table_message(&error.in_file(path), arguments.key_form)))
                })
            });
        }
        FilterFile::Native(_) => {
            "a filter block stores no keys; give a table of LevelDB or RocksDB, or use filterblock build with a list of keys"
        }
        // This case cannot occur: a file is a bare filter only with --format, which this command
        // does not have.
        FilterFile::Foreign(Foreign::Raw(..)) => "a bare filter stores no keys; give a table of LevelDB or RocksDB",
        FilterFile::Foreign(Foreign::Parquet(_)) => {
            "a Parquet file cannot be converted; write its values to a file and use filterblock build"
        }
        FilterFile::Foreign(Foreign::Sst(_) | Foreign::FileFilter(_)) => {
            "a file of filterblock; give a table of LevelDB or RocksDB"
        }
    };
    refuse(path, why)
}

fn add_keys_of(table: &Foreign, builder: &mut FilterBuilder) -> Result<u64> {
    let len = if let Foreign::RocksDb(table) = table { Some(table.properties().num_entries) } else { None };
    let bar = progress::bar(len, "reading keys");
    let mut keys_read = 0;
    let mut add = |key: &[u8]| {
        builder.add(builder.hasher().key(key));
        keys_read += 1;
        progress::tick(&bar, keys_read);
        Ok(())
    };
    let walked = match table {
        Foreign::LevelDb(table) => table.for_each_key(&mut add),
        Foreign::RocksDb(table) => table.for_each_key(&mut add),
        _ => Ok(()),
    };
    bar.finish_and_clear();
    walked.map(|()| keys_read)
}

impl BlockArguments {
    /// Builds a filter block, writes it, and prints a summary. `add_keys` adds the keys of the file
    /// `input` to the builder and returns how many keys it read. The output is checked before any
    /// key is read.
    fn make(&self, input: &Path, add_keys: impl FnOnce(&mut FilterBuilder) -> Outcome<u64>) -> Outcome {
        let hasher = self.secret.hasher(&self.hash, HashSeed(self.seed))?;
        let file = self.new_file(input)?;
        let hash = hasher.identity().kind.to_string();
        let mut builder = FilterOptions::new(self.filter).builder(hasher)?;
        let keys_read = add_keys(&mut builder)?;
        let block = builder.finish()?.bytes;
        let opened = ParsedBlock::open(&block, Verify::AtOpen)?;
        let (info, fpr) = (opened.metadata(), opened.expected_fpr());
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
        if self.json {
            output::print_json(&json!({
                "file": self.output.display().to_string(),
                "filter": self.filter.to_string(),
                "hash": hash,
                "seed": self.seed,
                "keys_read": keys_read,
                "distinct_keys": info.num_keys,
                "block_len_bytes": block.len(),
                "bits_per_key": info.bits_per_key(),
                "expected_false_positive_rate": fpr,
            }))?;
        } else {
            let (keys, distinct) = (count(keys_read, "key"), thousands(info.num_keys));
            let (bytes, bits) = (count(block.len() as u64, "byte"), significant(info.bits_per_key()));
            let fpr = percent(fpr);
            let text = format!("{keys} read, {distinct} distinct; {bytes}, {bits} bits per key, expected FPR {fpr}");
            note(&self.output, text);
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
            return fail("--json needs standard output, and the block goes there too; give --output a file");
        }
        output::refuse_terminal().map(|()| None)
    }
}
