//! `filterblock convert`: builds a filter block from the keys of another engine's SST file.

use std::path::PathBuf;

use super::block_file::{self, FilterFile};
use super::failure::{Failure, Outcome};
use super::foreign::file::{Form, table_message, unknown_form};
use super::foreign::{FileArguments, Foreign};
use super::new_block::BlockArguments;
use super::progress;
use filterblock::FilterBuilder;
use filterblock_foreign::Result;

const EXAMPLES: &str = "\
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

/// Build a filter block from the keys of an SST file of LevelDB or RocksDB
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The SST file of LevelDB or RocksDB
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    #[command(flatten)]
    block: BlockArguments,
    /// The form of LevelDB keys: `user` for plain keys, `internal` for keys with 8 bytes of
    /// sequence number and type [default: the form that fits the table]
    #[arg(long, value_enum, value_name = "FORM", hide_possible_values = true)]
    key_form: Option<Form>,
}

/// Runs `filterblock convert`.
pub fn run(arguments: &Arguments) -> Outcome {
    let path = &arguments.table;
    let refused = |why: &str| Err(Failure::Message(format!("{}: {why}", path.display())));
    let foreign = FileArguments { key_form: arguments.key_form, ..FileArguments::default() };
    let table = match block_file::open(path, &foreign)? {
        FilterFile::Native(_) => {
            return refused(
                "a filter block stores no keys; give a table of LevelDB or RocksDB, or use filterblock build with a list of keys",
            );
        }
        // This case cannot occur: a file is a bare filter only with --format, which this command
        // does not have.
        FilterFile::Foreign(Foreign::Raw(..)) => {
            return refused("a bare filter stores no keys; give a table of LevelDB or RocksDB");
        }
        FilterFile::Foreign(Foreign::Parquet(_)) => {
            return refused("a Parquet file cannot be converted; write its values to a file and use filterblock build");
        }
        FilterFile::Foreign(Foreign::Sst(_) | Foreign::FileFilter(_)) => {
            return refused("a file of filterblock; give a table of LevelDB or RocksDB");
        }
        FilterFile::Foreign(table) => table,
    };
    arguments.block.make(path, |builder| {
        add_keys(&table, builder).map_err(|error| {
            unknown_form(&error, path)
                .unwrap_or_else(|| Failure::Message(table_message(&error.in_file(path), arguments.key_form)))
        })
    })
}

fn add_keys(table: &Foreign, builder: &mut FilterBuilder) -> Result<u64> {
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
