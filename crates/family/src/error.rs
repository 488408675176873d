//! Defines the errors of this crate. Each message says what is wrong and what to do
//! next.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use filterblock::internals::{fields, write_io};

/// The result of every fallible call on the filters of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a filter of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An I/O error, for example because a file cannot be read or exists already.
    #[error(fmt = write_io)]
    Io(#[from] std::io::Error),
    /// An error that occurred while working on `path`.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file or directory.
        path: PathBuf,
        /// The error itself.
        source: Box<Error>,
    },
    /// Bytes that are damaged, or that this crate did not write.
    #[error(fmt = write_corrupt)]
    Corrupt {
        /// The field that is not valid.
        field: Field,
        /// The offset in bytes at which the error was detected, from the start of the file or of
        /// the received data. For base64 text, the offset is in the decoded bytes, unless `field`
        /// is [`Field::Base64`].
        offset: u64,
    },
    /// A stored checksum differs from the checksum computed over the bytes.
    #[error(
        "damaged: wrong checksum of {field} at offset {offset} (stored {stored:#010x}, computed {computed:#010x}); {REBUILD}"
    )]
    ChecksumMismatch {
        /// The field that the checksum covers.
        field: Field,
        /// The offset of the covered bytes, from the start of the file or of the received data.
        offset: u64,
        /// The checksum that is stored with the bytes.
        stored: u32,
        /// The checksum computed over the bytes.
        computed: u32,
    },
    /// Bytes of a newer format version, which this build cannot read. An unknown version may also
    /// be damage.
    #[error(
        "{field} {found} is not supported by this version of filterblock: a newer version wrote the filter, or it is damaged; \
         open it with a newer version, or use an undamaged copy"
    )]
    Unsupported {
        /// The field that holds the unknown value.
        field: Field,
        /// The unknown value.
        found: u64,
    },
    /// The operation refuses an argument, or a setting of the filter. Nothing was changed.
    #[error("invalid {what} {given:?}: {reason}")]
    Invalid {
        /// The name of the argument or setting.
        what: &'static str,
        /// The value as given, or a description of it.
        given: String,
        /// The reason for the refusal, and what to do next.
        reason: Cow<'static, str>,
    },
    /// The requested object does not fit in this machine's memory, or it exceeds a limit of its
    /// type or a limit that the caller set.
    #[error(fmt = write_too_large)]
    TooLarge {
        /// The requested object, or the whole error message if the text contains a semicolon.
        what: &'static str,
    },
    /// A key to be removed is certainly absent. Nothing was changed.
    #[error("the key is certainly absent, and nothing was changed; remove only keys that were added")]
    KeyAbsent,
    /// A filter of fixed size has no space for the key. Nothing was changed.
    #[error(
        "the filter, designed for {capacity} keys, has no space for this key, and nothing was changed; create a larger filter"
    )]
    NoRoom {
        /// The number of keys that the filter is designed for.
        capacity: u64,
    },
    /// Two filters differ in more than their keys. They can be neither merged nor compared bit by
    /// bit.
    #[error(
        "the filters do not match: {what} is {left} in one filter and {right} in the other; create both with the same size and \
         settings, or build one filter from all keys"
    )]
    Unlike {
        /// The property in which they differ.
        what: &'static str,
        /// The value in the first filter.
        left: String,
        /// The value in the second filter.
        right: String,
    },
    /// A change was requested on a filter that was opened for reading only.
    #[error("the filter was opened for reading only; open it for writing to change it")]
    ReadOnly,
    /// Another process, or another handle in this process, has or may have the file open for
    /// writing.
    #[error(
        "the filter is or may be open for writing, in this process or another; close it there and try again, or open it for \
         reading only"
    )]
    Locked,
    /// The file of a filter that is open for writing was moved, removed or replaced, or its length
    /// or content was changed by other code or damaged. Keys inserted since the filter was opened
    /// may be in memory only.
    #[error(
        "the filter's file {reason} while the filter was open for writing, so the file may lack new keys; if the filter is \
         still open, copy the filter to a new file; otherwise insert the new keys again"
    )]
    Displaced {
        /// The change to the file, in the words of the message.
        reason: &'static str,
    },
    /// The filter refuses writes after an earlier failure. To write again, close the filter and
    /// open its file again. The file may lack keys that were inserted since the last sync.
    #[error(
        "the filter refuses writes after an earlier failure ({reason}); close the filter, open its file again, and insert \
         again the keys that were inserted since the last sync"
    )]
    Poisoned {
        /// The earlier failure.
        reason: String,
    },
    /// The number of added keys is unknown.
    #[error("the number of keys is unknown: {reason}; count the keys in your program, or use estimated_keys()")]
    LengthUnknown {
        /// The reason why the number is unknown.
        reason: &'static str,
    },
    /// An error of a filter block that was merged, compared or written.
    #[error("{0}")]
    Filter(#[source] filterblock::Error),
}

impl Error {
    /// Returns an [`Error::Invalid`]. `reason` must end with a semicolon and the next step.
    pub(crate) fn invalid(what: &'static str, given: impl fmt::Display, reason: impl Into<Cow<'static, str>>) -> Self {
        let reason = reason.into();
        #[cfg(test)]
        assert!(reason.contains("; "), "the reason must end with the next step: {what}: {reason}");
        Self::Invalid { what, given: given.to_string(), reason }
    }

    /// Returns whether the bytes are of a newer version or use a feature that this build cannot
    /// read.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        match self.root() {
            Self::Unsupported { .. } => true,
            Self::Filter(error) => error.is_unsupported(),
            _ => false,
        }
    }

    /// Returns whether the bytes are damaged or were not written by this crate.
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

/// Returns [`Error::Unlike`] if the property `what` of two filters differs.
pub(super) fn check_equal<T: PartialEq + fmt::Display>(what: &'static str, left: T, right: T) -> Result<()> {
    if left == right {
        return Ok(());
    }
    Err(Error::Unlike { what, left: left.to_string(), right: right.to_string() })
}

const REBUILD: &str = "use an undamaged copy, or build the filter again from its keys";

fn write_corrupt(field: &Field, offset: &u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match field {
        Field::Magic => write!(
            f,
            "not a filter of this type, or damaged: invalid magic at offset {offset}; check where the bytes come from, \
             use an undamaged copy, or build the filter again from its keys"
        ),
        _ => write!(f, "damaged: invalid {field} at offset {offset}; {REBUILD}"),
    }
}

fn write_too_large(what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // A text with a semicolon is a whole message with its own next step.
    match what.contains("; ") {
        true => f.write_str(what),
        false => write!(f, "{what} of this size does not fit in memory; make it smaller, or free memory"),
    }
}

impl From<filterblock::Error> for Error {
    /// Converts `Io`, `InFile`, `Invalid` and `TooLarge` to the variants with these names. Wraps
    /// every other error in [`Error::Filter`].
    fn from(error: filterblock::Error) -> Self {
        match error {
            filterblock::Error::Io(error) => Self::Io(error),
            filterblock::Error::InFile { path, source } => Self::from(*source).in_file(&path),
            filterblock::Error::Invalid { what, given, reason } => Self::Invalid { what, given, reason },
            filterblock::Error::TooLarge { what } => Self::TooLarge { what },
            other => Self::Filter(other),
        }
    }
}

fields! {
    /// The fields of a filter that is sent or kept in a file. Error messages use these names.
    Length = "length",
    Magic = "magic",
    Version = "format version",
    FilterHeader = "filter header",
    Seed = "hash seed",
    NumKeys = "number of keys",
    Params = "filter parameters",
    PayloadLen = "payload length",
    Padding = "padding",
    Page = "page",
    CompressedBits = "compressed bits",
    Base64 = "base64 text",
}

#[cfg(test)]
mod tests;
