//! Iterates over the writes of a log in key order, for writing them to an SST. It sorts positions
//! in the log and copies no keys or values.
//!
//! The caller limits the memory for sorting. If not all keys fit, each further pass over the log
//! handles the keys after the last key of the previous pass.

use std::ops::Range;

use super::RECORD_HEADER_LEN_BYTES;
use super::batch::{BatchOp, BatchOps};
use super::log_reader::LogRecord;
use crate::codec::{order_prefix, u32_at};
use crate::error::{Error, Field, Result};

/// Writes from sound records of one log. The payload of each record decodes without an error.
#[derive(Debug)]
pub(crate) struct LoggedWrites<'a> {
    log: &'a [u8],
    /// The ranges of the records in the log. Adjacent records are merged into one range.
    ranges: Vec<Range<usize>>,
    /// The offset of the first write. The writes before it in its record are already in SSTs.
    first: usize,
    len_bytes: usize,
    num_writes: u64,
    sequences: Option<(u64, u64)>,
}

/// The position of a write in the log, with the key prefix that decides most comparisons.
#[derive(Debug, Clone, Copy)]
struct Place {
    prefix: u64,
    offset: usize,
}

/// The memory per write while the writes are sorted, in bytes.
pub(crate) const PLACE_LEN_BYTES: usize = size_of::<Place>();

impl<'a> LoggedWrites<'a> {
    pub(crate) fn of(log: &'a [u8]) -> Self {
        Self { log, ranges: Vec::new(), first: 0, len_bytes: 0, num_writes: 0, sequences: None }
    }

    /// Adds the writes of the next record, except the first `num_known`. If a write has been added
    /// before, `num_known` must be 0. Returns the number of all writes in the record.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] for a payload that is not a batch. None of its writes is added
    /// then.
    pub(crate) fn add(&mut self, record: &LogRecord<'a>, num_known: u64) -> Result<u64> {
        let mut ops = BatchOps::new(record.payload, record.payload_offset);
        let (mut num_writes, mut first) = (0, ops.offset());
        while let Some(op) = ops.next() {
            op?;
            num_writes += 1;
            if num_writes == num_known {
                first = ops.offset();
            }
        }
        if num_writes <= num_known {
            return Ok(num_writes);
        }
        // The offsets refer to bytes in memory, so they fit.
        let place = |offset| usize::try_from(offset).unwrap_or(usize::MAX);
        let payload = place(record.payload_offset);
        let lies_at = payload - RECORD_HEADER_LEN_BYTES..payload + record.payload.len();
        self.len_bytes += lies_at.len();
        match self.ranges.last_mut() {
            Some(last) if last.end == lies_at.start => last.end = lies_at.end,
            _ => self.ranges.push(lies_at),
        }
        if self.sequences.is_none() {
            self.first = place(first);
        }
        let oldest = self.sequences.map_or(record.sequence + num_known, |(oldest, _)| oldest);
        self.sequences = Some((oldest, record.sequence + num_writes - 1));
        self.num_writes += num_writes - num_known;
        Ok(num_writes)
    }

    pub(crate) fn num_writes(&self) -> u64 {
        self.num_writes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.num_writes == 0
    }

    /// `(0, 0)` if there are no writes.
    pub(crate) fn sequences(&self) -> (u64, u64) {
        self.sequences.unwrap_or_default()
    }

    /// Returns the total length of the records in bytes, with their headers.
    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Passes the newest write of each key to `visit`, in key order. The memory for sorting holds
    /// the positions of `max_places` writes; a number below 2 counts as 2. Each pass over the log,
    /// except the last, visits at least `max_places / 2` keys.
    pub(crate) fn for_each_newest(
        &self,
        max_places: usize,
        mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let max_places = max_places.max(2);
        let mut places = Vec::with_capacity(usize::try_from(self.num_writes).unwrap_or(max_places).min(max_places));
        // Earlier passes have visited all keys below `from`.
        let mut from: &[u8] = &[];
        loop {
            // Keys from `to` on are left for a later pass.
            let mut to: Option<&[u8]> = None;
            self.for_each(|place, key| {
                if places.len() == max_places {
                    self.sort(&mut places);
                    if let Some(first_left) = places.get(max_places / 2) {
                        to = Some(self.key_at(first_left.offset));
                        places.truncate(max_places / 2);
                    }
                }
                if key >= from && to.is_none_or(|to| key < to) {
                    places.push(place);
                }
            })?;
            self.sort(&mut places);
            for place in places.drain(..) {
                let op = self.op_at(place.offset)?;
                visit(op.key(), op.value())?;
            }
            match to {
                Some(to) => from = to,
                None => return Ok(()),
            }
        }
    }

    /// Visits the added writes in the order of the log.
    fn for_each(&self, mut visit: impl FnMut(Place, &'a [u8])) -> Result<()> {
        for range in &self.ranges {
            let mut start = range.start;
            while start < range.end {
                let payload_len = u32_at(self.log, start).unwrap_or(0) as usize;
                let payload_start = start + RECORD_HEADER_LEN_BYTES;
                start = payload_start + payload_len;
                let payload = self.log.get(payload_start..start).unwrap_or_default();
                let mut ops = BatchOps::new(payload, payload_start as u64);
                loop {
                    let offset = usize::try_from(ops.offset()).unwrap_or(usize::MAX);
                    let Some(op) = ops.next().transpose()? else { break };
                    if offset >= self.first {
                        visit(Place { prefix: order_prefix(op.key()), offset }, op.key());
                    }
                }
            }
        }
        Ok(())
    }

    /// Sorts `places` by key and keeps only the newest write of each key.
    fn sort(&self, places: &mut Vec<Place>) {
        let key_order = |a: &Place, b: &Place| {
            a.prefix.cmp(&b.prefix).then_with(|| self.key_at(a.offset).cmp(self.key_at(b.offset)))
        };
        places.sort_unstable_by(|a, b| key_order(a, b).then_with(|| b.offset.cmp(&a.offset)));
        places.dedup_by(|older, newest| key_order(older, newest).is_eq());
    }

    fn op_at(&self, offset: usize) -> Result<BatchOp<'a>> {
        let rest = self.log.get(offset..).unwrap_or_default();
        let op = BatchOps::new(rest, offset as u64).next();
        op.unwrap_or(Err(Error::Corrupt { field: Field::Batch, offset: offset as u64 }))
    }

    fn key_at(&self, offset: usize) -> &'a [u8] {
        self.op_at(offset).map_or(&[], BatchOp::key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::lsm::wal::batch::WriteBatch;
    use crate::lsm::wal::log_reader::{LogRecovery, read_log, read_log_in};
    use crate::lsm::wal::{LogId, LogKind, LogWriter};
    use crate::storage::{Memory, Storage};

    type Write = (Vec<u8>, Option<Vec<u8>>);
    type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

    const ID: LogId = LogId { kind: LogKind::WriteAhead, store_id: [3; 16], number: 7 };

    /// Returns a log of batches of various lengths that begins with sequence number 5, and its
    /// writes.
    fn log(seed: u64, num_batches: u32, num_keys: u32) -> (Vec<u8>, Vec<Write>) {
        let (storage, path) = (Memory::new(), Path::new("7.log"));
        let mut writer = LogWriter::create(&storage, path, ID, 5).unwrap();
        let (mut random, mut writes) = (seed, Vec::new());
        let mut below = |bound: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 32) as u32 % bound
        };
        for nth in 0..num_batches {
            let (mut batch, first) = (WriteBatch::new(), 5 + writes.len() as u64);
            for _ in 0..=below(nth % 7 + 1) {
                // Short keys that differ in their prefix, long keys with equal prefixes, and keys
                // of up to 11 zero bytes.
                let number = below(num_keys);
                let key = match number % 3 {
                    0 => format!("{number}").into_bytes(),
                    1 => format!("longer than a prefix {number}").into_bytes(),
                    _ => vec![0; number as usize / 3 % 12],
                };
                let value = (below(4) > 0).then(|| vec![b'v'; below(40) as usize]);
                match &value {
                    Some(value) => batch.put(&key, value).unwrap(),
                    None => batch.delete(&key).unwrap(),
                }
                writes.push((key, value));
            }
            writer.append(first, &[batch.encoded()]).unwrap();
        }
        writer.sync().unwrap();
        (storage.read(path).unwrap(), writes)
    }

    /// Collects the writes from sequence number `known` on, without the records for which
    /// `is_sound` returns `false`. `is_sound` gets the position of a record, counted from 1.
    fn collected<'a>(log: &'a [u8], known: u64, is_sound: impl Fn(u64) -> bool) -> LoggedWrites<'a> {
        let mut writes = LoggedWrites::of(log);
        let mut nth = 0;
        read_log_in(log, Path::new("7.log"), ID, LogRecovery::Strict, &mut |record| {
            nth += 1;
            let len = BatchOps::new(record.payload, 0).count() as u64;
            if is_sound(nth) {
                assert_eq!(writes.add(&record, known.saturating_sub(record.sequence)).unwrap(), len);
            }
            Ok(record.sequence + len)
        })
        .unwrap();
        writes
    }

    fn newest(writes: &LoggedWrites<'_>, max_places: usize) -> Vec<Write> {
        let mut seen = Vec::new();
        writes
            .for_each_newest(max_places, |key, value| {
                seen.push((key.to_vec(), value.map(<[u8]>::to_vec)));
                Ok(())
            })
            .unwrap();
        seen
    }

    #[test]
    fn the_newest_write_of_each_key_comes_once_in_key_order() {
        for (seed, num_batches, num_keys) in [(1, 1, 5), (2, 40, 3), (3, 60, 50), (4, 200, 1_000), (5, 300, 30)] {
            let (log, all) = log(seed, num_batches, num_keys);
            for known in [0, 1, 3.min(all.len()), all.len() / 2, all.len() - 1, all.len()] {
                let writes = collected(&log, 5 + known as u64, |_| true);
                let model: Model = all[known..].iter().cloned().collect();
                for max_places in [0, 2, 3, 4, 7, 16, 100, 1 << 20] {
                    let seen = newest(&writes, max_places);
                    assert_eq!(seen, model.clone().into_iter().collect::<Vec<_>>(), "{seed} {known} {max_places}");
                }
                assert_eq!(writes.num_writes(), (all.len() - known) as u64);
                let (first, last) = (5 + known as u64, 4 + all.len() as u64);
                assert_eq!(writes.is_empty(), known == all.len());
                assert!(writes.is_empty() || writes.sequences() == (first, last), "{seed} {known}");
            }
        }
    }

    #[test]
    fn records_around_a_skipped_record_are_all_found() {
        let (log, _) = log(9, 100, 60);
        let writes = collected(&log, 0, |nth| nth % 5 != 0);
        let (mut model, mut nth) = (Model::new(), 0);
        let storage = Memory::new();
        storage.create(Path::new("7.log")).unwrap().write_all(&log).unwrap();
        read_log(&storage, Path::new("7.log"), ID, LogRecovery::Strict, &mut |record| {
            nth += 1;
            let ops: Vec<_> = BatchOps::new(record.payload, 0).map(Result::unwrap).collect();
            if nth % 5 != 0 {
                model.extend(ops.iter().map(|op| (op.key().to_vec(), op.value().map(<[u8]>::to_vec))));
            }
            Ok(record.sequence + ops.len() as u64)
        })
        .unwrap();
        assert_eq!(newest(&writes, 10), model.into_iter().collect::<Vec<_>>());
        assert_eq!(writes.ranges.len(), 20);
        assert!(writes.len_bytes() < log.len() * 9 / 10);
    }
}
