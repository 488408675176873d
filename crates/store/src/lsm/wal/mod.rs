//! Writes checksummed records to an append-only file. The write-ahead log and the manifest use this
//! format.
//!
//! ```text
//! header (48)  magic 8 | version 4 | number 8 | store id 16 | first sequence 8 | CRC 4
//! record       payload length 4 | sequence 8 | synced length 8 | CRC 4 | payload
//! ```
//!
//! The CRC of a record also covers the first 36 bytes of the header. So a record of another log is
//! not accepted in this log. Each record says how much of the file was durable when the record was
//! appended. The reader uses this to distinguish a crash from damage: a crash may lose any sectors
//! that were never synced, but no others (see [`crate::lsm::wal::log_reader`]).

pub(crate) mod batch;
pub(crate) mod log_reader;
pub(crate) mod logged_writes;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::checksum::Crc32;
use crate::codec::{Cursor, put_u32, put_u64};
use crate::error::{Error, Field, Result};
use crate::lsm::files::is_taken;
use crate::storage::{Storage, WriteFile};

/// The length of the header of a file.
pub const HEADER_LEN_BYTES: usize = 48;

/// The length of the header of a record.
pub const RECORD_HEADER_LEN_BYTES: usize = 24;

/// The format version that this code writes, and the only one that it reads.
pub const LOG_VERSION: u32 = 1;

/// The size of the buffer in which records are collected before they go to the operating system. If
/// a part of a payload is longer than the buffer, this part bypasses the buffer.
const BUFFER_LEN_BYTES: usize = 64 << 10;

/// The kind of a log: what its records hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogKind {
    /// Write batches.
    WriteAhead,
    /// Version edits.
    Manifest,
}

impl LogKind {
    /// Returns the first eight bytes of the file. They contain a line ending, so a file that was
    /// transferred in text mode is detected.
    #[must_use]
    pub fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::WriteAhead => b"fb-log\r\n",
            Self::Manifest => b"fb-man\r\n",
        }
    }
}

/// Identifies one log of one store. Every checksum in the log covers this identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogId {
    /// The content of the log's records.
    pub kind: LogKind,
    /// The store that the log belongs to. Zeros in a manifest: the first edit of a manifest names
    /// the store.
    pub store_id: [u8; 16],
    /// The number in the file name.
    pub number: u64,
}

impl LogId {
    /// Returns the first 36 bytes of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_LEN_BYTES);
        bytes.extend_from_slice(self.kind.magic());
        put_u32(&mut bytes, LOG_VERSION);
        put_u64(&mut bytes, self.number);
        bytes.extend_from_slice(&self.store_id);
        bytes
    }

    /// Returns the checksum state that the checksum of every record starts from.
    pub(crate) fn checksum(&self) -> Crc32 {
        Crc32::new().with(&self.encode())
    }
}

/// The header of a log file whose checksum is right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogHeader {
    magic: [u8; 8],
    version: u32,
    number: u64,
    pub(crate) store_id: [u8; 16],
    pub(crate) first_sequence: u64,
}

impl LogHeader {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, 0);
        let header = Self {
            magic: cursor.take_array(Field::Length)?,
            version: cursor.take_u32(Field::Length)?,
            number: cursor.take_u64(Field::Length)?,
            store_id: cursor.take_array(Field::Length)?,
            first_sequence: cursor.take_u64(Field::Length)?,
        };
        let stored = cursor.take_u32(Field::Length)?;
        let covered = bytes.get(..HEADER_LEN_BYTES - 4).unwrap_or_default();
        let computed = Crc32::new().with(covered).finish();
        if stored != computed {
            return Err(Error::ChecksumMismatch { field: Field::LogHeader, offset: 0, stored, computed });
        }
        Ok(header)
    }

    fn check(&self, id: LogId) -> Result<()> {
        if self.magic != *id.kind.magic() {
            return Err(Error::Corrupt { field: Field::Magic, offset: 0 });
        }
        if self.version != LOG_VERSION {
            return Err(Error::Unsupported { field: Field::Version, found: self.version.into() });
        }
        if self.number != id.number {
            return Err(Error::Corrupt { field: Field::FileNumber, offset: 12 });
        }
        if self.store_id != id.store_id {
            return Err(Error::Corrupt { field: Field::StoreId, offset: 20 });
        }
        Ok(())
    }
}

/// Appends records to one file.
#[derive(Debug)]
pub struct LogWriter {
    file: Box<dyn WriteFile>,
    path: PathBuf,
    id_checksum: Crc32,
    buffer: Vec<u8>,
    /// Length of the durable part of the file.
    synced_len_bytes: u64,
    /// The lowest sequence number that the next record may have.
    next_sequence: u64,
    /// The reason why the log refuses all calls. After a failure, the end of the file is unknown.
    failure: Option<Cow<'static, str>>,
}

impl LogWriter {
    /// Creates the file. Its header stays in the buffer until the buffer is written. The first
    /// record must begin at `first_sequence`.
    ///
    /// # Errors
    /// Returns an I/O error if the file exists or cannot be created. If the creation fails halfway,
    /// the function tries to remove the file.
    pub fn create(storage: &dyn Storage, path: &Path, id: LogId, first_sequence: u64) -> Result<Self> {
        let file = storage.create(path).inspect_err(|error| remove_unless_found(storage, path, error))?;
        let mut buffer = Vec::with_capacity(BUFFER_LEN_BYTES);
        buffer.extend_from_slice(&id.encode());
        put_u64(&mut buffer, first_sequence);
        let checksum = Crc32::new().with(&buffer).finish();
        put_u32(&mut buffer, checksum);
        let path = path.to_path_buf();
        let next_sequence = first_sequence;
        Ok(Self { file, path, id_checksum: id.checksum(), buffer, synced_len_bytes: 0, next_sequence, failure: None })
    }

    /// Returns a placeholder that refuses every append, flush and sync. It is used until the log is
    /// created.
    pub(crate) fn none() -> Self {
        let id_checksum = Crc32::new();
        let (path, failure) = (PathBuf::new(), Some(Cow::Borrowed("the log is not created yet")));
        Self {
            file: Box::new(NoFile),
            path,
            id_checksum,
            buffer: Vec::new(),
            synced_len_bytes: 0,
            next_sequence: 0,
            failure,
        }
    }

    /// Appends one record whose payload is the concatenation of `parts`. Until [`Self::flush`], the
    /// record may be only in the memory of the process.
    ///
    /// `sequence` is the sequence number of the record's first write. It must be one more than the
    /// number of the last write in the record before. The reader detects gaps, this function does
    /// not.
    ///
    /// # Errors
    /// Returns [`Error::InvalidArgument`] for an empty payload, for a payload of 4 GiB or more, and
    /// for a `sequence` that is too small. Nothing is written then. Returns [`Error::Poisoned`]
    /// after an earlier failure. Errors of the storage pass through.
    pub fn append(&mut self, sequence: u64, parts: &[&[u8]]) -> Result<()> {
        self.check_usable()?;
        let invalid = |what, reason: &str| Err(Error::InvalidArgument { what, reason: reason.to_owned() });
        let payload_len = parts.iter().map(|part| part.len()).sum::<usize>();
        let Ok(payload_len_u32) = u32::try_from(payload_len) else {
            return invalid("log record", "its payload has 4 GiB or more; write several records");
        };
        if payload_len == 0 {
            return invalid("log record", "its payload is empty; write at least one entry");
        }
        if sequence < self.next_sequence {
            return invalid("sequence number", "it is below the next sequence number of the log; use that number");
        }
        self.attempt(|log| {
            if log.buffer.len() + RECORD_HEADER_LEN_BYTES + payload_len > BUFFER_LEN_BYTES {
                log.write_buffer()?;
            }
            let start = log.buffer.len();
            put_u32(&mut log.buffer, payload_len_u32);
            put_u64(&mut log.buffer, sequence);
            put_u64(&mut log.buffer, log.synced_len_bytes);
            let mut checksum = log.id_checksum.clone().with(log.buffer.get(start..).unwrap_or_default());
            parts.iter().for_each(|part| checksum.update(part));
            put_u32(&mut log.buffer, checksum.finish());
            for part in parts {
                if log.buffer.len() + part.len() > BUFFER_LEN_BYTES {
                    log.write_buffer()?;
                }
                if part.len() > BUFFER_LEN_BYTES {
                    log.file.write_all(part)?;
                } else {
                    log.buffer.extend_from_slice(part);
                }
            }
            log.next_sequence = sequence.saturating_add(1);
            Ok(())
        })
    }

    /// Passes the buffer to the operating system. The records then survive a crash of the process,
    /// but perhaps not one of the machine.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`] after an earlier failure. Errors of the storage pass through.
    pub fn flush(&mut self) -> Result<()> {
        self.attempt(Self::write_buffer)
    }

    /// Makes all records durable.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`] after an earlier failure. Errors of the storage pass through.
    pub fn sync(&mut self) -> Result<()> {
        self.attempt(|log| {
            log.write_buffer()?;
            log.file.sync()?;
            log.synced_len_bytes = log.file.len();
            Ok(())
        })
    }

    /// Returns the length of the file in bytes, including the bytes in the buffer.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.file.len() + self.buffer.len() as u64
    }

    fn write_buffer(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.file.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn check_usable(&self) -> Result<()> {
        match &self.failure {
            Some(reason) => Err(Error::Poisoned { reason: reason.to_string() }.in_file(&self.path)),
            None => Ok(()),
        }
    }

    /// Runs an operation. If the operation fails or panics, the log refuses every later one. After
    /// a failed write, the last record may or may not be in the file, so no record may follow.
    /// After a failed sync, a later successful sync proves nothing.
    fn attempt(&mut self, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.check_usable()?;
        // If the storage panics, this reason stays.
        self.failure = Some(Cow::Borrowed("a write panicked"));
        match act(self) {
            Ok(()) => {
                self.failure = None;
                Ok(())
            }
            Err(error) => {
                self.failure = Some(Cow::Owned(error.root().to_string()));
                Err(error.in_file(&self.path))
            }
        }
    }
}

/// The file of [`LogWriter::none`]. No write or sync reaches it.
#[derive(Debug)]
struct NoFile;

impl WriteFile for NoFile {
    fn write_all(&mut self, _: &[u8]) -> Result<()> {
        Err(Error::Io(std::io::ErrorKind::Unsupported.into()))
    }

    fn sync(&mut self) -> Result<()> {
        Err(Error::Io(std::io::ErrorKind::Unsupported.into()))
    }

    fn len(&self) -> u64 {
        0
    }
}

/// Removes a file whose creation failed, because the file may exist nevertheless. Keeps the file if
/// the error says that it existed before.
fn remove_unless_found(storage: &dyn Storage, path: &Path, error: &Error) {
    if !is_taken(error) {
        // Usually there is no file to remove.
        let _ = storage.remove(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::faulty::{Fault, FaultKind, Faulty, Operation};

    /// Returns a writer with one record in its buffer, and its storage.
    fn writer() -> (Faulty, LogWriter) {
        let (storage, path) = (Faulty::new(), Path::new("1.log"));
        let id = LogId { kind: LogKind::WriteAhead, store_id: [0; 16], number: 1 };
        let mut log = LogWriter::create(&storage, path, id, 0).unwrap();
        log.append(1, &[b"x"]).unwrap();
        (storage, log)
    }

    fn fail_next(storage: &Faulty) {
        storage.fail(Fault { from: 0, kind: FaultKind::Io, is_lasting: false });
    }

    #[test]
    fn a_log_refuses_every_call_after_a_failed_sync() {
        let (storage, mut log) = writer();
        log.flush().unwrap();
        fail_next(&storage);
        assert!(matches!(log.sync().unwrap_err().root(), Error::Io(_)));
        assert_eq!(storage.struck().first().unwrap().0, Operation::Sync);
        for error in [log.append(2, &[b"y"]).unwrap_err(), log.flush().unwrap_err(), log.sync().unwrap_err()] {
            assert!(matches!(error.root(), Error::Poisoned { .. }), "{error}");
        }
    }

    #[test]
    fn a_log_refuses_a_record_after_a_failed_write() {
        let (storage, mut log) = writer();
        fail_next(&storage);
        assert!(matches!(log.flush().unwrap_err().root(), Error::Io(_)));
        assert_eq!(storage.struck().first().unwrap().0, Operation::Write);
        assert!(matches!(log.append(2, &[b"y"]).unwrap_err().root(), Error::Poisoned { .. }));
    }
}
