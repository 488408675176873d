//! Reads the keys of files for an index: Parquet files, SST files, tables of other engines and key
//! lists. Can read the filters of Parquet files instead of their values.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::failure;
use crate::foreign::file::{table_message, unknown_form};
use crate::foreign::{FileArguments, Foreign, key_form};
use crate::format::{self, Ends};
use crate::keys::{KeyFormat, KeyReader, MAX_FILTER_KEY_LEN_BYTES};
use crate::parquet::files;
use crate::prelude::*;
use filterblock_foreign::{FileKind, KeyForm};
use filterblock_parquet::folder::EXTENSIONS;
use filterblock_parquet::index::{
    DistinctHashes, FileIdentity, IndexBuilder, KeyType, ParquetColumn, SourceKind, Stamp, hash,
};
use filterblock_parquet::values::ParquetValues;
use filterblock_parquet::{Error, ParquetFile};
use filterblock_store::sstable::{MAGIC, Table, TableReadOptions};
use filterblock_store::storage::Disk;

/// The files of an index, for `build` and `add`.
#[derive(Clone, clap::Args)]
pub struct FileList {
    /// Parquet files, SST files of filterblock, or tables of LevelDB and RocksDB; folders of them, or quoted
    /// patterns such as 'lake/*.parquet'
    #[arg(value_name = "FILE", required_unless_present = "key_files")]
    files: Vec<PathBuf>,
    /// A file with one key per line; can be repeated
    #[arg(long = "key-file", value_name = "KEYFILE")]
    key_files: Vec<PathBuf>,
    /// Take the filters that the Parquet files have, and do not read their values
    #[arg(long)]
    from_filters: bool,
    /// The form of LevelDB keys: `user` for plain keys, `internal` for keys with 8 bytes of
    /// sequence number and type [default: the form that fits the table]
    #[arg(long, value_parser = key_form(), value_name = "FORM", hide_possible_values = true)]
    key_form: Option<KeyForm>,
    /// The directory in which relative paths are looked up; the index stores the paths as given
    /// [default: the working directory]
    #[arg(long, value_name = "DIR")]
    pub base: Option<PathBuf>,
    #[command(flatten)]
    format: KeyFormat,
}

/// A builder that keeps its hashes in a temporary file.
pub type Builder = IndexBuilder<File>;

/// Makes the temporary file for the hashes, in the directory of the index. The file vanishes with
/// the process.
pub fn spill(index: &Path) -> Outcome<File> {
    let dir = index.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::tempfile_in(dir).map_err(|error| Failure::file(dir, error))
}

pub struct Input<'a> {
    /// The path as given, which the index stores.
    name: &'a Path,
    /// The path at which the file is opened.
    path: PathBuf,
    content: Content<'a>,
    /// The state of the file before its keys are read.
    stamp: Stamp,
}

enum Content<'a> {
    Keys(&'a KeyFormat),
    Sst(Arc<Table>),
    Foreign(Foreign),
    Parquet { values: ParquetValues<File>, column: ParquetColumn, name: &'a str, from_filters: bool },
}

/// The file name extensions of SST files in a folder.
const SST_EXTENSIONS: &[&str] = &["sst", "ldb"];

impl FileList {
    /// Replaces folders and patterns by their files. A folder stands for its Parquet files if the index has a
    /// column, and for its SST files otherwise.
    pub fn expanded(&self, has_column: bool) -> Outcome<Self> {
        let extensions = if has_column { EXTENSIONS } else { SST_EXTENSIONS };
        let given: Vec<PathBuf> = self.files.iter().map(|path| self.place(path)).collect();
        let found = files::find(&given, extensions)?.files.into_iter().map(|input| input.path);
        let below_base = |path: PathBuf| match self.base.as_ref().and_then(|base| path.strip_prefix(base).ok()) {
            Some(path) => path.to_path_buf(),
            None => path,
        };
        Ok(Self { files: found.map(below_base).collect(), ..self.clone() })
    }

    /// Returns the paths of all files as given.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().chain(&self.key_files).map(PathBuf::as_path)
    }

    /// Returns the paths at which all files are opened.
    pub fn places(&self) -> Vec<PathBuf> {
        self.paths().map(|path| self.place(path)).collect()
    }

    /// Returns the path at which a file is opened. If --base is given, a relative `path` is looked
    /// up in that directory.
    pub fn place(&self, path: &Path) -> PathBuf {
        self.base.as_ref().map_or_else(|| path.to_path_buf(), |base| base.join(path))
    }

    /// Opens the files one by one, and gives each to `add`. `column` is the column of Parquet
    /// files, if one is chosen. Stops at the first error.
    pub fn for_each(&self, column: Option<&str>, mut add: impl FnMut(Input<'_>) -> Outcome<()>) -> Outcome<()> {
        self.refuse_needless_options()?;
        let bar = progress::bar(Some((self.files.len() + self.key_files.len()) as u64), "indexing files");
        for path in &self.files {
            let place = self.place(path);
            let stamp = stamp(&place)?;
            add(Input { name: path, stamp, content: self.content(&place, column)?, path: place })?;
            bar.inc(1);
        }
        for path in &self.key_files {
            if path.as_os_str() == "-" {
                return fail("--key-file -: the index checks its files for changes, so keys must come from a file");
            }
            let place = self.place(path);
            add(Input { name: path, stamp: stamp(&place)?, path: place, content: Content::Keys(&self.format) })?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Returns an error for an option that fits none of the files. An unknown or unreadable file
    /// counts as fitting, because the error about this file must come first.
    fn refuse_needless_options(&self) -> Outcome<()> {
        let needed = |wanted: FileKind| {
            let fits = |path: &PathBuf| {
                let place = self.place(path);
                // To open a pipe may block.
                if !place.is_file() {
                    return true;
                }
                Ends::of(&place)
                    .map_or(true, |ends| !ends.ends(&MAGIC) && ends.foreign().is_none_or(|kind| kind == wanted))
            };
            self.files.iter().any(fits)
        };
        let refused =
            |option: &str, what: &str| fail(format!("{option} is for {what}, and none is given; omit {option}"));
        if self.from_filters && !needed(FileKind::ParquetFile) {
            return refused("--from-filters", "Parquet files");
        }
        if self.key_form.is_some() && !needed(FileKind::LevelDbTable) {
            return refused("--key-form", "LevelDB tables");
        }
        Ok(())
    }

    fn content<'a>(&self, path: &Path, column: Option<&'a str>) -> Outcome<Content<'a>> {
        let ends = Ends::of(path).map_err(|error| Failure::file(path, error))?;
        let column = column.filter(|name| !name.is_empty());
        let refused = |why: &str| refuse(path, why);
        if ends.ends(&MAGIC) {
            if column.is_some() {
                return refused("an SST file has no columns; build another index for it, without --column");
            }
            let table = Table::open(&Disk, path, TableReadOptions::default())?;
            return Ok(Content::Sst(Arc::new(table)));
        }
        if ends.ends(b"PAR1") {
            let Some(name) = column else {
                return refused("a Parquet file needs an index of one column; build such an index with --column NAME");
            };
            let file = File::open(path).map_err(|error| Failure::file(path, error))?;
            let values = ParquetValues::open(file).map_err(|error| error.in_file(path))?;
            let column = ParquetColumn::find(values.parsed(), name).map_err(|error| failure(path, error))?;
            return Ok(Content::Parquet { values, column, name, from_filters: self.from_filters });
        }
        let arguments = FileArguments { key_form: self.key_form, ..FileArguments::default() };
        let opened = Foreign::open(path, path, &arguments).map_err(|failure| match failure {
            Failure::Foreign(error) => Failure::Message(table_message(&error, self.key_form)),
            other => other,
        })?;
        let content = match opened {
            Some(Foreign::Parquet(_)) => {
                return refused("the Parquet file is encrypted; give a file without encryption");
            }
            Some(table) => Content::Foreign(table),
            None => {
                return refused(
                    "not a Parquet file and not an SST file of filterblock, LevelDB or RocksDB; if the file is \
                     truncated, restore it; if it is a list of keys, give it with --key-file",
                );
            }
        };
        if column.is_some() {
            return refused(
                "an SST file of LevelDB or RocksDB has no columns; build another index for it, without --column",
            );
        }
        Ok(content)
    }
}

impl Input<'_> {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn key_type(&self) -> KeyType {
        match &self.content {
            Content::Parquet { column, .. } => column.key_type,
            _ => KeyType::Bytes,
        }
    }

    /// Returns the logical type of the column, or an empty text if there is none.
    pub fn logical_type(&self) -> &str {
        match &self.content {
            Content::Parquet { column, .. } => &column.logical_type,
            _ => "",
        }
    }

    /// Reads the keys or the filters, and adds the file to the builder. `index` is the path of the
    /// new index. Returns an error if the file cannot be read or added, or if it changes meanwhile.
    pub fn add_to(self, builder: &mut Builder, index: &Path) -> Outcome<()> {
        let path = self.path.as_path();
        let mut hashes = DistinctHashes::new();
        let mut filters = None;
        let source = match &self.content {
            Content::Keys(format) => {
                let mut reader = KeyReader::open(path, **format, MAX_FILTER_KEY_LEN_BYTES)?;
                while let Some(next) = reader.next_key()? {
                    hashes.add(hash(next.key));
                }
                SourceKind::KeyList
            }
            Content::Sst(table) => {
                for entry in table.iter() {
                    hashes.add(hash(&entry?.0));
                }
                SourceKind::Sst
            }
            Content::Foreign(table) => add_table(path, table, &mut hashes)?,
            Content::Parquet { values, column, name, from_filters: true } => {
                let found = read_filters(path, name, values, column)?;
                if found.unusable > 0 {
                    note(
                        path,
                        format!(
                            "{} of column {name:?} cannot be used, so the file is a candidate for every key: {}",
                            count(found.unusable, "filter"),
                            found.why
                        ),
                    );
                }
                filters = Some((found.num_values, found.bits));
                SourceKind::ParquetFilters
            }
            Content::Parquet { values, column, from_filters: false, .. } => {
                column.add_values(values, &mut hashes).map_err(|error| failure(path, error))?;
                SourceKind::ParquetValues
            }
        };
        if stamp(path)? != self.stamp {
            return refuse(path, "the file changed while it was read; run the command again");
        }
        let identity = FileIdentity { path: self.name.to_path_buf(), source, stamp: self.stamp };
        let added = match filters {
            Some((num_values, filters)) => {
                let filters: Vec<&[u8]> = filters.iter().map(Vec::as_slice).collect();
                builder.add_filters(identity, num_values, &filters)
            }
            None => builder.add_hashes(identity, hashes),
        };
        added.map_err(|error| match error {
            error @ Error::Invalid { what: "filter", .. } => {
                let column = if let Content::Parquet { name, .. } = &self.content { *name } else { "" };
                Failure::about(path, format!("column {column:?}: {error}, without --from-filters"))
            }
            // The hashes are in a temporary file beside the index, so an I/O error names the index.
            Error::Io(error) => Failure::file(index, error),
            error => failure(path, error),
        })
    }
}

fn stamp(path: &Path) -> Outcome<Stamp> {
    let found = path.metadata().map_err(|error| Failure::file(path, error))?;
    if !found.is_file() {
        return refuse(path, format::not_a_file(path));
    }
    Stamp::of(path).map_err(|error| Failure::file(path, error))
}

fn add_table(path: &Path, table: &Foreign, hashes: &mut DistinctHashes) -> Outcome<SourceKind> {
    let mut add = |key: &[u8]| {
        hashes.add(hash(key));
        Ok(())
    };
    let (walked, source) = match table {
        Foreign::LevelDb(table) => (table.for_each_key(&mut add), SourceKind::LevelDb),
        Foreign::RocksDb(table) => (table.for_each_key(&mut add), SourceKind::RocksDb),
        _ => (Ok(()), SourceKind::KeyList),
    };
    walked.map_err(|error| unknown_form(&error, path).unwrap_or_else(|| error.in_file(path).into()))?;
    Ok(source)
}

/// The filters of a column, taken from a Parquet file.
struct Filters {
    /// The number of values in the row groups of `bits`, nulls included.
    num_values: u64,
    bits: Vec<Vec<u8>>,
    /// The number of filters that cannot be used, and the reason for the first.
    unusable: u64,
    why: String,
}

/// The bits of the filter that stands for an unusable filter. They deny no value.
const MAYBE: [u8; 32] = [0xff; 32];

/// Returns the bits of a column's filters. Leaves out a row group without values, unless it has a
/// filter with set bits. Returns an error for any other row group that has no filter, or whose
/// filter has no set bit. A filter that cannot be read, or that the footer contradicts, is replaced
/// by [`MAYBE`]. Also returns an error if the row groups together do not have the number of values
/// that the footer gives for the column.
fn read_filters(path: &Path, name: &str, values: &ParquetValues<File>, column: &ParquetColumn) -> Outcome<Filters> {
    let bytes = crate::foreign::file::Content::open(path).map_err(|error| error.in_file(path))?;
    let file = ParquetFile::open(bytes).map_err(|error| error.in_file(path))?;
    let mut found = Filters { num_values: 0, bits: Vec::new(), unusable: 0, why: String::new() };
    let mut values_seen = 0;
    for row_group in 0..file.num_row_groups() {
        let refused = |why: &str| {
            Failure::about(
                path,
                format!("column {name:?} of row group {row_group} {why}; omit --from-filters to read the values"),
            )
        };
        let chunk = file
            .column_chunk(row_group, name)
            .ok_or_else(|| refused("is missing, or another column has the same path"))?;
        values_seen += chunk.num_values;
        let has_no_values = || values.has_only_nulls(row_group, column.leaf);
        match file.filter(chunk) {
            Ok(Some(filter)) if filter.bits().iter().any(|&byte| byte != 0) => found.bits.push(filter.bits().to_vec()),
            Ok(_) if has_no_values() => continue,
            Ok(None) => return Err(refused("has no filter")),
            Ok(Some(_)) => {
                return Err(refused(
                    "has values, but no bit of its filter is set: the filter is damaged, or all values are nulls",
                ));
            }
            Err(error) => {
                found.bits.push(MAYBE.to_vec());
                found.unusable += 1;
                if found.unusable == 1 {
                    found.why = format!("row group {row_group}: {error}");
                }
            }
        }
        found.num_values += chunk.num_values;
    }
    if values_seen != column.num_values {
        return refuse(
            path,
            format!(
                "the column chunks at the position of column {name:?} have {} values, but the column \
             chunks with this path have {values_seen}, so the footer is damaged; restore the file, or let its writer \
             write it again",
                column.num_values
            ),
        );
    }
    Ok(found)
}
