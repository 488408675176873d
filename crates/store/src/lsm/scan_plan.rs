//! Plans a scan: which memtables and SSTs it reads.

use std::ops::Bound;
use std::sync::Arc;

use super::memtable::MemtableCursor;
use super::options::FilterUse;
use super::prefix_query::{Asked, PrefixProbe};
use super::read_state::ReadState;
use super::scan::{RunCursor, Scan, Source, is_before};
use super::shared::Shared;
use super::stats::Tally;
use super::version::{RangeProbe, Slot, Version};
use crate::sync::atomic::Ordering;
use filterblock::Answer;

/// Neighbouring SSTs of a level, or one SST of level 0.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// The position of the level in [`Version::levels`].
    level: usize,
    first: usize,
    len: usize,
    /// What the filter of the only SST answered for the prefix of the scan.
    answer: Option<Answer>,
}

impl Run {
    fn slots<'v>(&self, version: &'v Version) -> &'v [Slot] {
        let level = version.levels.get(self.level);
        level.and_then(|level| level.slots.get(self.first..self.first + self.len)).unwrap_or_default()
    }
}

/// The SSTs that a scan reads, and the prefix of its range.
struct Plan {
    shared: Arc<Shared>,
    state: Arc<ReadState>,
    sequence: u64,
    runs: Vec<Run>,
    prefix: Option<Arc<[u8]>>,
}

/// Scans the range of a state, as of the write `sequence`.
///
/// If all keys of the range have one prefix, the scan asks the filters for it. If nothing is left to
/// read, the scan costs little more than a get of an absent key. Of several SSTs of one level that
/// overlap the range, each holds a key of the range: the last key of each SST but the last, and the
/// first key of each SST but the first. So they have the prefix, and are not asked.
pub(super) fn scan(
    shared: &Arc<Shared>,
    state: &Arc<ReadState>,
    sequence: u64,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
) -> Scan {
    shared.reading.counters.scans.fetch_add(1, Ordering::Relaxed);
    let extractor = shared.identity.extractor.as_ref().filter(|_| shared.options.filter_use == FilterUse::Consult);
    let prefix = extractor.and_then(|extractor| extractor.prefix_of_range(from, to));
    let runs = runs(shared, state, &RangeProbe::new(from, to), prefix);
    if runs.is_empty() && !may_be_in_memory(state, sequence, from, to) {
        return Scan::empty();
    }
    let (shared, state, prefix) = (Arc::clone(shared), Arc::clone(state), prefix.map(Arc::from));
    let plan = Plan { shared, state, sequence, runs, prefix };
    let owned = |bound: Bound<&[u8]>| bound.map(<[u8]>::to_vec);
    Scan::new(Box::new(move || plan.sources()), owned(from), owned(to))
}

/// Returns the runs that may hold keys of the range, newest first, without runs of one SST whose
/// filter denies the prefix.
fn runs(shared: &Shared, state: &ReadState, range: &RangeProbe<'_>, prefix: Option<&[u8]>) -> Vec<Run> {
    let version = state.version.as_ref();
    let probe = prefix.map(|prefix| PrefixProbe::new(prefix, &shared.identity.hasher));
    let mut runs = Vec::new();
    for (place, level) in version.levels.iter().enumerate() {
        let mut tally = Tally::default();
        level.runs_within(range, |first, slots| {
            let answer = match (&probe, slots) {
                (Some(probe), [slot]) => Some(probe.ask(version, slot)),
                _ => None,
            };
            if answer == Some(Answer::No) {
                tally.prefix_true_negatives += 1;
            } else {
                runs.push(Run { level: place, first, len: slots.len(), answer });
            }
        });
        if tally.prefix_true_negatives > 0
            && let Some(recorder) = shared.reading.counters.recorder()
        {
            recorder.level(level.number, &tally);
        }
    }
    runs
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
        let memtables = std::iter::once(&state.memtable).chain(&state.immutable);
        let mut sources: Vec<Source> =
            memtables.map(|table| Source::Memtable(MemtableCursor::new(Arc::clone(table), self.sequence))).collect();
        sources.extend(self.runs.iter().map(|run| {
            let slots = run.slots(&state.version);
            let tables = slots.iter().map(|slot| Arc::clone(&slot.stored)).collect();
            let cursor = RunCursor::new(tables, shared.reading.cache.clone());
            let cursor = cursor.counted_by(&shared.reading.counters.scan_reads);
            Source::Run(match (slots, run.answer, &self.prefix) {
                ([slot], Some(answer), Some(prefix)) => {
                    let level = state.version.levels.get(run.level).map_or(0, |level| level.number);
                    let (shared, stored, prefix) = (Arc::clone(shared), Arc::clone(&slot.stored), Arc::clone(prefix));
                    cursor.asked(Asked { shared, stored, level, prefix, answer })
                }
                _ => cursor,
            })
        }));
        sources
    }
}
