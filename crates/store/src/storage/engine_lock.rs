//! Detects the locks of other engines. LevelDB and RocksDB lock their `LOCK` file with `fcntl`,
//! which `flock` ignores.
//!
//! The store checks for such a lock but takes none itself, for two reasons:
//! * When a process closes any descriptor of a file, the kernel drops all `fcntl` locks of the
//!   process on that file. A failed second open of the store would thus release the lock of the
//!   first open.
//! * On NFS, `flock` is an `fcntl` lock too, so the store's two locks would exclude each other.

use std::fs::File;
use std::io;

/// Returns whether another process holds an `fcntl` lock on a file. Call this function before
/// `flock`: on NFS it could otherwise report the store's own lock.
#[cfg(unix)]
pub(super) fn is_held(file: &File) -> io::Result<bool> {
    use rustix::io::Errno;
    use rustix::process::{Flock, FlockType, fcntl_getlk};
    match fcntl_getlk(file, &Flock::from(FlockType::WriteLock)) {
        Ok(blocking) => Ok(blocking.is_some()),
        // On a file system without `fcntl` locks, no engine can hold one.
        Err(Errno::NOSYS | Errno::NOTSUP | Errno::INVAL | Errno::NOLCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Always returns `false`. On Windows, opening the lock file of a running engine already fails.
#[cfg(not(unix))]
pub(super) fn is_held(_file: &File) -> io::Result<bool> {
    Ok(false)
}
