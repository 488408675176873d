//! `filterblock index build`, `index add` and `index remove`: build an index of many files, and write
//! its next version.
//!
//! All write a whole new file and rename it. An update in place, with room for more files in each row,
//! was rejected because it is not atomic.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::input::{Builder, FileList, Input, spill};
use super::{failure, open};
use crate::new_file::NewFile;
use crate::prelude::*;
use crate::refused_value::{RATE_EXPECTED, rate};
use charts::text::quoted;
use filterblock_parquet::index::{Built, IndexReader, KeyType, Settings};

const EXAMPLES: &str = "\
Examples:
  filterblock index build -o ids.index --column user.id data/*.parquet
  filterblock index build -o ids.index --column user.id --fpr 0.0001 lake/ 'old/*/*.parquet'
  filterblock index build -o ids.index --column user.id --from-filters data/*.parquet
  filterblock index build -o ssts.index store/*.sst
  filterblock index build -o lists.index --key-file monday.txt --key-file tuesday.txt

Files:
  A folder stands for the files *.parquet, *.parq and *.pq in it at any depth with --column, and for the files *.sst and \
*.ldb without. Names that begin with a dot or an underscore are skipped.

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

const ADD_EXAMPLES: &str = "\
Examples:
  filterblock index add ids.index data/new.parquet
  filterblock index add lists.index --key-file wednesday.txt

If you give a file that the index already has, the command reads its keys again. If the working directory is not that \
of the build, give --base, so that relative paths lead to the same files. The column, the key type and the FPR \
are those of the index. The new index replaces the old one in one step, so a query sees the old or the new one.

Exit status: 0 written; 2 an error. After an error the index is unchanged, unless the message says otherwise or is \
about standard output.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  filterblock index remove ids.index data/old.parquet

PATH is the path as the index has it. The files themselves are not touched. A query no longer names the removed files.

Exit status: 0 written; 2 an error. After an error the index is unchanged, unless the message says otherwise or is \
about standard output.";

/// The minimum number of files for a message about an index of one row.
const MANY_FILES: u64 = 16;

/// Build an index of many files
#[derive(clap::Args)]
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
    #[arg(long, value_name = "RATE", default_value = "0.01", value_parser = rate)]
    fpr: f64,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Print the summary as JSON on stdout
    #[arg(long)]
    json: bool,
}

/// Add files to an index, or replace files that have changed
#[derive(clap::Args)]
#[command(after_long_help = ADD_EXAMPLES)]
pub struct AddArguments {
    /// The index
    #[arg(value_name = "INDEX")]
    index: PathBuf,
    #[command(flatten)]
    files: FileList,
    /// Print the summary as JSON on stdout
    #[arg(long)]
    json: bool,
}

/// Remove files from an index
#[derive(clap::Args)]
#[command(after_long_help = REMOVE_EXAMPLES)]
pub struct RemoveArguments {
    /// The index
    #[arg(value_name = "INDEX")]
    index: PathBuf,
    /// The paths to remove, as the index has them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Print the summary as JSON on stdout
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Outcome {
    if !(arguments.fpr > 0.0 && arguments.fpr < 1.0) {
        return fail(format!("--fpr {}: {RATE_EXPECTED}", arguments.fpr));
    }
    if arguments.json {
        output::check_stdout()?;
    }
    let file = NewFile::create(&arguments.output, arguments.force)?;
    let files = arguments.files.expanded(arguments.column.is_some())?;
    file.refuse_inputs(files.places().iter().map(PathBuf::as_path))?;
    let mut collected: Option<(Builder, Settings)> = None;
    files.for_each(arguments.column.as_deref(), |input| {
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
        return fail("no file is given; give files, or key lists with --key-file");
    };
    if settings.key_type == KeyType::Bytes && arguments.column.is_some() {
        return fail("--column is for Parquet files, and none is given; omit --column");
    }
    let built = builder.build().map_err(|error| failure(&arguments.output, error))?;
    file.publish(&built.bytes)?;
    report(&arguments.output, built.added.len(), &built, arguments.json)
}

/// Adds a file to the index that will be written to `index`. Returns an error if the keys of the
/// file have another type than `settings` says, or if the file cannot be added.
fn add(builder: &mut Builder, settings: &Settings, input: Input<'_>, index: &Path) -> Outcome<()> {
    if let Some(why) = settings.refuses(input.key_type(), input.logical_type()) {
        return refuse(input.path(), why);
    }
    input.add_to(builder, index)
}

/// Prints the summary of the written index, which has `files` files. Also prints messages about
/// files without keys and about an index of one row.
fn report(index: &Path, files: usize, built: &Built, json: bool) -> Outcome {
    let (added, files) = (&built.added, files as u64);
    let keys = added.iter().map(|file| file.num_keys).sum();
    let highest_fpr = added.iter().map(|file| file.fpr).fold(0.0, f64::max);
    let empty = added.iter().filter(|file| file.num_keys == 0).count();
    if empty > 0 {
        note(index, format!("{} without keys; check the input", count(empty as u64, "added file")));
    }
    if built.rows == 1 && files >= MANY_FILES {
        note(
            index,
            "the index has one row, so each query reads all of it; build an index of larger files, or with a lower --fpr",
        );
    }
    if json {
        output::print_json(&json!({
            "index": index.display().to_string(),
            "files": files,
            "files_added": added.len(),
            "keys_added": keys,
            "rows": built.rows,
            "cells": built.cells,
            "index_len_bytes": built.bytes.len(),
            "highest_fpr": highest_fpr,
            // The expected number of added files that answer "maybe" for an absent key.
            "expected_candidates": added.iter().map(|file| file.fpr).fold(0.0, |sum, fpr| sum + fpr),
        }))?;
    } else {
        let fpr = match added.len() {
            0 => String::new(),
            _ => format!(", expected FPR of an added file at most {}", percent(highest_fpr)),
        };
        let (files, added) = (count(files, "file"), thousands(added.len()));
        let (keys, bytes) = (count(keys, "key"), count(built.bytes.len() as u64, "byte"));
        let (rows, cells) = (count(built.rows.into(), "row"), count(built.cells.into(), "cell"));
        note(index, format!("{files}, {added} added with {keys}; {bytes}, {rows} of {cells}{fpr}"));
    }
    Ok(Exit::Success)
}

/// Runs `filterblock index add`.
pub fn add_files(arguments: &AddArguments) -> Outcome {
    let path = &arguments.index;
    let update = Update::begin(path, arguments.json)?;
    let settings = update.old.settings();
    let column = (!settings.column.is_empty()).then_some(settings.column.as_str());
    let files = arguments.files.expanded(column.is_some())?;
    let places = files.places();
    let checked = update.target.refuse_inputs(places.iter().map(PathBuf::as_path));
    checked.map_err(|_| Failure::about(path, "the index itself is also an input; give other files"))?;
    refuse_other_files(path, &update.old, &files)?;
    let mut builder = update.builder()?;
    files.for_each(column, |input| add(&mut builder, settings, input, path))?;
    let replaced: HashSet<&Path> = files.paths().collect();
    update.finish(builder, |path| replaced.contains(path))
}

/// Returns an error for a new file that would replace the record of another file with the same
/// relative path. The function looks for the recorded file in the directory of the index, and
/// recognizes this file by its stamp. With --base, the function checks nothing.
fn refuse_other_files(index: &Path, old: &IndexReader<File>, files: &FileList) -> Outcome<()> {
    let (Some(dir), false) = (index.parent(), files.base.is_some()) else { return Ok(()) };
    let given: HashSet<&Path> = files.paths().filter(|path| path.is_relative()).collect();
    for file in old.files() {
        let identity = &file.identity;
        let (here, beside) = (&identity.path, dir.join(&identity.path));
        if !given.contains(here.as_path()) || identity.stamp.difference(&beside, true).is_some() {
            continue;
        }
        let is_other = match (here.canonicalize(), beside.canonicalize()) {
            (Ok(here), Ok(beside)) => here != beside,
            _ => true,
        };
        if is_other {
            return refuse(
                here,
                format!(
                    "the index has this path for another file, {}; to add that file again, give --base {}; to add the new file, give its full path",
                    beside.display(),
                    dir.display()
                ),
            );
        }
    }
    Ok(())
}

/// Runs `filterblock index remove`.
pub fn remove_files(arguments: &RemoveArguments) -> Outcome {
    let path = &arguments.index;
    let update = Update::begin(path, arguments.json)?;
    let known: HashSet<&Path> = update.old.files().iter().map(|file| file.identity.path.as_path()).collect();
    let unknown = arguments.paths.iter().find(|path| !known.contains(path.as_path()));
    if let Some(unknown) = unknown {
        return refuse(
            unknown,
            format!(
                "not in the index; give a path as \"filterblock index verify --json {}\" prints it",
                quoted(&path.display().to_string())
            ),
        );
    }
    let removed: HashSet<&Path> = arguments.paths.iter().map(PathBuf::as_path).collect();
    let builder = update.builder()?;
    update.finish(builder, |path| removed.contains(path))
}
struct Update<'a> {
    path: &'a Path,
    old: IndexReader<File>,
    target: NewFile,
    json: bool,
}

impl<'a> Update<'a> {
    fn begin(path: &'a Path, json: bool) -> Outcome<Self> {
        if json {
            output::check_stdout()?;
        }
        // The old index is read under the lock of its next version.
        let target = NewFile::create(path, true)?;
        Ok(Self { path, old: open(path)?, target, json })
    }

    fn builder(&self) -> Outcome<Builder> {
        let builder = Builder::new(self.old.settings().clone(), spill(self.path)?);
        builder.map_err(|error| failure(self.path, error))
    }

    /// Writes the next version of the index: the files of the old version whose paths `is_removed`
    /// does not select, and the files of `builder`. Prints a summary.
    fn finish(self, builder: Builder, is_removed: impl Fn(&Path) -> bool) -> Outcome {
        let Self { path, old, target, json } = self;
        let is_old = |number: usize| old.files().get(number).is_some_and(|file| is_removed(&file.identity.path));
        let built = builder.build_onto(&old, is_old).map_err(|error| failure(path, error))?;
        let kept = (0..old.files().len()).filter(|&number| !is_old(number)).count();
        target.publish(&built.bytes)?;
        report(path, kept + built.added.len(), &built, json)
    }
}
