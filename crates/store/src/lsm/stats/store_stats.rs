//! Defines the statistics that [`crate::lsm::Db::stats`] returns.

use super::{LevelTally, ProbeTally, RATE_UNIT, Task};
use crate::lsm::wal::log_reader::LogTail;
use crate::sync::{Mutex, lock};
use filterblock::FilterCacheCounts;

/// The sizes of one level, and the counts of reads on it since the store was opened or the counts
/// were reset.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct LevelStats {
    /// The level, counted from 0. In [`Stats::total`], the number of levels that hold SSTs.
    pub level: usize,
    /// Number of SST files.
    pub tables: u64,
    /// Number of entries in the SSTs, including tombstones.
    pub keys: u64,
    /// Bytes of the SST files.
    pub bytes: u64,
    /// Bytes of the filter blocks.
    pub filter_bytes: u64,
    /// Bytes of the usable filters in memory. They are fewer than `filter_bytes` if filters are
    /// unusable, are not loaded or have lost columns: see
    /// [`Options::filter_memory_budget`](crate::lsm::Options::filter_memory_budget).
    pub filter_memory_bytes: u64,
    /// Number of SSTs for whose keys gets ask the map of level 0: see
    /// [`Options::run_map_trigger`](crate::lsm::Options::run_map_trigger). Gets ask the filters of the other
    /// SSTs.
    pub mapped_tables: u64,
    /// Bytes of the map of level 0, and of the hashes that wait for it.
    pub map_memory_bytes: u64,
    /// Number of SSTs whose filter or range filter is unusable or is known to have damaged pages.
    pub degraded_tables: u64,
    /// The queries of gets for their keys.
    pub points: ProbeStats,
    /// The queries of scans for the prefix of their range.
    pub prefixes: ProbeStats,
    /// The queries of scans for their range.
    pub ranges: ProbeStats,
    /// Number of data blocks that were read from files for gets.
    pub block_reads: u64,
    /// Bytes of the data blocks that `block_reads` counts.
    pub block_read_bytes: u64,
    /// Number of SSTs without a usable filter of the prefixes that the store's extractor returns.
    /// It is 0 if no extractor is in use.
    pub tables_without_prefixes: u64,
    /// Number of SSTs with a usable range filter. With a memory budget, a range filter that is not loaded
    /// counts, too.
    pub tables_with_ranges: u64,
    /// Number of SST searches that were saved because the filter answered "maybe" for the key of a
    /// get, but denied one of its prefixes. `points.true_negatives` includes them.
    pub saved_by_prefixes: u64,
}

/// The counts of one kind of filter queries: for keys, for prefixes or for ranges. A scan asks the
/// filter of an SST only if no other SST of the same sorted run overlaps the range.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct ProbeStats {
    /// Number of queries with a known outcome: true negatives, true positives and false positives
    /// together.
    pub probes: u64,
    /// Number of "absent" answers. Each saved a search of an SST.
    pub true_negatives: u64,
    /// Number of "maybe" answers for something that the SST holds, as a value or as a tombstone.
    pub true_positives: u64,
    /// Number of "maybe" answers for something that the SST lacks. A "maybe" for a prefix does not
    /// count if the scan has bounds within the prefix and meets no key of it: the SST may have
    /// other keys of the prefix.
    pub false_positives: u64,
    /// Number of SST searches because the filter is unusable, or because a filter with damaged
    /// pages answered "maybe" for something absent.
    pub degraded: u64,
    /// Number of SST searches because no filter could be asked: the SST has none, its filter holds
    /// no prefixes of the store's extractor, or gets do not use filters. Ranges count here only if
    /// the store has [`Options::range_filter`](crate::lsm::Options::range_filter).
    pub unfiltered: u64,
    /// Expected number of false positives: the sum of the expected FPRs over all true negatives and
    /// false positives. A query for a range counts with the upper bound that
    /// [`FilterBlock::expected_range_fpr`](filterblock::ParsedBlock::expected_range_fpr) returns.
    pub expected_false_positives: f64,
}

impl ProbeStats {
    fn of(tally: &ProbeTally) -> Self {
        Self {
            probes: tally.true_negatives + tally.true_positives + tally.false_positives,
            true_negatives: tally.true_negatives,
            true_positives: tally.true_positives,
            false_positives: tally.false_positives,
            degraded: tally.degraded,
            unfiltered: tally.unfiltered,
            expected_false_positives: tally.expected as f64 / RATE_UNIT,
        }
    }

    /// Returns the measured false-positive rate (FPR): the share of "maybe" among the answers to
    /// queries for something that the SST lacks. Returns `None` if there was no such query.
    #[must_use]
    pub fn false_positive_rate(&self) -> Option<f64> {
        self.per_absent(self.false_positives as f64)
    }

    /// Returns the FPR that the filters' parameters predict for these queries. Returns `None` if
    /// there was no query for something that the SST lacks.
    #[must_use]
    pub fn expected_fpr(&self) -> Option<f64> {
        self.per_absent(self.expected_false_positives)
    }

    fn per_absent(&self, count: f64) -> Option<f64> {
        let absent = self.true_negatives + self.false_positives;
        (absent > 0).then(|| count / absent as f64)
    }

    fn add(&mut self, other: &Self) {
        self.probes += other.probes;
        self.true_negatives += other.true_negatives;
        self.true_positives += other.true_positives;
        self.false_positives += other.false_positives;
        self.degraded += other.degraded;
        self.unfiltered += other.unfiltered;
        self.expected_false_positives += other.expected_false_positives;
    }
}

impl LevelStats {
    pub(crate) fn of(level: usize, tally: &LevelTally) -> Self {
        let (points, reads) = (&tally.gets.points, &tally.gets.reads);
        Self {
            level,
            points: ProbeStats::of(points),
            prefixes: ProbeStats::of(&tally.scans.prefixes),
            ranges: ProbeStats::of(&tally.scans.ranges),
            block_reads: reads.block_reads,
            block_read_bytes: reads.block_read_bytes,
            saved_by_prefixes: reads.saved_by_prefixes,
            ..Self::default()
        }
    }

    pub(crate) fn is_blank(&self) -> bool {
        *self == Self { level: self.level, ..Self::default() }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.level += usize::from(other.tables > 0);
        self.tables += other.tables;
        self.keys = self.keys.saturating_add(other.keys);
        self.bytes += other.bytes;
        self.filter_bytes += other.filter_bytes;
        self.filter_memory_bytes += other.filter_memory_bytes;
        self.mapped_tables += other.mapped_tables;
        self.map_memory_bytes += other.map_memory_bytes;
        self.degraded_tables += other.degraded_tables;
        self.block_reads += other.block_reads;
        self.block_read_bytes += other.block_read_bytes;
        self.tables_without_prefixes += other.tables_without_prefixes;
        self.tables_with_ranges += other.tables_with_ranges;
        self.saved_by_prefixes += other.saved_by_prefixes;
        self.points.add(&other.points);
        self.prefixes.add(&other.prefixes);
        self.ranges.add(&other.ranges);
    }
}

/// Background work that failed for a reason that may be temporary, and is retried.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// The task that fails.
    pub task: Task,
    /// Number of failures since the task last succeeded or was not due.
    pub failures: u64,
    /// Seconds since the first failure that `failures` counts.
    pub seconds: u64,
    /// The error of the last failure.
    pub reason: String,
}

/// The sizes and the counters of a store.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Statistics of each level, from level 0 to the last level that holds an SST or has counts.
    pub levels: Vec<LevelStats>,
    /// The total of all levels.
    pub total: LevelStats,
    /// The name of the prefix extractor in use, or `None` if there is none.
    pub prefix_extractor: Option<String>,
    /// Number of keys read by `get`, `get_pinned` and `multi_get`.
    pub gets: u64,
    /// Number of the keys in `gets` that were found in a memtable.
    pub memory_hits: u64,
    /// Number of entries in memtables.
    pub memory_entries: u64,
    /// Number of scans.
    pub scans: u64,
    /// Number of data blocks that scans read from files.
    pub scan_block_reads: u64,
    /// Bytes of the data blocks that `scan_block_reads` counts.
    pub scan_block_read_bytes: u64,
    /// Number of times that a write waited for room in memory or in level 0, or that
    /// [`crate::lsm::Db::flush`] waited for room in level 0.
    pub write_stalls: u64,
    /// Total time of write stalls in ns, including stalls that have not ended.
    pub write_stall_nanos: u64,
    /// Number of times that a writer was slowed down because flushes or compactions fell behind.
    /// Each time, the writer sleeps for up to 32 ms.
    pub write_delays: u64,
    /// Total time of write delays in ns.
    pub write_delay_nanos: u64,
    /// The state and the history of the cache of filters, with
    /// [`Options::filter_memory_budget`](crate::lsm::Options::filter_memory_budget).
    pub filter_cache: Option<FilterCacheCounts>,
    /// Number of memtables written to SST files.
    pub flushes: u64,
    /// Bytes of the SST files that flushes wrote.
    pub flushed_bytes: u64,
    /// Number of finished compactions.
    pub compactions: u64,
    /// Bytes written by compactions.
    pub compacted_bytes: u64,
    /// Number of SST files that flushes and compactions wrote without a filter, because it could not be
    /// built. [`Stats::reports`] says why.
    pub failed_filters: u64,
    /// Number of flushes and compactions that failed for a reason that may be temporary, since the
    /// store was opened.
    pub background_errors: u64,
    /// Tasks that currently fail.
    pub retrying: Vec<Retry>,
    /// Messages, for example about damage or missing writes, the oldest first. Only the first 100
    /// messages are kept.
    pub reports: Vec<String>,
}

impl Stats {
    /// Returns the write amplification since the store was opened or the counters were reset: bytes
    /// that flushes and compactions wrote per flushed byte. Returns `None` if there was no flush.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let written = self.flushed_bytes.saturating_add(self.compacted_bytes);
        (self.flushed_bytes > 0).then(|| written as f64 / self.flushed_bytes as f64)
    }

    /// Returns the space amplification: bytes of all SST files per byte of the deepest level with
    /// SST files. That level holds each key once, unless it is level 0. Returns `None` if there are
    /// no SST files.
    #[must_use]
    pub fn space_amplification(&self) -> Option<f64> {
        let deepest = self.levels.iter().rfind(|level| level.bytes > 0)?;
        Some(self.total.bytes as f64 / deepest.bytes as f64)
    }
}

/// The maximum number of kept messages. Further messages are logged but not kept.
const MAX_REPORTS: usize = 100;

/// The messages in [`Stats::reports`], and the torn tails of logs and of the manifest.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    messages: Mutex<Vec<String>>,
    tails: Mutex<Vec<LogTail>>,
}

impl Reports {
    pub(crate) fn add(&self, message: String) {
        let mut messages = lock(&self.messages);
        // One open may judge a file several times.
        if messages.contains(&message) {
            return;
        }
        log::warn!("{message}");
        if messages.len() < MAX_REPORTS {
            messages.push(message);
        }
    }

    pub(crate) fn messages(&self) -> Vec<String> {
        lock(&self.messages).clone()
    }

    pub(crate) fn add_tail(&self, tail: Option<LogTail>) {
        let Some(tail) = tail else { return };
        self.add(tail.to_string());
        lock(&self.tails).push(tail);
    }

    pub(crate) fn tails(&self) -> Vec<LogTail> {
        lock(&self.tails).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amplifications_are_ratios_of_bytes() {
        let level = |bytes| LevelStats { bytes, ..LevelStats::default() };
        let stats = Stats { flushed_bytes: 100, compacted_bytes: 450, ..Stats::default() };
        assert_eq!((stats.write_amplification(), stats.space_amplification()), (Some(5.5), None));
        let stats =
            Stats { levels: vec![level(20), level(30), level(200), level(0)], total: level(250), ..Stats::default() };
        assert_eq!((stats.write_amplification(), stats.space_amplification()), (None, Some(1.25)));
    }

    /// A key count comes from an SST file and may be any number.
    #[test]
    fn key_counts_saturate_instead_of_overflowing() {
        let mut all = LevelStats { keys: u64::MAX - 1, ..LevelStats::default() };
        all.add(&LevelStats { keys: 2, ..LevelStats::default() });
        assert_eq!(all.keys, u64::MAX);
    }
}
