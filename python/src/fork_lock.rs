//! A lock that never makes a forked child wait for a thread of its parent.
//!
//! A fork copies the lock, but only the thread that forks. If another thread holds the lock at that
//! moment, nobody in the child ever unlocks it. So a child tries the lock once, and remembers what
//! it found.
#![cfg_attr(unix, expect(unsafe_code, reason = "the C library calls a function in each forked child"))]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use pyo3::prelude::*;

use crate::errors::locked;

/// The number of forks between the process that loaded the module and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Returns the number of forks between the process that loaded the module and this one.
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Makes the C library count each fork in the child, before any code of Python runs there. Does
/// nothing on systems without fork.
pub fn count_forks() -> PyResult<()> {
    #[cfg(unix)]
    {
        extern "C" fn forked() {
            FORKS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: `forked` may run in a child of a process with threads, because it only adds to an
        // atomic number. Python never unloads this library.
        let code = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        if code != 0 {
            return Err(std::io::Error::from_raw_os_error(code).into());
        }
    }
    Ok(())
}

/// A value and its lock.
#[derive(Debug)]
pub struct ForkLock<T> {
    lock: RwLock<T>,
    /// The number of forks at the last check, times 4, plus the state that the check found.
    checked: AtomicU64,
}

/// No thread of another process holds the lock.
const FREE: u64 = 0;
/// A thread of this process tries the lock.
const CHECKING: u64 = 1;
/// At the fork, other threads held the lock for reading.
const WAS_READ: u64 = 2;
/// At the fork, another thread held the lock for writing, or waited for it.
const WAS_WRITTEN: u64 = 3;

impl<T> ForkLock<T> {
    pub fn new(value: T) -> Self {
        Self { lock: RwLock::new(value), checked: AtomicU64::new(u64::from(forks()) * 4 + FREE) }
    }

    /// Locks the value for reading. The caller must take no lock inside the value, because another
    /// thread of the parent may have held it at the fork.
    ///
    /// # Errors
    /// Raises `LockedError` in a forked child if another thread changed the value at the fork.
    pub fn read(&self) -> PyResult<RwLockReadGuard<'_, T>> {
        if self.state() == WAS_WRITTEN {
            Err(used())
        } else {
            Ok(self.lock.read().unwrap_or_else(PoisonError::into_inner))
        }
    }

    /// Locks the value for reading. The caller may take locks inside the value.
    ///
    /// # Errors
    /// Raises `LockedError` in a forked child if another thread used the value at the fork.
    pub fn read_inside(&self) -> PyResult<RwLockReadGuard<'_, T>> {
        if self.state() == FREE { self.read() } else { Err(used()) }
    }

    /// Locks the value for writing.
    ///
    /// # Errors
    /// Raises `LockedError` in a forked child if another thread used the value at the fork.
    pub fn write(&self) -> PyResult<RwLockWriteGuard<'_, T>> {
        if self.state() == FREE { Ok(self.lock.write().unwrap_or_else(PoisonError::into_inner)) } else { Err(used()) }
    }

    /// Locks the value for writing if no other thread uses it, and returns `None` otherwise.
    ///
    /// # Errors
    /// Raises `LockedError` as [`read`](Self::read) does.
    pub fn try_write(&self) -> PyResult<Option<RwLockWriteGuard<'_, T>>> {
        match self.state() {
            WAS_WRITTEN => Err(used()),
            FREE => Ok(match self.lock.try_write() {
                Ok(guard) => Some(guard),
                Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            }),
            _ => Ok(None),
        }
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of the lock in this process. The first call in a process tries the lock.
    /// No thread of this process has used the lock before.
    fn state(&self) -> u64 {
        let here = u64::from(forks()) * 4;
        loop {
            let checked = self.checked.load(Ordering::Acquire);
            match checked.wrapping_sub(here) {
                state @ (FREE | WAS_READ | WAS_WRITTEN) => return state,
                CHECKING => std::thread::yield_now(),
                _ => {
                    let mine =
                        self.checked.compare_exchange(checked, here + CHECKING, Ordering::AcqRel, Ordering::Acquire);
                    if mine.is_ok() {
                        self.checked.store(here + self.tried(), Ordering::Release);
                    }
                }
            }
        }
    }

    fn tried(&self) -> u64 {
        if !matches!(self.lock.try_write(), Err(TryLockError::WouldBlock)) {
            FREE
        } else if !matches!(self.lock.try_read(), Err(TryLockError::WouldBlock)) {
            WAS_READ
        } else {
            WAS_WRITTEN
        }
    }
}

fn used() -> PyErr {
    locked(
        "another thread of the parent process used the filter at the fork, so this process cannot use it; make or open \
         the filter in this process, or fork while no thread uses the filter"
            .to_owned(),
    )
}
