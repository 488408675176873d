//! Defines the state of background work: what runs, what has failed, and who waits. Schedules retries
//! of work that failed for a reason that may be temporary.
//!
//! If an SST file cannot be written, its entries are still in the log, or in the input SSTs of the
//! compaction. The store therefore continues and retries later.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::picking::{Pace, Picker};
use super::stats::Task;
use super::stats::store_stats::Retry;
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};

#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) closing: bool,
    /// The first failure that makes further writes unsafe.
    pub(super) failure: Option<String>,
    /// Whether a compaction is running, in the background or for a caller.
    pub(super) compacting: bool,
    /// Whether the background thread reads the keys of level 0.
    pub(super) mapping: bool,
    /// Number of callers that wait to compact. They go before the background thread, which may
    /// always find more work.
    pub(super) callers_waiting: usize,
    /// Number of callers that wait until nothing is left to do.
    pub(super) idle_waiters: usize,
    pub(super) flushes: Attempts,
    pub(super) compactions: Attempts,
}

impl Work {
    pub(super) fn attempts(&mut self, task: Task) -> &mut Attempts {
        match task {
            Task::Flush => &mut self.flushes,
            Task::Compaction => &mut self.compactions,
        }
    }
}

#[derive(Debug)]
pub(super) struct Background {
    pub(super) work: Mutex<Work>,
    /// Whether `work` has a failure. Every write reads it, and a lock would cost more.
    has_failed: AtomicBool,
    /// Notified after each change of `work` or of the state that reads see that a thread may wait for.
    pub(super) changed: Condvar,
    pub(super) picker: Mutex<Picker>,
    pub(super) pace: Mutex<Pace>,
}

impl Background {
    pub(super) fn new(picker: Picker) -> Self {
        Self {
            work: Mutex::new(Work::default()),
            has_failed: AtomicBool::new(false),
            changed: Condvar::new(),
            picker: Mutex::new(picker),
            pace: Mutex::new(Pace::new()),
        }
    }

    pub(super) fn wake_all(&self) {
        // Take the lock once: no thread can then be between its check and its wait.
        drop(lock(&self.work));
        self.changed.notify_all();
    }

    pub(super) fn alarm(&self) -> Alarm<'_> {
        Alarm(self)
    }

    /// Records the first failure. The store accepts no writes afterwards.
    pub(super) fn fail(&self, error: &Error) {
        log::error!("{error}");
        self.fail_because(|| error.to_string());
    }

    fn fail_because(&self, reason: impl FnOnce() -> String) {
        let mut work = lock(&self.work);
        work.failure.get_or_insert_with(reason);
        self.has_failed.store(true, Ordering::Release);
        drop(work);
        self.changed.notify_all();
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        match &lock(&self.work).failure {
            None => Ok(()),
            Some(reason) => Err(Error::Poisoned { reason: reason.clone() }),
        }
    }

    /// Returns a guard for a caller that waits until the store is idle. While the guard exists, a
    /// compaction of level 0 does not wait for more SSTs.
    pub(super) fn wait_for_idleness(&self) -> IdleWaiter<'_> {
        lock(&self.work).idle_waiters += 1;
        self.changed.notify_all();
        IdleWaiter(self)
    }

    /// Makes the next attempt due now. Returns the number of failed attempts since the store was opened.
    pub(super) fn hurry(&self, task: Task) -> u64 {
        let num_failed = lock(&self.work).attempts(task).hurry();
        self.changed.notify_all();
        num_failed
    }

    pub(super) fn wait<'w>(&self, work: MutexGuard<'w, Work>) -> MutexGuard<'w, Work> {
        self.changed.wait(work).unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait_at_most<'w>(&self, work: MutexGuard<'w, Work>, timeout: Duration) -> MutexGuard<'w, Work> {
        self.changed.wait_timeout(work, timeout).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Returns the number of failed attempts of all tasks, and the tasks that currently fail.
    pub(super) fn retries(&self) -> (u64, Vec<Retry>) {
        let work = lock(&self.work);
        let all = [(Task::Flush, &work.flushes), (Task::Compaction, &work.compactions)];
        let num_failed = all.iter().map(|(_, attempts)| attempts.num_failed).sum();
        (num_failed, all.iter().filter_map(|(task, attempts)| attempts.retry(*task)).collect())
    }
}

/// A guard that fails the store and wakes all waiting threads if it is dropped before
/// [`Alarm::disarm`]. A panic in a filter policy or a storage drops it, for example.
pub(super) struct Alarm<'a>(&'a Background);

impl Alarm<'_> {
    pub(super) fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.fail_because(|| "a thread panicked while it worked on the store".to_owned());
    }
}

pub(super) struct IdleWaiter<'a>(&'a Background);

impl Drop for IdleWaiter<'_> {
    fn drop(&mut self) {
        lock(&self.0.work).idle_waiters -= 1;
    }
}

/// The delay between the first failure and the second attempt.
const FIRST_DELAY: Duration = Duration::from_millis(100);

const MAX_DELAY: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// The number of failed attempts since the store was opened.
    pub(super) num_failed: u64,
    trouble: Option<Trouble>,
}

/// The failures since the last call of [`Attempts::succeed`].
#[derive(Debug)]
struct Trouble {
    reason: String,
    num_failed: u64,
    since: Instant,
    /// The time at which the next attempt is due.
    due: Instant,
}

impl Attempts {
    pub(super) fn fail(&mut self, error: &Error) {
        let now = Instant::now();
        self.num_failed += 1;
        let (since, before) = self.trouble.take().map_or((now, 0), |trouble| (trouble.since, trouble.num_failed));
        // The delay doubles with each failure. After nine doublings it exceeds `MAX_DELAY`.
        let delay = FIRST_DELAY.saturating_mul(1 << before.min(9)).min(MAX_DELAY);
        self.trouble = Some(Trouble { reason: error.to_string(), num_failed: before + 1, since, due: now + delay });
    }

    /// Ends the retries, after a success or because the task is not needed any more.
    pub(super) fn succeed(&mut self) {
        self.trouble = None;
    }

    /// Makes the next attempt due now. Returns [`Self::num_failed`].
    pub(super) fn hurry(&mut self) -> u64 {
        if let Some(trouble) = &mut self.trouble {
            trouble.due = Instant::now();
        }
        self.num_failed
    }

    pub(super) fn is_failing(&self) -> bool {
        self.trouble.is_some()
    }

    /// Returns [`Error::BackgroundFails`] with the reason of the last failure. Returns `None` if no
    /// failed attempt is to be retried, or if the number of failed attempts is at most `seen`.
    pub(super) fn failure_since(&self, seen: u64) -> Option<Error> {
        let trouble = self.trouble.as_ref().filter(|_| self.num_failed > seen)?;
        Some(Error::BackgroundFails { reason: trouble.reason.clone() })
    }

    /// Zero if the attempt is due, or if no failed attempt is to be retried.
    pub(super) fn delay(&self) -> Duration {
        self.trouble.as_ref().map_or(Duration::ZERO, |trouble| trouble.due.saturating_duration_since(Instant::now()))
    }

    pub(super) fn retry(&self, task: Task) -> Option<Retry> {
        let trouble = self.trouble.as_ref()?;
        let seconds = trouble.since.elapsed().as_secs();
        Some(Retry { task, failures: trouble.num_failed, seconds, reason: trouble.reason.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delays_double_up_to_a_limit_and_reset_after_success() {
        let mut attempts = Attempts::default();
        assert!(attempts.delay().is_zero() && !attempts.is_failing());
        let delays = |attempts: &mut Attempts| -> Vec<u128> {
            let delay = |_| {
                attempts.fail(&Error::OutOfOrder);
                let trouble = attempts.trouble.as_ref().unwrap();
                (trouble.due - trouble.since).as_millis()
            };
            // `since` is the time of the first failure. The other failures follow at once: less
            // than 90 ms later.
            (0..12).map(delay).collect()
        };
        let first = delays(&mut attempts);
        let wanted = [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000, 30_000];
        assert!(first.iter().zip(wanted).all(|(&delay, wanted)| (wanted..wanted + 90).contains(&delay)), "{first:?}");
        assert_eq!(attempts.hurry(), 12);
        assert!(attempts.delay().is_zero() && attempts.is_failing());
        assert!(attempts.failure_since(11).is_some() && attempts.failure_since(12).is_none());
        attempts.succeed();
        assert!(!attempts.is_failing() && attempts.failure_since(0).is_none());
        attempts.fail(&Error::OutOfOrder);
        assert!(attempts.delay() <= FIRST_DELAY && !attempts.delay().is_zero());
        assert_eq!(attempts.num_failed, 13);
    }
}
