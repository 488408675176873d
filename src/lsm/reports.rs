//! Damage that was met: one message each, kept for [`super::Stats::reports`] and sent to the `log` crate.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::version::StoredTable;
use crate::error::{Error, Field, Result};
use crate::sstable::TableFilter;

/// More damage than this is counted but no longer told one by one.
const MAX_REPORTS: usize = 100;

/// Messages, and what they were about.
#[derive(Debug, Default)]
pub(super) struct Reports(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    messages: Vec<String>,
    /// Tables whose filter was reported, by number.
    filters: HashSet<u64>,
}

/// The data behind a lock whose holder panicked: every update here and in the store leaves it whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reports {
    pub(super) fn add(&self, message: String) {
        log::warn!("{message}");
        let mut inner = lock(&self.0);
        if inner.messages.len() < MAX_REPORTS {
            inner.messages.push(message);
        }
    }

    pub(super) fn messages(&self) -> Vec<String> {
        lock(&self.0).messages.clone()
    }

    /// Tells once of each table whose filter is damaged.
    ///
    /// # Errors
    /// That damage, when `strict`.
    pub(super) fn look_at(&self, stored: &StoredTable, strict: bool) -> Result<()> {
        let message = match stored.table.filter() {
            TableFilter::Absent => return Ok(()),
            TableFilter::Ready(filter) if filter.damaged_pages() == 0 => return Ok(()),
            TableFilter::Ready(filter) => {
                if strict {
                    filter.verify_pages().map_err(|error| error.in_file(&stored.path))?;
                }
                format!("{}: {} pages of the filter are damaged", stored.path.display(), filter.damaged_pages())
            }
            TableFilter::Degraded(error) => {
                if strict {
                    let damage = Error::Corrupt { field: Field::FilterBlock, offset: 0 };
                    return Err(damage.in_file(&stored.path));
                }
                format!("{error}")
            }
        };
        if lock(&self.0).filters.insert(stored.meta.number) {
            self.add(format!("{message}; reads of the table answer \"maybe\" where it was asked"));
        }
        Ok(())
    }
}
