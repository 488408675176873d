//! What can go wrong, named so that a reader of the message knows which file, which field and which offset.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::hash::{Fingerprint, HashKind};

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong.
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
        /// The field that does not hold.
        field: Field,
        /// Where it lies, in bytes from the start of the block or file.
        offset: u64,
    },
    /// A stored checksum differs from the one computed over the bytes.
    ChecksumMismatch {
        /// What the checksum covers.
        field: Field,
        /// Where the covered bytes begin, from the start of the block or file.
        offset: u64,
        /// The checksum found in the file.
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
    /// A filter specification that no filter can satisfy.
    InvalidSpec {
        /// The specification as it was given.
        spec: String,
        /// What a valid one looks like.
        reason: &'static str,
    },
    /// An argument outside its documented range.
    InvalidArgument {
        /// The argument.
        what: &'static str,
        /// The bound that it breaks.
        reason: String,
    },
    /// A filter that was just built denies keys that were added to it: broken memory or a defect. Nothing was written.
    SelfCheckFailed {
        /// How many of the added hashes it denies.
        denied: u64,
    },
    /// Keys were added to a writer out of order.
    OutOfOrder,
    /// Another process, or another handle in this one, has the store or the file open.
    Locked,
    /// The store refuses writes since an earlier failure; reopening it recovers.
    Poisoned {
        /// The failure.
        reason: String,
    },
    /// Keys were hashed under a secret, and none was given.
    SecretRequired {
        /// The function that takes it.
        hash: HashKind,
    },
    /// Keys were hashed under another secret than the one given.
    WrongSecret {
        /// The function that takes it.
        hash: HashKind,
        /// The fingerprint of the secret that is wanted.
        stored: Fingerprint,
        /// The fingerprint of the secret given.
        given: Fingerprint,
    },
    /// Sound bytes, but of another table, other keys or another hasher than the caller expects.
    Unexpected {
        /// The field that differs.
        field: Field,
        /// What the bytes have.
        found: String,
        /// What the caller expects.
        expected: String,
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
    /// Someone moved, removed, replaced, cut or overwrote the file of a filter that is open for writing. Keys inserted
    /// since it was opened may be in memory only.
    Displaced {
        /// What happened to the file.
        reason: &'static str,
    },
    /// Nobody knows how many keys were added.
    LengthUnknown {
        /// Why.
        reason: &'static str,
    },
}

impl Error {
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

    /// The same error, with its offset counted from the start of a file in which the block begins at `base`.
    #[must_use]
    pub fn moved_by(mut self, base: u64) -> Self {
        if let Self::Corrupt { offset, .. } | Self::ChecksumMismatch { offset, .. } = &mut self {
            *offset = offset.saturating_add(base);
        }
        self
    }

    /// Whether the bytes may be sound, but the reader lacks the secret or has another hasher.
    #[must_use]
    pub fn is_secret_mismatch(&self) -> bool {
        match self.root() {
            Self::SecretRequired { .. } | Self::WrongSecret { .. } => true,
            Self::Unexpected { field, .. } => matches!(field, Field::HashId | Field::Seed),
            _ => false,
        }
    }

    /// Whether the bytes are sound, but not what the caller expects. That is no damage.
    #[must_use]
    pub fn is_unexpected(&self) -> bool {
        matches!(self.root(), Self::Unexpected { .. })
    }

    /// Whether the bytes are of a newer version, or use a feature that this build does not read.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self.root(), Self::Unsupported { .. })
    }

    /// Whether the bytes are damaged, or no writer of this crate made them.
    ///
    /// It is false for bytes of a newer version ([`Error::is_unsupported`]): they are sound, and a repair would destroy them.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self.root(), Self::Corrupt { .. } | Self::ChecksumMismatch { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::InFile { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Corrupt { field, offset } => write!(f, "damaged: {field} at offset {offset} does not hold"),
            Self::ChecksumMismatch { field, offset, stored, computed } => write!(
                f,
                "damaged: checksum of {field} at offset {offset} is {computed:#010x}, the file says {stored:#010x}"
            ),
            Self::Unsupported { field: field @ Field::Version, found } => write!(
                f,
                "{field} {found} is not supported by this version: a newer version wrote the bytes, or they are damaged"
            ),
            Self::Unsupported { field, found } => {
                write!(f, "{field} {found} is not supported by this version; a newer one may read it")
            }
            Self::InvalidSpec { spec, reason } => write!(f, "invalid filter {spec:?}: {reason}"),
            Self::InvalidArgument { what, reason } => write!(f, "invalid {what}: {reason}"),
            Self::SelfCheckFailed { denied } => {
                write!(f, "the new filter denies {denied} of its own keys; nothing was written (faulty memory?)")
            }
            Self::OutOfOrder => write!(f, "keys must be added in strictly ascending order"),
            Self::Locked => write!(f, "already open elsewhere, in this process or another"),
            Self::Poisoned { reason } => {
                write!(f, "the store refuses writes since an earlier failure ({reason}); reopen it to recover")
            }
            Self::SecretRequired { hash } => {
                write!(f, "keys were hashed by {hash} under a secret; give the secret that wrote them")
            }
            Self::WrongSecret { hash, stored, given } => write!(
                f,
                "keys were hashed by {hash} under another secret (fingerprint {stored}, that of the given secret is \
                 {given}); give the secret that wrote them"
            ),
            Self::Unexpected { field, found, expected } => {
                write!(
                    f,
                    "{field} is {found}, but {expected} is expected; the bytes are sound: open them as what they are"
                )
            }
            Self::TooLarge { what } => write!(f, "{what} of this size does not fit in memory"),
            Self::KeyAbsent => write!(f, "the key to remove is certainly not there; nothing was changed"),
            Self::NoRoom { capacity } => {
                write!(f, "the filter, made for {capacity} keys, has no room for this one; nothing was changed")
            }
            Self::Unlike { what, left, right } => {
                write!(f, "the filters do not go together: {what} {left} in the first, {right} in the second")
            }
            Self::ReadOnly => write!(f, "the filter was opened for reading only"),
            Self::Displaced { reason } => write!(
                f,
                "the filter's file {reason} while it was open for writing, and keys may be in memory only; put the file \
                 back and sync again, or copy the filter to a new file"
            ),
            Self::LengthUnknown { reason } => write!(f, "the number of keys is unknown: {reason}"),
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

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The fields of the crate's formats, as errors and the format documents name them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Field {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl fmt::Display for Field {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $text,)* })
            }
        }
    };
}

fields! {
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
    DataBlock = "data block",
    IndexBlock = "index block",
    FilterBlock = "filter block",
    Properties = "properties",
    Footer = "footer",
    Handle = "block handle",
    Restarts = "restart points",
    Entry = "entry",
    Key = "key",
    Value = "value",
    Varint = "varint",
    Compression = "compression",
    LogRecord = "log record",
    LogSequence = "sequence number",
    Batch = "write batch",
    ManifestRecord = "manifest record",
    ManifestTag = "manifest tag",
    CurrentFile = "current manifest name",
    FileNumber = "file number",
    Level = "level",
    LogHeader = "log header",
    StoreId = "store id",
    Padding = "padding",
    // Files of other engines.
    Metaindex = "metaindex block",
    ChecksumKind = "checksum type",
    BaseContext = "base of the context checksums",
    BlockFeatures = "features of a block",
    IndexKind = "index type",
    UserDefinedIndex = "user-defined index",
    FileMetadata = "file metadata",
    // Of the filters of other engines.
    FilterHeader = "filter header",
    // Of mutable filters that are sent or kept in a file.
    CompressedBits = "compressed bits",
    Base64 = "base64 text",
}
