//! Opens an index, and compares its files with their recorded state.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::super::failure::{Failure, Outcome};
use super::super::output::message;
use super::super::{held, text};
use super::failure;
use filterblock_parquet::Result;
use filterblock_parquet::index::{Difference, IndexReader};

/// The maximum number of changed files that one check names. All others are only counted.
const NAMED_MAX: usize = 10;

/// The method that checks the files of an index for changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
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
#[derive(Debug, Clone, Default, clap::Args)]
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
    let file = File::open(held::place(path)?).map_err(|error| Failure::file(path, error))?;
    Ok(IndexReader::open(file))
}

/// Prints messages about changed files on stderr: the names of the first [`NAMED_MAX`] files, and
/// the number of all.
pub fn report_differences(index: &Path, reader: &IndexReader<File>, differences: &[(usize, Difference)]) {
    for (number, difference) in differences.iter().take(NAMED_MAX) {
        let Some(file) = reader.files().get(*number) else { continue };
        message(format_args!("{}: {difference}", file.identity.path.display()));
    }
    if !differences.is_empty() {
        message(format_args!(
            "{}: {} changed, missing or unreadable; any key may be in such a file; check --base, add changed files again (\"filterblock index add\"), and remove deleted ones (\"filterblock index remove\")",
            index.display(),
            text::count(differences.len() as u64, "file"),
        ));
    }
}
