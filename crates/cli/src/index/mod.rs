//! `filterblock index`: builds, queries and updates an index of many files. The index is one file
//! that answers which of these files may hold a key.

mod build;
mod input;
pub mod query;
pub mod verify;

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::block_file;
use crate::format::{Ends, Kind};
use crate::prelude::*;
use filterblock_parquet::index::{Difference, IndexReader};
use filterblock_parquet::{Error, Result};

const EXAMPLES: &str = "\
Examples:
  filterblock index build -o ids.index --column user.id data/*.parquet
  filterblock index query ids.index 42 1043
  filterblock index add ids.index data/new.parquet
  filterblock index remove ids.index data/old.parquet
  filterblock index verify ids.index

The index has filters for each file, and stores them so that one read answers a key for all files. `absent` is certain, \
`maybe` is not.
docs/INDEX_FORMAT.md specifies the format of the index.

Changed files:
  The index records size, modification time and a checksum of the end of each file: the last 4 KiB, or the \
whole metadata of a Parquet file. If a file differs, is \
missing or cannot be read, it is a candidate for every key, except with --check no: add it again, or remove it from \
the index. `query` and `verify` name the first 10 such files on stderr, and count all.

Paths:
  The index stores the paths as given. Relative paths are looked up in the working directory, or in --base.";

/// Build and query an index of many files: which files may hold a key?
#[derive(clap::Subcommand)]
#[command(after_long_help = EXAMPLES)]
pub enum Command {
    Build(build::Arguments),
    Query(query::Arguments),
    Add(build::AddArguments),
    Remove(build::RemoveArguments),
    Verify(verify::Arguments),
}

pub fn run(command: &Command) -> Outcome {
    filterblock_parquet::values::quiet_guarded_panics();
    match command {
        Command::Build(arguments) => build::run(arguments),
        Command::Query(arguments) => query::run(arguments),
        Command::Add(arguments) => build::add_files(arguments),
        Command::Remove(arguments) => build::remove_files(arguments),
        Command::Verify(arguments) => verify::run(arguments),
    }
}

fn failure(path: &Path, error: Error) -> Failure {
    match error {
        Error::Io(error) => Failure::file(path, error),
        Error::Invalid { what: "path", reason, .. } => Failure::Message(reason),
        Error::Invalid { what: "column", reason, .. } => Failure::about(path, reason),
        // The library's message cannot name an option of the command.
        Error::Invalid { what: "filters", reason, .. } => {
            Failure::about(path, format!("{reason}, without --from-filters"))
        }
        other => Failure::about(path, other),
    }
}

/// The maximum number of changed files that one check names. All others are only counted.
const NAMED_MAX: usize = 10;

/// The method that checks the files of an index for changes.
#[derive(Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Check {
    /// Size, modification time and a checksum of the file's tail
    #[default]
    Tail,
    /// Size and modification time
    Stat,
    /// No check; the keys of changed files may then be denied
    No,
}

/// The options for the files of an index.
#[derive(Clone, Default, clap::Args)]
pub struct CheckArguments {
    /// How to notice changed files: `tail` (size, time, checksum of the last 4 KiB or of a Parquet
    /// file's metadata), `stat` (size and time) or `no`
    #[arg(long, value_enum, value_name = "HOW", default_value = "tail", hide_possible_values = true)]
    pub check: Check,
    /// The directory in which relative paths of the index are looked up [default: the working
    /// directory]
    #[arg(long, value_name = "DIR")]
    pub base: Option<PathBuf>,
}

impl CheckArguments {
    /// Returns the path at which a file of the index is opened. If --base is given, a relative
    /// `path` is looked up in that directory.
    pub fn place(&self, path: &Path) -> PathBuf {
        match &self.base {
            Some(base) => base.join(path),
            None => path.to_path_buf(),
        }
    }

    /// Returns the position in the index of each changed, missing or unreadable file, and how the
    /// file differs. With `--check no`, returns nothing.
    pub fn differences(&self, index: &IndexReader<File>) -> Vec<(usize, Difference)> {
        if self.check == Check::No {
            return Vec::new();
        }
        let is_deep = self.check == Check::Tail;
        let files = index.files().iter().enumerate();
        files
            .filter_map(|(number, file)| {
                let identity = &file.identity;
                let found = identity.stamp.difference(&self.place(&identity.path), is_deep)?;
                Some((number, found))
            })
            .collect()
    }
}

/// Opens an index file. The index is read in parts and not mapped, because another process could
/// truncate a mapped file and so kill the command.
pub fn open(path: &Path) -> Outcome<IndexReader<File>> {
    try_open(path)?.map_err(|error| failure(path, error))
}

/// Opens an index file. The inner error comes from reading the index. The outer error means that
/// the path names no readable regular file.
pub fn try_open(path: &Path) -> Outcome<Result<IndexReader<File>>> {
    let place = block_file::place(path)?;
    let ends = Ends::of(&place).map_err(|error| Failure::file(path, error))?;
    if ends.len_bytes() > 0 && ends.is_text() {
        let why = "a text file, not an index; to index lists of keys, use \"filterblock index build --key-file\"";
        return refuse(path, why);
    }
    if let Some(format) = ends.format().filter(|format| format.kind != Kind::Index) {
        return refuse(path, format!("this is {}, not an index; {}", format.name, format.advice));
    }
    let file = File::open(place).map_err(|error| Failure::file(path, error))?;
    Ok(IndexReader::open(file))
}

/// Prints messages about changed files on stderr: the names of the first [`NAMED_MAX`] files, and
/// the number of all.
pub fn report_differences(index: &Path, reader: &IndexReader<File>, differences: &[(usize, Difference)]) {
    for (number, difference) in differences.iter().take(NAMED_MAX) {
        let Some(file) = reader.files().get(*number) else { continue };
        note(&file.identity.path, difference);
    }
    if !differences.is_empty() {
        note(
            index,
            format!(
                "{} changed, missing or unreadable; any key may be in such a file; check --base, add changed files again (\"filterblock index add\"), and remove deleted ones (\"filterblock index remove\")",
                text::count(differences.len() as u64, "file")
            ),
        );
    }
}
