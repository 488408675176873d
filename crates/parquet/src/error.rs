//! Defines [`Error`], the error of most calls of this crate. The module [`index`](crate::index) has
//! an error type of its own.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use filterblock_foreign as foreign;

/// The result of a call that can fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The maximum number of characters of a name in a message.
const SHOWN_CHARACTERS: usize = 100;

/// The part of an [`Error::Corrupt`] if a new footer is not read back as it was written.
pub(crate) const WRITTEN_FOOTER: &str = "written footer";

/// The part of an [`Error::Corrupt`] if no bit of a filter is set, so that the filter denies every
/// value.
#[cfg(feature = "values")]
pub(crate) const ZERO_BITS: &str = "content of the filter (no bit is set, but the row group has values)";

/// An error of a Parquet file or of its filters, or an argument that is not valid.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A read, a write or a seek failed.
    Io(io::Error),
    /// An error that concerns the file at `path`.
    InFile {
        /// The file.
        path: PathBuf,
        /// The error.
        source: Box<Error>,
    },
    /// The bytes are not a Parquet file, or they are damaged.
    Corrupt {
        /// The part that is not valid.
        part: &'static str,
        /// An offset at or near the fault, in bytes from the start of the file. It is 0 if the
        /// offset is not known.
        offset: u64,
    },
    /// The file, a requested column or the new footer has a property that this crate does not
    /// support.
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
        /// The value as given.
        given: String,
        /// The reason why the value is rejected, and a value that works.
        reason: String,
    },
    /// A filter is damaged, is not supported, or cannot be built.
    Filter(filterblock_foreign::Error),
}

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

    /// Returns what is wrong, without the advice. The advice of an error about a filter concerns the
    /// whole file, so callers that can replace the filter give their own.
    #[must_use]
    pub fn problem(&self) -> String {
        match self {
            Self::Corrupt { part, offset } => format!("the {part} at offset {offset} is not valid"),
            Self::Filter(foreign::Error::Corrupt { field, offset }) => {
                format!("the {field} at offset {offset} is not valid")
            }
            Self::Filter(foreign::Error::Unsupported { field, found }) => format!("{field} {found} is not supported"),
            other => other.to_string(),
        }
    }

    pub(crate) fn corrupt(part: &'static str, offset: u64) -> Self {
        Self::Corrupt { part, offset }
    }

    pub(crate) fn unsupported(what: impl Into<String>, advice: &'static str) -> Self {
        Self::Unsupported { what: what.into(), advice }
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The message of the core crate also says what to do next.
            Self::Io(error) => {
                write!(f, "{}", filterblock::Error::from(io::Error::new(error.kind(), error.to_string())))
            }
            Self::InFile { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Corrupt { part: WRITTEN_FOOTER, offset } => write!(
                f,
                "the new footer at offset {offset} differs from the footer that was written, so the new file cannot be \
                 used; check disk and memory, and try again"
            ),
            Self::Corrupt { part, offset: 0 } => {
                write!(f, "not a sound Parquet file: the {part} is not valid; restore the file or write it again")
            }
            Self::Corrupt { part, offset } => write!(
                f,
                "not a sound Parquet file: the {part} at offset {offset} is not valid; restore the file or write it again"
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
            Self::Invalid { what, given, reason } => write!(f, "{what} {given}: {reason}"),
            Self::Filter(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::InFile { source, .. } => Some(source),
            Self::Filter(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<foreign::Error> for Error {
    fn from(error: foreign::Error) -> Self {
        Self::Filter(error)
    }
}
