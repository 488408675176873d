//! Asks the filter of an SST about the prefix that all keys of a scan have, and about the range of
//! the scan. Counts whether the answers were right.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::error::Result;
use crate::lsm::options::FilterUse;
use crate::lsm::shared::Shared;
use crate::lsm::stats::{ProbeTally, ScanTally};
use crate::lsm::version::{Version, level::Slot, stored_table::StoredTable};
use crate::sstable::TableFilter;
use filterblock::{Answer, FilterSet, KeyHash, PrefixExtractor};

/// The queries of a scan to the filters. The bounds are those of the whole scan. Do not narrow
/// them, for example to the current key of a cursor or to the end of a prefix. A filter could then
/// deny an SST that holds keys in the rest of the scan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanQuery<'a> {
    from: Bound<&'a [u8]>,
    to: Bound<&'a [u8]>,
    /// The prefix that every key of the range has, with its hash.
    prefix: Option<(&'a [u8], KeyHash)>,
    /// Whether an SST without a range filter counts as unfiltered.
    counts_ranges: bool,
}

/// The answers of a filter about a scan. `None` means that there is no answer to count.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Answers {
    prefix: Option<Answer>,
    range: Option<Answer>,
}

impl<'a> ScanQuery<'a> {
    pub(crate) fn new(shared: &Shared, from: Bound<&'a [u8]>, to: Bound<&'a [u8]>) -> Option<Self> {
        if shared.options.filter_use != FilterUse::Consult {
            return None;
        }
        let extractor = shared.identity.extractor.as_ref();
        let prefix = extractor.and_then(|extractor| extractor.prefix_of_range(from, to));
        let prefix = prefix.map(|prefix| (prefix, shared.identity.hasher.of(prefix)));
        Some(Self { from, to, prefix, counts_ranges: shared.options.range_filter.is_some() })
    }

    #[inline]
    pub(crate) fn denies_prefix(&self, version: &Version, slot: &Slot) -> bool {
        // If `has_prefixes` is set, the filter also holds the hashes of the extractor's prefixes.
        // `ask` does not compare the extractor's name.
        let ask = |(_, hash)| version.filters.ask_hash(slot.filter, hash) == Answer::No;
        slot.has_prefixes && self.prefix.is_some_and(ask)
    }

    /// Asks the range filter of an SST whose filter does not deny the prefix. If the range filter
    /// denies the range, returns `None` and counts this answer in `tally`.
    pub(crate) fn ask_range(&self, filters: &FilterSet, slot: &Slot, tally: &mut ScanTally) -> Option<Answers> {
        let is_asked = slot.has_prefixes && filters.filter(slot.filter).is_some_and(|filter| filter.ready().is_some());
        let prefix = self.prefix.map(|_| if is_asked { Answer::Maybe } else { Answer::Unfiltered });
        let range = self.answer_of_range(filters, slot);
        if range == Some(Answer::No) {
            tally.ranges.true_negatives += 1;
            tally.ranges.expected += u64::from(slot.stored.expected_of_ranges);
            // The answer about the prefix is a known false positive only if the range covers all
            // keys of the prefix.
            if prefix == Some(Answer::Maybe) && self.is_whole_prefix() {
                tally.prefixes.false_positives += 1;
                tally.prefixes.expected += u64::from(slot.expected);
            }
            return None;
        }
        Some(Answers { prefix, range })
    }

    /// Asks the range filter. Without a usable range filter, returns [`Answer::Unfiltered`] if that is
    /// to be counted, otherwise `None`.
    fn answer_of_range(&self, filters: &FilterSet, slot: &Slot) -> Option<Answer> {
        if slot.has_ranges {
            return Some(filters.ask_range(slot.filter, self.from, self.to));
        }
        let is_counted = self.counts_ranges || slot.table.range_damage().is_some();
        is_counted.then_some(Answer::Unfiltered)
    }

    fn is_whole_prefix(&self) -> bool {
        let Some((prefix, _)) = self.prefix else { return false };
        let end = PrefixExtractor::end_of_prefix(prefix);
        self.from == Bound::Included(prefix) && self.to == end.as_ref().map(Vec::as_slice)
    }

    pub(crate) fn to_owned(self, shared: &Arc<Shared>) -> OwnedQuery {
        let owned = |bound: Bound<&[u8]>| bound.map(<[u8]>::to_vec);
        let prefix = self.prefix.map(|(prefix, _)| prefix.to_vec());
        let (shared, is_whole_prefix) = (Arc::clone(shared), self.is_whole_prefix());
        OwnedQuery { shared, from: owned(self.from), to: owned(self.to), prefix, is_whole_prefix }
    }
}

/// The queries of a scan to the filters, as a copy that lives as long as the scan.
pub(crate) struct OwnedQuery {
    shared: Arc<Shared>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    prefix: Option<Vec<u8>>,
    /// Whether the range covers all keys of the prefix.
    is_whole_prefix: bool,
}

impl std::fmt::Debug for OwnedQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnedQuery").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}

/// The answers of the filter of the only SST in a run. None of them is [`Answer::No`].
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) query: Arc<OwnedQuery>,
    pub(crate) stored: Arc<StoredTable>,
    pub(crate) level: usize,
    pub(crate) answers: Answers,
}

impl Asked {
    pub(crate) fn report(&self) -> Result<()> {
        let shared = &self.query.shared;
        let filter = self.stored.table.filter_in_memory();
        self.stored.report_filter(filter.as_deref(), &shared.reading.reports, shared.options.strict_filters)
    }

    /// Counts whether the answers were right, as far as the scan shows. `at_bound` is the key at
    /// which the seek to the bound of the scan stopped. `first` is the first key that the scan
    /// reads from the SST: `at_bound`, or the next key in the direction of the scan if the bound
    /// excludes `at_bound`.
    pub(crate) fn judge(&self, at_bound: Option<&[u8]>, first: Option<&[u8]>) {
        let query = &self.query;
        let mut tally = ScanTally::default();
        if let (Some(answer), Some(prefix)) = (self.answers.prefix, &query.prefix) {
            let is_there = [at_bound, first].into_iter().flatten().any(|key| key.starts_with(prefix));
            // A scan of a part of a prefix does not see whether the SST holds other keys of the
            // prefix.
            let is_known = is_there || query.is_whole_prefix || answer != Answer::Maybe;
            if is_known {
                self.count(answer, is_there, self.stored.expected, &mut tally.prefixes);
            }
        }
        match self.answers.range {
            None => {}
            Some(Answer::Unfiltered) if self.has_damaged_ranges() => tally.ranges.degraded += 1,
            Some(answer) => {
                let is_there = first.is_some_and(|key| {
                    is_within(key, query.from.as_ref().map(Vec::as_slice), query.to.as_ref().map(Vec::as_slice))
                });
                self.count(answer, is_there, self.stored.expected_of_ranges, &mut tally.ranges);
            }
        }
        query.shared.reading.counters.recorder().scan(self.level, &tally);
    }

    fn has_damaged_ranges(&self) -> bool {
        let table = &self.stored.table;
        let filter = table.filter_in_memory();
        filter.as_ref().and_then(|filter| table.range_damage_of(filter.ready()?)).is_some()
    }

    fn count(&self, answer: Answer, is_there: bool, expected: u32, tally: &mut ProbeTally) {
        let filter = self.stored.table.filter_in_memory();
        let filter = filter.as_deref();
        // A wrong "maybe" may come from a damaged page.
        let is_damaged = || matches!(filter, Some(TableFilter::Ready(filter)) if filter.damaged_pages() > 0);
        match answer {
            Answer::Maybe if is_there => tally.true_positives += 1,
            Answer::Maybe if is_damaged() => tally.degraded += 1,
            Answer::Maybe => {
                tally.false_positives += 1;
                tally.expected += u64::from(expected);
            }
            _ if matches!(filter, Some(TableFilter::Degraded(_))) => tally.degraded += 1,
            _ => tally.unfiltered += 1,
        }
    }
}

pub(super) fn is_within(key: &[u8], from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    RangeBounds::<[u8]>::contains(&(from, to), key)
}
