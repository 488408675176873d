//! Defines the errors of filters and filter blocks, and reports lack of memory as an error.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use crate::hash_kind::{Fingerprint, HashKind};
use crate::simd::NoMemory;

/// The result of a call that may fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a filter or a filter block.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a file or a memory map failed.
    Io(std::io::Error),
    /// An error that occurred while working on `path`.
    InFile {
        /// The file or directory.
        path: PathBuf,
        /// The error itself.
        source: Box<Error>,
    },
    /// The bytes have a wrong length or an invalid field. They may also be another partition than
    /// the expected one.
    Corrupt {
        /// The field that is not valid.
        field: Field,
        /// An offset at or near the fault, in bytes from the start of the block or file.
        offset: u64,
    },
    /// A stored checksum differs from the checksum of the bytes.
    ChecksumMismatch {
        /// The field that the checksum covers. [`Field::Checksum`] stands for the extension and the
        /// trailer.
        field: Field,
        /// The offset of the covered bytes, from the start of the block or file. For
        /// [`Field::Checksum`], the offset of the checksum itself.
        offset: u64,
        /// The stored checksum.
        stored: u32,
        /// The checksum of the bytes. For [`Field::Partition`] and [`Field::Ranges`], the checksum
        /// in the trailer of the partition or the range filter.
        computed: u32,
    },
    /// The bytes are of a newer version, or use a feature that this build does not read. An unknown
    /// version may also be damage.
    Unsupported {
        /// The field that holds the unknown value.
        field: Field,
        /// The unknown value. For [`Field::Extension`], the tag of the record.
        found: u64,
    },
    /// The bytes or the hasher are not the expected ones. For example, the block belongs to another
    /// SST, or another hash function hashed its keys.
    Unexpected {
        /// The field that differs.
        field: Field,
        /// The value in the bytes.
        found: String,
        /// The value that the caller expects.
        expected: String,
    },
    /// The hash function takes a secret, and the caller gave no secret, or another secret than the
    /// one that hashed the keys.
    Secret {
        /// The hash function that takes the secret.
        hash: HashKind,
        /// The fingerprint of the secret that hashed the keys, or `None` if it is not known.
        stored: Option<Fingerprint>,
        /// The fingerprint of the caller's secret, or `None` if the caller gave no secret.
        given: Option<Fingerprint>,
    },
    /// The called function refuses a value or the call, for example because a value is out of
    /// range.
    Invalid {
        /// The name of the argument, for example `"filter"` for a filter specification.
        what: &'static str,
        /// The value that the caller gave, or a description of the value or the call.
        given: String,
        /// The reason why the value is refused and, after a semicolon, what to do next.
        reason: Cow<'static, str>,
    },
    /// An object does not fit in the memory or address space of this machine, or its size does not
    /// fit in the fields of its format.
    TooLarge {
        /// The name of the object, for example "a filter block".
        what: &'static str,
    },
    /// A newly built filter denies keys that were added to it, for example because of broken
    /// memory.
    SelfCheckFailed {
        /// The number of hashes of added keys that the filter denies. For a range filter, the
        /// number of denied keys.
        denied: u64,
    },
}

impl Error {
    #[doc(hidden)]
    pub fn invalid(what: &'static str, given: impl fmt::Display, reason: impl Into<Cow<'static, str>>) -> Self {
        let reason = reason.into();
        #[cfg(test)]
        assert!(reason.contains("; "), "the reason must say after a semicolon what to do next: {what}: {reason}");
        Self::Invalid { what, given: given.to_string(), reason }
    }

    /// The offset is that of the object that the caller reads: see [`moved_by`](Self::moved_by).
    #[inline]
    pub(crate) const fn corrupt(field: Field) -> Self {
        Self::Corrupt { field, offset: 0 }
    }

    pub(crate) fn unexpected(field: Field, found: impl fmt::Display, expected: impl fmt::Display) -> Self {
        Self::Unexpected { field, found: found.to_string(), expected: expected.to_string() }
    }

    /// Returns a copy of the error. The copy of an I/O error has only the same kind and text,
    /// because `std::io::Error` is not `Clone`.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        match self {
            Self::Io(error) => Self::Io(std::io::Error::new(error.kind(), error.to_string())),
            Self::InFile { path, source } => Self::InFile { path: path.clone(), source: Box::new(source.duplicate()) },
            &Self::Corrupt { field, offset } => Self::Corrupt { field, offset },
            &Self::ChecksumMismatch { field, offset, stored, computed } => {
                Self::ChecksumMismatch { field, offset, stored, computed }
            }
            &Self::Unsupported { field, found } => Self::Unsupported { field, found },
            Self::Unexpected { field, found, expected } => {
                Self::Unexpected { field: *field, found: found.clone(), expected: expected.clone() }
            }
            &Self::Secret { hash, stored, given } => Self::Secret { hash, stored, given },
            Self::Invalid { what, given, reason } => {
                Self::Invalid { what, given: given.clone(), reason: reason.clone() }
            }
            &Self::TooLarge { what } => Self::TooLarge { what },
            &Self::SelfCheckFailed { denied } => Self::SelfCheckFailed { denied },
        }
    }

    /// Adds `base` to the offset of the error. `base` is the offset of the block within the host's
    /// file, in bytes. An error without an offset does not change, and neither does an
    /// [`Error::InFile`].
    #[must_use]
    pub fn moved_by(mut self, base: u64) -> Self {
        if let Self::Corrupt { offset, .. } | Self::ChecksumMismatch { offset, .. } = &mut self {
            *offset = offset.saturating_add(base);
        }
        self
    }

    /// Returns whether the reader lacks the secret, or has another secret, hash function or seed
    /// than the writer. Such an error does not mean damage.
    #[must_use]
    pub fn is_secret_mismatch(&self) -> bool {
        match self.root() {
            Self::Secret { .. } => true,
            Self::Unexpected { field, .. } => matches!(field, Field::HashId | Field::Seed),
            _ => false,
        }
    }

    /// Returns whether the bytes or the hasher are not the expected ones: [`Error::Unexpected`].
    #[must_use]
    pub fn is_unexpected(&self) -> bool {
        matches!(self.root(), Self::Unexpected { .. })
    }

    /// Returns whether the bytes are of a newer version, or use a feature that this build does not
    /// read.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self.root(), Self::Unsupported { .. })
    }

    /// Returns whether the bytes are damaged, truncated, not a filter block, or another partition
    /// than the expected one. For the compact form, also returns `true` if another hasher hashed
    /// the keys.
    ///
    /// Returns `false` for bytes of a newer version ([`Error::is_unsupported`]), which may be
    /// sound.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self.root(), Self::Corrupt { .. } | Self::ChecksumMismatch { .. })
    }
}

const REBUILD: &str = "answer without the filter, and build it again from its keys";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write_io(error, f),
            Self::InFile { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Corrupt { field: field @ Field::PartitionNumber, offset } => write!(
                f,
                "wrong {field} at offset {offset}: the bytes are not the expected filter or partition, or they are \
                 damaged; check which file and offset they were read from, or build the filter again"
            ),
            Self::Corrupt { field: Field::Magic, offset } => write!(
                f,
                "not a filter block, or damaged: invalid magic at offset {offset}; check which file and offset it was \
                 read from, or build the filter again from its keys"
            ),
            Self::Corrupt { field, offset } => write!(f, "damaged: invalid {field} at offset {offset}; {REBUILD}"),
            Self::ChecksumMismatch { field: field @ Field::CompactFilter, offset, stored, computed } => write!(
                f,
                "wrong checksum of {field} at offset {offset} (stored {stored:#010x}, computed {computed:#010x}): the \
                 bytes are damaged, or another hasher hashed the keys; {REBUILD}"
            ),
            Self::ChecksumMismatch { field, offset, stored, computed } => {
                let part = if *field == Field::Checksum { "trailer".to_owned() } else { field.to_string() };
                write!(
                    f,
                    "damaged: wrong checksum of {part} at offset {offset} (stored {stored:#010x}, computed \
                     {computed:#010x}); {REBUILD}"
                )
            }
            Self::Unsupported { field: field @ Field::Version, found } => write!(
                f,
                "{field} {found} is not supported by this version of filterblock: a newer version wrote the bytes, or \
                 they are damaged; open them with a newer version, or build the filter again"
            ),
            Self::Unsupported { field, found } => {
                write!(
                    f,
                    "{field}: the value {found} is not supported by this version of filterblock; open the block with a \
                     newer version"
                )
            }
            Self::Unexpected { field, found, expected } => write_unexpected(f, *field, found, expected),
            Self::Secret { hash, stored: Some(stored), given: Some(given) } => write!(
                f,
                "keys were hashed by {hash} under another secret (fingerprint {stored}; the given secret has \
                 the fingerprint {given}); give the secret that hashed the keys"
            ),
            Self::Secret { hash, stored: None, given: Some(given) } => write!(
                f,
                "keys were hashed by {hash} under another secret than the given one (fingerprint {given}); give the \
                 secret that hashed them"
            ),
            Self::Secret { hash, stored: Some(stored), given: None } => write!(
                f,
                "keys were hashed by {hash} under a secret; give the secret that hashed them (fingerprint {stored})"
            ),
            Self::Secret { hash, stored: None, given: None } => write!(
                f,
                "{hash} hashes keys under a secret; give the secret that hashed the keys, or 16 or 32 random bytes if \
                 there are no keys yet"
            ),
            Self::Invalid { what, given, reason } => write!(f, "invalid {what} {given:?}: {reason}"),
            Self::TooLarge { what } => {
                write!(f, "{what} of this size does not fit in memory; make it smaller, or free memory")
            }
            Self::SelfCheckFailed { denied } => write!(
                f,
                "the new filter denies {denied} of its own keys and was discarded; build it again, and test this \
                 machine's memory if it happens twice"
            ),
        }
    }
}

fn write_unexpected(f: &mut fmt::Formatter<'_>, field: Field, found: &str, expected: &str) -> fmt::Result {
    match field {
        Field::HashId | Field::Seed => write!(
            f,
            "{field} is {found}, but {expected} is expected: the keys were hashed with another hasher; answer \
             without the filter, or give the hash function and the seed that hashed its keys"
        ),
        Field::Flags => write!(
            f,
            "the filter holds {found}, but {expected} are expected; answer without the filter, or build it again with \
             the expected keys or prefixes"
        ),
        Field::Extension => write!(
            f,
            "the extractor {found} took the prefixes, but {expected} is expected; answer without the filter, or build \
             it again with the expected extractor"
        ),
        Field::Kind => write!(
            f,
            "{field} is {found}, but {expected} is expected; check which file and offset the block was read from, or \
             call the function for the kind of block that was found"
        ),
        _ => write!(
            f,
            "{field} is {found}, but {expected} is expected: this is not the expected block; answer without it, and \
             check which file and offset it was read from"
        ),
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

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// Writes the message of an I/O error: the error and the next step.
#[doc(hidden)]
pub fn write_io(error: &std::io::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use std::io::ErrorKind as Kind;
    let next = match error.kind() {
        // In these two kinds of errors, this project's crates say after a semicolon what to do.
        Kind::InvalidInput | Kind::InvalidData
            if error.get_ref().is_some_and(|text| text.to_string().contains("; ")) =>
        {
            return write!(f, "{error}");
        }
        Kind::NotFound | Kind::NotADirectory | Kind::IsADirectory | Kind::InvalidFilename => "check the path",
        Kind::PermissionDenied => "check the permissions",
        Kind::AlreadyExists => "choose another name",
        Kind::StorageFull | Kind::QuotaExceeded => "free disk space, and try again",
        Kind::FileTooLarge => "raise the limit of the file size, and try again",
        Kind::UnexpectedEof => "check that the file is complete, and try again",
        Kind::OutOfMemory => "free memory, and try again",
        Kind::InvalidData => "check the content of the file",
        Kind::ReadOnlyFilesystem => "choose a writable directory",
        _ => "check the device and the limits of the process, and try again",
    };
    write!(f, "{error}; {next}")
}

/// Returns a function that makes [`Error::TooLarge`] for the object `what`.
pub fn too_large(what: &'static str) -> impl Fn(NoMemory) -> Error {
    move |_| Error::TooLarge { what }
}

/// Allocates `len` default values.
///
/// # Errors
/// Returns [`Error::TooLarge`] for the object `what`.
pub fn zeros<T: Default>(len: u64, what: &'static str) -> Result<Vec<T>> {
    let len = usize::try_from(len).map_err(|_| Error::TooLarge { what })?;
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| Error::TooLarge { what })?;
    values.resize_with(len, T::default);
    Ok(values)
}

/// Makes the enum `Field` of the errors of a crate, and the parts of its enum `Error` that are the
/// same in each crate.
#[doc(hidden)]
#[macro_export]
macro_rules! fields {
    ($(#[$doc:meta])* $($name:ident = $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Field {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl std::fmt::Display for Field {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$name => $text,)* })
            }
        }

        impl From<$crate::internals::codec::Corrupt<Field>> for Error {
            fn from($crate::internals::codec::Corrupt { field, offset }: $crate::internals::codec::Corrupt<Field>) -> Self {
                Self::Corrupt { field, offset }
            }
        }

        impl Error {
            /// Adds the path of the file that the error concerns. An error that already names a
            /// file does not change.
            #[must_use]
            pub fn in_file(self, path: &std::path::Path) -> Self {
                match self {
                    Self::InFile { .. } => self,
                    other => Self::InFile { path: path.to_path_buf(), source: Box::new(other) },
                }
            }

            /// Returns the error itself, without the path that [`Error::in_file`] added.
            #[must_use]
            pub fn root(&self) -> &Self {
                match self {
                    Self::InFile { source, .. } => source.root(),
                    other => other,
                }
            }
        }
    };
}

fields! {
    /// The fields and parts of filter blocks that errors name.
    Length = "length",
    Magic = "magic",
    Version = "format version",
    Checksum = "checksum",
    TableId = "table id",
    Seed = "hash seed",
    NumKeys = "number of keys",
    PayloadLen = "payload length",
    PartitionNumber = "partition number",
    Params = "filter parameters",
    ExtensionLen = "extension length",
    Extension = "extension",
    Kind = "filter kind",
    HashId = "hash function",
    Flags = "flags",
    PageChecksums = "page checksums",
    Page = "page",
    PartitionIndex = "partition index",
    Partition = "partition",
    CompactFilter = "filter in compact form",
    Ranges = "range filter",
    Handle = "filter handle",
}

#[cfg(test)]
mod tests;
