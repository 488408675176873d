//! Supports background work: records the results of attempts, fails the store if necessary, lets
//! callers wait, and removes unneeded files.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

use super::attempts::Attempts;
use super::files::removed;
use super::shared::{Background, Shared, Work};
use super::stats::Task;
use super::stats::store_stats::Retry;
use crate::error::{Error, Result};
use crate::sync::{MutexGuard, lock};

impl Work {
    pub(super) fn attempts(&mut self, task: Task) -> &mut Attempts {
        match task {
            Task::Flush => &mut self.flushes,
            Task::Compaction => &mut self.compactions,
        }
    }
}

impl Shared {
    /// Records the result of an attempt at a background task. After a failure, schedules a retry,
    /// unless the store has failed. After a success, tries again to remove files and to load
    /// filters.
    pub(super) fn note_attempt(&self, task: Task, result: &Result<()>) {
        self.files.reclaimer.reclaim();
        let Err(error) = result else {
            lock(&self.background.work).attempts(task).succeed();
            self.background.changed.notify_all();
            self.remove_left();
            self.fetch_filters();
            return;
        };
        self.judge(error);
        let mut work = lock(&self.background.work);
        if work.failure.is_none() {
            let name = match task {
                Task::Flush => "flush",
                Task::Compaction => "compaction",
            };
            log::warn!("a background {name} failed, and the store tries it again: {error}");
            work.attempts(task).fail(error);
        }
        drop(work);
        self.background.changed.notify_all();
    }

    /// Fails the store if `error` is a failed sync of the store's directory. Names that other
    /// threads have just created there may then be lost too, and no later sync reports the loss.
    pub(super) fn judge(&self, error: &Error) {
        // With ENFILE or EMFILE, the directory could not be opened. Nothing was synced then, and
        // nothing was lost.
        let is_tried = |source: &Error| matches!(source, Error::Io(error) if !cfg!(unix) || !matches!(error.raw_os_error(), Some(23 | 24)));
        if matches!(error, Error::InFile { path, source } if *path == self.identity.dir && is_tried(source)) {
            self.background.fail(error);
        }
    }
}

/// The guard that [`Background::wait_for_idleness`] returns.
pub(super) struct IdleWaiter<'a>(&'a Background);

impl Drop for IdleWaiter<'_> {
    fn drop(&mut self) {
        lock(&self.0.work).idle_waiters -= 1;
    }
}

impl Background {
    /// Returns a guard for a caller that waits until the store is idle. While the guard exists, a
    /// compaction of level 0 does not wait for more SSTs.
    pub(super) fn wait_for_idleness(&self) -> IdleWaiter<'_> {
        lock(&self.work).idle_waiters += 1;
        self.changed.notify_all();
        IdleWaiter(self)
    }

    /// Makes the next attempt at a task due now. Returns the number of failed attempts at this task
    /// since the store was opened.
    pub(super) fn hurry(&self, task: Task) -> u64 {
        let num_failed = lock(&self.work).attempts(task).hurry();
        self.changed.notify_all();
        num_failed
    }

    /// Waits for a change of the shared state, at most for `timeout`.
    pub(super) fn wait_at_most<'w>(&self, work: MutexGuard<'w, Work>, timeout: Duration) -> MutexGuard<'w, Work> {
        self.changed.wait_timeout(work, timeout).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Returns the number of failed attempts since the store was opened, and the tasks that
    /// currently fail.
    pub(super) fn retries(&self) -> (u64, Vec<Retry>) {
        let work = lock(&self.work);
        let all = [(Task::Flush, &work.flushes), (Task::Compaction, &work.compactions)];
        let num_failed = all.iter().map(|(_, attempts)| attempts.num_failed).sum();
        (num_failed, all.iter().filter_map(|(task, attempts)| attempts.retry(*task)).collect())
    }
}

impl Shared {
    /// Removes unneeded files. A missing file is not an error. The store tries again later to
    /// remove a file that cannot be removed now.
    ///
    /// The caller must keep the store open: after a close, the files may belong to another store.
    /// The lock of `Files::closed` is not held while a file is deleted: the deletion may take long,
    /// and a thread that drops a replaced SST needs the lock.
    pub(super) fn discard(&self, paths: impl IntoIterator<Item = PathBuf>) {
        let storage = self.options.storage.as_ref();
        let stays = |path: &PathBuf| {
            let result = removed(storage.remove(path));
            result
                .inspect_err(|error| {
                    log::warn!("an unneeded file could not be removed; the store tries again later: {error}")
                })
                .is_err()
        };
        let left: Vec<PathBuf> = paths.into_iter().filter(stays).collect();
        if !left.is_empty() {
            lock(&self.files.closed).left.extend(left);
        }
    }

    /// Tries again to remove files that could not be removed. The caller must keep the store open.
    pub(super) fn remove_left(&self) {
        let left = std::mem::take(&mut lock(&self.files.closed).left);
        self.discard(left);
    }
}
