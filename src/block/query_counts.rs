//! Estimates how often each filter of a set is asked, from a random sample of the queries.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The mean number of queries for each counted query, and the weight of a counted query. Counting
/// every query would load one more cache line per query.
pub(super) const COUNTED_ONE_IN: u32 = 64;

/// The number of queries of each filter, estimated from a random sample.
#[derive(Debug, Default)]
pub(super) struct QueryCounts {
    pub(super) is_on: bool,
    counts: Vec<AtomicU64>,
}

thread_local! {
    /// The number of queries that this thread skips before it counts a query, and the state of a
    /// random number generator. The number of skipped queries is random: if it were fixed, a thread
    /// that asks 64 filters in turn would always count the same filter.
    static UNCOUNTED: Cell<(u32, u32)> = Cell::new(start());
}

/// Returns the initial `UNCOUNTED` of a thread. The state differs between threads. Otherwise,
/// threads that live only for a few queries could all count the same filters.
fn start() -> (u32, u32) {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    let state = THREADS.fetch_add(1, Ordering::Relaxed).wrapping_add(1).wrapping_mul(0x9e37_79b9);
    ((state >> 16) % (2 * COUNTED_ONE_IN - 1), state)
}

impl QueryCounts {
    pub(super) fn push(&mut self) {
        self.counts.push(AtomicU64::new(0));
    }

    /// Counts a random sample of `queries` queries of the filter at `index`. Does nothing if the
    /// set does not count queries.
    #[inline(always)]
    pub(super) fn count(&self, index: usize, queries: usize) {
        if self.is_on {
            let (left, state) = UNCOUNTED.get();
            match (left as usize).checked_sub(queries) {
                #[expect(clippy::cast_possible_truncation, reason = "at most `left`")]
                Some(left) => UNCOUNTED.set((left as u32, state)),
                None => self.count_sampled(index, queries),
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn count_sampled(&self, index: usize, mut queries: usize) {
        let (mut left, mut state) = UNCOUNTED.get();
        let mut samples = 0;
        while let Some(after) = queries.checked_sub(left as usize + 1) {
            (queries, samples) = (after, samples + 1);
            // The linear congruential generator of "Numerical Recipes". Its high bits are random
            // enough to break up patterns. 0 to 126 queries are skipped before each counted query,
            // so one query in 64 is counted on average.
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            left = (state >> 16) % (2 * COUNTED_ONE_IN - 1);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most `left`")]
        UNCOUNTED.set((left - queries as u32, state));
        self.add(index, samples * u64::from(COUNTED_ONE_IN));
    }

    pub(super) fn of(&self, index: usize) -> u64 {
        self.counts.get(index).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(super) fn add(&self, index: usize, queries: u64) {
        if let Some(count) = self.counts.get(index) {
            let add = |count: u64| Some(count.saturating_add(queries));
            // The closure never returns `None`, so the update never fails.
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        }
    }
}
