//! Defines the errors of Parquet files, of their filters, and of an index.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use filterblock::internals::{fields, message};

/// The result of a call that can fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

const SHOWN_CHARACTERS: usize = 100;

/// An error of a Parquet file, of its filters or of an index, or an argument that is not valid.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A read, a write or a seek failed, or the storage of an index builder returned wrong hashes.
    Io(io::Error),
    /// An error that concerns the file at `path`.
    InFile {
        /// The file.
        path: PathBuf,
        /// The error.
        source: Box<Error>,
    },
    /// The bytes are not a Parquet file or a filter, or they are damaged.
    Corrupt {
        /// The part that is not valid.
        field: Field,
        /// An offset at or near the fault, in bytes from the start of the file or of a bare filter.
        offset: u64,
    },
    /// The metadata contradict their schema: a row group does not have the columns of the schema, in
    /// its order, with its names and physical types.
    ChunkMismatch {
        /// The number of the row group, from 0.
        row_group: usize,
        /// The path of the column in the schema, or that of the chunk if the schema has fewer columns.
        column: String,
        /// The offset in the file of the metadata of the column chunk.
        offset: u64,
    },
    /// The file, a filter, a requested column or the new footer has a property that this crate does
    /// not support.
    Unsupported {
        /// What is not supported, as a clause for the message, such as "the footer is encrypted".
        what: String,
        /// What the user can do.
        advice: &'static str,
    },
    /// The footer can be parsed, but a struct in it has two fields with the same number, or
    /// encoding the struct again gives other bytes. A rewrite could change more than the filters.
    NotCanonical {
        /// The offset at which the struct begins, in bytes from the start of the file.
        offset: u64,
    },
    /// The values of a column chunk cannot be read.
    Values {
        /// The number of the row group, from 0.
        row_group: usize,
        /// The path of the column, or the number of the leaf column if there is no such chunk.
        column: String,
        /// The reason.
        reason: String,
    },
    /// A new filter denies a value of its own column chunk. The caller must discard the output.
    Denied {
        /// The number of the row group, from 0.
        row_group: usize,
        /// The path of the column.
        column: String,
        /// The number of hashes that the filter denies. If the values were read again for the
        /// check, a hash may be counted several times.
        values: u64,
    },
    /// The file changed while it was read, or the copy has another length than the file.
    Changed,
    /// The caller gave a value that is out of its documented range.
    Invalid {
        /// The argument.
        what: &'static str,
        /// The value as given, or an empty text if the reason names it.
        given: String,
        /// The reason why the value is rejected and, after a semicolon, what to do next.
        reason: String,
    },
    /// A part of an index has bytes or a length that no writer of version 1 gives it, or fails its
    /// checksum.
    DamagedIndex {
        /// The part.
        part: IndexPart,
        /// The offset of the fault, or of a part with a wrong checksum, from the start of the index.
        offset: u64,
        /// What is wrong.
        why: Cow<'static, str>,
    },
    /// A newer version of this program wrote the index. Damage to the version and to another field
    /// of the header can give the same error.
    Newer {
        /// The version in the header.
        found: u16,
        /// The newest version that this program reads.
        known: u16,
    },
    /// The index does not fit in the memory of this machine or in the limits of the format.
    TooLarge {
        /// The object that is too large.
        what: &'static str,
    },
    /// A newly built index denies keys that were added to it, for example because of broken memory.
    SelfCheckFailed {
        /// The number of added hashes that the index denies, plus the number of existing blocks and
        /// filters that it cannot store.
        denied: u64,
    },
}

fields! {
    /// The parts of Parquet files that errors name.
    FileLen = "length of the file",
    Magic = "magic PAR1",
    MetadataLen = "length of the metadata",
    FileMetadata = "file metadata",
    Schema = "schema",
    RowGroups = "list of row groups",
    RowGroup = "row group",
    Columns = "list of columns",
    NumRows = "number of rows",
    ColumnChunk = "column chunk",
    ColumnMetadata = "column metadata",
    NumValues = "number of values in the column metadata",
    ChunkLocation = "chunk location in the column metadata",
    FilterFields = "filter location in the column metadata",
    FilterLocation = "bloom_filter_offset",
    FilterLen = "bloom_filter_length",
    FilterHeader = "header of the filter",
    FilterBits = "content of the filter",
    WrittenFooter = "written footer",
}

/// A part of an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexPart {
    /// The first 64 bytes.
    Header,
    /// The name and the logical type of the column, and the records of the files.
    FileTable,
    /// The row with this number.
    Row(u32),
    /// The length of the whole file.
    Length,
}

impl fmt::Display for IndexPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("header"),
            Self::FileTable => f.write_str("file table"),
            Self::Row(number) => write!(f, "row {number}"),
            Self::Length => f.write_str("end of the file"),
        }
    }
}

pub(crate) const WRONG_CHECKSUM: &str = "the part fails its checksum";

impl Error {
    /// Adds the name of the file to the error, unless the error already names a file.
    #[must_use]
    pub fn in_file(self, path: &Path) -> Self {
        match self {
            Self::InFile { .. } => self,
            other => Self::InFile { path: path.to_path_buf(), source: Box::new(other) },
        }
    }

    /// Returns the innermost error, without the name of the file around it.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::InFile { source, .. } => source.root(),
            other => other,
        }
    }

    /// Adds `base` to the offset of an [`Error::Corrupt`]. `base` is where the parsed bytes begin in
    /// their file. Other errors are unchanged.
    #[must_use]
    pub fn moved_by(self, base: u64) -> Self {
        match self {
            Self::Corrupt { field, offset } => Self::Corrupt { field, offset: offset.saturating_add(base) },
            other => other,
        }
    }

    /// Returns whether the bytes are damaged, or no known writer wrote them. A newer version and
    /// something that is not supported are no damage.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self.root(), Self::Corrupt { .. } | Self::ChunkMismatch { .. } | Self::DamagedIndex { .. })
    }

    /// Returns whether parts of a footer contradict each other or a filter, so that it is unknown
    /// which part is wrong.
    #[must_use]
    pub fn is_contradiction(&self) -> bool {
        match self.root() {
            Self::ChunkMismatch { .. } => true,
            Self::Corrupt { field, .. } => {
                matches!(field, Field::FilterLocation | Field::FilterLen | Field::NumRows)
            }
            _ => false,
        }
    }

    /// Returns what is wrong, without the advice. The advice of an error about a filter concerns the
    /// whole file, so callers that can replace the filter give their own.
    #[must_use]
    pub fn problem(&self) -> String {
        match self {
            Self::Corrupt { field: Field::WrittenFooter, offset } => format!(
                "the new footer at offset {offset} differs from the footer that was written, so the new file cannot be \
                 used"
            ),
            Self::Corrupt { field: Field::FilterLocation, offset } => format!(
                "the footer places a filter at offset {offset}, inside the pages or another filter or outside the \
                 file's data"
            ),
            Self::Corrupt { field: Field::FilterLen, offset } => {
                format!("the bloom_filter_length in the footer contradicts the header of the filter at offset {offset}")
            }
            Self::Corrupt { field: Field::FilterBits, offset } => format!(
                "the content of the filter at offset {offset} is not valid (no bit is set, but the row group has \
                 values)"
            ),
            Self::Corrupt { field: Field::NumRows, offset } => format!(
                "the row groups do not have the number of rows that the footer gives for the file at offset {offset}, \
                 so rows or row groups are missing"
            ),
            Self::Corrupt { field: Field::FileLen, .. } => "the file is too short".to_owned(),
            Self::Corrupt { field, offset } => format!("the {field} at offset {offset} is not valid"),
            Self::Unsupported { what, .. } => what.clone(),
            other => other.to_string(),
        }
    }

    pub(crate) fn corrupt(field: Field, offset: u64) -> Self {
        Self::Corrupt { field, offset }
    }

    pub(crate) fn unsupported(what: impl Into<String>, advice: &'static str) -> Self {
        Self::Unsupported { what: what.into(), advice }
    }

    /// Returns [`Error::Invalid`] for a value that `reason` names, or that needs no name.
    pub(crate) fn invalid(what: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { what, given: String::new(), reason: reason.into() }
    }

    pub(crate) fn damaged_index(part: IndexPart, offset: u64, why: impl Into<Cow<'static, str>>) -> Self {
        Self::DamagedIndex { part, offset, why: why.into() }
    }
}

pub(crate) fn check_rate(rate: f64) -> Result<()> {
    match rate > 0.0 && rate < 1.0 {
        true => Ok(()),
        false => Err(Error::Invalid {
            what: "false-positive rate",
            given: rate.to_string(),
            reason: "expected a rate above 0 and below 1; try 0.01".to_owned(),
        }),
    }
}

/// Returns a name for a message. If the name has more than 100 characters, returns the first 100
/// and three dots. A damaged footer may contain a name of many megabytes.
#[must_use]
pub fn shortened(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(SHOWN_CHARACTERS) {
        None => Cow::Borrowed(name),
        Some((end, _)) => Cow::Owned(format!("{}...", name.get(..end).unwrap_or_default())),
    }
}

const REPLACE: &str = "let the engine write the file again, or replace the filters of the column";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => message::io(f, error),
            Self::InFile { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Corrupt { field, .. } => {
                let (start, advice) = match field {
                    Field::WrittenFooter => ("", "check disk and memory, and try again"),
                    Field::FilterHeader => ("damaged filter header: ", REPLACE),
                    Field::FilterLocation | Field::FilterLen | Field::FilterBits => ("", REPLACE),
                    Field::Magic => ("not a sound Parquet file: ", "check the path, or restore the file"),
                    _ => ("not a sound Parquet file: ", "restore the file, or let its engine write it again"),
                };
                write!(f, "{start}{}; {advice}", self.problem())
            }
            Self::ChunkMismatch { row_group, column, offset } => write!(
                f,
                "row group {row_group}, column {column:?}: the footer contradicts its schema at offset {offset}: the \
                 column chunk is missing or surplus, or has another name or physical type; restore the file, or let its \
                 engine write it again"
            ),
            Self::Unsupported { what, advice } => write!(f, "{what}; {advice}"),
            Self::NotCanonical { offset } => write!(
                f,
                "the metadata at offset {offset} have an unusual encoding, which a new footer would not keep; write \
                 the file again with a common Parquet writer"
            ),
            Self::Values { row_group, column, reason } => {
                write!(f, "row group {row_group}, column {}: cannot read the values: {reason}", shortened(column))?;
                // Some reasons of this crate contain the next step.
                let next = if reason.contains("; ") { "" } else { "; check the file with the engine that wrote it" };
                f.write_str(next)
            }
            Self::Denied { row_group, column, values } => write!(
                f,
                "row group {row_group}, column {}: the written filter denies {values} of its own values, so the \
                 new file cannot be used; check disk and memory, and try again",
                shortened(column)
            ),
            Self::Changed => {
                f.write_str("the file changed while it was read or copied; wait for its writer, and try again")
            }
            Self::Invalid { what, given, reason } if given.is_empty() => write!(f, "{what}: {reason}"),
            Self::Invalid { what, given, reason } => write!(f, "{what} {given}: {reason}"),
            Self::DamagedIndex { part, offset, why } => write!(
                f,
                "damaged index: {part} at offset {offset}: {why}; search all indexed files and build the index again"
            ),
            Self::Newer { found, known } => write!(
                f,
                "the index has format version {found}, and this program reads version {known}; search all indexed \
                 files, or use a newer program"
            ),
            Self::TooLarge { what } => write!(
                f,
                "{what} does not fit in memory or in the format; index fewer files, or build the index with a higher FPR"
            ),
            Self::SelfCheckFailed { denied } => write!(
                f,
                "the new index denies {denied} of its own keys, and nothing was written; build it again, and test \
                 this machine's memory"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::InFile { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(test)]
mod tests;
