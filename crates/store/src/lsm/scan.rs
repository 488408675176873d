//! Ordered reads: cursors over memtables and levels, merged with the newest source first.

use std::ops::Bound;
use std::sync::Arc;

use super::memtable::MemtableCursor;
use super::stats::ScanReads;
use super::version::StoredTable;
use crate::error::Result;
use crate::sstable::{BlockCache, BlockReads, TableCursor};

/// The direction of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

/// One input of a merge.
#[derive(Debug)]
pub(super) enum Source {
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

    /// Moves past `key`, the current key.
    fn step(&mut self, direction: Direction, key: &[u8]) -> Result<()> {
        match self {
            Self::Memtable(_) => self.seek(direction, Bound::Excluded(key)),
            Self::Run(cursor) => cursor.step(direction),
        }
    }
}

/// Moves over a sorted run: SSTs in key order, opened one at a time.
#[derive(Debug)]
pub(super) struct RunCursor {
    tables: Vec<Arc<StoredTable>>,
    cache: Option<Arc<BlockCache>>,
    place: usize,
    cursor: Option<TableCursor>,
    /// Where a scan counts the blocks that it reads. Compactions count bytes instead.
    counter: Option<Arc<ScanReads>>,
    /// The reads of `cursor` that are counted.
    counted: BlockReads,
}

impl RunCursor {
    /// Creates a cursor. `tables` must be in key order, without overlaps.
    pub(super) fn new(tables: Vec<Arc<StoredTable>>, cache: Option<Arc<BlockCache>>) -> Self {
        Self { tables, cache, place: 0, cursor: None, counter: None, counted: BlockReads::default() }
    }

    /// Counts the data blocks that the cursor reads.
    pub(super) fn counted_by(self, counter: &Arc<ScanReads>) -> Self {
        Self { counter: Some(Arc::clone(counter)), ..self }
    }

    /// Counts the blocks that were read since the last call.
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

    fn entry(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.cursor.as_ref().filter(|cursor| cursor.valid()).map(|cursor| (cursor.key(), cursor.value()))
    }

    /// Opens the SST at `place`. Returns `None` beyond the ends.
    fn enter(&mut self, place: usize) -> Option<&mut TableCursor> {
        self.count();
        self.place = place;
        self.counted = BlockReads::default();
        self.cursor = self.tables.get(place).map(|stored| stored.table.cursor(self.cache.clone()));
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
        let Some(cursor) = self.enter(place) else { return Ok(()) };
        match (direction, key) {
            (Direction::Forward, None) => cursor.seek_to_first()?,
            (Direction::Backward, None) => cursor.seek_to_last()?,
            (Direction::Forward, Some(key)) => cursor.seek(key)?,
            (Direction::Backward, Some(key)) => cursor.seek_for_prev(key)?,
        }
        let stands_on_bound = excluded && self.entry().is_some_and(|(found, _)| Some(found) == key);
        if stands_on_bound { self.step(direction) } else { self.leave_if_done(direction) }
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

    /// Moves to the next SST while the current one has no more entries.
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

/// Sources merged into one sequence. Each key appears once, with its newest version.
#[derive(Debug)]
pub(super) struct Merge {
    /// Newest first.
    sources: Vec<Source>,
    direction: Direction,
    /// The source that holds the current entry.
    current: Option<usize>,
    key: Vec<u8>,
}

impl Merge {
    /// Creates a merge and moves it to the first entry within `bound`. `sources` are newest first.
    ///
    /// # Errors
    /// Returns errors from reading the sources.
    pub(super) fn new(mut sources: Vec<Source>, direction: Direction, bound: Bound<&[u8]>) -> Result<Self> {
        for source in &mut sources {
            source.seek(direction, bound)?;
        }
        let mut merge = Self { sources, direction, current: None, key: Vec::new() };
        merge.choose();
        Ok(merge)
    }

    /// Returns the current entry; its value is `None` for a tombstone.
    pub(super) fn entry(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.sources.get(self.current?)?.entry()
    }

    /// Moves to the next key.
    ///
    /// # Errors
    /// Returns errors from reading the sources.
    pub(super) fn step(&mut self) -> Result<()> {
        let Some((key, _)) = self.current.and_then(|current| self.sources.get(current)?.entry()) else {
            return Ok(());
        };
        self.key.clear();
        self.key.extend_from_slice(key);
        for source in &mut self.sources {
            if source.entry().is_some_and(|(found, _)| found == self.key) {
                source.step(self.direction, &self.key)?;
            }
        }
        self.choose();
        Ok(())
    }

    /// Chooses the source of the current entry with a linear search: a store has a handful of runs,
    /// and compaction keeps it so.
    fn choose(&mut self) {
        let mut best: Option<(usize, &[u8])> = None;
        for (i, source) in self.sources.iter().enumerate() {
            let Some((key, _)) = source.entry() else { continue };
            let is_better = best.is_none_or(|(_, best)| match self.direction {
                Direction::Forward => key < best,
                Direction::Backward => key > best,
            });
            // Of equal keys, the one from the first source stays, because it is the newest.
            if is_better {
                best = Some((i, key));
            }
        }
        self.current = best.map(|(i, _)| i);
    }
}

/// Creates the sources of a scan, once for each of its two ends.
type MakeSources = Box<dyn Fn() -> Vec<Source> + Send>;

/// The entries of a range in key order, as of the moment when the scan began. The scan can be read
/// from both ends.
///
/// After an error, that end yields no more entries.
pub struct Scan {
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    front: Option<Merge>,
    back: Option<Merge>,
    done: bool,
    /// Dropped last: it holds the state, and as long as the state lives, the drop of the merges does
    /// not remove the files of replaced SSTs.
    make_sources: MakeSources,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

impl Scan {
    pub(super) fn new(make_sources: MakeSources, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Self {
        Self { from, to, front: None, back: None, done: false, make_sources }
    }

    fn advance(&mut self, direction: Direction) -> Result<Option<Pair>> {
        let end = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        let merge = match end {
            Some(merge) => merge,
            None => {
                let bound = if direction == Direction::Forward { &self.from } else { &self.to };
                end.insert(Merge::new((self.make_sources)(), direction, as_slice(bound))?)
            }
        };
        while let Some((key, value)) = merge.entry() {
            let within = match direction {
                Direction::Forward => is_before(key, as_slice(&self.to)),
                Direction::Backward => is_behind(key, as_slice(&self.from)),
            };
            if !within {
                return Ok(None);
            }
            let pair = value.map(|value| (key.to_vec(), value.to_vec()));
            merge.step()?;
            if let Some(pair) = pair {
                // A key that one end has yielded is the bound of the other end.
                match direction {
                    Direction::Forward => self.from = Bound::Excluded(pair.0.clone()),
                    Direction::Backward => self.to = Bound::Excluded(pair.0.clone()),
                }
                return Ok(Some(pair));
            }
        }
        Ok(None)
    }

    fn next_of(&mut self, direction: Direction) -> Option<Result<Pair>> {
        if self.done {
            return None;
        }
        let next = self.advance(direction).transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

impl Iterator for Scan {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_of(Direction::Forward)
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_of(Direction::Backward)
    }
}

pub(super) fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

fn is_before(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Included(end) => key <= end,
        Bound::Excluded(end) => key < end,
        Bound::Unbounded => true,
    }
}

fn is_behind(key: &[u8], start: Bound<&[u8]>) -> bool {
    match start {
        Bound::Included(start) => key >= start,
        Bound::Excluded(start) => key > start,
        Bound::Unbounded => true,
    }
}
