//! Provides the atomics and locks of the code that loom tests. With `--cfg loom` they come from
//! loom and from a stand-in for `arc_swap`. Without `--cfg loom` they come from the standard
//! library and from `arc_swap`.

#[cfg(loom)]
pub(crate) use loom::sync::atomic;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic;

#[cfg(not(loom))]
pub(crate) use arc_swap::ArcSwap;
#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use stand_in::ArcSwap;
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

use std::sync::PoisonError;

/// Locks `mutex`, even if a thread panicked while it held the lock.
///
/// A poisoned lock is not an error, because the store handles such panics itself.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(loom)]
mod stand_in {
    use std::sync::{Arc, PoisonError};

    use super::atomic::{AtomicUsize, Ordering};

    /// Replaces `arc_swap::ArcSwap`, whose accesses loom cannot observe. The stand-in gives one
    /// ordering only: a swap happens before the loads that see its value. All values live as long
    /// as the stand-in.
    #[derive(Debug)]
    pub(crate) struct ArcSwap<T> {
        all: std::sync::Mutex<Vec<Arc<T>>>,
        current: AtomicUsize,
    }

    impl<T> ArcSwap<T> {
        pub(crate) fn from_pointee(value: T) -> Self {
            Self { all: std::sync::Mutex::new(vec![Arc::new(value)]), current: AtomicUsize::new(0) }
        }

        pub(crate) fn load(&self) -> impl std::ops::Deref<Target = Arc<T>> {
            Box::new(self.load_full())
        }

        pub(crate) fn load_full(&self) -> Arc<T> {
            let current = self.current.load(Ordering::Acquire);
            Arc::clone(&self.all.lock().unwrap_or_else(PoisonError::into_inner)[current])
        }

        pub(crate) fn swap(&self, value: Arc<T>) -> Arc<T> {
            let old = self.load_full();
            let new = {
                let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
                all.push(value);
                all.len() - 1
            };
            self.current.store(new, Ordering::Release);
            old
        }
    }
}
