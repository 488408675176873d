//! Defines the errors of this crate. Each message says what is wrong and what to do next. A message
//! about damage also says where, as far as the code knows it: file, field and offset.

use std::fmt;
use std::path::PathBuf;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a store, of an SST file or of a storage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An I/O error. The operating system reports it, or this crate does, for example for a missing
    /// SST file.
    #[error(fmt = write_io)]
    Io(#[from] std::io::Error),
    /// An error that concerns the file or directory `path`.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: Box<Error>,
    },
    /// The bytes are damaged, or belong to another file or store. An open reports a missing
    /// write-ahead log as damage, too, with [`Field::LogHeader`].
    #[error(fmt = write_corrupt)]
    Corrupt {
        /// The invalid field.
        field: Field,
        /// The offset of the field in bytes, from the start of the block or file. It is 0 if the
        /// damage concerns no particular offset.
        offset: u64,
    },
    /// The stored checksum differs from the computed one: the bytes are damaged, or belong to
    /// another place or file.
    #[error(
        "damaged: wrong checksum of {field} at offset {offset} (stored {stored:#010x}, computed {computed:#010x}); {REPAIR}"
    )]
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
    #[error("{field} {found} is not supported by this version of filterblock{}", next_of_unsupported(*field))]
    Unsupported {
        /// The field with the unknown value.
        field: Field,
        /// The unknown value.
        found: u64,
    },
    /// An argument is invalid, or an object would become too large.
    #[error("invalid {what}: {reason}")]
    InvalidArgument {
        /// The argument, or the object that would become too large.
        what: &'static str,
        /// The reason why the argument is refused, and what to do instead.
        reason: String,
    },
    /// A key is longer than the store or the SST writer accepts.
    #[error("the key has {len_bytes} bytes, and the limit is {max_bytes}; use a shorter key, or a hash of the key")]
    KeyTooLong {
        /// The length of the key in bytes.
        len_bytes: usize,
        /// The length of the longest accepted key in bytes.
        max_bytes: usize,
    },
    /// A key that was added to a writer is not greater than the key before it.
    #[error("the key is not greater than the key before it; add keys in strictly ascending order")]
    OutOfOrder,
    /// The directory holds no store, or it holds files although a new store or a checkpoint needs
    /// an empty or missing directory.
    #[error(
        "the directory holds no store, or holds files where an empty directory is needed; give another directory, or run \
         \"filterblock db repair\" if a store here has lost its file CURRENT"
    )]
    NotAStore,
    /// A file in the directory has the name of a store's file, but another program wrote it, or its
    /// content does not show who wrote it. The directory is not opened as a store.
    #[error(
        "{what}; the directory is not opened as a filterblock store, and no file was changed; give another directory, or, \
         if this is the directory of a store, move this file away and restore the store's own file of this name, if there \
         was one"
    )]
    ForeignFile {
        /// A description of the file.
        what: &'static str,
    },
    /// Another process, or another handle in this one, has the store open or holds the lock of the
    /// file.
    #[error("the store is already open in this process or in another one; close it there first")]
    Locked,
    /// The store, or the writer of a file, refuses writes after an earlier failure. Reopen the
    /// store, or create a new writer.
    #[error("writes are refused after an earlier failure ({reason}); reopen the store, or use a new writer")]
    Poisoned {
        /// The earlier failure.
        reason: String,
    },
    /// The free disk space is, or would become, less than the space that the store keeps free. The
    /// store keeps this space for deletes, for the log and for the compactions that free space. A
    /// refused batch was not written. A refused compaction left its input SSTs unchanged.
    #[error(
        "no space: {free_bytes} bytes are free on the disk, or would be free after the refused write, and {kept_bytes} bytes \
         must be free for the log, for deletes and for compactions; free disk space, or delete keys"
    )]
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
    #[error(
        "a background task failed ({reason}); no accepted write is lost, and the store tries the task again while it is open; \
         remove the cause"
    )]
    BackgroundFails {
        /// The failure of the background task.
        reason: String,
    },
    /// The store accepts no more writes, because its file numbers or sequence numbers are nearly
    /// used up. If too few file numbers are left for an open or a repair, it fails with this error.
    #[error(
        "the store accepts no more writes: {field} {last} is close to the largest possible one; {}",
        next_without_numbers(*field)
    )]
    OutOfNumbers {
        /// The kind of number: file number or sequence number.
        field: Field,
        /// The last number in use.
        last: u64,
    },
    /// An object does not fit in the memory or the address space of this machine.
    #[error("{what} of this size does not fit in memory; free memory, or use a machine with more memory")]
    TooLarge {
        /// The object.
        what: &'static str,
    },
    /// An error of a filter block, of a filter specification or of the hashing of keys.
    #[error(fmt = write_filter_error)]
    Filter(#[source] filterblock::Error),
}

impl Error {
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

fn write_io(error: &std::io::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // The text of an I/O error that this crate creates usually contains "; " and the next step.
    if error.get_ref().is_some_and(|own| own.to_string().contains("; ")) {
        return write!(f, "{error}");
    }
    match too_many_open(error) {
        Some(limit) => write!(f, "{error}; an open store keeps each of its SST files open, and {limit}"),
        None => write!(f, "{error}; {}", next_step(error.kind())),
    }
}

fn write_corrupt(field: &Field, offset: &u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match field {
        // The store reports a missing log as a log without a header.
        Field::LogHeader => write!(f, "damaged: the write-ahead log is missing or has no sound header; {REPAIR}"),
        // None of these fields begins a file, so an offset of 0 means no particular offset.
        Field::LogSequence | Field::FileNumber | Field::Level | Field::Properties if *offset == 0 => {
            write!(f, "damaged: invalid {field}; {REPAIR}")
        }
        _ => write!(f, "damaged: invalid {field} at offset {offset}; {REPAIR}"),
    }
}

fn next_of_unsupported(field: Field) -> &'static str {
    match field {
        Field::Version => {
            ": a newer version wrote the file, or the file is damaged; use a newer version, or restore from a backup"
        }
        _ => "; open the file with a newer version",
    }
}

fn next_without_numbers(field: Field) -> &'static str {
    match field {
        Field::FileNumber => {
            "if a file with such a number does not belong to the store, move it away and reopen the store; otherwise \
             copy the data to a new store"
        }
        _ => "copy the data to a new store",
    }
}

fn write_filter_error(error: &filterblock::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use filterblock::{Error as Core, Field as Part};
    let damage = match error {
        Core::Corrupt { field, offset } => format!("invalid {field} at offset {offset}"),
        Core::ChecksumMismatch { field, offset, stored, computed } => {
            let part = if *field == Part::Checksum { "trailer".to_owned() } else { field.to_string() };
            format!("wrong checksum of {part} at offset {offset} (stored {stored:#010x}, computed {computed:#010x})")
        }
        Core::Unexpected { field, found, expected } if error.is_secret_mismatch() => {
            return write!(
                f,
                "{field} is {found}, but {expected} is expected: the keys were hashed with another hasher; give the \
                 hash function and the seed of the store or SST file, or run \"filterblock db repair\""
            );
        }
        Core::Unexpected { field: Part::Flags, found, expected } => {
            format!("it holds {found}, but {expected} are expected")
        }
        Core::Unexpected { field, found, expected } => format!("{field} is {found}, but {expected} is expected"),
        _ => return write!(f, "{error}"),
    };
    write!(
        f,
        "filter block damaged: {damage}; no key is lost, because filters only save reads; run \"filterblock db repair\""
    )
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

filterblock::internals::fields! {
    /// A field of the file formats, named as in the format documents.
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
