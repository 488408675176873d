//! Plans a scan: which memtables and SSTs it reads.

use std::cell::Cell;
use std::ops::Bound;
use std::sync::Arc;

use super::query::{Answers, Asked, OwnedQuery, ScanQuery};
use super::{RunCursor, Scan, Source};
use crate::lsm::bounds::is_before;
use crate::lsm::memtable::MemtableCursor;
use crate::lsm::shared::Shared;
use crate::lsm::stats::ScanTally;
use crate::lsm::version::read_state::ReadState;
use crate::lsm::version::{RangeProbe, Slot, Version};
use crate::sync::atomic::Ordering;

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

/// The memtables and SSTs that a scan reads, and its queries to the filters.
struct Plan {
    shared: Arc<Shared>,
    state: Arc<ReadState>,
    sequence: u64,
    runs: Vec<Run>,
    query: Option<Arc<OwnedQuery>>,
    /// Whether one end of the scan has taken the answers. They are counted only once.
    is_counted: Cell<bool>,
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
        return Scan::empty();
    }
    let query = query.map(|query| Arc::new(query.to_owned(shared)));
    let (shared, state) = (Arc::clone(shared), Arc::clone(state));
    let plan = Plan { shared, state, sequence, runs, query, is_counted: Cell::new(false) };
    let owned = |bound: Bound<&[u8]>| bound.map(<[u8]>::to_vec);
    Scan::new(Box::new(move || plan.sources()), owned(from), owned(to))
}

/// Returns the runs that may hold keys of the range, newest first, without runs of one SST whose
/// filter denies the prefix or the range. Counts these denials.
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
                _ => found.add(query, Run { level: place, first, len: slots.len(), answers: None }, slots),
            }
        });
        let mut tally = std::mem::take(&mut found.tally);
        tally.prefixes.true_negatives += denied;
        tally.prefixes.expected += expected;
        if tally.prefixes.true_negatives + tally.ranges.true_negatives > 0
            && let Some(recorder) = shared.reading.counters.recorder()
        {
            recorder.scan(level.number, &tally);
        }
    }
    found.runs
}

/// The runs that a scan reads, and the counts of a level.
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
    fn add(&mut self, query: Option<&ScanQuery<'_>>, run: Run, slots: &[Slot]) {
        let answers = match (query, slots) {
            (Some(query), [slot]) => match query.ask_range(slot, &mut self.tally) {
                Some(answers) => Some(answers),
                None => return,
            },
            _ => None,
        };
        self.runs.push(Run { answers, ..run });
    }
}

/// Returns whether a memtable holds a key of the range, as a value or as a tombstone.
fn may_be_in_memory(state: &ReadState, sequence: u64, from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    let mut filled = std::iter::once(&state.memtable).chain(&state.immutable).filter(|table| !table.is_empty());
    filled.any(|table| {
        let mut cursor = MemtableCursor::new(Arc::clone(table), sequence);
        cursor.seek_forward(from);
        cursor.entry().is_some_and(|(key, _)| is_before(key, to))
    })
}

impl Plan {
    /// Returns the sources of one end of the scan, newest first.
    fn sources(&self) -> Vec<Source> {
        let Self { shared, state, .. } = self;
        let query = self.query.as_ref().filter(|_| !self.is_counted.replace(true));
        let memtables = std::iter::once(&state.memtable).chain(&state.immutable);
        let mut sources: Vec<Source> =
            memtables.map(|table| Source::Memtable(MemtableCursor::new(Arc::clone(table), self.sequence))).collect();
        sources.extend(self.runs.iter().map(|run| {
            let slots = run.slots(&state.version);
            let tables = slots.iter().map(|slot| Arc::clone(&slot.stored)).collect();
            let cursor = RunCursor::new(tables, shared.reading.cache.clone());
            let cursor = cursor.counted_by(&shared.reading.counters.scan_reads);
            Source::Run(match (slots, run.answers, query) {
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
