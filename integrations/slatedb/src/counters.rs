//! Counts filters and their answers.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of a [`Filters`](crate::Filters) and its clones at one moment.
///
/// SlateDB decodes a filter again after its cache evicted the filter, and at every get if there is
/// no cache. So one damaged filter can count many times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// The number of filters that were built for new SSTs.
    pub built: u64,
    /// The number of filters that could not be built. The SST got an always-maybe filter.
    pub failed_builds: u64,
    /// The number of decoded filters that are usable.
    pub opened: u64,
    /// The number of decoded filters that are damaged, cut short or not a filter block.
    pub damaged: u64,
    /// The number of decoded filters of a newer format version, or with a feature that this version
    /// does not read.
    pub unsupported: u64,
    /// The number of decoded filters that are sound, but not as the policy expects. For example,
    /// they have another hash function, seed or secret, lack the expected prefixes, or belong to
    /// another program.
    pub unexpected: u64,
    /// The number of filters that did not fit in memory when they were decoded.
    pub out_of_memory: u64,
    /// The number of decoded Bloom filters of SlateDB's own policy: see
    /// [`Filters::reading_bloom`](crate::Filters::reading_bloom). A Bloom filter of fewer than
    /// three bytes counts in `damaged` instead. No other count includes Bloom filters.
    pub bloom_opened: u64,
    /// The number of queries of the filters of this crate. A query for a range counts only for the
    /// range filter. Any other query counts only for the filter of keys and prefixes.
    pub probes: u64,
    /// The number of queries that a filter answered with "absent". SlateDB skipped the SST.
    pub negatives: u64,
    /// The number of queries that a filter could not answer. For example, the filter is unusable,
    /// or the extractor takes no prefix. SlateDB reads the SST, unless another filter denies the
    /// key.
    pub unfiltered: u64,
}

impl Counts {
    /// Returns the number of decoded filters that were not usable, for any reason.
    #[must_use]
    pub fn unusable(&self) -> u64 {
        self.damaged + self.unsupported + self.unexpected + self.out_of_memory
    }
}

/// The counters behind [`Counts`]. No other data depends on them, so relaxed operations suffice.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    built: AtomicU64,
    failed_builds: AtomicU64,
    opened: AtomicU64,
    damaged: AtomicU64,
    unsupported: AtomicU64,
    unexpected: AtomicU64,
    out_of_memory: AtomicU64,
    bloom_opened: AtomicU64,
    probes: AtomicU64,
    negatives: AtomicU64,
    unfiltered: AtomicU64,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            built: of(&self.built),
            failed_builds: of(&self.failed_builds),
            opened: of(&self.opened),
            damaged: of(&self.damaged),
            unsupported: of(&self.unsupported),
            unexpected: of(&self.unexpected),
            out_of_memory: of(&self.out_of_memory),
            bloom_opened: of(&self.bloom_opened),
            probes: of(&self.probes),
            negatives: of(&self.negatives),
            unfiltered: of(&self.unfiltered),
        }
    }

    pub(crate) fn count_build(&self, is_ok: bool) {
        add_one(if is_ok { &self.built } else { &self.failed_builds });
    }

    pub(crate) fn count_open(&self, opened: Result<(), &filterblock::Error>) {
        add_one(match opened {
            Ok(()) => &self.opened,
            Err(filterblock::Error::TooLarge { .. }) => &self.out_of_memory,
            Err(error) if error.is_unsupported() => &self.unsupported,
            Err(error) if error.is_unexpected() || error.is_secret_mismatch() => &self.unexpected,
            // All other errors mean damage, or bytes that are not a filter block.
            Err(_) => &self.damaged,
        });
    }

    pub(crate) fn count_bloom(&self) {
        add_one(&self.bloom_opened);
    }

    pub(crate) fn count_damaged_bloom(&self) {
        add_one(&self.damaged);
    }

    pub(crate) fn count_answer(&self, answer: filterblock::Answer) {
        add_one(&self.probes);
        match answer {
            filterblock::Answer::No => add_one(&self.negatives),
            filterblock::Answer::Unfiltered => add_one(&self.unfiltered),
            filterblock::Answer::Maybe => {}
        }
    }
}

fn add_one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
