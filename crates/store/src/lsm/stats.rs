//! What reads did, and what filters saved.
//!
//! Counters lie in shards. A shard belongs to one thread while that lives, which adds with a plain load and store; of
//! more threads at once than there are shards, the others share the last one and add atomically. A miss thus counts itself for about a nanosecond a counter, where a shared
//! counter would cost twenty and far more under contention.

use std::cell::Cell;
use std::sync::LazyLock;

use super::version_edit::NUM_LEVELS;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::lock;

/// What a store does in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Task {
    /// Writes a memtable to a table.
    Flush,
    /// Merges tables into the next level.
    Compaction,
}

/// The last is shared.
const NUM_SHARDS: usize = if cfg!(loom) { 2 } else { 64 };

/// Expected rates are summed in units of 2^-32.
const RATE_UNIT: f64 = 4_294_967_296.0;

/// A rate in units of 2^-32.
pub(super) fn rate_units(rate: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is between 0 and 1")]
    let units = (rate * RATE_UNIT) as u64;
    units
}

/// What one read met on one level.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) true_negatives: u64,
    pub(super) false_positives: u64,
    pub(super) true_positives: u64,
    /// Tables searched because their filter was damaged.
    pub(super) degraded: u64,
    /// Tables searched because they have no filter, or filters are not to be asked.
    pub(super) unfiltered: u64,
    /// In units of 2^-32: the expected rates of the filters that were asked for keys they do not hold.
    pub(super) expected: u64,
    pub(super) block_reads: u64,
    pub(super) block_read_bytes: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        #[derive(Debug, Default)]
        struct LevelCounters { $($name: AtomicU64,)* }

        impl LevelCounters {
            #[inline]
            fn add(&self, tally: &Tally, shared: bool) {
                // A miss has most of these at zero.
                $(if tally.$name != 0 { add(&self.$name, tally.$name, shared); })*
            }

            fn sum_into(&self, tally: &mut Tally) {
                $(tally.$name += self.$name.load(Ordering::Relaxed);)*
            }

            fn reset(&self) {
                $(self.$name.store(0, Ordering::Relaxed);)*
            }
        }
    };
}
counters! { true_negatives, false_positives, true_positives, degraded, unfiltered, expected, block_reads, block_read_bytes }

#[inline]
fn add(counter: &AtomicU64, by: u64, shared: bool) {
    if shared {
        counter.fetch_add(by, Ordering::Relaxed);
    } else {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    gets: AtomicU64,
    memory_hits: AtomicU64,
    levels: [LevelCounters; NUM_LEVELS],
}

/// The counters of an open store.
#[derive(Debug)]
pub(super) struct Counters {
    shards: Box<[Shard]>,
    pub(super) write_stalls: AtomicU64,
    pub(super) write_stall_nanos: AtomicU64,
    pub(super) flushes: AtomicU64,
    pub(super) compactions: AtomicU64,
    pub(super) compacted_bytes: AtomicU64,
}

/// The shard of the calling thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recorder<'a> {
    shard: &'a Shard,
    shared: bool,
}

const NO_SLOT: usize = usize::MAX;

thread_local! {
    /// Without a destructor, so that reading it costs one load.
    static SLOT: Cell<usize> = const { Cell::new(NO_SLOT) };
    /// Gives the slot back when the thread ends.
    static OWNED: SlotOwner = const { SlotOwner };
}

/// Which shards are taken: those that threads before have given back, and the first that none has had yet.
///
/// What a thread has counted with plain accesses, the next owner of its shard sees, by way of the lock.
#[derive(Debug, Default)]
struct Slots(Mutex<(Vec<usize>, usize)>);

static SLOTS: LazyLock<Slots> = LazyLock::new(Slots::default);

impl Slots {
    fn take(&self) -> usize {
        let (free, next) = &mut *lock(&self.0);
        free.pop().unwrap_or_else(|| {
            let slot = (*next).min(NUM_SHARDS - 1);
            *next = slot + 1;
            slot
        })
    }

    fn give_back(&self, slot: usize) {
        if slot < NUM_SHARDS - 1 {
            lock(&self.0).0.push(slot);
        }
    }
}

struct SlotOwner;

impl Drop for SlotOwner {
    fn drop(&mut self) {
        // Reads by destructors that run later share the last one.
        SLOTS.give_back(SLOT.replace(NUM_SHARDS - 1));
    }
}

#[inline]
fn thread_slot() -> usize {
    let slot = SLOT.get();
    if slot == NO_SLOT { take_slot() } else { slot }
}

#[cold]
fn take_slot() -> usize {
    // A thread whose owner is gone already cannot give anything back.
    let slot = OWNED.try_with(|_| SLOTS.take());
    let slot = slot.unwrap_or(NUM_SHARDS - 1);
    SLOT.set(slot);
    slot
}

impl Counters {
    pub(super) fn new() -> Self {
        let none = || AtomicU64::new(0);
        Self {
            shards: (0..NUM_SHARDS).map(|_| Shard::default()).collect(),
            write_stalls: none(),
            write_stall_nanos: none(),
            flushes: none(),
            compactions: none(),
            compacted_bytes: none(),
        }
    }

    #[inline]
    pub(super) fn recorder(&self) -> Option<Recorder<'_>> {
        self.recorder_of(thread_slot())
    }

    #[inline]
    fn recorder_of(&self, slot: usize) -> Option<Recorder<'_>> {
        self.shards.get(slot).map(|shard| Recorder { shard, shared: slot == NUM_SHARDS - 1 })
    }

    /// Reads, reads answered from memory, and what the reads met on each level.
    pub(super) fn sum(&self) -> (u64, u64, [Tally; NUM_LEVELS]) {
        let (mut gets, mut hits, mut tallies) = (0, 0, [Tally::default(); NUM_LEVELS]);
        for shard in &self.shards {
            gets += shard.gets.load(Ordering::Relaxed);
            hits += shard.memory_hits.load(Ordering::Relaxed);
            for (level, tally) in shard.levels.iter().zip(&mut tallies) {
                level.sum_into(tally);
            }
        }
        (gets, hits, tallies)
    }

    /// Sets all to zero; what other threads count in the meantime may survive in part.
    pub(super) fn reset(&self) {
        for shard in &self.shards {
            shard.gets.store(0, Ordering::Relaxed);
            shard.memory_hits.store(0, Ordering::Relaxed);
            shard.levels.iter().for_each(LevelCounters::reset);
        }
        for counter in
            [&self.write_stalls, &self.write_stall_nanos, &self.flushes, &self.compactions, &self.compacted_bytes]
        {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

impl Recorder<'_> {
    #[inline]
    pub(super) fn gets(&self, count: u64) {
        add(&self.shard.gets, count, self.shared);
    }

    pub(super) fn memory_hit(&self) {
        add(&self.shard.memory_hits, 1, self.shared);
    }

    #[inline]
    pub(super) fn level(&self, level: usize, tally: &Tally) {
        if let Some(counters) = self.shard.levels.get(level) {
            counters.add(tally, self.shared);
        }
    }
}

/// What one level of a store holds, and what reads met there since the store was opened or the counts were reset.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct LevelStats {
    /// The level; in [`Stats::total`] the number of levels that hold tables.
    pub level: usize,
    /// Tables.
    pub tables: u64,
    /// Entries in them, removals included.
    pub keys: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Bytes of their filter blocks.
    pub filter_bytes: u64,
    /// Tables whose filter cannot be used.
    pub degraded_tables: u64,
    /// Filters asked.
    pub probes: u64,
    /// "Absent", and so no search of the table.
    pub true_negatives: u64,
    /// "Maybe", and the key was there (with a value or as removed).
    pub true_positives: u64,
    /// "Maybe", and the key was not there.
    pub false_positives: u64,
    /// Tables searched because their filter cannot be used, or in vain while parts of it are damaged.
    pub degraded: u64,
    /// Tables searched because they have no filter, or filters are not to be asked.
    pub unfiltered: u64,
    /// False positives to be expected: the sum of the expected rates over all questions for keys that were not there.
    pub expected_false_positives: f64,
    /// Data blocks read from files.
    pub block_reads: u64,
    /// Bytes of those.
    pub block_read_bytes: u64,
}

impl LevelStats {
    pub(super) fn of(level: usize, tally: &Tally) -> Self {
        Self {
            level,
            probes: tally.true_negatives + tally.true_positives + tally.false_positives,
            true_negatives: tally.true_negatives,
            true_positives: tally.true_positives,
            false_positives: tally.false_positives,
            degraded: tally.degraded,
            unfiltered: tally.unfiltered,
            expected_false_positives: tally.expected as f64 / RATE_UNIT,
            block_reads: tally.block_reads,
            block_read_bytes: tally.block_read_bytes,
            ..Self::default()
        }
    }

    /// False positives among the questions for keys that were not there; `None` without such a question.
    #[must_use]
    pub fn false_positive_rate(&self) -> Option<f64> {
        self.per_absent(self.false_positives as f64)
    }

    /// The rate that the filters' sizes lead to expect; `None` without a question for a key that was not there.
    #[must_use]
    pub fn expected_false_positive_rate(&self) -> Option<f64> {
        self.per_absent(self.expected_false_positives)
    }

    fn per_absent(&self, count: f64) -> Option<f64> {
        let absent = self.true_negatives + self.false_positives;
        (absent > 0).then(|| count / absent as f64)
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.level += usize::from(other.tables > 0);
        self.tables += other.tables;
        self.keys = self.keys.saturating_add(other.keys);
        self.bytes += other.bytes;
        self.filter_bytes += other.filter_bytes;
        self.degraded_tables += other.degraded_tables;
        self.probes += other.probes;
        self.true_negatives += other.true_negatives;
        self.true_positives += other.true_positives;
        self.false_positives += other.false_positives;
        self.degraded += other.degraded;
        self.unfiltered += other.unfiltered;
        self.expected_false_positives += other.expected_false_positives;
        self.block_reads += other.block_reads;
        self.block_read_bytes += other.block_read_bytes;
    }
}

/// Work in the background that fails for a reason that may pass, and is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// What fails.
    pub task: Task,
    /// How often it has failed since it last succeeded.
    pub failures: u64,
    /// Seconds since the first of those failures.
    pub seconds: u64,
    /// The last of them.
    pub reason: String,
}

/// What a store holds and did.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Level 0 first, up to the last that holds a table or met a read.
    pub levels: Vec<LevelStats>,
    /// The sum of the levels.
    pub total: LevelStats,
    /// Reads of single keys.
    pub gets: u64,
    /// Of those, answered by writes still in memory.
    pub memory_hits: u64,
    /// Entries still in memory.
    pub memory_entries: u64,
    /// Times that a writer had to wait for a flush or a compaction.
    pub write_stalls: u64,
    /// Time spent so.
    pub write_stall_nanos: u64,
    /// Tables written from memory.
    pub flushes: u64,
    /// Compactions finished.
    pub compactions: u64,
    /// Bytes that compactions wrote.
    pub compacted_bytes: u64,
    /// Failures of flushes and compactions since the store was opened, of those that are tried again.
    pub background_errors: u64,
    /// What fails at present.
    pub retrying: Vec<Retry>,
    /// One message for each damage met, oldest first, at most a hundred.
    pub reports: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a table says of its keys is the word of its file.
    #[test]
    fn more_keys_than_can_be_counted_are_as_many_as_can() {
        let mut all = LevelStats { keys: u64::MAX - 1, ..LevelStats::default() };
        all.add(&LevelStats { keys: 2, ..LevelStats::default() });
        assert_eq!(all.keys, u64::MAX);
    }

    #[test]
    fn a_thread_gives_its_shard_back_when_it_ends() {
        for i in 0..4 * NUM_SHARDS {
            let slot = std::thread::spawn(thread_slot).join().unwrap();
            assert!(slot < NUM_SHARDS - 1, "thread {i}");
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// What a thread of a store does in its life.
    fn count((counters, slots): &(Counters, Slots)) {
        let slot = slots.take();
        let recorder = counters.recorder_of(slot).unwrap();
        recorder.gets(2);
        recorder.level(1, &Tally { true_negatives: 3, ..Tally::default() });
        slots.give_back(slot);
    }

    /// Of three threads one owns the first of two shards, or one after the other does, and the others share the second.
    #[test]
    fn no_count_is_lost_between_threads_that_share_a_shard() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let all = loom::sync::Arc::new((Counters::new(), Slots::default()));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let all = all.clone();
                    loom::thread::spawn(move || count(&all))
                })
                .collect();
            count(&all);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let (gets, _, levels) = all.0.sum();
            assert_eq!((gets, levels[1].true_negatives), (6, 9));
        });
    }
}
