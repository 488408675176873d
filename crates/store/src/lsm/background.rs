//! What the threads of a store tell each other about work in the background, and the files that work leaves behind.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

use super::attempts::Attempts;
use super::removals::removed;
use super::shared::{Background, Shared, Work};
use super::stats::{Retry, Task};
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
    /// Notes how an attempt of the background ended.
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
            log::warn!("{task:?} in the background fails, and is tried again: {error}");
            work.attempts(task).fail(error);
        }
        drop(work);
        self.background.changed.notify_all();
    }

    /// Fails the store where a file that could not be made puts more in doubt than itself: when its directory could not
    /// be synced, the names that other threads have just made there may be lost as well, and no later sync tells so.
    pub(super) fn judge(&self, error: &Error) {
        // Where the directory could not even be opened, nothing was synced, and nothing was lost: ENFILE and EMFILE.
        let is_tried = |source: &Error| matches!(source, Error::Io(error) if !cfg!(unix) || !matches!(error.raw_os_error(), Some(23 | 24)));
        if matches!(error, Error::InFile { path, source } if *path == self.identity.dir && is_tried(source)) {
            self.background.fail(error);
        }
    }
}

impl Background {
    /// Makes the next attempt of a task due, and gives how many have failed before it.
    pub(super) fn hurry(&self, task: Task) -> u64 {
        let num_failed = lock(&self.work).attempts(task).hurry();
        self.changed.notify_all();
        num_failed
    }

    /// Waits for a change, and for `rest` at most.
    pub(super) fn wait_at_most<'w>(&self, work: MutexGuard<'w, Work>, rest: Duration) -> MutexGuard<'w, Work> {
        self.changed.wait_timeout(work, rest).unwrap_or_else(PoisonError::into_inner).0
    }

    /// How many attempts have failed since the store was opened, and the tasks that fail at present.
    pub(super) fn retries(&self) -> (u64, Vec<Retry>) {
        let work = lock(&self.work);
        let all = [(Task::Flush, &work.flushes), (Task::Compaction, &work.compactions)];
        let num_failed = all.iter().map(|(_, attempts)| attempts.num_failed).sum();
        (num_failed, all.iter().filter_map(|(task, attempts)| attempts.retry(*task)).collect())
    }
}

impl Shared {
    /// Removes files that nobody needs and that may not be there. Only for whoever keeps the store open: the lock is not
    /// held meanwhile, since a removal may take long and a reader that lets go of a table needs it.
    pub(super) fn discard(&self, paths: impl IntoIterator<Item = PathBuf>) {
        let storage = self.options.storage.as_ref();
        let stays = |path: &PathBuf| {
            let result = removed(storage.remove(path));
            result.inspect_err(|error| log::warn!("a file that nobody needs stays for now: {error}")).is_err()
        };
        let left: Vec<PathBuf> = paths.into_iter().filter(stays).collect();
        if !left.is_empty() {
            lock(&self.files.closed).left.extend(left);
        }
    }

    /// Tries again to remove what could not be removed; as [`Self::discard`].
    pub(super) fn remove_left(&self) {
        let left = std::mem::take(&mut lock(&self.files.closed).left);
        self.discard(left);
    }
}
