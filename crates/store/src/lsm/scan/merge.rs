//! Reads in key order: merges cursors over memtables and sorted runs. If several sources hold the
//! same key, the entry of the newest source counts.

use std::ops::Bound;
use std::sync::Arc;

use super::query::Asked;
use crate::codec::order_prefix;
use crate::error::Result;
use crate::lsm::memtable::MemtableCursor;
use crate::lsm::stats::ScanReads;
use crate::lsm::version::stored_table::StoredTable;
use crate::sstable::{BlockCache, BlockReads, TableCursor};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a merge has few inputs, and most of them are runs")]
pub(crate) enum Source {
    Memtable(MemtableCursor),
    Run(RunCursor),
}

impl Source {
    fn seek(&mut self, direction: Direction, bound: Bound<&[u8]>) -> Result<()> {
        match (self, direction) {
            (Self::Memtable(cursor), Direction::Forward) => cursor.seek_forward(bound),
            (Self::Memtable(cursor), Direction::Backward) => cursor.seek_backward(bound),
            (Self::Run(cursor), direction) => cursor.seek(direction, bound)?,
        }
        Ok(())
    }

    fn entry(&self) -> Option<(&[u8], Option<&[u8]>)> {
        match self {
            Self::Memtable(cursor) => cursor.entry(),
            Self::Run(cursor) => cursor.entry(),
        }
    }

    fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Memtable(cursor) => cursor.entry().map(|(key, _)| key),
            Self::Run(cursor) => cursor.key(),
        }
    }

    /// Moves past `key`, the current key.
    fn step(&mut self, direction: Direction, key: &[u8]) -> Result<()> {
        match self {
            Self::Memtable(_) => self.seek(direction, Bound::Excluded(key)),
            Self::Run(cursor) => cursor.step(direction),
        }
    }
}

/// Moves over a sorted run: SSTs in key order, with a cursor in one SST at a time.
#[derive(Debug, Default)]
pub(crate) struct RunCursor {
    tables: Vec<Arc<StoredTable>>,
    cache: Option<Arc<BlockCache>>,
    place: usize,
    cursor: Option<TableCursor>,
    /// Counts the data blocks that a scan reads. `None` in a compaction.
    counter: Option<Arc<ScanReads>>,
    /// The reads of `cursor` that have been counted.
    counted: BlockReads,
    reads_ahead: bool,
    /// The filter's answers about the scan, until the first seek takes them. Only a run of one SST
    /// has them.
    asked: Option<Asked>,
}

impl RunCursor {
    /// Creates a cursor. `tables` must be in key order, without overlaps.
    pub(crate) fn new(tables: Vec<Arc<StoredTable>>, cache: Option<Arc<BlockCache>>) -> Self {
        Self { tables, cache, ..Self::default() }
    }

    pub(crate) fn counted_by(self, counter: &Arc<ScanReads>) -> Self {
        Self { counter: Some(Arc::clone(counter)), ..self }
    }

    /// Returns the cursor with the filter's answers about the scan. The run must have one SST.
    pub(crate) fn asked(self, asked: Asked) -> Self {
        Self { asked: Some(asked), ..self }
    }

    pub(crate) fn reading_ahead(self) -> Self {
        Self { reads_ahead: true, ..self }
    }

    #[inline]
    fn count(&mut self) {
        let reads = self.cursor.as_ref().map_or(BlockReads::default(), TableCursor::reads);
        if reads != self.counted {
            if let Some(counter) = &self.counter {
                counter.add(reads.blocks - self.counted.blocks, reads.bytes - self.counted.bytes);
            }
            self.counted = reads;
        }
    }

    fn key(&self) -> Option<&[u8]> {
        self.cursor.as_ref().filter(|cursor| cursor.valid()).map(TableCursor::key)
    }

    fn entry(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.cursor.as_ref().filter(|cursor| cursor.valid()).map(|cursor| (cursor.key(), cursor.value()))
    }

    fn enter(&mut self, place: usize) -> Option<&mut TableCursor> {
        self.count();
        self.place = place;
        self.counted = BlockReads::default();
        self.cursor = self.tables.get(place).map(|stored| {
            let cursor = stored.table.cursor(self.cache.clone());
            if self.reads_ahead { cursor.reading_ahead() } else { cursor }
        });
        self.cursor.as_mut()
    }

    fn seek(&mut self, direction: Direction, bound: Bound<&[u8]>) -> Result<()> {
        let (key, excluded) = match bound {
            Bound::Included(key) => (Some(key), false),
            Bound::Excluded(key) => (Some(key), true),
            Bound::Unbounded => (None, false),
        };
        let place = match (direction, key) {
            (Direction::Forward, None) => 0,
            (Direction::Backward, None) => self.tables.len().wrapping_sub(1),
            (Direction::Forward, Some(key)) => {
                self.tables.partition_point(|stored| stored.meta.largest.as_slice() < key)
            }
            (Direction::Backward, Some(key)) => {
                self.tables.partition_point(|stored| stored.meta.smallest.as_slice() <= key).wrapping_sub(1)
            }
        };
        let asked = self.asked.take();
        asked.as_ref().map_or(Ok(()), Asked::report)?;
        let Some(cursor) = self.enter(place) else { return Ok(()) };
        match (direction, key) {
            (Direction::Forward, None) => cursor.seek_to_first()?,
            (Direction::Backward, None) => cursor.seek_to_last()?,
            (Direction::Forward, Some(key)) => cursor.seek(key)?,
            (Direction::Backward, Some(key)) => cursor.seek_for_prev(key)?,
        }
        let at_bound = asked.as_ref().and_then(|_| self.key().map(<[u8]>::to_vec));
        let stands_on_bound = excluded && self.entry().is_some_and(|(found, _)| Some(found) == key);
        if stands_on_bound {
            self.step(direction)?
        } else {
            self.leave_if_done(direction)?
        }
        // A run with answers has only one SST, so the cursor is in this SST or has no position.
        asked.iter().for_each(|asked| asked.judge(at_bound.as_deref(), self.key()));
        Ok(())
    }

    fn step(&mut self, direction: Direction) -> Result<()> {
        if let Some(cursor) = &mut self.cursor {
            match direction {
                Direction::Forward => cursor.next()?,
                Direction::Backward => cursor.prev()?,
            }
        }
        self.leave_if_done(direction)
    }

    /// Moves to the next SST in `direction` while the current one has no more entries.
    fn leave_if_done(&mut self, direction: Direction) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|cursor| !cursor.valid()) {
            match direction {
                Direction::Forward => {
                    if let Some(cursor) = self.enter(self.place + 1) {
                        cursor.seek_to_first()?;
                    }
                }
                Direction::Backward => {
                    // Before the first SST, `place` becomes usize::MAX, where there is no SST.
                    if let Some(cursor) = self.enter(self.place.wrapping_sub(1)) {
                        cursor.seek_to_last()?;
                    }
                }
            }
        }
        self.count();
        Ok(())
    }
}

/// A merge of sources into one sequence of entries. Each key appears once, with its newest version.
#[derive(Debug)]
pub(crate) struct Merge {
    /// The sources, newest first.
    sources: Vec<Source>,
    direction: Direction,
    /// The sources that have an entry, as a heap: the first holds the current entry.
    heads: Vec<Head>,
    key: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    /// The first eight bytes of the source's key, inverted in a backward merge. The smaller rank
    /// comes first. If ranks are equal, the keys decide.
    rank: u64,
    source: usize,
}

impl Merge {
    /// Moves to the first entry within `bound` in the direction. `sources` are newest first.
    pub(crate) fn new(mut sources: Vec<Source>, direction: Direction, bound: Bound<&[u8]>) -> Result<Self> {
        for source in &mut sources {
            source.seek(direction, bound)?;
        }
        let heads = Vec::with_capacity(sources.len());
        let mut merge = Self { sources, direction, heads, key: Vec::new() };
        merge.heads = (0..merge.sources.len()).filter_map(|source| merge.head(source)).collect();
        for place in (0..merge.heads.len() / 2).rev() {
            merge.sink(place);
        }
        Ok(merge)
    }

    pub(crate) fn entry(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.sources.get(self.heads.first()?.source)?.entry()
    }

    pub(crate) fn step(&mut self) -> Result<()> {
        let Some(&Head { rank, source }) = self.heads.first() else { return Ok(()) };
        self.key.clear();
        self.key.extend_from_slice(self.sources.get(source).and_then(Source::key).unwrap_or_default());
        // Older versions of the key come next in the heap.
        while let Some(&head) = self.heads.first()
            && head.rank == rank
            && self.key_of(head.source) == self.key
        {
            if let Some(source) = self.sources.get_mut(head.source) {
                source.step(self.direction, &self.key)?;
            }
            match (self.head(head.source), self.heads.first_mut()) {
                (Some(moved), Some(first)) => *first = moved,
                _ => drop(self.heads.swap_remove(0)),
            }
            self.sink(0);
        }
        Ok(())
    }

    fn key_of(&self, source: usize) -> &[u8] {
        self.sources.get(source).and_then(Source::key).unwrap_or_default()
    }

    fn head(&self, source: usize) -> Option<Head> {
        let prefix = order_prefix(self.sources.get(source)?.key()?);
        let rank = if self.direction == Direction::Forward { prefix } else { !prefix };
        Some(Head { rank, source })
    }

    /// If the keys are equal, the key from the first source comes first, because it is the newest.
    fn is_before(&self, a: Head, b: Head) -> bool {
        if a.rank != b.rank {
            return a.rank < b.rank;
        }
        let order = self.key_of(a.source).cmp(self.key_of(b.source));
        let order = if self.direction == Direction::Forward { order } else { order.reverse() };
        order.then(a.source.cmp(&b.source)).is_lt()
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let mut first = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if let (Some(&a), Some(&b)) = (self.heads.get(child), self.heads.get(first))
                    && self.is_before(a, b)
                {
                    first = child;
                }
            }
            if first == place {
                return;
            }
            self.heads.swap(place, first);
            place = first;
        }
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::lsm::memtable::Memtable;
    use filterblock::{HashSeed, KeyHash};

    /// The newest version of each key.
    type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

    /// Returns memtables that share keys, newest first, and the newest version of each key. Many of
    /// the keys begin with the same eight bytes.
    fn memtables(num_tables: u64) -> (Vec<Arc<Memtable>>, Model) {
        let (mut tables, mut model) = (Vec::new(), Model::new());
        for number in 0..num_tables {
            let table = Memtable::new(number, 1 << 16);
            for i in 0..40u64 {
                let mixed = (number * 40 + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                let key = match mixed % 3 {
                    0 => format!("{}", mixed % 50).into_bytes(),
                    1 => format!("same-prefix-{}", mixed % 60).into_bytes(),
                    _ => vec![0xff; (mixed % 12) as usize],
                };
                let value = (mixed % 5 > 0).then(|| number.to_string().into_bytes());
                table.insert(&key, value.as_deref(), KeyHash::of(&key, HashSeed(1)), i + 1).unwrap();
                let newest = table.get(&key, KeyHash::of(&key, HashSeed(1)), 100).unwrap();
                // The loop creates the oldest memtable first, so the last insertion wins.
                model.insert(key, newest.1.value().map(<[u8]>::to_vec));
            }
            tables.insert(0, Arc::new(table));
        }
        (tables, model)
    }

    #[test]
    fn a_merge_yields_the_newest_version_in_both_directions() {
        for num_tables in [0, 1, 2, 3, 7, 40] {
            let (tables, model) = memtables(num_tables);
            for direction in [Direction::Forward, Direction::Backward] {
                let sources = tables.iter().map(|table| Source::Memtable(MemtableCursor::new(Arc::clone(table), 100)));
                let mut merge = Merge::new(sources.collect(), direction, Bound::Unbounded).unwrap();
                let mut seen = Vec::new();
                while let Some((key, value)) = merge.entry() {
                    seen.push((key.to_vec(), value.map(<[u8]>::to_vec)));
                    merge.step().unwrap();
                }
                if direction == Direction::Backward {
                    seen.reverse();
                }
                assert_eq!(seen, model.clone().into_iter().collect::<Vec<_>>(), "{num_tables} sources, {direction:?}");
            }
        }
    }
}
