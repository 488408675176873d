//! Reads the WALs of a damaged store, and determines which writes they hold and which they lost.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::evidence::missing;
use crate::error::{Error, Field, Result};
use crate::lsm::LogRecovery;
use crate::lsm::files::log_name;
use crate::lsm::wal::log_reader::{LogEnd, read_log};
use crate::lsm::wal::{LogHeader, LogId, LogKind};
use crate::sstable::{KeyRange, Loss};
use crate::storage::Storage;

#[derive(Debug, Default)]
pub(super) struct LogEvidence {
    pub(super) losses: Vec<Loss>,
    /// The damaged WALs that an open with [`LogRecovery::Salvage`] accepts.
    pub(super) damaged: Vec<PathBuf>,
    /// The WALs with which no store opens, even with [`LogRecovery::Salvage`].
    pub(super) unusable: Vec<PathBuf>,
    /// The number of the oldest needed WAL, for the manifest; 0 if all WALs are needed.
    pub(super) log_number: u64,
}

/// `None` if the header is too short or its checksum does not match.
pub(super) fn header_of(storage: &dyn Storage, dir: &Path, number: u64) -> Result<Option<LogHeader>> {
    Ok(LogHeader::decode(&storage.read(&dir.join(log_name(number)))?).ok())
}

/// Reads the header of the oldest WAL whose header is sound.
pub(super) fn first_sequence(storage: &dyn Storage, dir: &Path, logs: &BTreeSet<u64>) -> Result<Option<u64>> {
    for &number in logs {
        if let Some(header) = header_of(storage, dir, number)? {
            return Ok(Some(header.first_sequence));
        }
    }
    Ok(None)
}

/// The sequence numbers of the writes that one WAL holds. In a WAL without writes, all three
/// sequence numbers are the one that its first write would have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogSpan {
    number: u64,
    /// The sequence number of the first write in the WAL.
    earliest: u64,
    /// The sequence number of the first write after the last gap in the WAL, or of the first write
    /// if there is no gap.
    first: u64,
    /// The sequence number of the last write plus one.
    end: u64,
}

impl LogSpan {
    fn is_empty(&self) -> bool {
        self.first >= self.end
    }
}

/// Returns the range of usable writes of each WAL, the oldest WAL first. It leaves out WALs with
/// which no store opens, and WALs in which neither the header nor a record is readable.
pub(super) fn spans(
    storage: &dyn Storage,
    dir: &Path,
    store_id: [u8; 16],
    logs: &BTreeSet<u64>,
) -> Result<Vec<LogSpan>> {
    let mut spans = Vec::new();
    for &number in logs {
        let (mut earliest, mut first, mut expected) = (None, None, None);
        let id = LogId { kind: LogKind::WriteAhead, store_id, number };
        let end = read_log(storage, &dir.join(log_name(number)), id, LogRecovery::Salvage, &mut |record| {
            earliest.get_or_insert(record.sequence);
            if expected != Some(record.sequence) {
                first = Some(record.sequence);
            }
            let next = record.next_sequence()?;
            expected = Some(next);
            Ok(next)
        });
        match end {
            Ok(end) => spans.extend(end.next_sequence.map(|end| LogSpan {
                number,
                earliest: earliest.unwrap_or(end),
                first: first.unwrap_or(end),
                end,
            })),
            // No store opens with this WAL, so none of its writes is usable.
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(spans)
}

/// Returns a range of sequence numbers that ends with the last write in the WALs. The WALs hold
/// every write of the range. Considers only WALs with a number of at least `log_number`. Returns
/// `None` if these WALs hold no writes.
pub(super) fn unbroken(spans: &[LogSpan], log_number: u64) -> Option<Range<u64>> {
    let mut spans = spans.iter().filter(|span| span.number >= log_number).rev().skip_while(|span| span.is_empty());
    let mut oldest = *spans.next()?;
    let end = oldest.end;
    for span in spans {
        // Skip an empty WAL that a failed open left. Its first sequence number is lower than that
        // of the next WAL if the failed open recovered fewer writes than the open that made the
        // next WAL.
        if span.is_empty() && span.first <= oldest.first {
            continue;
        }
        if oldest.earliest != oldest.first || span.end != oldest.first {
            break;
        }
        oldest = *span;
    }
    Some(oldest.first..end)
}

pub(super) fn earliest(spans: &[LogSpan]) -> Option<u64> {
    spans.iter().map(|span| span.earliest).min()
}

/// Reads the WALs with a number of at least `log_number`, collects their losses, and determines the
/// oldest needed WAL. `last_sequence` is the last sequence number that the SSTs cover.
pub(super) fn look_at_logs(
    storage: &dyn Storage,
    dir: &Path,
    store_id: [u8; 16],
    logs: &BTreeSet<u64>,
    log_number: u64,
    last_sequence: u64,
) -> Result<LogEvidence> {
    let mut found = LogEvidence { log_number, ..LogEvidence::default() };
    let mut last = last_sequence;
    let oldest = logs.range(log_number..).next().copied();
    for &number in logs.range(log_number..) {
        let path = dir.join(log_name(number));
        let id = LogId { kind: LogKind::WriteAhead, store_id, number };
        let mut first = None;
        let end = read_log(storage, &path, id, LogRecovery::Salvage, &mut |record| {
            first.get_or_insert(record.sequence);
            record.next_sequence()
        });
        let end = match end {
            Ok(end) => end,
            Err(error) if !error.is_damage() => return Err(error),
            Err(error) => {
                found.lose(error);
                found.unusable.push(path);
                continue;
            }
        };
        found.note(&path, &end, Some(number) == oldest && log_number != 0);
        let first = first.or(end.next_sequence).unwrap_or_default();
        if first > last.saturating_add(1) {
            found.lose(Error::Corrupt { field: Field::LogSequence, offset: 0 }.in_file(&path));
        } else if Some(number) == oldest && end.next_sequence.is_some() && log_number != 0 {
            // No write is missing before this WAL, so it is the oldest needed one, even if an older
            // manifest named an earlier WAL.
            found.log_number = number;
        }
        last = last.max(end.next_sequence.unwrap_or_default().saturating_sub(1));
    }
    if found.log_number != 0 && !logs.contains(&found.log_number) {
        found.lose(missing(&dir.join(log_name(found.log_number))));
    }
    Ok(found)
}

impl LogEvidence {
    /// Adds a loss that may affect every key.
    fn lose(&mut self, error: Error) {
        self.losses.push(Loss { error, keys: KeyRange::ALL });
    }

    fn note(&mut self, path: &Path, end: &LogEnd, is_named: bool) {
        let corrupt = |field, offset| Error::Corrupt { field, offset }.in_file(path);
        let before = self.losses.len();
        for &(offset, len) in &end.skipped {
            let field = if len == 0 { Field::LogSequence } else { part_at(offset) };
            self.lose(corrupt(field, offset));
        }
        if end.torn_tail_bytes > 0 {
            self.lose(corrupt(part_at(end.valid_len_bytes), end.valid_len_bytes));
        } else if end.next_sequence.is_none() && is_named {
            self.lose(corrupt(Field::LogHeader, 0));
        }
        if self.losses.len() > before {
            self.damaged.push(path.to_path_buf());
        }
    }
}

fn part_at(offset: u64) -> Field {
    if offset == 0 { Field::LogHeader } else { Field::LogRecord }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_logs_end_a_range_only_if_they_begin_beyond_it() {
        let span = |number, first, end| LogSpan { number, earliest: first, first, end };
        let of = |spans: &[LogSpan]| unbroken(spans, 0);
        let (a, c) = (span(1, 1, 11), span(3, 11, 31));
        assert_eq!(of(&[a, c]), Some(1..31));
        for first in [1, 5, 11] {
            assert_eq!(of(&[a, span(2, first, first), c]), Some(1..31), "{first}");
            assert_eq!(of(&[a, c, span(4, first, first)]), Some(1..31), "{first}");
        }
        assert_eq!(of(&[a, span(2, 21, 21), c]), Some(11..31));
        assert_eq!(of(&[a, c, span(4, 50, 50)]), Some(1..31));
        assert_eq!(of(&[span(1, 1, 10), c]), Some(11..31));
        // A gap inside the WAL.
        assert_eq!(of(&[a, LogSpan { earliest: 11, ..span(3, 20, 31) }]), Some(20..31));
        assert_eq!(unbroken(&[a, c], 2), Some(11..31));
        assert_eq!((of(&[]), of(&[span(4, 50, 50)])), (None, None));
    }
}
