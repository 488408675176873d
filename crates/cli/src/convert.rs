//! `filterblock convert`: the keys of another engine's table in, a native filter block out.

use std::path::PathBuf;

use super::block_file::{self, FilterFile};
use super::failure::{Failure, Outcome};
use super::foreign::file::Form;
use super::foreign::{FileArguments, Foreign};
use super::new_block::BlockArguments;
use super::progress;
use filterblock::FilterBuilder;
use filterblock::foreign::{Error, Result};

const EXAMPLES: &str = "\
Examples:
  filterblock convert -o 000012.filter 000012.sst
  filterblock convert -o 000005.filter --filter bumped-ribbon:fpr=0.01 000005.ldb

TABLE is a table of LevelDB or RocksDB; its data blocks may be uncompressed, or packed by Snappy, Zstd, LZ4 or LZ4HC. \
The block holds the user's part of every key, deleted ones too, as the table's own filter does. Prefixes and timestamps are \
left out. Parquet files are not converted.

With --force a file keeps its mode, owner and access list; see `filterblock build --help`.

Exit status: 0 written; 2 an error, and nothing was written (unless the message is about standard output or says so).";

/// Make a filter block of the keys in a table of LevelDB or RocksDB
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The table
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    #[command(flatten)]
    block: BlockArguments,
    /// Keys of a LevelDB table are as the user gave them (user), or followed by eight bytes of a database (internal)
    /// [default: what fits its filter]
    #[arg(long, value_enum, value_name = "FORM", hide_possible_values = true)]
    key_form: Option<Form>,
}

/// Runs `filterblock convert`.
pub fn run(arguments: &Arguments) -> Outcome {
    let path = &arguments.table;
    let refused = |why: &str| Err(Failure::Message(format!("{}: {why}", path.display())));
    let foreign = FileArguments { key_form: arguments.key_form, ..FileArguments::default() };
    let table = match block_file::open(path, &foreign)? {
        FilterFile::Native(_) => return refused("a filter block has hashes of keys, and no keys to convert"),
        // Without a format none is one.
        FilterFile::Foreign(Foreign::Raw(..)) => return refused("a filter alone has no keys to convert"),
        FilterFile::Foreign(Foreign::Parquet(_)) => return refused("values of a Parquet file are not converted"),
        FilterFile::Foreign(table) => table,
    };
    arguments.block.make(path, |builder| {
        add_keys(&table, builder).map_err(|error| match error.in_file(path) {
            error if matches!(error.root(), Error::Invalid { what: "table", .. }) => {
                Failure::Message(format!("{error}, with --key-form"))
            }
            error => error.into(),
        })
    })
}

fn add_keys(table: &Foreign, builder: &mut FilterBuilder) -> Result<u64> {
    let len = if let Foreign::RocksDb(table) = table { Some(table.properties().num_entries) } else { None };
    let bar = progress::bar(len, "reading keys");
    let mut keys_read = 0;
    let mut add = |key: &[u8]| {
        builder.add(key);
        keys_read += 1;
        progress::tick(&bar, keys_read);
        Ok(())
    };
    let walked = match table {
        Foreign::LevelDb(table) => table.for_each_key(&mut add),
        Foreign::RocksDb(table) => table.for_each_key(&mut add),
        Foreign::Parquet(_) | Foreign::Raw(..) => Ok(()),
    };
    bar.finish_and_clear();
    walked.map(|()| keys_read)
}
