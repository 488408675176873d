//! Defines the errors of other engines' files and filters.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use filterblock::internals::{fields, write_io};

/// The result of a call that may fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a file or a filter of another engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a file, a memory map or an output failed.
    #[error(fmt = write_io)]
    Io(#[from] std::io::Error),
    /// An error that concerns the file at `path`.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: Box<Error>,
    },
    /// The bytes are invalid: the file is damaged, or the engine did not write it.
    #[error(fmt = write_corrupt)]
    Corrupt {
        /// The field that is not valid.
        field: Field,
        /// An offset near the fault, in bytes from the start of the filter or file.
        offset: u64,
    },
    /// A stored checksum differs from the one computed over the bytes.
    #[error(
        "damaged: wrong checksum of {field} at offset {offset} (stored {stored:#010x}, computed {computed:#010x}); {RESTORE}"
    )]
    ChecksumMismatch {
        /// The part that the checksum covers.
        field: Field,
        /// Where the covered bytes begin, in bytes from the start of the filter or file.
        offset: u64,
        /// The checksum that is stored with the bytes.
        stored: u32,
        /// The checksum computed over the bytes.
        computed: u32,
    },
    /// The bytes are of a newer version, or use a feature that this build cannot read.
    #[error(fmt = write_unsupported)]
    Unsupported {
        /// The field that cannot be read.
        field: Field,
        /// The value of the field. A known compression means that its dictionary is not supported.
        found: u64,
    },
    /// The caller gave a value that is out of its documented range, or a file or table does not
    /// allow the call.
    #[error("invalid {what} {given:?}: {reason}")]
    Invalid {
        /// The name of the argument, or the kind of file.
        what: &'static str,
        /// The value that the caller gave, or a description of the value or the file.
        given: String,
        /// The reason why the value is refused and, after a semicolon, what to do next.
        reason: Cow<'static, str>,
    },
    /// Keys were added to the writer of a table out of order. Nothing was changed.
    #[error(
        "the key does not come after the previous key, and nothing was changed; add keys in ascending order, and the versions \
         of a key from the newest to the oldest"
    )]
    OutOfOrder,
    /// An error of a filter block of this crate.
    #[error("{0}")]
    Filter(#[source] filterblock::Error),
}

impl Error {
    #[doc(hidden)]
    pub fn invalid(what: &'static str, given: impl fmt::Display, reason: impl Into<Cow<'static, str>>) -> Self {
        let reason = reason.into();
        #[cfg(test)]
        assert!(reason.contains("; "), "the reason must say after a semicolon what to do next: {what}: {reason}");
        Self::Invalid { what, given: given.to_string(), reason }
    }

    /// Adds `base` to the offset of the error. `base` is where the parsed bytes begin in their
    /// file. An error without an offset, or inside [`Error::InFile`], is unchanged.
    #[must_use]
    pub fn moved_by(self, base: u64) -> Self {
        match self {
            Self::Corrupt { field, offset } => Self::Corrupt { field, offset: offset.saturating_add(base) },
            Self::ChecksumMismatch { field, offset, stored, computed } => {
                Self::ChecksumMismatch { field, offset: offset.saturating_add(base), stored, computed }
            }
            Self::Filter(error) => Self::Filter(error.moved_by(base)),
            other => other,
        }
    }

    /// Returns whether the bytes are of a newer version, or use a feature that this build does not
    /// read.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        match self.root() {
            Self::Unsupported { .. } => true,
            Self::Filter(error) => error.is_unsupported(),
            _ => false,
        }
    }

    /// Returns whether the bytes are damaged, or the engine did not write them.
    ///
    /// Returns `false` for bytes of a newer version ([`Error::is_unsupported`]).
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self.root() {
            Self::Corrupt { .. } | Self::ChecksumMismatch { .. } => true,
            Self::Filter(error) => error.is_damage(),
            _ => false,
        }
    }
}

const RESTORE: &str = "restore the file, or let its engine write it again";

fn write_corrupt(field: &Field, offset: &u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match field {
        Field::Magic => write!(
            f,
            "not a file of the expected format, or damaged: invalid magic at offset {offset}; check the path, or restore \
             the file"
        ),
        _ => write!(f, "damaged: invalid {field} at offset {offset}; {RESTORE}"),
    }
}

fn write_unsupported(field: &Field, found: &u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match field {
        Field::UserDefinedIndex => f.write_str(
            "the table has a user-defined index, which this version of filterblock cannot read; let the engine write \
             the file without it",
        ),
        Field::BlockFeatures => write!(
            f,
            "a block has features that this version of filterblock cannot read (flags {found:#x}); use a newer \
             version, or let the engine write the file without them"
        ),
        // A supported compression with a dictionary gives this error too.
        Field::Compression => write!(
            f,
            "compression {found}, or its dictionary, is not supported by this version of filterblock; use a newer \
             version, or let the engine write the file with another compression and without a dictionary"
        ),
        _ => write!(
            f,
            "{field} {found} is not supported by this version of filterblock; use a newer version, or let the engine \
             write the file with another {field}"
        ),
    }
}

impl From<filterblock::Error> for Error {
    /// Keeps `Io`, `InFile` and `Invalid`. Wraps every other error in [`Error::Filter`].
    fn from(error: filterblock::Error) -> Self {
        match error {
            filterblock::Error::Io(error) => Self::Io(error),
            filterblock::Error::InFile { path, source } => Self::from(*source).in_file(&path),
            filterblock::Error::Invalid { what, given, reason } => Self::Invalid { what, given, reason },
            other => Self::Filter(other),
        }
    }
}

fields! {
    /// The fields of other engines' files and filters. Error messages use these names.
    Length = "length",
    Magic = "magic",
    Version = "format version",
    Checksum = "checksum",
    ChecksumKind = "checksum type",
    BaseContext = "base context checksum",
    Footer = "footer",
    Metaindex = "metaindex block",
    Properties = "properties",
    IndexBlock = "index block",
    IndexKind = "index type",
    UserDefinedIndex = "user-defined index",
    DataBlock = "data block",
    BlockFeatures = "features of a block",
    Handle = "block handle",
    Restarts = "restart points",
    Entry = "entry",
    Key = "key",
    Value = "value",
    Compression = "compression",
    FilterBlock = "filter block",
    PartitionIndex = "partition index",
    Partition = "partition",
}

#[cfg(test)]
mod tests;
