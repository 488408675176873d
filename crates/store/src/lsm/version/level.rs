//! Defines a level, and reads one key from its SSTs.

use std::ops::Bound;
use std::sync::Arc;

use super::run_map::{MAX_RUNS, Mapped, MappedRuns, SstOfMap};
use super::stored_table::StoredTable;
use crate::codec::order_prefix;
use crate::error::Result;
use crate::lsm::options::FilterUse;
use crate::lsm::stats::store_stats::Reports;
use crate::lsm::stats::{Recorder, Tally, rate_units};
use crate::sstable::{BlockCache, BlockReads, FoundValue, KnownBlock, Table, TableFilter};
use filterblock::{Answer, FilterSet, FilterSlot, KeyHash, KeyHasher, PrefixExtractor, Runs};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) prefix: u64,
    pub(crate) hash: KeyHash,
}

impl<'a> Probe<'a> {
    #[inline]
    pub(crate) fn new(key: &'a [u8], hasher: &KeyHasher) -> Self {
        Self { key, prefix: order_prefix(key), hash: hasher.of(key) }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadContext<'a> {
    /// The filters of the version.
    pub(crate) filters: &'a FilterSet,
    pub(crate) recorder: Recorder<'a>,
    pub(crate) filter_use: FilterUse,
    pub(crate) strict: bool,
    /// The extractor of the prefixes for which filters are asked after the key.
    pub(crate) extractor: Option<&'a PrefixExtractor>,
    pub(crate) cache: Option<&'a BlockCache>,
    pub(crate) reports: &'a Reports,
}

impl ReadContext<'_> {
    /// Returns whether a batch announces this number of reads to the storage. A single read has no
    /// other read to overlap with. With an extractor, the filter may still deny a prefix of an
    /// absent key, so that an announced read would be wasted.
    pub(super) fn announces(&self, num_reads: usize) -> bool {
        num_reads > 1 && self.extractor.is_none()
    }
}

/// The facts about an SST that a read looks at first. They take at most 64 bytes, the length of a
/// cache line. The filter itself is in [`ReadContext::filters`].
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    /// [`order_prefix`] of the first key.
    pub(crate) smallest: u64,
    /// [`order_prefix`] of the last key.
    pub(crate) largest: u64,
    /// The filter's expected FPR, in the units of
    /// [`ProbeTally::expected`](crate::lsm::stats::ProbeTally).
    pub(crate) expected: u32,
    /// The expected FPR of answers about whole keys: of the map of level 0 if the SST is mapped,
    /// otherwise of the filter.
    pub(crate) expected_of_keys: u32,
    pub(crate) filter: FilterSlot,
    /// Whether the map of level 0 answers for the keys of the SST.
    pub(crate) is_mapped: bool,
    /// Whether the filter holds the prefixes of the store's extractor beside the keys.
    pub(crate) has_prefixes: bool,
    pub(crate) has_ranges: bool,
    pub(crate) table: Arc<Table>,
    pub(crate) stored: Arc<StoredTable>,
}

const _: () = assert!(size_of::<Slot>() <= 64);

impl Slot {
    pub(super) fn new(stored: Arc<StoredTable>, filters: &mut FilterSet, is_cached: bool) -> Self {
        let filter = stored.table.add_filter(filters);
        let (smallest, largest) = (order_prefix(&stored.meta.smallest), order_prefix(&stored.meta.largest));
        let (has_prefixes, has_ranges) = (stored.table.has_prefixes(), stored.table.has_ranges());
        // A filter of a cache may have lost columns since the SST was opened.
        let in_memory = filters.filter(filter).filter(|_| is_cached).and_then(|filter| filter.ready());
        let expected = in_memory.map_or(stored.expected, |filter| rate_units(filter.expected_fpr()));
        let table = Arc::clone(&stored.table);
        Self {
            smallest,
            largest,
            expected,
            expected_of_keys: expected,
            filter,
            is_mapped: false,
            has_prefixes,
            has_ranges,
            table,
            stored,
        }
    }

    #[inline]
    pub(crate) fn covers(&self, probe: &Probe<'_>) -> bool {
        if self.smallest < probe.prefix && probe.prefix < self.largest {
            return true;
        }
        self.smallest <= probe.prefix && probe.prefix <= self.largest && self.covers_by_bytes(probe.key)
    }

    /// Compares whole keys, because equal prefixes do not decide the order.
    fn covers_by_bytes(&self, key: &[u8]) -> bool {
        self.stored.meta.smallest.as_slice() <= key && key <= self.stored.meta.largest.as_slice()
    }

    #[inline]
    fn is_below(&self, probe: &Probe<'_>) -> bool {
        self.largest < probe.prefix || self.largest == probe.prefix && self.stored.meta.largest.as_slice() < probe.key
    }

    /// Searches the SST for a key that it covers, unless `answer` denies the key.
    fn answered<V: FoundValue>(
        &self,
        answer: Answer,
        probe: &Probe<'_>,
        context: &ReadContext<'_>,
        tally: &mut Tally,
    ) -> Result<Option<Option<V>>> {
        if answer == Answer::No {
            tally.points.count_denied(1, self.expected_of_keys);
            return Ok(None);
        }
        self.search(probe, context, (answer, KnownBlock::Unknown), tally)
    }

    fn denies_prefix(&self, filters: &FilterSet, extractor: &PrefixExtractor, key: &[u8]) -> bool {
        // The filter was already asked for the key itself.
        let mut prefixes = extractor.prefixes(key).filter(|prefix| prefix.len() < key.len());
        self.has_prefixes && prefixes.any(|prefix| filters.ask(self.filter, filters.hasher().key(prefix)) == Answer::No)
    }

    /// Searches the SST, unless its filter denies a prefix of the key, or its only filter is a
    /// range filter that denies the key. Returns `None` if the SST does not hold the key, and
    /// `Some(None)` for a tombstone. `answer` is the filter's answer for the key. `block` is the
    /// position or the content of the data block, if known. Counts the outcome in `tally`, and
    /// reports damage of the filter.
    #[cold]
    pub(super) fn search<V: FoundValue>(
        &self,
        probe: &Probe<'_>,
        context: &ReadContext<'_>,
        (answer, block): (Answer, KnownBlock<'_>),
        tally: &mut Tally,
    ) -> Result<Option<Option<V>>> {
        if let (Answer::Maybe, Some(extractor)) = (answer, context.extractor)
            && self.denies_prefix(context.filters, extractor, probe.key)
        {
            tally.points.count_denied(1, self.expected_of_keys);
            tally.reads.saved_by_prefixes += 1;
            return Ok(None);
        }
        // If the SST has only a range filter, ask it for the range that holds just this key.
        let answer = match (answer, context.filter_use) {
            (Answer::Unfiltered, FilterUse::Consult) => match context.filters.filter(self.filter).map(Arc::as_ref) {
                Some(TableFilter::Ready(block)) => block.may_contain(block.hasher().key(probe.key)).into(),
                _ => answer,
            },
            _ => answer,
        };
        if answer == Answer::No {
            tally.points.count_denied(1, self.expected_of_keys);
            return Ok(None);
        }
        let filter = context.filters.filter(self.filter).map(Arc::as_ref);
        if context.filter_use == FilterUse::Consult {
            self.stored.report_filter(filter, context.reports, context.strict)?;
        }
        let mut reads = BlockReads::default();
        let found = self.table.find_value(probe.key, block, context.cache, &mut reads);
        tally.add_reads(reads);
        let found = found?;
        // If any page of the filter is damaged, a wrong "maybe" counts as degraded, not as a false
        // positive: the answer may come from that page.
        let is_damaged = || matches!(filter, Some(TableFilter::Ready(filter)) if filter.damaged_pages() > 0);
        match (answer, &found) {
            (Answer::Maybe, None) if !self.is_mapped && is_damaged() => tally.points.degraded += 1,
            (Answer::Maybe, None) => {
                tally.points.false_positives += 1;
                tally.points.expected += u64::from(self.expected_of_keys);
            }
            (Answer::Maybe, _) => tally.points.true_positives += 1,
            _ if matches!(filter, Some(TableFilter::Degraded(_))) => tally.points.degraded += 1,
            _ => tally.points.unfiltered += 1,
        }
        Ok(found)
    }
}

/// The bounds of a scan, with the prefixes that decide most comparisons.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RangeProbe<'a> {
    from: (u64, Bound<&'a [u8]>),
    to: (u64, Bound<&'a [u8]>),
}

impl<'a> RangeProbe<'a> {
    pub(crate) fn new(from: Bound<&'a [u8]>, to: Bound<&'a [u8]>) -> Self {
        let prefix = |bound, unbounded| match bound {
            Bound::Included(key) | Bound::Excluded(key) => order_prefix(key),
            Bound::Unbounded => unbounded,
        };
        Self { from: (prefix(from, 0), from), to: (prefix(to, u64::MAX), to) }
    }

    #[inline]
    fn overlaps(&self, slot: &Slot) -> bool {
        // Equal prefixes do not decide the order.
        self.from.0 < slot.largest && slot.smallest < self.to.0 || !self.is_above(slot) && !self.is_below(slot)
    }

    /// Returns whether all keys of the SST sort before the range.
    #[inline]
    fn is_above(&self, slot: &Slot) -> bool {
        // A key is in another cache line than the slot: read it only if the prefixes are equal.
        let largest = || slot.stored.meta.largest.as_slice();
        match self.from {
            (_, Bound::Unbounded) => false,
            (prefix, _) if slot.largest != prefix => slot.largest < prefix,
            (_, Bound::Included(from)) => largest() < from,
            (_, Bound::Excluded(from)) => largest() <= from,
        }
    }

    /// Returns whether all keys of the SST sort after the range.
    #[inline]
    fn is_below(&self, slot: &Slot) -> bool {
        let smallest = || slot.stored.meta.smallest.as_slice();
        match self.to {
            (_, Bound::Unbounded) => false,
            (prefix, _) if slot.smallest != prefix => prefix < slot.smallest,
            (_, Bound::Included(to)) => to < smallest(),
            (_, Bound::Excluded(to)) => to <= smallest(),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Level {
    pub(crate) number: usize,
    /// Level 0: newest first. Deeper levels: in the order of their keys, without overlaps.
    pub(crate) slots: Vec<Slot>,
    /// [`Slot::largest`] of each SST, side by side. Empty in level 0. In deeper levels, a search
    /// over these eight bytes per SST loads fewer cache lines than a search over the slots.
    ends: Vec<u64>,
    pub(crate) mapped: Option<Box<MappedRuns>>,
}

impl Level {
    pub(super) fn new(number: usize, slots: Vec<Slot>) -> Self {
        let ends = if number == 0 { Vec::new() } else { slots.iter().map(|slot| slot.largest).collect() };
        Self { number, slots, ends, mapped: None }
    }

    /// Returns the view of the newest map that has an SST of level 0, and marks the mapped slots. Returns
    /// `None` if the map has fewer than `min_mapped` of the SSTs, or is longer than `room_bytes`.
    pub(super) fn map(&mut self, min_mapped: usize, room_bytes: u64) -> Option<MappedRuns> {
        let map_of = |slot: &Slot| match slot.stored.mapped() {
            Mapped::As(map, _) => Some(map),
            Mapped::NotYet | Mapped::Hashed(_) | Mapped::Never => None,
        };
        let map = self.slots.iter().find_map(map_of).filter(|map| map.len_bytes() <= room_bytes)?;
        let sst = |slot: &Slot| SstOfMap {
            run: slot.stored.run_in(&map),
            smallest: slot.smallest,
            largest: slot.largest,
            num_keys: slot.stored.meta.num_entries,
        };
        let ssts: Vec<_> = self.slots.iter().map(sst).collect();
        let view = MappedRuns::new(Arc::clone(&map), &ssts);
        if view.num_mapped() < min_mapped as u64 {
            return None;
        }
        for (place, slot) in self.slots.iter_mut().enumerate() {
            if let Some(expected_of_keys) = view.expected_at(place) {
                (slot.is_mapped, slot.expected_of_keys) = (true, expected_of_keys);
            }
        }
        Some(view)
    }

    /// Passes to `visit`, as runs, the SSTs that may hold keys of a range. An SST of level 0 is a
    /// run by itself. The SSTs of a deeper level are neighbours, and form one run. `visit` gets
    /// each run and the position of its first SST in the level.
    #[inline]
    pub(crate) fn runs_within(&self, range: &RangeProbe<'_>, mut visit: impl FnMut(usize, &[Slot])) {
        if self.number == 0 {
            for (place, slot) in self.slots.iter().enumerate() {
                if range.overlaps(slot) {
                    visit(place, std::slice::from_ref(slot));
                }
            }
            return;
        }
        let first = self.ends.partition_point(|&end| end < range.from.0);
        let rest = self.slots.get(first..).unwrap_or_default();
        // Equal prefixes do not decide the order, and all keys of a store may have the same prefix.
        let is_above = |slot: &&Slot| range.is_above(slot);
        let above = if rest.first().is_some_and(|slot| is_above(&slot)) {
            rest.partition_point(|slot| is_above(&slot))
        } else {
            0
        };
        let rest = rest.get(above..).unwrap_or_default();
        // Short ranges usually end in their first SST.
        let len = match rest.get(1) {
            Some(second) if !range.is_below(second) => rest.partition_point(|slot| !range.is_below(slot)),
            _ => usize::from(rest.first().is_some_and(|slot| !range.is_below(slot))),
        };
        if len > 0 {
            visit(first + above, rest.get(..len).unwrap_or_default());
        }
    }

    /// Returns the first SST of a deeper level whose last key does not sort before the key. No
    /// other SST of the level can hold the key. Returns `None` if all SSTs end before the key.
    #[inline]
    pub(crate) fn candidate(&self, probe: &Probe<'_>) -> Option<&Slot> {
        let place = self.ends.partition_point(|&end| end < probe.prefix);
        let slot = self.slots.get(place)?;
        if slot.largest != probe.prefix {
            return Some(slot);
        }
        // Equal prefixes do not decide the order, and all keys of a store may have the same prefix.
        let rest = self.slots.get(place..).unwrap_or_default();
        rest.get(rest.partition_point(|slot| slot.is_below(probe)))
    }

    /// Returns the SSTs that may cover the key: all SSTs of level 0, at most one of a deeper level.
    #[inline]
    fn candidates(&self, probe: &Probe<'_>) -> &[Slot] {
        if self.number == 0 { &self.slots } else { self.candidate(probe).map_or(&[], std::slice::from_ref) }
    }

    #[inline]
    pub(super) fn get<V: FoundValue>(
        &self,
        probe: &Probe<'_>,
        context: &ReadContext<'_>,
        tally: &mut Tally,
    ) -> Result<Option<Option<V>>> {
        if let Some(mapped) = &self.mapped {
            let found = mapped.ask(probe.hash);
            if mapped.denies(probe.prefix, &found, tally) {
                return Ok(None);
            }
            return self.get_mapped((mapped, &found), probe, context, tally);
        }
        for slot in self.candidates(probe) {
            if !slot.covers(probe) {
                continue;
            }
            // Do not replace this branch on the filter's answer with branchless code. The branch
            // lets the processor continue with the next SST while this filter's cache line is still
            // loading.
            let answer = match context.filter_use {
                FilterUse::Consult => context.filters.ask_hash(slot.filter, probe.hash),
                FilterUse::Ignore => Answer::Unfiltered,
            };
            if answer == Answer::No {
                tally.points.count_denied(1, slot.expected_of_keys);
                continue;
            }
            let found = slot.search(probe, context, (answer, KnownBlock::Unknown), tally)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Searches the SSTs of level 0 as [`Level::get`] does. `found` has the runs for which the map
    /// answers "maybe".
    #[cold]
    fn get_mapped<V: FoundValue>(
        &self,
        (mapped, found): (&MappedRuns, &Runs),
        probe: &Probe<'_>,
        context: &ReadContext<'_>,
        tally: &mut Tally,
    ) -> Result<Option<Option<V>>> {
        let places = mapped.places_to_ask(found);
        if mapped.is_inside(probe.prefix) {
            // All mapped SSTs cover the key, so those that deny it need no look.
            let mut counted = 0;
            for place in places.iter().map(usize::from).chain(MAX_RUNS..self.slots.len()) {
                let Some(slot) = self.slots.get(place) else { break };
                mapped.count_between(counted, place, tally);
                counted = place + 1;
                let answer = match slot.is_mapped {
                    true => Answer::Maybe,
                    false if !slot.covers(probe) => continue,
                    false => context.filters.ask_hash(slot.filter, probe.hash),
                };
                let found = slot.answered(answer, probe, context, tally)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            mapped.count_between(counted, self.slots.len(), tally);
            return Ok(None);
        }
        for (place, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.covers(probe)) {
            let may_hold = u8::try_from(place).is_ok_and(|place| places.contains(place));
            let answer = match slot.is_mapped {
                true if may_hold => Answer::Maybe,
                true => Answer::No,
                false => context.filters.ask_hash(slot.filter, probe.hash),
            };
            let found = slot.answered(answer, probe, context, tally)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}
