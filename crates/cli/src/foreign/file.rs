//! Opens a file of another engine. The magic at the ends of a file determines its type. A bare
//! filter has no magic, so `--format` gives its type.

use std::fs::File;
use std::path::Path;

use clap::ValueEnum;
use clap::builder::TypedValueParser;

use super::own::Sst;
use crate::format::{Ends, Kind};
use crate::prelude::*;
use crate::refused_value::{choice, whole};
use crate::secret::{HashArguments, SecretArguments};
use charts::text::without_advice;
use filterblock::{AlignedBytes, HashIdentity, HashKind, HashSeed, KeyHasher, Mapped, Populate};
use filterblock_family::FileFilter;
use filterblock_foreign::{Error, Field, FileKind, KeyForm, leveldb, rocksdb};
use filterblock_parquet as parquet;
use filterblock_parquet::ParquetColumnChunk;
use filterblock_parquet::written::ValueType;

/// A bare filter: the bytes of one filter without the file around it.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RawFormat {
    /// One filter of LevelDB's Bloom policy: bits, and a byte with the number of probes
    LeveldbBloom,
    /// One full filter or partition of RocksDB: Bloom or Ribbon, with its five metadata bytes
    RocksdbFilter,
    /// A Parquet filter: header and bits
    ParquetSbbf,
}

pub fn key_form() -> impl TypedValueParser<Value = KeyForm> {
    let internal = "Keys with eight bytes of sequence number and type, from a table of a database";
    choice([
        ("user", "Plain keys, from a table that was written without a database", KeyForm::User),
        ("internal", internal, KeyForm::Internal),
    ])
}

/// Returns the parser of `--type`, the type of the Parquet values that the user gives as text.
pub fn value_type() -> impl TypedValueParser<Value = ValueType> {
    choice(ValueType::ALL.map(|kind| (kind.name(), kind.description(), kind)))
}

/// The options for files of other engines. They give what a file does not record, or select a part
/// of the file.
#[derive(Clone, Default, clap::Args)]
#[command(next_help_heading = "Files of other engines")]
pub struct FileArguments {
    /// FILE is a bare filter without a magic: leveldb-bloom, rocksdb-filter or parquet-sbbf (header
    /// and bits)
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub format: Option<RawFormat>,
    /// The column of a Parquet file: its path in the schema, joined by dots [default: all; `query`
    /// and `--against`: the only column with a filter]
    #[arg(long, value_name = "NAME", conflicts_with = "format")]
    pub column: Option<String>,
    /// The row group of a Parquet file, from 0 [default: all]
    #[arg(long, value_name = "N", conflicts_with = "format", value_parser = whole(0..=usize::MAX, 0))]
    pub row_group: Option<usize>,
    /// The form of LevelDB keys: `user` for plain keys, `internal` for keys with 8 bytes of
    /// sequence number and type [default: the form that fits the table]
    #[arg(long, value_parser = key_form(), value_name = "FORM", conflicts_with = "format", hide_possible_values = true)]
    pub key_form: Option<KeyForm>,
    /// The seed of the key hash for filterblock's filters in a LevelDB table; these filters do not
    /// store the seed [default: 0]
    #[arg(long, value_name = "NUMBER", conflicts_with = "format", value_parser = whole(0..=u64::MAX, 0))]
    pub seed: Option<u64>,
    /// The hash function for filterblock's filters in a LevelDB table: xxh3, or with a secret
    /// siphash-1-3 or xxh3-secret [default: siphash-1-3 with a secret, xxh3 without]
    #[arg(long, value_name = "FUNCTION", conflicts_with = "format")]
    pub hash: Option<HashKind>,
}

/// The maximum length of a file that is read into memory. By default, RocksDB's tables have 64 MiB.
const READ_LEN_BYTES_MAX: u64 = 256 << 20;

/// The bytes of a file. Files up to 256 MiB are read: another process could truncate a mapped file, and
/// access to the missing pages would kill the command. Longer files are mapped, to save memory.
pub enum Content {
    Read(AlignedBytes),
    /// A mapped file. If it is truncated, the next access may kill the command. But engines never
    /// change a finished file.
    Mapped(Mapped),
}

impl Content {
    /// Reads or maps a file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        if len <= READ_LEN_BYTES_MAX {
            return Ok(Self::Read(AlignedBytes::read(path)?));
        }
        let len = usize::try_from(len).map_err(|_| Error::Corrupt { field: Field::Length, offset: 0 })?;
        Ok(Self::Mapped(Mapped::region(&file, 0, len, Populate::No)?))
    }
}

impl AsRef<[u8]> for Content {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes.as_ref(),
            Self::Mapped(bytes) => bytes.as_ref(),
        }
    }
}

/// A file of another engine, or a file of filterblock that is no filter block.
pub enum Foreign {
    Sst(Sst),
    FileFilter(Box<FileFilter>),
    LevelDb(leveldb::LevelDbTable<Content>),
    RocksDb(rocksdb::RocksDbTable<Content>),
    Parquet(parquet::ParquetFile<Content>),
    Raw(RawFormat, Content),
}

impl Foreign {
    /// Opens a file of another engine at `place`; errors name `path`. Returns `None` if the format is
    /// unknown.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is damaged, or has a format that is not
    /// supported.
    pub fn open(path: &Path, place: &Path, arguments: &FileArguments) -> Outcome<Option<Self>> {
        let foreign = |error: Error| Failure::from(error.in_file(path));
        let parquet = |error: parquet::Error| Failure::from(error.in_file(path));
        let content = || Content::open(place).map_err(foreign);

        if let Some(format) = arguments.format {
            // A filter of other bits denies present keys, and a bare filter has no checksum that could show it.
            let ends = Ends::of(place).map_err(|error| foreign(error.into()))?;
            if let Some(found) = ends.format().filter(|found| found.kind != Kind::Stranger) {
                return refuse(path, format!("this is {}, not a bare filter; omit --format", found.name));
            }
            let raw = Self::Raw(format, content()?);
            if let Some(Err(error)) = raw.raw_parquet() {
                return Err(parquet(error));
            }
            return Ok(Some(raw));
        }
        let Some(kind) = Ends::of(place).map_err(|error| foreign(error.into()))?.foreign() else { return Ok(None) };
        let bytes = content()?;
        Ok(Some(match kind {
            FileKind::LevelDbTable => {
                let hasher = KeyHasher::xxh3(HashSeed(arguments.seed.unwrap_or_default()));
                let table = leveldb::LevelDbTable::open_with(bytes, arguments.key_form, &hasher);
                Self::LevelDb(table.map_err(foreign)?)
            }
            FileKind::RocksDbTable => Self::RocksDb(rocksdb::RocksDbTable::open(bytes).map_err(foreign)?),
            FileKind::ParquetFile => Self::Parquet(parquet::ParquetFile::open(bytes).map_err(parquet)?),
        }))
    }

    /// Gives the secret to filterblock's own filters in a table. `file` has seed and hash function
    /// for the filters of a LevelDB table, which do not record whether they need a secret.
    ///
    /// # Errors
    /// Returns an error if the secret cannot be read, or if one is given and the file has no filter
    /// that can need it. For a RocksDB table, a missing or wrong secret is an error too. For a
    /// LevelDB table, a missing or wrong secret may go unnoticed here.
    pub fn unlock(&mut self, path: &Path, file: &FileArguments, arguments: &SecretArguments) -> Outcome<()> {
        if let Self::LevelDb(table) = self
            && table.has_native_filters()
        {
            let hasher =
                arguments.hasher(&HashArguments { hash: file.hash }, HashSeed(file.seed.unwrap_or_default()))?;
            return table.set_hasher(&hasher, file.key_form).map_err(|error| error.in_file(path).into());
        }
        if let Self::Sst(sst) = self {
            return sst.unlock(path, arguments);
        }
        let Self::RocksDb(table) = self else { return arguments.refuse(path) };
        let Some(HashIdentity { kind, fingerprint: stored @ Some(_), .. }) = table.native_hash() else {
            return arguments.refuse(path);
        };
        let unlocked = match arguments.read()? {
            Some(secret) => table.unlock(&secret),
            None => Err(filterblock::Error::Secret { hash: kind, stored, given: None }.into()),
        };
        unlocked.map_err(|error| arguments.explain(error.in_file(path)))
    }

    /// Returns a note for the user if queries cannot use one or more of filterblock's filters in a
    /// LevelDB table.
    pub fn unusable_filters(&self) -> Option<String> {
        let Self::LevelDb(table) = self else { return None };
        let (all, unusable @ 1..) = table.count_unusable_filters() else { return None };
        let filters = count(all, "filter");
        Some(format!(
            "{} of {filters} cannot be used, so they answer \"maybe\": damage, or another seed, hash function or \
             secret; `query` and `verify` take the writer's --seed, --hash and --secret-file",
            thousands(unusable)
        ))
    }

    /// Parses a bare Parquet filter. Returns `None` for any other file.
    pub fn raw_parquet(&self) -> Option<parquet::Result<parquet::ParquetBloom<'_>>> {
        match self {
            Self::Raw(RawFormat::ParquetSbbf, bytes) => Some(parquet::ParquetBloom::parse(bytes.as_ref())),
            _ => None,
        }
    }

    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::Sst(sst) => sst.table.len_bytes(),
            Self::FileFilter(filter) => filter.path().metadata().map_or(0, |found| found.len()),
            file => file.as_bytes().len() as u64,
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sst(_) | Self::FileFilter(_) => &[],
            Self::LevelDb(table) => table.as_bytes(),
            Self::RocksDb(table) => table.as_bytes(),
            Self::Parquet(file) => file.as_bytes(),
            Self::Raw(_, bytes) => bytes.as_ref(),
        }
    }

    /// Returns the value of `--format` for the filters of this file. Two results are not values of
    /// `--format`: `filterblock` (an exported filter block, read without `--format`) and
    /// `filterblock-compact` (a filter in compact form, read only with its table).
    pub fn raw_format(&self) -> &'static str {
        match self {
            Self::Sst(_) | Self::FileFilter(_) => "filterblock",
            Self::RocksDb(table) if table.native_hash().is_some() => "filterblock",
            Self::LevelDb(table) if table.has_native_filters() => "filterblock-compact",
            Self::LevelDb(_) | Self::Raw(RawFormat::LeveldbBloom, _) => "leveldb-bloom",
            Self::RocksDb(_) | Self::Raw(RawFormat::RocksdbFilter, _) => "rocksdb-filter",
            Self::Parquet(_) | Self::Raw(RawFormat::ParquetSbbf, _) => "parquet-sbbf",
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sst(_) => "filterblock-sst",
            Self::FileFilter(_) => "file-filter",
            Self::LevelDb(_) => "leveldb-table",
            Self::RocksDb(_) => "rocksdb-table",
            Self::Parquet(_) => "parquet-file",
            Self::Raw(RawFormat::LeveldbBloom, _) => "leveldb-bloom",
            Self::Raw(RawFormat::RocksdbFilter, _) => "rocksdb-filter",
            Self::Raw(RawFormat::ParquetSbbf, _) => "parquet-sbbf",
        }
    }
}

impl FileArguments {
    /// Returns an error for an option that does not fit `file`. Without a file, `kind` names what
    /// the file is instead.
    pub fn check(&self, path: &Path, file: Option<&Foreign>, kind: &'static str) -> Outcome<()> {
        let kind = file.map_or(kind, Foreign::kind);
        let is_parquet = matches!(file, Some(Foreign::Parquet(_)));
        let is_leveldb = matches!(file, Some(Foreign::LevelDb(_)));
        let has_compact = matches!(file, Some(Foreign::LevelDb(table)) if table.has_native_filters());
        let compact = "LevelDB tables with filters of filterblock";
        let plain = if is_leveldb { "leveldb-table without them" } else { kind };
        let options = [
            ("--column", self.column.is_some(), is_parquet, "Parquet files", kind),
            ("--row-group", self.row_group.is_some(), is_parquet, "Parquet files", kind),
            ("--key-form", self.key_form.is_some(), is_leveldb, "LevelDB tables", kind),
            ("--seed", self.seed.is_some(), has_compact, compact, plain),
            ("--hash", self.hash.is_some(), has_compact, compact, plain),
        ];
        match options.into_iter().find(|(_, is_given, fits, ..)| *is_given && !fits) {
            None => Ok(()),
            Some((option, .., what, kind)) => {
                refuse(path, format!("{option} is for {what}, and this is a {kind}; omit {option}"))
            }
        }
    }

    /// Returns the column chunks that --column and --row-group select. Without these options,
    /// returns all column chunks. Returns an error if there is no such column or row group.
    pub fn chunks<'a>(
        &self,
        path: &Path,
        file: &'a parquet::ParquetFile<Content>,
    ) -> Outcome<Vec<&'a ParquetColumnChunk>> {
        let groups = file.num_row_groups();
        if let Some(number) = self.row_group.filter(|&number| number >= groups) {
            let next = match groups {
                0 => "omit --row-group".to_owned(),
                1 => "give 0, or omit --row-group".to_owned(),
                _ => format!("give a number from 0 to {}", groups - 1),
            };
            let (path, groups) = (path.display(), count(groups as u64, "row group"));
            return fail(format!("{path}: no row group {number}: the file has {groups}; {next}"));
        }
        let is_column = |chunk: &ParquetColumnChunk| self.column.as_ref().is_none_or(|column| **column == *chunk.path);
        let is_group = |chunk: &ParquetColumnChunk| self.row_group.is_none_or(|number| number == chunk.row_group);
        let chunks: Vec<_> = file.column_chunks().iter().filter(|chunk| is_column(chunk) && is_group(chunk)).collect();
        match &self.column {
            // A file without row groups has the columns of its schema, and no values.
            Some(column) if file.leaves().iter().all(|leaf| *leaf.path != **column) => {
                let known = match (groups, file.leaves().first()) {
                    (0, None) => "the file has no columns and no row groups; give a file with rows".to_owned(),
                    _ => format!("give one of: {}", columns(file.leaves().iter().map(|leaf| &*leaf.path))),
                };
                refuse(path, format!("no column {column:?}; {known}"))
            }
            _ => Ok(chunks),
        }
    }

    /// Returns the chunks of the queried column in the selected row groups. The queried column is
    /// that of --column, or else the only column with a filter. Returns an error if there is no
    /// such column or row group, or if there are several such columns.
    pub fn column<'a>(
        &self,
        path: &Path,
        file: &'a parquet::ParquetFile<Content>,
    ) -> Outcome<Vec<&'a ParquetColumnChunk>> {
        let chunks = self.chunks(path, file)?;
        if self.column.is_some() {
            return one_column(path, chunks);
        }
        let with_filter = || chunks.iter().copied().filter(|chunk| chunk.filter.is_some());
        let (file_path, path) = (path, path.display());
        let Some(first) = with_filter().next() else {
            let next = match self.row_group {
                Some(_) => "choose another --row-group, or give a file with filters",
                None => "to add filters, use \"filterblock parquet add\"",
            };
            return fail(format!(
                "{path}: no selected column chunk has a filter, so every value may be present; {next}"
            ));
        };
        if with_filter().any(|chunk| chunk.path != first.path) {
            let columns = columns(with_filter().map(|chunk| &*chunk.path));
            return fail(format!("{path}: several columns have filters; choose one with --column: {columns}"));
        }
        one_column(file_path, chunks.iter().copied().filter(|chunk| chunk.path == first.path).collect())
    }
}

/// Returns the message if the failure is damage of the file. If parts of a Parquet footer contradict
/// each other or a filter, it is unknown which part is wrong, so this is no verdict of damage.
pub fn damage_of(failure: &Failure, key_form: Option<KeyForm>) -> Option<String> {
    match failure {
        Failure::Foreign(error) if error.is_damage() => Some(table_message(error, key_form)),
        Failure::Parquet(error) if error.is_damage() && !error.is_contradiction() => Some(error.to_string()),
        _ => None,
    }
}

/// Returns the filter of a chunk. An error has the message that names the row group and the column.
pub fn filter_of<'a>(
    path: &Path,
    file: &'a parquet::ParquetFile<Content>,
    chunk: &ParquetColumnChunk,
) -> Result<Option<parquet::ParquetBloom<'a>>, (parquet::Error, String)> {
    file.filter(chunk).map_err(|error| {
        let (path, group, column) = (path.display(), chunk.row_group, printable(&chunk.path));
        let text = format!("{path}: row group {group}, column {column}: {error}");
        (error, text)
    })
}

/// Returns `chunks`, or an error if they belong to several columns with the same path. The values
/// of such columns may have different types.
fn one_column<'a>(path: &Path, chunks: Vec<&'a ParquetColumnChunk>) -> Outcome<Vec<&'a ParquetColumnChunk>> {
    let neighbours = chunks.iter().zip(chunks.iter().skip(1));
    if let Some((chunk, _)) = neighbours.into_iter().find(|(one, next)| one.row_group == next.row_group) {
        let (path, column) = (path.display(), printable(&chunk.path));
        return fail(format!(
            "{path}: several columns have the path {column}, and this command cannot tell them apart; rename one of them"
        ));
    }
    Ok(chunks)
}

/// The maximum number of column names in a message.
const NAMES_MAX: usize = 20;

/// Lists the distinct names among `paths`, for a message. Shortens the list to [`NAMES_MAX`] names.
fn columns<'a>(paths: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for path in paths {
        if !names.contains(&path) {
            names.push(path);
        }
        if names.len() > NAMES_MAX {
            names.pop();
            return format!("{}, ...", printable(&names.join(", ")));
        }
    }
    printable(&names.join(", "))
}

/// Returns the message of an error. With --key-form, keys of another form look damaged, so the
/// advice is then to omit the option.
pub fn table_message(error: &Error, key_form: Option<KeyForm>) -> String {
    let text = error.to_string();
    match (error.root(), key_form) {
        (Error::Corrupt { field: Field::Key, .. }, Some(_)) => {
            let problem = without_advice(&text);
            format!("{problem}, or keys of another form than --key-form says; omit --key-form")
        }
        _ => text,
    }
}

/// Returns the failure for a LevelDB table whose form of keys is unknown, or `None` for any other
/// error. The core's error advises to state the form, and does not name the option.
pub fn unknown_form(error: &Error, path: &Path) -> Option<Failure> {
    let Error::Invalid { what: "key form", reason, .. } = error.root() else { return None };
    let (path, problem) = (path.display(), without_advice(reason));
    let next = match problem {
        _ if problem.ends_with("are internal keys") => "omit --key-form, or give --key-form internal",
        _ if problem.ends_with("are user keys") => "omit --key-form, or give --key-form user",
        _ => {
            "give --key-form user or --key-form internal; with the wrong form, a filter of the keys would deny all of them"
        }
    };
    Some(Failure::Message(format!("{path}: {problem}; {next}")))
}
