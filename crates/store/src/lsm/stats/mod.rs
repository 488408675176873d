//! Counts gets, scans, filter queries, write stalls, write delays, flushes and compactions.
//!
//! The counters of gets and of filter queries are sharded. A shard belongs to one thread for the
//! life of that thread, and its owner adds with a plain load and store. Threads without a shard of
//! their own share one more shard and add atomically. A shared counter would cost a miss much more
//! time: see docs/DESIGN.md.

pub(crate) mod store_stats;

use std::cell::Cell;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use crate::lsm::manifest::edit::NUM_LEVELS;
use crate::sstable::BlockReads;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, lock};

/// A background task of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Task {
    /// Writes a memtable to an SST file.
    Flush,
    /// Merges SSTs into the next level, moves an SST there, or rewrites an SST in its level.
    Compaction,
}

/// Number of shards that belong to one thread each.
const NUM_OWNED_SHARDS: usize = if cfg!(loom) { 1 } else { 63 };

/// The number of units in an FPR of 1: expected FPRs are added up in units of 2^-32.
pub(crate) const RATE_UNIT: f64 = 4_294_967_296.0;

/// Converts an FPR to units of 2^-32. An FPR of 1 becomes the greatest number.
pub(crate) fn rate_units(rate: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is between 0 and 1")]
    let units = (rate * RATE_UNIT) as u32;
    units
}

macro_rules! counters {
    ($(#[$about:meta])* $tally:ident, $counters:ident { $($(#[$note:meta])* $name:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default)]
        pub(crate) struct $tally { $($(#[$note])* pub(crate) $name: u64,)* }

        #[derive(Debug, Default)]
        struct $counters { $($name: AtomicU64,)* }

        impl $counters {
            #[inline]
            fn add(&self, tally: &$tally, shared: bool) {
                // For a miss, most of these counts are zero.
                $(if tally.$name != 0 { add(&self.$name, tally.$name, shared); })*
            }

            fn sum_into(&self, tally: &mut $tally) {
                $(tally.$name += self.$name.load(Ordering::Relaxed);)*
            }

            fn reset(&self) {
                $(self.$name.store(0, Ordering::Relaxed);)*
            }
        }
    };
}

counters! {
    /// The outcomes of all point, prefix or range queries of filters on one level.
    ProbeTally, ProbeCounters {
        true_negatives,
        false_positives,
        true_positives,
        /// SSTs searched because their filter is unusable, or because a filter with damaged pages
        /// answered "maybe" for something absent.
        degraded,
        /// SSTs searched because no filter could be asked.
        unfiltered,
        /// The sum of the expected FPRs over all counted queries for something absent, in units of
        /// 2^-32.
        expected,
    }
}
counters! {
    /// The data blocks read by gets on one level, and the searches that prefixes saved.
    ReadTally, ReadCounters {
        block_reads,
        block_read_bytes,
        /// Searches that were saved because the filter answered "maybe" for a key, but denied one
        /// of its prefixes.
        saved_by_prefixes,
    }
}

impl ProbeTally {
    /// Counts "absent" answers. `expected` is the expected FPR of each answer.
    #[inline]
    pub(crate) fn count_denied(&mut self, count: u32, expected: u32) {
        self.true_negatives += u64::from(count);
        self.expected += u64::from(count) * u64::from(expected);
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) points: ProbeTally,
    pub(crate) reads: ReadTally,
}

impl Tally {
    pub(crate) fn add_reads(&mut self, reads: BlockReads) {
        self.reads.block_reads += reads.blocks;
        self.reads.block_read_bytes += reads.bytes;
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScanTally {
    pub(crate) prefixes: ProbeTally,
    pub(crate) ranges: ProbeTally,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LevelTally {
    pub(crate) gets: Tally,
    pub(crate) scans: ScanTally,
}

#[derive(Debug, Default)]
struct LevelCounters {
    points: ProbeCounters,
    reads: ReadCounters,
    prefixes: ProbeCounters,
    ranges: ProbeCounters,
}

impl LevelCounters {
    fn sum_into(&self, tally: &mut LevelTally) {
        self.points.sum_into(&mut tally.gets.points);
        self.reads.sum_into(&mut tally.gets.reads);
        self.prefixes.sum_into(&mut tally.scans.prefixes);
        self.ranges.sum_into(&mut tally.scans.ranges);
    }

    fn reset(&self) {
        self.reads.reset();
        [&self.points, &self.prefixes, &self.ranges].into_iter().for_each(ProbeCounters::reset);
    }
}

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

#[derive(Debug, Default)]
pub(crate) struct Counters {
    shards: Box<[Shard]>,
    /// The shard of all threads without a shard of their own.
    common: Shard,
    pub(crate) write_stalls: AtomicU64,
    pub(crate) write_delays: AtomicU64,
    pub(crate) write_delay_nanos: AtomicU64,
    /// The time of the stalls that have ended.
    ended_stall_nanos: AtomicU64,
    /// The stalls that have not ended: for each its id, and the moment from which its time counts.
    stalls: Mutex<Vec<(u64, Instant)>>,
    pub(crate) scans: AtomicU64,
    pub(crate) scan_reads: Arc<ScanReads>,
    pub(crate) flushes: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) failed_filters: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compacted_bytes: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct ScanReads {
    blocks: AtomicU64,
    bytes: AtomicU64,
}

impl ScanReads {
    pub(crate) fn add(&self, blocks: u64, bytes: u64) {
        self.blocks.fetch_add(blocks, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> (u64, u64) {
        (self.blocks.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// The guard of a write that is slowed down. Dropping it counts the time since it was created.
#[derive(Debug)]
pub(crate) struct Delay<'a>(&'a Counters, Instant);

impl Drop for Delay<'_> {
    fn drop(&mut self) {
        self.0.write_delay_nanos.fetch_add(nanos_since(self.1), Ordering::Relaxed);
    }
}

/// The guard of a write or a flush that waits. Dropping it counts the time since it was created, or
/// since a later reset of the counters.
#[derive(Debug)]
pub(crate) struct Stall<'a>(&'a Counters, u64);

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        let mut stalls = lock(&self.0.stalls);
        if let Some(place) = stalls.iter().position(|(id, _)| *id == self.1) {
            let (_, start) = stalls.swap_remove(place);
            self.0.ended_stall_nanos.fetch_add(nanos_since(start), Ordering::Relaxed);
        }
    }
}

fn nanos_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Recorder<'a> {
    shard: &'a Shard,
    shared: bool,
}

const NO_SLOT: usize = usize::MAX;

thread_local! {
    /// The thread's slot: the index of its shard, or `NO_SLOT` if it has none yet. The variable has
    /// no destructor, so that reading it costs one load.
    static SLOT: Cell<usize> = const { Cell::new(NO_SLOT) };
    /// The owner of the thread's slot. Its destructor returns the slot when the thread ends.
    static OWNED: SlotOwner = const { SlotOwner };
}

/// Assigns shards to threads: first the shards that ended threads returned, then unused ones. If
/// none is left, a thread gets the common shard.
///
/// The mutex orders the plain accesses of a thread before the accesses of the next owner of its
/// shard.
#[derive(Debug, Default)]
struct Slots(Mutex<(Vec<usize>, usize)>);

static SLOTS: LazyLock<Slots> = LazyLock::new(Slots::default);

impl Slots {
    fn take(&self) -> usize {
        let (free, next) = &mut *lock(&self.0);
        free.pop().unwrap_or_else(|| {
            let slot = (*next).min(NUM_OWNED_SHARDS);
            *next = slot + 1;
            slot
        })
    }

    fn give_back(&self, slot: usize) {
        if slot < NUM_OWNED_SHARDS {
            lock(&self.0).0.push(slot);
        }
    }
}

struct SlotOwner;

impl Drop for SlotOwner {
    fn drop(&mut self) {
        // Destructors that run later and read the store use the shared shard.
        SLOTS.give_back(SLOT.replace(NUM_OWNED_SHARDS));
    }
}

#[inline]
fn thread_slot() -> usize {
    let slot = SLOT.get();
    if slot == NO_SLOT { take_slot() } else { slot }
}

#[cold]
fn take_slot() -> usize {
    // After the destruction of `OWNED`, a thread cannot return a slot, so it uses the shared one.
    let slot = OWNED.try_with(|_| SLOTS.take());
    let slot = slot.unwrap_or(NUM_OWNED_SHARDS);
    SLOT.set(slot);
    slot
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self { shards: (0..NUM_OWNED_SHARDS).map(|_| Shard::default()).collect(), ..Self::default() }
    }

    pub(crate) fn begin_stall(&self) -> Stall<'_> {
        self.write_stalls.fetch_add(1, Ordering::Relaxed);
        let mut stalls = lock(&self.stalls);
        let id = stalls.iter().map(|(id, _)| id + 1).max().unwrap_or(0);
        stalls.push((id, Instant::now()));
        Stall(self, id)
    }

    pub(crate) fn begin_delay(&self) -> Delay<'_> {
        self.write_delays.fetch_add(1, Ordering::Relaxed);
        Delay(self, Instant::now())
    }

    /// Returns the total time of all stalls in ns, including stalls that have not ended.
    pub(crate) fn write_stall_nanos(&self) -> u64 {
        let stalls = lock(&self.stalls);
        let ended = self.ended_stall_nanos.load(Ordering::Relaxed);
        stalls.iter().fold(ended, |sum, &(_, start)| sum.saturating_add(nanos_since(start)))
    }

    #[inline]
    pub(crate) fn recorder(&self) -> Recorder<'_> {
        self.recorder_of(thread_slot())
    }

    #[inline]
    fn recorder_of(&self, slot: usize) -> Recorder<'_> {
        match self.shards.get(slot) {
            Some(shard) => Recorder { shard, shared: false },
            None => Recorder { shard: &self.common, shared: true },
        }
    }

    /// Returns the keys read by gets, those of them found in a memtable, and the counts of each level.
    pub(crate) fn sum(&self) -> (u64, u64, [LevelTally; NUM_LEVELS]) {
        let (mut gets, mut hits, mut tallies) = (0, 0, [LevelTally::default(); NUM_LEVELS]);
        for shard in self.shards.iter().chain([&self.common]) {
            gets += shard.gets.load(Ordering::Relaxed);
            hits += shard.memory_hits.load(Ordering::Relaxed);
            for (level, tally) in shard.levels.iter().zip(&mut tallies) {
                level.sum_into(tally);
            }
        }
        (gets, hits, tallies)
    }

    /// Sets all counters to zero. If another thread adds to a counter at the same time, the counter
    /// may keep its old count. The time of a running stall counts from the reset on.
    pub(crate) fn reset(&self) {
        let mut running = lock(&self.stalls);
        running.iter_mut().for_each(|(_, start)| *start = Instant::now());
        for shard in self.shards.iter().chain([&self.common]) {
            shard.gets.store(0, Ordering::Relaxed);
            shard.memory_hits.store(0, Ordering::Relaxed);
            shard.levels.iter().for_each(LevelCounters::reset);
        }
        let written =
            [&self.flushes, &self.flushed_bytes, &self.compactions, &self.compacted_bytes, &self.failed_filters];
        let reads = [&self.scans, &self.scan_reads.blocks, &self.scan_reads.bytes];
        let stalls = [&self.write_stalls, &self.ended_stall_nanos, &self.write_delays, &self.write_delay_nanos];
        for counter in stalls.into_iter().chain(written).chain(reads) {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

impl Recorder<'_> {
    #[inline]
    pub(crate) fn gets(&self, count: u64) {
        add(&self.shard.gets, count, self.shared);
    }

    pub(crate) fn memory_hit(&self) {
        add(&self.shard.memory_hits, 1, self.shared);
    }

    #[inline]
    pub(crate) fn level(&self, level: usize, tally: &Tally) {
        if let Some(counters) = self.shard.levels.get(level) {
            counters.points.add(&tally.points, self.shared);
            counters.reads.add(&tally.reads, self.shared);
        }
    }

    pub(crate) fn scan(&self, level: usize, tally: &ScanTally) {
        if let Some(counters) = self.shard.levels.get(level) {
            counters.prefixes.add(&tally.prefixes, self.shared);
            counters.ranges.add(&tally.ranges, self.shared);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_counts_while_it_goes_on() {
        let counters = Counters::new();
        let (first, second) = (counters.begin_stall(), counters.begin_stall());
        std::thread::sleep(std::time::Duration::from_millis(2));
        let running = counters.write_stall_nanos();
        assert!(running >= 4_000_000, "{running}");
        assert_eq!(counters.write_stalls.load(Ordering::Relaxed), 2);
        drop(first);
        let one_running = counters.write_stall_nanos();
        assert!(one_running >= running, "{one_running}");
        drop(second);
        let ended = counters.write_stall_nanos();
        assert!(ended >= one_running && ended == counters.write_stall_nanos(), "{ended}");
    }

    #[test]
    fn a_reset_ends_the_time_of_a_running_stall() {
        let counters = Counters::new();
        let stall = counters.begin_stall();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let start = Instant::now();
        counters.reset();
        let after = counters.write_stall_nanos();
        assert!(after <= nanos_since(start), "{after}");
        drop(stall);
        assert!(counters.write_stall_nanos() <= nanos_since(start));
        assert!(lock(&counters.stalls).is_empty());
    }

    #[test]
    fn a_thread_gives_its_shard_back_when_it_ends() {
        for i in 0..4 * NUM_OWNED_SHARDS {
            let slot = std::thread::spawn(thread_slot).join().unwrap();
            assert!(slot < NUM_OWNED_SHARDS, "thread {i}");
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// Counts two gets and three true negatives as a thread of a store does.
    fn count((counters, slots): &(Counters, Slots)) {
        let slot = slots.take();
        let recorder = counters.recorder_of(slot);
        recorder.gets(2);
        let points = ProbeTally { true_negatives: 3, ..ProbeTally::default() };
        recorder.level(1, &Tally { points, ..Tally::default() });
        slots.give_back(slot);
    }

    /// With three threads and two shards, one thread at a time owns the first shard, and the others
    /// share the second.
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
            assert_eq!((gets, levels[1].gets.points.true_negatives), (6, 9));
        });
    }
}
