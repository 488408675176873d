//! Reads a log back, and distinguishes a crash from damage.
//!
//! After the first unsound header or record, the reader searches the rest of the file for a sound
//! record. There are three cases:
//!
//! * There is no sound record: a crash tore the tail. The tail is cut off and reported.
//! * There is a sound record, but a sector between the start of the damage and this record is all
//!   zeros. Neither this record nor a later one says that the file was synced beyond the start of
//!   the damage. This is a crash, too: a crash may keep later sectors and lose earlier ones. The
//!   tail is cut off and reported.
//! * In every other case, durable bytes may be lost. This is an error.
//!
//! A damaged header of the file is always an error if it is complete and not all zeros.
//!
//! A sound record with an unexpected sequence number is an error, too: records are missing or
//! repeated.
//!
//! Under [`LogRecovery::Salvage`], none of these cases is an error. The reader skips to the next
//! sound record and reports the skipped bytes. If it finds no such record, it cuts off the rest of
//! the file and reports it as a torn tail.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::checksum::Crc32;
use crate::codec::Cursor;
use crate::error::{Error, Field, Result};
use crate::storage::Storage;

use super::batch::BatchOps;
use super::{HEADER_LEN_BYTES, LogHeader, LogId, RECORD_HEADER_LEN_BYTES};

/// The length of a sector, the smallest unit that devices write atomically.
const SECTOR_LEN_BYTES: usize = 512;

/// The search for sound records accepts a sequence number that exceeds the expected one by at most
/// this step. A larger step counts as a random match. If no number is expected, because the header
/// is damaged, the search accepts every number.
const MAX_SEQUENCE_STEP: u64 = 1 << 32;

/// The search for sound records may checksum four times the file's length plus this many bytes.
/// Only a hostile file should need more. Without a limit, the cost would grow with the square of
/// the file's length.
const SEARCH_BUDGET_BYTES: u64 = 16 << 20;

/// The behaviour of recovery if a log is missing or damaged. A torn tail does not count as damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LogRecovery {
    /// Damage and missing logs are errors.
    #[default]
    Strict,
    /// Damage is skipped and reported. An open also reports missing logs. It reports and ignores
    /// files of other programs that have the name of a log.
    Salvage,
}

/// A record in a log file.
#[derive(Debug, Clone, Copy)]
pub struct LogRecord<'a> {
    /// The sequence number of the record's first write.
    pub sequence: u64,
    /// The payload.
    pub payload: &'a [u8],
    /// The offset of the payload in the file.
    pub payload_offset: u64,
    synced_len_bytes: u64,
}

impl LogRecord<'_> {
    /// Decodes the record's writes, and returns the sequence number after the last one.
    pub(crate) fn next_sequence(&self) -> Result<u64> {
        let mut ops = BatchOps::new(self.payload, self.payload_offset);
        ops.try_fold(self.sequence, |next, op| op.map(|_| next.saturating_add(1)))
    }
}

/// The result of reading a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogEnd {
    /// The offset where the torn tail begins. Without a torn tail, this is the length of the file.
    pub valid_len_bytes: u64,
    /// The length of the torn tail: the bytes from `valid_len_bytes` to the end of the file.
    pub torn_tail_bytes: u64,
    /// Whether the tail seems to lack bytes at its end, or whole sectors: see [`LogTail::is_cut`].
    pub is_tail_cut: bool,
    /// The offset and the length of each skipped range; always empty under
    /// [`LogRecovery::Strict`]. A length of 0 means that sequence numbers are missing although no
    /// bytes were skipped.
    pub skipped: Vec<(u64, u64)>,
    /// The number of delivered records.
    pub num_records: u64,
    /// The sequence number that the next record must have. `None` if neither the header nor a
    /// record is sound.
    pub next_sequence: Option<u64>,
}

impl LogEnd {
    /// Returns whether the header is sound, all bytes after it were delivered as records, and no
    /// record is missing between them.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.torn_tail_bytes == 0 && self.skipped.is_empty() && self.next_sequence.is_some()
    }

    pub(crate) fn tail(&self, path: &Path) -> Option<LogTail> {
        let (offset, len_bytes) = (self.valid_len_bytes, self.torn_tail_bytes);
        (len_bytes > 0).then(|| LogTail { path: path.to_path_buf(), offset, len_bytes, is_cut: self.is_tail_cut })
    }
}

/// The torn tail of a log or manifest: the bytes at its end that recovery did not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogTail {
    /// The path of the file.
    pub path: PathBuf,
    /// The offset where the torn tail begins.
    pub offset: u64,
    /// The length of the torn tail in bytes.
    pub len_bytes: u64,
    /// Whether bytes seem to be missing at the end, or sectors are all zeros, as if they were never
    /// written.
    ///
    /// `true` means that a crash probably interrupted a write that was not synced. `false` means
    /// that either a crash interrupted the device in a write, or the bytes are damaged. If the
    /// bytes are damaged, a synced write may be lost.
    pub is_cut: bool,
}

impl fmt::Display for LogTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, offset, len_bytes, is_cut } = self;
        write!(f, "{}: ", path.display())?;
        match len_bytes {
            1 => write!(f, "the last byte, at offset {offset}, is not a sound record and was cut off: ")?,
            _ => write!(
                f,
                "the last {len_bytes} bytes, from offset {offset}, are not a sound record and were cut off: "
            )?,
        }
        f.write_str(match is_cut {
            true => "a crash probably cut this write short",
            false => {
                "no byte seems to be missing, so the bytes are damaged, or a crash interrupted the device in a write"
            }
        })
    }
}

/// Reads the log at `path` from its start and passes each sound record before a torn tail to
/// `visit`. `visit` returns the sequence number that the next record must have.
///
/// # Errors
/// Returns an error for a sound header of another log or format version. Under
/// [`LogRecovery::Strict`], returns an error for damage that no crash explains. Errors of `visit`
/// and of the storage pass through.
pub fn read_log(
    storage: &dyn Storage,
    path: &Path,
    id: LogId,
    recovery: LogRecovery,
    visit: &mut dyn FnMut(LogRecord<'_>) -> Result<u64>,
) -> Result<LogEnd> {
    read_log_in(&storage.read(path)?, path, id, recovery, visit)
}

/// Reads a log as [`read_log`] does, from the bytes of the file at `path`.
///
/// # Errors
/// Returns the errors of [`read_log`], except errors of the storage.
pub fn read_log_in<'a>(
    bytes: &'a [u8],
    path: &Path,
    id: LogId,
    recovery: LogRecovery,
    visit: &mut dyn FnMut(LogRecord<'a>) -> Result<u64>,
) -> Result<LogEnd> {
    let budget = SEARCH_BUDGET_BYTES + 4 * bytes.len() as u64;
    let mut reader = Reader { bytes, id, id_checksum: id.checksum(), recovery, budget };
    reader.run(visit).map_err(|error| error.in_file(path))
}

struct Reader<'a> {
    bytes: &'a [u8],
    id: LogId,
    id_checksum: Crc32,
    recovery: LogRecovery,
    budget: u64,
}

/// An error: the search for a sound record exceeded its budget.
struct OverBudget;

impl<'a> Reader<'a> {
    fn run(&mut self, visit: &mut dyn FnMut(LogRecord<'a>) -> Result<u64>) -> Result<LogEnd> {
        let mut end = LogEnd::default();
        let mut offset = 0;
        while offset < self.bytes.len() {
            let failed = if offset == 0 {
                match self.header() {
                    Ok(first) => {
                        end.next_sequence = Some(first);
                        offset = HEADER_LEN_BYTES;
                        continue;
                    }
                    // The header's checksum is right, so the header belongs to another log, or has
                    // another format version.
                    Err(error) if !is_unsound(&error) => return Err(error),
                    Err(error) => error,
                }
            } else {
                match self.expected_record_at(offset, &mut end) {
                    Ok(record) => {
                        end.next_sequence = Some(visit(record)?);
                        end.num_records += 1;
                        offset += RECORD_HEADER_LEN_BYTES + record.payload.len();
                        continue;
                    }
                    Err(error) => error,
                }
            };
            let Some(next) = self.resume_after(offset, end.next_sequence, failed)? else { break };
            end.skipped.push((offset as u64, (next - offset) as u64));
            offset = next;
        }
        end.is_tail_cut = offset < self.bytes.len() && self.is_cut_at(offset, end.next_sequence);
        end.valid_len_bytes = offset as u64;
        end.torn_tail_bytes = (self.bytes.len() - offset) as u64;
        Ok(end)
    }

    /// Returns the sequence number of the first record.
    fn header(&self) -> Result<u64> {
        let header = LogHeader::decode(self.bytes)?;
        header.check(self.id).map(|()| header.first_sequence)
    }

    /// Returns the record at `offset` if it is sound and in sequence. A salvage also accepts a
    /// record after a gap in the sequence. If no bytes were skipped there, it notes the gap in
    /// `end.skipped`. If no number is expected, every sound record is in sequence.
    fn expected_record_at(&self, offset: usize, end: &mut LogEnd) -> Result<LogRecord<'a>> {
        let record = self.record_at(offset)?;
        let Some(expected) = end.next_sequence else { return Ok(record) };
        if record.sequence == expected {
            return Ok(record);
        }
        if self.recovery == LogRecovery::Strict || record.sequence < expected {
            return Err(Error::Corrupt { field: Field::LogSequence, offset: offset as u64 });
        }
        let just_skipped = end.skipped.last().is_some_and(|(start, len)| start + len == offset as u64);
        if !just_skipped {
            end.skipped.push((offset as u64, 0));
        }
        Ok(record)
    }

    fn record_at(&self, offset: usize) -> Result<LogRecord<'a>> {
        let unsound = Error::Corrupt { field: Field::LogRecord, offset: offset as u64 };
        let Some(record) = self.plausible_record_at(offset) else { return Err(unsound) };
        let header = self.bytes.get(offset..offset + RECORD_HEADER_LEN_BYTES).unwrap_or_default();
        let Some((covered, stored)) = header.split_last_chunk() else { return Err(unsound) };
        let stored = crate::codec::u32_from(stored);
        let computed = self.id_checksum.clone().with(covered).with(record.payload).finish();
        if stored != computed {
            return Err(Error::ChecksumMismatch { field: Field::LogRecord, offset: offset as u64, stored, computed });
        }
        Ok(record)
    }

    /// Returns the record at `offset` if its payload lies within the file and its synced length is
    /// at most `offset`. The checksum is not verified yet. An empty payload is refused, so that
    /// zeros are not a record.
    fn plausible_record_at(&self, offset: usize) -> Option<LogRecord<'a>> {
        let mut cursor = Cursor::new(self.bytes.get(offset..)?, offset as u64);
        let payload_len = usize::try_from(cursor.take_u32(Field::LogRecord).ok()?).ok()?;
        let sequence = cursor.take_u64(Field::LogRecord).ok()?;
        let synced_len_bytes = cursor.take_u64(Field::LogRecord).ok()?;
        cursor.take_u32(Field::LogRecord).ok()?;
        let payload_offset = cursor.offset();
        let payload = cursor.take(payload_len, Field::LogRecord).ok()?;
        let plausible = !payload.is_empty() && synced_len_bytes <= offset as u64;
        plausible.then_some(LogRecord { sequence, payload, payload_offset, synced_len_bytes })
    }

    /// Returns the offset at which to continue after the unsound bytes at `offset`. Returns `None`
    /// if the torn tail begins at `offset`.
    ///
    /// # Errors
    /// If the recovery is strict, returns `failed` for damage and for a sound record out of
    /// sequence.
    fn resume_after(&mut self, offset: usize, expected: Option<u64>, failed: Error) -> Result<Option<usize>> {
        let strict = self.recovery == LogRecovery::Strict;
        // The record itself is sound: records before it are missing, or the record is a duplicate.
        if strict && matches!(failed, Error::Corrupt { field: Field::LogSequence, .. }) {
            return Err(failed);
        }
        // The file's header lies in one sector, so it is written whole or not at all. A wrong
        // header is damage, not a torn write.
        if strict && offset == 0 && self.has_other_header() {
            return Err(failed);
        }
        match self.next_sound_record(offset + 1, expected) {
            Ok(None) => Ok(None),
            Ok(Some(next)) if !strict => Ok(Some(next)),
            Ok(Some(next)) if self.has_blank_sector(offset..next) && !self.was_synced(offset, next, expected) => {
                Ok(None)
            }
            Err(OverBudget) if !strict => Ok(None),
            _ => Err(failed),
        }
    }

    /// Returns whether the file is long enough for a header, and the header is not all zeros.
    fn has_other_header(&self) -> bool {
        self.bytes.get(..HEADER_LEN_BYTES).is_some_and(|header| header.iter().any(|&byte| byte != 0))
    }

    fn next_sound_record(&mut self, from: usize, expected: Option<u64>) -> Result<Option<usize>, OverBudget> {
        let first_sequence = expected.unwrap_or(0);
        let max_step = if expected.is_some() { MAX_SEQUENCE_STEP } else { u64::MAX };
        for offset in from..self.bytes.len().saturating_sub(RECORD_HEADER_LEN_BYTES) {
            let Some(record) = self.plausible_record_at(offset) else { continue };
            if record.sequence.checked_sub(first_sequence).is_none_or(|step| step > max_step) {
                continue;
            }
            let cost = (RECORD_HEADER_LEN_BYTES + record.payload.len()) as u64;
            self.budget = self.budget.checked_sub(cost).ok_or(OverBudget)?;
            if self.record_at(offset).is_ok() {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }

    /// Returns whether a sector that overlaps the range is all zeros. An allocated sector that was
    /// never written reads as zeros. The first sector is checked only from the start of the range:
    /// the bytes before the range may be an older state of the same sector.
    fn has_blank_sector(&self, range: Range<usize>) -> bool {
        let mut start = range.start;
        while start < range.end {
            let end = (start + 1).next_multiple_of(SECTOR_LEN_BYTES);
            if self.bytes.get(start..end).is_some_and(|sector| sector.iter().all(|&byte| byte == 0)) {
                return true;
            }
            start = end;
        }
        false
    }

    /// The tail seems to lack bytes at its end, or contains a sector that is all zeros.
    fn is_cut_at(&self, offset: usize, expected: Option<u64>) -> bool {
        let tail = self.bytes.get(offset..).unwrap_or_default();
        if Self::is_short(tail, offset as u64, expected).unwrap_or(true) {
            return true;
        }
        let mut start = offset;
        while start < self.bytes.len() {
            let end = (start + 1).next_multiple_of(SECTOR_LEN_BYTES).min(self.bytes.len());
            let sector = self.bytes.get(start..end).unwrap_or_default();
            // In a file's short last sector, a few zeros may belong to a value.
            let counts = start == offset || sector.len() >= RECORD_HEADER_LEN_BYTES;
            if counts && sector.iter().all(|&byte| byte == 0) {
                return true;
            }
            start = end;
        }
        false
    }

    /// Returns whether the record at `offset` seems to continue after the end of the file. If
    /// `offset` is 0, returns whether the file's header is incomplete. Returns an error if the file
    /// ends within the record's header.
    fn is_short(tail: &[u8], offset: u64, expected: Option<u64>) -> Result<bool> {
        let mut cursor = Cursor::new(tail, offset);
        if offset == 0 {
            return Ok(tail.len() < HEADER_LEN_BYTES);
        }
        let payload_len = u64::from(cursor.take_u32(Field::LogRecord)?);
        let sequence = cursor.take_u64(Field::LogRecord)?;
        let synced_len_bytes = cursor.take_u64(Field::LogRecord)?;
        cursor.take_u32(Field::LogRecord)?;
        // Random bytes may begin with any length, but hardly ever continue with the expected
        // sequence number.
        let is_next = Some(sequence) == expected && synced_len_bytes <= offset;
        Ok(is_next && payload_len > cursor.rest().len() as u64)
    }

    /// A record at or after `next` says that the bytes at `offset` were durable, or the budget is exceeded.
    fn was_synced(&mut self, offset: usize, mut next: usize, expected: Option<u64>) -> bool {
        loop {
            if let Ok(record) = self.record_at(next) {
                if record.synced_len_bytes > offset as u64 {
                    return true;
                }
                next += RECORD_HEADER_LEN_BYTES + record.payload.len();
                continue;
            }
            match self.next_sound_record(next + 1, expected) {
                Ok(Some(found)) => next = found,
                Ok(None) => return false,
                // In doubt, report damage: a cut could remove durable records.
                Err(OverBudget) => return true,
            }
        }
    }
}

/// All other errors of a header mean a sound header of another log, or of another format version.
fn is_unsound(error: &Error) -> bool {
    matches!(error, Error::ChecksumMismatch { .. } | Error::Corrupt { field: Field::Length, .. })
}

#[cfg(test)]
mod tests;
