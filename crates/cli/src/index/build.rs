//! `filterblock index build`: builds an index of many files.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::failure::{Exit, Failure, Outcome};
use super::super::new_file::NewFile;
use super::super::output::{self, message};
use super::super::refused_value::{RATE_EXPECTED, number};
use super::super::text;
use super::failure;
use super::input::{Builder, FileList, Input, spill};
use filterblock_parquet::index::{Built, KeyType, Settings, logical_name};

const EXAMPLES: &str = "\
Examples:
  filterblock index build -o ids.index --column user.id data/*.parquet
  filterblock index build -o ids.index --column user.id --fpr 0.0001 data/*.parquet
  filterblock index build -o ids.index --column user.id --from-filters data/*.parquet
  filterblock index build -o ssts.index store/*.sst
  filterblock index build -o lists.index --key-file monday.txt --key-file tuesday.txt

Size:
  At an FPR of 1 %, the index needs about 1.3 bytes per distinct key of each file; at 0.01 %, 3.3 bytes. If each of 1,000 files has an FPR of \
1 %, about 10 files are candidates for an absent key.
  With --from-filters, the index takes the filters of the Parquet files, one per row group. The FPR of a file is then about \
the sum over its row groups. A filter that is larger than --fpr requires is halved as often as possible. A filter with a \
higher FPR stays as it is, so the FPR of a file may exceed --fpr. The summary states the highest FPR of an added file.
  If a filter cannot be used, its file is a candidate for every key, and a message says so.

Keys:
  The keys of all files must have one type: the physical and logical type of the column, or bytes for the keys of \
SST files and key lists.
  The build needs memory for the finished index. It also needs about 16 bytes of memory per distinct key of the largest \
file, and a temporary file beside OUT with 8 bytes per distinct key of each file. With --from-filters, it needs memory for \
the filters instead.

Exit status: 0 written; 2 an error. After an error nothing is written, unless the message says otherwise or is about \
standard output.";

/// The minimum number of files for a message about an index of one row.
const MANY_FILES: usize = 16;

/// Build an index of many files
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The index file, written atomically
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    files: FileList,
    /// The column of Parquet files: its path in the schema, joined by dots
    #[arg(long, value_name = "NAME")]
    column: Option<String>,
    /// The wanted false-positive rate (FPR) of each file; filters taken with --from-filters may
    /// have a higher one
    #[arg(long, value_name = "RATE", default_value = "0.01", value_parser = number(RATE_EXPECTED))]
    fpr: f64,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Print the summary as JSON on stdout
    #[arg(long)]
    json: bool,
}

/// The result of a build or an update.
#[derive(Debug, Serialize)]
pub struct Report {
    index: String,
    files: u64,
    files_added: u64,
    keys_added: u64,
    rows: u32,
    cells: u32,
    index_len_bytes: u64,
    /// The highest FPR of an added file.
    highest_fpr: f64,
    /// The expected number of added files that answer "maybe" for an absent key.
    expected_candidates: f64,
}

/// Runs `filterblock index build`.
pub fn run(arguments: &Arguments) -> Outcome {
    if !(arguments.fpr > 0.0 && arguments.fpr < 1.0) {
        return Err(Failure::Message(format!("--fpr {}: {RATE_EXPECTED}", arguments.fpr)));
    }
    if arguments.json {
        output::check_stdout()?;
    }
    let file = NewFile::create(&arguments.output, arguments.force)?;
    file.refuse_inputs(arguments.files.places().iter().map(PathBuf::as_path))?;
    let mut collected: Option<(Builder, Settings)> = None;
    arguments.files.for_each(arguments.column.as_deref(), |input| {
        if collected.is_none() {
            let key_type = input.key_type();
            let logical_type = input.logical_type().to_owned();
            let column = match key_type {
                KeyType::Bytes => String::new(),
                KeyType::Parquet { .. } => arguments.column.clone().unwrap_or_default(),
            };
            let settings = Settings { column, logical_type, key_type, fpr: arguments.fpr };
            let builder = Builder::new(settings.clone(), spill(&arguments.output)?);
            collected = Some((builder.map_err(|error| failure(&arguments.output, error))?, settings));
        }
        match &mut collected {
            Some((builder, settings)) => add(builder, settings, input, &arguments.output),
            None => Ok(()),
        }
    })?;
    let Some((builder, settings)) = collected else {
        return Err(Failure::Message("no file is given; give files, or key lists with --key-file".into()));
    };
    if settings.key_type == KeyType::Bytes && arguments.column.is_some() {
        return Err(Failure::Message("--column is for Parquet files, and none is given; omit --column".into()));
    }
    let built = builder.build().map_err(|error| failure(&arguments.output, error))?;
    file.publish(&built.bytes)?;
    report(&arguments.output, built.added.len(), &built, arguments.json)
}

/// Adds a file to the index that will be written to `index`. Returns an error if the keys of the
/// file have another type than `settings` says, or if the file cannot be added.
pub fn add(builder: &mut Builder, settings: &Settings, input: Input<'_>, index: &Path) -> Outcome<()> {
    let path = input.path().display();
    let (found, key_type) = (input.key_type(), settings.key_type);
    if found != key_type {
        return Err(Failure::Message(format!(
            "{path}: the keys have the type {found}, but the keys of the index have the type {key_type}; build another index for this file"
        )));
    }
    if input.logical_type() != settings.logical_type {
        let (found, known) = (logical_name(input.logical_type()), logical_name(&settings.logical_type));
        return Err(Failure::Message(format!(
            "{path}: the column has the logical type {found}, but the column of the index has {known}; equal bytes may mean different values, so build another index for this file"
        )));
    }
    input.add_to(builder, index)
}

/// Prints the summary of the written index, which has `files` files. Also prints messages about
/// files without keys and about an index of one row.
pub fn report(index: &Path, files: usize, built: &Built, json: bool) -> Outcome {
    let report = Report {
        index: index.display().to_string(),
        files: files as u64,
        files_added: built.added.len() as u64,
        keys_added: built.added.iter().map(|file| file.num_keys).sum(),
        rows: built.rows,
        cells: built.cells,
        index_len_bytes: built.bytes.len() as u64,
        highest_fpr: built.added.iter().map(|file| file.fpr).fold(0.0, f64::max),
        expected_candidates: built.added.iter().map(|file| file.fpr).fold(0.0, |sum, fpr| sum + fpr),
    };
    let empty = built.added.iter().filter(|file| file.num_keys == 0).count();
    if empty > 0 {
        let files = text::count(empty as u64, "added file");
        message(format_args!("{}: {files} without keys; check the input", report.index));
    }
    if built.rows == 1 && files >= MANY_FILES {
        message(format_args!(
            "{}: the index has one row, so each query reads all of it; build an index of larger files, or with a lower --fpr",
            report.index
        ));
    }
    let fpr = match report.files_added {
        0 => String::new(),
        _ => format!(", expected FPR of an added file at most {}", text::percent(report.highest_fpr)),
    };
    match json {
        true => output::print_json(&report)?,
        false => message(format_args!(
            "{}: {}, {} added with {}; {}, {} of {}{fpr}",
            report.index,
            text::count(report.files, "file"),
            text::thousands(report.files_added),
            text::count(report.keys_added, "key"),
            text::count(report.index_len_bytes, "byte"),
            text::count(report.rows.into(), "row"),
            text::count(report.cells.into(), "cell"),
        )),
    }
    Ok(Exit::Success)
}
