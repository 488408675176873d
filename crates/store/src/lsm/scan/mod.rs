//! Scans a range: plans which memtables and SSTs a scan reads, and reads them from both ends.

pub(crate) mod merge;
mod query;

use std::ops::Bound;
use std::sync::Arc;

use self::merge::{Direction, Merge, RunCursor, Source};
use self::query::{Answers, Asked, OwnedQuery, ScanQuery, is_within};
use crate::error::Result;
use crate::lsm::memtable::MemtableCursor;
use crate::lsm::shared::Shared;
use crate::lsm::stats::ScanTally;
use crate::lsm::version::read_state::ReadState;
use crate::lsm::version::{
    Version,
    level::{RangeProbe, Slot},
};
use crate::sync::atomic::Ordering;
use filterblock::FilterSet;

/// An iterator over the keys of a range and their values, in key order. It shows the store at the
/// moment of the scan's creation, or of the snapshot that created the scan. The scan can be read
/// from both ends.
///
/// After an error, the scan yields no more entries, from either end.
pub struct Scan {
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    front: Option<Merge>,
    back: Option<Merge>,
    done: bool,
    /// Holds the SSTs until the merges are dropped, because it is the last field. Dropping the
    /// merges therefore does not remove the files of replaced SSTs. `None` in a scan without entries.
    plan: Option<Box<Plan>>,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}

type Pair = (Vec<u8>, Vec<u8>);

impl Scan {
    fn advance(&mut self, direction: Direction) -> Result<Option<Pair>> {
        let end = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        let merge = match end {
            Some(merge) => merge,
            None => {
                let bound = if direction == Direction::Forward { &self.from } else { &self.to };
                let sources = self.plan.as_mut().map_or_else(Vec::new, |plan| plan.sources());
                end.insert(Merge::new(sources, direction, bound.as_ref().map(Vec::as_slice))?)
            }
        };
        while let Some((key, value)) = merge.entry() {
            let (from, to) = match direction {
                Direction::Forward => (Bound::Unbounded, self.to.as_ref()),
                Direction::Backward => (self.from.as_ref(), Bound::Unbounded),
            };
            if !is_within(key, from.map(Vec::as_slice), to.map(Vec::as_slice)) {
                return Ok(None);
            }
            let pair = value.map(|value| (key.to_vec(), value.to_vec()));
            merge.step()?;
            if let Some(pair) = pair {
                // Neither end may yield this key again: it becomes a bound of the other end.
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

/// Neighbouring SSTs of a level, or one SST of level 0.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// The position of the level in [`Version::levels`].
    level: usize,
    first: usize,
    len: usize,
    /// The answers of the filter about the scan. `None` if the run has several SSTs, or if filters
    /// are not used.
    answers: Option<Answers>,
}

impl Run {
    fn slots<'v>(&self, version: &'v Version) -> &'v [Slot] {
        let level = version.levels.get(self.level);
        level.and_then(|level| level.slots.get(self.first..self.first + self.len)).unwrap_or_default()
    }
}

struct Plan {
    shared: Arc<Shared>,
    state: Arc<ReadState>,
    sequence: u64,
    runs: Vec<Run>,
    /// `None` after one end of the scan has taken the answers: they are counted only once.
    query: Option<Arc<OwnedQuery>>,
}

/// Returns a scan of a range of the state, as of the write with the number `sequence`, and counts
/// the scan.
///
/// If all keys of the range share a prefix of the extractor, the scan first asks the filters for
/// this prefix. It then asks the range filters for the range. With `FilterUse::Ignore`, the scan
/// asks no filter.
///
/// If several SSTs of one sorted run overlap the range, the scan does not ask their filters. Each
/// of these SSTs holds a key of the range: its last key, or for the last of these SSTs its first
/// key.
pub(crate) fn scan(
    shared: &Arc<Shared>,
    state: &Arc<ReadState>,
    sequence: u64,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
) -> Scan {
    shared.reading.counters.scans.fetch_add(1, Ordering::Relaxed);
    let query = ScanQuery::new(shared, from, to);
    let runs = runs(shared, state, &RangeProbe::new(from, to), query.as_ref());
    if runs.is_empty() && !may_be_in_memory(state, sequence, from, to) {
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        return Scan { from, to, front: None, back: None, done: true, plan: None };
    }
    let query = query.map(|query| Arc::new(query.to_owned(shared)));
    let (shared, state) = (Arc::clone(shared), Arc::clone(state));
    let plan = Some(Box::new(Plan { shared, state, sequence, runs, query }));
    let (from, to) = (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec));
    Scan { from, to, front: None, back: None, done: false, plan }
}

/// Newest first, without runs of one SST whose filter denies the prefix or the range. Counts these denials.
fn runs(shared: &Shared, state: &ReadState, range: &RangeProbe<'_>, query: Option<&ScanQuery<'_>>) -> Vec<Run> {
    let version = state.version.as_ref();
    let mut found = Found::default();
    for (place, level) in version.levels.iter().enumerate() {
        let (mut denied, mut expected) = (0, 0);
        level.runs_within(range, |first, slots| {
            // Keep this path short: it is all that a scan of a denied prefix does with an SST.
            match (query, slots) {
                (Some(query), [slot]) if query.denies_prefix(version, slot) => {
                    denied += 1;
                    expected += u64::from(slot.expected);
                }
                _ => found.add(
                    (query, &version.filters),
                    Run { level: place, first, len: slots.len(), answers: None },
                    slots,
                ),
            }
        });
        let mut tally = std::mem::take(&mut found.tally);
        tally.prefixes.true_negatives += denied;
        tally.prefixes.expected += expected;
        if tally.prefixes.true_negatives + tally.ranges.true_negatives > 0 {
            shared.reading.counters.recorder().scan(level.number, &tally);
        }
    }
    found.runs
}

#[derive(Default)]
struct Found {
    runs: Vec<Run>,
    tally: ScanTally,
}

impl Found {
    /// Adds a run, unless it has one SST whose range filter denies the range.
    ///
    /// Not inlined, so that the loop over denied prefixes stays short.
    #[inline(never)]
    fn add(&mut self, (query, filters): (Option<&ScanQuery<'_>>, &FilterSet), run: Run, slots: &[Slot]) {
        let answers = match (query, slots) {
            (Some(query), [slot]) => match query.ask_range(filters, slot, &mut self.tally) {
                Some(answers) => Some(answers),
                None => return,
            },
            _ => None,
        };
        self.runs.push(Run { answers, ..run });
    }
}

fn may_be_in_memory(state: &ReadState, sequence: u64, from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    let mut filled = std::iter::once(&state.memtable).chain(&state.immutable).filter(|table| !table.is_empty());
    filled.any(|table| {
        let mut cursor = MemtableCursor::new(Arc::clone(table), sequence);
        cursor.seek_forward(from);
        cursor.entry().is_some_and(|(key, _)| is_within(key, Bound::Unbounded, to))
    })
}

impl Plan {
    /// Returns the sources of one end of the scan, newest first.
    fn sources(&mut self) -> Vec<Source> {
        let query = self.query.take();
        let Self { shared, state, .. } = self;
        let memtables = std::iter::once(&state.memtable).chain(&state.immutable);
        let mut sources: Vec<Source> =
            memtables.map(|table| Source::Memtable(MemtableCursor::new(Arc::clone(table), self.sequence))).collect();
        sources.extend(self.runs.iter().map(|run| {
            let slots = run.slots(&state.version);
            let tables = slots.iter().map(|slot| Arc::clone(&slot.stored)).collect();
            let cursor = RunCursor::new(tables, shared.reading.cache.clone());
            let cursor = cursor.counted_by(&shared.reading.counters.scan_reads);
            Source::Run(match (slots, run.answers, &query) {
                ([slot], Some(answers), Some(query)) => {
                    let level = state.version.levels.get(run.level).map_or(0, |level| level.number);
                    let (query, stored) = (Arc::clone(query), Arc::clone(&slot.stored));
                    cursor.asked(Asked { query, stored, level, answers })
                }
                _ => cursor,
            })
        }));
        sources
    }
}
