//! Damage that was met: one message each, kept for [`super::Stats::reports`] and sent to the `log` crate.

use std::sync::PoisonError;

use super::log_reader::LogTail;
use super::version::StoredTable;
use crate::error::{Error, Field, Result};
use crate::sstable::TableFilter;
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, MutexGuard};

/// More damage than this is counted but no longer told one by one.
const MAX_REPORTS: usize = 100;

/// The messages.
#[derive(Debug, Default)]
pub(super) struct Reports {
    messages: Mutex<Vec<String>>,
    tails: Mutex<Vec<LogTail>>,
}

/// The data behind a lock, also after its holder panicked. What such a panic may leave half done protects itself: a log
/// refuses everything from then on, and a background thread or a leading writer fails the store ([`super::shared::Alarm`]).
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reports {
    pub(super) fn add(&self, message: String) {
        log::warn!("{message}");
        let mut messages = lock(&self.messages);
        if messages.len() < MAX_REPORTS {
            messages.push(message);
        }
    }

    pub(super) fn messages(&self) -> Vec<String> {
        lock(&self.messages).clone()
    }

    /// Tells what was cut off, if anything was.
    pub(super) fn add_tail(&self, tail: Option<LogTail>) {
        let Some(tail) = tail else { return };
        self.add(tail.to_string());
        lock(&self.tails).push(tail);
    }

    pub(super) fn tails(&self) -> Vec<LogTail> {
        lock(&self.tails).clone()
    }

    /// Tells once of each table whose filter is damaged.
    ///
    /// # Errors
    /// That damage, when `strict`.
    pub(super) fn look_at(&self, stored: &StoredTable, strict: bool) -> Result<()> {
        match stored.table.filter() {
            TableFilter::Absent => Ok(()),
            TableFilter::Ready(filter) => {
                let damaged_pages = filter.damaged_pages();
                if damaged_pages == 0 {
                    return Ok(());
                }
                if let (true, Some(error)) = (strict, stored.table.filter_damage()) {
                    return Err(error);
                }
                self.add_once(stored, || match stored.table.filter_damage() {
                    Some(error) => error.to_string(),
                    None => format!("{}: {damaged_pages} pages of the filter were damaged", stored.path.display()),
                });
                Ok(())
            }
            TableFilter::Degraded(_) if strict => {
                Err(Error::Corrupt { field: Field::FilterBlock, offset: 0 }.in_file(&stored.path))
            }
            TableFilter::Degraded(error) => {
                self.add_once(stored, || error.to_string());
                Ok(())
            }
        }
    }

    fn add_once(&self, stored: &StoredTable, message: impl FnOnce() -> String) {
        // Each read of such a table comes here: all but the first must cost no more than this.
        if !stored.is_reported.load(Ordering::Relaxed) && !stored.is_reported.swap(true, Ordering::Relaxed) {
            self.add(format!("{}; reads of the table answer \"maybe\" where its filter was asked", message()));
        }
    }
}
