//! Defines the errors of this crate. Each message says what is wrong and what to do next. A message
//! about damage also says where, as far as the code knows it: file, field and offset.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a store, of an SST file or of a storage.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An I/O error. The operating system reports it, or this crate does, for example for a missing
    /// SST file.
    Io(std::io::Error),
    /// An error that concerns the file or directory `path`.
    InFile {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: Box<Error>,
    },
    /// The bytes are damaged, or belong to another file or store. An open reports a missing
    /// write-ahead log as damage, too, with [`Field::LogHeader`].
    Corrupt {
        /// The invalid field.
        field: Field,
        /// The offset of the field in bytes, from the start of the block or file. It is 0 if the
        /// damage concerns no particular offset.
        offset: u64,
    },
    /// The stored checksum differs from the computed one: the bytes are damaged, or belong to
    /// another place or file.
    ChecksumMismatch {
        /// The part of the file that the checksum covers.
        field: Field,
        /// The offset in bytes at which the covered bytes begin, from the start of the block or
        /// file.
        offset: u64,
        /// The checksum found in the file.
        stored: u32,
        /// The checksum computed from the bytes.
        computed: u32,
    },
    /// The bytes have a format version or use a feature that this build does not read. A newer
    /// version wrote them, or they are damaged.
    Unsupported {
        /// The field with the unknown value.
        field: Field,
        /// The unknown value.
        found: u64,
    },
    /// An argument is invalid, or an object would become too large.
    InvalidArgument {
        /// The argument, or the object that would become too large.
        what: &'static str,
        /// The reason why the argument is refused, and what to do instead.
        reason: String,
    },
    /// A key is longer than the store or the SST writer accepts.
    KeyTooLong {
        /// The length of the key in bytes.
        len_bytes: usize,
        /// The length of the longest accepted key in bytes.
        max_bytes: usize,
    },
    /// A key that was added to a writer is not greater than the key before it.
    OutOfOrder,
    /// The directory holds no store, or it holds files although a new store or a checkpoint needs
    /// an empty or missing directory.
    NotAStore,
    /// A file in the directory has the name of a store's file, but another program wrote it, or its
    /// content does not show who wrote it. The directory is not opened as a store.
    ForeignFile {
        /// A description of the file.
        what: &'static str,
    },
    /// Another process, or another handle in this one, has the store open or holds the lock of the
    /// file.
    Locked,
    /// The store, or the writer of a file, refuses writes after an earlier failure. Reopen the
    /// store, or create a new writer.
    Poisoned {
        /// The earlier failure.
        reason: String,
    },
    /// The free disk space is, or would become, less than the space that the store keeps free. The
    /// store keeps this space for deletes, for the log and for the compactions that free space. A
    /// refused batch was not written. A refused compaction left its input SSTs unchanged.
    NoSpace {
        /// The free disk space in bytes. If a flush or a compaction was refused, this is the space
        /// that its new SSTs would leave free.
        free_bytes: u64,
        /// The space in bytes that must be free before the batch, or stay free after the new SSTs.
        kept_bytes: u64,
    },
    /// A background task failed for a reason that may be temporary, and the store retries it. A
    /// write returns this error only if it would have to wait for room while flushes fail. The
    /// refused batch was not written.
    BackgroundFails {
        /// The failure of the background task.
        reason: String,
    },
    /// The store accepts no more writes, because its file numbers or sequence numbers are nearly
    /// used up. If too few file numbers are left for an open or a repair, it fails with this error.
    OutOfNumbers {
        /// The kind of number: file number or sequence number.
        field: Field,
        /// The last number in use.
        last: u64,
    },
    /// An object does not fit in the memory or the address space of this machine.
    TooLarge {
        /// The object.
        what: &'static str,
    },
    /// An error of a filter block, of a filter specification or of the hashing of keys.
    Filter(filterblock::Error),
}

impl Error {
    /// Adds the path of the file or directory that the error concerns. An error that already has a
    /// path stays unchanged.
    #[must_use]
    pub fn in_file(self, path: &Path) -> Self {
        match self {
            Self::InFile { .. } => self,
            other => Self::InFile { path: path.to_path_buf(), source: Box::new(other) },
        }
    }

    /// Adds the number of a store's SST files to the error for too many open files.
    pub(crate) fn with_num_tables(self, num_tables: usize) -> Self {
        match self {
            Self::InFile { path, source } => source.with_num_tables(num_tables).in_file(&path),
            Self::Io(error) if too_many_open(&error).is_some() => {
                let (kind, text) = (error.kind(), Self::Io(error).to_string());
                Self::Io(std::io::Error::new(kind, format!("{text}; the store has {num_tables} SST files")))
            }
            other => other,
        }
    }

    /// Returns the error without the [`Error::InFile`] layers around it.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::InFile { source, .. } => source.root(),
            other => other,
        }
    }

    /// Returns whether the reader lacks the secret, or has another secret, hash kind or hash seed
    /// than the writer. The bytes themselves may be sound.
    #[must_use]
    pub fn is_secret_mismatch(&self) -> bool {
        matches!(self.root(), Self::Filter(error) if error.is_secret_mismatch())
    }

    /// Returns whether the bytes have a format version or use a feature that this build does not
    /// read.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        match self.root() {
            Self::Unsupported { .. } => true,
            Self::Filter(error) => error.is_unsupported(),
            _ => false,
        }
    }

    /// Returns whether the bytes are damaged, or belong to another file or store.
    ///
    /// Returns `false` for bytes of a newer version ([`Error::is_unsupported`]). Such bytes may be
    /// sound.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self.root() {
            Self::Corrupt { .. } | Self::ChecksumMismatch { .. } => true,
            // The filter lies in the SST file itself, so a filter of another SST means that the
            // file is damaged.
            Self::Filter(error) => error.is_damage() || (error.is_unexpected() && !error.is_secret_mismatch()),
            _ => false,
        }
    }
}

const REPAIR: &str = "run \"filterblock db repair\" on the store, or restore from a backup";

const REPAIR_FILTER: &str = "no key is lost, because filters only save reads; run \"filterblock db repair\"";

fn next_step(kind: std::io::ErrorKind) -> &'static str {
    use std::io::ErrorKind as Kind;
    match kind {
        Kind::NotFound => "check the path, or restore from a backup",
        Kind::NotADirectory | Kind::IsADirectory | Kind::InvalidFilename => "check the path",
        Kind::PermissionDenied => "check the permissions",
        Kind::AlreadyExists => "move the existing file away, or choose another name",
        Kind::StorageFull | Kind::QuotaExceeded => "free disk space, and try again",
        Kind::FileTooLarge => "raise the limit of the file size, and try again",
        Kind::OutOfMemory => "free memory, and try again",
        Kind::ReadOnlyFilesystem => "choose a writable directory",
        _ => "check the device and the limits of the process, and try again",
    }
}

/// Returns the limit of open files and the next step if the process has reached the limit.
fn too_many_open(error: &std::io::Error) -> Option<String> {
    #[cfg(unix)]
    if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let limit = limit.map_or_else(|| "a limited number of".to_owned(), |limit| limit.to_string());
        return Some(format!("this process may open {limit} files; raise the limit (ulimit -n)"));
    }
    let _ = error;
    None
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The text of an I/O error that this crate creates usually contains "; " and the next
            // step.
            Self::Io(error) if error.get_ref().is_some_and(|own| own.to_string().contains("; ")) => {
                write!(f, "{error}")
            }
            Self::Io(error) => match too_many_open(error) {
                Some(limit) => write!(f, "{error}; an open store keeps each of its SST files open, and {limit}"),
                None => write!(f, "{error}; {}", next_step(error.kind())),
            },
            Self::InFile { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Corrupt { field, offset } => write_corrupt(f, *field, *offset),
            Self::ChecksumMismatch { field, offset, stored, computed } => {
                write_mismatch(f, "damaged", field, *offset, (*stored, *computed), REPAIR)
            }
            Self::Unsupported { field, found } => write_unsupported(f, field, *found),
            Self::InvalidArgument { what, reason } => write!(f, "invalid {what}: {reason}"),
            Self::KeyTooLong { len_bytes, max_bytes } => write!(
                f,
                "the key has {len_bytes} bytes, and the limit is {max_bytes}; use a shorter key, or a hash of the key"
            ),
            Self::OutOfOrder => {
                f.write_str("the key is not greater than the key before it; add keys in strictly ascending order")
            }
            Self::NotAStore => f.write_str(
                "the directory holds no store, or holds files where an empty directory is needed; give another \
                 directory, or run \"filterblock db repair\" if a store here has lost its file CURRENT",
            ),
            Self::ForeignFile { what } => write!(
                f,
                "{what}; the directory is not opened as a filterblock store, and no file was changed; give another \
                 directory, or, if this is the directory of a store, move this file away and restore the store's own \
                 file of this name, if there was one"
            ),
            Self::Locked => {
                f.write_str("the store is already open in this process or in another one; close it there first")
            }
            Self::Poisoned { reason } => {
                write!(
                    f,
                    "writes are refused after an earlier failure ({reason}); reopen the store, or use a new writer"
                )
            }
            Self::NoSpace { free_bytes, kept_bytes } => write!(
                f,
                "no space: {free_bytes} bytes are free on the disk, or would be free after the refused write, and \
                 {kept_bytes} bytes must be free for the log, for deletes and for compactions; free disk space, or \
                 delete keys"
            ),
            Self::BackgroundFails { reason } => write!(
                f,
                "a background task failed ({reason}); no accepted write is lost, and the store tries the task again \
                 while it is open; remove the cause"
            ),
            Self::OutOfNumbers { field, last } => write_out_of_numbers(f, field, *last),
            Self::TooLarge { what } => {
                write!(f, "{what} of this size does not fit in memory; free memory, or use a machine with more memory")
            }
            Self::Filter(error) => write_filter_error(f, error),
        }
    }
}

fn write_unsupported(f: &mut fmt::Formatter<'_>, field: &Field, found: u64) -> fmt::Result {
    let reason = match field {
        Field::Version => {
            ": a newer version wrote the file, or the file is damaged; use a newer version, or restore from a backup"
        }
        _ => "; open the file with a newer version",
    };
    write!(f, "{field} {found} is not supported by this version of filterblock{reason}")
}

fn write_out_of_numbers(f: &mut fmt::Formatter<'_>, field: &Field, last: u64) -> fmt::Result {
    let next_step = match field {
        Field::FileNumber => {
            "if a file with such a number does not belong to the store, move it away and reopen the store; otherwise \
             copy the data to a new store"
        }
        _ => "copy the data to a new store",
    };
    write!(f, "the store accepts no more writes: {field} {last} is close to the largest possible one; {next_step}")
}

fn write_filter_error(f: &mut fmt::Formatter<'_>, error: &filterblock::Error) -> fmt::Result {
    use filterblock::Error as Core;
    const DAMAGED: &str = "filter block damaged";
    match error {
        Core::Corrupt { field, offset } => write_invalid(f, DAMAGED, field, *offset, REPAIR_FILTER),
        Core::ChecksumMismatch { field: filterblock::Field::Checksum, offset, stored, computed } => {
            write_mismatch(f, DAMAGED, &"trailer", *offset, (*stored, *computed), REPAIR_FILTER)
        }
        Core::ChecksumMismatch { field, offset, stored, computed } => {
            write_mismatch(f, DAMAGED, field, *offset, (*stored, *computed), REPAIR_FILTER)
        }
        Core::Unexpected { field, found, expected } if error.is_secret_mismatch() => write!(
            f,
            "{field} is {found}, but {expected} is expected: the keys were hashed with another hasher; give the hash \
             function and the seed of the store or SST file, or run \"filterblock db repair\""
        ),
        Core::Unexpected { field: filterblock::Field::Flags, found, expected } => {
            write!(f, "{DAMAGED}: it holds {found}, but {expected} are expected; {REPAIR_FILTER}")
        }
        Core::Unexpected { field, found, expected } => {
            write!(f, "{DAMAGED}: {field} is {found}, but {expected} is expected; {REPAIR_FILTER}")
        }
        _ => write!(f, "{error}"),
    }
}

fn write_corrupt(f: &mut fmt::Formatter<'_>, field: Field, offset: u64) -> fmt::Result {
    match field {
        // The store reports a missing log as a log without a header.
        Field::LogHeader => write!(f, "damaged: the write-ahead log is missing or has no sound header; {REPAIR}"),
        // None of these fields begins a file, so an offset of 0 means no particular offset.
        Field::LogSequence | Field::FileNumber | Field::Level | Field::Properties if offset == 0 => {
            write!(f, "damaged: invalid {field}; {REPAIR}")
        }
        _ => write_invalid(f, "damaged", &field, offset, REPAIR),
    }
}

fn write_invalid(
    f: &mut fmt::Formatter<'_>,
    damage: &str,
    field: &dyn fmt::Display,
    offset: u64,
    next_step: &str,
) -> fmt::Result {
    write!(f, "{damage}: invalid {field} at offset {offset}; {next_step}")
}

fn write_mismatch(
    f: &mut fmt::Formatter<'_>,
    damage: &str,
    field: &dyn fmt::Display,
    offset: u64,
    (stored, computed): (u32, u32),
    next_step: &str,
) -> fmt::Result {
    write!(
        f,
        "{damage}: wrong checksum of {field} at offset {offset} (stored {stored:#010x}, computed {computed:#010x}); \
         {next_step}"
    )
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
    /// Converts `Io`, `InFile` and `TooLarge` to the variants of this crate, and wraps all others
    /// in [`Error::Filter`].
    fn from(error: filterblock::Error) -> Self {
        match error {
            filterblock::Error::Io(error) => Self::Io(error),
            filterblock::Error::InFile { path, source } => Self::from(*source).in_file(&path),
            filterblock::Error::TooLarge { what } => Self::TooLarge { what },
            other => Self::Filter(other),
        }
    }
}

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A field of the file formats, named as in the format documents.
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
