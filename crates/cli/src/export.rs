//! `filterblock export`: writes the bytes of one filter to a file, and its parameters as JSON to
//! stdout.

use std::path::PathBuf;

use serde::Serialize;

use super::block_file::{self, FilterFile};
use super::failure::{Exit, Failure, Outcome};
use super::foreign::inspect;
use super::foreign::{FileArguments, Foreign};
use super::new_file::NewFile;
use super::refused_value::whole;
use super::{output, text};
use filterblock::AlignedBytes;
use filterblock::ParsedBlock;
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
#[derive(Debug, clap::Args)]
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

/// The parameters of a filter of another engine.
#[derive(Debug, Serialize)]
struct ForeignParameters<'a> {
    file: String,
    output: String,
    /// The result of [`Foreign::raw_format`]: usually the value of `--format` for the exported
    /// filter.
    format: &'static str,
    #[serde(flatten)]
    filter: &'a FilterReport,
}

/// The parameters of the filter in a filter block.
#[derive(Debug, Serialize)]
struct BlockParameters {
    file: String,
    output: String,
    format: &'static str,
    kind: String,
    parameters: Option<String>,
    offset: u64,
    len_bytes: u64,
    keys: u64,
    probes: u32,
    fill: f64,
    expected_false_positive_rate: f64,
    hash: String,
    hash_seed: u64,
    secret_fingerprint: Option<String>,
}

/// Runs `filterblock export`.
pub fn run(arguments: &Arguments) -> Outcome {
    let path = &arguments.file;
    if arguments.output.as_os_str() == "-" {
        return Err(Failure::Message(
            "--output -: standard output gets the parameters; give --output a file".to_owned(),
        ));
    }
    match block_file::open(path, &arguments.foreign)? {
        FilterFile::Native(block) => export_block(arguments, &block),
        FilterFile::Foreign(file @ (Foreign::Sst(_) | Foreign::FileFilter(_))) => Err(Failure::Message(format!(
            "{}: export cannot take the filter out of a {}; give a filter block, or a file of another engine",
            path.display(),
            file.kind()
        ))),
        FilterFile::Foreign(file) => export_foreign(arguments, &file),
    }
}

fn export_foreign(arguments: &Arguments, file: &Foreign) -> Outcome {
    let path = &arguments.file;
    let report = inspect::report(path, file, &arguments.foreign)?;
    let filter = choose(arguments, report.filters())?;
    let bytes = slice(file.as_bytes(), filter.offset, filter.len_bytes).ok_or_else(|| {
        Failure::Message(format!(
            "{}: the filter at offset {} lies outside the file; the file is damaged, so restore it or let its engine write it again",
            path.display(),
            filter.offset
        ))
    })?;
    let parameters = ForeignParameters {
        file: path.display().to_string(),
        output: arguments.output.display().to_string(),
        format: file.raw_format(),
        filter,
    };
    new_file(arguments)?.publish(bytes)?;
    output::print_json(&parameters)?;
    Ok(Exit::Success)
}

/// Returns the filter with the given number. Without a number, returns the only filter of the file.
/// Returns an error if there is no such filter, or if the number is missing and there are several.
fn choose<'a>(arguments: &Arguments, filters: &'a [FilterReport]) -> Outcome<&'a FilterReport> {
    let path = arguments.file.display();
    let len = text::count(filters.len() as u64, "filter");
    match (filters, arguments.number) {
        ([], _) => {
            let is_part = arguments.foreign.column.is_some() || arguments.foreign.row_group.is_some();
            let next =
                if is_part { "choose another --column, --row-group or file" } else { "give a file with filters" };
            Err(Failure::Message(format!("{path}: no filter to export is found; {next}")))
        }
        ([only], None) => Ok(only),
        (_, None) => Err(Failure::Message(format!("{path}: {len} found; choose one with --number, counted from 0"))),
        (filters, Some(number)) => filters.get(number).ok_or_else(|| {
            Failure::Message(format!("{path}: no filter {number}; {len} found; give a lower --number, from 0"))
        }),
    }
}

fn export_block(arguments: &Arguments, block: &ParsedBlock<AlignedBytes>) -> Outcome {
    let path = &arguments.file;
    let info = block.metadata();
    let hash = info.hash;
    if info.num_partitions > 0 || arguments.number.is_some_and(|number| number > 0) {
        let path = path.display();
        let why = match info.num_partitions {
            0 => "a filter block has one filter; omit --number, or give 0",
            _ => "this filter is in partitions, which export cannot write; build it without partitions",
        };
        return Err(Failure::Message(format!("{path}: {why}")));
    }
    let payload = block.payload();
    // A range filter may lie in front of the payload.
    let offset = payload.as_ptr().addr() - block.as_bytes().as_ptr().addr();
    let parameters = BlockParameters {
        file: path.display().to_string(),
        output: arguments.output.display().to_string(),
        format: "filterblock",
        kind: info.kind.to_string(),
        parameters: block.parameters(),
        offset: offset as u64,
        len_bytes: info.payload_len_bytes,
        keys: info.num_keys,
        probes: info.probes,
        fill: block.statistics().fill_ratio,
        expected_false_positive_rate: block.expected_fpr(),
        hash: hash.kind.to_string(),
        hash_seed: hash.seed.0,
        secret_fingerprint: hash.fingerprint.map(|fingerprint| fingerprint.to_string()),
    };
    new_file(arguments)?.publish(payload)?;
    output::print_json(&parameters)?;
    Ok(Exit::Success)
}

fn new_file(arguments: &Arguments) -> Outcome<NewFile> {
    output::check_stdout()?;
    let file = NewFile::create(&arguments.output, arguments.force)?;
    file.refuse_inputs([arguments.file.as_path()])?;
    Ok(file)
}

fn slice(bytes: &[u8], offset: u64, len_bytes: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(len_bytes).ok()?)?)
}
