//! Computes the stamp of a file, by which an index detects that the file has changed.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::UNIX_EPOCH;

use filterblock::open_regular_file;

/// The minimum number of bytes at the end of a file that the stamp's checksum covers. In a shorter
/// file, the checksum covers all bytes.
pub const TAIL_LEN_BYTES: u64 = 4096;
/// The length of a Parquet file's last two fields: the length of the metadata, and the magic.
const PARQUET_END_LEN_BYTES: usize = 8;
const CHUNK_LEN_BYTES: u64 = 1 << 16;

/// The size, the modification time, and the checksum of the last bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// The size of the file in bytes.
    pub len_bytes: u64,
    /// The modification time: whole seconds since 1970, rounded down.
    pub modified_seconds: i64,
    /// The nanoseconds of the modification time.
    pub modified_nanos: u32,
    /// The CRC-32 of the last [`TAIL_LEN_BYTES`] bytes, or of all bytes of a shorter file. If the
    /// metadata of a Parquet file begin before these bytes, the CRC-32 covers all bytes from the
    /// start of the metadata.
    pub tail_checksum: u32,
}

/// The difference between a file and its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The file does not exist.
    Missing,
    /// The file cannot be read.
    Unreadable(io::ErrorKind),
    /// The size differs.
    Size,
    /// The modification time differs.
    ModificationTime,
    /// The last bytes differ.
    LastBytes,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the file is missing"),
            Self::Unreadable(kind) => write!(f, "the file cannot be read: {kind}"),
            Self::Size => f.write_str("the file has another size than the indexed file"),
            Self::ModificationTime => f.write_str("the file has another modification time than the indexed file"),
            Self::LastBytes => f.write_str("the end of the file has changed"),
        }
    }
}

impl Stamp {
    /// Returns the stamp of a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut file = open_regular_file(path)?;
        let stamp = Self::of_metadata(&file.metadata()?);
        let mut checksum = crc32fast::Hasher::new();
        let start = stamp.len_bytes.saturating_sub(tail_len(&mut file, stamp.len_bytes)?);
        file.seek(SeekFrom::Start(start))?;
        let mut tail = file.take(stamp.len_bytes - start);
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            if (&mut tail).take(CHUNK_LEN_BYTES).read_to_end(&mut buffer)? == 0 {
                break;
            }
            checksum.update(&buffer);
        }
        Ok(Self { tail_checksum: checksum.finalize(), ..stamp })
    }

    fn of_metadata(found: &Metadata) -> Self {
        // On a platform without modification times, every file has the time 0.
        let (modified_seconds, modified_nanos) =
            found.modified().map_or((0, 0), |time| match time.duration_since(UNIX_EPOCH) {
                Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
                Err(before) => {
                    let before = before.duration();
                    let whole = i64::try_from(before.as_secs()).unwrap_or(i64::MAX).saturating_neg();
                    match before.subsec_nanos() {
                        0 => (whole, 0),
                        nanos => (whole.saturating_sub(1), 1_000_000_000 - nanos),
                    }
                }
            });
        Self { len_bytes: found.len(), modified_seconds, modified_nanos, tail_checksum: 0 }
    }

    /// Compares the file at `path` with this stamp. Returns `None` if they agree.
    ///
    /// If `is_deep` is true, also reads the last bytes of the file and compares their checksum.
    #[must_use]
    pub fn difference(&self, path: &Path, is_deep: bool) -> Option<Difference> {
        let found = match path.metadata() {
            Ok(found) => Self::of_metadata(&found),
            Err(error) => return Some(Difference::of_error(&error)),
        };
        if found.len_bytes != self.len_bytes {
            return Some(Difference::Size);
        }
        if (found.modified_seconds, found.modified_nanos) != (self.modified_seconds, self.modified_nanos) {
            return Some(Difference::ModificationTime);
        }
        if !is_deep {
            return None;
        }
        match Self::of(path) {
            Ok(found) if found == *self => None,
            Ok(_) => Some(Difference::LastBytes),
            Err(error) => Some(Difference::of_error(&error)),
        }
    }
}

/// Returns the number of bytes at the end of the file that the checksum covers. The number may
/// exceed the length of the file.
fn tail_len(file: &mut File, len_bytes: u64) -> io::Result<u64> {
    let Some(start) = len_bytes.checked_sub(PARQUET_END_LEN_BYTES as u64) else { return Ok(TAIL_LEN_BYTES) };
    file.seek(SeekFrom::Start(start))?;
    let mut end = [0; PARQUET_END_LEN_BYTES];
    file.read_exact(&mut end)?;
    Ok(match end {
        [a, b, c, d, b'P', b'A', b'R', b'1' | b'E'] => {
            let metadata = u64::from(u32::from_le_bytes([a, b, c, d]));
            TAIL_LEN_BYTES.max(metadata + PARQUET_END_LEN_BYTES as u64)
        }
        _ => TAIL_LEN_BYTES,
    })
}

impl Difference {
    fn of_error(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            kind => Self::Unreadable(kind),
        }
    }
}
