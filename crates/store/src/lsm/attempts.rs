//! Schedules retries of background work that failed for a reason that may be temporary.
//!
//! If an SST file cannot be written, its entries are still in the log, or in the input SSTs of the
//! compaction. The store therefore continues and retries later.

use std::time::{Duration, Instant};

use super::stats::Task;
use super::stats::store_stats::Retry;
use crate::error::Error;

/// The delay between the first failure and the second attempt.
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// The maximum delay between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The attempts at one background task.
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

    /// Returns whether a failed attempt is to be retried.
    pub(super) fn is_failing(&self) -> bool {
        self.trouble.is_some()
    }

    /// Returns [`Error::BackgroundFails`] with the reason of the last failure. Returns `None` if no
    /// failed attempt is to be retried, or if the number of failed attempts is at most `seen`.
    pub(super) fn failure_since(&self, seen: u64) -> Option<Error> {
        let trouble = self.trouble.as_ref().filter(|_| self.num_failed > seen)?;
        Some(Error::BackgroundFails { reason: trouble.reason.clone() })
    }

    /// Returns the time until the next attempt. Returns zero if the attempt is due, or if no failed
    /// attempt is to be retried.
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
