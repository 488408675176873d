//! What can go wrong with a filter that is open to changes. Each message says what is wrong, where, and what to do.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::codec;
use crate::error::{fields, message};

/// The result of every fallible call on the filters of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with a filter that is open to changes.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    Io(std::io::Error),
    /// An error met while working on `path`.
    InFile {
        /// The file or directory.
        path: PathBuf,
        /// What happened there.
        source: Box<Error>,
    },
    /// Bytes that no writer of this crate produces.
    Corrupt {
        /// The field that is not valid.
        field: Field,
        /// Where the field lies, in bytes from the start of the file, or of what was sent.
        offset: u64,
    },
    /// A stored checksum differs from the one computed over the bytes.
    ChecksumMismatch {
        /// What the checksum covers.
        field: Field,
        /// Where the covered bytes begin, from the start of the file, or of what was sent.
        offset: u64,
        /// The checksum found.
        stored: u32,
        /// The checksum of the bytes found.
        computed: u32,
    },
    /// Sound bytes written by a newer version, or with a feature that this build does not read.
    Unsupported {
        /// The field that holds the unknown value.
        field: Field,
        /// The value.
        found: u64,
    },
    /// The caller gave a value that is out of its documented range. Nothing was changed.
    Invalid {
        /// The argument.
        what: &'static str,
        /// The value as it was given, or what may be told of it.
        given: String,
        /// Why the value is refused, and which value works.
        reason: Cow<'static, str>,
    },
    /// What was asked for does not fit in this machine's memory, or its size in 64 bits.
    TooLarge {
        /// What was asked for.
        what: &'static str,
    },
    /// A key was to be removed that is certainly not there. Nothing was changed.
    KeyAbsent,
    /// A filter of fixed size has no room for another key. Nothing was changed.
    NoRoom {
        /// The keys it was made for.
        capacity: u64,
    },
    /// Two filters that differ in more than their keys cannot become one, nor be compared bit by bit.
    Unlike {
        /// In what they differ.
        what: &'static str,
        /// What the first has.
        left: String,
        /// What the second has.
        right: String,
    },
    /// A filter was to be changed that was opened for reading only.
    ReadOnly,
    /// Another process, or another handle in this one, has the file open for writing.
    Locked,
    /// Someone moved, removed, replaced, cut or overwrote the file of a filter that is open for writing. Keys inserted
    /// since it was opened may be in memory only.
    Displaced {
        /// What happened to the file.
        reason: &'static str,
    },
    /// The filter refuses writes since an earlier failure; opening the file again recovers.
    Poisoned {
        /// The failure.
        reason: String,
    },
    /// Nobody knows how many keys were added.
    LengthUnknown {
        /// Why.
        reason: &'static str,
    },
    /// A filter block that is merged, compared or written.
    Filter(crate::Error),
}

impl Error {
    /// An [`Error::Invalid`].
    pub(crate) fn invalid(what: &'static str, given: impl fmt::Display, reason: impl Into<Cow<'static, str>>) -> Self {
        let reason = reason.into();
        #[cfg(test)]
        assert!(reason.contains("; "), "what to do next? {what}: {reason}");
        Self::Invalid { what, given: given.to_string(), reason }
    }

    /// The same error with the file named that it concerns; an error that already names its file stays as it is.
    #[must_use]
    pub fn in_file(self, path: &Path) -> Self {
        match self {
            Self::InFile { .. } => self,
            other => Self::InFile { path: path.to_path_buf(), source: Box::new(other) },
        }
    }

    /// The error itself, without the names of the files around it.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::InFile { source, .. } => source.root(),
            other => other,
        }
    }

    /// Whether the bytes are of a newer version, or use a feature that this build does not read.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        match self.root() {
            Self::Unsupported { .. } => true,
            Self::Filter(error) => error.is_unsupported(),
            _ => false,
        }
    }

    /// Whether the bytes are damaged, or no writer of this crate made them.
    ///
    /// It is false for bytes of a newer version ([`Error::is_unsupported`]).
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self.root() {
            Self::Corrupt { .. } | Self::ChecksumMismatch { .. } => true,
            Self::Filter(error) => error.is_damage(),
            _ => false,
        }
    }
}

/// # Errors
/// [`Error::Unlike`] where two filters differ in `what`.
pub(super) fn check_equal<T: PartialEq + fmt::Display>(what: &'static str, left: T, right: T) -> Result<()> {
    if left == right {
        return Ok(());
    }
    Err(Error::Unlike { what, left: left.to_string(), right: right.to_string() })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REBUILD: &str = "restore a copy, or build the filter again from its keys";
        match self {
            Self::Io(error) => message::io(f, error),
            Self::InFile { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Corrupt { field, offset } => message::corrupt(f, field, *offset, REBUILD),
            Self::ChecksumMismatch { field, offset, stored, computed } => {
                message::checksum_mismatch(f, field, *offset, (*stored, *computed), REBUILD)
            }
            Self::Unsupported { field, found } => {
                write!(f, "{field} {found} is not supported by this version; open it with a newer one")
            }
            Self::Invalid { what, given, reason } => message::invalid(f, what, given, reason),
            Self::TooLarge { what } => message::too_large(f, what),
            Self::KeyAbsent => {
                f.write_str("the key is certainly not there, and nothing was changed; remove only keys that were added")
            }
            Self::NoRoom { capacity } => write!(
                f,
                "the filter, made for {capacity} keys, has no room for this key, and nothing was changed; make a \
                 larger filter"
            ),
            Self::Unlike { what, left, right } => write!(
                f,
                "the filters do not go together: {what} {left} in the first, {right} in the second; build both alike"
            ),
            Self::ReadOnly => f.write_str("the filter was opened for reading only; open it for writing to change it"),
            Self::Locked => f.write_str(
                "already open for writing elsewhere, in this process or another; close it there, or open it for \
                 reading",
            ),
            Self::Displaced { reason } => write!(
                f,
                "the filter's file {reason} while it was open for writing, and keys may be in memory only; put the \
                 file back and sync again, or copy the filter to a new file"
            ),
            Self::Poisoned { reason } => write!(
                f,
                "the filter refuses writes since an earlier failure ({reason}); open its file again to recover"
            ),
            Self::LengthUnknown { reason } => {
                write!(
                    f,
                    "the number of keys is unknown: {reason}; count them apart, or use to_bloom().estimated_keys()"
                )
            }
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

impl From<crate::Error> for Error {
    /// The errors that both have stay the same; the others concern a filter block.
    fn from(error: crate::Error) -> Self {
        match error {
            crate::Error::Io(error) => Self::Io(error),
            crate::Error::InFile { path, source } => Self::from(*source).in_file(&path),
            crate::Error::Invalid { what, given, reason } => Self::Invalid { what, given, reason },
            crate::Error::TooLarge { what } => Self::TooLarge { what },
            other => Self::Filter(other),
        }
    }
}

fields! {
    /// The fields of a filter that is sent or kept in a file, as errors name them.
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
