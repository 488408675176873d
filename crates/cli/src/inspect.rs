//! `filterblock inspect`: explains every field of a filter block file, or the filters of another
//! engine's file.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};

use crate::block_file::{self, FilterFile};
use crate::foreign::{self, FileArguments};
use crate::new_file::NewFile;
use crate::prelude::*;
use crate::what_if::{Present, WhatIf};
use crate::{html, index};
use filterblock::{AlignedBytes, Error, ParsedBlock};
use filterblock_parquet::index::IndexReader;
use filterblock_report::{FieldReport, FileReport, block_report, fields};

const EXAMPLES: &str = "\
Examples:
  filterblock inspect names.filter
  filterblock inspect --json names.filter | jq .estimated_keys
  filterblock inspect 000012.sst
  filterblock inspect --what-if 000012.sst
  filterblock inspect --what-if --html report.html 000012.sst
  filterblock inspect rows.parquet --column user.id

Filter block:
  The command checks the block first; damage is an error that names the field (see `filterblock verify`).
  If only the range filter beside the filter of keys cannot be used, the command first prints the report, and then the error.
  The fields are those of the trailer, the last bytes of the block. Integers are little-endian. Offsets count from the start \
of the file. docs/FORMAT.md is the specification. The command does not need the secret.

Other file of filterblock (SST file, index, FileFilter):
  The command prints the properties of the file and, if it has one filter, the parameters of the filter.

File of another engine (LevelDB or RocksDB table, Parquet file, or a bare filter with --format):
  For each filter, the command prints its offset, kind, probes, seed, fill ratio, estimated keys and expected FPR.

--what-if compares the sizes of filters:
  The filters that the file's own engine can write come first: RocksDB and LevelDB filters with other bits per key,
  Parquet filters with other FPRs.
  For each kind of filterblock that can reach the FPR of the file, the command builds a block for the same number of keys.
  Range filters are left out. If the file has no filter, the FPR is 1 %.
  A block for more than 262,144 keys is not built: its size is scaled up from a block of 262,144 keys.
  All filters of a table become one block; each filter of a Parquet file becomes its own block.

--html writes one page with plots and sortable tables. The page loads nothing from elsewhere.

Exit status: 0 printed; 2 an error.";

/// Explain every field of a filter block file, or the filters of another engine's file
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The filter block file, another file of filterblock (an SST file, an index, a FileFilter), or a
    /// file of another engine; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Also compare the filter with other kinds of filter for the same number of keys and the same
    /// FPR
    #[arg(long)]
    what_if: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Also write the report as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the file of --html if it exists
    #[arg(long, requires = "html")]
    force: bool,
    #[command(flatten)]
    foreign: FileArguments,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let page = arguments.html.as_deref().map(|path| NewFile::create(path, arguments.force)).transpose()?;
    if let Some(page) = &page {
        page.refuse_inputs([arguments.file.as_path()])?;
    }
    if block_file::is_index(&arguments.file, &arguments.foreign)? {
        let index = index::open(&arguments.file)?;
        return inspect_file(arguments, describe_index(&arguments.file, &index).into(), page);
    }
    match block_file::open(&arguments.file, &arguments.foreign)? {
        FilterFile::Native(block) => inspect_block(arguments, &block, page),
        FilterFile::Foreign(file) => {
            let report = foreign::inspect::report(&arguments.file, &file, &arguments.foreign)?;
            inspect_file(arguments, report, page)
        }
    }
}

/// Writes the page of --html, and prints the report as JSON or as the text of `describe`.
fn publish(
    arguments: &Arguments,
    report: &impl Serialize,
    page: Option<NewFile>,
    describe: impl FnOnce() -> String,
) -> Outcome {
    if let Some(page) = page {
        let title = format!("filterblock inspect {}", arguments.file.display());
        page.publish(html::page(&title, report, html::plots::inspect)?.as_bytes())?;
    }
    output::report(arguments.json, report, describe)?;
    Ok(Exit::Success)
}

fn describe_index(path: &Path, index: &IndexReader<File>) -> FileReport {
    let settings = index.settings();
    let mut found = FileReport::new(path.display().to_string(), "filterblock-index", index.len_bytes());
    found.properties = vec![
        ("files", json!(index.files().len())),
        ("column", json!(settings.column)),
        ("key_type", json!(settings.key_type.to_string())),
        ("logical_type", json!(settings.logical_type)),
        ("false_positive_rate", json!(settings.fpr)),
        ("rows", json!(index.rows())),
        ("cells", json!(index.cells())),
        ("generation", json!(index.generation())),
    ];
    found.keys = Some(index.files().iter().map(|file| file.num_keys).sum());
    found
}

fn inspect_file(arguments: &Arguments, mut report: foreign::inspect::Report, page: Option<NewFile>) -> Outcome {
    // A note may say how the number of keys becomes known, so the notes precede the comparison.
    report.tell_notes();
    if arguments.what_if {
        report.what_if = compare(arguments, report.present())?;
    }
    publish(arguments, &report, page, || report.describe())
}

/// Makes the comparison of `--what-if`. Prints a message and returns `None` if there are no keys,
/// or if the expected FPR is 0 or 1. `present` is `None` if the number of keys is unknown, which is
/// an error.
fn compare(arguments: &Arguments, present: Option<Present>) -> Outcome<Option<WhatIf>> {
    let Some(present) = present else {
        let why = "--what-if needs the number of keys, which is unknown for this file; use \
                   \"filterblock plan --keys N --fpr RATE\"";
        return refuse(&arguments.file, why);
    };
    let found = WhatIf::new(&present)?;
    if found.is_none() {
        note(&arguments.file, "no comparison: there are no keys, or the expected FPR is 0 % or 100 %");
    }
    Ok(found)
}

fn inspect_block(arguments: &Arguments, block: &ParsedBlock<AlignedBytes>, page: Option<NewFile>) -> Outcome {
    let info = block.metadata();
    let present = Present {
        kind: info.kind.to_string(),
        engine: None,
        keys: info.num_keys,
        blocks: 1,
        filters: Vec::new(),
        len_bytes: info.block_len_bytes,
        expected_fpr: Some(block.expected_fpr()),
    };
    let what_if = if arguments.what_if { compare(arguments, Some(present))? } else { None };
    // The range filter beside a sound filter may be damaged, or of an unknown kind.
    let damage = block.ranges_error().map(|error| block_file::unusable_ranges(&arguments.file, error));
    let fields = fields(block, &info).map_err(|error: Error| error.in_file(&arguments.file))?;
    let mut report = block_report(&arguments.file.display().to_string(), block, &fields);
    if let Value::Object(report) = &mut report {
        report.extend(damage.iter().map(|damage| ("damage".to_owned(), json!(damage))));
        report.extend(what_if.iter().map(|what_if| ("what_if".to_owned(), json!(what_if))));
    }
    let printed = publish(arguments, &report, page, || {
        let what_if = what_if.map_or_else(String::new, |what_if| format!("\n{what_if}"));
        describe(&arguments.file, block, &fields, damage.is_some()) + &what_if
    })?;
    damage.map_or(Ok(printed), fail)
}

fn describe(path: &Path, block: &ParsedBlock<AlignedBytes>, fields: &[FieldReport], is_damaged: bool) -> String {
    let (info, found, fpr) = (block.metadata(), block.statistics(), block.expected_fpr());
    let row = |field: &FieldReport| {
        let (offset, len) = (field.offset.to_string(), field.len_bytes.to_string());
        [offset, len, field.name.clone(), field.bytes.clone(), field.meaning.clone()]
    };
    let table = output::table(["offset", "bytes", "field", "value", "meaning"], fields.iter().map(row), ..2, &[]);
    let probes = match info.probes {
        0 => String::new(),
        probes => format!(", {} tested per query", count(probes.into(), "bit")),
    };
    let estimated = match found.estimated_keys {
        Some(keys) if keys.is_finite() => format!("; {} estimated from the fill ratio", significant(keys)),
        _ => String::new(),
    };
    // After a merge, a key that several blocks had counts several times.
    let is_overstated = text::is_overstated(info.num_keys, found.estimated_keys);
    let at_most = if is_overstated { "at most " } else { "" };
    let estimated_fpr = match found.estimated_fpr {
        Some(rate) if is_overstated => format!("; {} by the fill ratio", percent(rate)),
        _ => String::new(),
    };
    format!(
        "{file}: {state}, {bytes}\n\n{table}\n\n\
         filter           {kind}{probes}\n\
         keys             {at_most}{keys}{estimated}\n\
         bits per key     {bits} (whole block)\n\
         fill ratio       {fill}\n\
         expected FPR     {at_most}{rate}{estimated_fpr}\n",
        file = path.display(),
        state = if is_damaged { "sound, but the range filter cannot be used" } else { "sound" },
        bytes = count(info.block_len_bytes, "byte"),
        kind = info.kind,
        keys = thousands(info.num_keys),
        bits = significant(info.bits_per_key()),
        fill = percent(found.fill_ratio),
        rate = percent(fpr),
    )
}
