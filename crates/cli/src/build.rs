//! `filterblock build`: keys in, a filter block file out.

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
  sha256sum *.iso | cut -c1-64 | filterblock build -o sums.filter --hex
  (umask 077; openssl rand -hex 16 > key); filterblock build -o names.filter --secret-file key names.txt

The same set of keys, filter, hash function, secret and seed gives the same bytes, in any order and however often a key is repeated. Keys \
may be up to 16 MiB long; memory is 8 bytes a key and the finished block.

With --force, a new file takes the place of OUT in one step. It gets the mode, the owner and the access list (ACL) of the \
file that it replaces, and no other extended attributes; a new file follows the umask. The command refuses to replace a \
file whose owner it cannot give to the new one, and a file with several names (hard links), of which only one would be \
replaced. It also refuses to replace a file by a filter without keys (the filter would deny every key, and an input that \
failed often looks empty), unless --allow-empty is given.

A symbolic link as OUT is followed, and stays. What exists and is no regular file (a directory, a device, a pipe) is \
never replaced, nor is a file that is read.

Exit status: 0 written; 2 an error, and nothing was written (unless the message is about standard output or says so).";

/// Build a filter block file from keys
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// A file with one key a line, or `-` for standard input
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
        builder.add(next.key);
        keys_read += 1;
        progress::tick(&bar, keys_read);
    }
    bar.finish_and_clear();
    Ok(keys_read)
}
