//! Counts the filters that an engine builds, their lengths and their answers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The counts of a wrapper of a filter policy.
#[derive(Debug, Default)]
pub struct Counting {
    /// The number of keys and the length in bytes of each filter, in the order of the builds.
    built: Mutex<Vec<(u64, u64)>>,
    /// The number of queries since the last [`take_answers`](Self::take_answers).
    asked: AtomicU64,
    /// The number of answers "maybe" since the last [`take_answers`](Self::take_answers).
    passed: AtomicU64,
}

impl Counting {
    /// Counts a filter that was built for `keys` keys, and returns the filter.
    pub fn built(&self, keys: usize, filter: Vec<u8>) -> Vec<u8> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        built.push((keys as u64, filter.len() as u64));
        filter
    }

    /// Counts the answer of a filter, and returns the answer.
    pub fn answered(&self, may_contain: bool) -> bool {
        self.asked.fetch_add(1, Relaxed);
        self.passed.fetch_add(u64::from(may_contain), Relaxed);
        may_contain
    }

    /// Returns the total length in bytes of the newest filters: from the newest one back, until
    /// these filters have at least `keys` keys together.
    ///
    /// A compaction builds filters of its keys again, and the engine then deletes the old filters.
    #[must_use]
    pub fn bytes_of_last(&self, keys: usize) -> u64 {
        let built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = keys as u64;
        let last = built.iter().rev().take_while(|(keys, _)| {
            let is_last = left > 0;
            left = left.saturating_sub(*keys);
            is_last
        });
        last.map(|(_, bytes)| bytes).sum()
    }

    /// Returns the numbers of queries and of answers "maybe" since the last call.
    pub fn take_answers(&self) -> (u64, u64) {
        (self.asked.swap(0, Relaxed), self.passed.swap(0, Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_last_adds_up_only_the_newest_filters() {
        let counting = Counting::default();
        for (keys, bytes) in [(3, 30), (7, 70), (4, 4), (6, 6)] {
            assert_eq!(counting.built(keys, vec![0; bytes]).len(), bytes);
        }
        assert_eq!([10, 20, 4, 0].map(|keys| counting.bytes_of_last(keys)), [10, 110, 6, 0]);
        assert!(counting.answered(true) && !counting.answered(false));
        assert_eq!((counting.take_answers(), counting.take_answers()), ((2, 1), (0, 0)));
    }
}
