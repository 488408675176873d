//! `filterblock parquet add`: adds filters to Parquet files without rewriting their data.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;

use super::files::{self, Input, Inputs};
use super::one_file::{Source, Work};
use super::report::{FileReport, Report};
use super::{DEFAULT_FPR, check};
use crate::new_file::NewFile;
use crate::prelude::*;
use crate::refused_value::{BITS_EXPECTED, number, rate};
use filterblock_parquet::Loss;
use filterblock_parquet::filters::{Budget, Sizing};
use filterblock_parquet::folder::EXTENSIONS;

const EXAMPLES: &str = "\
Examples:
  filterblock parquet add events.parquet --column user.id -o with-filters.parquet
  filterblock parquet add events.parquet --column id --dry-run
  filterblock parquet add lake/ --advised -o lake-with-filters/
  filterblock parquet add lake/ --column id,session --fpr 0.001 -o lake-with-filters/
  filterblock parquet add 'lake/*/*.parquet' --column id --in-place
  filterblock parquet add old.parquet --fix-lengths -o fixed.parquet

The new file:
  It begins with the bytes of the old file, unchanged. The filters and a new footer follow.
  The new filters of a column lie side by side, so that a reader fetches them with one read.
  The command reads every filter back and looks up the hash of every value of its row group. The hashes stay in \
memory from the first read. If a row group has more than about 9 Mi distinct values, the command may read the values \
from the file again. If a filter denies a hash, there is no new file.
  --replace leaves the old filters in the file as dead bytes, so the file grows with each run.
  If a command is interrupted or the disk is full, the old file is whole and there is no new file.

Columns:
  The name of a leaf column is its path: the names joined by dots, such as user.id or tags.list.element. Commas \
separate several names. If a name has a comma, give it alone.
  Boolean columns get no filters. With filters on the types FLOAT16, INTERVAL and DECIMAL with a precision over 38, \
DuckDB loses rows, so the command refuses them. Their names for --force-type are float16, interval and decimal256.
  Nulls are in no filter. A row group without rows gets no filter.
  If an existing filter of a column cannot be used, the command names it and writes nothing: replace it with --replace.
  If a column has +0.0 or -0.0, its filter has both. If it has a NaN, its filter has this NaN and the two default NaNs.

Size of a filter:
  It follows from the number of distinct values of the row group. The number of 32-byte blocks is rounded up to a \
power of two.
  --exact-size does not round. Arrow C++ and Velox refuse such filters, and older versions of ClickHouse fail the \
query. DuckDB, DataFusion and ClickHouse 26.9 read them.
  A filter has at most 128 MiB.

Outputs:
  The command refuses an output that is an input of the same run, and an output folder in an input folder.
  Add filters before you index the files. An older index notices that the files have changed.

What --fix-lengths leaves out:
  The length of a filter that cannot be used is unknown, so the new footer lacks this length too. A message names each \
such filter, and filterblock parquet check says how to replace the filter.

What --in-place keeps:
  The new file keeps the mode, the owner and, on Linux, the access list (ACL) of the old file. A file with several names (hard \
links) is refused. A symbolic link is followed and stays.
  Queries that have the old file open continue to read the old file.
  The new file loses all other extended attributes. It has a new inode and new times.
  A file with a read-only mode is replaced too and stays read-only: a rename only needs write permission for the \
folder.

Other writers and checksums:
  A file that another command or program replaces meanwhile stays, and the command exits with status 2. After a crash, \
NAME.displaced-* may be the newest version.
  The checksum file .NAME.crc of Hadoop and Spark is checked and written again.
  docs/PARQUET.md has the details, and says where another program's file may be lost (no Linux, NFS, FUSE).

When not to use --in-place:
  Iceberg and Delta tables record the length of each file in their metadata. Trino refuses a file of another length. \
Write a new file and register it.
  A _metadata file only repeats the footers of other files. If you add filters to these files, write the \
_metadata file again.

When a filter does not help:
  For sorted columns (readers already skip row groups by min and max), columns of few distinct values, ranges and LIKE, \
and engines that ignore filters. docs/PARQUET.md has a table of engines.

A folder stands for the files *.parquet, *.parq and *.pq in it at any depth. Names that begin with a dot or an \
underscore are skipped.

Exit status: 0 done; 2 an error. With several files, the command continues after an error in one of them.";

/// Add filters to Parquet files without rewriting their data
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("target").required(true).args(["output", "in_place", "dry_run"])))]
pub struct Arguments {
    /// Parquet files, folders of them, or quoted patterns such as 'lake/*.parquet'
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The columns that get filters, such as id,session; may be repeated
    #[arg(long = "column", value_name = "NAMES", required_unless_present_any = ["fix_lengths", "advised"])]
    columns: Vec<String>,
    /// Add filters to the columns that `filterblock parquet check` advises for each file
    #[arg(long, conflicts_with = "columns")]
    advised: bool,
    /// The false-positive rate of the filters, above 0 and below 1 [default: 0.01]
    #[arg(long, value_name = "P", value_parser = rate, conflicts_with = "bits_per_key")]
    fpr: Option<f64>,
    /// The bits of a filter for each distinct value, 1 to 100
    #[arg(long, value_name = "B", value_parser = number(BITS_EXPECTED))]
    bits_per_key: Option<f64>,
    /// Do not round the number of blocks up to a power of two; Arrow C++, Velox and older versions
    /// of ClickHouse refuse such filters
    #[arg(long)]
    exact_size: bool,
    /// Add filters also to columns of this type, although an engine then loses rows: float16,
    /// decimal256, interval, or the name of a column; the file gets a mark that check shows
    #[arg(long = "force-type", value_name = "NAMES", value_delimiter = ',')]
    force_types: Vec<String>,
    /// Replace existing filters of the columns; the old ones stay in the file as dead bytes
    /// [default: keep them]
    #[arg(long)]
    replace: bool,
    /// Only add the missing lengths of existing filters in all columns; readers then read fewer
    /// bytes
    #[arg(long, conflicts_with_all = ["columns", "advised", "fpr", "bits_per_key", "exact_size", "force_types", "replace"])]
    fix_lengths: bool,
    /// The output file, written atomically; with several files, a folder or a pattern, the output
    /// folder
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace output files that exist
    #[arg(long, requires = "output")]
    force: bool,
    /// Replace each file by its new version; not for files of Iceberg or Delta tables
    #[arg(long)]
    in_place: bool,
    /// Print how many bytes and seconds the command would need, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let work = arguments.work()?;
    output::check_stdout()?;
    let inputs = files::find(&arguments.files, EXTENSIONS)?;
    let targets = arguments.targets(&inputs)?;
    let mut report = Report { dry_run: arguments.dry_run, ..Report::default() };
    let bar = progress::bytes("adding filters", arguments.json);
    let mut tips = BTreeSet::new();
    for (input, target) in inputs.files.iter().zip(&targets) {
        let done = arguments.one(&work, input, target.as_deref(), &bar, &mut tips);
        match done {
            Ok(done) => {
                bar.suspend(|| arguments.tell(&done, &mut tips))?;
                report.files.push(done);
            }
            Err(failure) if inputs.files.len() == 1 || matches!(failure, Failure::Interrupted) => return Err(failure),
            Err(failure) => {
                bar.suspend(|| message(&failure));
                report.failed += 1;
            }
        }
    }
    bar.finish_and_clear();
    if arguments.json {
        output::print_json(&report)?;
    }
    match report.failed {
        0 => Ok(Exit::Success),
        failed => {
            let all = count(inputs.files.len() as u64, "file");
            fail(format!("{failed} of {all} failed; the messages above say why"))
        }
    }
}

impl Arguments {
    fn work(&self) -> Outcome<Work<'_>> {
        if self.fix_lengths {
            return Ok(Work::FixLengths);
        }
        let budget = match (self.fpr, self.bits_per_key) {
            (_, Some(bits)) => Budget::BitsPerValue(bits),
            (fpr, None) => Budget::Fpr(fpr.unwrap_or(DEFAULT_FPR)),
        };
        let sizing = Sizing::new(budget, self.exact_size)?;
        let is_known = |name: &&String| {
            self.columns.iter().any(|columns| columns == *name || columns.split(',').any(|column| column == *name))
                || Loss::ALL.iter().any(|loss| name.eq_ignore_ascii_case(loss.name))
        };
        if let Some(name) = self.force_types.iter().find(|name| !is_known(name)) {
            let names = Loss::ALL.map(|loss| loss.name).join(", ");
            return fail(format!(
                "--force-type {}: there is no such type; give one of {names}, or the name of a --column",
                printable(name)
            ));
        }
        Ok(Work::Add { columns: &self.columns, sizing, replace: self.replace, force_types: &self.force_types })
    }

    /// Returns the output path of each input. In a dry run, each path is `None`.
    fn targets(&self, inputs: &Inputs) -> Outcome<Vec<Option<PathBuf>>> {
        let targets = match &self.output {
            _ if self.dry_run => return Ok(vec![None; inputs.files.len()]),
            None => files::in_place(inputs)?,
            Some(output) => files::below(output, inputs)?,
        };
        Ok(targets.into_iter().map(Some).collect())
    }

    /// Adds the filters or lengths of one file, or estimates the work for a dry run. If the output
    /// cannot be written, removes the empty folders that it made for the output.
    fn one(
        &self,
        work: &Work<'_>,
        input: &Input,
        target: Option<&Path>,
        bar: &ProgressBar,
        tips: &mut BTreeSet<String>,
    ) -> Outcome<FileReport> {
        let source = Source::open(&input.path)?;
        let advised =
            if self.advised { check::advised(&input.path, self.fpr.unwrap_or(DEFAULT_FPR))? } else { Vec::new() };
        let work = &match *work {
            Work::Add { sizing, replace, force_types, .. } if self.advised => {
                Work::Add { columns: &advised, sizing, replace, force_types }
            }
            ref work => work.clone(),
        };
        let request = source.request(work)?;
        let requested_fpr = match work {
            Work::Add { .. } if self.bits_per_key.is_none() => Some(self.fpr.unwrap_or(DEFAULT_FPR)),
            _ => None,
        };
        let chunks = request.iter().flat_map(|request| request.chunks(&source.footer));
        let len_bytes =
            chunks.filter_map(|(group, leaf)| source.footer.chunk(group, leaf)).map(|chunk| chunk.len_bytes);
        bar.set_length(len_bytes.sum());
        bar.set_position(0);
        let mut output = target;
        let unchanged = if self.in_place { source.unchanged(request.as_ref())? } else { None };
        let done = match (target, unchanged) {
            (None, _) => source.estimate(request.as_ref())?,
            (Some(_), Some(done)) => {
                output = None;
                done
            }
            (Some(target), None) => {
                let made = make_folders(target)?;
                let file = NewFile::create(target, self.force || self.in_place).and_then(|file| {
                    match self.in_place {
                        true => file.check_replaces(&source.version)?,
                        false => refuse_input(&file, &input.path)?,
                    }
                    if let Some(text) = files::table_around(target).filter(|text| tips.insert(text.clone())) {
                        bar.suspend(|| message(text));
                    }
                    Ok(file)
                });
                let written = file.and_then(|file| source.write(request.as_ref(), file, bar));
                if written.is_err() {
                    remove_folders(&made);
                }
                written?
            }
        };
        Ok(FileReport::new(&input.path, output, &source.footer, &done, requested_fpr))
    }

    /// Prints the report of a file, its damaged filters, and each tip that is not in `tips` yet.
    /// Prints nothing with --json.
    fn tell(&self, done: &FileReport, tips: &mut BTreeSet<String>) -> Outcome<()> {
        done.damage().for_each(message);
        if self.json {
            return Ok(());
        }
        output::print(&done.text(self.dry_run))?;
        for column in &done.columns {
            for tip in &column.tips {
                let text = format!("column {}: {tip}", printable(&column.column));
                if tips.insert(text.clone()) {
                    message(format_args!("{}: {text}", printable(&done.file)));
                }
            }
        }
        Ok(())
    }
}

/// Returns an error if the output is its own input, because --force would replace the old file.
fn refuse_input(file: &NewFile, input: &Path) -> Outcome<()> {
    file.refuse_inputs([input])
        .map_err(|failure| Failure::Message(format!("{failure}; to replace the file itself, use --in-place")))
}

/// Makes the missing folders of an output file. Returns these folders, outer folders first. After
/// an error, removes them again.
fn make_folders(target: &Path) -> Outcome<Vec<PathBuf>> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let missing: Vec<&Path> = target.ancestors().skip(1).take_while(is_missing).collect();
    let mut made = Vec::new();
    for folder in missing.into_iter().rev() {
        if let Err(error) = fs::create_dir(folder) {
            remove_folders(&made);
            return Err(Failure::file(folder, error));
        }
        made.push(folder.to_path_buf());
    }
    Ok(made)
}

/// Removes the folders that are empty, inner folders first.
fn remove_folders(made: &[PathBuf]) {
    made.iter().rev().for_each(|folder| drop(fs::remove_dir(folder)));
}
