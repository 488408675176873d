//! Measures the pace of compactions: how fast they write, and how long level 0 has waited for its
//! next one.

use std::time::{Duration, Instant};

/// The time that level 0 waits for its compaction, in multiples of the expected duration of this
/// compaction. A later, larger compaction can make an earlier one needless. With this wait,
/// needless compactions take about a third of the time at most.
const PATIENCE: f64 = 2.0;

/// The maximum number of bytes of a compaction that never waits. At the assumed speed, it takes
/// less than a tenth of a second.
const FREE_BYTES: u64 = 16 << 20;

/// The assumed write speed until a compaction has been measured.
const FIRST_BYTES_PER_SECOND: f64 = 200e6;

/// The lower limit of the measured speed. Without this limit, level 0 could wait for hours after a
/// compaction during which the machine slept.
const LEAST_BYTES_PER_SECOND: f64 = 5e6;

/// The minimum number of bytes of a compaction that is measured. A smaller one says little about
/// the speed.
const MEASURED_BYTES: u64 = 1 << 20;

/// The pace of the compactions of a store.
#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_second: f64,
    /// The end of the last successful background compaction of level 0, or the opening of the
    /// store.
    level_0_merged: Instant,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { bytes_per_second: FIRST_BYTES_PER_SECOND, level_0_merged: Instant::now() }
    }

    /// Records the end of a compaction of `level` that wrote `bytes`.
    pub(crate) fn note_end(&mut self, level: usize, bytes: u64, start: Instant) {
        let seconds = start.elapsed().as_secs_f64();
        if bytes >= MEASURED_BYTES && seconds > 0.0 {
            self.bytes_per_second = (bytes as f64 / seconds).max(LEAST_BYTES_PER_SECOND);
        }
        if level == 0 {
            self.level_0_merged = Instant::now();
        }
    }

    /// Returns the number of bytes that a compaction of level 0 may write without waiting any
    /// longer.
    pub(crate) fn spare_bytes(&self) -> u64 {
        let waited = self.level_0_merged.elapsed().as_secs_f64() / PATIENCE;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
        let bytes = (waited * self.bytes_per_second) as u64;
        bytes.max(FREE_BYTES)
    }

    /// Returns the remaining time for which level 0 waits for a compaction that writes `bytes`: at
    /// least 1 ms.
    pub(crate) fn delay(&self, bytes: u64) -> Duration {
        let seconds = bytes as f64 / self.bytes_per_second.max(1.0) * PATIENCE;
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        // Not zero: the caller has found that the compaction is not due yet.
        wait.saturating_sub(self.level_0_merged.elapsed()).max(Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compaction_waits_in_proportion_to_its_bytes() {
        let mut pace = Pace::new();
        assert!(pace.delay(100_000_000) > Duration::from_millis(900));
        assert!(pace.spare_bytes() < 100_000_000);
        let start = Instant::now() - Duration::from_secs(10);
        pace.note_end(1, 100_000_000, start);
        assert!(pace.bytes_per_second < 1.1e7, "{}", pace.bytes_per_second);
        pace.note_end(1, 1_000, start);
        assert!(pace.bytes_per_second > 0.9e7, "a small compaction is not measured");
        pace.level_0_merged = start;
        assert!(pace.spare_bytes() > 45_000_000, "{}", pace.spare_bytes());
        assert_eq!(pace.delay(45_000_000), Duration::from_millis(1));
        pace.note_end(0, 0, start);
        assert_eq!(pace.spare_bytes(), FREE_BYTES);
    }
}
