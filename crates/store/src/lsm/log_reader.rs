//! Reads a log back, and tells a crash from damage.
//!
//! At the first record that does not hold, the rest of the file is searched for one that does:
//!
//! * None: the tail was torn by a crash. It is cut and reported.
//! * One, but sectors between are blank and no record found says that they had been synced: a crash again, which may
//!   keep later sectors and lose earlier ones. Cut and reported.
//! * One, otherwise: bytes were lost that nobody may lose. An error, or under [`LogRecovery::Salvage`] skipped and
//!   reported.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::checksum::Crc32;
use crate::codec::Cursor;
use crate::error::{Error, Field, Result};
use crate::storage::Storage;

use super::log_file::{HEADER_LEN_BYTES, LOG_VERSION, LogId, RECORD_HEADER_LEN_BYTES};

/// What devices write as a whole.
const SECTOR_LEN_BYTES: usize = 512;

/// Sequence numbers further ahead than this are taken for chance in the search for the next record.
const MAX_SEQUENCE_STEP: u64 = 1 << 32;

/// Bytes summed in search of sound records, beyond four times the file: only a hostile file asks for more, and
/// without a bound it would cost the square of its length.
const SEARCH_BUDGET_BYTES: u64 = 16 << 20;

/// What to do about damage in the middle of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LogRecovery {
    /// It is an error.
    #[default]
    Strict,
    /// What is damaged is skipped and reported.
    Salvage,
}

/// A record as it lies in a file.
#[derive(Debug, Clone, Copy)]
pub struct LogRecord<'a> {
    /// Its first sequence number.
    pub sequence: u64,
    /// Its bytes.
    pub payload: &'a [u8],
    /// Where the payload begins in the file.
    pub payload_offset: u64,
    synced_len_bytes: u64,
}

/// How a log ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogEnd {
    /// Length of the file up to the end of the last record that was delivered.
    pub valid_len_bytes: u64,
    /// Bytes after that: left by a crash, or without a sound record to the end of the file.
    pub torn_tail_bytes: u64,
    /// Whether these lack something: bytes at the end, or sectors that were never written.
    pub is_tail_cut: bool,
    /// Offset and length of what was skipped (never any under [`LogRecovery::Strict`]); a length of 0 stands for
    /// sequence numbers that are missing though no bytes are in their place.
    pub skipped: Vec<(u64, u64)>,
    /// Records delivered.
    pub num_records: u64,
    /// The sequence number that the next record must have; `None` when not even the header is there.
    pub next_sequence: Option<u64>,
}

impl LogEnd {
    /// Whether the whole file was delivered.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.torn_tail_bytes == 0 && self.skipped.is_empty() && self.next_sequence.is_some()
    }

    /// What is at the end of the file at `path` and is no record.
    pub(crate) fn tail(&self, path: &Path) -> Option<LogTail> {
        let (offset, len_bytes) = (self.valid_len_bytes, self.torn_tail_bytes);
        (len_bytes > 0).then(|| LogTail { path: path.to_path_buf(), offset, len_bytes, is_cut: self.is_tail_cut })
    }
}

/// Bytes at the end of a log or manifest that are no record. Opening a store cuts them off.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogTail {
    /// The file.
    pub path: PathBuf,
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub len_bytes: u64,
    /// Whether bytes are missing at the end, or sectors were never written: what a crash leaves of a write that nobody was
    /// told was durable. Otherwise a record is there in its full length and does not hold: a write that the device was in
    /// the middle of, or damage to one that may have been acknowledged. Nothing tells which, for only the next record says
    /// what was synced. Nor does anything tell a cut by a crash from another that removed whole records.
    pub is_cut: bool,
}

impl fmt::Display for LogTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, offset, len_bytes, is_cut } = self;
        write!(
            f,
            "{}: the last {len_bytes} bytes, at offset {offset}, are no whole record and were cut off: ",
            path.display()
        )?;
        f.write_str(match is_cut {
            true => "a write that a crash cut",
            false => "nothing is missing of them, so this is damage, or a write that a crash left half done",
        })
    }
}

/// Reads the log at `path` from its start, and hands each record to `visit`, which returns the sequence number that the
/// next one must have.
///
/// # Errors
/// `ChecksumMismatch` or `Corrupt` that names file and offset when the middle is damaged, under [`LogRecovery::Strict`];
/// `Corrupt { field: FileNumber | StoreId | Magic, .. }` for a sound log that is another than `id` says, and
/// `Unsupported` for one of a newer format, always; errors of `visit` and of the storage.
pub fn read_log(
    storage: &dyn Storage,
    path: &Path,
    id: LogId,
    recovery: LogRecovery,
    visit: &mut dyn FnMut(LogRecord<'_>) -> Result<u64>,
) -> Result<LogEnd> {
    read_log_in(&storage.read(path)?, path, id, recovery, visit)
}

/// [`read_log`] of the bytes of the file at `path`, which the records borrow.
///
/// # Errors
/// As there.
pub fn read_log_in<'a>(
    bytes: &'a [u8],
    path: &Path,
    id: LogId,
    recovery: LogRecovery,
    visit: &mut dyn FnMut(LogRecord<'a>) -> Result<u64>,
) -> Result<LogEnd> {
    let budget = SEARCH_BUDGET_BYTES + 4 * bytes.len() as u64;
    let mut reader = Reader { bytes, id, id_sum: id.sum(), recovery, budget };
    reader.run(visit).map_err(|error| error.in_file(path))
}

struct Reader<'a> {
    bytes: &'a [u8],
    id: LogId,
    id_sum: Crc32,
    recovery: LogRecovery,
    budget: u64,
}

/// The search was given up.
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
                    // The sum holds, so these are no accident of this file.
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

    /// The first sequence number.
    fn header(&self) -> Result<u64> {
        let mut cursor = Cursor::new(self.bytes, 0);
        let covered = self.bytes.get(..HEADER_LEN_BYTES - 4).unwrap_or_default();
        let magic = cursor.take_array::<8>(Field::Length)?;
        let version = cursor.take_u32(Field::Length)?;
        let number = cursor.take_u64(Field::Length)?;
        let store_id = cursor.take_array::<16>(Field::Length)?;
        let first_sequence = cursor.take_u64(Field::Length)?;
        let stored = cursor.take_u32(Field::Length)?;
        let computed = Crc32::new().with(covered).finish();
        if stored != computed {
            return Err(Error::ChecksumMismatch { field: Field::LogHeader, offset: 0, stored, computed });
        }
        if magic != *self.id.kind.magic() {
            return Err(Error::Corrupt { field: Field::Magic, offset: 0 });
        }
        if version != LOG_VERSION {
            return Err(Error::Unsupported { field: Field::Version, found: version.into() });
        }
        if number != self.id.number {
            return Err(Error::Corrupt { field: Field::FileNumber, offset: 12 });
        }
        if store_id != self.id.store_id {
            return Err(Error::Corrupt { field: Field::StoreId, offset: 20 });
        }
        Ok(first_sequence)
    }

    /// The record at `offset`, if it is sound and in sequence.
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

    /// The record at `offset`, if it is sound.
    fn record_at(&self, offset: usize) -> Result<LogRecord<'a>> {
        let unsound = Error::Corrupt { field: Field::LogRecord, offset: offset as u64 };
        let Some(record) = self.plausible_record_at(offset) else { return Err(unsound) };
        let header = self.bytes.get(offset..offset + RECORD_HEADER_LEN_BYTES).unwrap_or_default();
        let Some((covered, stored)) = header.split_last_chunk() else { return Err(unsound) };
        let stored = crate::codec::u32_from(stored);
        let computed = self.id_sum.clone().with(covered).with(record.payload).finish();
        if stored != computed {
            return Err(Error::ChecksumMismatch { field: Field::LogRecord, offset: offset as u64, stored, computed });
        }
        Ok(record)
    }

    /// What lies at `offset`, if its lengths fit; they are not proven yet. An empty payload is none: zeros are no record.
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

    /// Where to go on after the unsound bytes at `offset`; `None` when the tail is torn from there.
    fn resume_after(&mut self, offset: usize, expected: Option<u64>, failed: Error) -> Result<Option<usize>> {
        let strict = self.recovery == LogRecovery::Strict;
        // The record itself is sound: records before it are missing, or it is there twice.
        if strict && matches!(failed, Error::Corrupt { field: Field::LogSequence, .. }) {
            return Err(failed);
        }
        match self.next_sound_record(offset + 1, expected) {
            // A header is written whole or not at all: one that is there and is wrong was not torn.
            Ok(None) if strict && offset == 0 && self.has_other_header() => Err(failed),
            Ok(None) => Ok(None),
            Ok(Some(next)) if !strict => Ok(Some(next)),
            Ok(Some(next)) if self.has_blank_sector(offset..next) && !self.was_synced(offset, next, expected) => {
                Ok(None)
            }
            Err(OverBudget) if !strict => Ok(None),
            _ => Err(failed),
        }
    }

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

    /// Whether a sector between is as blank as one that was allotted and never written. The first counts from the start
    /// of the range: what lies before may be an older state of the same sector.
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

    /// Whether what lies from `offset` on, which does not hold, lacks bytes at its end or sectors in between.
    fn is_cut_at(&self, offset: usize, expected: Option<u64>) -> bool {
        let tail = self.bytes.get(offset..).unwrap_or_default();
        if Self::is_short(tail, offset as u64, expected).unwrap_or(true) {
            return true;
        }
        let mut start = offset;
        while start < self.bytes.len() {
            let end = (start + 1).next_multiple_of(SECTOR_LEN_BYTES).min(self.bytes.len());
            let sector = self.bytes.get(start..end).unwrap_or_default();
            // Of a sector in which the file ends, a few zeros may well be those of a value.
            let counts = start == offset || sector.len() >= RECORD_HEADER_LEN_BYTES;
            if counts && sector.iter().all(|&byte| byte == 0) {
                return true;
            }
            start = end;
        }
        false
    }

    /// Whether the file ends before the record does that begins at `offset`; an error where it ends in its header.
    fn is_short(tail: &[u8], offset: u64, expected: Option<u64>) -> Result<bool> {
        let mut cursor = Cursor::new(tail, offset);
        if offset == 0 {
            return Ok(tail.len() < HEADER_LEN_BYTES);
        }
        let payload_len = u64::from(cursor.take_u32(Field::LogRecord)?);
        let sequence = cursor.take_u64(Field::LogRecord)?;
        let synced_len_bytes = cursor.take_u64(Field::LogRecord)?;
        cursor.take_u32(Field::LogRecord)?;
        // Noise may claim any length, but not this place among the writes.
        let is_next = Some(sequence) == expected && synced_len_bytes <= offset;
        Ok(is_next && payload_len > cursor.rest().len() as u64)
    }

    /// Whether a record from `next` on says that the bytes at `offset` were durable before it was written.
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
                // Doubt is an error, never a silent cut.
                Err(OverBudget) => return true,
            }
        }
    }
}

/// Whether the bytes of a header do not hold, as opposed to holding for another file.
fn is_unsound(error: &Error) -> bool {
    matches!(error, Error::ChecksumMismatch { .. } | Error::Corrupt { field: Field::Length, .. })
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
