//! The atomics and locks of what loom tests: the standard library's, or loom's, under which a test runs in all the
//! orders that the memory model allows.

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

/// The data behind a lock, also after its holder panicked. What such a panic may leave half done protects itself: a log
/// refuses everything from then on, and a background thread or a leading writer of a store fails the store.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(loom)]
mod stand_in {
    use std::sync::{Arc, PoisonError};

    use super::atomic::{AtomicUsize, Ordering};

    /// For `arc_swap::ArcSwap`, which loom cannot look into: it orders accesses as that promises to, a store before the
    /// loads that see it, and no more. What it once held lives as long as itself.
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
