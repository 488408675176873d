//! Defines the errors of Parquet files, of their filters, and of an index.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;

use filterblock::internals::{fields, write_io};

/// The result of a call that can fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

const SHOWN_CHARACTERS: usize = 100;

/// An error of a Parquet file, of its filters or of an index, or an argument that is not valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A read, a write or a seek failed, or the storage of an index builder returned wrong hashes.
    #[error(fmt = write_io)]
    Io(#[from] io::Error),
    /// An error that concerns the file at `path`.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// The error.
        source: Box<Error>,
    },
    /// The bytes are not a Parquet file or a filter, or they are damaged.
    #[error(fmt = write_corrupt)]
    Corrupt {
        /// The part that is not valid.
        field: Field,
        /// An offset at or near the fault, in bytes from the start of the file or of a bare filter.
        offset: u64,
    },
    /// The metadata contradict their schema: a row group does not have the columns of the schema, in
    /// its order, with its names and physical types.
    #[error(
        "row group {row_group}, column {column:?}: the footer contradicts its schema at offset {offset}: the column chunk is \
         missing or surplus, or has another name or physical type; restore the file, or let its engine write it again"
    )]
    ChunkMismatch {
        /// The number of the row group, from 0.
        row_group: usize,
        /// The path of the column in the schema, or that of the chunk if the schema has fewer columns.
        column: String,
        /// The offset in the file of the metadata of the column chunk.
        offset: u64,
    },
    /// The file, a filter, an index, a requested column or the new footer has a property that this
    /// crate does not support. Or a newer version of this program wrote the index.
    #[error("{what}; {advice}")]
    Unsupported {
        /// What is not supported, as a clause for the message, such as "the footer is encrypted".
        what: String,
        /// What the user can do.
        advice: &'static str,
    },
    /// The values of a column chunk cannot be read.
    #[error(fmt = write_values)]
    Values {
        /// The number of the row group, from 0.
        row_group: usize,
        /// The path of the column, or the number of the leaf column if there is no such chunk.
        column: String,
        /// The reason.
        reason: String,
    },
    /// A new filter denies a value of its own column chunk. The caller must discard the output.
    #[error(
        "row group {row_group}, column {}: the written filter denies {values} of its own values, so the new file cannot be \
         used; check disk and memory, and try again",
        shortened(column)
    )]
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
    #[error("the file changed while it was read or copied; wait for its writer, and try again")]
    Changed,
    /// The caller gave a value that is out of its documented range.
    #[error("{what}{}{given}: {reason}", if given.is_empty() { "" } else { " " })]
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
    #[error("damaged index: {part} at offset {offset}: {why}; search all indexed files and build the index again")]
    DamagedIndex {
        /// The part: the header, the file table, a row with its number, or the end of the file.
        part: Cow<'static, str>,
        /// The offset of the fault, or of a part with a wrong checksum, from the start of the index.
        offset: u64,
        /// What is wrong.
        why: Cow<'static, str>,
    },
    /// The index does not fit in the memory of this machine or in the limits of the format.
    #[error("{what} does not fit in memory or in the format; index fewer files, or build the index with a higher FPR")]
    TooLarge {
        /// The object that is too large.
        what: &'static str,
    },
    /// A newly built index denies keys that were added to it, for example because of broken memory.
    #[error(
        "the new index denies {denied} of its own keys, and nothing was written; build it again, and test this machine's \
         memory"
    )]
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

pub(crate) const WRONG_CHECKSUM: &str = "the part fails its checksum";

impl Error {
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

    pub(crate) fn damaged_index(
        part: impl Into<Cow<'static, str>>,
        offset: u64,
        why: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::DamagedIndex { part: part.into(), offset, why: why.into() }
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

fn write_corrupt(field: &Field, offset: &u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (start, advice) = match field {
        Field::WrittenFooter => ("", "check disk and memory, and try again"),
        Field::FilterHeader => ("damaged filter header: ", REPLACE),
        Field::FilterLocation | Field::FilterLen | Field::FilterBits => ("", REPLACE),
        Field::Magic => ("not a sound Parquet file: ", "check the path, or restore the file"),
        _ => ("not a sound Parquet file: ", "restore the file, or let its engine write it again"),
    };
    write!(f, "{start}{}; {advice}", Error::corrupt(*field, *offset).problem())
}

fn write_values(row_group: &usize, column: &str, reason: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "row group {row_group}, column {}: cannot read the values: {reason}", shortened(column))?;
    // Some reasons of this crate contain the next step.
    f.write_str(if reason.contains("; ") { "" } else { "; check the file with the engine that wrote it" })
}

#[cfg(test)]
mod tests;
