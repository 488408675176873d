//! Defines the errors of an index.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// The result of calls on an index.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A part of an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The first 64 bytes.
    Header,
    /// The name and the logical type of the column, and the records of the files.
    FileTable,
    /// The row with this number.
    Row(u32),
    /// The length of the whole file.
    Length,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("header"),
            Self::FileTable => f.write_str("file table"),
            Self::Row(number) => write!(f, "row {number}"),
            Self::Length => f.write_str("end of the file"),
        }
    }
}

/// An error of an index.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A read or a write failed, or the storage of the builder returned wrong or too few hashes.
    Io(io::Error),
    /// A part has bytes or a length that no writer of version 1 gives it.
    Corrupt {
        /// The part.
        part: Part,
        /// The offset of the fault from the start of the index.
        offset: u64,
        /// What is wrong.
        why: Cow<'static, str>,
    },
    /// The checksum of a part does not match its bytes.
    ChecksumMismatch {
        /// The part.
        part: Part,
        /// The offset of the part from the start of the index.
        offset: u64,
    },
    /// A newer version of this program wrote the index. Damage to the version and to another field
    /// of the header can give the same error.
    Newer {
        /// The version in the header.
        found: u16,
        /// The newest version that this program reads.
        known: u16,
    },
    /// The caller gave a value that the index does not accept.
    Invalid {
        /// The name of the value.
        what: &'static str,
        /// The reason why the value is rejected. What to do next follows after a semicolon.
        why: String,
    },
    /// The index does not fit in the memory of this machine or in the limits of the format.
    TooLarge {
        /// The object that is too large.
        what: &'static str,
    },
    /// A Parquet file cannot be read.
    Parquet(crate::Error),
    /// A newly built index denies keys that were added to it, for example because of broken memory.
    SelfCheckFailed {
        /// The number of added hashes that the index denies, plus the number of existing blocks and
        /// filters that it cannot store.
        denied: u64,
    },
}

impl Error {
    pub(super) fn corrupt(part: Part, offset: u64, why: impl Into<Cow<'static, str>>) -> Self {
        Self::Corrupt { part, offset, why: why.into() }
    }

    pub(super) fn invalid(what: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { what, why: why.into() }
    }

    /// Returns whether the bytes of the index are damaged. A newer version is not damage.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::ChecksumMismatch { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The message of the core crate also says what to do next.
            Self::Io(error) => {
                write!(f, "{}", filterblock::Error::from(io::Error::new(error.kind(), error.to_string())))
            }
            Self::Parquet(error) => write!(f, "{error}"),
            Self::Corrupt { part, offset, why } => {
                write!(
                    f,
                    "damaged index: {part} at offset {offset}: {why}; search all indexed files and build the index \
                     again"
                )
            }
            Self::ChecksumMismatch { part, offset } => write!(
                f,
                "damaged index: {part} at offset {offset} fails its checksum; search all indexed files and build the \
                 index again"
            ),
            Self::Newer { found, known } => write!(
                f,
                "the index has format version {found}, and this program reads version {known}; search all indexed \
                 files, or use a newer program"
            ),
            Self::Invalid { what, why } => write!(f, "{what}: {why}"),
            Self::TooLarge { what } => {
                write!(
                    f,
                    "{what} does not fit in memory or in the format; index fewer files, or build the index with a higher FPR"
                )
            }
            Self::SelfCheckFailed { denied } => {
                write!(
                    f,
                    "the new index denies {denied} of its own keys, and nothing was written; build it again, and test \
                     this machine's memory"
                )
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Parquet(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
