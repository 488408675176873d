//! `filterblock build`: builds a filter block file from keys.

use std::path::PathBuf;

use super::failure::Outcome;
use super::keys::{KeyFormat, KeyReader, MAX_FILTER_KEY_LEN_BYTES};
use super::new_block::BlockArguments;
use super::progress;
use filterblock::FilterBuilder;

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

/// Build a filter block file from keys
#[derive(Debug, clap::Args)]
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

/// Runs `filterblock build`.
pub fn run(arguments: &Arguments) -> Outcome {
    arguments.block.make(&arguments.keys, |builder| add_keys(arguments, builder))
}

fn add_keys(arguments: &Arguments, builder: &mut FilterBuilder) -> Outcome<u64> {
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
}
