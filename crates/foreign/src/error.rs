//! Defines the errors of other engines' files and filters.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use filterblock::internals::codec;
use filterblock::internals::{fields, message};

/// The result of a call that may fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a file or a filter of another engine.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a file, a memory map or an output failed.
    Io(std::io::Error),
    /// An error that concerns the file at `path`.
    InFile {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: Box<Error>,
    },
    /// The bytes are invalid: the file is damaged, or the engine did not write it.
    Corrupt {
        /// The field that is not valid.
        field: Field,
        /// An offset near the fault, in bytes from the start of the filter or file.
        offset: u64,
    },
    /// A stored checksum differs from the one computed over the bytes.
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
    Unsupported {
        /// The field that cannot be read.
        field: Field,
        /// The value of the field. A known compression means that its dictionary is not supported.
        found: u64,
    },
    /// The caller gave a value that is out of its documented range, or a file or table does not
    /// allow the call.
    Invalid {
        /// The name of the argument, or the kind of file.
        what: &'static str,
        /// The value that the caller gave, or a description of the value or the file.
        given: String,
        /// The reason why the value is refused and, after a semicolon, what to do next.
        reason: Cow<'static, str>,
    },
    /// Keys were added to the writer of a table out of order. Nothing was changed.
    OutOfOrder,
    /// An error of a filter block of this crate.
    Filter(filterblock::Error),
}

impl Error {
    #[doc(hidden)]
    pub fn invalid(what: &'static str, given: impl fmt::Display, reason: impl Into<Cow<'static, str>>) -> Self {
        let reason = reason.into();
        #[cfg(test)]
        assert!(reason.contains("; "), "the reason must say after a semicolon what to do next: {what}: {reason}");
        Self::Invalid { what, given: given.to_string(), reason }
    }

    /// Adds the name of the file to the error, unless the error already names its file.
    #[must_use]
    pub fn in_file(self, path: &Path) -> Self {
        match self {
            Self::InFile { .. } => self,
            other => Self::InFile { path: path.to_path_buf(), source: Box::new(other) },
        }
    }

    /// Returns the innermost error, without the names of the files around it.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::InFile { source, .. } => source.root(),
            other => other,
        }
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

/// The advice for a damaged file of another engine.
const RESTORE: &str = "restore the file, or let its engine write it again";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => message::io(f, error),
            Self::InFile { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Corrupt { field: Field::Magic, offset } => {
                message::wrong_magic(f, "a file of the expected format", *offset, "check the path, or restore the file")
            }
            Self::Corrupt { field, offset } => message::corrupt(f, field, *offset, RESTORE),
            Self::ChecksumMismatch { field, offset, stored, computed } => {
                message::checksum_mismatch(f, field, *offset, (*stored, *computed), RESTORE)
            }
            Self::Unsupported { field, found } => unsupported(f, *field, *found),
            Self::Invalid { what, given, reason } => message::invalid(f, what, given, reason),
            Self::OutOfOrder => f.write_str(
                "the key does not come after the previous key, and nothing was changed; add keys in ascending order, and \
                 the versions of a key from the newest to the oldest",
            ),
            Self::Filter(error) => write!(f, "{error}"),
        }
    }
}

fn unsupported(f: &mut fmt::Formatter<'_>, field: Field, found: u64) -> fmt::Result {
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

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<codec::Corrupt<Field>> for Error {
    fn from(codec::Corrupt { field, offset }: codec::Corrupt<Field>) -> Self {
        Self::Corrupt { field, offset }
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
