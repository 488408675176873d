//! `filterblock export`: writes the bytes of one filter to a file, and its parameters as JSON to
//! stdout.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::block_file::{self, FilterFile};
use crate::foreign::{FileArguments, Foreign, inspect};
use crate::new_file::NewFile;
use crate::prelude::*;
use crate::refused_value::whole;
use filterblock::{AlignedBytes, ParsedBlock};
use filterblock_report::FilterReport;

const EXAMPLES: &str = "\
Examples:
  filterblock export -o 000012.rocksdb-filter 000012.sst > parameters.json
  filterblock export -o part.rocksdb-filter --number 3 000012.sst
  filterblock export -o ids.sbbf --column user.id --row-group 3 rows.parquet
  filterblock export -o names.payload names.filter

OUT gets the bytes of one filter in the format of its engine:
  LevelDB, RocksDB  bits and trailer
  Parquet           header and bits
  filterblock       the payload

Standard output gets the parameters of the filter as JSON. Filters are numbered from 0, in the order of `inspect --json`.
To query the exported filter of a LevelDB or RocksDB table or a Parquet file, pass the \"format\" of the JSON to \
`filterblock query --format`. A filter of a part of the file denies the keys of the other parts.
If a RocksDB table has filters of filterblock, OUT is a whole filter block: query it without --format.
If a LevelDB table has them, the format is filterblock-compact. Such a filter can be queried only in its table.

See `filterblock build --help` for --force.

Exit status: 0 written; 2 an error. After an error nothing is written, unless the message says otherwise or is about \
standard output.";

/// Write the bytes of one filter to a file, and its parameters to stdout
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The filter block file, or a file of another engine
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The output file, written atomically
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The number of the filter, from 0, in a file with several filters
    #[arg(long, value_name = "N", value_parser = whole(0..=usize::MAX, 0))]
    number: Option<usize>,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Accepted for consistency with other commands; the parameters are always JSON
    #[arg(long, hide = true)]
    json: bool,
    #[command(flatten)]
    foreign: FileArguments,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let path = &arguments.file;
    if arguments.output.as_os_str() == "-" {
        return fail("--output -: standard output gets the parameters; give --output a file");
    }
    match block_file::open(path, &arguments.foreign)? {
        FilterFile::Native(block) => export_block(arguments, &block),
        FilterFile::Foreign(file @ (Foreign::Sst(_) | Foreign::FileFilter(_))) => {
            let kind = file.kind();
            let why = "give a filter block, or a file of another engine";
            refuse(path, format!("export cannot take the filter out of a {kind}; {why}"))
        }
        FilterFile::Foreign(file) => export_foreign(arguments, &file),
    }
}

fn export_foreign(arguments: &Arguments, file: &Foreign) -> Outcome {
    let path = &arguments.file;
    let report = inspect::report(path, file, &arguments.foreign)?;
    let filter = choose(arguments, report.filters())?;
    let Some(bytes) = slice(file.as_bytes(), filter.offset, filter.len_bytes) else {
        let why = "lies outside the file; the file is damaged, so restore it or let its engine write it again";
        return refuse(path, format!("the filter at offset {} {why}", filter.offset));
    };
    publish(arguments, file.raw_format(), bytes, serde_json::to_value(filter)?)
}

/// Returns the filter with the given number. Without a number, returns the only filter of the file.
/// Returns an error if there is no such filter, or if the number is missing and there are several.
fn choose<'a>(arguments: &Arguments, filters: &'a [FilterReport]) -> Outcome<&'a FilterReport> {
    let len = text::count(filters.len() as u64, "filter");
    match (filters, arguments.number) {
        ([], _) => {
            let is_part = arguments.foreign.column.is_some() || arguments.foreign.row_group.is_some();
            let next =
                if is_part { "choose another --column, --row-group or file" } else { "give a file with filters" };
            refuse(&arguments.file, format!("no filter to export is found; {next}"))
        }
        ([only], None) => Ok(only),
        (_, None) => refuse(&arguments.file, format!("{len} found; choose one with --number, counted from 0")),
        (filters, Some(number)) => filters.get(number).ok_or_else(|| {
            Failure::about(&arguments.file, format!("no filter {number}; {len} found; give a lower --number, from 0"))
        }),
    }
}

fn export_block(arguments: &Arguments, block: &ParsedBlock<AlignedBytes>) -> Outcome {
    let info = block.metadata();
    let hash = info.hash;
    if info.num_partitions > 0 {
        let why = "this filter is in partitions, which export cannot write; build it without partitions";
        return refuse(&arguments.file, why);
    }
    if arguments.number.is_some_and(|number| number > 0) {
        return refuse(&arguments.file, "a filter block has one filter; omit --number, or give 0");
    }
    let payload = block.payload();
    // A range filter may lie in front of the payload.
    let offset = payload.as_ptr().addr() - block.as_bytes().as_ptr().addr();
    let filter = json!({
        "kind": info.kind.to_string(),
        "parameters": block.parameters(),
        "offset": offset,
        "len_bytes": info.payload_len_bytes,
        "keys": info.num_keys,
        "probes": info.probes,
        "fill": block.statistics().fill_ratio,
        "expected_false_positive_rate": block.expected_fpr(),
        "hash": hash.kind.to_string(),
        "hash_seed": hash.seed.0,
        "secret_fingerprint": hash.fingerprint.map(|fingerprint| fingerprint.to_string()),
    });
    publish(arguments, "filterblock", payload, filter)
}

/// Writes the bytes of a filter, and prints its parameters. `format` is usually the value of
/// `--format` for the exported filter (see [`Foreign::raw_format`]).
fn publish(arguments: &Arguments, format: &str, bytes: &[u8], filter: Value) -> Outcome {
    output::check_stdout()?;
    let file = NewFile::create(&arguments.output, arguments.force)?;
    file.refuse_inputs([arguments.file.as_path()])?;
    file.publish(bytes)?;
    let (file, output) = (arguments.file.display().to_string(), arguments.output.display().to_string());
    let mut parameters = json!({"file": file, "output": output, "format": format});
    if let (Value::Object(all), Value::Object(filter)) = (&mut parameters, filter) {
        all.extend(filter);
    }
    output::print_json(&parameters)?;
    Ok(Exit::Success)
}

fn slice(bytes: &[u8], offset: u64, len_bytes: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(len_bytes).ok()?)?)
}
