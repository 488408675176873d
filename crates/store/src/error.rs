//! What can go wrong in a store. Each message says what is wrong, in which file, field and offset, and what to do next.

use std::fmt;
use std::path::{Path, PathBuf};

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
    /// An argument outside its documented range.
    InvalidArgument {
        /// The argument.
        what: &'static str,
        /// The bound that it breaks.
        reason: String,
    },
    /// A key longer than the store accepts.
    KeyTooLong {
        /// Its length.
        len_bytes: usize,
        /// The longest accepted.
        max_bytes: usize,
    },
    /// Keys were added to a writer out of order.
    OutOfOrder,
    /// The directory holds files, but no store.
    NotAStore,
    /// A file has the name of a store's file, and no store wrote it; the directory is not taken for a store. Nothing was
    /// changed.
    ForeignFile {
        /// What the file is.
        what: &'static str,
    },
    /// Another process, or another handle in this one, has the store or the file open.
    Locked,
    /// The store refuses writes since an earlier failure; reopening it recovers.
    Poisoned {
        /// The failure.
        reason: String,
    },
    /// So little is free on the disk that what is left is kept for deletions, and for the merges that make room. Nothing
    /// was written.
    NoSpace {
        /// What is free.
        free_bytes: u64,
        /// What is kept free.
        kept_bytes: u64,
    },
    /// Work in the background fails for a reason that may pass, and is tried again. From a write: memory is full until
    /// it succeeds, and nothing was written.
    BackgroundFails {
        /// The failure.
        reason: String,
    },
    /// The store takes no more writes, since the numbers that it gives out come to their end.
    OutOfNumbers {
        /// Which numbers.
        field: Field,
        /// The last one given out.
        last: u64,
    },
    /// What was asked for does not fit in this machine's memory, or its size in 64 bits.
    TooLarge {
        /// What was asked for.
        what: &'static str,
    },
    /// The filter block of an SST file, its specification, or the hashing of keys.
    Filter(filterblock::Error),
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

    /// Whether the bytes may well be sound, but the reader lacks the secret or has another one.
    #[must_use]
    pub fn is_secret_mismatch(&self) -> bool {
        matches!(self.root(), Self::Filter(error) if error.is_secret_mismatch())
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
    /// It is false for bytes of a newer version ([`Error::is_unsupported`]): they are sound, and a repair would destroy them.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self.root() {
            Self::Corrupt { .. } | Self::ChecksumMismatch { .. } => true,
            // The filter of a table lies in the table's own file: another table's filter there is damage of the file.
            Self::Filter(error) => error.is_damage() || (error.is_unexpected() && !error.is_secret_mismatch()),
            _ => false,
        }
    }
}

/// What to do about a damaged file.
const REPAIR: &str = "repair the store with `filterblock db repair`, or restore a copy";

/// What to do about an error of the operating system.
fn next_step(kind: std::io::ErrorKind) -> &'static str {
    use std::io::ErrorKind as Kind;
    match kind {
        Kind::NotFound => "check the path",
        Kind::PermissionDenied => "check who may read and write it",
        Kind::AlreadyExists => "choose another name, or remove it first",
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => "make room, and try again",
        Kind::OutOfMemory => "free memory, and try again",
        _ => "check the device and its limits, and try again",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}; {}", next_step(error.kind())),
            Self::InFile { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Corrupt { field, offset } => write!(f, "damaged: invalid {field} at offset {offset}; {REPAIR}"),
            Self::ChecksumMismatch { field, offset, stored, computed } => write!(
                f,
                "damaged: wrong checksum of {field} at offset {offset} (stored {stored:#010x}, computed \
                 {computed:#010x}); {REPAIR}"
            ),
            Self::Unsupported { field: field @ Field::Version, found } => write!(
                f,
                "{field} {found} is not supported by this version: a newer version wrote the bytes, or they are \
                 damaged; open them with that version"
            ),
            Self::Unsupported { field, found } => {
                write!(f, "{field} {found} is not supported by this version; open it with a newer one")
            }
            Self::InvalidArgument { what, reason } => write!(f, "invalid {what}: {reason}"),
            Self::KeyTooLong { len_bytes, max_bytes } => {
                write!(
                    f,
                    "a key of {len_bytes} bytes is longer than the {max_bytes} allowed; give a shorter key, or its hash"
                )
            }
            Self::OutOfOrder => {
                f.write_str("a key does not come after the one before it; add keys in strictly ascending order")
            }
            Self::NotAStore => f.write_str(
                "the directory is not empty and holds no store; name the store's directory, or an empty one",
            ),
            Self::ForeignFile { what } => {
                write!(
                    f,
                    "{what}; the directory is not taken for a filterblock store, and nothing was changed; name another"
                )
            }
            Self::Locked => f.write_str("already open elsewhere, in this process or another; close it there first"),
            Self::Poisoned { reason } => {
                write!(f, "the store refuses writes since an earlier failure ({reason}); reopen it to recover")
            }
            Self::NoSpace { free_bytes, kept_bytes } => write!(
                f,
                "no space: {free_bytes} bytes are free on the disk, and {kept_bytes} are kept free; delete keys, which \
                 is not refused, or make room on the disk"
            ),
            Self::BackgroundFails { reason } => write!(
                f,
                "work in the background fails ({reason}); nothing is lost, it is tried again, and the store goes on \
                 when it succeeds; remove the cause, or wait"
            ),
            Self::OutOfNumbers { field, last } => write!(
                f,
                "the store takes no more writes: {field} {last} is near the last there is; copy its pairs to a new \
                 store"
            ),
            Self::TooLarge { what } => {
                write!(f, "{what} of this size does not fit in memory; make it smaller, or free memory")
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

impl From<filterblock::Error> for Error {
    /// The errors that both crates have stay the same; the others concern filters.
    fn from(error: filterblock::Error) -> Self {
        match error {
            filterblock::Error::Io(error) => Self::Io(error),
            filterblock::Error::InFile { path, source } => Self::from(*source).in_file(&path),
            other => Self::Filter(other),
        }
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
    HashId = "hash function",
    Flags = "flags",
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
}

#[cfg(test)]
mod tests;
