//! Asks the filters of SSTs for the prefix that all keys of a scan have.

use std::sync::Arc;

use super::shared::Shared;
use super::stats::Tally;
use super::version::{Slot, StoredTable, Version};
use crate::error::Result;
use filterblock::{Answer, KeyHash, KeyHasher};

/// The hash of a prefix that every key of a scan's range has.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrefixProbe(KeyHash);

impl PrefixProbe {
    pub(super) fn new(prefix: &[u8], hasher: &KeyHasher) -> Self {
        Self(hasher.of(prefix))
    }

    /// Asks the filter of an SST of `version`. [`Answer::Unfiltered`] if the filter does not hold
    /// the prefixes of the store's extractor.
    #[inline]
    pub(super) fn ask(&self, version: &Version, slot: &Slot) -> Answer {
        // The filter holds the hashes of keys and of these prefixes side by side. `ask` finds both,
        // and spares the comparison of the extractor's name with each query.
        if slot.has_prefixes { version.filters.ask(slot.filter, self.0) } else { Answer::Unfiltered }
    }
}

/// The answer of the filter of the only SST in a run, other than "absent". It is counted when the
/// scan reads the SST.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) shared: Arc<Shared>,
    pub(super) stored: Arc<StoredTable>,
    pub(super) level: usize,
    pub(super) prefix: Arc<[u8]>,
    pub(super) answer: Answer,
}

impl Asked {
    /// Reports the damage of the filter.
    ///
    /// # Errors
    /// Returns that damage if filters are strict.
    pub(super) fn report(&self) -> Result<()> {
        self.stored.report_filter(&self.shared.reading.reports, self.shared.options.strict_filters)
    }

    /// Counts whether the answer was right. `key` is the first position of the scan in the SST.
    pub(super) fn judge(&self, key: Option<&[u8]>) {
        let is_there = key.is_some_and(|key| key.starts_with(&self.prefix));
        let mut tally = Tally::default();
        *match (self.answer, is_there) {
            (Answer::Maybe, true) => &mut tally.prefix_true_positives,
            (Answer::Maybe, false) => &mut tally.prefix_false_positives,
            _ => &mut tally.prefix_unfiltered,
        } = 1;
        if let Some(recorder) = self.shared.reading.counters.recorder() {
            recorder.level(self.level, &tally);
        }
    }
}
